/* src/serve/admin/numbers.c */
#include "serve/admin/numbers.h"

#include "base/clock.h"
#include "json/json.h"

const char *numbers_standing_name(enum driver_standing standing)
{
    switch (standing) {
    case DRIVER_NOT_READY:
        return "not ready";
    case DRIVER_READY:
        return "ready";
    case DRIVER_STALE:
        return "stale";
    }
    return "";
}

const char *numbers_state_name(enum upstream_state state)
{
    switch (state) {
    case UPSTREAM_START:
        return "start";
    case UPSTREAM_JOINING:
        return "joining";
    case UPSTREAM_REPLAYING:
        return "replaying";
    case UPSTREAM_LISTING:
        return "listing";
    case UPSTREAM_LIVE:
        return "live";
    }
    return "";
}

#define UINT(json, from, field) belfry_json_uint(json, #field, (from)->field)

static void write_follower(struct belfry_json *json, const struct upstream_stats *s)
{
    belfry_json_open(json, "follower", '{');
    UINT(json, s, revisions);
    UINT(json, s, events);
    UINT(json, s, overlaps);
    UINT(json, s, listings);
    UINT(json, s, relists_compacted);
    UINT(json, s, relists_rewritten);
    UINT(json, s, relists_unproven);
    UINT(json, s, relists_damaged);
    UINT(json, s, breaches);
    UINT(json, s, judgements);
    UINT(json, s, replays);
    UINT(json, s, windows);
    UINT(json, s, pages);
    UINT(json, s, pages_repeated);
    UINT(json, s, gaps);
    UINT(json, s, stale);
    belfry_json_close(json, '}');
}

static void write_upstream(struct belfry_json *json, const char *name, const struct tier_numbers *numbers)
{
    const struct driver_status *s = &numbers->upstream;
    belfry_json_open(json, name, '{');
    belfry_json_bool(json, "answered", numbers->upstream_answered);
    if (numbers->upstream_answered) {
        belfry_json_str(json, "standing", numbers_standing_name(s->standing));
        belfry_json_str(json, "reason", s->reason);
        belfry_json_str(json, "state", numbers_state_name(s->state));
        belfry_json_str(json, "endpoint", s->endpoint);
        belfry_json_str(json, "version", s->version);
        belfry_json_int(json, "revision", s->revision);
        belfry_json_int(json, "committed", s->committed);
        belfry_json_int(json, "upstream_revision", s->upstream_revision);
        if (s->silent_ms != BELFRY_NEVER)
            UINT(json, s, silent_ms);
        UINT(json, s, past);
        belfry_json_uint(json, "cluster_id", s->identity.cluster_id);
        belfry_json_uint(json, "member_id", s->identity.member_id);
        belfry_json_uint(json, "raft_term", s->identity.raft_term);
        belfry_json_bool(json, "disk_trouble", s->disk_trouble);
        UINT(json, s, connects);
        UINT(json, s, losses);
        UINT(json, s, backfills);
        UINT(json, s, backfills_done);
        UINT(json, s, backfill_revisions);
        UINT(json, s, keys_listed);
        write_follower(json, &s->stats);
    }
    belfry_json_close(json, '}');
}

static void write_replica(struct belfry_json *json, const struct tier_numbers *numbers)
{
    const struct replica_stats *s = &numbers->replica;
    belfry_json_open(json, "replica", '{');
    UINT(json, s, state_rows);
    UINT(json, s, history_rows);
    UINT(json, s, history_bytes);
    UINT(json, s, used_bytes);
    UINT(json, s, map_bytes);
    UINT(json, s, commits);
    UINT(json, s, trimmed);
    UINT(json, s, io_errors);
    UINT(json, s, damages);
    belfry_json_int(json, "history_oldest", numbers->history_oldest);
    belfry_json_int(json, "history_newest", numbers->history_newest);
    UINT(json, numbers, reads);
    UINT(json, numbers, reads_shared);
    UINT(json, numbers, reads_shelved);
    UINT(json, numbers, shelf_bytes);
    belfry_json_close(json, '}');
    belfry_json_open(json, "log", '{');
    belfry_json_int(json, "oldest", numbers->log_oldest);
    belfry_json_int(json, "newest", numbers->log_newest);
    belfry_json_uint(json, "bytes", numbers->log_bytes);
    belfry_json_close(json, '}');
}

