/* src/cli/doctor/doctor_admin.c */
#include "cli/doctor/doctor_admin.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <yyjson.h>

#include "base/clock.h"
#include "base/err.h"
#include "cli/http_get.h"
#include "json/json_alc.h"

#define LOOKS    3 /* at the tree */
#define LOOKS_MS 250

/* ---- values ---- */

static uint64_t uint_of(yyjson_val *object, const char *name)
{
    return yyjson_get_uint(yyjson_obj_get(object, name));
}

static uint64_t uint_or_most(yyjson_val *object, const char *name)
{
    yyjson_val *value = yyjson_obj_get(object, name);
    return yyjson_is_uint(value) ? yyjson_get_uint(value) : UINT64_MAX;
}

static bool bool_of(yyjson_val *object, const char *name)
{
    return yyjson_get_bool(yyjson_obj_get(object, name));
}

static void copy_str(yyjson_val *value, char *out, size_t len)
{
    const char *text = yyjson_get_str(value);
    snprintf(out, len, "%s", text != NULL ? text : "");
}

static void copy_text(yyjson_val *object, const char *name, char *out, size_t len)
{
    copy_str(yyjson_obj_get(object, name), out, len);
}

static enum belfry_err parse(struct belfry_bytes page, yyjson_doc **out)
{
    yyjson_read_err why = {0};
    if (page.len == 0)
        return BELFRY_ERR_PROTOCOL;
    *out = yyjson_read_opts((char *)(uintptr_t)page.data, page.len, YYJSON_READ_NOFLAG, &belfry_json_alc, &why);
    if (*out == NULL)
        return why.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION ? BELFRY_ERR_NOMEM : BELFRY_ERR_PROTOCOL;
    if (yyjson_is_obj(yyjson_doc_get_root(*out)))
        return BELFRY_OK;
    yyjson_doc_free(*out);
    return BELFRY_ERR_PROTOCOL;
}

/* ---- /debug/numbers ---- */

static void read_endpoints(yyjson_val *endpoints, struct doctor_admin *out)
{
    yyjson_val *endpoint;
    size_t i, max;
    char url[BELFRY_ENDPOINT_TEXT], why[DOCTOR_TEXT];
    out->n_endpoints = 0;
    if (endpoints == NULL)
        return;
    yyjson_arr_foreach(endpoints, i, max, endpoint)
    {
        copy_text(endpoint, "url", url, sizeof(url));
        if (out->n_endpoints == DOCTOR_ENDPOINTS ||
            belfry_endpoint_parse(url, strlen(url), &out->endpoints[out->n_endpoints], why, sizeof(why)) != BELFRY_OK)
            continue;
        out->barred[out->n_endpoints++] = bool_of(endpoint, "barred");
    }
}

static void read_upstream(yyjson_val *upstream, struct doctor_admin *out)
{
    out->answered = bool_of(upstream, "answered");
    copy_text(upstream, "standing", out->standing, sizeof(out->standing));
    copy_text(upstream, "reason", out->reason, sizeof(out->reason));
    copy_text(upstream, "endpoint", out->endpoint, sizeof(out->endpoint));
    copy_text(upstream, "disk_why", out->disk_why, sizeof(out->disk_why));
    out->disk_trouble = bool_of(upstream, "disk_trouble");
    out->revision = (int64_t)uint_of(upstream, "revision");
    out->committed = (int64_t)uint_of(upstream, "committed");
    out->upstream_revision = (int64_t)uint_of(upstream, "upstream_revision");
    out->silent_ms = uint_or_most(upstream, "silent_ms");
    read_endpoints(yyjson_obj_get(upstream, "endpoints"), out);
}

/* Only a tier in front of API servers has any. */
static void read_resources(yyjson_val *resources, struct doctor_admin *out)
{
    yyjson_val *resource;
    size_t i, max;
    out->n_resources = yyjson_arr_size(resources);
    out->is_kube = out->n_resources > 0;
    out->n_ready = 0;
    out->resource[0] = out->resource_why[0] = out->resource_hint[0] = '\0';
    yyjson_arr_foreach(resources, i, max, resource)
    {
        if (uint_of(resource, "ready") != 0) {
            out->n_ready++;
            if (out->endpoint[0] == '\0')
                copy_text(resource, "server", out->endpoint, sizeof(out->endpoint));
        } else if (out->resource_why[0] == '\0') {
            copy_text(resource, "name", out->resource, sizeof(out->resource));
            copy_text(resource, "reason", out->resource_why, sizeof(out->resource_why));
            copy_text(resource, "hint", out->resource_hint, sizeof(out->resource_hint));
        }
    }
}

