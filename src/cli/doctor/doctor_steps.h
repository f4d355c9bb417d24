/* src/cli/doctor/doctor_steps.h
 *
 * doctor_steps: the steps of belfryctl doctor in their order, each a judgement of facts.
 *
 * A step needs others: if one of these failed or was skipped, it is skipped. If a step is spoiled by others, it is
 * skipped only if one of them failed. What a client would stumble over first comes first, and what is wrong with the
 * tier itself comes before its consequences for clients.
 *
 * Thread: any. Pure: no clock, no socket.
 */
#ifndef BELFRY_CLI_DOCTOR_DOCTOR_STEPS_H
#define BELFRY_CLI_DOCTOR_DOCTOR_STEPS_H

#include "cli/doctor/doctor_facts.h"

enum doctor_result {
    DOCTOR_OK,
    DOCTOR_WARN,
    DOCTOR_FAIL,
    DOCTOR_SKIP, /* it cannot be judged */
    DOCTOR_NONE  /* there is nothing to judge: no line */
};

struct doctor_verdict {
    enum doctor_result result;
    char what[DOCTOR_TEXT * 2]; /* what was found; "": nothing to add */
    char remedy[DOCTOR_TEXT];   /* what to do; "": nothing */
};

enum doctor_step_id {
    STEP_NAME,
    STEP_CONNECT,
    STEP_TLS,
    STEP_CERTIFICATE,
    STEP_TIER,
    STEP_DISK,
    STEP_UPSTREAM,
    STEP_RESOURCES,
    STEP_REPLICA,
    STEP_LAG,
    STEP_CLOCK,
    STEP_DESCRIPTORS,
    STEP_POOLS,
    STEP_AUTH,
    STEP_READY,
    STEP_SCOPE,
    STEP_IDENTITY,
    STEP_RIGHTS,
    STEP_ADVERTISE,
    STEP_MEMBERS,
    STEP_VERSIONS,
    STEP_WRITE,
    N_STEPS
};

struct doctor_step {
    const char *name;
    unsigned needs, spoiled; /* bits 1u << step */
    void (*judge)(const struct doctor_facts *facts, struct doctor_verdict *out);
    bool (*wanted)(const struct doctor_facts *facts); /* false: the command does not ask for it. NULL: it always does */
};

extern const struct doctor_step doctor_steps[N_STEPS];

/* Does the step run? `results` are those of the steps before it. */
enum doctor_run { DOCTOR_RUNS, DOCTOR_SKIPPED, DOCTOR_NOT_WANTED };
enum doctor_run doctor_runs(enum doctor_step_id step, const struct doctor_facts *facts,
                            const enum doctor_result *results);

/* Judges the step, if it runs. */
void doctor_judge(enum doctor_step_id step, const struct doctor_facts *facts, const enum doctor_result *results,
                  struct doctor_verdict *out);

const char *doctor_result_name(enum doctor_result result); /* "ok", "warn", "fail", "skip" */

#endif
