/* src/base/owner.c */
#include "base/owner.h"

#ifdef BELFRY_OWNER_CHECKS

#include <stddef.h>
#include <stdint.h>

static _Thread_local char here;                           /* its address identifies the thread */
static _Thread_local struct belfry_owner_session *inside; /* the session of this thread's current call; NULL: none */

struct belfry_owner belfry_owner_self(void)
{
    return (struct belfry_owner){.session = inside, .thread = inside == NULL ? &here : NULL};
}

bool belfry_owner_holds(const struct belfry_owner *owner)
{
    if (owner->session != NULL) {
        const void *in_call = atomic_load(&owner->session->thread);
        return in_call == NULL || in_call == &here;
    }
    if (owner->thread == NULL) /* const objects are checked, too */
        *(struct belfry_owner *)(uintptr_t)owner = belfry_owner_self();
    return owner->session != NULL || owner->thread == &here;
}

struct belfry_owner_entry belfry_owner_enter(struct belfry_owner_session *session)
{
    const void *in_call = NULL;
    bool entered = atomic_compare_exchange_strong(&session->thread, &in_call, &here) || in_call == &here;
    assert(entered && "another thread is in a call on this session");
    (void)entered;
    struct belfry_owner_entry entry = {.session = session, .outer = inside};
    session->depth++;
    inside = session;
    return entry;
}

void belfry_owner_leave(struct belfry_owner_entry *entry)
{
    inside = entry->outer;
    if (--entry->session->depth == 0)
        atomic_store(&entry->session->thread, NULL);
}

#else

typedef int belfry_owner_is_not_checked; /* ISO C forbids an empty file */

#endif