static void read_troubles(yyjson_val *pools, struct doctor_admin *out)
{
    yyjson_val *name, *pool;
    size_t i, max;
    out->n_troubles = 0;
    if (pools == NULL)
        return;
    yyjson_obj_foreach(pools, i, max, name, pool)
    {
        if (yyjson_is_str(yyjson_obj_get(pool, "trouble")) && out->n_troubles < DOCTOR_POOLS)
            copy_text(pool, "trouble", out->troubles[out->n_troubles++], DOCTOR_TEXT);
        if (yyjson_is_str(yyjson_obj_get(pool, "admin_trouble")) && out->n_troubles < DOCTOR_POOLS)
            copy_text(pool, "admin_trouble", out->troubles[out->n_troubles++], DOCTOR_TEXT);
    }
}

static void read_verdict(yyjson_val *summary, struct doctor_admin *out)
{
    yyjson_val *check, *lost = yyjson_arr_get_first(yyjson_obj_get(summary, "warnings"));
    size_t i, max;
    copy_text(summary, "verdict", out->verdict, sizeof(out->verdict));
    copy_text(summary, "why", out->ready_why, sizeof(out->ready_why));
    copy_text(summary, "hint", out->ready_hint, sizeof(out->ready_hint));
    copy_text(lost, "why", out->lost_why, sizeof(out->lost_why));
    copy_text(lost, "hint", out->lost_hint, sizeof(out->lost_hint));
    out->upstream_hint[0] = out->lag_why[0] = out->rights_why[0] = out->rights_hint[0] = '\0';
    yyjson_arr_foreach(yyjson_obj_get(summary, "checks"), i, max, check)
    {
        const char *name = yyjson_get_str(yyjson_obj_get(check, "name"));
        if (name == NULL || bool_of(check, "ok"))
            continue;
        if (strcmp(name, "upstream") == 0) {
            copy_text(check, "hint", out->upstream_hint, sizeof(out->upstream_hint));
        } else if (strcmp(name, "lag") == 0) {
            copy_text(check, "why", out->lag_why, sizeof(out->lag_why));
        } else if (strcmp(name, "rights") == 0) {
            copy_text(check, "why", out->rights_why, sizeof(out->rights_why));
            copy_text(check, "hint", out->rights_hint, sizeof(out->rights_hint));
        }
    }
}

static void read_workers(yyjson_val *workers, struct doctor_admin *out)
{
    yyjson_val *worker;
    size_t i, max;
    out->connections = 0;
    if (workers == NULL)
        return;
    yyjson_arr_foreach(workers, i, max, worker)
    {
        out->connections += uint_of(yyjson_obj_get(worker, "inbound"), "connections");
    }
}

static void read_settings(yyjson_val *root, struct doctor_admin *out)
{
    out->has_settings = yyjson_is_str(yyjson_obj_get(root, "advertise"));
    copy_text(root, "advertise", out->advertise, sizeof(out->advertise));
    copy_str(yyjson_arr_get_first(yyjson_obj_get(root, "scope")), out->scope, sizeof(out->scope));
    out->descriptors = uint_of(root, "descriptors");
    out->disk_free_bytes = uint_or_most(root, "disk_free_bytes");
    out->certificate_left_s = uint_or_most(root, "upstream_certificate_s");
}

