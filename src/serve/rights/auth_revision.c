/* src/serve/rights/auth_revision.c */
#include "serve/rights/auth_revision.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define LOOK_MS 50 /* between two looks whether another worker's log-in is done */

void auth_revision_init(struct auth_revision *shared)
{
    memset(shared, 0, sizeof(*shared));
    pthread_mutex_init(&shared->mu, NULL);
}

void auth_revision_fini(struct auth_revision *shared)
{
    pthread_mutex_destroy(&shared->mu);
}

static void auth_revision_move_to(struct auth_revision *shared, enum auth_revision_state to)
{
    static const unsigned legal[] = {[AUTH_REVISION_NONE] = 1u << AUTH_REVISION_ASKING,
                                     [AUTH_REVISION_ASKING] = 1u << AUTH_REVISION_KNOWN | 1u << AUTH_REVISION_FAILED,
                                     [AUTH_REVISION_KNOWN] = 1u << AUTH_REVISION_NONE,
                                     [AUTH_REVISION_FAILED] = 1u << AUTH_REVISION_ASKING};
    assert(legal[shared->state] & 1u << to);
    (void)legal;
    shared->state = to;
}

/* A log-in is needed. */
static enum auth_revision_answer auth_revision_begin(struct auth_revision *shared, uint64_t now)
{
    auth_revision_move_to(shared, AUTH_REVISION_ASKING);
    shared->next_ms = now + AUTH_REVISION_EVERY_MS;
    shared->log_ins++;
    return AUTH_REVISION_LOG_IN;
}

static enum auth_revision_answer auth_revision_answer(struct auth_revision *shared, uint64_t now,
                                                      struct auth_revision_view *out)
{
    switch (shared->state) {
    case AUTH_REVISION_NONE:
        out->due_ms = shared->next_ms;
        return now < shared->next_ms ? AUTH_REVISION_WAIT : auth_revision_begin(shared, now);
    case AUTH_REVISION_ASKING:
        out->due_ms = now + LOOK_MS;
        return AUTH_REVISION_WAIT;
    case AUTH_REVISION_KNOWN:
        out->revision = shared->revision;
        return AUTH_REVISION_HERE;
    case AUTH_REVISION_FAILED:
        break;
    }
    if (now >= shared->next_ms)
        return auth_revision_begin(shared, now);
    out->failure = shared->failure;
    memcpy(out->why, shared->why, sizeof(out->why));
    return AUTH_REVISION_REFUSED;
}

enum auth_revision_answer auth_revision_ask(struct auth_revision *shared, uint64_t now_ms,
                                            struct auth_revision_view *out)
{
    pthread_mutex_lock(&shared->mu);
    enum auth_revision_answer answer = auth_revision_answer(shared, now_ms, out);
    pthread_mutex_unlock(&shared->mu);
    return answer;
}

void auth_revision_learn(struct auth_revision *shared, uint64_t revision, uint64_t now_ms)
{
    pthread_mutex_lock(&shared->mu);
    auth_revision_move_to(shared, AUTH_REVISION_KNOWN);
    shared->revision = revision;
    shared->next_ms = now_ms + AUTH_REVISION_EVERY_MS;
    shared->failures = 0;
    shared->why[0] = '\0';
    pthread_mutex_unlock(&shared->mu);
}

bool auth_revision_fail(struct auth_revision *shared, enum auth_revision_failure failure, const char *why,
                        uint64_t now_ms)
{
    pthread_mutex_lock(&shared->mu);
    bool is_news = shared->failures == 0 || shared->failure != failure || strcmp(shared->why, why) != 0;
    auth_revision_move_to(shared, AUTH_REVISION_FAILED);
    uint64_t pause = (uint64_t)AUTH_REVISION_EVERY_MS << (shared->failures < 4 ? shared->failures : 4);
    shared->next_ms = now_ms + belfry_min_time(pause, AUTH_REVISION_PAUSE_MS);
    shared->failures++;
    shared->failure = failure;
    snprintf(shared->why, sizeof(shared->why), "%s", why);
    pthread_mutex_unlock(&shared->mu);
    return is_news;
}

void auth_revision_outdate(struct auth_revision *shared, uint64_t revision)
{
    pthread_mutex_lock(&shared->mu);
    if (shared->state == AUTH_REVISION_KNOWN && shared->revision == revision)
        auth_revision_move_to(shared, AUTH_REVISION_NONE);
    pthread_mutex_unlock(&shared->mu);
}

uint64_t auth_revision_log_ins(struct auth_revision *shared)
{
    pthread_mutex_lock(&shared->mu);
    uint64_t log_ins = shared->log_ins;
    pthread_mutex_unlock(&shared->mu);
    return log_ins;
}
