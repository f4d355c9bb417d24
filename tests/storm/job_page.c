/* tests/storm/job_page.c: a page, or another program that reads Server-Sent Events (user.h): the state once, and then
 * one stream of messages for hours, which goes on after its last id when the page comes back. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "storm/reading.h"
#include "storm/user.h"
#include "storm/verdict.h"

#define MINUTE_MS 60000
#define HOUR_MS   (60 * (uint64_t)MINUTE_MS)
#define LOOK_MS   (10 * (uint64_t)MINUTE_MS)
#define ANSWER_MS 5000
#define SILENT_MS 31000 /* two and a half heartbeats, and a second */
#define ID_BYTES  40

struct page_state {
    struct reading reading;
    char id[ID_BYTES]; /* of the last message that had one; empty: none yet */
    bool is_synced;    /* in this attempt; always, if it goes on after an id */
    unsigned keys;     /* of the state that is being received: a bit for each */
    int64_t head;      /* of the feed, when it was last looked at */
    uint64_t heard_ms; /* when anything came */
};

/* All keys of FEED_PREFIX, as one range or as several, some of which overlap. */
static const char *const page_ranges[] = {
    "prefix=/a/", "key=/a/k0&from=/a/k1&to=/a/k4&prefix=/a/k4&prefix=/a/k5&key=/a/k6&from=/a/k6&to=/a0"};

static void page_arrive(struct user *user)
{
    struct page_state *state = user->state;
    char path[300], bearer[96];
    snprintf(bearer, sizeof(bearer), "Bearer %s", user->token != NULL ? user->token : "");
    if (state->id[0] == '\0' || choose(user->choices, 4) == 0)
        snprintf(state->id, sizeof(state->id), "0"); /* it has forgotten everything */
    snprintf(path, sizeof(path), "/v1/events?%s&snapshot=1&last-event-id=%s", page_ranges[choose(user->choices, 2)],
             state->id);
    state->reading.who = user->peer.who;
    state->reading.keys = FEED_KEYS_WATCHED;
    state->is_synced = strcmp(state->id, "0") != 0;
    state->keys = 0;
    state->head = 0;
    state->heard_ms = belfry_clock_ms();
    struct habit_request request = user_request(user, path);
    request.token = user->token != NULL ? bearer : NULL;
    peer_call(&user->peer, &request, 0);
    user->next_ms = belfry_clock_ms() + ANSWER_MS;
    user->tally->pages++;
}

static void page_act(struct user *user)
{
    struct page_state *state = user->state;
    uint64_t now_ms = belfry_clock_ms();
    if (!state->is_synced)
        verdict_fail("%s: no state after %d ms", user->peer.who, ANSWER_MS);
    if (!reading_is_whole(&state->reading, state->head))
        verdict_fail("%s: changes up to %lld are missing", user->peer.who, (long long)state->head);
    if (now_ms > state->heard_ms + SILENT_MS)
        verdict_fail("%s: nothing, not even a heartbeat, for %llu ms", user->peer.who,
                     (unsigned long long)(now_ms - state->heard_ms));
    state->head = feed_head();
    user->next_ms = now_ms + user_some_ms(user, LOOK_MS);
}

/* ---- messages ---- */

/* The text after `name` up to `end`; data NULL: there is none. */
static struct belfry_bytes text_after(struct belfry_bytes in, const char *name, char end)
{
    const char *at = memmem(in.data, in.len, name, strlen(name));
    if (at == NULL)
        return (struct belfry_bytes){0};
    at += strlen(name);
    size_t left = in.len - (size_t)(at - in.data);
    const char *to = memchr(at, end, left);
    return belfry_bytes_of(at, to == NULL ? left : (size_t)(to - at));
}

static bool is_text(struct belfry_bytes bytes, const char *text)
{
    return belfry_bytes_equal(bytes, belfry_bytes_str(text));
}

static int64_t revision_of(const struct user *user, struct belfry_bytes message)
{
    struct belfry_bytes text = text_after(message, "\"rev\":", ',');
    if (text.len == 0)
        verdict_fail("%s: no rev in %.*s", user->peer.who, (int)message.len, message.data);
    return strtoll(text.data, NULL, 10);
}

