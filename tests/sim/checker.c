/* tests/sim/checker.c */
#include "sim/checker.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/checker_private.h"

void *checker_alloc(size_t size)
{
    void *p = calloc(1, size);
    if (p == NULL)
        abort();
    return p;
}

/* ---- violations ---- */

static void keep(struct checker *checker, const char *text)
{
    if (checker->n_violations < CHECKER_KEPT_MAX && (checker->kept[checker->n_violations] = strdup(text)) == NULL)
        abort();
    checker->n_violations++;
    if (checker->opts.violation != NULL)
        checker->opts.violation(checker->opts.user, text);
}

void checker_report(struct checker *checker, const char *format, ...)
{
    char text[CHECKER_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    keep(checker, text);
}

/* ---- the checker ---- */

struct checker *checker_create(const struct history *history, const struct checker_opts *opts)
{
    struct checker *checker = checker_alloc(sizeof(*checker));
    checker->history = history;
    checker->opts = *opts;
    belfry_list_init(&checker->streams);
    return checker;
}

void checker_destroy(struct checker *checker)
{
    if (checker == NULL)
        return;
    checker->opts.trace = NULL; /* nobody needs to hear of what is left */
    while (!belfry_list_empty(&checker->streams))
        checker_stream_close(belfry_container(checker->streams.next, struct checker_stream, node));
    for (size_t i = 0; i < CHECKER_KEPT_MAX; i++)
        free(checker->kept[i]);
    free(checker->rewrites.all);
    free(checker->capped.all);
    free(checker->events);
    free(checker);
}

bool checker_revs_have(const struct checker_revs *revs, int64_t rev)
{
    for (size_t i = 0; i < revs->n; i++) {
        if (revs->all[i] == rev)
            return true;
    }
    return false;
}

static void checker_revs_add(struct checker_revs *revs, int64_t rev)
{
    if (revs->n == revs->room) {
        revs->room = revs->room == 0 ? 16 : revs->room * 2;
        revs->all = realloc(revs->all, revs->room * sizeof(revs->all[0]));
        if (revs->all == NULL)
            abort();
    }
    revs->all[revs->n++] = rev;
}

void checker_listed(struct checker *checker, const struct evlog_cut *cut, uint64_t oldest_past)
{
    if (cut->why == EVLOG_CUT_REWRITTEN || oldest_past < cut->rewritten)
        checker_revs_add(&checker->rewrites, cut->rev);
    if (cut->rev > checker->highest_listing)
        checker->highest_listing = cut->rev;
}

void checker_capped(struct checker *checker, int64_t rev)
{
    if (!checker_revs_have(&checker->capped, rev))
        checker_revs_add(&checker->capped, rev);
}

bool checker_finish(struct checker *checker)
{
    belfry_list_each (node, &checker->streams)
        checker_stream_finish(belfry_container(node, struct checker_stream, node));
    return checker->n_violations == 0;
}

size_t checker_violations(const struct checker *checker)
{
    return checker->n_violations;
}

const char *checker_violation(const struct checker *checker, size_t i)
{
    return i < checker->n_violations && i < CHECKER_KEPT_MAX ? checker->kept[i] : NULL;
}

const struct checker_counts *checker_counts(const struct checker *checker)
{
    return &checker->counts;
}
