/* src/serve/rights/auth_revision.h
 *
 * auth_revision: the revision of upstream's auth store, as the newest token says that upstream has issued to this tier.
 * The workers share it, so that a change of roles costs one log-in per tier: the worker that is told to log in does so
 * for all, and reports.
 *
 *     NONE --ask--> ASKING --learn--> KNOWN --outdate--> NONE
 *      ^              `-----fail----> FAILED --its time is up, ask--> ASKING
 *
 * At most one log-in runs at a time, and none begins within AUTH_REVISION_EVERY_MS of the one before, because a
 * password costs upstream some 80 ms of CPU. After failures the pause grows to AUTH_REVISION_PAUSE_MS.
 *
 * Thread: any (a mutex of its own, held for a copy). Pure but for that.
 */
#ifndef BELFRY_SERVE_RIGHTS_AUTH_REVISION_H
#define BELFRY_SERVE_RIGHTS_AUTH_REVISION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define AUTH_REVISION_EVERY_MS 1000
#define AUTH_REVISION_PAUSE_MS 10000
#define AUTH_REVISION_WHY      300

enum auth_revision_state { AUTH_REVISION_NONE, AUTH_REVISION_ASKING, AUTH_REVISION_KNOWN, AUTH_REVISION_FAILED };

enum auth_revision_failure {
    AUTH_REVISION_NOT_LOGGED_IN, /* upstream cannot be reached, or refuses the tier's password: `why` */
    AUTH_REVISION_NO_JWT         /* upstream's tokens are of another kind */
};

struct auth_revision {
    pthread_mutex_t mu;
    /* under mu */
    enum auth_revision_state state;
    uint64_t revision;                  /* KNOWN */
    uint64_t next_ms;                   /* no log-in begins before */
    unsigned failures;                  /* in a row */
    enum auth_revision_failure failure; /* FAILED, as `why` */
    char why[AUTH_REVISION_WHY];
    uint64_t log_ins;
};

void auth_revision_init(struct auth_revision *shared);
void auth_revision_fini(struct auth_revision *shared);

enum auth_revision_answer {
    AUTH_REVISION_HERE,   /* revision */
    AUTH_REVISION_LOG_IN, /* the caller logs in now, and then calls learn or fail */
    AUTH_REVISION_WAIT,   /* ask again at due_ms, or later */
    AUTH_REVISION_REFUSED /* the last log-in failed: failure, why */
};

struct auth_revision_view {
    uint64_t revision, due_ms;
    enum auth_revision_failure failure;
    char why[AUTH_REVISION_WHY];
};

enum auth_revision_answer auth_revision_ask(struct auth_revision *shared, uint64_t now_ms,
                                            struct auth_revision_view *out);

void auth_revision_learn(struct auth_revision *shared, uint64_t revision, uint64_t now_ms);

/* True: this failure is another than the one before, or the first. */
bool auth_revision_fail(struct auth_revision *shared, enum auth_revision_failure failure, const char *why,
                        uint64_t now_ms);

/* Upstream says that a token with this revision is too old. */
void auth_revision_outdate(struct auth_revision *shared, uint64_t revision);

uint64_t auth_revision_log_ins(struct auth_revision *shared); /* that were begun */

#endif
