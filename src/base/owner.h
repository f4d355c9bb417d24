/* src/base/owner.h
 *
 * owner: checks what `Thread: owner` promises in a header, in debug and sanitizer builds.
 *
 * An object belongs to the thread that created it. It records its owner at creation, and its entry points assert that
 * they run on that thread:
 *
 *     struct x { ...; BELFRY_OWNER; };
 *     x_create():   BELFRY_OWNER_INIT(x);
 *     x_append():   BELFRY_OWNER_CHECK(x);
 *     before another thread takes x over (its first call makes it the owner):   BELFRY_OWNER_PASS(x);
 *
 * A session of libbelfry belongs to one thread at a time, and the objects on it belong to the session. So an owner is a
 * thread or a session. Public calls enter their session for the length of a block:
 *
 *     struct belfry { ...; BELFRY_OWNER_SESSION; };
 *     belfry_dispatch():   BELFRY_OWNER_ENTER(b);
 *
 * That asserts that no other thread is in a call on the session. Objects created inside such a call belong to the
 * session: any thread may use them while no other thread is in a call on it.
 *
 * In other builds the macros add no field and no code, and do not evaluate x. BELFRY_OWNER_CHECKS decides this, not
 * NDEBUG, because all files of a build must agree on the size of a struct.
 *
 * Thread: any.
 */
#ifndef BELFRY_BASE_OWNER_H
#define BELFRY_BASE_OWNER_H

#include <assert.h>
#include <stdbool.h>

#ifdef BELFRY_OWNER_CHECKS

#include <stdatomic.h>

struct belfry_owner_session {
    _Atomic(const void *) thread; /* the thread in a call on the session; NULL: none */
    unsigned depth;               /* nesting of calls from callbacks; only that thread uses it */
};

struct belfry_owner {
    struct belfry_owner_session *session; /* NULL: owned by a thread */
    const void *thread;                   /* NULL without a session: the next thread that checks becomes the owner */
};

struct belfry_owner_entry {
    struct belfry_owner_session *session, *outer; /* outer: the session the thread was in before; NULL: none */
};

/* The owner of objects created now: the session that this thread is in, or else the thread. */
struct belfry_owner belfry_owner_self(void);

/* Whether this thread may use objects of `owner`. An object without an owner gets this thread as its owner. */
bool belfry_owner_holds(const struct belfry_owner *owner);

struct belfry_owner_entry belfry_owner_enter(struct belfry_owner_session *session);
void belfry_owner_leave(struct belfry_owner_entry *entry);

#define BELFRY_OWNER          struct belfry_owner checked_owner
#define BELFRY_OWNER_INIT(x)  ((void)((x)->checked_owner = belfry_owner_self()))
#define BELFRY_OWNER_PASS(x)  ((void)((x)->checked_owner = (struct belfry_owner){NULL, NULL}))
#define BELFRY_OWNER_CHECK(x) assert(belfry_owner_holds(&(x)->checked_owner))

#define BELFRY_OWNER_SESSION struct belfry_owner_session checked_session
#define BELFRY_OWNER_ENTER(b)                                                                                          \
    struct belfry_owner_entry checked_entry __attribute__((unused, cleanup(belfry_owner_leave))) =                     \
        belfry_owner_enter(&(b)->checked_session)

#else

#define BELFRY_OWNER          static_assert(true, "no field")
#define BELFRY_OWNER_INIT(x)  ((void)sizeof(x))
#define BELFRY_OWNER_PASS(x)  ((void)sizeof(x))
#define BELFRY_OWNER_CHECK(x) ((void)sizeof(x))

#define BELFRY_OWNER_SESSION  static_assert(true, "no field")
#define BELFRY_OWNER_ENTER(b) ((void)sizeof(b))

#endif
#endif
