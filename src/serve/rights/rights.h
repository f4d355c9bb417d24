/* src/serve/rights/rights.h
 *
 * rights: may this bearer read this range, and until when? A table of upstream's answers, which end.
 *
 * A warrant is one bearer's right to read one range. All who need it share it. An answer is valid until the time at
 * which its question was sent, plus a period, minus the age that the answer had (it may come from a tier above, which
 * knew it before). Warrants that are in use are renewed after 40 to 70 percent of a period; with renews_late, 70 to 80.
 * All warrants of one bearer are renewed together: one question has up to RIGHTS_BATCH ranges, and its answer is for
 * all of them. When upstream forbids a question of several ranges, halves are asked, until the one that is not allowed
 * is alone.
 *
 *     NEW --allowed--> GOOD --its time is up--> DOUBTFUL --allowed--> GOOD
 *      `-----------------+--- forbidden --------'-------------------> gone, and its claims are told
 *
 * A claim is held by whoever needs a warrant: once (a read), or kept (a watch, while it runs). A party is a stream,
 * whose kept claims are all of one bearer. It is paused while any kept warrant of its bearer is DOUBTFUL, and ends when
 * upstream does not know the token any more.
 *
 * A tier below claims for clients of its own. An answer is good enough for it while it is younger than 40 percent of a
 * period, and than the tier below allows; the tier below learns its age. An older answer is asked for again, together
 * with all others of that bearer that are kept here or were given to tiers below. So two rounds of questions are at
 * least 40 percent of a period apart, however many tiers below ask, and an answer that a tier below receives when it
 * renews (after 40 percent or more of the age of its own) is new, at each level.
 *
 * Nothing here depends on a punctual timer: rights_party_may() compares times.
 *
 * Thread: owner. Pure: questions, verdicts and events are taken from it; answers and the time are put in.
 * Memory: one allocation per bearer and per warrant; claims and parties are their holders'. All of it counts as
 * SHARES_WATCH_BYTES (shares.h) of the connections that claim: each claim for itself, and of the claims of a warrant
 * one for the warrant. Of all claims of a bearer one counts for the bearer. When that claim ends, another takes over. A
 * claim for which there is no room is refused. A warrant without a claim is an answer that is kept for the next one who
 * asks. It is dropped when its time is up. Such answers have idle_max bytes; above it the oldest are dropped first.
 */
#ifndef BELFRY_SERVE_RIGHTS_RIGHTS_H
#define BELFRY_SERVE_RIGHTS_RIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/list.h"
#include "serve/rights/lanes.h"
#include "server/shares.h"

#define RIGHTS_BATCH       128         /* ranges of one question: etcd's own limit for a Txn */
#define RIGHTS_BATCH_BYTES (48 * 1024) /* of their keys: a tier above reads a question of 64 KiB (inquiry.h) */
#define RIGHTS_QUESTIONS   1024        /* under way at once */
#define RIGHTS_RENEWALS    256         /* of them kept free for running watches */
#define RIGHTS_PER_BEARER  65536       /* warrants: what 512 questions ask for */
#define RIGHTS_OLD_MS      60000       /* parties of an old token end within so long */

struct rights;
struct warrant;
struct bearer;

/* A range as upstream is asked for it: an empty `end` is the single key, "\0" has no upper bound. */
struct rights_range {
    struct belfry_bytes key, end;
};

/* Reads key and range_end of a request as etcd does; lent bytes, or constant ones. Equal ranges read the same. */
struct rights_range rights_range_of(struct belfry_bytes key, struct belfry_bytes range_end);

/* Whose right: bytes that upstream knows it by, and a kind of the caller's choice, which belongs to them. `source` and
 * `share` are no part of it: first questions of bearers that came by one source take turns with others (lanes.h),
 * because a token can make upstream hang until the deadline. */
struct rights_who {
    unsigned kind;
    struct belfry_bytes secret;
    struct lanes_source source;
    struct shares_conn *share; /* for what its claims cost; outlives them. NULL: nothing is counted */
};

struct rights_opts {
    uint64_t period_ms;
    uint64_t seed;
    struct belfry_hash_key hash_key;
    size_t idle_max;    /* bytes of what has no claim; 0: no answer is kept for the next one who asks */
    size_t claim_bytes; /* what a claim counts for, while it has a warrant: it and its holder */
    bool renews_late;   /* asks seldom; tiers below cannot be served then: their answers would be too old */
};

BELFRY_NODISCARD enum belfry_err rights_create(const struct rights_opts *opts, struct rights **out);
void rights_destroy(struct rights *rights); /* after its claims and parties; NULL is fine */

/* ---- claims ---- */

enum rights_verdict {
    RIGHTS_GRANTED,
    RIGHTS_DENIED,     /* this range */
    RIGHTS_BAD_TOKEN,  /* upstream does not know the bearer */
    RIGHTS_SILENT,     /* upstream does not answer for the bearer, though it answers others */
    RIGHTS_OLD_TOKEN,  /* the auth store has changed since the token was made: it may be good or not */
    RIGHTS_UNAVAILABLE /* upstream cannot be asked */
};

enum rights_use {
    RIGHTS_ONCE,
    RIGHTS_KEPT,
    RIGHTS_BELOW,     /* once, for a tier below */
    RIGHTS_BELOW_PART /* the same, one range of several. DENIED: this range, or one that was asked for with it */
};

