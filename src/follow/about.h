/* src/follow/about.h
 *
 * about: what a tier reports of itself and of the tiers above it: the answer of belfry.Tier/About.
 *
 *     name=1 string  version=2 string                       all that the first tiers said
 *     above=3 Level, repeated                               nearest first, etcd last if it is known
 *     self=4 Level                                          without name and version
 *     clock=5 varint                                        nanoseconds of a clock that only runs forward
 *     stamps=6 {rev=1, ns=2}, repeated                      when its newest revisions were published, by that clock
 *
 *     Level {name=1 version=2 revision=4 lag=5 silent=6 hop_kind=7 hop_us=8 hop_error_us=9 age_ms=10 standing=11
 *            trouble=12}
 *
 * `silent` is one millisecond more than the silence, and 0 when that is not known; the same with `standing`. A reader
 * skips fields that it does not know. Every client that can connect may ask, so no address is in it: each tier knows
 * only the address by which it reaches the level above it.
 *
 * Thread: any. Pure.
 * Memory: a struct about is some 6 KB, without pointers; a message at most ABOUT_BYTES.
 */
#ifndef BELFRY_FOLLOW_ABOUT_H
#define BELFRY_FOLLOW_ABOUT_H

#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "follow/stamps.h"

#define ABOUT_PATH     "/belfry.Tier/About"
#define ABOUT_LEVELS   9  /* above a tier: eight tiers at most are in a row, and etcd; more are not kept */
#define ABOUT_STAMPS   64 /* in a message */
#define ABOUT_NAME     65 /* with the NUL, as the next two; what is longer is cut */
#define ABOUT_VERSION  48
#define ABOUT_ENDPOINT 160
#define ABOUT_BYTES    8192
#define ABOUT_READ_MAX (64 * 1024) /* of a message that is read: ours, and what later tiers may add */

/* How it stands with its upstream; numbers of the wire. */
enum about_standing { ABOUT_UNKNOWN, ABOUT_NOT_READY, ABOUT_READY, ABOUT_STALE };

/* What is wrong between it and the level above it; numbers of the wire. */
enum about_trouble {
    ABOUT_NO_TROUBLE,
    ABOUT_UNREACHABLE,     /* it cannot connect */
    ABOUT_REFUSED,         /* the level above rejects its credentials, or its rights */
    ABOUT_ABOVE_NOT_READY, /* the level above answers, and has nothing to follow itself */
    ABOUT_SILENT,          /* it is connected, and hears nothing */
    ABOUT_CATCHING_UP,     /* it starts, lists, or reads what it has missed */
    ABOUT_DISK,            /* it cannot write its replica */
    ABOUT_TOO_OLD,         /* the level above has a version that it does not follow */
    ABOUT_CIRCLE,          /* the level above is below it, or too many levels are above it */
    ABOUT_TROUBLES
};

/* What is known of the way from the level above to this one. */
enum about_hop {
    ABOUT_HOP_UNKNOWN,
    ABOUT_HOP_MEASURED, /* hop.h */
    ABOUT_HOP_HALF_TRIP /* the level above does not tell (etcd): half the round trip of a call, which is a guess */
};

struct about_level {
    char name[ABOUT_NAME], version[ABOUT_VERSION]; /* "": not known */
    char endpoint[ABOUT_ENDPOINT];                 /* by which it is reached from here; never sent; "": not known */
    enum about_standing standing;
    enum about_trouble trouble;
    int64_t revision;   /* 0: not known */
    uint64_t lag;       /* revisions behind what the level above it has shown */
    uint64_t silent_ms; /* since it last knew that it was up to date; BELFRY_NEVER: not known */
    enum about_hop hop;
    uint64_t hop_us, hop_error_us;
    uint64_t age_ms; /* of all this */
};

struct about {
    struct about_level self;
    size_t n_above;
    struct about_level above[ABOUT_LEVELS];
    uint64_t clock_ns; /* 0: it does not say */
    size_t n_stamps;
    struct stamp stamps[ABOUT_STAMPS];
};

/* Writes it; returns its length. */
size_t about_write(const struct about *about, uint8_t out[ABOUT_BYTES]);

/* Reads it: bytes that are no plain text become '?', numbers out of range the nearest in it.
 * Errors: BELFRY_ERR_PROTOCOL (also: over ABOUT_READ_MAX). */
BELFRY_NODISCARD enum belfry_err about_read(struct belfry_bytes message, struct about *out);

/* Is the level a tier? The highest may be an etcd, whose name says nothing: a tier may be called "etcd" too. */
bool about_is_tier(const struct about_level *level);

/* A text of at most `len` bytes with its NUL, in which every byte that could upset a terminal is '?'. */
void about_copy(char *to, size_t len, struct belfry_bytes text);

#endif