static void write_core(struct belfry_json *json, const struct worker_stats *s)
{
    belfry_json_open(json, "core", '{');
    UINT(json, s, streams);
    UINT(json, s, watchers);
    UINT(json, s, nodes);
    UINT(json, s, riding);
    UINT(json, s, waiting);
    UINT(json, s, boarded);
    UINT(json, s, stalled);
    UINT(json, s, solo);
    UINT(json, s, parked);
    UINT(json, s, riding_parked);
    UINT(json, s, bytes);
    UINT(json, s, batches);
    UINT(json, s, deliveries);
    UINT(json, s, written);
    UINT(json, s, fetches);
    UINT(json, s, rows_swept);
    UINT(json, s, handovers);
    UINT(json, s, parks);
    UINT(json, s, unparks);
    UINT(json, s, overslept);
    UINT(json, s, cuts);
    UINT(json, s, extents);
    UINT(json, s, fragments);
    UINT(json, s, packed);
    UINT(json, s, compacted);
    UINT(json, s, progress);
    belfry_json_close(json, '}');
}

static void write_watch(struct belfry_json *json, const struct watch_stats *s)
{
    belfry_json_open(json, "watch", '{');
    UINT(json, s, streams);
    UINT(json, s, asking);
    UINT(json, s, opened);
    UINT(json, s, requests);
    UINT(json, s, creates);
    UINT(json, s, cancels);
    UINT(json, s, progress);
    UINT(json, s, refused);
    belfry_json_open(json, "closed", '{');
    for (int why = 0; why < WATCH_CLOSES; why++)
        belfry_json_uint(json, watch_close_name((enum watch_close)why), s->closed[why]);
    belfry_json_close(json, '}');
    belfry_json_close(json, '}');
}

static void write_inbound(struct belfry_json *json, const struct inbound_stats *s)
{
    belfry_json_open(json, "inbound", '{');
    UINT(json, s, connections);
    UINT(json, s, http1);
    UINT(json, s, http2);
    UINT(json, s, tls);
    UINT(json, s, bytes);
    UINT(json, s, kernel_bytes);
    UINT(json, s, accepted);
    UINT(json, s, closed);
    UINT(json, s, dead);
    UINT(json, s, refused_floods);
    UINT(json, s, bytes_in);
    UINT(json, s, bytes_out);
    UINT(json, s, writes);
    belfry_json_close(json, '}');
}

static void write_calls(struct belfry_json *json, const struct worker_numbers *w)
{
    belfry_json_open(json, "relay", '{');
    UINT(json, &w->relay, running);
    UINT(json, &w->relay, relayed);
    UINT(json, &w->relay, refused);
    UINT(json, &w->relay, failed);
    UINT(json, &w->relay, bytes_up);
    UINT(json, &w->relay, bytes_down);
    belfry_json_close(json, '}');
    belfry_json_open(json, "permit", '{');
    UINT(json, &w->permit, asked);
    UINT(json, &w->permit, granted);
    UINT(json, &w->permit, refused);
    UINT(json, &w->permit, unavailable);
    UINT(json, &w->permit, status_calls);
    belfry_json_close(json, '}');
    belfry_json_open(json, "uplink", '{');
    UINT(json, &w->uplink, calls);
    UINT(json, &w->uplink, connections);
    UINT(json, &w->uplink, opened);
    UINT(json, &w->uplink, connects);
    UINT(json, &w->uplink, losses);
    UINT(json, &w->uplink, unavailable);
    belfry_json_close(json, '}');
}

