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

#define FRESH_MS   2000 /* and one of the next two per level: an older report says nothing about now */
#define HOP_MS     1000 /* each tier asks the one above once a second */
#define HOP_BAD_MS 4000 /* and a level that refuses streams when it is dialled again, after 3 s at most */

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

static const char *const standings[] = {
    [ABOUT_UNKNOWN] = "?", [ABOUT_NOT_READY] = "not ready", [ABOUT_READY] = "ready", [ABOUT_STALE] = "stale"};

/* A level that is cut off sends no reports, and its last one must not look current. */
static bool is_current(size_t level, const struct about_level *l)
{
    return l->age_ms <= FRESH_MS + (l->standing == ABOUT_READY ? HOP_MS : HOP_BAD_MS) * level;
}

/* An etcd, which reports no standing. */
static bool tells_none(const struct about_level *l)
{
    return !about_is_tier(l) && l->standing == ABOUT_UNKNOWN;
}

/* ---- the broken link ---- */

/* `above` is the name of the level above it. "": nothing that a sentence has to say. */
static const struct {
    const char *name, *says, *rest; /* "SAYS above REST" */
} troubles[ABOUT_TROUBLES] = {
    [ABOUT_NO_TROUBLE] = {"", "does not follow", ""},
    [ABOUT_UNREACHABLE] = {"unreachable", "cannot connect to", ""},
    [ABOUT_REFUSED] = {"refused", "is rejected by", ": credentials or rights"},
    [ABOUT_ABOVE_NOT_READY] = {"above_not_ready", "gets no watch from", ", which answers: it has no leader"},
    [ABOUT_SILENT] = {"silent", "hears nothing from", ", which is connected"},
    [ABOUT_CATCHING_UP] = {"catching_up", "catches up with", ""},
    [ABOUT_DISK] = {"disk", "cannot write what it reads from", ": its disk is full or fails"},
    [ABOUT_TOO_OLD] = {"too_old", "does not follow", ": its version is too old"},
    [ABOUT_CIRCLE] = {"circle", "does not follow", ": the tiers are in a circle, or too many"},
};

struct broken {
    const struct about_level *level;
    size_t number;
    const char *above; /* the level above it */
    char says[256];    /* a sentence without its end */
};

/* The highest level that is in trouble, of those up to the first that does not report any more: what is wrong there is
 * wrong for every level below it. False: no level is in trouble. */
static bool find_broken(const struct tier_numbers *numbers, struct broken *out)
{
    const struct about *about = &numbers->about;
    bool found = false;
    for (size_t i = 0; i <= about->n_above; i++) {
        const struct about_level *l = i == 0 ? &about->self : &about->above[i - 1];
        if (!is_current(i, l))
            break;
        if (l->trouble == ABOUT_NO_TROUBLE && l->standing != ABOUT_STALE && l->standing != ABOUT_NOT_READY)
            continue;
        *out = (struct broken){.level = l, .number = i, .above = i < about->n_above ? about->above[i].name : ""};
        snprintf(out->says, sizeof(out->says), "%s %s %s%s", l->name[0] != '\0' ? l->name : "this tier",
                 troubles[l->trouble].says, out->above[0] != '\0' ? out->above : "upstream", troubles[l->trouble].rest);
        found = true;
    }
    return found;
}

