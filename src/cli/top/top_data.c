/* src/cli/top/top_data.c */
#include "cli/top/top_data.h"

#include <stdlib.h>
#include <yyjson.h>

#include "json/json_alc.h"

static uint64_t uint_of(yyjson_val *object, const char *name)
{
    return yyjson_get_uint(yyjson_obj_get(object, name));
}

static int64_t int_of(yyjson_val *object, const char *name)
{
    return yyjson_get_sint(yyjson_obj_get(object, name));
}

static double real_of(yyjson_val *object, const char *name)
{
    return yyjson_get_num(yyjson_obj_get(object, name));
}

static bool bool_of(yyjson_val *object, const char *name)
{
    return yyjson_get_bool(yyjson_obj_get(object, name));
}

static const char *text_of(yyjson_val *object, const char *name)
{
    const char *text = yyjson_get_str(yyjson_obj_get(object, name));
    return text == NULL ? "" : text;
}

/* ---- numbers ---- */

/* Adds the members of one part, an object of the document. */
#define ADD(over, member, name, show, ...) ADD_##show(name)
#define ADD_TOP(name)                      to->name += uint_of(object, #name);
#define ADD_JSON(name)
#define ADD_HIDDEN(name)
#define READ_PART(PART, from, into)                                                                                    \
    do {                                                                                                               \
        yyjson_val *object = (from);                                                                                   \
        __typeof__(into) *to = &(into);                                                                                \
        NUMBERS_##PART(ADD)                                                                                            \
    } while (0)

static void read_upstream(struct top_numbers *n, yyjson_val *upstream)
{
    n->upstream_answered = bool_of(upstream, "answered");
    n->standing = text_of(upstream, "standing");
    n->reason = text_of(upstream, "reason");
    n->endpoint = text_of(upstream, "endpoint");
    n->silent_known = yyjson_obj_get(upstream, "silent_ms") != NULL;
    READ_PART(UPSTREAM, upstream, n->upstream);
    READ_PART(FOLLOWER, yyjson_obj_get(upstream, "follower"), n->follower);
}

static void add_worker(struct top_numbers *n, yyjson_val *worker)
{
    yyjson_val *buckets = yyjson_obj_get(yyjson_obj_get(worker, "latency"), "buckets");
    n->workers++;
    n->workers_answering += bool_of(worker, "answered");
    READ_PART(CORE, yyjson_obj_get(worker, "core"), n->core);
    READ_PART(INBOUND, yyjson_obj_get(worker, "inbound"), n->inbound);
    READ_PART(RELAY, yyjson_obj_get(worker, "relay"), n->relay);
    READ_PART(READS, yyjson_obj_get(worker, "reads"), n->reads);
    for (size_t i = 0; i < TOP_BUCKETS; i++)
        n->latency[i] += yyjson_get_uint(yyjson_arr_get(buckets, i));
}

static void read_troubles(struct top_numbers *n, yyjson_val *pools)
{
    yyjson_val *name, *pool;
    size_t i, max;
    if (pools == NULL) /* an older tier */
        return;
    yyjson_obj_foreach(pools, i, max, name, pool)
    {
        const char *trouble = text_of(pool, "trouble");
        if (trouble[0] != '\0' && n->n_troubles < TOP_POOLS)
            n->troubles[n->n_troubles++] = trouble;
        trouble = text_of(pool, "admin_trouble");
        if (trouble[0] != '\0' && n->n_troubles < TOP_POOLS)
            n->troubles[n->n_troubles++] = trouble;
    }
}

static void read_dialects(struct top_numbers *n, yyjson_val *watchers)
{
    yyjson_val *name, *of;
    size_t i, max;
    if (watchers == NULL) /* an older tier */
        return;
    yyjson_obj_foreach(watchers, i, max, name, of)
    {
        if (n->n_dialects == TOP_DIALECTS)
            return;
        n->dialects[n->n_dialects].name = yyjson_get_str(name);
        n->dialects[n->n_dialects++].watchers =
            uint_of(of, "synced") + uint_of(of, "catching_up") + uint_of(of, "parked");
    }
}

