/* src/base/owner.h
 *
 * owner: checks what `Thread: owner` promises in a header, in debug and sanitizer builds.
 *
 * An object belongs to the thread that made it. It notes its owner when it is made, and its entry points assert that
 * they run there:
 *
 *     struct x { ...; BELFRY_OWNER; };
 *     x_create():   BELFRY_OWNER_INIT(x);
 *     x_append():   BELFRY_OWNER_CHECK(x);
 *     before x goes to another thread, which is the owner from its first call on:   BELFRY_OWNER_PASS(x);
 *
 * A session of libbelfry belongs to one thread at a time, and whatever is on it belongs to the session. So an owner is a
 * thread or a session. Public calls enter their session, for the length of a block:
 *
 *     struct belfry { ...; BELFRY_OWNER_SESSION; };
 *     belfry_dispatch():   BELFRY_OWNER_ENTER(b);
 *
 * That asserts that no other thread is in a call on the session. Objects that are made meanwhile are the session's: any
 * thread may use them while no other one is in a call.
 *
 * Other builds have none of this: no field, no code, and x is not evaluated. BELFRY_OWNER_CHECKS decides, not NDEBUG, because
 * all files of a build must agree about the size of a struct.
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
    _Atomic(const void *) thread; /* that is in a call on it; NULL: none is */
    unsigned depth;               /* of calls from inside callbacks; that thread's */
};

struct belfry_owner {
    struct belfry_owner_session *session; /* NULL: a thread owns it */
    const void *thread;                   /* NULL without a session: the next one that checks */
};

struct belfry_owner_entry {
    struct belfry_owner_session *session, *outer; /* outer: that the thread was in before; NULL: none */
};

/* The owner of what is made here and now: the session that this thread is in, or the thread. */
struct belfry_owner belfry_owner_self(void);

/* May this thread use what `owner` owns? What has no owner gets this thread's. */
bool belfry_owner_holds(const struct belfry_owner *owner);

struct belfry_owner_entry belfry_owner_enter(struct belfry_owner_session *session);
void belfry_owner_leave(struct belfry_owner_entry *entry);

#define BELFRY_OWNER          struct belfry_owner checked_owner
#define BELFRY_OWNER_INIT(x)  ((void)((x)->checked_owner = belfry_owner_self()))
#define BELFRY_OWNER_PASS(x)  ((void)((x)->checked_owner = (struct belfry_owner){NULL, NULL}))
#define BELFRY_OWNER_CHECK(x) assert(belfry_owner_holds(&(x)->checked_owner))

#define BELFRY_OWNER_SESSION struct belfry_owner_session checked_session
#define BELFRY_OWNER_ENTER(b)                                                                                          \
    struct belfry_owner_entry checked_entry __attribute__((cleanup(belfry_owner_leave))) =                             \
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