enum belfry_err doctor_admin_read_numbers(struct belfry_bytes page, struct doctor_admin *out, uint64_t *out_clock_ms)
{
    yyjson_doc *doc;
    enum belfry_err err = parse(page, &doc);
    if (err != BELFRY_OK)
        return err;
    yyjson_val *root = yyjson_doc_get_root(doc), *upstream = yyjson_obj_get(root, "upstream");
    copy_text(root, "name", out->name, sizeof(out->name));
    copy_text(root, "version", out->version, sizeof(out->version));
    out->up_ms = uint_of(root, "up_ms");
    read_upstream(upstream, out);
    read_resources(yyjson_obj_get(root, "resources"), out);
    read_settings(root, out);
    read_troubles(yyjson_obj_get(root, "pools"), out);
    read_verdict(yyjson_obj_get(root, "summary"), out);
    read_workers(yyjson_obj_get(root, "workers"), out);
    out->refused = uint_of(yyjson_obj_get(root, "listeners"), "refused");
    out->io_errors = uint_of(yyjson_obj_get(root, "replica"), "io_errors");
    out->damages = uint_of(yyjson_obj_get(root, "replica"), "damages");
    *out_clock_ms = uint_of(root, "clock_ms");
    bool is_ours = upstream != NULL && out->version[0] != '\0';
    yyjson_doc_free(doc);
    return is_ours ? BELFRY_OK : BELFRY_ERR_PROTOCOL;
}

/* ---- /debug/tree ---- */

static void read_level(yyjson_val *from, struct doctor_admin *out)
{
    if (out->n_levels == DOCTOR_LEVELS)
        return;
    struct doctor_level *level = &out->levels[out->n_levels++];
    *level = (struct doctor_level){.lag = uint_of(from, "lag"), .hop_us = uint_of(from, "hop_us")};
    copy_text(from, "name", level->name, sizeof(level->name));
    copy_text(from, "version", level->version, sizeof(level->version));
    copy_text(from, "standing", level->standing, sizeof(level->standing));
    level->revision = (int64_t)uint_of(from, "revision");
    level->has_hop = yyjson_obj_get(from, "hop_us") != NULL;
    level->is_guess = yyjson_equals_str(yyjson_obj_get(from, "hop"), "half_trip");
}

enum belfry_err doctor_admin_read_tree(struct belfry_bytes page, struct doctor_admin *out)
{
    yyjson_doc *doc;
    yyjson_val *level;
    size_t i, max;
    enum belfry_err err = parse(page, &doc);
    if (err != BELFRY_OK)
        return err;
    yyjson_val *root = yyjson_doc_get_root(doc), *above = yyjson_obj_get(root, "above");
    out->n_levels = 0;
    yyjson_arr_foreach(above, i, max, level)
    {
        read_level(level, out);
    }
    if (yyjson_is_obj(yyjson_obj_get(root, "self")))
        read_level(yyjson_obj_get(root, "self"), out);
    yyjson_val *broken = yyjson_obj_get(root, "broken");
    out->has_broken = yyjson_is_obj(broken);
    out->broken_level = (size_t)uint_of(broken, "level");
    out->broken_ms = uint_of(broken, "for_ms");
    copy_text(broken, "name", out->broken_name, sizeof(out->broken_name));
    copy_text(broken, "what", out->broken_what, sizeof(out->broken_what));
    yyjson_doc_free(doc);
    return BELFRY_OK;
}

/* ---- /debug/clients, and /readyz of older tiers ---- */

enum belfry_err doctor_admin_read_clients(struct belfry_bytes page, struct doctor_admin *out)
{
    yyjson_doc *doc;
    enum belfry_err err = parse(page, &doc);
    if (err != BELFRY_OK)
        return err;
    yyjson_val *root = yyjson_doc_get_root(doc), *first = yyjson_arr_get_first(yyjson_obj_get(root, "rows"));
    out->n_clients = (size_t)uint_of(root, "clients");
    copy_text(first, "client", out->client, sizeof(out->client));
    out->client_percent = yyjson_get_num(yyjson_obj_get(first, "cpu_percent"));
    yyjson_doc_free(doc);
    return BELFRY_OK;
}

/* An older tier has the verdict in the lines of /readyz only: "[-]lag: 7 s behind (limit 5 s)". */
void doctor_admin_read_ready(struct belfry_bytes page, struct doctor_admin *out)
{
    snprintf(out->verdict, sizeof(out->verdict), "ready");
    out->ready_why[0] = '\0';
    for (const char *line = page.data, *all = page.data + page.len, *end; line < all; line = end + 1) {
        end = memchr(line, '\n', (size_t)(all - line));
        end = end != NULL ? end : all;
        if (end - line <= 3 || memcmp(line, "[-]", 3) != 0)
            continue;
        snprintf(out->verdict, sizeof(out->verdict), "not ready");
        size_t used = strlen(out->ready_why);
        snprintf(out->ready_why + used, sizeof(out->ready_why) - used, "%s%.*s", used > 0 ? "; " : "",
                 (int)(end - line - 3), line + 3);
    }
}