static void read_rejected(struct top_numbers *n, yyjson_val *rejected)
{
    yyjson_val *reason, *number;
    size_t i, max;
    if (rejected == NULL) /* an older tier */
        return;
    yyjson_obj_foreach(rejected, i, max, reason, number)
    {
        n->rejected += yyjson_get_uint(number);
    }
}

static void read_resources(struct top_numbers *n, yyjson_val *resources)
{
    yyjson_val *resource;
    size_t i, max;
    n->resources.waiting = n->resources.state = "";
    yyjson_arr_foreach(resources, i, max, resource)
    {
        bool is_ready = uint_of(resource, "ready") != 0, is_absent = strcmp(text_of(resource, "state"), "absent") == 0;
        n->resources.n++;
        n->resources.ready += is_ready;
        n->resources.absent += is_absent;
        n->resources.objects += uint_of(resource, "objects");
        n->resources.proofs += uint_of(resource, "proofs");
        if (is_ready || is_absent || n->resources.waiting[0] != '\0')
            continue;
        n->resources.waiting = text_of(resource, "name");
        n->resources.state = text_of(resource, "state");
    }
}

static void read_numbers(struct top_numbers *n, yyjson_val *root)
{
    yyjson_val *worker;
    size_t i, max;
    n->name = text_of(root, "name");
    n->version = text_of(root, "version");
    n->up_ms = uint_of(root, "up_ms");
    n->draining = bool_of(root, "draining");
    n->verdict = text_of(yyjson_obj_get(root, "summary"), "verdict");
    n->why = text_of(yyjson_obj_get(root, "summary"), "why");
    read_upstream(n, yyjson_obj_get(root, "upstream"));
    READ_PART(REPLICA, yyjson_obj_get(root, "replica"), n->replica);
    READ_PART(LOG, yyjson_obj_get(root, "log"), n->log);
    read_resources(n, yyjson_obj_get(root, "resources"));
    read_troubles(n, yyjson_obj_get(root, "pools"));
    read_rejected(n, yyjson_obj_get(yyjson_obj_get(root, "summary"), "rejected"));
    read_dialects(n, yyjson_obj_get(yyjson_obj_get(root, "summary"), "watchers"));
    yyjson_arr_foreach(yyjson_obj_get(root, "workers"), i, max, worker)
    {
        add_worker(n, worker);
    }
    n->synced = n->core.riding - n->core.riding_parked;
    n->catching_up = n->core.waiting + n->core.boarded + n->core.solo;
    n->parked = n->core.stalled + n->core.riding_parked;
}

/* ---- tables ---- */

/* Reads one member of an array, which is an object. */
typedef void (*read_fn)(yyjson_val *from, void *to);

/* Reads all members into a new array, which has room for one more. NULL: no memory. */
static void *read_array(yyjson_val *array, size_t each_bytes, read_fn read, size_t *out_n)
{
    yyjson_val *member;
    size_t i, max;
    char *made = calloc(yyjson_arr_size(array) + 1, each_bytes);
    if (made == NULL)
        return NULL;
    yyjson_arr_foreach(array, i, max, member)
    {
        read(member, made + i * each_bytes);
    }
    *out_n = yyjson_arr_size(array);
    return made;
}

static void read_row(yyjson_val *row, void *to)
{
    struct top_row made = {
        .lag = int_of(row, "lag"), .state = text_of(row, "state"), .dialect = text_of(row, "dialect")};
    made.peer = text_of(row, "peer");
    made.identity =
        text_of(row, yyjson_obj_get(row, "identity") != NULL ? "identity" : "user"); /* user: an older tier */
    made.client = text_of(row, "client");
    made.encoded = yyjson_obj_get(row, "key_b64") != NULL;
    made.key = text_of(row, made.encoded ? "key_b64" : "key");
    made.prefix = bool_of(row, "prefix");
    made.is_span = yyjson_obj_get(row, "range_end") != NULL || yyjson_obj_get(row, "range_end_b64") != NULL;
    made.range_end = text_of(row, "range_end");
    made.resource = text_of(row, "range");
    made.selector = text_of(row, "selector");
    made.sent_bytes = uint_of(row, "sent_bytes");
    made.age_ms = uint_of(row, "age_ms");
    *(struct top_row *)to = made;
}

