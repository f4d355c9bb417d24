/* src/client/watch/mux_test.c: each rule of the watch machine, with a scripted server. mux_sim_test.c mixes them all.
 *
 * Requests and actions are compared as text. Requests: "create a@5", "cancel 0", "progress". Actions: "a:5x2" is two
 * events of revision 5 for the watch on key a ("a:5x2*" a part), "a:P9" progress, "a:lost" that the server has it no
 * more, "a:!COMPACTED@7" the end.
 */
#include "client/watch/mux.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "support/refuse.h"
#include "wire/rpc.pb-c.h"
#include "wire/write.h"

#define TEXT_MAX  2048
#define BOUND     4096
#define EVENTS    32
#define NO_REASON ""

struct bench {
    struct belfry_mux *mux;
    uint64_t now;
    enum belfry_mux_verdict verdict; /* for the next actions */
    struct belfry_mux_watch *remove; /* removed inside the next action */
    char sent[TEXT_MAX], got[TEXT_MAX];
};

__attribute__((format(printf, 2, 3))) static void note(char text[TEXT_MAX], const char *format, ...)
{
    size_t len = strlen(text);
    va_list args;
    va_start(args, format);
    if (len > 0)
        text[len++] = ' ';
    vsnprintf(text + len, TEXT_MAX - len, format, args);
    va_end(args);
}

static void setup(struct bench *b)
{
    struct belfry_mux_opts opts = {.max_revision_bytes = BOUND, .in_order = true};
    *b = (struct bench){.now = 1000};
    assert_int_equal(belfry_mux_create(&opts, &b->mux), BELFRY_OK);
}

static void teardown(struct bench *b)
{
    belfry_mux_destroy(b->mux);
}

/* A watch on one key; its name is that key. */
static struct belfry_mux_watch *add_spec(struct bench *b, const char *key, struct belfry_mux_spec spec)
{
    static char names[26][2];
    struct belfry_mux_watch *watch;
    char *name = names[key[0] - 'a'];
    name[0] = key[0];
    spec.key = belfry_bytes_str(key);
    assert_int_equal(belfry_mux_add(b->mux, &spec, name, &watch), BELFRY_OK);
    return watch;
}

static struct belfry_mux_watch *add(struct bench *b, const char *key, int64_t rev)
{
    return add_spec(b, key, (struct belfry_mux_spec){.rev = rev, .fragment = true, .pause_bytes = 100});
}

static void note_request(struct bench *b, struct belfry_bytes bytes)
{
    Etcdserverpb__WatchRequest *request =
        etcdserverpb__watch_request__unpack(NULL, bytes.len, (const uint8_t *)bytes.data);
    assert_non_null(request);
    if (request->request_union_case == ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST)
        note(b->sent, "create %.*s@%lld", (int)request->create_request->key.len,
             (const char *)request->create_request->key.data, (long long)request->create_request->start_revision);
    else if (request->request_union_case == ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST)
        note(b->sent, "cancel %lld", (long long)request->cancel_request->watch_id);
    else
        note(b->sent, "progress");
    etcdserverpb__watch_request__free_unpacked(request, NULL);
}

/* All requests that are due now. */
static void assert_sent(struct bench *b, const char *want)
{
    struct belfry_buf buf;
    b->sent[0] = '\0';
    belfry_buf_init(&buf);
    while (belfry_mux_pull(b->mux, b->now, &buf) == BELFRY_OK) {
        note_request(b, belfry_buf_bytes(&buf));
        belfry_buf_clear(&buf);
    }
    belfry_buf_fini(&buf);
    assert_string_equal(b->sent, want);
}

static void note_action(struct bench *b, const struct belfry_mux_action *action)
{
    const char *name = belfry_mux_user(action->watch);
    switch (action->act) {
    case BELFRY_MUX_EVENTS:
        note(b->got, "%s:%lldx%zu%s", name, (long long)action->rev, action->group.n_events,
             action->group.part ? "*" : "");
        break;
    case BELFRY_MUX_PROGRESS:
        note(b->got, "%s:P%lld", name, (long long)action->rev);
        break;
    case BELFRY_MUX_CREATED:
        note(b->got, "%s:K%lld", name, (long long)action->rev);
        break;
    case BELFRY_MUX_LOST:
        note(b->got, "%s:lost", name);
        break;
    case BELFRY_MUX_END:
        note(b->got, "%s:!%s@%lld", name, belfry_errname(action->err) + strlen("BELFRY_ERR_"), (long long)action->rev);
        assert_true(strlen(action->why) > 0);
        break;
    }
}

static enum belfry_err take_actions(struct bench *b)
{
    struct belfry_mux_action action;
    enum belfry_err err;
    b->got[0] = '\0';
    while ((err = belfry_mux_next(b->mux, &action)) == BELFRY_OK) {
        note_action(b, &action);
        if (b->remove != NULL)
            belfry_mux_remove(b->mux, b->remove);
        b->remove = NULL;
        belfry_mux_taken(b->mux, b->verdict);
    }
    return err;
}

static void assert_got(struct bench *b, const char *want)
{
    assert_int_equal(take_actions(b), BELFRY_ERR_AGAIN);
    assert_string_equal(b->got, want);
}

/* ---- the server ---- */

/* A response whose events are at the revisions in `revs` ("5 5 6+", + for a fragment). */
static struct belfry_blob *encode(struct belfry_wire_watch head, const char *revs)
{
    uint8_t events[EVENTS * 40], *to = events;
    char *end;
    for (; *revs != '\0' && *revs != '+'; revs = end + strspn(end, " ")) {
        struct belfry_wire_event event = {.kv = {.key = belfry_bytes_str("a"), .mod_rev = strtoll(revs, &end, 10)}};
        to = belfry_write_event_field(belfry_write_event_size(&event), to);
        to = belfry_write_event(&event, to);
    }
    head.fragment = *revs == '+';
    size_t size = belfry_write_watch_head_size(&head), n = (size_t)(to - events);
    struct belfry_blob *blob;
    if (belfry_blob_alloc(size + n, &blob) != BELFRY_OK)
        return NULL;
    memcpy(belfry_write_watch_head(&head, belfry_blob_edit(blob)), events, n);
    return blob;
}

static enum belfry_err say(struct bench *b, struct belfry_wire_watch head, const char *revs)
{
    struct belfry_blob *blob = encode(head, revs);
    if (blob == NULL)
        return BELFRY_ERR_NOMEM;
    enum belfry_err err = belfry_mux_message(b->mux, blob, b->now);
    belfry_blob_unref(blob);
    return err;
}

static struct belfry_wire_watch head_of(int64_t id, int64_t revision)
{
    return (struct belfry_wire_watch){.header = {.cluster_id = 1, .revision = revision}, .watch_id = id};
}

static enum belfry_err say_created(struct bench *b, int64_t id, int64_t revision)
{
    struct belfry_wire_watch head = head_of(id, revision);
    head.created = true;
    return say(b, head, "");
}

static enum belfry_err say_events(struct bench *b, int64_t id, const char *revs)
{
    return say(b, head_of(id, 1000), revs); /* as on replay: the header runs far ahead */
}

static enum belfry_err say_canceled(struct bench *b, int64_t id, int64_t compact, const char *reason)
{
    struct belfry_wire_watch head = head_of(id, compact > 0 ? 0 : 1000);
    head.canceled = true;
    head.compact_revision = compact;
    head.cancel_reason = belfry_bytes_str(reason);
    return say(b, head, "");
}

