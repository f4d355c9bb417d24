/* src/cli/out/live_out.c */
#include "cli/out/live_out.h"

#include <inttypes.h>

#include "cli/out/out_json.h"
#include "cli/out/out_simple.h"

static const char *op_of(const struct belfry_event *event)
{
    return event->op == BELFRY_PUT ? "put" : "del";
}

static void write_row(struct live_out *out, enum belfry_kind kind, int64_t rev, const struct belfry_event *event,
                      const char *when)
{
    const char *op = op_of(event);
    if (event->op == BELFRY_PUT && kind == BELFRY_STATE)
        op = "=";
    else if (event->op == BELFRY_PUT && event->create_rev == event->mod_rev)
        op = "put +";
    table_event(&out->table, out->to, rev, op, event, when);
}

static void write_event(struct live_out *out, const struct belfry_batch *batch, const struct belfry_event *event,
                        const char *when)
{
    int64_t rev = event->mod_rev != 0 ? event->mod_rev : batch->rev; /* what vanished unseen has no revision */
    switch (out->form) {
    case FORM_SIMPLE:
        simple_change(out->to, event, out->table.hex ? SIMPLE_HEX : 0);
        break;
    case FORM_ETCD_JSON:
        etcd_json_watch_event(&out->response, out->to, event);
        break;
    case FORM_LINES:
        json_event_line(out->to, rev, batch->kind == BELFRY_STATE && event->op == BELFRY_PUT ? "state" : op_of(event),
                        event);
        break;
    case FORM_TABLE:
        write_row(out, batch->kind, rev, event, when);
        break;
    }
}

static void write_events(struct live_out *out, const struct belfry_batch *batch)
{
    char clock[TABLE_CLOCK], *when = NULL;
    if (out->form == FORM_TABLE && batch->kind == BELFRY_CHANGES) {
        table_clock(clock);
        when = clock;
    }
    if (out->form == FORM_ETCD_JSON && batch->n_events > 0)
        etcd_json_watch_begin(&out->response, out->to, &batch->header);
    for (const struct belfry_event *event = NULL; (event = belfry_batch_next(batch, event)) != NULL;)
        write_event(out, batch, event, when);
    if (batch->last)
        etcd_json_watch_end(&out->response, out->to);
}

static void count_keys(struct live_out *out, const struct belfry_batch *batch)
{
    for (const struct belfry_event *event = NULL; (event = belfry_batch_next(batch, event)) != NULL;) {
        if (event->op == BELFRY_PUT)
            keyset_add(&out->keys, event->key);
        else
            keyset_remove(&out->keys, event->key);
    }
}

static void write_synced(struct live_out *out, int64_t rev)
{
    int64_t n = keyset_count(&out->keys);
    if (out->form == FORM_LINES && n >= 0)
        fprintf(out->to, "{\"synced\":%" PRId64 ",\"keys\":%" PRId64 "}\n", rev, n);
    else if (out->form == FORM_LINES)
        fprintf(out->to, "{\"synced\":%" PRId64 "}\n", rev);
    else if (out->form == FORM_TABLE && n >= 0)
        fprintf(out->to, "  -- %" PRId64 " key%s at %" PRId64 ", live --\n", n, n == 1 ? "" : "s", rev);
    else if (out->form == FORM_TABLE)
        fprintf(out->to, "  -- all keys at %" PRId64 ", live --\n", rev);
}

static void write_progress(struct live_out *out, const struct belfry_batch *batch)
{
    switch (out->form) {
    case FORM_SIMPLE:
        fprintf(out->to, "progress notify: %" PRId64 "\n", batch->rev);
        break;
    case FORM_ETCD_JSON: /* etcdctl writes both, the first line also among JSON */
        fprintf(out->to, "progress notify: %" PRId64 "\n", batch->rev);
        etcd_json_watch_begin(&out->response, out->to, &batch->header);
        etcd_json_watch_end(&out->response, out->to);
        break;
    case FORM_LINES:
        fprintf(out->to, "{\"progress\":%" PRId64 "}\n", batch->rev);
        break;
    case FORM_TABLE:
        fprintf(out->to, "  -- nothing else up to %" PRId64 " --\n", batch->rev);
        break;
    }
}

void live_out_batch(struct live_out *out, const struct belfry_batch *batch)
{
    if (batch->kind != BELFRY_CHANGES && batch->kind != BELFRY_STATE)
        etcd_json_watch_end(&out->response, out->to); /* the rest of a response that broke off will not come */
    switch (batch->kind) {
    case BELFRY_STATE:
    case BELFRY_CHANGES:
        count_keys(out, batch);
        write_events(out, batch);
        break;
    case BELFRY_SYNCED:
        write_synced(out, batch->rev);
        break;
    case BELFRY_PROGRESS:
        if (out->progress)
            write_progress(out, batch);
        break;
    case BELFRY_END:
        if (out->form == FORM_ETCD_JSON && batch->err == BELFRY_ERR_COMPACTED)
            etcd_json_watch_compacted(&out->response, out->to, &batch->header, batch->compact_rev);
        break;
    case BELFRY_CREATED: /* not asked for */
    case BELFRY_LINK:
        break;
    }
}

void live_out_fini(struct live_out *out)
{
    keyset_fini(&out->keys);
}