static struct top_group group_of(yyjson_val *group, const char *label)
{
    return (struct top_group){label, uint_of(group, "watchers"), uint_of(group, "parked"), int_of(group, "max_lag")};
}

static void read_group(yyjson_val *group, void *to)
{
    bool encoded = yyjson_obj_get(group, "group_b64") != NULL;
    *(struct top_group *)to = group_of(group, text_of(group, encoded ? "group_b64" : "group"));
}

static void read_client(yyjson_val *row, void *to)
{
    struct top_client made = {.class = text_of(row, "class"), .memory_bytes = uint_of(row, "memory_bytes")};
    made.name = text_of(row, yyjson_obj_get(row, "client_b64") != NULL ? "client_b64" : "client");
    made.connections = uint_of(row, "connections");
    made.watchers = uint_of(row, "watchers");
    made.calls = uint_of(row, "calls");
    made.cpu_percent = real_of(row, "cpu_percent");
    made.calls_per_s = real_of(row, "calls_per_s");
    made.requests_per_s = real_of(row, "requests_per_s");
    made.bytes_in_per_s = real_of(row, "bytes_in_per_s");
    made.bytes_out_per_s = real_of(row, "bytes_out_per_s");
    *(struct top_client *)to = made;
}

/* Which table it is shows in its members. */
static enum belfry_err read_table(struct top_data *data, yyjson_val *table)
{
    yyjson_val *rows = yyjson_obj_get(table, "rows"), *groups = yyjson_obj_get(table, "groups");
    if (yyjson_obj_get(table, "clients") != NULL) {
        data->table = TOP_CLIENTS;
        data->clients = read_array(rows, sizeof(*data->clients), read_client, &data->n_clients);
        return data->clients != NULL ? BELFRY_OK : BELFRY_ERR_NOMEM;
    }
    if (groups == NULL) {
        data->rows = read_array(rows, sizeof(*data->rows), read_row, &data->n_rows);
        return data->rows != NULL ? BELFRY_OK : BELFRY_ERR_NOMEM;
    }
    data->table = TOP_GROUPS;
    data->groups = read_array(groups, sizeof(*data->groups), read_group, &data->n_groups);
    if (data->groups == NULL)
        return BELFRY_ERR_NOMEM;
    yyjson_val *other = yyjson_obj_get(table, "other");
    if (other != NULL)
        data->groups[data->n_groups++] = group_of(other, NULL);
    return BELFRY_OK;
}

/* ---- both ---- */

static enum belfry_err parse(const char *text, size_t len, yyjson_val **root, void **document)
{
    yyjson_read_err why = {0};
    yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)text, len, YYJSON_READ_NOFLAG, &belfry_json_alc, &why);
    if (doc == NULL)
        return why.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION ? BELFRY_ERR_NOMEM : BELFRY_ERR_PROTOCOL;
    *document = doc;
    *root = yyjson_doc_get_root(doc);
    return yyjson_is_obj(*root) ? BELFRY_OK : BELFRY_ERR_PROTOCOL;
}

enum belfry_err top_data_read(const char *numbers, size_t numbers_len, const char *table, size_t table_len,
                              struct top_data *out)
{
    yyjson_val *one = NULL, *two = NULL;
    *out = (struct top_data){0};
    enum belfry_err err = parse(numbers, numbers_len, &one, &out->documents[0]);
    if (err == BELFRY_OK)
        err = parse(table, table_len, &two, &out->documents[1]);
    if (err != BELFRY_OK)
        return err;
    read_numbers(&out->numbers, one);
    out->watchers = uint_of(two, "watchers");
    out->matched = uint_of(two, "matched");
    return read_table(out, two);
}

void top_data_fini(struct top_data *data)
{
    free(data->rows);
    free(data->groups);
    free(data->clients);
    yyjson_doc_free(data->documents[0]);
    yyjson_doc_free(data->documents[1]);
    *data = (struct top_data){0};
}