static enum belfry_err say_refused(struct bench *b, const char *reason)
{
    struct belfry_wire_watch head = head_of(-1, 20);
    head.created = head.canceled = true;
    head.cancel_reason = belfry_bytes_str(reason);
    return say(b, head, "");
}

static enum belfry_err say_progress(struct bench *b, int64_t id, int64_t revision)
{
    return say(b, head_of(id, revision), "");
}

#define ok(call) assert_int_equal((call), BELFRY_OK)

/* A watch on "a" from revision 5, created as id 0. */
static struct belfry_mux_watch *open_one(struct bench *b)
{
    setup(b);
    struct belfry_mux_watch *watch = add(b, "a", 5);
    belfry_mux_stream_up(b->mux, b->now);
    assert_sent(b, "create a@5");
    ok(say_created(b, 0, 20));
    return watch;
}

/* ---- creating and resuming ---- */

static void creates_are_pipelined_and_matched_by_order(void **state)
{
    (void)state;
    struct bench b;
    setup(&b);
    assert_false(belfry_mux_wants_stream(b.mux));
    add(&b, "a", 5);
    add(&b, "b", 7);
    assert_true(belfry_mux_wants_stream(b.mux));
    assert_sent(&b, ""); /* no stream yet */
    belfry_mux_stream_up(b.mux, b.now);
    assert_false(belfry_mux_wants_stream(b.mux));
    assert_sent(&b, "create a@5 create b@7");
    ok(say_created(&b, 30, 20));
    ok(say_created(&b, 4, 20));
    ok(say_events(&b, 4, "7 8 8"));
    assert_got(&b, "b:7x1 b:8x2");
    ok(say_events(&b, 30, "6"));
    assert_got(&b, "a:6x1");
    teardown(&b);
}

static void creates_go_one_by_one_until_the_server_names_its_cluster(void **state)
{
    (void)state;
    struct belfry_mux_opts opts = {.max_revision_bytes = BOUND};
    struct bench b = {.now = 1000};
    ok(belfry_mux_create(&opts, &b.mux));
    add(&b, "a", 5);
    add(&b, "b", 5);
    add(&b, "c", 5);
    add(&b, "d", 5);
    belfry_mux_stream_up(b.mux, b.now);
    assert_sent(&b, "create a@5");
    struct belfry_wire_watch nameless = head_of(0, 9);
    nameless.created = true;
    nameless.header.cluster_id = 0;
    ok(say(&b, nameless, ""));
    assert_sent(&b, "create b@5");
    ok(say_created(&b, 1, 9));
    assert_sent(&b, "create c@5 create d@5");
    teardown(&b);
}

static void unanswered_creates_are_bounded(void **state)
{
    (void)state;
    struct bench b;
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    setup(&b);
    for (int i = 0; i < 1100; i++)
        add(&b, "a", 5);
    belfry_mux_stream_up(b.mux, b.now);
    size_t n = 0;
    while (belfry_mux_pull(b.mux, b.now, &buf) == BELFRY_OK)
        n++;
    assert_int_equal(n, 1024);
    ok(say_created(&b, 0, 20));
    assert_int_equal(belfry_mux_pull(b.mux, b.now, &buf), BELFRY_OK);
    assert_int_equal(belfry_mux_pull(b.mux, b.now, &buf), BELFRY_ERR_AGAIN);
    belfry_buf_fini(&buf);
    teardown(&b);
}

static void break_resumes_each_watch_at_its_own_place(void **state)
{
    (void)state;
    struct bench b;
    open_one(&b);
    add(&b, "b", 7);
    assert_sent(&b, "create b@7");
    ok(say_created(&b, 1, 500)); /* moves nothing */
    ok(say_events(&b, 0, "5 9"));
    assert_got(&b, "a:5x1 a:9x1");
    ok(say_progress(&b, 1, 30));
    assert_got(&b, "b:P30");
    add(&b, "c", 3);
    assert_sent(&b, "create c@3"); /* not answered */
    belfry_mux_stream_down(b.mux);
    assert_got(&b, "");
    assert_true(belfry_mux_wants_stream(b.mux));
    belfry_mux_stream_up(b.mux, b.now);
    assert_sent(&b, "create a@10 create b@31 create c@3");
    assert_int_equal(belfry_mux_stats(b.mux).resumes, 3);
    teardown(&b);
}

static void revision_in_fragments_is_given_whole_or_after_a_break_again(void **state)
{
    (void)state;
    struct bench b;
    open_one(&b);
    ok(say_events(&b, 0, "5 6 6+"));
    assert_got(&b, "a:5x1");
    ok(say_events(&b, 0, "6+"));
    assert_got(&b, "");
    belfry_mux_stream_down(b.mux);
    assert_got(&b, "");
    assert_int_equal(belfry_mux_held_bytes(b.mux), 0);
    belfry_mux_stream_up(b.mux, b.now);
    assert_sent(&b, "create a@6");
    ok(say_created(&b, 0, 20));
    ok(say_events(&b, 0, "6 6+"));
    ok(say_events(&b, 0, "6 7"));
    assert_got(&b, "a:6x3 a:7x1");
    teardown(&b);
}

static void unmerged_parts_are_not_repeated_after_a_break(void **state)
{
    (void)state;
    struct bench b;
    setup(&b);
    add_spec(&b, "a", (struct belfry_mux_spec){.rev = 3, .fragment = true, .unmerged = true});
    belfry_mux_stream_up(b.mux, b.now);
    assert_sent(&b, "create a@3");
    ok(say_created(&b, 0, 20));
    ok(say_events(&b, 0, "5 5+"));
    ok(say_events(&b, 0, "5+"));
    assert_got(&b, "a:5x2*");
    belfry_mux_stream_down(b.mux);
    assert_got(&b, "");
    belfry_mux_stream_up(b.mux, b.now);
    assert_sent(&b, "create a@5");
    ok(say_created(&b, 0, 20));
    ok(say_events(&b, 0, "5 5 5 5 6"));
    assert_got(&b, "a:5x2 a:6x1");
    teardown(&b);
}

static void count_early(enum belfry_log_level level, const char *event, const char *text, void *user)
{
    unsigned *n = user;
    assert_int_equal(level, BELFRY_LOG_WARN);
    assert_string_equal(event, "progress_early");
    assert_string_equal(text, "progress=30 rev=29");
    (*n)++;
}

static void events_behind_their_progress_are_given_first_and_logged(void **state)
{
    (void)state;
    unsigned n = 0;
    struct belfry_log log = {.line = count_early, .user = &n, .level = BELFRY_LOG_WARN};
    struct belfry_mux_opts opts = {.max_revision_bytes = BOUND, .in_order = true, .log = &log};
    struct bench b = {.now = 1000};
    assert_int_equal(belfry_mux_create(&opts, &b.mux), BELFRY_OK);
    add(&b, "a", 3);
    belfry_mux_stream_up(b.mux, b.now);
    assert_sent(&b, "create a@3");
    ok(say_created(&b, 0, 20));
    ok(say_progress(&b, 0, 28));
    ok(say_events(&b, 0, "29"));
    assert_int_equal(n, 0);
    ok(say_progress(&b, 0, 30));
    ok(say_events(&b, 0, "29"));
    assert_int_equal(n, 1);
    teardown(&b);
}

