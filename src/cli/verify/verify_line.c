/* src/cli/verify/verify_line.c */
#include "cli/verify/verify_line.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/one_call.h"
#include "judge/judge_rev.h"

static void on_log(enum belfry_level level, const char *event, const char *text, void *user)
{
    struct verify_line *line = user;
    line->n_unreadable += strcmp(event, "watch_unreadable") == 0;
    line->n_early += strcmp(event, "progress_early") == 0;
    if (line->debug)
        session_write_log(level, event, text, NULL);
}

void verify_line_listen(struct verify_line *line)
{
    belfry_set_log(line->b, line->debug ? BELFRY_DEBUG : BELFRY_WARN, on_log, line);
}

static void blame_all(const struct verify_line *line, struct judge_violation *violation, uint64_t n, const char *what,
                      judge_blame_fn blame, void *user)
{
    char came[JUDGE_TEXT];
    if (n == 0)
        return;
    snprintf(came, sizeof(came), "%" PRIu64 " %s, to this watcher or the next on its connection", n, what);
    violation->came = came;
    violation->watcher = line->watcher;
    blame(violation, user);
}

void verify_line_look(struct verify_line *line, int64_t rev, judge_blame_fn blame, void *user)
{
    uint64_t n_stale = belfry_get_stats(line->b)->stale_events;
    struct judge_violation again = {
        .property = JUDGE_UNIQUE, .rev = rev, .expected = "each event once, and none before the start"};
    struct judge_violation back = {
        .property = JUDGE_ORDERED, .rev = rev, .expected = "the events of a response from older to newer"};
    struct judge_violation early = {
        .property = JUDGE_PROGRESS, .rev = rev, .expected = "progress behind the events up to it"};
    blame_all(line, &again, n_stale - line->n_stale_told, "events again, or too early", blame, user);
    blame_all(line, &back, line->n_unreadable - line->n_unreadable_told,
              "responses that go back, or cannot be read, and were asked for anew", blame, user);
    blame_all(line, &early, line->n_early - line->n_early_told, "times progress that events at or below it followed",
              blame, user);
    line->n_stale_told = n_stale;
    line->n_early_told = line->n_early;
    line->n_unreadable_told = line->n_unreadable;
}