/* The changes of a message, one after the other: `rev` 0: of a state. */
static void page_take_changes(struct user *user, struct belfry_bytes message, int64_t rev)
{
    static const char begin[] = "{\"op\":\"";
    struct page_state *state = user->state;
    for (;;) {
        const char *at = message.len == 0 ? NULL : memmem(message.data, message.len, begin, sizeof(begin) - 1);
        if (at == NULL)
            return;
        message = belfry_bytes_of(at + 1, message.len - (size_t)(at + 1 - message.data));
        struct belfry_bytes key = text_after(message, "\"key\":\"", '"');
        if (rev != 0)
            reading_take_key(&state->reading, rev, key, is_text(text_after(message, "\"op\":\"", '"'), "delete"));
        else if (key.len == sizeof(FEED_PREFIX "k0") - 1)
            state->keys |= 1u << (key.data[key.len - 1] - '0');
        user->tally->changes++;
    }
}

/* Which keys there are at a revision, by the ledger. */
static unsigned keys_at(int64_t rev)
{
    unsigned keys = 0;
    size_t at = 0;
    for (const struct feed_entry *entry; (entry = feed_next(&at, 1, FEED_KEYS_WATCHED)) != NULL && entry->rev <= rev;
         at++)
        keys = entry->is_delete ? keys & ~(1u << entry->key) : keys | 1u << entry->key;
    return keys;
}

static void page_sync(struct user *user, int64_t rev)
{
    struct page_state *state = user->state;
    if (state->keys != keys_at(rev))
        verdict_fail("%s: the state of revision %lld has the keys %02x, not %02x", user->peer.who, (long long)rev,
                     keys_at(rev), state->keys);
    state->reading.at = 0;
    state->reading.next_rev = rev + 1;
    state->is_synced = true;
}

static void page_message(struct user *user, struct belfry_bytes message)
{
    struct page_state *state = user->state;
    struct belfry_bytes event = text_after(message, "event: ", '\n'), id = text_after(message, "id: ", '\n');
    bool is_change = event.len == 0 && text_after(message, "data: ", '\n').len > 0;
    if (is_text(event, "reset") && state->is_synced)
        verdict_fail("%s: canceled, by %.*s", user->peer.who, (int)message.len, message.data);
    if (is_text(event, "state")) {
        page_take_changes(user, message, 0);
    } else if (is_text(event, "synced")) {
        page_sync(user, revision_of(user, message));
    } else if (is_text(event, "progress")) {
        reading_move(&state->reading, revision_of(user, message) + 1, "progress at");
    } else if (is_change) {
        page_take_changes(user, message, revision_of(user, message));
        if (id.len > 0)
            reading_move(&state->reading, revision_of(user, message) + 1, "a message ends inside revision");
    } else if (event.len > 0 && !is_text(event, "reset")) {
        verdict_fail("%s: %.*s", user->peer.who, (int)message.len, message.data);
    }
    if (id.len > 0)
        snprintf(state->id, sizeof(state->id), "%.*s", (int)id.len, id.data);
}

static void page_data(struct user *user, struct peer_call *call)
{
    struct page_state *state = user->state;
    if (call->status != 200)
        verdict_fail("%s: status %d", user->peer.who, call->status);
    state->heard_ms = belfry_clock_ms();
    for (;;) {
        struct belfry_bytes in = belfry_buf_bytes(&call->in);
        const char *end = in.len == 0 ? NULL : memmem(in.data, in.len, "\n\n", 2);
        if (end == NULL)
            return;
        size_t len = (size_t)(end - in.data);
        page_message(user, belfry_bytes_of(in.data, len));
        belfry_buf_take(&call->in, len + 2);
    }
}

const struct user_job job_page = {.name = "page",
                                  .bytes = sizeof(struct page_state),
                                  .stays_ms = HOUR_MS,
                                  .away_ms = MINUTE_MS,
                                  .arrive = page_arrive,
                                  .act = page_act,
                                  .data = page_data,
                                  .end = user_end_never};