static void events_older_than_wanted_are_dropped_and_counted(void **state)
{
    (void)state;
    struct bench b;
    open_one(&b);
    ok(say_events(&b, 0, "3 4 5"));
    assert_got(&b, "a:5x1");
    ok(say_events(&b, 0, "5"));
    assert_got(&b, "");
    assert_int_equal(belfry_mux_stats(b.mux).stale_events, 3);
    teardown(&b);
}

static void create_not_answered_is_a_timeout(void **state)
{
    (void)state;
    struct bench b;
    setup(&b);
    add(&b, "a", 5);
    add(&b, "b", 5);
    belfry_mux_stream_up(b.mux, b.now);
    assert_true(belfry_mux_due(b.mux) == BELFRY_NEVER);
    assert_sent(&b, "create a@5 create b@5");
    assert_int_equal(belfry_mux_due(b.mux), b.now + BELFRY_MUX_CREATE_TIMEOUT_MS);
    b.now += BELFRY_MUX_CREATE_TIMEOUT_MS - 1;
    ok(belfry_mux_tick(b.mux, b.now));
    ok(say_created(&b, 0, 20)); /* an answer is a sign of life */
    b.now += BELFRY_MUX_CREATE_TIMEOUT_MS - 1;
    ok(belfry_mux_tick(b.mux, b.now));
    b.now++;
    assert_int_equal(belfry_mux_tick(b.mux, b.now), BELFRY_ERR_TIMEOUT);
    belfry_mux_stream_down(b.mux);
    ok(belfry_mux_tick(b.mux, b.now));
    assert_true(belfry_mux_due(b.mux) == BELFRY_NEVER);
    teardown(&b);
}

/* ---- the start from now on ---- */

static void watch_from_now_on_waits_for_a_read_begun_after_it(void **state)
{
    (void)state;
    struct bench b;
    struct belfry_mux_read first, second;
    setup(&b);
    assert_false(belfry_mux_wants_revision(b.mux, &first));
    add(&b, "a", 0);
    assert_true(belfry_mux_wants_revision(b.mux, &first));
    assert_true(belfry_bytes_equal(first.key, belfry_bytes_str("a")));
    struct belfry_mux_watch *late = add(&b, "b", 0);
    assert_false(belfry_mux_wants_stream(b.mux));
    belfry_mux_revision(b.mux, first.generation, 40);
    belfry_mux_stream_up(b.mux, b.now);
    assert_sent(&b, "create a@41");
    assert_int_equal(belfry_mux_next_rev(late), 0);
    assert_true(belfry_mux_wants_revision(b.mux, &second));
    assert_true(belfry_bytes_equal(second.key, belfry_bytes_str("b")));
    belfry_mux_revision(b.mux, second.generation, 44);
    assert_sent(&b, "create b@45");
    assert_false(belfry_mux_wants_revision(b.mux, &second));
    teardown(&b);
}

static void refused_read_of_the_revision_ends_the_watch(void **state)
{
    (void)state;
    struct bench b;
    setup(&b);
    struct belfry_mux_read read;
    add(&b, "a", 0);
    add(&b, "b", 0);
    assert_true(belfry_mux_wants_revision(b.mux, &read));
    belfry_mux_revision_refused(b.mux, read.asker, BELFRY_ERR_DENIED, "permission denied");
    assert_got(&b, "a:!DENIED@0");
    assert_int_equal(belfry_mux_count(b.mux), 1);
    teardown(&b);
}

static void refused_read_of_a_watch_that_is_gone_ends_no_other(void **state)
{
    (void)state;
    struct bench b;
    setup(&b);
    struct belfry_mux_read read;
    struct belfry_mux_watch *asker = add(&b, "a", 0);
    add(&b, "b", 0);
    assert_true(belfry_mux_wants_revision(b.mux, &read));
    belfry_mux_remove(b.mux, asker);
    belfry_mux_revision_refused(b.mux, read.asker, BELFRY_ERR_DENIED, "permission denied");
    assert_got(&b, "");
    assert_true(belfry_mux_wants_revision(b.mux, &read));
    assert_true(belfry_bytes_equal(read.key, belfry_bytes_str("b")));
    teardown(&b);
}

/* ---- progress ---- */

static void progress_of_all_reaches_every_watch_it_is_true_for(void **state)
{
    (void)state;
    struct bench b;
    open_one(&b);
    add(&b, "b", 60);
    add(&b, "c", 30);
    assert_sent(&b, "create b@60 create c@30");
    ok(say_created(&b, 1, 20));
    ok(say_created(&b, 2, 20));
    ok(say_progress(&b, -1, 40));
    assert_got(&b, "a:P40 c:P40"); /* b starts later */
    ok(say_progress(&b, -1, 40));
    assert_got(&b, "a:P40 c:P40"); /* nothing new, but a sign of life */
    ok(say_progress(&b, -1, 30));
    assert_got(&b, ""); /* never back */
    ok(say_progress(&b, 0, 45));
    assert_got(&b, "a:P45");
    ok(say_progress(&b, 77, 50));
    assert_got(&b, "");
    teardown(&b);
}

static void header_of_events_is_no_progress(void **state)
{
    (void)state;
    struct bench b;
    struct belfry_mux_watch *watch = open_one(&b);
    ok(say_events(&b, 0, "6"));
    assert_got(&b, "a:6x1");
    assert_int_equal(belfry_mux_next_rev(watch), 7);
    ok(say(&b, head_of(0, 0), ""));   /* a header of zero says nothing */
    ok(say(&b, head_of(0, 50), "+")); /* a fragment without events is no progress */
    assert_got(&b, "");
    teardown(&b);
}

static void progress_from_before_a_watch_is_not_given_to_it(void **state)
{
    (void)state;
    struct bench b;
    open_one(&b);
    belfry_mux_request_progress(b.mux, b.now);
    assert_sent(&b, "progress");
    add(&b, "b", 5);
    assert_sent(&b, "create b@5");
    ok(say_created(&b, 1, 20)); /* overtakes the answer, which waits in the other queue */
    ok(say_progress(&b, -1, 20));
    assert_got(&b, "a:P20");
    assert_sent(&b, ""); /* b has had no answer yet, but no server is asked without a pause */
    b.now += BELFRY_MUX_PROGRESS_MS;
    ok(belfry_mux_tick(b.mux, b.now));
    assert_sent(&b, "progress");
    ok(say_events(&b, 1, "12"));
    assert_got(&b, "b:12x1");
    ok(say_progress(&b, -1, 20));
    assert_got(&b, "a:P20 b:P20");
    assert_sent(&b, "");
    belfry_mux_request_progress(b.mux, b.now + 10); /* at once again: it waits */
    assert_sent(&b, "");
    assert_int_equal(belfry_mux_due(b.mux), b.now + BELFRY_MUX_PROGRESS_MS);
    b.now += BELFRY_MUX_PROGRESS_MS;
    ok(belfry_mux_tick(b.mux, b.now));
    assert_sent(&b, "progress");
    teardown(&b);
}

static void progress_newer_than_the_created_answer_is_given(void **state)
{
    (void)state;
    struct bench b;
    open_one(&b);
    belfry_mux_request_progress(b.mux, b.now);
    assert_sent(&b, "progress");
    add(&b, "b", 5);
    assert_sent(&b, "create b@5");
    ok(say_created(&b, 1, 20));
    ok(say_progress(&b, -1, 21)); /* computed after b was registered: b was synced */
    assert_got(&b, "a:P21 b:P21");
    teardown(&b);
}