struct rights_claim {
    struct belfry_list node; /* of its warrant's */
    struct belfry_list news;
    struct warrant *warrant;   /* NULL: none */
    struct shares_conn *share; /* NULL: nothing is counted */
    uint8_t use, verdict;
    bool waits;         /* it is not granted yet */
    uint64_t within_ms; /* BELOW: how old an answer may be */
    uint64_t since_ms;  /* granted: at this time etcd was asked, or later */
};

/* Claims a range. *out_granted: it is granted already, and stays so if it is kept. Otherwise a verdict will come from
 * rights_settled(). Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT (the bearer has RIGHTS_PER_BEARER warrants),
 * BELFRY_ERR_REFUSED (what its connection's client may hold is used up). */
BELFRY_NODISCARD enum belfry_err rights_claim(struct rights *rights, struct rights_who who, struct rights_range range,
                                              enum rights_use use, uint64_t now_ms, struct rights_claim *claim,
                                              bool *out_granted);

/* The same for a tier below: `use` is RIGHTS_BELOW or RIGHTS_BELOW_PART. When upstream does not answer, an older answer
 * that is still valid is given, too. */
BELFRY_NODISCARD enum belfry_err rights_claim_below(struct rights *rights, struct rights_who who,
                                                    struct rights_range range, enum rights_use use, uint64_t within_ms,
                                                    uint64_t now_ms, struct rights_claim *claim, bool *out_granted);
void rights_release(struct rights *rights, struct rights_claim *claim); /* no verdict will come */

/* When the question was sent that is under way for it; BELFRY_NEVER: there is none. */
uint64_t rights_claim_sent(const struct rights_claim *claim);

/* The next claim with a verdict; NULL: none. A kept claim that was granted stays: it may come again, with DENIED. Any
 * other is released. */
struct rights_claim *rights_settled(struct rights *rights);

/* ---- parties ---- */

enum rights_event { RIGHTS_PAUSED, RIGHTS_RESUMED, RIGHTS_ENDED };

struct rights_party {
    struct belfry_list node; /* of its bearer's */
    struct belfry_list news;
    struct bearer *bearer; /* NULL: none */
    bool paused;           /* as it was told */
    uint8_t why;           /* ENDED: BAD_TOKEN or OLD_TOKEN */
};

/* Joins the bearer of its claims, one of which was granted and is kept. Twice is fine. */
void rights_join(struct rights *rights, const struct rights_claim *claim, struct rights_party *party);
void rights_leave(struct rights *rights, struct rights_party *party); /* no event will come; it may not have joined */

/* May it be written to? False: it is paused, though it may not have been told. */
bool rights_party_may(const struct rights_party *party, uint64_t now_ms);

/* The next party with an event; NULL: none. After ENDED it has left; its `why` says more. */
struct rights_party *rights_news(struct rights *rights, enum rights_event *event);

/* ---- questions ---- */

struct rights_question {
    struct rights_who who;
    size_t n;           /* ranges */
    uint64_t turn;      /* one more with each question of this bearer: the next should go to another member */
    bool is_first;      /* somebody waits for the answer and has none; otherwise it is a renewal */
    uint64_t within_ms; /* an answer of a tier above should not be older */
    uint64_t sent_ms;
    void *user; /* the caller's */
    struct belfry_list warrants;
};

/* The next question, which is taken to be sent at now_ms; NULL: none, or too many are under way. */
struct rights_question *rights_ask(struct rights *rights, uint64_t now_ms);

/* Would rights_ask() have one? */
bool rights_has_question(const struct rights *rights);

/* Its ranges; `after` is NULL at first, and NULL comes after the last. */
const struct rights_range *rights_question_range(const struct rights_question *question,
                                                 const struct rights_range *after);

enum rights_answer {
    RIGHTS_ALLOWED,       /* all of its ranges */
    RIGHTS_FORBIDDEN,     /* one of its ranges, or more */
    RIGHTS_NO_SUCH_TOKEN, /* as every member says that answers */
    RIGHTS_TOKEN_IS_OLD,
    RIGHTS_TOO_MANY,   /* ranges for one question */
    RIGHTS_SILENCE,    /* no answer in time, while others were answered: it counts against the token */
    RIGHTS_UNREACHABLE /* upstream could not be asked */
};

/* The question is gone when it returns. */
void rights_answer(struct rights *rights, struct rights_question *question, enum rights_answer answer, uint64_t age_ms,
                   uint64_t now_ms);

/* A question for whose answer nobody waits any more; NULL: none. The caller stops asking and answers UNREACHABLE. */
struct rights_question *rights_abandoned(struct rights *rights);

/* ---- time ---- */

/* Lets time pass: pauses, ends, and begins renewals. To be called before anything is written at now_ms. */
void rights_turn(struct rights *rights, uint64_t now_ms);
uint64_t rights_due(const struct rights *rights); /* when to call it even if nothing happens */

/* Has rights_settled(), rights_news() or rights_abandoned() anything? */
bool rights_has_news(const struct rights *rights);

/* Every kept warrant is asked for again as soon as possible: upstream may have changed its mind. */
void rights_doubt(struct rights *rights, uint64_t now_ms);

struct rights_stats {
    size_t bearers, warrants, kept, waiting, asking, paused, bytes; /* kept, waiting: claims; paused: bearers */
    size_t idle_bytes;          /* of bytes: bearers and warrants without a claim, which are nobody's */
    uint64_t questions, ranges; /* ranges: of all questions */
    uint64_t allowed, forbidden, bad_tokens, old_tokens, silent, unreachable; /* answers */
    uint64_t pauses, denied;                                                  /* denied: kept claims */
    uint64_t visits; /* of warrants, and comparisons of two: the work of rounds and answers */
};
void rights_stats(const struct rights *rights, struct rights_stats *out);

#endif
