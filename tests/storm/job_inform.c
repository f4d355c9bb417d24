/* tests/storm/job_inform.c: an informer of Kubernetes (user.h): a list, and from its revision on watches, each of
 * which the server ends after the time that the informer has asked for. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "storm/objects.h"
#include "storm/reading.h"
#include "storm/user.h"
#include "storm/verdict.h"

#define WIDGETS   "/apis/demo.example.com/v1/widgets"
#define MINUTE_MS 60000
#define HOUR_MS   (60 * (uint64_t)MINUTE_MS)
#define SLACK_MS  5000
#define WATCH_S   300 /* to twice as long: what client-go asks for */

enum inform_what { INFORM_LIST, INFORM_WATCH };

struct inform_state {
    struct reading reading;
    bool is_listed;   /* then it knows where to go on */
    int64_t rev;      /* of the last line */
    int64_t from_rev; /* from which the watch was asked for */
    uint64_t ends_ms; /* when the watch must have ended */
};

static void inform_request(struct user *user, const char *path, enum inform_what what)
{
    char bearer[96];
    snprintf(bearer, sizeof(bearer), "Bearer %s", user->token != NULL ? user->token : "");
    struct habit_request request = user_request(user, path);
    request.token = user->token != NULL ? bearer : NULL;
    peer_call(&user->peer, &request, what);
}

static void inform_list(struct user *user)
{
    inform_request(user, WIDGETS "?limit=500&resourceVersion=0", INFORM_LIST);
    user->next_ms = belfry_clock_ms() + SLACK_MS + 1;
}

static void inform_watch(struct user *user)
{
    struct inform_state *state = user->state;
    unsigned seconds = WATCH_S + choose(user->choices, WATCH_S);
    char path[200];
    snprintf(path, sizeof(path),
             WIDGETS "?allowWatchBookmarks=true&resourceVersion=%" PRId64 "&timeoutSeconds=%u&watch=true", state->rev,
             seconds);
    inform_request(user, path, INFORM_WATCH);
    state->from_rev = state->rev;
    state->reading.next_rev = state->rev + 1;
    state->ends_ms = belfry_clock_ms() + (uint64_t)seconds * 1000 + SLACK_MS;
    user->next_ms = state->ends_ms;
    user->tally->watches++;
}

/* After a restart some know their revision, and others list anew. */
static void inform_arrive(struct user *user)
{
    struct inform_state *state = user->state;
    state->reading.who = user->peer.who;
    state->reading.keys = FEED_KEYS_WIDGETS;
    if (state->is_listed && choose(user->choices, 2) == 0)
        inform_watch(user);
    else
        inform_list(user);
}

static void inform_act(struct user *user)
{
    struct inform_state *state = user->state;
    user_expect_prompt(user, INFORM_LIST);
    if (belfry_clock_ms() >= state->ends_ms && peer_find(&user->peer, INFORM_WATCH) != NULL)
        verdict_fail("%s: a watch goes on after its timeout", user->peer.who);
    user->next_ms = state->ends_ms + 1;
}

static void inform_line(struct user *user, struct belfry_bytes line)
{
    struct inform_state *state = user->state;
    struct belfry_bytes type = objects_text(line, "\"type\":\"");
    int64_t rev = objects_revision(user->peer.who, line);
    if (belfry_bytes_equal(type, belfry_bytes_str("ERROR")))
        verdict_fail("%s: %.*s", user->peer.who, (int)(line.len < 300 ? line.len : 300), line.data);
    if (rev == state->from_rev)
        return; /* it may come again, as a whole (docs/decisions/0019) */
    if (rev > state->rev)
        reading_move(&state->reading, state->rev + 1, "a line inside revision");
    if (belfry_bytes_equal(type, belfry_bytes_str("BOOKMARK")))
        reading_move(&state->reading, rev + 1, "a bookmark at");
    else
        reading_take_object(&state->reading, rev, objects_text(line, "\"name\":\""),
                            belfry_bytes_equal(type, belfry_bytes_str("DELETED")));
    state->rev = rev;
    user->tally->objects++;
}

static void inform_data(struct user *user, struct peer_call *call)
{
    if (call->what == INFORM_LIST)
        return; /* read when it is whole */
    for (;;) {
        struct belfry_bytes in = belfry_buf_bytes(&call->in);
        const char *end = in.len == 0 ? NULL : memchr(in.data, '\n', in.len);
        if (end == NULL)
            return;
        size_t len = (size_t)(end - (const char *)in.data);
        inform_line(user, belfry_bytes_of(in.data, len));
        belfry_buf_take(&call->in, len + 1);
    }
}

static void inform_end(struct user *user, struct peer_call *call)
{
    struct inform_state *state = user->state;
    if (call->status != 200)
        verdict_fail("%s: stream %u ends with status %d: %.*s", user->peer.who, call->id, call->status,
                     (int)belfry_buf_len(&call->in), belfry_buf_bytes(&call->in).data);
    if (call->what == INFORM_LIST) {
        state->rev = objects_list_revision(user->peer.who, belfry_buf_bytes(&call->in));
        state->is_listed = true;
        user->tally->lists++;
    } else {
        reading_move(&state->reading, state->rev + 1, "a watch ends inside revision");
        call->what = INFORM_LIST; /* over: it is no watch any more */
    }
    inform_watch(user);
}

const struct user_job job_inform = {.name = "inform",
                                    .bytes = sizeof(struct inform_state),
                                    .stays_ms = 4 * HOUR_MS,
                                    .away_ms = MINUTE_MS,
                                    .arrive = inform_arrive,
                                    .act = inform_act,
                                    .data = inform_data,
                                    .end = inform_end};