static void progress_is_asked_again_until_answered(void **state)
{
    (void)state;
    struct bench b;
    setup(&b);
    belfry_mux_request_progress(b.mux, b.now); /* nobody to ask for */
    add(&b, "a", 5);
    belfry_mux_stream_up(b.mux, b.now);
    assert_sent(&b, "create a@5");
    belfry_mux_request_progress(b.mux, b.now);
    assert_sent(&b, ""); /* no server answers before created */
    ok(say_created(&b, 0, 20));
    assert_sent(&b, "progress");
    assert_int_equal(belfry_mux_due(b.mux), b.now + BELFRY_MUX_PROGRESS_MS);
    b.now += BELFRY_MUX_PROGRESS_MS;
    ok(belfry_mux_tick(b.mux, b.now));
    assert_sent(&b, "progress");
    belfry_mux_stream_down(b.mux);
    belfry_mux_stream_up(b.mux, b.now);
    assert_sent(&b, "create a@5");
    ok(say_created(&b, 0, 20));
    assert_sent(&b, "progress");
    ok(say_progress(&b, -1, 20));
    assert_got(&b, "a:P20");
    b.now += 10 * BELFRY_MUX_PROGRESS_MS;
    ok(belfry_mux_tick(b.mux, b.now));
    assert_sent(&b, "");
    teardown(&b);
}

static void progress_is_asked_only_of_a_server_that_is_trusted(void **state)
{
    (void)state;
    struct bench b;
    open_one(&b);
    belfry_mux_trust_progress(b.mux, false);
    assert_false(belfry_mux_wants_progress(b.mux));
    belfry_mux_request_progress(b.mux, b.now);
    assert_true(belfry_mux_wants_progress(b.mux));
    assert_sent(&b, "");
    assert_int_equal(belfry_mux_due(b.mux), BELFRY_NEVER); /* nothing to wake up for */
    b.now += 10 * BELFRY_MUX_PROGRESS_MS;
    ok(belfry_mux_tick(b.mux, b.now));
    assert_sent(&b, "");
    belfry_mux_trust_progress(b.mux, true); /* the wish still stands */
    assert_sent(&b, "progress");
    ok(say_progress(&b, -1, 20));
    assert_got(&b, "a:P20");
    assert_false(belfry_mux_wants_progress(b.mux));
    teardown(&b);
}

static void progress_of_a_server_that_is_not_trusted_skips_nothing(void **state)
{
    (void)state;
    struct bench b;
    open_one(&b);
    belfry_mux_trust_progress(b.mux, false);
    belfry_mux_request_progress(b.mux, b.now);
    ok(say_progress(&b, -1, 30)); /* overtakes 12 and 30 */
    assert_got(&b, "");
    assert_true(belfry_mux_wants_progress(b.mux));
    ok(say_events(&b, 0, "12 30"));
    assert_got(&b, "a:12x1 a:30x1");
    ok(say_progress(&b, -1, 40));
    belfry_mux_stream_down(b.mux);
    belfry_mux_stream_up(b.mux, b.now);
    assert_sent(&b, "create a@31"); /* and not @41 */
    ok(say_created(&b, 0, 40));
    ok(say_progress(&b, 0, 40)); /* of its own: that goes the way of events */
    assert_got(&b, "a:P40");
    assert_int_equal(belfry_mux_stats(b.mux).stale_events, 0);
    teardown(&b);
}

static void progress_before_created_is_not_for_the_new_watch(void **state)
{
    (void)state;
    struct bench b;
    open_one(&b);
    belfry_mux_request_progress(b.mux, b.now);
    assert_sent(&b, "progress");
    add(&b, "b", 5);
    assert_sent(&b, "create b@5");
    ok(say_progress(&b, -1, 30));
    assert_got(&b, "a:P30");
    ok(say_created(&b, 1, 30));
    ok(say_events(&b, 1, "12"));
    assert_got(&b, "b:12x1");
    teardown(&b);
}

static void progress_inside_an_unfinished_response_dies_with_it(void **state)
{
    (void)state;
    struct bench b;
    open_one(&b);
    ok(say_events(&b, 0, "9+"));
    ok(say_progress(&b, 0, 15));
    assert_got(&b, "");
    belfry_mux_stream_down(b.mux);
    assert_got(&b, "");
    belfry_mux_stream_up(b.mux, b.now);
    assert_sent(&b, "create a@5");
    teardown(&b);
}

/* ---- ends ---- */

static void compaction_ends_the_watch_and_cancels_its_id(void **state)
{
    (void)state;
    struct bench b;
    open_one(&b);
    ok(say_canceled(&b, 0, 17, NO_REASON));
    assert_got(&b, "a:!COMPACTED@17");
    assert_sent(&b, "cancel 0"); /* the server remembers it until then */
    ok(say_canceled(&b, 0, 0, NO_REASON));
    assert_got(&b, "");
    assert_int_equal(belfry_mux_count(b.mux), 0);
    assert_sent(&b, "");
    teardown(&b);
}

static void what_came_before_the_end_is_given_before_the_end(void **state)
{
    (void)state;
    struct bench b;
    struct belfry_mux_watch *watch = open_one(&b);
    belfry_mux_pause(b.mux, watch);
    ok(say_events(&b, 0, "5 6"));
    ok(say_canceled(&b, 0, 17, NO_REASON));
    assert_got(&b, "");
    assert_sent(&b, "cancel 0"); /* the server need not wait for the reader */
    belfry_mux_resume(b.mux, watch);
    assert_got(&b, "a:5x1 a:6x1 a:!COMPACTED@17");
    teardown(&b);
}

