/* src/judge/judge_recency.c */
#include "judge/judge_recency.h"

#include <stdlib.h>

static int compare_calls(const void *a, const void *b)
{
    const struct judge_answer *x = *(const struct judge_answer *const *)a, *y = *(const struct judge_answer *const *)b;
    return (x->call_ns > y->call_ns) - (x->call_ns < y->call_ns);
}

static int compare_ends(const void *a, const void *b)
{
    const struct judge_answer *x = *(const struct judge_answer *const *)a, *y = *(const struct judge_answer *const *)b;
    return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

/* Walks the answers by call. What has ended before is a prefix of those by end. */
static struct judge_recency_result sweep(const struct judge_answer *answers, const struct judge_answer **by_call,
                                         const struct judge_answer **by_end, size_t n)
{
    struct judge_recency_result result = {0};
    const struct judge_answer *newest = NULL; /* of those that have ended */
    size_t n_ended = 0;
    for (size_t i = 0; i < n; i++) {
        for (; n_ended < n && by_end[n_ended]->end_ns < by_call[i]->call_ns; n_ended++) {
            if (newest == NULL || by_end[n_ended]->rev > newest->rev)
                newest = by_end[n_ended];
        }
        if (newest == NULL || by_call[i]->rev >= newest->rev + by_call[i]->changed)
            continue;
        if (result.n_stale++ == 0) {
            result.stale = (size_t)(by_call[i] - answers);
            result.newer = (size_t)(newest - answers);
        }
    }
    return result;
}

enum belfry_err judge_recency(const struct judge_answer *answers, size_t n, struct judge_recency_result *out)
{
    const struct judge_answer **by_call = calloc(n + 1, sizeof(struct judge_answer *));
    const struct judge_answer **by_end = calloc(n + 1, sizeof(struct judge_answer *));
    enum belfry_err err = by_call != NULL && by_end != NULL ? BELFRY_OK : BELFRY_ERR_NOMEM;
    if (err == BELFRY_OK) {
        for (size_t i = 0; i < n; i++)
            by_call[i] = by_end[i] = &answers[i];
        qsort(by_call, n, sizeof(*by_call), compare_calls);
        qsort(by_end, n, sizeof(*by_end), compare_ends);
        *out = sweep(answers, by_call, by_end, n);
    }
    free(by_call);
    free(by_end);
    return err;
}