/* Of this tier alone there are its own words, with addresses. */
static const char *broken_why(const struct tier_numbers *numbers, const struct broken *broken)
{
    return broken->number == 0 && numbers->upstream_answered ? numbers->upstream.reason : "";
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
    if (!tells_none(l)) {
        bool current = is_current(level, l);
        belfry_json_str(json, "standing", current ? standings[l->standing] : "?");
        if (!current && l->standing != ABOUT_UNKNOWN)
            belfry_json_str(json, "last_standing", standings[l->standing]);
    }
    write_known(json, "trouble", troubles[l->trouble].name);
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

static void write_broken(struct belfry_json *json, const struct tier_numbers *numbers)
{
    struct broken broken;
    if (!find_broken(numbers, &broken))
        return;
    belfry_json_open(json, "broken", '{');
    belfry_json_uint(json, "level", broken.number);
    write_known(json, "name", broken.level->name);
    write_known(json, "above", broken.above);
    if (broken.level->silent_ms != BELFRY_NEVER)
        belfry_json_uint(json, "for_ms", broken.level->silent_ms + broken.level->age_ms);
    belfry_json_str(json, "what", broken.says);
    write_known(json, "why", broken_why(numbers, &broken));
    belfry_json_close(json, '}');
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
    write_broken(&json, numbers);
    write_below(&json, numbers, below, most);
    belfry_json_close(&json, '}');
    free(below);
    enum belfry_err err = belfry_json_finish(&json);
    return err == BELFRY_OK ? belfry_buf_append(out, "\n", 1) : err;
}

/* ---- text ---- */

/* Columns as wide as what is in them, so that a usual tree fits a terminal of 80. */
struct columns {
    int name, version, revision, lag;
};

static const char *version_of(const struct about_level *l)
{
    return about_is_tier(l) ? l->version + strlen("belfryd/") : l->version[0] != '\0' ? l->version : "-";
}

static int widest(int width, int len)
{
    return len > width ? len : width;
}

static void widen(struct columns *w, const struct about_level *l)
{
    w->name = widest(w->name, (int)strlen(l->name));
    w->version = widest(w->version, (int)strlen(version_of(l)));
    w->revision = widest(w->revision, snprintf(NULL, 0, "%" PRId64, l->revision));
    w->lag = widest(w->lag, snprintf(NULL, 0, "%" PRIu64, l->lag));
}

static void say_level(struct text *text, const struct columns *w, size_t level, const struct about_level *l)
{
    char revision[24] = "-", lag[24] = "-", hop[64] = "-", age[24], standing[24] = "-";
    snprintf(age, sizeof(age), "%.1f s", (double)l->age_ms / 1000);
    if (!tells_none(l))
        snprintf(standing, sizeof(standing), "%s%s", standings[l->standing],
                 is_current(level, l) || l->standing == ABOUT_UNKNOWN ? "" : "?");
    if (l->revision > 0) {
        snprintf(revision, sizeof(revision), "%" PRId64, l->revision);
        snprintf(lag, sizeof(lag), "%" PRIu64, l->lag);
    }
    if (l->hop == ABOUT_HOP_MEASURED)
        snprintf(hop, sizeof(hop), "%.3f ms +- %.3f", (double)l->hop_us / 1000, (double)l->hop_error_us / 1000);
    else if (l->hop == ABOUT_HOP_HALF_TRIP)
        snprintf(hop, sizeof(hop), "%.3f ms (rtt/2)", (double)l->hop_us / 1000);
    text_say(text, "%5zu %-*s  %-*s  %-9s %7s  %*s  %*s  %s\n", level, w->name, l->name[0] != '\0' ? l->name : "?",
             w->version, version_of(l), standing, age, w->revision, revision, w->lag, lag, hop);
}

/* "broken: top cannot connect to etcd, for 16.9 s" */
static void say_broken(struct text *text, const struct tier_numbers *numbers)
{
    struct broken broken;
    if (!find_broken(numbers, &broken))
        return;
    const char *why = broken_why(numbers, &broken);
    text_say(text, "\nbroken: %s", broken.says);
    if (broken.level->silent_ms != BELFRY_NEVER)
        text_say(text, ", for %.1f s", (double)(broken.level->silent_ms + broken.level->age_ms) / 1000);
    text_say(text, "\n%s%s%s", why[0] != '\0' ? "        " : "", why, why[0] != '\0' ? "\n" : "");
}

static void say_below(struct text *text, const struct tier_numbers *numbers, const struct tree_below *below)
{
    text_say(text, "\nbelow: %zu\n", below->n);
    for (size_t i = 0; i < below->n; i++) {
        const struct tree_tier *tier = &below->tiers[i];
        text_say(text, "      %-24s %-24s %12" PRId64 " %8" PRIu64 "\n", tier->name, tier->peer, tier->position,
                 lag_of(numbers->about.self.revision, tier->position));
    }
    if (below->more > 0)
        text_say(text, "      and %zu streams of others\n", below->more);
}

enum belfry_err tree_write_text(const struct tier_numbers *numbers, struct belfry_buf *out)
{
    const struct about *about = &numbers->about;
    struct text text = {.buf = out};
    struct columns w = {.name = 4, .version = 7, .revision = 8, .lag = 3};
    struct tree_below *below = tree_gather(numbers);
    if (below == NULL)
        return BELFRY_ERR_NOMEM;
    widen(&w, &about->self);
    for (size_t i = 0; i < about->n_above; i++)
        widen(&w, &about->above[i]);
    text_say(&text, "%5s %-*s  %-*s  %-9s %7s  %*s  %*s  %s\n", "level", w.name, "name", w.version, "version",
             "standing", "age", w.revision, "revision", w.lag, "lag", "hop");
    for (size_t i = about->n_above; i > 0; i--)
        say_level(&text, &w, i, &about->above[i - 1]);
    say_level(&text, &w, 0, &about->self);
    if (about->n_above > 0 && about->above[0].endpoint[0] != '\0')
        text_say(&text, "\nabove: %s by %s\n", about->above[0].name, about->above[0].endpoint);
    say_broken(&text, numbers);
    say_below(&text, numbers, below);
    free(below);
    return text.err;
}