static void refusals_end_with_their_reason(void **state)
{
    (void)state;
    static const struct {
        const char *reason, *end;
    } rows[] = {
        {"rpc error: code = PermissionDenied desc = etcdserver: permission denied", "a:!DENIED@0"},
        {"mvcc: watcher range is empty", "a:!REFUSED@0"},
        {"etcdserver: mvcc: required revision has been compacted", "a:!COMPACTED@0"},
        {"", "a:!REFUSED@0"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct bench b;
        setup(&b);
        add(&b, "a", 5);
        add(&b, "b", 5);
        belfry_mux_stream_up(b.mux, b.now);
        assert_sent(&b, "create a@5 create b@5");
        ok(say_refused(&b, rows[i].reason));
        assert_got(&b, rows[i].end);
        ok(say_created(&b, 0, 20));
        ok(say_events(&b, 0, "5"));
        assert_got(&b, "b:5x1");
        teardown(&b);
    }
}

static void created_with_id_minus_one_is_a_refusal(void **state)
{
    (void)state;
    struct bench b;
    setup(&b);
    add(&b, "a", 5);
    belfry_mux_stream_up(b.mux, b.now);
    assert_sent(&b, "create a@5");
    ok(say_created(&b, -1, 20));
    assert_got(&b, "a:!REFUSED@0");
    teardown(&b);
}

static void refused_token_is_an_error_once_and_then_the_end(void **state)
{
    (void)state;
    static const char reason[] = "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token";
    struct bench b;
    setup(&b);
    add(&b, "a", 5);
    belfry_mux_stream_up(b.mux, b.now);
    assert_sent(&b, "create a@5");
    assert_int_equal(say_refused(&b, reason), BELFRY_ERR_AUTH);
    belfry_mux_stream_down(b.mux);
    assert_got(&b, "");
    belfry_mux_auth_is_final(b.mux, true);
    belfry_mux_stream_up(b.mux, b.now);
    assert_sent(&b, "create a@5");
    ok(say_refused(&b, reason));
    assert_got(&b, "a:!AUTH@0");
    add(&b, "b", 5);
    add(&b, "c", 5);
    assert_sent(&b, "create b@5 create c@5");
    ok(say_created(&b, 0, 20)); /* a success: the next refusal is worth a login again */
    assert_int_equal(say_refused(&b, reason), BELFRY_ERR_AUTH);
    teardown(&b);
}

static void cancel_without_a_reason_is_created_again_a_few_times(void **state)
{
    (void)state;
    struct bench b;
    open_one(&b);
    int64_t id = 0;
    for (int i = 0; i < BELFRY_MUX_RECREATES; i++) {
        ok(say_canceled(&b, id++, 0, NO_REASON));
        assert_got(&b, "");
        assert_sent(&b, "create a@5");
        ok(say_created(&b, id, 20));
    }
    ok(say_progress(&b, id, 8)); /* news: counted from the start */
    assert_got(&b, "a:P8");
    for (int i = 0; i < BELFRY_MUX_RECREATES; i++) {
        ok(say_canceled(&b, id++, 0, NO_REASON));
        assert_got(&b, "");
        assert_sent(&b, "create a@9");
        ok(say_created(&b, id, 20));
    }
    ok(say_canceled(&b, id, 0, NO_REASON));
    assert_got(&b, "a:!REFUSED@0");
    teardown(&b);
}

static void cancel_with_a_reason_ends_the_watch(void **state)
{
    (void)state;
    struct bench b;
    open_one(&b);
    ok(say_canceled(&b, 0, 0, "the lease of this watch is over"));
    assert_got(&b, "a:!REFUSED@0");
    assert_sent(&b, "");
    teardown(&b);
}

static void revision_over_the_bound_ends_its_watch_alone(void **state)
{
    (void)state;
    struct bench b;
    open_one(&b);
    ok(say_events(&b, 0, "5 6+"));
    assert_got(&b, "a:5x1");
    enum belfry_err err = BELFRY_OK;
    for (int i = 0; i < 40 && err == BELFRY_OK && b.got[0] != '!'; i++) {
        assert_true(belfry_mux_held_bytes(b.mux) <= BOUND);
        ok(say_events(&b, 0, "6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6+"));
        assert_int_equal(take_actions(&b), BELFRY_ERR_AGAIN);
        if (b.got[0] != '\0')
            break;
    }
    assert_string_equal(b.got, "a:!TOO_LARGE@0");
    assert_int_equal(belfry_mux_held_bytes(b.mux), 0);
    assert_sent(&b, "cancel 0");
    ok(say_events(&b, 0, "6"));
    assert_got(&b, "");
    teardown(&b);
}

/* It is the revision that is bounded, not the response: each piece here ends one and begins the next. */
static void long_replay_of_small_revisions_is_within_the_bound(void **state)
{
    (void)state;
    struct bench b;
    struct belfry_mux_opts opts = {.max_revision_bytes = 50, .in_order = true}; /* one message alone may be larger */
    b = (struct bench){.now = 1000};
    ok(belfry_mux_create(&opts, &b.mux));
    add(&b, "a", 5);
    belfry_mux_stream_up(b.mux, b.now);
    assert_sent(&b, "create a@5");
    ok(say_created(&b, 0, 20));
    ok(say_events(&b, 0, "5 6 7 8 9 10+"));
    assert_got(&b, "a:5x1 a:6x1 a:7x1 a:8x1 a:9x1");
    ok(say_events(&b, 0, "10 11 12 13 14 15+"));
    assert_got(&b, "a:10x2 a:11x1 a:12x1 a:13x1 a:14x1");
    ok(say_events(&b, 0, "15"));
    assert_got(&b, "a:15x2");
    teardown(&b);
}

static void fail_ends_everything(void **state)
{
    (void)state;
    struct bench b;
    open_one(&b);
    add(&b, "b", 0);
    belfry_mux_fail(b.mux, BELFRY_ERR_CLUSTER, "another cluster");
    assert_got(&b, "a:!CLUSTER@0 b:!CLUSTER@0");
    assert_int_equal(belfry_mux_count(b.mux), 0);
    assert_null(belfry_mux_each(b.mux, NULL));
    teardown(&b);
}

/* ---- removal ---- */

static void watch_removed_before_created_is_cancelled_after(void **state)
{
    (void)state;
    struct bench b;
    setup(&b);
    struct belfry_mux_watch *gone = add(&b, "a", 5);
    add(&b, "b", 5);
    belfry_mux_stream_up(b.mux, b.now);
    assert_sent(&b, "create a@5 create b@5");
    belfry_mux_remove(b.mux, gone);
    assert_sent(&b, ""); /* it has no id yet */
    ok(say_created(&b, 0, 20));
    assert_sent(&b, "cancel 0");
    ok(say_created(&b, 1, 20));
    ok(say_events(&b, 0, "5"));
    ok(say_events(&b, 1, "5"));
    assert_got(&b, "b:5x1");
    ok(say_canceled(&b, 0, 0, NO_REASON));
    assert_got(&b, "");
    teardown(&b);
}

static void watch_may_be_removed_inside_its_own_action(void **state)
{
    (void)state;
    struct bench b;
    struct belfry_mux_watch *watch = open_one(&b);
    ok(say_events(&b, 0, "5 6 7"));
    b.remove = watch;
    assert_got(&b, "a:5x1");
    assert_sent(&b, "cancel 0");
    assert_int_equal(belfry_mux_held_bytes(b.mux), 0);
    teardown(&b);
}

static void watch_may_be_removed_inside_its_own_end(void **state)
{
    (void)state;
    struct bench b;
    struct belfry_mux_watch *watch = open_one(&b);
    ok(say_canceled(&b, 0, 17, NO_REASON));
    b.remove = watch;
    assert_got(&b, "a:!COMPACTED@17");
    assert_int_equal(belfry_mux_count(b.mux), 0);
    teardown(&b);
}

static void stop_as_verdict_removes(void **state)
{
    (void)state;
    struct bench b;
    open_one(&b);
    ok(say_events(&b, 0, "5 6"));
    b.verdict = BELFRY_MUX_STOP;
    assert_got(&b, "a:5x1");
    assert_sent(&b, "cancel 0");
    assert_int_equal(belfry_mux_count(b.mux), 0);
    teardown(&b);
}

static void each_leaves_out_a_watch_removed_inside_its_action(void **state)
{
    (void)state;
    struct bench b;
    struct belfry_mux_action action;
    struct belfry_mux_watch *a = open_one(&b), *other = add(&b, "b", 5);
    ok(say_events(&b, 0, "5"));
    assert_int_equal(belfry_mux_next(b.mux, &action), BELFRY_OK);
    assert_ptr_equal(belfry_mux_each(b.mux, NULL), a);
    belfry_mux_pause(b.mux, a);
    belfry_mux_remove(b.mux, a);
    belfry_mux_remove(b.mux, a);
    belfry_mux_resume(b.mux, a);
    assert_ptr_equal(belfry_mux_each(b.mux, NULL), other);
    assert_null(belfry_mux_each(b.mux, other));
    belfry_mux_taken(b.mux, BELFRY_MUX_MORE);
    assert_sent(&b, "cancel 0 create b@5");
    teardown(&b);
}

static void stream_may_end_inside_an_action(void **state)
{
    (void)state;
    struct bench b;
    struct belfry_mux_action action;
    open_one(&b);
    ok(say_events(&b, 0, "5 6 7+"));
    assert_int_equal(belfry_mux_next(b.mux, &action), BELFRY_OK);
    belfry_mux_stream_down(b.mux);
    belfry_mux_stream_up(b.mux, b.now);
    assert_sent(&b, ""); /* its inbox is to be emptied first */
    belfry_mux_taken(b.mux, BELFRY_MUX_MORE);
    assert_got(&b, "a:6x1");
    assert_sent(&b, "create a@7");
    teardown(&b);
}

/* ---- a server that misbehaves ---- */

static void unknown_id_is_cancelled_once(void **state)
{
    (void)state;
    struct bench b;
    open_one(&b);
    ok(say_events(&b, 70, "5"));
    ok(say_events(&b, 70, "6"));
    assert_sent(&b, "cancel 70");
    ok(say_events(&b, 70, "7"));
    assert_sent(&b, "");
    assert_got(&b, "");
    teardown(&b);
}

static void too_many_unknown_ids_are_a_protocol_error(void **state)
{
    (void)state;
    struct bench b;
    open_one(&b);
    for (int64_t id = 1; id <= BELFRY_MUX_ORPHANS; id++)
        ok(say_events(&b, id, "5"));
    assert_int_equal(say_events(&b, BELFRY_MUX_ORPHANS + 1, "5"), BELFRY_ERR_PROTOCOL);
    belfry_mux_stream_down(b.mux);
    belfry_mux_stream_up(b.mux, b.now);
    assert_sent(&b, "create a@5"); /* nothing is left of them */
    ok(say_created(&b, 0, 20));
    ok(say_events(&b, 1, "5"));
    teardown(&b);
}

static void answers_to_nothing_are_protocol_errors(void **state)
{
    (void)state;
    struct bench b;
    open_one(&b);
    assert_int_equal(say_created(&b, 1, 20), BELFRY_ERR_PROTOCOL); /* nothing was asked */
    add(&b, "b", 5);
    assert_sent(&b, "create b@5");
    assert_int_equal(say_created(&b, 0, 20), BELFRY_ERR_PROTOCOL); /* the id is taken */
    belfry_mux_stream_down(b.mux);
    assert_int_equal(say_events(&b, 0, "5"), BELFRY_ERR_PROTOCOL); /* no stream */
    teardown(&b);
}

static void created_is_told_once_before_all_else(void **state)
{
    (void)state;
    struct bench b;
    setup(&b);
    struct belfry_mux_spec spec = {.key = belfry_bytes_str("a"), .rev = 5, .created_notify = true, .pause_bytes = 1000};
    static char name[] = "a";
    struct belfry_mux_watch *watch;
    ok(belfry_mux_add(b.mux, &spec, name, &watch));
    belfry_mux_pause(b.mux, watch); /* created is no reason to speak to a watch that is paused */
    belfry_mux_resume(b.mux, watch);
    belfry_mux_stream_up(b.mux, b.now);
    assert_sent(&b, "create a@5");
    belfry_mux_pause(b.mux, watch);
    ok(say_created(&b, 0, 20));
    ok(say_events(&b, 0, "7"));
    assert_got(&b, "");
    belfry_mux_stream_down(b.mux);
    belfry_mux_resume(b.mux, watch);
    assert_got(&b, "a:K4 a:7x1");
    belfry_mux_stream_up(b.mux, b.now);
    assert_sent(&b, "create a@8");
    ok(say_created(&b, 0, 20));
    ok(say_events(&b, 0, "9"));
    assert_got(&b, "a:9x1");
    teardown(&b);
}

static void assert_asked_for_again(const uint8_t *bytes, size_t len)
{
    struct bench b;
    struct belfry_blob *blob;
    struct belfry_mux_watch *watch = open_one(&b);
    belfry_mux_pause(b.mux, watch);
    ok(belfry_blob_copy(belfry_bytes_of(bytes, len), &blob));
    ok(belfry_mux_message(b.mux, blob, b.now));
    belfry_blob_unref(blob);
    ok(say_progress(&b, 0, 15)); /* must not be given over what could not be read */
    belfry_mux_resume(b.mux, watch);
    assert_int_equal(take_actions(&b), BELFRY_ERR_PROTOCOL);
    belfry_mux_stream_down(b.mux);
    assert_got(&b, "");
    belfry_mux_stream_up(b.mux, b.now);
    assert_sent(&b, "create a@5");
    teardown(&b);
}

static void unreadable_events_are_asked_for_again(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0x0a, 0x02, 0x18, 0x09, 0x5a, 0x02, 0x12, 0x7f};
    assert_asked_for_again(bytes, sizeof(bytes));
}

