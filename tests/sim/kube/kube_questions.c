/* tests/sim/kube/kube_questions.c */
#include "sim/kube/kube_questions.h"

#include <inttypes.h>

#include "sim/cover.h"
#include "sim/trace.h"
#include "sim/verdict.h"

#define RESTORED_MS 30000 /* after a restore, until all of it is known */

void kube_questions_forget(struct kube_questions *questions)
{
    *questions = (struct kube_questions){.proven = questions->proven, .failed = questions->failed};
}

void kube_questions_ask(struct kube_questions *questions, struct resource_follow *follow, struct kube_history *history,
                        uint64_t now_ms)
{
    for (unsigned i = 0; i < KUBE_QUESTIONS; i++) {
        struct kube_question *question = &questions->open[i];
        if (question->number != 0)
            continue;
        *question = (struct kube_question){.number = resource_prove(follow, i % 4 + 1, now_ms),
                                           .asked_ms = now_ms,
                                           .past = history->n - 1,
                                           .revision = kube_history_now(history)->revision};
        TRACE("fresh", "asked at %" PRId64 ": proof %" PRIu64, question->revision, question->number);
        return;
    }
}

static bool is_judged(const struct kube_question *question, const struct kube_judge *judge)
{
    return question->past == judge->history->n - 1 && judge->at >= judge->audited && judge->partial_rv == 0 &&
           (question->past == 0 || question->asked_ms > judge->servers->restored_ms + RESTORED_MS);
}

/* Etcd had the state of the log at a version from the question's on. */
static bool is_right(const struct kube_question *question, const struct kube_judge *judge)
{
    const struct kube_past *past = &judge->history->pasts[question->past];
    struct kube_state state;
    const struct kube_change *change;
    int64_t rv = question->revision;
    kube_past_state(past, rv, &state);
    while (!kube_state_equal(&state, &judge->mirror)) {
        change = kube_past_after(past, rv);
        if (change == NULL)
            return false;
        rv = change->rv;
        kube_past_state(past, rv, &state);
    }
    return true;
}

void kube_questions_answer(struct kube_questions *questions, const struct kube_judge *judge, uint64_t number,
                           int64_t rv, uint64_t now_ms)
{
    TRACE("fresh", "proof %" PRIu64 ": %" PRId64 ", the log is at %" PRId64, number, rv, judge->at);
    COVER_BY(kube_fresh, rv != 0);
    COVER_BY(kube_unproven, rv == 0);
    questions->proven += rv != 0;
    questions->failed += rv == 0;
    if (rv > judge->at)
        verdict_fail("fresh at %" PRId64 ", and the log ends at %" PRId64, rv, judge->at);
    for (unsigned i = 0; i < KUBE_QUESTIONS; i++) {
        struct kube_question *question = &questions->open[i];
        if (question->number == 0 || question->number > number)
            continue;
        if (rv != 0 && is_judged(question, judge) && !is_right(question, judge))
            verdict_fail("the state at %" PRId64 " is older than a question that was asked at %" PRId64 " %" PRIu64
                         " ms ago",
                         judge->at, question->revision, now_ms - question->asked_ms);
        question->number = 0;
    }
}
