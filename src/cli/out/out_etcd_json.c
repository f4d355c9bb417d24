/* src/cli/out/out_etcd_json.c */
#include "cli/out/out_etcd_json.h"

#include <inttypes.h>
#include <string.h>

#include "cli/out/out_json.h"

/* "name":value, with a comma before all but the first; nothing for zero. */
static void write_number(FILE *out, const char **comma, const char *name, int64_t number)
{
    if (number == 0)
        return;
    fprintf(out, "%s\"%s\":%" PRId64, *comma, name, number);
    *comma = ",";
}

static void write_id(FILE *out, const char **comma, const char *name, uint64_t id)
{
    if (id == 0)
        return;
    fprintf(out, "%s\"%s\":%" PRIu64, *comma, name, id);
    *comma = ",";
}

static void write_bytes(FILE *out, const char **comma, const char *name, struct belfry_bytes bytes)
{
    if (bytes.len == 0)
        return;
    fprintf(out, "%s\"%s\":", *comma, name);
    json_base64(out, bytes);
    *comma = ",";
}

static void write_header_fields(FILE *out, const struct belfry_header *header)
{
    const char *comma = "";
    write_id(out, &comma, "cluster_id", header->cluster_id);
    write_id(out, &comma, "member_id", header->member_id);
    write_number(out, &comma, "revision", header->revision);
    write_id(out, &comma, "raft_term", header->raft_term);
}

void etcd_json_header(FILE *out, const char *name, const struct belfry_header *header)
{
    fprintf(out, "\"%s\":{", name);
    write_header_fields(out, header);
    fputc('}', out);
}

static void write_kv(FILE *out, const struct belfry_event *kv)
{
    const char *comma = "";
    fputc('{', out);
    write_bytes(out, &comma, "key", kv->key);
    write_number(out, &comma, "create_revision", kv->create_rev);
    write_number(out, &comma, "mod_revision", kv->mod_rev);
    write_number(out, &comma, "version", kv->version);
    write_bytes(out, &comma, "value", kv->value);
    write_number(out, &comma, "lease", kv->lease);
    fputc('}', out);
}

static void write_prev(FILE *out, const struct belfry_event *event)
{
    struct belfry_event prev = {.op = BELFRY_PUT,
                                .key = event->key,
                                .value = event->prev,
                                .create_rev = event->prev_create_rev,
                                .mod_rev = event->prev_mod_rev,
                                .version = event->prev_version,
                                .lease = event->prev_lease};
    fputs(",\"prev_kv\":", out);
    write_kv(out, &prev);
}

static void write_kvs(FILE *out, const char *name, const struct belfry_reply *reply)
{
    const struct belfry_event *kv = belfry_reply_kv(reply, NULL);
    if (kv == NULL)
        return;
    fprintf(out, ",\"%s\":[", name);
    for (const char *comma = ""; kv != NULL; kv = belfry_reply_kv(reply, kv), comma = ",") {
        fputs(comma, out);
        write_kv(out, kv);
    }
    fputc(']', out);
}

/* ---- reads and writes ---- */

static void write_get(FILE *out, const struct belfry_reply *reply)
{
    const char *comma = ",";
    fputc('{', out);
    etcd_json_header(out, "header", &reply->header);
    write_kvs(out, "kvs", reply);
    if (reply->more)
        fputs(",\"more\":true", out);
    write_number(out, &comma, "count", reply->count);
    fputc('}', out);
}

static void write_put(FILE *out, const struct belfry_reply *reply)
{
    fputc('{', out);
    etcd_json_header(out, "header", &reply->header);
    const struct belfry_event *prev = belfry_reply_kv(reply, NULL);
    if (prev != NULL) {
        fputs(",\"prev_kv\":", out);
        write_kv(out, prev);
    }
    fputc('}', out);
}

static void write_del(FILE *out, const struct belfry_reply *reply)
{
    const char *comma = ",";
    fputc('{', out);
    etcd_json_header(out, "header", &reply->header);
    write_number(out, &comma, "deleted", reply->deleted);
    write_kvs(out, "prev_kvs", reply);
    fputc('}', out);
}

void etcd_json_get(FILE *out, const struct belfry_reply *reply)
{
    write_get(out, reply);
    fputc('\n', out);
}

void etcd_json_put(FILE *out, const struct belfry_reply *reply)
{
    write_put(out, reply);
    fputc('\n', out);
}

void etcd_json_del(FILE *out, const struct belfry_reply *reply)
{
    write_del(out, reply);
    fputc('\n', out);
}

static void write_step(FILE *out, enum command command, const struct belfry_reply *reply)
{
    bool put = command == CMD_PUT, del = command == CMD_DEL;
    fprintf(out, "{\"Response\":{\"response_%s\":", put ? "put" : del ? "delete_range" : "range");
    (put ? write_put : del ? write_del : write_get)(out, reply);
    fputs("}}", out);
}

void etcd_json_txn(FILE *out, const struct txn_script *script, const struct belfry_reply *reply)
{
    enum belfry_branch branch = reply->succeeded ? BELFRY_THEN : BELFRY_ELSE;
    const struct belfry_reply *op = belfry_reply_op(reply, NULL);
    fputc('{', out);
    etcd_json_header(out, "header", &reply->header);
    if (reply->succeeded)
        fputs(",\"succeeded\":true", out);
    if (op != NULL)
        fputs(",\"responses\":[", out);
    for (size_t i = 0; op != NULL && i < script->steps[branch].n; op = belfry_reply_op(reply, op)) {
        fputs(i > 0 ? "," : "", out);
        write_step(out, script->steps[branch].list[i++].command, op);
    }
    fputs(belfry_reply_op(reply, NULL) != NULL ? "]}\n" : "}\n", out);
}