static void event_of_an_unknown_type_is_never_given_as_a_put(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0x0a, 0x02, 0x18, 0x09, /* header, revision 9 */
                                    0x5a, 0x09, 0x08, 0x02, 0x12, 0x05, 0x0a, 0x01, 'a', 0x18, 0x09}; /* type 2 */
    assert_asked_for_again(bytes, sizeof(bytes));
}

/* ---- pausing ---- */

static void paused_watch_is_parked_at_its_bound_while_others_go_on(void **state)
{
    (void)state;
    struct bench b;
    struct belfry_mux_watch *watch = open_one(&b);
    add(&b, "b", 5);
    assert_sent(&b, "create b@5");
    ok(say_created(&b, 1, 20));
    belfry_mux_pause(b.mux, watch);
    ok(say_events(&b, 0, "5 5 6 7+"));
    size_t held = belfry_mux_held_bytes(b.mux);
    assert_true(held > 0 && held <= 100);
    assert_sent(&b, "");
    ok(say_events(&b, 0, "7 7 7 7 7 7 7 7 8")); /* over pause_bytes with what is there */
    assert_int_equal(belfry_mux_held_bytes(b.mux), held);
    assert_int_equal(belfry_mux_stats(b.mux).parked, 1);
    assert_sent(&b, "cancel 0");
    ok(say_events(&b, 0, "9"));
    ok(say_events(&b, 1, "5"));
    assert_got(&b, "b:5x1");
    ok(say_canceled(&b, 0, 0, NO_REASON));
    assert_sent(&b, "");
    belfry_mux_resume(b.mux, watch);
    assert_got(&b, "a:5x2 a:6x1");
    assert_sent(&b, "create a@7");
    ok(say_created(&b, 2, 20));
    ok(say_events(&b, 2, "7 7 8"));
    assert_got(&b, "a:7x2 a:8x1");
    assert_int_equal(belfry_mux_held_bytes(b.mux), 0);
    teardown(&b);
}

static void pause_as_verdict_keeps_the_rest_of_the_response(void **state)
{
    (void)state;
    struct bench b;
    struct belfry_mux_watch *watch = open_one(&b);
    ok(say_events(&b, 0, "5 6 7"));
    b.verdict = BELFRY_MUX_PAUSE;
    assert_got(&b, "a:5x1");
    assert_true(belfry_mux_paused(watch));
    belfry_mux_resume(b.mux, watch);
    assert_got(&b, "a:6x1");
    b.verdict = BELFRY_MUX_MORE;
    belfry_mux_resume(b.mux, watch);
    assert_got(&b, "a:7x1");
    teardown(&b);
}

