/* src/cli/verify/verify_judge.c: the reference and its window; cases are in verify_case.c. */
#include "cli/verify/verify_judge_private.h"

#include <stdlib.h>

enum belfry_err verify_judge_create(const struct verify_judge_opts *opts, struct verify_judge **out)
{
    struct verify_judge *judge = calloc(1, sizeof(*judge));
    if (judge == NULL)
        return BELFRY_ERR_NOMEM;
    judge->opts = *opts;
    judge->first = 1;
    *out = judge;
    return BELFRY_OK;
}

void verify_judge_destroy(struct verify_judge *judge)
{
    if (judge == NULL)
        return;
    while (judge->cases != NULL)
        verify_case_close(judge->cases);
    verify_window_fini(&judge->window);
    free(judge);
}

const struct verify_numbers *verify_judge_numbers(const struct verify_judge *judge)
{
    return &judge->numbers;
}

static void settle_all(struct verify_judge *judge)
{
    for (struct verify_case *c = judge->cases; c != NULL; c = c->next)
        verify_case_settle(c);
}

void verify_judge_begin(struct verify_judge *judge, int64_t first)
{
    judge->numbers.n_gaps += judge->told;
    judge->told = false;
    while (judge->window.first != judge->window.next)
        verify_window_drop(&judge->window);
    judge->missing = judge->asked = (struct verify_prev){.rev = 0};
    judge->first = first;
    judge->head = first - 1;
    for (struct verify_case *c = judge->cases; c != NULL; c = c->next) {
        c->at = judge->window.next;
        c->judged_from = first;
    }
    settle_all(judge);
}

/* The oldest leaves the window; who has not been given it by now is not judged for it. */
static void drop_oldest(struct verify_judge *judge)
{
    for (struct verify_case *c = judge->cases; c != NULL; c = c->next)
        verify_case_pass(c, judge->window.first);
    judge->first = verify_window_at(&judge->window, judge->window.first)->rev + 1;
    verify_window_drop(&judge->window);
}

enum belfry_err verify_judge_reference(struct verify_judge *judge, struct verify_rev *rev)
{
    int64_t at = rev->rev;
    if (verify_window_add(&judge->window, rev) != BELFRY_OK)
        return BELFRY_ERR_NOMEM;
    judge->numbers.n_revisions++;
    judge->told = true;
    verify_judge_reference_at(judge, at);
    while (judge->window.bytes > judge->opts.window_bytes && judge->window.next - judge->window.first > 1)
        drop_oldest(judge);
    return BELFRY_OK;
}

void verify_judge_reference_at(struct verify_judge *judge, int64_t rev)
{
    if (rev > judge->head)
        judge->head = rev;
    settle_all(judge);
}

void verify_judge_cluster_at(struct verify_judge *judge, int64_t rev, int64_t asked_us)
{
    for (struct verify_case *c = judge->cases; c != NULL; c = c->next)
        verify_case_cluster_at(c, rev, asked_us);
}

void verify_judge_excuse(struct verify_judge *judge, int64_t now_us)
{
    judge->excused_us = now_us;
}

void verify_judge_end(struct verify_judge *judge, int64_t rev, int64_t now_us)
{
    for (struct verify_case *c = judge->cases; c != NULL; c = c->next)
        verify_case_end(c, rev, now_us);
}

/* ---- previous values that are missing ---- */

int64_t verify_judge_ask_prev(struct verify_judge *judge)
{
    if (judge->missing.rev == 0 || judge->asked.rev != 0)
        return 0;
    judge->asked = judge->missing;
    judge->missing.rev = 0;
    return judge->asked.rev;
}

void verify_judge_answer_prev(struct verify_judge *judge, enum verify_compacted answer)
{
    struct verify_prev *asked = &judge->asked;
    if (asked->rev == 0) /* the reference has begun anew meanwhile */
        return;
    if (answer == VERIFY_READABLE)
        verify_prev_blame(asked, judge->opts.blame, judge->opts.user);
    if (answer == VERIFY_NOBODY_KNOWS && judge->missing.rev < asked->rev)
        judge->missing = *asked;
    if (answer != VERIFY_NOBODY_KNOWS && judge->missing.rev <= asked->rev)
        judge->missing.rev = 0; /* the answer is true of all before it */
    asked->rev = 0;
}

bool verify_judge_doubts_prev(const struct verify_judge *judge)
{
    return judge->missing.rev != 0 || judge->asked.rev != 0;
}

/* ---- what it knows ---- */

int64_t verify_judge_first(const struct verify_judge *judge)
{
    return judge->first;
}

int64_t verify_judge_head(const struct verify_judge *judge)
{
    return judge->head;
}

const struct verify_event *verify_judge_pick(const struct verify_judge *judge, uint64_t number)
{
    uint64_t n = judge->window.next - judge->window.first;
    if (n == 0)
        return NULL;
    const struct verify_rev *rev = verify_window_at(&judge->window, judge->window.first + number % n);
    return rev->n == 0 ? NULL : &rev->events[number / n % rev->n];
}
