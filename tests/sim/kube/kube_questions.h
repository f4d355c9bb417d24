/* tests/sim/kube/kube_questions.h
 *
 * kube_questions: those who ask the follower whether it has everything that etcd has (resource_prove()), and whether
 * the answers are right. An answer is right if the state that the log shows then is one that etcd had at some time
 * since the question.
 *
 * An answer soon after etcd was restored is not judged: until the servers begin anew, they do not know of it.
 *
 * Thread: the one thread of the simulator.
 */
#ifndef BELFRY_SIM_KUBE_QUESTIONS_H
#define BELFRY_SIM_KUBE_QUESTIONS_H

#include "sim/kube/kube_judge.h"

#define KUBE_QUESTIONS 32

struct kube_question {
    uint64_t number; /* of the proof; 0: none */
    uint64_t asked_ms;
    unsigned past; /* etcd's */
    int64_t revision;
};

struct kube_questions {
    struct kube_question open[KUBE_QUESTIONS];
    uint64_t proven, failed; /* answers so far */
};

void kube_questions_forget(struct kube_questions *questions); /* the follower was killed */

/* Asks, unless too many wait. */
void kube_questions_ask(struct kube_questions *questions, struct resource_follow *follow, struct kube_history *history,
                        uint64_t now_ms);

/* The follower answers proof `number`. The judge has read the log. */
void kube_questions_answer(struct kube_questions *questions, const struct kube_judge *judge, uint64_t number,
                           int64_t rv, uint64_t now_ms);

#endif
