/* tests/storm/user.h
 *
 * user: a program in normal use: it connects, does its job on its connection, leaves after hours, and comes back. Its
 * job is one of the table below; what the job receives is judged there.
 *
 *     watch    one watch of FEED_PREFIX for hours; progress requests; resumes where it was
 *     churn    one stream with watches that come and go, at times hundreds at once
 *     read     gets and puts, many given up before their answer; bursts; a put over a slow link
 *     lease    leases that are kept alive by a third of their time, always
 *     quiet    a get every few hours, nothing between
 *     once     as a command line: connects, gets, leaves
 *     inform   an informer of Kubernetes: a list, then watches that end by their timeout
 *     page     a reader of Server-Sent Events: the state, then messages; goes on after its last id
 *
 * Thread: owner.
 */
#ifndef BELFRY_STORM_USER_H
#define BELFRY_STORM_USER_H

#include "storm/choices.h"
#include "storm/peer.h"

struct user;

struct user_job {
    const char *name;
    size_t bytes;      /* of its state, zeroed once */
    bool sleeps;       /* nothing is done at night; connections stay */
    uint64_t stays_ms; /* on a connection, about; BELFRY_NEVER: for good */
    uint64_t away_ms;  /* between two connections, at most */
    void (*arrive)(struct user *user);
    void (*act)(struct user *user); /* next_ms has come; sets it */
    void (*data)(struct user *user, struct peer_call *call);
    void (*end)(struct user *user, struct peer_call *call);
};

extern const struct user_job job_watch, job_churn, job_read, job_lease, job_quiet, job_once, job_inform, job_page;

/* What all users did, so that a driver can see whether a day had anything in it. */
struct user_tally {
    uint64_t connects, events, progress, watches, gets, puts, given_up, kept_alive, objects, lists, pings, curls,
        interrupted, pages, changes;
};

struct user {
    struct peer peer;
    const struct user_job *job;
    void *state; /* the job's; owned */
    size_t door;
    struct client_address address;
    const char *token; /* NULL: none */
    struct choices *choices;
    struct user_tally *tally;
    uint64_t next_ms, leave_ms;
    bool wants_to_leave;
    bool is_busy;   /* with something that does not wait for the morning: set by jobs */
    unsigned haste; /* a spell of the job `read` gives up so many times as many gets; 1 */
};

struct user_opts {
    enum habit_who habit;
    const struct user_job *job;
    size_t door;
    unsigned host, number; /* of its address and of its name */
    const char *token;
    struct choices *choices;
    struct user_tally *tally;
    unsigned haste;
};

void user_init(struct user *user, const struct user_opts *opts);
void user_fini(struct user *user);

/* Whatever is due. `is_night`: only jobs that never sleep act. True: something came or went. */
bool user_turn(struct user *user, bool is_night);
uint64_t user_due(const struct user *user);

/* For jobs: what a request for this path says. */
struct habit_request user_request(const struct user *user, const char *path);

/* For jobs: a call of gRPC with this message; `ends`: it is all of the request. */
enum user_ends { USER_GOES_ON, USER_ENDS };
struct peer_call *user_call(struct user *user, const char *path, unsigned what, struct belfry_bytes message,
                            enum user_ends ends);
void user_message(struct user *user, struct peer_call *call, struct belfry_bytes message);

/* For jobs: it must have ended with success; it must not end at all (an `end`). */
void user_expect_fine(const struct user *user, const struct peer_call *call);
void user_end_never(struct user *user, struct peer_call *call);

/* No call of that kind has waited for its answer for long. */
void user_expect_prompt(const struct user *user, unsigned what);

uint64_t user_some_ms(struct user *user, uint64_t about_ms); /* half as long to half as long again, chosen */

#endif
