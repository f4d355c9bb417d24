/* bench/belfry-bench/tally.c */
#include "tally.h"

#include <stdlib.h>

#include "die.h"

#define MAX_NAMED 5 /* losses that are printed one by one */

void tally_init(struct tally *tally, size_t n_watchers)
{
    *tally = (struct tally){.n_watchers = n_watchers};
    tally->rows = must_have(calloc(n_watchers, sizeof(*tally->rows)));
}

void tally_fini(struct tally *tally)
{
    free(tally->rows);
    *tally = (struct tally){0};
}

void tally_restart(struct tally *tally)
{
    for (size_t i = 0; i < tally->n_watchers; i++) {
        tally->rows[i].events = 0;
        tally->rows[i].gap_after = 0;
    }
    tally->events = tally->doubled = 0;
}

void tally_doubled(struct tally *tally, size_t watcher, int64_t rev)
{
    if (tally->doubled++ > 0)
        return;
    tally->doubled_watcher = watcher;
    tally->doubled_rev = rev;
    tally->doubled_last = tally->rows[watcher].last_rev;
}

static void name(size_t watcher, size_t per_connection, size_t per_stream, FILE *out)
{
    fprintf(out, "connection %zu stream %zu watch %zu", watcher / per_connection, watcher % per_connection / per_stream,
            watcher % per_stream);
}

/* What a put has to name to concern this watcher. */
static uint32_t named_by(const struct tally_puts *puts, size_t watcher)
{
    return puts->range_of != NULL ? puts->range_of[watcher] : (uint32_t)watcher;
}

/* The first revision of `puts` above `rev`; 0 when there is none. */
static int64_t first_above(const struct tally_puts *puts, size_t watcher, int64_t rev)
{
    for (size_t i = 0; i < puts->n_puts; i++)
        if (puts->revs[i] > rev && (puts->watchers == NULL || puts->watchers[i] == named_by(puts, watcher)))
            return puts->revs[i];
    return 0;
}

/* Behind the gap or behind the last; else it was the first of all. Exact when the puts' revisions are consecutive (a
 * gap may be others' writes too); for puts of many watchers the first that came behind the gap. */
static int64_t first_lost(const struct tally_row *row, const struct tally_puts *puts, size_t watcher)
{
    if (row->events == 0)
        return first_above(puts, watcher, 0);
    if (row->gap_after != 0)
        return first_above(puts, watcher, row->gap_after);
    int64_t behind = first_above(puts, watcher, row->last_rev);
    return behind != 0 ? behind : first_above(puts, watcher, 0);
}

/* Puts that concern each watcher. */
static uint32_t *expected(const struct tally *tally, const struct tally_puts *puts)
{
    size_t n_named = puts->range_of != NULL ? puts->n_ranges : tally->n_watchers;
    uint32_t *named = must_have(calloc(n_named, sizeof(*named)));
    uint32_t *counts = must_have(calloc(tally->n_watchers, sizeof(*counts)));
    for (size_t i = 0; puts->watchers != NULL && i < puts->n_puts; i++)
        named[puts->watchers[i]]++;
    for (size_t i = 0; i < tally->n_watchers; i++)
        counts[i] = puts->watchers == NULL ? (uint32_t)puts->n_puts : named[named_by(puts, i)];
    free(named);
    return counts;
}

uint64_t tally_wanted(const struct tally *tally, const struct tally_puts *puts)
{
    uint64_t wanted = 0;
    uint32_t *counts = expected(tally, puts);
    for (size_t i = 0; i < tally->n_watchers; i++)
        wanted += counts[i];
    free(counts);
    return wanted;
}

uint64_t tally_judge(const struct tally *tally, const struct tally_puts *puts, size_t per_connection, size_t per_stream,
                     FILE *out)
{
    uint64_t lost = 0;
    size_t named = 0;
    uint32_t *counts = expected(tally, puts);
    for (size_t i = 0; i < tally->n_watchers; i++) {
        const struct tally_row *row = &tally->rows[i];
        if (row->events >= counts[i])
            continue;
        lost += counts[i] - row->events;
        if (named++ >= MAX_NAMED)
            continue;
        fputs("lost: ", out);
        name(i, per_connection, per_stream, out);
        fprintf(out, " has %u of %u events; the first missing has revision %lld\n", row->events, counts[i],
                (long long)first_lost(row, puts, i));
    }
    if (named > MAX_NAMED)
        fprintf(out, "lost: and %zu watchers more\n", named - MAX_NAMED);
    if (tally->doubled > 0) {
        fputs("doubled: ", out);
        name(tally->doubled_watcher, per_connection, per_stream, out);
        fprintf(out, " got revision %lld after %lld; %llu such\n", (long long)tally->doubled_rev,
                (long long)tally->doubled_last, (unsigned long long)tally->doubled);
    }
    free(counts);
    return lost;
}