static void paused_watch_is_not_created(void **state)
{
    (void)state;
    struct bench b;
    setup(&b);
    struct belfry_mux_watch *watch = add(&b, "a", 5);
    belfry_mux_pause(b.mux, watch);
    belfry_mux_stream_up(b.mux, b.now);
    assert_sent(&b, "");
    belfry_mux_resume(b.mux, watch);
    assert_sent(&b, "create a@5");
    teardown(&b);
}

static void break_while_paused_keeps_what_is_whole(void **state)
{
    (void)state;
    struct bench b;
    struct belfry_mux_watch *watch = open_one(&b);
    belfry_mux_pause(b.mux, watch);
    ok(say_events(&b, 0, "5 6+"));
    belfry_mux_stream_down(b.mux);
    assert_got(&b, "");
    assert_false(belfry_mux_wants_stream(b.mux)); /* nobody reads */
    belfry_mux_resume(b.mux, watch);
    assert_got(&b, "a:5x1");
    assert_true(belfry_mux_wants_stream(b.mux));
    belfry_mux_stream_up(b.mux, b.now);
    assert_sent(&b, "create a@6");
    teardown(&b);
}

static void progress_that_waits_counts_when_resuming(void **state)
{
    (void)state;
    struct bench b;
    struct belfry_mux_watch *watch = open_one(&b);
    belfry_mux_pause(b.mux, watch);
    ok(say_progress(&b, 0, 900));
    belfry_mux_stream_down(b.mux);
    belfry_mux_resume(b.mux, watch);
    belfry_mux_stream_up(b.mux, b.now);
    assert_sent(&b, "create a@901"); /* from 5 it might be compacted, and for nothing */
    assert_got(&b, "a:P900");
    teardown(&b);
}

static void progress_that_waits_survives_parking(void **state)
{
    (void)state;
    struct bench b;
    struct belfry_mux_watch *watch = open_one(&b);
    belfry_mux_pause(b.mux, watch);
    ok(say_progress(&b, 0, 900));
    ok(say_events(&b, 0, "901 902 903 904 905 906 907 908 909 910"));
    assert_int_equal(belfry_mux_stats(b.mux).parked, 1);
    assert_sent(&b, "cancel 0");
    belfry_mux_resume(b.mux, watch);
    assert_got(&b, "a:P900");
    assert_sent(&b, "create a@901");
    teardown(&b);
}

/* What was given before and what comes after may be of two servers, or of two pasts of one. */
static void loss_upstream_is_told_at_once_also_when_paused(void **state)
{
    (void)state;
    static const char *const rest[] = {"a:5x1 a:6x1", "a:5x1 a:6x1", "a:5x1 a:6x1 a:!COMPACTED@9"};
    for (int how = 0; how < 3; how++) {
        struct bench b;
        setup(&b);
        struct belfry_mux_watch *watch =
            add_spec(&b, "a", (struct belfry_mux_spec){.rev = 5, .lost_notify = true, .pause_bytes = 100});
        belfry_mux_stream_up(b.mux, b.now);
        assert_sent(&b, "create a@5");
        ok(say_created(&b, 0, 20));
        belfry_mux_pause(b.mux, watch);
        ok(say_events(&b, 0, "5 6"));
        assert_got(&b, "");
        if (how == 0)
            belfry_mux_stream_down(b.mux);
        else if (how == 1)
            ok(say_events(&b, 0, "7 7 7 7 7 7 7 7 8")); /* over what it may hold: parked */
        else
            ok(say_canceled(&b, 0, 9, NO_REASON));
        assert_got(&b, "a:lost");
        assert_got(&b, ""); /* once, and it is paused as before */
        assert_true(belfry_mux_paused(watch));
        belfry_mux_resume(b.mux, watch);
        assert_got(&b, rest[how]);
        teardown(&b);
    }
}

static void watch_that_upstream_never_had_is_not_lost(void **state)
{
    (void)state;
    struct bench b;
    setup(&b);
    add_spec(&b, "a", (struct belfry_mux_spec){.rev = 5, .lost_notify = true, .pause_bytes = 100});
    belfry_mux_stream_up(b.mux, b.now);
    assert_sent(&b, "create a@5");
    belfry_mux_stream_down(b.mux);
    assert_got(&b, "");
    teardown(&b);
}

/* ---- a member that is behind ---- */

static void lower_revision_is_lag_unless_a_read_says_so(void **state)
{
    (void)state;
    struct bench b;
    int64_t seen;
    open_one(&b);
    assert_false(belfry_mux_suspects(b.mux, &seen));
    belfry_mux_saw(b.mux, 50);
    belfry_mux_stream_down(b.mux);
    belfry_mux_stream_up(b.mux, b.now);
    add(&b, "b", 0);
    assert_sent(&b, "create a@5");
    ok(say_created(&b, 0, 30));
    assert_true(belfry_mux_suspects(b.mux, &seen));
    assert_int_equal(seen, 50);
    belfry_mux_judge(b.mux, seen, 50);
    assert_false(belfry_mux_suspects(b.mux, &seen));
    assert_got(&b, "");
    add(&b, "c", 3);
    assert_sent(&b, "create c@3");
    ok(say_created(&b, 1, 30));
    assert_true(belfry_mux_suspects(b.mux, &seen));
    add(&b, "d", 3);
    belfry_mux_judge(b.mux, seen, 30);
    assert_got(&b, "a:!REWOUND@30 c:!REWOUND@30"); /* b has read nothing yet, d asked for nothing */
    assert_sent(&b, "cancel 0 cancel 1 create d@3");
    ok(say_created(&b, 2, 31));
    assert_false(belfry_mux_suspects(b.mux, &seen));
    teardown(&b);
}

static void start_read_before_a_rewind_is_not_kept(void **state)
{
    (void)state;
    struct bench b;
    struct belfry_mux_read read;
    int64_t seen;
    open_one(&b);
    add(&b, "b", 0);
    assert_true(belfry_mux_wants_revision(b.mux, &read));
    belfry_mux_stream_down(b.mux);
    belfry_mux_revision(b.mux, read.generation, 90); /* b would wait for revision 91 of a cluster that is at 30 */
    belfry_mux_stream_up(b.mux, b.now);
    (void)belfry_mux_suspects(b.mux, &seen);
    belfry_mux_judge(b.mux, seen, 30);
    assert_got(&b, "a:!REWOUND@30 b:!REWOUND@30");
    teardown(&b);
}

/* ---- memory ---- */

static enum belfry_err pull_all(struct bench *b)
{
    struct belfry_buf buf;
    enum belfry_err err;
    belfry_buf_init(&buf);
    do
        err = belfry_mux_pull(b->mux, b->now, &buf);
    while (err == BELFRY_OK);
    belfry_buf_fini(&buf);
    return err == BELFRY_ERR_AGAIN ? BELFRY_OK : err;
}

static enum belfry_err take_some(struct bench *b)
{
    enum belfry_err err = take_actions(b);
    return err == BELFRY_ERR_AGAIN ? BELFRY_OK : err;
}

#define TRY(call)                                                                                                      \
    if ((err = (call)) != BELFRY_OK)                                                                                   \
    goto out

