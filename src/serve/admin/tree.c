/* src/serve/admin/tree.c */
#include "serve/admin/tree.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "serve/admin/numbers.h"
#include "serve/admin/text.h"
#include "json/json.h"

#define FRESH_MS 2000 /* and HOP_MS per level: an older report says nothing about now */
#define HOP_MS   1000 /* each tier asks the one above once a second */

/* ---- below ---- */

/* The address without its port: a tier's streams come from one host, each from its own port. */
static size_t host_len(const char *peer)
{
    const char *colon = strrchr(peer, ':');
    return colon != NULL ? (size_t)(colon - peer) : strlen(peer);
}

/* By name, then by host. */
static int compare(const struct tree_tier *a, const struct tree_tier *b)
{
    size_t a_len = host_len(a->peer), b_len = host_len(b->peer);
    int order = strcmp(a->name, b->name);
    if (order == 0)
        order = memcmp(a->peer, b->peer, a_len < b_len ? a_len : b_len);
    return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

static int by_tier_and_age(const void *a, const void *b)
{
    const struct tree_tier *x = a, *y = b;
    int order = compare(x, y);
    return order != 0 ? order : (x->since_ms > y->since_ms) - (x->since_ms < y->since_ms);
}

/* Streams become tiers, each as old as the oldest of its streams. */
static void merge(struct tree_below *all)
{
    size_t n = 0;
    qsort(all->tiers, all->n, sizeof(all->tiers[0]), by_tier_and_age);
    for (size_t i = 0; i < all->n; i++) {
        struct tree_tier *tier = n > 0 ? &all->tiers[n - 1] : NULL, *stream = &all->tiers[i];
        if (tier != NULL && compare(tier, stream) == 0) {
            tier->streams += stream->streams;
            tier->position = stream->position > tier->position ? stream->position : tier->position;
        } else if (n < TREE_BELOW) {
            all->tiers[n++] = *stream;
        } else {
            all->more += stream->streams;
        }
    }
    all->n = n;
}

struct tree_below *tree_gather(const struct tier_numbers *numbers)
{
    size_t n = 0;
    for (size_t i = 0; i < numbers->n_workers; i++)
        n += numbers->workers[i].below != NULL ? numbers->workers[i].below->n : 0;
    struct tree_below *all = tree_below_create(n);
    for (size_t i = 0; i < numbers->n_workers && all != NULL; i++) {
        const struct tree_below *below = numbers->workers[i].below;
        for (size_t k = 0; below != NULL && k < below->n; k++)
            tree_below_add(all, &below->tiers[k]);
        all->more += below != NULL ? below->more : 0;
    }
    if (all != NULL)
        merge(all);
    return all;
}

static uint64_t lag_of(int64_t head, int64_t position)
{
    return position > 0 && head > position ? (uint64_t)(head - position) : 0;
}

/* The standing of a level now. A level that is cut off sends no reports, and its last one must not look current.
 * "": etcd, which reports none. */
static const char *standing_name(size_t level, const struct about_level *l)
{
    static const char *const names[] = {
        [ABOUT_UNKNOWN] = "?", [ABOUT_NOT_READY] = "not ready", [ABOUT_READY] = "ready", [ABOUT_STALE] = "stale"};
    if (!about_is_tier(l) && l->standing == ABOUT_UNKNOWN)
        return "";
    return names[l->age_ms > FRESH_MS + HOP_MS * level ? ABOUT_UNKNOWN : l->standing];
}

/* ---- JSON ---- */

static void write_known(struct belfry_json *json, const char *name, const char *text)
{
    if (text[0] != '\0')
        belfry_json_str(json, name, text);
}

static void write_level(struct belfry_json *json, const char *name, size_t level, const struct about_level *l)
{
    belfry_json_open(json, name, '{');
    belfry_json_uint(json, "level", level);
    write_known(json, "name", l->name);
    write_known(json, "version", l->version);
    write_known(json, "endpoint", l->endpoint);
    write_known(json, "standing", standing_name(level, l));
    if (l->revision > 0) {
        belfry_json_int(json, "revision", l->revision);
        belfry_json_uint(json, "lag", l->lag);
    }
    if (l->silent_ms != BELFRY_NEVER)
        belfry_json_uint(json, "silent_ms", l->silent_ms);
    if (l->hop != ABOUT_HOP_UNKNOWN) {
        belfry_json_str(json, "hop", l->hop == ABOUT_HOP_MEASURED ? "measured" : "half_trip");
        belfry_json_uint(json, "hop_us", l->hop_us);
    }
    if (l->hop == ABOUT_HOP_MEASURED)
        belfry_json_uint(json, "hop_error_us", l->hop_error_us);
    belfry_json_uint(json, "age_ms", l->age_ms);
    belfry_json_close(json, '}');
}

static void write_below(struct belfry_json *json, const struct tier_numbers *numbers, const struct tree_below *below,
                        size_t most)
{
    size_t more = below->more, n = below->n < most ? below->n : most;
    belfry_json_open(json, "below", '[');
    for (size_t i = 0; i < n; i++) {
        const struct tree_tier *tier = &below->tiers[i];
        belfry_json_open(json, NULL, '{');
        belfry_json_str(json, "name", tier->name);
        belfry_json_str(json, "peer", tier->peer);
        belfry_json_uint(json, "since_ms", numbers->now_ms > tier->since_ms ? numbers->now_ms - tier->since_ms : 0);
        belfry_json_uint(json, "streams", tier->streams);
        belfry_json_int(json, "position", tier->position);
        belfry_json_uint(json, "lag", lag_of(numbers->about.self.revision, tier->position));
        belfry_json_close(json, '}');
    }
    belfry_json_close(json, ']');
    for (size_t i = n; i < below->n; i++)
        more += below->tiers[i].streams;
    belfry_json_uint(json, "more", more);
}

enum belfry_err tree_write_json(const struct tier_numbers *numbers, size_t most, struct belfry_buf *out)
{
    const struct about *about = &numbers->about;
    struct tree_below *below = tree_gather(numbers);
    if (below == NULL)
        return BELFRY_ERR_NOMEM;
    struct belfry_json json = belfry_json_begin(out);
    belfry_json_open(&json, NULL, '{');
    belfry_json_open(&json, "above", '[');
    for (size_t i = about->n_above; i > 0; i--)
        write_level(&json, NULL, i, &about->above[i - 1]);
    belfry_json_close(&json, ']');
    write_level(&json, "self", 0, &about->self);
    write_below(&json, numbers, below, most);
    belfry_json_close(&json, '}');
    free(below);
    enum belfry_err err = belfry_json_finish(&json);
    return err == BELFRY_OK ? belfry_buf_append(out, "\n", 1) : err;
}

/* ---- text ---- */

static void say_level(struct text *text, size_t level, const struct about_level *l)
{
    char revision[24] = "-", lag[24] = "-", hop[64] = "-", age[24];
    const char *standing = standing_name(level, l);
    snprintf(age, sizeof(age), "%.1f s", (double)l->age_ms / 1000);
    if (l->revision > 0) {
        snprintf(revision, sizeof(revision), "%" PRId64, l->revision);
        snprintf(lag, sizeof(lag), "%" PRIu64, l->lag);
    }
    if (l->hop == ABOUT_HOP_MEASURED)
        snprintf(hop, sizeof(hop), "%.3f ms +- %.3f", (double)l->hop_us / 1000, (double)l->hop_error_us / 1000);
    else if (l->hop == ABOUT_HOP_HALF_TRIP)
        snprintf(hop, sizeof(hop), "%.3f ms (rtt/2)", (double)l->hop_us / 1000);
    text_say(text, "%5zu  %-24s %-18s %-10s %8s %12s %8s  %-22s %s\n", level, l->name[0] != '\0' ? l->name : "?",
             l->version[0] != '\0' ? l->version : "-", standing[0] != '\0' ? standing : "-", age, revision, lag, hop,
             l->endpoint);
}

static void say_below(struct text *text, const struct tier_numbers *numbers, const struct tree_below *below)
{
    text_say(text, "\nbelow: %zu\n", below->n);
    for (size_t i = 0; i < below->n; i++) {
        const struct tree_tier *tier = &below->tiers[i];
        text_say(text, "       %-24s %-30s %12" PRId64 " %8" PRIu64 "\n", tier->name, tier->peer, tier->position,
                 lag_of(numbers->about.self.revision, tier->position));
    }
    if (below->more > 0)
        text_say(text, "       and %zu streams of others\n", below->more);
}

enum belfry_err tree_write_text(const struct tier_numbers *numbers, struct belfry_buf *out)
{
    const struct about *about = &numbers->about;
    struct text text = {.buf = out};
    struct tree_below *below = tree_gather(numbers);
    if (below == NULL)
        return BELFRY_ERR_NOMEM;
    text_say(&text, "%5s  %-24s %-18s %-10s %8s %12s %8s  %-22s %s\n", "level", "name", "version", "standing", "age",
             "revision", "lag", "hop", "endpoint");
    for (size_t i = about->n_above; i > 0; i--)
        say_level(&text, i, &about->above[i - 1]);
    say_level(&text, 0, &about->self);
    say_below(&text, numbers, below);
    free(below);
    return text.err;
}