static void write_kube(struct belfry_json *json, const struct worker_numbers *w)
{
    const struct kube_stats *s = &w->kube;
    const struct kube_lists_stats *lists = &w->kube_lists;
    belfry_json_open(json, "kube", '{');
    UINT(json, s, watches);
    UINT(json, s, held);
    UINT(json, s, opened);
    UINT(json, s, lines);
    UINT(json, s, bookmarks);
    UINT(json, s, expired);
    UINT(json, s, refused);
    UINT(json, s, too_many);
    UINT(json, s, undecodable);
    UINT(json, s, skipped);
    UINT(json, s, forms_made);
    UINT(json, s, forms_shared);
    UINT(json, s, forms_bytes);
    UINT(json, s, bytes);
    UINT(json, s, slow);
    belfry_json_open(json, "lists", '{');
    UINT(json, lists, active);
    UINT(json, lists, waiting);
    UINT(json, lists, lists);
    UINT(json, lists, gets);
    UINT(json, lists, objects);
    UINT(json, lists, bytes);
    UINT(json, lists, expired);
    UINT(json, lists, timeouts);
    UINT(json, lists, undecodable);
    UINT(json, lists, skipped);
    belfry_json_close(json, '}');
    belfry_json_open(json, "fence", '{');
    UINT(json, &w->fence, asked);
    UINT(json, &w->fence, questions);
    UINT(json, &w->fence, failed);
    belfry_json_close(json, '}');
    belfry_json_close(json, '}');
}

static void write_latency(struct belfry_json *json, const struct latency *latency)
{
    belfry_json_open(json, "latency", '{');
    belfry_json_open(json, "buckets", '[');
    for (size_t i = 0; i <= LATENCY_BUCKETS; i++)
        belfry_json_uint(json, NULL, latency->buckets[i]);
    belfry_json_close(json, ']');
    UINT(json, latency, count);
    belfry_json_real(json, "sum_s", latency->sum_s);
    belfry_json_close(json, '}');
}

static void write_worker(struct belfry_json *json, const struct worker_numbers *w)
{
    belfry_json_open(json, NULL, '{');
    belfry_json_bool(json, "answered", w->answered);
    if (w->answered) {
        belfry_json_int(json, "position", w->position);
        UINT(json, w, turns);
        UINT(json, w, longest_turn_us);
        write_core(json, &w->core);
        write_watch(json, &w->watch);
        write_inbound(json, &w->inbound);
        write_calls(json, w);
        write_kube(json, w);
        write_latency(json, &w->latency);
    }
    belfry_json_close(json, '}');
}

enum belfry_err numbers_write(const struct tier_numbers *numbers, struct belfry_buf *out)
{
    struct belfry_json json = belfry_json_begin(out);
    belfry_json_open(&json, NULL, '{');
    belfry_json_str(&json, "name", numbers->name);
    belfry_json_str(&json, "version", numbers->version);
    belfry_json_uint(&json, "up_ms", numbers->now_ms - numbers->started_ms);
    belfry_json_bool(&json, "draining", numbers->draining);
    write_upstream(&json, "upstream", numbers);
    write_replica(&json, numbers);
    belfry_json_open(&json, "listeners", '{');
    UINT(&json, &numbers->listeners, accepted);
    UINT(&json, &numbers->listeners, refused);
    belfry_json_close(&json, '}');
    UINT(&json, numbers, memory_max);
    belfry_json_open(&json, "workers", '[');
    for (size_t i = 0; i < numbers->n_workers; i++)
        write_worker(&json, &numbers->workers[i]);
    belfry_json_close(&json, ']');
    belfry_json_close(&json, '}');
    enum belfry_err err = belfry_json_finish(&json);
    return err == BELFRY_OK ? belfry_buf_append(out, "\n", 1) : err;
}

enum belfry_err numbers_write_upstream(const struct tier_numbers *numbers, struct belfry_buf *out)
{
    struct belfry_json json = belfry_json_begin(out);
    write_upstream(&json, NULL, numbers);
    enum belfry_err err = belfry_json_finish(&json);
    return err == BELFRY_OK ? belfry_buf_append(out, "\n", 1) : err;
}