/* ---- leases and members: their header's fields stand among their own ---- */

static void begin_flat(FILE *out, const struct belfry_reply *reply)
{
    fputc('{', out);
    write_header_fields(out, &reply->header);
}

void etcd_json_lease_grant(FILE *out, const struct belfry_reply *reply)
{
    begin_flat(out, reply);
    fprintf(out, ",\"ID\":%" PRId64 ",\"TTL\":%" PRId64 ",\"Error\":\"\"}\n", reply->lease, reply->ttl_s);
}

void etcd_json_lease_renewed(FILE *out, const struct belfry_reply *reply)
{
    begin_flat(out, reply);
    fprintf(out, ",\"ID\":%" PRId64 ",\"TTL\":%" PRId64 "}\n", reply->lease, reply->ttl_s);
}

void etcd_json_lease_revoked(FILE *out, const struct belfry_reply *reply)
{
    fputc('{', out);
    etcd_json_header(out, "header", &reply->header);
    fputs("}\n", out);
}

void etcd_json_lease_ttl(FILE *out, const struct belfry_reply *reply)
{
    const struct belfry_bytes *key = belfry_reply_key(reply, NULL);
    begin_flat(out, reply);
    fprintf(out, ",\"id\":%" PRId64 ",\"ttl\":%" PRId64 ",\"granted-ttl\":%" PRId64 ",\"keys\":%s", reply->lease,
            reply->ttl_s, reply->granted_ttl_s, key == NULL ? "null" : "[");
    for (const char *comma = ""; key != NULL; key = belfry_reply_key(reply, key), comma = ",") {
        fputs(comma, out);
        json_base64(out, *key);
    }
    fputs(belfry_reply_key(reply, NULL) != NULL ? "]}\n" : "}\n", out);
}

void etcd_json_leases(FILE *out, const struct belfry_reply *reply)
{
    const char *comma = "";
    begin_flat(out, reply);
    fputs(",\"leases\":[", out);
    for (const int64_t *id = NULL; (id = belfry_reply_lease(reply, id)) != NULL; comma = ",")
        fprintf(out, "%s{\"id\":%" PRId64 "}", comma, *id);
    fputs("]}\n", out);
}

static void write_texts(FILE *out, const char *name, const char *const *texts)
{
    if (*texts == NULL)
        return;
    fprintf(out, ",\"%s\":[", name);
    for (const char *comma = ""; *texts != NULL; texts++, comma = ",") {
        fputs(comma, out);
        json_string(out, (struct belfry_bytes){*texts, strlen(*texts)});
    }
    fputc(']', out);
}

static void write_member(FILE *out, const struct belfry_member *member)
{
    fprintf(out, "{\"ID\":%" PRIu64, member->id);
    if (member->name[0] != '\0') {
        fputs(",\"name\":", out);
        json_string(out, (struct belfry_bytes){member->name, strlen(member->name)});
    }
    write_texts(out, "peerURLs", member->peer_urls);
    write_texts(out, "clientURLs", member->client_urls);
    fputs(member->is_learner ? ",\"isLearner\":true}" : "}", out);
}

void etcd_json_members(FILE *out, const struct belfry_reply *reply)
{
    const char *comma = "";
    fputc('{', out);
    etcd_json_header(out, "header", &reply->header);
    fputs(",\"members\":[", out);
    for (const struct belfry_member *m = NULL; (m = belfry_reply_member(reply, m)) != NULL; comma = ",") {
        fputs(comma, out);
        write_member(out, m);
    }
    fputs("]}\n", out);
}

/* ---- watches ---- */

void etcd_json_watch_begin(struct etcd_json_watch *w, FILE *out, const struct belfry_header *header)
{
    if (w->open)
        return;
    w->header = *header;
    w->open = true;
    w->any = false;
    fputc('{', out);
    etcd_json_header(out, "Header", header);
    fputs(",\"Events\":[", out);
}

void etcd_json_watch_event(struct etcd_json_watch *w, FILE *out, const struct belfry_event *event)
{
    fputs(w->any ? ",{" : "{", out);
    w->any = true;
    fputs(event->op == BELFRY_DELETE ? "\"type\":1,\"kv\":" : "\"kv\":", out);
    write_kv(out, event);
    if (event->prev.data != NULL)
        write_prev(out, event);
    fputc('}', out);
}

static void end(struct etcd_json_watch *w, FILE *out, int64_t compact_rev, const char *canceled)
{
    fprintf(out, "],\"CompactRevision\":%" PRId64 ",\"Canceled\":%s,\"Created\":false}\n", compact_rev, canceled);
    w->open = false;
}

void etcd_json_watch_end(struct etcd_json_watch *w, FILE *out)
{
    if (w->open)
        end(w, out, 0, "false");
}

void etcd_json_watch_compacted(struct etcd_json_watch *w, FILE *out, const struct belfry_header *given,
                               int64_t compact_rev)
{
    etcd_json_watch_end(w, out);
    struct belfry_header header = given->cluster_id != 0 ? *given : w->header;
    header.revision = 0; /* as etcd sends it */
    etcd_json_watch_begin(w, out, &header);
    end(w, out, compact_rev, "true");
}