/* ---- asking ---- */

static struct belfry_bytes bytes_of(const struct http_page *page)
{
    return (struct belfry_bytes){page->body, page->len};
}

/* A page without which there is nothing to judge; a sentence is in out->page.why. */
static enum belfry_err ask_numbers(const char *address, int timeout_ms, struct doctor_admin *out)
{
    struct http_page page;
    struct timespec before, after;
    uint64_t clock_ms = 0;
    char why[HTTP_GET_WHY];
    clock_gettime(CLOCK_REALTIME, &before);
    enum belfry_err err = http_get(address, "/debug/numbers", timeout_ms, &page, why);
    clock_gettime(CLOCK_REALTIME, &after);
    if (err != BELFRY_OK) {
        snprintf(out->page.why, sizeof(out->page.why), "%s", why);
        return err;
    }
    err = doctor_admin_read_numbers(bytes_of(&page), out, &clock_ms);
    if (err == BELFRY_ERR_PROTOCOL)
        snprintf(out->page.why, sizeof(out->page.why), "%.128s: the server there is not a belfryd", address);
    http_page_fini(&page);
    int64_t from_ms = before.tv_sec * 1000 + before.tv_nsec / 1000000,
            to_ms = after.tv_sec * 1000 + after.tv_nsec / 1000000;
    out->has_clock = clock_ms > 0;
    out->clock_error_ms = to_ms > from_ms ? (uint64_t)(to_ms - from_ms) / 2 + 1 : 1;
    out->clock_ahead_ms = (int64_t)clock_ms - (from_ms + to_ms) / 2;
    return err;
}

bool doctor_admin_ask_tree(const char *address, int timeout_ms, struct doctor_admin *out)
{
    struct http_page page;
    char why[HTTP_GET_WHY];
    if (http_get(address, "/debug/tree", timeout_ms, &page, why) != BELFRY_OK)
        return false;
    bool read = page.status == 200 && doctor_admin_read_tree(bytes_of(&page), out) == BELFRY_OK;
    http_page_fini(&page);
    return read;
}

/* Of each level the smallest lag that was seen. */
static void ask_levels(const char *address, int timeout_ms, struct doctor_admin *out)
{
    uint64_t least[DOCTOR_LEVELS];
    size_t n = 0;
    for (int look = 0; look < LOOKS; look++) {
        struct timespec pause = {.tv_nsec = LOOKS_MS * 1000000};
        if (look > 0)
            nanosleep(&pause, NULL);
        if (!doctor_admin_ask_tree(address, timeout_ms, out))
            return;
        for (size_t i = 0; i < out->n_levels; i++)
            least[i] = i < n && least[i] < out->levels[i].lag ? least[i] : out->levels[i].lag;
        n = out->n_levels;
    }
    for (size_t i = 0; i < n; i++)
        out->levels[i].lag = least[i];
}

void doctor_admin_ask(const char *address, int timeout_ms, struct doctor_admin *out)
{
    uint64_t began_ns = belfry_clock_ns();
    out->asked = true;
    out->page.err = ask_numbers(address, timeout_ms, out);
    out->page.took_us = (belfry_clock_ns() - began_ns) / 1000;
}

void doctor_admin_ask_more(const char *address, int timeout_ms, struct doctor_admin *out)
{
    struct http_page page;
    char why[HTTP_GET_WHY];
    ask_levels(address, timeout_ms, out);
    if (out->verdict[0] == '\0' && http_get(address, "/readyz?verbose", timeout_ms, &page, why) == BELFRY_OK) {
        doctor_admin_read_ready(bytes_of(&page), out);
        http_page_fini(&page);
    }
    if (http_get(address, "/debug/clients?sort=cpu&limit=1", timeout_ms, &page, why) == BELFRY_OK) {
        belfry_ignore(doctor_admin_read_clients(bytes_of(&page), out)); /* then no client is named */
        http_page_fini(&page);
    }
}