/* A whole life: two watches, fragments, a break in one, pause and park, compaction, an unknown id. */
static enum belfry_err life(void)
{
    static char names[2][2] = {"a", "b"};
    struct bench b = {.now = 1000};
    struct belfry_mux_opts opts = {.max_revision_bytes = BOUND, .in_order = true};
    struct belfry_mux_spec spec = {.key = belfry_bytes_str("a"), .rev = 5, .fragment = true, .pause_bytes = 40};
    struct belfry_mux_watch *first, *second;
    enum belfry_err err;
    TRY(belfry_mux_create(&opts, &b.mux));
    TRY(belfry_mux_add(b.mux, &spec, names[0], &first));
    TRY(belfry_mux_add(b.mux, &spec, names[1], &second));
    belfry_mux_stream_up(b.mux, b.now);
    TRY(pull_all(&b));
    TRY(say_created(&b, 0, 20));
    TRY(say_created(&b, 1, 20));
    TRY(say_events(&b, 0, "5 6+"));
    TRY(take_some(&b));
    belfry_mux_stream_down(b.mux);
    TRY(take_some(&b));
    belfry_mux_stream_up(b.mux, b.now);
    TRY(pull_all(&b));
    TRY(say_created(&b, 0, 20));
    TRY(say_created(&b, 1, 20));
    belfry_mux_pause(b.mux, second); /* id 0 now: it had nothing to drop and was first in line */
    TRY(say_events(&b, 0, "6 7"));
    TRY(say_events(&b, 0, "8 9 10"));
    TRY(say_events(&b, 70, "5"));
    TRY(say_events(&b, 1, "6+"));
    TRY(say_events(&b, 1, "6"));
    TRY(take_some(&b));
    belfry_mux_resume(b.mux, second);
    TRY(take_some(&b));
    TRY(pull_all(&b));
    TRY(say_created(&b, 2, 20));
    TRY(say_canceled(&b, 2, 17, "too old"));
    TRY(take_some(&b));
    TRY(pull_all(&b));
    assert_int_equal(belfry_mux_stats(b.mux).parked, 1);
    assert_int_equal(belfry_mux_stats(b.mux).resumes, 3);
    assert_int_equal(belfry_mux_count(b.mux), 1);
out:
    belfry_mux_destroy(b.mux);
    return err;
}

static void refused_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    assert_true(refuse_sweep(life) > 20);
}

/* ... and where memory was short, the next stream makes good for it. */
static void message_lost_for_want_of_memory_is_asked_for_again(void **state)
{
    (void)state;
    struct bench b;
    open_one(&b);
    struct belfry_blob *blob = encode(head_of(0, 1000), "5 6");
    assert_non_null(blob);
    refuse_begin(0);
    assert_int_equal(belfry_mux_message(b.mux, blob, b.now), BELFRY_ERR_NOMEM);
    assert_true(refuse_end());
    belfry_blob_unref(blob);
    belfry_mux_stream_down(b.mux);
    assert_got(&b, "");
    belfry_mux_stream_up(b.mux, b.now);
    assert_sent(&b, "create a@5");
    teardown(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(creates_are_pipelined_and_matched_by_order),
        cmocka_unit_test(creates_go_one_by_one_until_the_server_names_its_cluster),
        cmocka_unit_test(unanswered_creates_are_bounded),
        cmocka_unit_test(break_resumes_each_watch_at_its_own_place),
        cmocka_unit_test(revision_in_fragments_is_given_whole_or_after_a_break_again),
        cmocka_unit_test(unmerged_parts_are_not_repeated_after_a_break),
        cmocka_unit_test(events_behind_their_progress_are_given_first_and_logged),
        cmocka_unit_test(events_older_than_wanted_are_dropped_and_counted),
        cmocka_unit_test(create_not_answered_is_a_timeout),
        cmocka_unit_test(watch_from_now_on_waits_for_a_read_begun_after_it),
        cmocka_unit_test(refused_read_of_the_revision_ends_the_watch),
        cmocka_unit_test(refused_read_of_a_watch_that_is_gone_ends_no_other),
        cmocka_unit_test(progress_of_all_reaches_every_watch_it_is_true_for),
        cmocka_unit_test(header_of_events_is_no_progress),
        cmocka_unit_test(progress_from_before_a_watch_is_not_given_to_it),
        cmocka_unit_test(progress_newer_than_the_created_answer_is_given),
        cmocka_unit_test(progress_is_asked_again_until_answered),
        cmocka_unit_test(progress_is_asked_only_of_a_server_that_is_trusted),
        cmocka_unit_test(progress_of_a_server_that_is_not_trusted_skips_nothing),
        cmocka_unit_test(progress_before_created_is_not_for_the_new_watch),
        cmocka_unit_test(progress_inside_an_unfinished_response_dies_with_it),
        cmocka_unit_test(compaction_ends_the_watch_and_cancels_its_id),
        cmocka_unit_test(what_came_before_the_end_is_given_before_the_end),
        cmocka_unit_test(refusals_end_with_their_reason),
        cmocka_unit_test(created_with_id_minus_one_is_a_refusal),
        cmocka_unit_test(refused_token_is_an_error_once_and_then_the_end),
        cmocka_unit_test(cancel_without_a_reason_is_created_again_a_few_times),
        cmocka_unit_test(cancel_with_a_reason_ends_the_watch),
        cmocka_unit_test(revision_over_the_bound_ends_its_watch_alone),
        cmocka_unit_test(long_replay_of_small_revisions_is_within_the_bound),
        cmocka_unit_test(fail_ends_everything),
        cmocka_unit_test(watch_removed_before_created_is_cancelled_after),
        cmocka_unit_test(watch_may_be_removed_inside_its_own_action),
        cmocka_unit_test(watch_may_be_removed_inside_its_own_end),
        cmocka_unit_test(stop_as_verdict_removes),
        cmocka_unit_test(each_leaves_out_a_watch_removed_inside_its_action),
        cmocka_unit_test(stream_may_end_inside_an_action),
        cmocka_unit_test(unknown_id_is_cancelled_once),
        cmocka_unit_test(too_many_unknown_ids_are_a_protocol_error),
        cmocka_unit_test(answers_to_nothing_are_protocol_errors),
        cmocka_unit_test(created_is_told_once_before_all_else),
        cmocka_unit_test(unreadable_events_are_asked_for_again),
        cmocka_unit_test(event_of_an_unknown_type_is_never_given_as_a_put),
        cmocka_unit_test(paused_watch_is_parked_at_its_bound_while_others_go_on),
        cmocka_unit_test(pause_as_verdict_keeps_the_rest_of_the_response),
        cmocka_unit_test(paused_watch_is_not_created),
        cmocka_unit_test(break_while_paused_keeps_what_is_whole),
        cmocka_unit_test(progress_that_waits_counts_when_resuming),
        cmocka_unit_test(progress_that_waits_survives_parking),
        cmocka_unit_test(loss_upstream_is_told_at_once_also_when_paused),
        cmocka_unit_test(watch_that_upstream_never_had_is_not_lost),
        cmocka_unit_test(lower_revision_is_lag_unless_a_read_says_so),
        cmocka_unit_test(start_read_before_a_rewind_is_not_kept),
        cmocka_unit_test(refused_memory_leaves_nothing_behind),
        cmocka_unit_test(message_lost_for_want_of_memory_is_asked_for_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
