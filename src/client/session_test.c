/* src/client/session_test.c: the public API on a real session, against members made by support/fakeetcd. */
#include "client/session.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include <cmocka.h>

#include <belfry/lease.h>

#include "base/clock.h"
#include "support/fakeetcd.h"
#include "support/refuse.h"

#define SOON_MS 8000 /* far more than anything here takes */
#define WATCHES 4

/* ---- the bed ---- */

static struct bed {
    struct fake_store store, other;
    struct fake_rule rule;
    struct fake *fakes[2];
    struct belfry *b;
    unsigned dispatches;
    bool over; /* what callbacks would write to is gone with the test's stack */
} bed;

static void turn(void)
{
    for (int i = 0; i < 2; i++) {
        if (bed.fakes[i] != NULL)
            fake_turn(bed.fakes[i]);
    }
    struct pollfd fd = {.fd = belfry_fd(bed.b), .events = POLLIN};
    if (poll(&fd, 1, 1) == 1) {
        bed.dispatches++;
        assert_int_equal(belfry_dispatch(bed.b), BELFRY_OK);
    }
}

#define drive_until(condition, ms)                                                                                     \
    do {                                                                                                               \
        uint64_t end_ = belfry_clock_ms() + (ms);                                                                      \
        while (!(condition) && belfry_clock_ms() < end_)                                                               \
            turn();                                                                                                    \
        assert_true(condition);                                                                                        \
    } while (0)

static void drive_for(uint64_t ms)
{
    uint64_t end = belfry_clock_ms() + ms;
    while (belfry_clock_ms() < end)
        turn();
}

static struct belfry_opts *options(const char *const *pairs)
{
    struct belfry_opts *opts = NULL;
    for (; pairs != NULL && *pairs != NULL; pairs += 2)
        assert_int_equal(belfry_opts_set(&opts, pairs[0], pairs[1]), BELFRY_OK);
    return opts;
}

#define OPTS(...) options((const char *const[]){__VA_ARGS__, NULL})

static void open_session(struct belfry_opts *opts)
{
    char endpoints[200];
    snprintf(endpoints, sizeof(endpoints), "%s%s%s", fake_url(bed.fakes[0]), bed.fakes[1] != NULL ? "," : "",
             bed.fakes[1] != NULL ? fake_url(bed.fakes[1]) : "");
    char why[200] = "";
    int err = belfry_open_why(endpoints, opts, &bed.b, why, sizeof(why));
    if (err != BELFRY_OK)
        fail_msg("%s", why);
    belfry_opts_free(opts);
}

static void make_members(int n)
{
    memset(&bed.rule, 0, sizeof(bed.rule));
    fake_store_init(&bed.store);
    fake_store_init(&bed.other);
    fake_put(&bed.store, "a/1", "one");
    fake_put(&bed.store, "a/2", "two");
    fake_put(&bed.store, "b/1", "three");
    for (int i = 0; i < n; i++)
        bed.fakes[i] = fake_create(&bed.store, &bed.rule);
}

static void close_session(void)
{
    bed.over = true;
    belfry_close(bed.b);
    bed.b = NULL;
    bed.over = false;
}

static int teardown(void **state)
{
    (void)state;
    close_session();
    for (int i = 0; i < 2; i++) {
        fake_destroy(bed.fakes[i]);
        bed.fakes[i] = NULL;
    }
    bed.dispatches = 0;
    return refuse_held() == 0 ? 0 : -1;
}

/* The member that has a connection with a watch on it. */
static struct fake *watched_member(void)
{
    return bed.fakes[1] != NULL && fake_n_watches(bed.fakes[1]) > 0 ? bed.fakes[1] : bed.fakes[0];
}

static size_t requests(const char *path)
{
    return fake_count(bed.fakes[0], path) + (bed.fakes[1] != NULL ? fake_count(bed.fakes[1], path) : 0);
}

/* ---- what callbacks saw ---- */

enum act { ACT_NONE, ACT_CLOSE, ACT_STOP, ACT_PAUSE, ACT_CLOSE_OTHER, ACT_OPEN, ACT_STOP_RUN };

struct seen {
    int n[BELFRY_CREATED + 1], n_events, n_deletes, err;
    int64_t rev, compact_rev;
    char why[300], link[600], log[600]; /* log: "+key " and "-key " in the order told */
    /* what to do at the act_at-th call of a kind; 0: never */
    enum belfry_kind kind;
    enum act act;
    int act_at;
    struct belfry_watch *other;
    int open_err;
};

static void note_events(struct seen *seen, const struct belfry_batch *batch)
{
    const struct belfry_event *event = NULL;
    size_t n = 0;
    while ((event = belfry_batch_next(batch, event)) != NULL) {
        size_t used = strlen(seen->log);
        snprintf(seen->log + used, sizeof(seen->log) - used, "%c%.*s ", event->op == BELFRY_PUT ? '+' : '-',
                 (int)event->key.len, event->key.data);
        seen->n_events++;
        seen->n_deletes += event->op == BELFRY_DELETE;
        n++;
    }
    assert_int_equal(n, batch->n_events);
}

static enum belfry_next on_nothing(struct belfry_watch *w, const struct belfry_batch *batch, void *user)
{
    (void)w;
    (void)batch;
    (void)user;
    return BELFRY_MORE;
}

static void note(struct seen *seen, const struct belfry_batch *batch)
{
    seen->n[batch->kind]++;
    if (batch->kind == BELFRY_LINK) {
        size_t used = strlen(seen->link);
        snprintf(seen->link + used, sizeof(seen->link) - used, "%s\n", batch->why);
        return;
    }
    if (batch->kind == BELFRY_END) {
        seen->err = batch->err;
        seen->compact_rev = batch->compact_rev;
        snprintf(seen->why, sizeof(seen->why), "%s", batch->why);
        return;
    }
    assert_true(batch->header.cluster_id != 0);
    seen->rev = batch->rev;
    note_events(seen, batch);
}

static enum belfry_next on_batch(struct belfry_watch *w, const struct belfry_batch *batch, void *user)
{
    struct seen *seen = user;
    if (bed.over)
        return BELFRY_MORE;
    note(seen, batch);
    if (seen->act == ACT_NONE || batch->kind != seen->kind || seen->n[batch->kind] != seen->act_at)
        return BELFRY_MORE;
    switch (seen->act) {
    case ACT_NONE:
        break;
    case ACT_CLOSE:
        belfry_watch_close(w);
        belfry_watch_close(w); /* as often as one likes, inside */
        break;
    case ACT_STOP:
        return BELFRY_STOP;
    case ACT_PAUSE:
        return BELFRY_PAUSE;
    case ACT_CLOSE_OTHER:
        belfry_watch_close(seen->other);
        break;
    case ACT_OPEN:
        seen->open_err = belfry_watch_open(bed.b, belfry_prefix("x/"), NULL, on_nothing, NULL, NULL);
        break;
    case ACT_STOP_RUN:
        belfry_stop(bed.b);
        break;
    }
    return BELFRY_MORE;
}

struct got {
    int n, err;
    int64_t count, rev, ttl;
    size_t n_kvs, n_members;
    char why[600], endpoint[64], kvs[200], version[16];
    struct belfry_call *cancel; /* inside the reply */
    bool again;                 /* ask once more inside the reply */
    int again_err;
};

static void on_nothing_replied(const struct belfry_reply *reply, void *user)
{
    (void)reply;
    (void)user;
}

static void on_reply(const struct belfry_reply *reply, void *user)
{
    struct got *got = user;
    const struct belfry_event *kv = NULL;
    const struct belfry_member *member = NULL;
    if (bed.over)
        return;
    got->n++;
    got->err = reply->err;
    if (bed.b != NULL) { /* a callback may ask anything, also while the session is closed */
        (void)belfry_get_stats(bed.b);
        assert_int_equal(belfry_request_progress(bed.b), BELFRY_OK);
    }
    assert_true(reply->why != NULL && reply->endpoint != NULL);
    snprintf(got->why, sizeof(got->why), "%s", reply->why);
    snprintf(got->endpoint, sizeof(got->endpoint), "%s", reply->endpoint);
    got->count = reply->count;
    got->rev = reply->header.revision;
    got->ttl = reply->ttl_s;
    got->kvs[0] = '\0';
    while ((kv = belfry_reply_kv(reply, kv)) != NULL) {
        size_t used = strlen(got->kvs);
        snprintf(got->kvs + used, sizeof(got->kvs) - used, "%.*s=%.*s ", (int)kv->key.len, kv->key.data,
                 (int)kv->value.len, kv->value.data);
        got->n_kvs++;
    }
    while ((member = belfry_reply_member(reply, member)) != NULL)
        got->n_members++;
    if (reply->status != NULL)
        snprintf(got->version, sizeof(got->version), "%s", reply->status->version);
    if (got->cancel != NULL)
        belfry_call_cancel(got->cancel);
    if (got->again)
        got->again_err = belfry_get(bed.b, belfry_key("a/1"), NULL, on_nothing_replied, NULL, NULL);
}

static struct belfry_bytes str(const char *text)
{
    return belfry_bytes_str(text);
}

static struct belfry_watch *watch(const char *prefix, const char *rev, struct seen *seen)
{
    struct belfry_opts *opts = rev != NULL ? OPTS("rev", rev) : NULL;
    struct belfry_watch *w;
    assert_int_equal(belfry_watch_open(bed.b, belfry_prefix(prefix), opts, on_batch, seen, &w), BELFRY_OK);
    belfry_opts_free(opts);
    return w;
}

static struct belfry_watch *follow(const char *prefix, struct seen *seen)
{
    struct belfry_watch *w;
    assert_int_equal(belfry_follow_open(bed.b, belfry_prefix(prefix), NULL, on_batch, seen, &w), BELFRY_OK);
    return w;
}

static struct belfry_call *get(const char *key, struct belfry_opts *opts, struct got *got)
{
    struct belfry_call *call;
    assert_int_equal(belfry_get(bed.b, belfry_prefix(key), opts, on_reply, got, &call), BELFRY_OK);
    belfry_opts_free(opts);
    return call;
}

static struct belfry_call *put(const char *key, struct belfry_opts *opts, struct got *got)
{
    struct belfry_call *call;
    assert_int_equal(belfry_put(bed.b, str(key), str("v"), opts, on_reply, got, &call), BELFRY_OK);
    belfry_opts_free(opts);
    return call;
}

/* ---- calls ---- */

static void calls_are_answered(void **state)
{
    struct got range = {0}, wrote = {0}, txn = {0}, status = {0}, members = {0}, kept = {0}, unknown = {0};
    (void)state;
    make_members(1);
    open_session(NULL);
    get("a/", NULL, &range);
    drive_until(range.n == 1, SOON_MS);
    assert_int_equal(range.err, BELFRY_OK);
    assert_string_equal(range.kvs, "a/1=one a/2=two ");
    assert_int_equal(range.count, 2);
    assert_int_equal(range.rev, 4);
    assert_string_equal(range.endpoint, fake_url(bed.fakes[0]));
    assert_string_equal(range.why, "");
    put("a/3", NULL, &wrote);
    struct belfry_txn *t = belfry_txn_create();
    belfry_txn_if_mod_rev(t, str("x"), '=', 0);
    belfry_txn_put(t, BELFRY_THEN, str("x"), str("y"), 0);
    assert_int_equal(belfry_txn_commit(bed.b, t, NULL, on_reply, &txn, NULL), BELFRY_OK);
    belfry_txn_free(t);
    assert_int_equal(belfry_status(bed.b, NULL, on_reply, &status, NULL), BELFRY_OK);
    assert_int_equal(belfry_member_list(bed.b, NULL, on_reply, &members, NULL), BELFRY_OK);
    assert_int_equal(belfry_lease_keepalive(bed.b, 7, NULL, on_reply, &kept, NULL), BELFRY_OK);
    assert_int_equal(belfry_compact(bed.b, 2, NULL, on_reply, &unknown, NULL), BELFRY_OK);
    drive_until(wrote.n + txn.n + status.n + members.n + kept.n + unknown.n == 6, SOON_MS);
    assert_int_equal(wrote.err + txn.err + status.err + members.err + kept.err, 0);
    assert_string_equal(status.version, "3.5.99");
    assert_int_equal(members.n_members, 1);
    assert_int_equal(kept.ttl, 60);
    assert_int_equal(unknown.err, BELFRY_ERR_UNSUPPORTED);
    assert_int_equal(fake_n_conns(bed.fakes[0]), 1);
}

/* A member without a leader refuses every call with hasleader, and a read that may be old needs no leader. */
static void serializable_reads_are_sent_without_hasleader(void **state)
{
    static const struct {
        const char *serializable; /* of both gets */
        bool puts;
        size_t n_hasleader; /* of the get and the transaction */
    } rows[] = {{"true", false, 0}, {"true", true, 1}, {"false", false, 2}};
    (void)state;
    make_members(1);
    open_session(NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct got range = {0}, txn = {0};
        struct belfry_opts *opts = OPTS("serializable", rows[i].serializable);
        bed.store.n_hasleader = 0;
        struct belfry_txn *t = belfry_txn_create();
        belfry_txn_if_mod_rev(t, str("x"), '=', 0);
        belfry_txn_get_with(t, BELFRY_THEN, belfry_key("a/1"), opts);
        if (rows[i].puts)
            belfry_txn_put(t, BELFRY_ELSE, str("x"), str("y"), 0);
        get("a/", opts, &range);
        assert_int_equal(belfry_txn_commit(bed.b, t, NULL, on_reply, &txn, NULL), BELFRY_OK);
        belfry_txn_free(t);
        drive_until(range.n + txn.n == 2, SOON_MS);
        assert_int_equal(range.err + txn.err, 0);
        assert_int_equal(bed.store.n_hasleader, rows[i].n_hasleader);
    }
}

static void arguments_that_make_no_sense_are_refused(void **state)
{
    struct belfry *b;
    char why[200];
    struct belfry_opts *watch_opts = OPTS("no-put", "true"), *quick = OPTS("keepalive-time", "1s");
    struct belfry_opts *user = OPTS("user", "root"), *never = OPTS("dial-timeout", "0s");
    (void)state;
    assert_int_equal(belfry_open("", NULL, &b), BELFRY_ERR_INVALID);
    assert_int_equal(belfry_open("ftp://x", NULL, &b), BELFRY_ERR_INVALID);
    assert_int_equal(belfry_open_why("http://127.0.0.1:1", watch_opts, &b, why, sizeof(why)), BELFRY_ERR_INVALID);
    assert_int_equal(belfry_open_why("http://127.0.0.1:1", quick, &b, why, sizeof(why)), BELFRY_ERR_INVALID);
    assert_non_null(strstr(why, "keepalive-time"));
    assert_int_equal(belfry_open_why("http://127.0.0.1:1", user, &b, why, sizeof(why)), BELFRY_ERR_INVALID);
    assert_non_null(strstr(why, "password"));
    assert_int_equal(belfry_open_why("http://127.0.0.1:1", never, &b, why, sizeof(why)), BELFRY_ERR_INVALID);
    make_members(1);
    open_session(NULL);
    assert_int_equal(belfry_watch_open(bed.b, belfry_interval("b", "a"), NULL, on_nothing, NULL, NULL),
                     BELFRY_ERR_INVALID);
    assert_int_equal(belfry_watch_open(bed.b, belfry_key("a"), quick, on_nothing, NULL, NULL), BELFRY_ERR_INVALID);
    assert_int_equal(belfry_watch_open(bed.b, belfry_key("a"), NULL, NULL, NULL, NULL), BELFRY_ERR_INVALID);
    assert_int_equal(belfry_follow_open(bed.b, belfry_key("a"), watch_opts, on_nothing, NULL, NULL),
                     BELFRY_ERR_INVALID);
    assert_int_equal(belfry_put(bed.b, str(""), str("v"), NULL, on_reply, NULL, NULL), BELFRY_ERR_INVALID);
    assert_int_equal(belfry_get(bed.b, belfry_key("a"), watch_opts, on_reply, NULL, NULL), BELFRY_ERR_INVALID);
    assert_int_equal(belfry_get(bed.b, belfry_key("a"), NULL, NULL, NULL, NULL), BELFRY_ERR_INVALID);
    assert_int_equal(belfry_txn_commit(bed.b, NULL, NULL, on_reply, NULL, NULL), BELFRY_ERR_NOMEM);
    belfry_opts_free(watch_opts);
    belfry_opts_free(quick);
    belfry_opts_free(user);
    belfry_opts_free(never);
}

static void on_lease_never(struct belfry_lease *lease, const struct belfry_lease_event *event, void *user)
{
    (void)lease, (void)event, (void)user;
    fail();
}

static void why_says_what_was_wrong_with_the_last_call_that_failed(void **state)
{
    struct belfry *b;
    char why[300];
    struct belfry_opts *watch_opts = OPTS("no-put", "true");
    struct belfry_txn *txn = belfry_txn_create();
    (void)state;
    assert_int_equal(belfry_open("http://127.0.0.1:1", watch_opts, &b), BELFRY_ERR_INVALID);
    assert_string_equal(belfry_why(NULL), "option no-put is not for this call");
    assert_int_equal(belfry_open_why("ftp://x", NULL, &b, why, sizeof(why)), BELFRY_ERR_INVALID);
    assert_string_equal(belfry_why(NULL), why);
    make_members(1);
    open_session(NULL);
    assert_string_equal(belfry_why(bed.b), "");
    assert_int_not_equal(belfry_watch_open(bed.b, belfry_interval("b", "a"), NULL, on_nothing, NULL, NULL), BELFRY_OK);
    assert_non_null(strstr(belfry_why(bed.b), "range is empty"));
    assert_int_not_equal(belfry_get(bed.b, belfry_key("a"), watch_opts, on_reply, NULL, NULL), BELFRY_OK);
    assert_non_null(strstr(belfry_why(bed.b), "no-put"));
    assert_int_not_equal(belfry_follow_open(bed.b, belfry_key("a"), NULL, NULL, NULL, NULL), BELFRY_OK);
    assert_non_null(strstr(belfry_why(bed.b), "callback"));
    assert_int_not_equal(belfry_put(bed.b, str(""), str("v"), NULL, on_reply, NULL, NULL), BELFRY_OK);
    assert_non_null(strstr(belfry_why(bed.b), "key"));
    belfry_txn_if_mod_rev(txn, str("a"), '~', 0);
    assert_int_not_equal(belfry_txn_commit(bed.b, txn, NULL, on_reply, NULL, NULL), BELFRY_OK);
    assert_non_null(strstr(belfry_why(bed.b), "comparison"));
    assert_int_not_equal(belfry_lease_open(bed.b, 0, on_lease_never, NULL, NULL), BELFRY_OK);
    assert_non_null(strstr(belfry_why(bed.b), "lease"));
    assert_string_equal(belfry_why(NULL), why); /* of this thread, still */
    assert_int_equal(belfry_open(NULL, NULL, &b), BELFRY_OK);
    assert_int_not_equal(belfry_request_progress(b), BELFRY_OK);
    assert_non_null(strstr(belfry_why(b), "no etcd"));
    belfry_close(b);
    belfry_txn_free(txn);
    belfry_opts_free(watch_opts);
}

static void a_call_may_be_cancelled_at_any_time(void **state)
{
    struct got got[5] = {0};
    (void)state;
    make_members(1);
    open_session(NULL);
    belfry_call_cancel(get("a/", NULL, &got[0])); /* before anything */
    bed.rule = (struct fake_rule){.path = "/Range", .times = 1, .how = FAKE_STALL};
    struct belfry_call *sent = get("a/", NULL, &got[1]);
    drive_until(requests("/Range") == 1, SOON_MS);
    belfry_call_cancel(sent);
    got[2].cancel = get("a/", NULL, &got[2]); /* itself: too late, and harmless */
    drive_until(got[2].n == 1, SOON_MS);
    got[3].cancel = get("a/", NULL, &got[4]); /* another, and it must not come */
    bed.rule = (struct fake_rule){.path = "/Range", .times = 1, .how = FAKE_STALL};
    drive_until(requests("/Range") == 3, SOON_MS);
    get("a/", NULL, &got[3]);
    drive_until(got[3].n == 1, SOON_MS);
    drive_for(50);
    assert_int_equal(got[0].n + got[1].n + got[4].n, 0);
    assert_int_equal(got[2].n, 1);
}

static void a_write_that_was_sent_is_not_repeated(void **state)
{
    static const struct fake_rule rules[] = {
        {.path = "/Put", .times = 1, .how = FAKE_CLOSE},
        {.path = "/Put", .times = 1, .how = FAKE_RESET, .code = 2},
        {.path = "/Put", .times = 1, .how = FAKE_STATUS, .code = 14, .message = "etcdserver: request timed out"},
        {.path = "/Put", .times = 1, .how = FAKE_RESET, .code = 11}, /* ENHANCE_YOUR_CALM */
        {.path = "/Put", .times = 1, .how = FAKE_EMPTY},
        {.path = "/Put", .times = 1, .how = FAKE_STALL},
    };
    (void)state;
    make_members(2);
    open_session(OPTS("command-timeout", "1500ms"));
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        struct got got = {0};
        size_t before = requests("/Put");
        bed.rule = rules[i];
        put("w", NULL, &got);
        drive_until(got.n == 1, SOON_MS);
        drive_for(20);
        assert_int_equal(got.err, BELFRY_ERR_UNCERTAIN);
        assert_true(strstr(got.why, "http://127.0.0.1:") != NULL && got.endpoint[0] != '\0');
        assert_int_equal(requests("/Put"), before + 1);
    }
}

static void a_write_that_nobody_saw_is_tried_again(void **state)
{
    static const struct fake_rule rules[] = {
        {.path = "/Put", .times = 1, .how = FAKE_RESET, .code = 7}, /* REFUSED_STREAM */
        {.path = "/Put", .times = 1, .how = FAKE_GOAWAY},
        {.path = "/Put", .times = 1, .how = FAKE_STATUS, .code = 14, .message = "etcdserver: no leader"},
    };
    (void)state;
    make_members(2);
    open_session(NULL);
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        struct got got = {0};
        size_t before = requests("/Put");
        bed.rule = rules[i];
        put("w", NULL, &got);
        drive_until(got.n == 1, SOON_MS);
        if (got.err != BELFRY_OK)
            fail_msg("rule %zu: %s", i, got.why);
        assert_int_equal(requests("/Put"), before + 2);
    }
}

static void a_read_is_tried_again_elsewhere(void **state)
{
    static const struct fake_rule rules[] = {
        {.path = "/Range", .times = 1, .how = FAKE_CLOSE},
        {.path = "/Range", .times = 1, .how = FAKE_RESET, .code = 8}, /* CANCEL, as a proxy that goes away */
        {.path = "/Range", .times = 1, .how = FAKE_STATUS, .code = 14, .message = "etcdserver: request timed out"},
        {.path = "/Range", .times = 1, .how = FAKE_STALL},
        {.path = "/Range", .times = 1, .how = FAKE_EMPTY},
    };
    (void)state;
    make_members(2);
    open_session(OPTS("command-timeout", "4s"));
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        struct got got = {0};
        bed.rule = rules[i];
        get("a/", NULL, &got);
        drive_until(got.n == 1, SOON_MS);
        if (got.err != BELFRY_OK)
            fail_msg("rule %zu: %s", i, got.why);
        assert_int_equal(got.count, 2);
    }
    assert_true(fake_count(bed.fakes[0], "/Range") > 0 && fake_count(bed.fakes[1], "/Range") > 0);
}

static void the_first_cause_is_told_beside_the_last(void **state)
{
    struct got got = {0};
    (void)state;
    make_members(1);
    open_session(OPTS("command-timeout", "1s"));
    bed.rule = (struct fake_rule){
        .path = "/Range", .times = 1, .how = FAKE_STATUS, .code = 14, .message = "etcdserver: the disk is full"};
    get("a/", NULL, &got);
    drive_until(bed.rule.times == 0, SOON_MS);
    bed.rule = (struct fake_rule){.path = "/Range", .times = 100, .how = FAKE_STALL};
    drive_until(got.n == 1, SOON_MS);
    assert_int_not_equal(got.err, BELFRY_OK);
    if (strstr(got.why, "; the first try failed with: http://127.0.0.1:") == NULL ||
        strstr(got.why, ": etcdserver: the disk is full") == NULL)
        fail_msg("%s", got.why);
}

/* Calls that are still on a hanging member say nothing about the member in use. */
static void stragglers_do_not_drive_the_session_from_a_good_member(void **state)
{
    struct got slow[6] = {{0}}, quick = {0};
    char endpoint[64];
    (void)state;
    make_members(2);
    open_session(NULL);
    bed.rule = (struct fake_rule){.path = "/Range", .times = 6, .how = FAKE_STALL};
    for (int i = 0; i < 6; i++)
        get("a/", OPTS("command-timeout", i == 0 ? "1s" : i % 2 == 0 ? "3s" : "4s"), &slow[i]);
    drive_until(slow[0].n == 1, SOON_MS);
    get("a/", NULL, &quick);
    drive_until(quick.n == 1, SOON_MS);
    memcpy(endpoint, quick.endpoint, sizeof(endpoint));
    assert_string_not_equal(endpoint, slow[0].endpoint);
    drive_until(slow[1].n + slow[2].n + slow[3].n + slow[4].n + slow[5].n == 5, SOON_MS);
    get("a/", NULL, &quick);
    drive_until(quick.n == 2, SOON_MS);
    assert_string_equal(endpoint, quick.endpoint);
    assert_int_equal(belfry_get_stats(bed.b)->connects, 2);
}

static void too_many_calls_are_refused(void **state)
{
    static struct got got;
    (void)state;
    memset(&got, 0, sizeof(got));
    make_members(1);
    fake_drop(bed.fakes[0], true);
    open_session(OPTS("command-timeout", "1s"));
    for (int i = 0; i < BELFRY_CALLS_MAX; i++)
        get("a/", NULL, &got);
    assert_int_equal(belfry_get(bed.b, belfry_key("a"), NULL, on_reply, &got, NULL), BELFRY_ERR_LIMIT);
    drive_until(got.n == BELFRY_CALLS_MAX, SOON_MS);
    assert_int_equal(got.err, BELFRY_ERR_UNAVAILABLE);
    assert_non_null(strstr(got.why, "no endpoint answers: http://127.0.0.1:"));
    get("a/", NULL, &got);
    assert_int_equal(belfry_run(bed.b, 5000), BELFRY_OK);
}

/* ---- the descriptor ---- */

static unsigned dispatches_while_idle(void)
{
    drive_for(100);
    bed.dispatches = 0;
    drive_for(300);
    return bed.dispatches;
}

static void idle_sessions_do_not_spin(void **state)
{
    struct got got = {0};
    struct seen watched = {0}, followed = {0};
    (void)state;
    make_members(2);
    open_session(NULL);
    assert_int_equal(dispatches_while_idle(), 0);
    int fd = belfry_fd(bed.b);
    get("a/", NULL, &got);
    drive_until(got.n == 1, SOON_MS);
    assert_int_equal(dispatches_while_idle(), 0);
    watch("a/", NULL, &watched);
    struct belfry_watch *f = follow("a/", &followed);
    drive_until(followed.n[BELFRY_SYNCED] == 1 && fake_n_watches(watched_member()) == 2, SOON_MS);
    assert_in_range(dispatches_while_idle(), 0, 2);
    belfry_watch_close(f);
    assert_in_range(dispatches_while_idle(), 0, 2);
    assert_int_equal(fd, belfry_fd(bed.b));
}

static void an_idle_session_lets_a_lost_connection_rest(void **state)
{
    struct got got = {0};
    (void)state;
    make_members(1);
    open_session(NULL);
    get("a/", NULL, &got);
    drive_until(got.n == 1, SOON_MS);
    fake_drop(bed.fakes[0], true);
    assert_int_equal(dispatches_while_idle(), 0);
    fake_listen(bed.fakes[0]);
    get("a/", NULL, &got);
    drive_until(got.n == 2, SOON_MS);
    assert_int_equal(got.err, BELFRY_OK);
}

static void run_returns_when_it_should(void **state)
{
    struct seen seen = {.kind = BELFRY_LINK, .act = ACT_STOP_RUN, .act_at = 1};
    struct got got = {0};
    (void)state;
    make_members(1);
    fake_drop(bed.fakes[0], true);
    open_session(OPTS("command-timeout", "200ms"));
    assert_int_equal(belfry_run(bed.b, -1), BELFRY_OK); /* nothing there */
    struct belfry_watch *w = watch("a/", "3", &seen);
    assert_int_equal(belfry_run(bed.b, -1), BELFRY_OK); /* stopped by the callback */
    assert_int_equal(seen.n[BELFRY_LINK], 1);
    uint64_t from = belfry_clock_ms();
    assert_int_equal(belfry_run(bed.b, 150), BELFRY_ERR_TIMEOUT);
    assert_in_range(belfry_clock_ms() - from, 149, 3000);
    assert_int_equal(belfry_run(bed.b, 0), BELFRY_ERR_TIMEOUT);
    belfry_watch_close(w);
    get("a/", NULL, &got);
    assert_int_equal(belfry_run(bed.b, 5000), BELFRY_OK); /* nothing left */
    assert_int_equal(got.err, BELFRY_ERR_UNAVAILABLE);
}

static void on_alarm(int signo)
{
    (void)signo;
    belfry_stop(bed.b);
}

static void a_signal_stops_run(void **state)
{
    struct sigaction stop = {.sa_handler = on_alarm}, before;
    (void)state;
    make_members(1);
    open_session(NULL);
    struct seen seen = {.kind = BELFRY_LINK};
    watch("a/", "3", &seen);
    assert_int_equal(sigaction(SIGALRM, &stop, &before), 0);
    /* From before the first look at the flag to far inside the wait. */
    for (int i = 0; i < 300; i++) {
        struct itimerval soon = {.it_value.tv_usec = 1 + i % 60 * 20};
        assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
        assert_int_equal(belfry_run(bed.b, -1), BELFRY_OK);
        assert_true(seen.n[BELFRY_END] == 0);
    }
    sigaction(SIGALRM, &before, NULL);
    assert_int_equal(belfry_run(bed.b, 1), BELFRY_ERR_TIMEOUT);
}

static void a_stop_that_comes_early_stops_the_next_run_and_no_other(void **state)
{
    (void)state;
    make_members(1);
    open_session(NULL);
    struct seen seen = {.kind = BELFRY_LINK};
    watch("a/", "3", &seen);
    belfry_stop(bed.b);
    belfry_stop(bed.b);
    assert_int_equal(belfry_run(bed.b, -1), BELFRY_OK);
    assert_int_equal(belfry_run(bed.b, 20), BELFRY_ERR_TIMEOUT);
    assert_non_null(strstr(belfry_why(bed.b), "call it again")); /* nothing has failed */
}

/* ---- watches and follows ---- */

static void a_watch_from_now_on_reads_the_revision_first(void **state)
{
    struct seen seen = {0};
    (void)state;
    make_members(1);
    open_session(NULL);
    watch("a/", NULL, &seen);
    drive_until(fake_n_watches(bed.fakes[0]) == 1, SOON_MS);
    assert_int_equal(requests("/Range"), 1);
    assert_int_equal(fake_last_start(bed.fakes[0]), bed.store.revision + 1);
    fake_put(&bed.store, "a/9", "x");
    drive_until(seen.n[BELFRY_CHANGES] == 1, SOON_MS);
    assert_string_equal(seen.log, "+a/9 ");
    assert_int_equal(seen.rev, 5);
}

static void a_watch_gives_each_revision_once_through_breaks(void **state)
{
    struct seen seen = {0};
    char expected[600] = "+a/1 +a/2 ";
    (void)state;
    make_members(2);
    open_session(NULL);
    watch("a/", "2", &seen);
    drive_until(seen.n[BELFRY_CHANGES] == 2, SOON_MS);
    for (int i = 0; i < 6; i++) {
        fake_put(&bed.store, "a/x", "x");
        strcat(expected, "+a/x ");
        drive_until(seen.n[BELFRY_CHANGES] == 3 + i, SOON_MS);
        fake_drop(bed.fakes[i % 2], false);
        fake_drop(bed.fakes[1 - i % 2], false);
    }
    drive_until(fake_n_watches(watched_member()) == 1, SOON_MS);
    assert_string_equal(seen.log, expected);
    assert_true(belfry_get_stats(bed.b)->resumes >= 1);
    assert_int_equal(seen.n[BELFRY_END], 0);
}

static void a_follow_gives_state_then_changes(void **state)
{
    struct seen seen = {0};
    (void)state;
    make_members(1);
    open_session(NULL);
    follow("a/", &seen);
    drive_until(seen.n[BELFRY_SYNCED] == 1, SOON_MS);
    assert_string_equal(seen.log, "+a/1 +a/2 ");
    fake_put(&bed.store, "a/3", "x");
    fake_del(&bed.store, "a/1");
    drive_until(seen.n[BELFRY_CHANGES] == 2, SOON_MS);
    assert_string_equal(seen.log, "+a/1 +a/2 +a/3 -a/1 ");
}

/* Before its first page a follow has no watch that could say anything about the link. */
static void a_follow_says_that_nobody_answers_and_goes_on(void **state)
{
    struct seen seen = {0};
    (void)state;
    make_members(2);
    fake_drop(bed.fakes[0], true);
    fake_drop(bed.fakes[1], true);
    open_session(NULL);
    follow("a/", &seen);
    drive_until(seen.n[BELFRY_LINK] == 1, SOON_MS);
    assert_true(strncmp(seen.link, "no endpoint answers: http://127.0.0.1:", 38) == 0);
    drive_for(300); /* further tries */
    assert_int_equal(seen.n[BELFRY_LINK], 1);
    fake_listen(bed.fakes[1]);
    drive_until(seen.n[BELFRY_SYNCED] == 1 && seen.n[BELFRY_LINK] == 2, SOON_MS);
    assert_non_null(strstr(seen.link, "\nconnected to http://127.0.0.1:"));
    assert_string_equal(seen.log, "+a/1 +a/2 ");
}

static void a_follow_says_that_its_page_is_late_and_that_it_came(void **state)
{
    struct seen seen = {0};
    (void)state;
    make_members(1);
    open_session(OPTS("command-timeout", "100ms"));
    struct belfry_watch *w = watch("b/", NULL, &(struct seen){0}); /* so that the stream is there */
    drive_until(fake_n_watches(bed.fakes[0]) == 1, SOON_MS);
    bed.rule = (struct fake_rule){.path = "/Range", .times = 1, .how = FAKE_STALL};
    follow("a/", &seen);
    drive_until(seen.n[BELFRY_SYNCED] == 1, SOON_MS);
    assert_int_equal(seen.n[BELFRY_LINK], 2);
    assert_non_null(strstr(seen.link, "\nconnected to http://127.0.0.1:"));
    belfry_watch_close(w);
}

static void a_follow_may_be_closed_while_nobody_answers(void **state)
{
    static const enum act acts[] = {ACT_CLOSE, ACT_STOP, ACT_PAUSE};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct seen seen = {.kind = BELFRY_LINK, .act = acts[i], .act_at = 1};
        make_members(1);
        fake_drop(bed.fakes[0], true);
        open_session(NULL);
        struct belfry_watch *w = follow("a/", &seen);
        drive_until(seen.n[BELFRY_LINK] == 1, SOON_MS);
        fake_listen(bed.fakes[0]);
        drive_for(300);
        assert_int_equal(seen.n_events, 0);
        if (acts[i] == ACT_PAUSE) {
            belfry_watch_resume(w);
            drive_until(seen.n[BELFRY_SYNCED] == 1, SOON_MS);
        }
        assert_int_equal(teardown(NULL), 0);
    }
}

static void a_follow_once_ends_when_synced(void **state)
{
    struct seen seen = {0};
    struct belfry_opts *opts = OPTS("once", "true");
    (void)state;
    make_members(1);
    open_session(NULL);
    assert_int_equal(belfry_follow_open(bed.b, belfry_prefix("a/"), opts, on_batch, &seen, NULL), BELFRY_OK);
    belfry_opts_free(opts);
    drive_until(seen.n[BELFRY_END] == 1, SOON_MS);
    assert_int_equal(seen.err, BELFRY_OK);
    assert_int_equal(seen.n[BELFRY_SYNCED], 1);
}

/* History is lost while a page of the first listing is still under way. */
static void a_listing_that_starts_over_forgets_the_page_under_way(void **state)
{
    struct seen seen = {0};
    struct belfry_opts *opts = OPTS("page-bytes", "1");
    char key[16];
    (void)state;
    make_members(1);
    for (int i = 0; i < 150; i++) {
        snprintf(key, sizeof(key), "c/%03d", i);
        fake_put(&bed.store, key, "x");
    }
    bed.rule = (struct fake_rule){.path = "/Range",
                                  .skip = 1,
                                  .times = 1,
                                  .how = FAKE_STATUS,
                                  .code = 11,
                                  .message = "etcdserver: mvcc: required revision has been compacted"};
    open_session(NULL);
    assert_int_equal(belfry_follow_open(bed.b, belfry_prefix("c/"), opts, on_batch, &seen, NULL), BELFRY_OK);
    belfry_opts_free(opts);
    drive_until(bed.rule.times == 0, SOON_MS); /* the second page: it is asked for anew, and that one is late */
    fake_drop_watches(bed.fakes[0]);
    bed.rule = (struct fake_rule){.path = "/Range", .times = 1, .how = FAKE_LATE};
    fake_put(&bed.store, "c/new", "x");
    fake_put(&bed.store, "d", "x");
    bed.store.compacted = bed.store.revision;
    drive_until(bed.rule.times == 0, SOON_MS);
    drive_for(300); /* the watch hears that its history is gone */
    bed.rule.released = true;
    drive_until(seen.n[BELFRY_SYNCED] == 1, SOON_MS);
    assert_int_equal(seen.n_deletes, 0); /* nothing has vanished */
    assert_int_equal(seen.n[BELFRY_END], 0);
}

static void a_follow_lists_anew_when_history_is_lost(void **state)
{
    struct seen seen = {0}, watched = {0};
    (void)state;
    make_members(1);
    open_session(NULL);
    follow("a/", &seen);
    watch("a/", "2", &watched);
    drive_until(seen.n[BELFRY_SYNCED] == 1 && watched.n[BELFRY_CHANGES] == 2, SOON_MS);
    fake_drop(bed.fakes[0], true);
    fake_del(&bed.store, "a/1");
    fake_put(&bed.store, "a/7", "x");
    fake_put(&bed.store, "b", "x");
    bed.store.compacted = bed.store.revision;
    fake_listen(bed.fakes[0]);
    drive_until(seen.n[BELFRY_SYNCED] == 2 && watched.n[BELFRY_END] == 1, SOON_MS);
    assert_string_equal(seen.log, "+a/1 +a/2 +a/2 +a/7 -a/1 ");
    assert_int_equal(watched.err, BELFRY_ERR_COMPACTED);
    assert_int_equal(watched.compact_rev, bed.store.compacted);
    assert_int_equal(belfry_get_stats(bed.b)->lists, 2);
}

static void a_paused_watch_waits_and_goes_on(void **state)
{
    struct seen seen = {.kind = BELFRY_CHANGES, .act = ACT_PAUSE, .act_at = 1}, other = {0};
    (void)state;
    make_members(1);
    open_session(NULL);
    struct belfry_watch *w = watch("a/", "2", &seen);
    watch("a/", "2", &other);
    drive_until(other.n[BELFRY_CHANGES] == 2, SOON_MS);
    drive_for(50);
    assert_int_equal(seen.n[BELFRY_CHANGES], 1);
    fake_put(&bed.store, "a/3", "x");
    drive_until(other.n[BELFRY_CHANGES] == 3, SOON_MS);
    assert_int_equal(seen.n[BELFRY_CHANGES], 1);
    belfry_watch_resume(w);
    belfry_watch_resume(w);
    drive_until(seen.n[BELFRY_CHANGES] == 3, SOON_MS);
    assert_string_equal(seen.log, "+a/1 +a/2 +a/3 ");
}

static void a_follow_may_be_paused_at_every_kind(void **state)
{
    static const enum belfry_kind kinds[] = {BELFRY_LINK, BELFRY_STATE, BELFRY_SYNCED, BELFRY_CHANGES};
    (void)state;
    make_members(1);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct seen seen = {.kind = kinds[i], .act = ACT_PAUSE, .act_at = 1};
        char last[8], tail[16];
        open_session(NULL);
        struct belfry_watch *w = follow("a/", &seen);
        if (kinds[i] == BELFRY_CHANGES) {
            drive_until(seen.n[BELFRY_SYNCED] == 1, SOON_MS);
            fake_put(&bed.store, "a/c", "x");
        }
        drive_until(seen.n[kinds[i]] == 1, SOON_MS);
        snprintf(last, sizeof(last), "a/p%zu", i);
        snprintf(tail, sizeof(tail), "+%s ", last);
        fake_put(&bed.store, last, "x");
        int before = seen.n_events;
        drive_for(60);
        assert_int_equal(seen.n_events, before);
        assert_in_range(dispatches_while_idle(), 0, 3);
        belfry_watch_resume(w);
        drive_until(seen.n[BELFRY_SYNCED] == 1 && strstr(seen.log, tail) != NULL, SOON_MS);
        belfry_close(bed.b);
        bed.b = NULL;
    }
}

/* A page that was on its way when the follow was paused is not told: it is asked for again. */
static void a_page_that_comes_in_a_pause_waits(void **state)
{
    struct seen watched = {0}, seen = {.kind = BELFRY_LINK, .act = ACT_PAUSE, .act_at = 1};
    (void)state;
    make_members(1);
    bed.rule = (struct fake_rule){.path = "/Range", .times = 1, .how = FAKE_LATE};
    open_session(NULL);
    watch("a/", "2", &watched);
    struct belfry_watch *w = follow("a/", &seen);
    drive_until(seen.n[BELFRY_LINK] == 1 && requests("/Range") == 1, SOON_MS);
    bed.rule.released = true;
    drive_for(60);
    assert_int_equal(seen.n[BELFRY_STATE], 0);
    belfry_watch_resume(w);
    drive_until(seen.n[BELFRY_SYNCED] == 1, SOON_MS);
    assert_non_null(strstr(seen.log, "+a/1 "));
}

static void a_stream_reset_for_calm_is_resumed(void **state)
{
    struct seen seen = {0};
    (void)state;
    make_members(1);
    bed.rule = (struct fake_rule){.path = "/Watch", .times = 2, .how = FAKE_RESET, .code = 11};
    open_session(NULL);
    watch("a/", "2", &seen);
    drive_until(seen.n[BELFRY_CHANGES] == 2, SOON_MS);
    assert_int_equal(seen.n[BELFRY_END], 0);
}

static void progress_is_told_on_request(void **state)
{
    struct seen seen = {0};
    (void)state;
    make_members(1);
    open_session(NULL);
    watch("zzz", "2", &seen);
    drive_until(fake_n_watches(bed.fakes[0]) == 1, SOON_MS);
    assert_int_equal(belfry_request_progress(bed.b), BELFRY_OK);
    drive_until(seen.n[BELFRY_PROGRESS] == 1, SOON_MS);
    assert_int_equal(seen.rev, bed.store.revision);
}

/* ---- a server whose progress cannot be believed ---- */

/* A watch on one member of `version`, and progress asked for. */
static void ask_progress(const char *version, struct seen *seen)
{
    make_members(1);
    bed.store.version = version;
    open_session(NULL);
    watch("a/", "2", seen);
    drive_until(seen->n[BELFRY_CHANGES] == 2, SOON_MS);
    assert_int_equal(fake_count(bed.fakes[0], "/Status"), 0); /* nobody needs to know yet */
    assert_int_equal(belfry_request_progress(bed.b), BELFRY_OK);
}

static void progress_that_overtakes_events_is_not_asked_for(void **state)
{
    struct seen seen = {0};
    (void)state;
    ask_progress("3.4.24", &seen);
    drive_until(fake_count(bed.fakes[0], "/Status") == 1, SOON_MS);
    drive_for(50);
    belfry_request_progress(bed.b);
    fake_put(&bed.store, "a/3", "x");
    drive_until(seen.n[BELFRY_CHANGES] == 3, SOON_MS);
    drive_for(BELFRY_MUX_PROGRESS_MS + 200);
    assert_int_equal(seen.n[BELFRY_PROGRESS], 0);
    assert_int_equal(fake_count(bed.fakes[0], "/Status"), 1);
    /* the next stream may be on another server: its version is requested again, and progress is still wanted */
    bed.store.version = "3.4.25";
    fake_drop(bed.fakes[0], false);
    drive_until(seen.n[BELFRY_PROGRESS] == 1, SOON_MS);
    assert_int_equal(seen.rev, bed.store.revision);
    assert_int_equal(fake_count(bed.fakes[0], "/Status"), 2);
    belfry_request_progress(bed.b);
    drive_until(seen.n[BELFRY_PROGRESS] == 2, SOON_MS);
    assert_int_equal(fake_count(bed.fakes[0], "/Status"), 2); /* once for each stream */
}

static void versions_that_keep_progress_behind_events_are_believed(void **state)
{
    static const char *const good[] = {"3.4.25",     "3.4.43",   "3.5.8",         "3.5.16",        "3.5.33",
                                       "3.6.0",      "3.6.14",   "3.7.1",         "3.8.0-alpha.0", "3.10.0",
                                       "4.0.0",      "10.0.0",   "3.5.16+debian", "3.5.9-rc.0",    "3.4.26-rc.1",
                                       "3.6.1-rc.0", "3.6.0+git"};
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        struct seen seen = {0};
        print_message("\"%s\" is good\n", good[i]);
        ask_progress(good[i], &seen);
        drive_until(seen.n[BELFRY_PROGRESS] == 1, SOON_MS);
        assert_true(belfry_stream_tells_progress(bed.b->stream));
        assert_int_equal(teardown(state), 0);
    }
}

static void versions_from_before_the_fix_and_what_is_no_version_are_not_believed(void **state)
{
    static const char *const bad[] = {
        "3.4.24", "3.4.23", "3.4.0", "3.5.7", "3.5.0", "3.5.0-rc.1", "3.5.8-rc.0", "3.4.25-beta.0", "3.3.27", "3.0.0",
        "2.3.8", "0.1.0", "3.6.0-rc.0", "3.6.0-alpha.0", "3.4.24+25", "3.5.7-patched", "3.1.5",
        /* no versions */
        "", "3", "3.", "3.6", "3.6.", "3.6.x", "v3.6.0", " 3.6.0", "3.6.0 ", "3.6.0.1", "3..0", "-3.6.0", "3.-6.0",
        "+3.6.0", "etcd", "3.6.0rc1", "3.6.99999999", "4294967299.6.0", "0x3.6.0", "3,6,0", "Version", "kine/3.6.0",
        "3 .6.0", ".6.0", "9999999.0"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct seen seen = {0};
        print_message("\"%s\" is not good\n", bad[i]);
        ask_progress(bad[i], &seen);
        drive_until(!belfry_stream_tells_progress(bed.b->stream), SOON_MS);
        assert_int_equal(seen.n[BELFRY_PROGRESS], 0);
        assert_int_equal(teardown(state), 0);
    }
}

static void a_version_is_asked_of_the_member_that_is_watched(void **state)
{
    struct seen seen = {0};
    (void)state;
    make_members(2);
    open_session(NULL);
    watch("a/", "2", &seen);
    drive_until(seen.n[BELFRY_CHANGES] == 2, SOON_MS);
    struct fake *watched = watched_member();
    size_t n = fake_n_conns(watched);
    belfry_request_progress(bed.b);
    drive_until(seen.n[BELFRY_PROGRESS] == 1, SOON_MS);
    assert_int_equal(fake_count(watched, "/Status"), 1);
    assert_int_equal(requests("/Status"), 1);
    assert_int_equal(fake_n_conns(watched), n);
}

static void a_version_of_another_member_proves_nothing(void **state)
{
    struct seen seen = {0};
    (void)state;
    make_members(1);
    bed.store.status_member = 1;
    open_session(NULL);
    watch("a/", "2", &seen);
    drive_until(seen.n[BELFRY_CHANGES] == 2, SOON_MS);
    belfry_request_progress(bed.b);
    drive_until(fake_count(bed.fakes[0], "/Status") == 3, SOON_MS);
    assert_int_equal(seen.n[BELFRY_PROGRESS], 0);
    bed.store.status_member = 0;
    drive_until(seen.n[BELFRY_PROGRESS] == 1, SOON_MS);
}

static void servers_that_do_not_tell_their_version(void **state)
{
    static const struct {
        struct fake_rule rule;
        bool progress;
        size_t asked;
    } cases[] = {
        {{.how = FAKE_STATUS, .code = 12, .message = "unknown service"}, false, 1},
        {{.how = FAKE_STATUS, .code = 7, .message = "RBAC: access denied"}, false, 1},
        {{.how = FAKE_STATUS, .code = 7, .message = "etcdserver: permission denied"}, true, 1},
        {{.how = FAKE_STATUS, .code = 3, .message = "etcdserver: user name is empty"}, true, 1},
        {{.how = FAKE_STATUS, .code = 14, .message = "not now"}, true, 2},
        {{.how = FAKE_STATUS, .code = 2, .message = "not now"}, true, 2},
        {{.how = FAKE_RESET, .code = 2}, true, 2},
        {{.how = FAKE_EMPTY}, true, 2},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct seen seen = {0};
        print_message("case %zu\n", i);
        make_members(1);
        bed.rule = cases[i].rule;
        bed.rule.path = "/Status";
        bed.rule.times = 1;
        open_session(NULL);
        watch("a/", "2", &seen);
        drive_until(seen.n[BELFRY_CHANGES] == 2, SOON_MS);
        belfry_request_progress(bed.b);
        drive_until(fake_count(bed.fakes[0], "/Status") == cases[i].asked, SOON_MS);
        if (cases[i].progress)
            drive_until(seen.n[BELFRY_PROGRESS] == 1, SOON_MS);
        else
            drive_for(200);
        assert_int_equal(seen.n[BELFRY_PROGRESS], cases[i].progress);
        assert_int_equal(fake_count(bed.fakes[0], "/Status"), cases[i].asked);
        assert_int_equal(seen.n[BELFRY_END], 0);
        assert_int_equal(teardown(state), 0);
    }
}

static void a_version_that_does_not_come_is_asked_of_the_next_stream(void **state)
{
    struct seen seen = {0};
    (void)state;
    make_members(1);
    bed.rule = (struct fake_rule){.path = "/Status", .times = 2, .how = FAKE_STALL};
    open_session(NULL);
    watch("a/", "2", &seen);
    drive_until(seen.n[BELFRY_CHANGES] == 2, SOON_MS);
    belfry_request_progress(bed.b);
    drive_until(fake_count(bed.fakes[0], "/Status") == 1, SOON_MS);
    fake_drop_watches(bed.fakes[0]); /* and the question with it */
    drive_until(fake_count(bed.fakes[0], "/Status") == 2, SOON_MS);
    unsigned before = bed.dispatches;
    drive_for(100);
    assert_true(bed.dispatches < before + 20); /* waiting is no work */
    assert_int_equal(seen.n[BELFRY_PROGRESS], 0);
    drive_until(seen.n[BELFRY_PROGRESS] == 1, SOON_MS + 5000); /* its time is over, and it is asked again */
}

/* A listing whose second page is compacted away, while something is written outside of the range. */
static void follow_through_a_compaction(const char *version, struct seen *seen)
{
    make_members(1);
    bed.store.version = version;
    for (int i = 0; i < 150; i++) { /* more than a first page */
        char key[16];
        snprintf(key, sizeof(key), "a/%03d", i);
        fake_put(&bed.store, key, "x");
    }
    bed.rule = (struct fake_rule){.path = "/Range",
                                  .skip = 1,
                                  .times = 1,
                                  .how = FAKE_STATUS,
                                  .code = 11,
                                  .message = "etcdserver: mvcc: required revision has been compacted"};
    open_session(NULL);
    follow("a/", seen);
    drive_until(seen->n[BELFRY_STATE] == 1, SOON_MS);
    fake_put(&bed.store, "b/2", "x");
    drive_until(seen->n[BELFRY_STATE] == 2, SOON_MS);
    assert_int_equal(seen->n_events, 152);
}

static void a_follow_is_synced_by_progress_that_can_be_believed(void **state)
{
    struct seen seen = {0};
    (void)state;
    follow_through_a_compaction("3.5.8", &seen);
    drive_until(seen.n[BELFRY_SYNCED] == 1, SOON_MS);
    assert_int_equal(seen.rev, bed.store.revision);
}

static void a_follow_is_synced_by_an_event_where_progress_cannot_be_believed(void **state)
{
    struct seen seen = {0};
    (void)state;
    follow_through_a_compaction("3.5.7", &seen);
    drive_until(fake_count(bed.fakes[0], "/Status") == 1, SOON_MS);
    drive_for(200);
    assert_int_equal(seen.n[BELFRY_SYNCED], 0);
    fake_put(&bed.store, "a/1", "y");
    drive_until(seen.n[BELFRY_SYNCED] == 1, SOON_MS);
    assert_int_equal(seen.rev, bed.store.revision);
    assert_int_equal(seen.n_events, 153);
}

/* ---- closing ---- */

static void close_at(enum belfry_kind kind, enum act act, bool is_follow)
{
    struct seen seen = {.kind = kind, .act = act, .act_at = 1}, other = {0};
    make_members(1);
    open_session(NULL);
    if (act == ACT_CLOSE_OTHER)
        seen.other = watch("a/", "2", &other);
    if (is_follow)
        follow("a/", &seen);
    else
        watch("a/", kind == BELFRY_END ? "2" : "3", &seen);
    if (kind == BELFRY_END) {
        drive_until(seen.n[BELFRY_CHANGES] == 2, SOON_MS);
        fake_drop(bed.fakes[0], true);
        fake_put(&bed.store, "b", "x");
        fake_put(&bed.store, "b", "x");
        bed.store.compacted = bed.store.revision;
        fake_listen(bed.fakes[0]);
    } else if (is_follow && kind == BELFRY_CHANGES) {
        drive_until(seen.n[BELFRY_SYNCED] == 1, SOON_MS);
        fake_put(&bed.store, "a/3", "x");
    } else if (kind == BELFRY_PROGRESS) {
        drive_until(fake_n_watches(bed.fakes[0]) > 0, SOON_MS);
        belfry_request_progress(bed.b);
    }
    drive_until(seen.n[kind] == 1, SOON_MS);
    if (kind != BELFRY_END) {
        int before = seen.n_events;
        fake_put(&bed.store, "a/z", "x");
        drive_for(40);
        if (act != ACT_CLOSE_OTHER) {
            assert_int_equal(seen.n_events, before);
            assert_int_equal(seen.n[BELFRY_END], 0);
        }
    }
    assert_int_equal(seen.n[kind], act == ACT_CLOSE_OTHER && kind == BELFRY_CHANGES ? seen.n[kind] : 1);
    int ended = other.n[BELFRY_END];
    belfry_close(bed.b);
    bed.b = NULL;
    assert_int_equal(other.n[BELFRY_END], ended);
    fake_destroy(bed.fakes[0]);
    bed.fakes[0] = NULL;
}

static void a_watch_may_be_closed_inside_every_callback(void **state)
{
    static const enum belfry_kind kinds[] = {BELFRY_LINK, BELFRY_CHANGES, BELFRY_PROGRESS, BELFRY_END};
    static const enum act acts[] = {ACT_CLOSE, ACT_STOP, ACT_CLOSE_OTHER};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        for (size_t j = 0; j < 3; j++) {
            if (kinds[i] != BELFRY_END || acts[j] != ACT_CLOSE_OTHER) /* the other has ended too by then */
                close_at(kinds[i], acts[j], false);
        }
    }
}

static void a_follow_may_be_closed_inside_every_callback(void **state)
{
    static const enum belfry_kind kinds[] = {BELFRY_LINK, BELFRY_STATE, BELFRY_SYNCED, BELFRY_CHANGES};
    static const enum act acts[] = {ACT_CLOSE, ACT_STOP, ACT_CLOSE_OTHER};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        for (size_t j = 0; j < 3; j++)
            close_at(kinds[i], acts[j], true);
    }
}

static void closing_the_session_ends_everything_once(void **state)
{
    struct seen seen[WATCHES];
    struct got got[4] = {0};
    (void)state;
    for (int moment = 0; moment < 3; moment++) {
        memset(seen, 0, sizeof(seen));
        memset(got, 0, sizeof(got));
        make_members(2);
        open_session(NULL);
        for (int i = 0; i < WATCHES; i++) {
            seen[i] = (struct seen){.kind = BELFRY_END, .act = i == 1 ? ACT_OPEN : ACT_NONE, .act_at = 1};
            if (i % 2 == 0)
                watch("a/", i == 0 ? "2" : NULL, &seen[i]);
            else
                follow("a/", &seen[i]);
        }
        bed.rule = (struct fake_rule){.path = moment == 2 ? "/Put" : "", .times = 100, .how = FAKE_STALL};
        got[0].again = true;
        for (int i = 0; i < 4; i++)
            put("x", NULL, &got[i]);
        if (moment > 0)
            drive_until(requests("/Put") == 4, SOON_MS);
        if (moment == 2)
            drive_until(seen[1].n[BELFRY_SYNCED] == 1 && seen[3].n[BELFRY_SYNCED] == 1, SOON_MS);
        belfry_close(bed.b);
        bed.b = NULL;
        for (int i = 0; i < WATCHES; i++) {
            assert_int_equal(seen[i].n[BELFRY_END], 1);
            assert_int_equal(seen[i].err, BELFRY_ERR_CANCELED);
        }
        assert_int_equal(seen[1].open_err, BELFRY_ERR_CANCELED);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(got[i].n, 1);
            assert_int_equal(got[i].err, BELFRY_ERR_CANCELED);
        }
        assert_int_equal(got[0].again_err, BELFRY_ERR_CANCELED);
        teardown(NULL);
    }
}

/* ---- failover ---- */

static void failing_over_is_told(void **state)
{
    struct seen seen = {0};
    (void)state;
    make_members(2);
    open_session(NULL);
    watch("a/", "5", &seen);
    drive_until(fake_n_watches(bed.fakes[0]) + fake_n_watches(bed.fakes[1]) == 1 && seen.n[BELFRY_LINK] > 0, SOON_MS);
    struct fake *first = watched_member(), *second = first == bed.fakes[0] ? bed.fakes[1] : bed.fakes[0];
    char text[200];
    snprintf(text, sizeof(text), "connected to %s\n", fake_url(first));
    assert_string_equal(seen.link, text);
    fake_drop(first, true);
    drive_until(fake_n_watches(second) == 1 && seen.n[BELFRY_LINK] == 3, SOON_MS);
    snprintf(text, sizeof(text), "lost %s: ", fake_url(first));
    assert_non_null(strstr(seen.link, text));
    snprintf(text, sizeof(text), "connected to %s\n", fake_url(second));
    assert_non_null(strstr(seen.link, text));
    fake_drop(second, true);
    drive_until(strstr(seen.link, "no endpoint answers: ") != NULL, SOON_MS);
    assert_true(strstr(seen.link, fake_url(first)) != NULL);
    fake_listen(first);
    drive_until(fake_n_watches(first) == 1, SOON_MS);
    assert_int_equal(seen.n[BELFRY_END], 0);
}

static void a_member_without_a_leader_is_left(void **state)
{
    struct seen seen = {0};
    (void)state;
    make_members(2);
    open_session(NULL);
    bed.rule = (struct fake_rule){
        .path = "Watch/Watch", .times = 1, .how = FAKE_STATUS, .code = 14, .message = "etcdserver: no leader"};
    watch("a/", "2", &seen);
    drive_until(seen.n[BELFRY_CHANGES] == 2, SOON_MS);
    assert_true(fake_count(bed.fakes[0], "Watch") == 1 && fake_count(bed.fakes[1], "Watch") == 1);
    assert_non_null(strstr(seen.link, "no leader"));
}

/* A watch is opened, then another client writes: every write after BELFRY_CREATED arrives. */
static void a_watch_says_when_it_has_begun(void **state)
{
    struct seen seen = {0};
    struct belfry_opts *opts = OPTS("created-notify", "true");
    (void)state;
    make_members(1);
    open_session(NULL);
    assert_int_equal(belfry_watch_open(bed.b, belfry_prefix("a/"), opts, on_batch, &seen, NULL), BELFRY_OK);
    belfry_opts_free(opts);
    fake_put(&bed.store, "a/early", "x"); /* before the first dispatch: not from "now" on */
    drive_until(seen.n[BELFRY_CREATED] == 1, SOON_MS);
    assert_int_equal(seen.rev, bed.store.revision);
    assert_int_equal(fake_last_start(bed.fakes[0]), seen.rev + 1);
    fake_put(&bed.store, "a/late", "x");
    drive_until(seen.n[BELFRY_CHANGES] == 1, SOON_MS);
    assert_string_equal(seen.log, "+a/late ");
    fake_drop_watches(bed.fakes[0]); /* a break is no second beginning */
    fake_put(&bed.store, "a/later", "x");
    drive_until(seen.n[BELFRY_CHANGES] == 2, SOON_MS);
    assert_int_equal(seen.n[BELFRY_CREATED], 1);
}

static struct fake_rule status_of_watches(uint32_t code, int times)
{
    return (struct fake_rule){
        .path = "Watch/Watch", .times = times, .how = FAKE_STATUS, .code = code, .message = "for a reason"};
}

/* Each status once, then the stream is served: as belfry/belfry.h lists them. */
static void a_status_ends_watches_or_is_tried_again(void **state)
{
    static const struct {
        uint32_t code;
        int err; /* 0: the watch goes on */
    } cases[] = {{0, 0},
                 {1, 0},
                 {2, 0},
                 {3, BELFRY_ERR_REFUSED},
                 {4, 0},
                 {6, 0},
                 {7, BELFRY_ERR_DENIED},
                 {8, 0},
                 {9, 0},
                 {10, 0},
                 {11, 0},
                 {13, 0},
                 {14, 0},
                 {15, 0},
                 {16, BELFRY_ERR_AUTH},
                 {17, 0}};
    make_members(1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct seen seen = {0};
        open_session(NULL);
        bed.rule = status_of_watches(cases[i].code, 1);
        watch("a/", "2", &seen);
        drive_until(seen.n[BELFRY_CHANGES] == 2 || seen.n[BELFRY_END] == 1, SOON_MS);
        if (seen.n[BELFRY_END] != (cases[i].err != 0) || seen.err != cases[i].err)
            fail_msg("status %u: %s", cases[i].code, seen.why);
        assert_true(cases[i].err == 0 || strstr(seen.why, "for a reason (gRPC status ") != NULL);
        close_session();
    }
    (void)state;
}

static void a_server_that_is_no_etcd_ends_watches_unless_it_was_one(void **state)
{
    static const uint32_t codes[] = {5, 12};
    (void)state;
    make_members(1);
    for (size_t i = 0; i < 2; i++) {
        struct seen never = {0}, was = {0};
        open_session(NULL);
        bed.rule = status_of_watches(codes[i], 100);
        watch("a/", "2", &never);
        drive_until(never.n[BELFRY_END] == 1, SOON_MS);
        assert_int_equal(never.err, BELFRY_ERR_UNSUPPORTED);
        bed.rule.times = 0;
        watch("a/", "2", &was);
        drive_until(was.n[BELFRY_CHANGES] == 2, SOON_MS);
        bed.rule = status_of_watches(codes[i], 3);
        fake_drop_watches(bed.fakes[0]);
        fake_put(&bed.store, "a/9", "x");
        drive_until(was.n[BELFRY_CHANGES] == 3, SOON_MS);
        assert_int_equal(bed.rule.times, 0);
        close_session();
        bed.store.n_changes--;
        bed.store.revision--;
    }
}

static void a_doubtful_status_is_tried_again_ten_times_in_a_row(void **state)
{
    static const uint32_t codes[] = {2, 9, 11};
    (void)state;
    make_members(2);
    for (size_t i = 0; i < 3; i++) {
        struct seen seen = {0};
        open_session(NULL);
        bed.rule = status_of_watches(codes[i], 100);
        watch("a/", "2", &seen);
        drive_until(seen.n[BELFRY_END] == 1, SOON_MS);
        assert_int_equal(seen.err, BELFRY_ERR_REFUSED);
        assert_non_null(strstr(seen.why, "for a reason (gRPC status "));
        assert_int_equal(bed.rule.times, 89);
        close_session();
    }
}

/* A cluster that restarts as a whole says so for longer than ten tries take. */
static void a_server_that_has_served_may_be_doubtful_for_longer(void **state)
{
    struct seen seen = {0};
    (void)state;
    make_members(1);
    open_session(NULL);
    bed.rule = status_of_watches(2, 1);
    watch("a/", "2", &seen);
    drive_until(seen.n[BELFRY_CHANGES] == 2, SOON_MS);
    drive_for(1100); /* a stream that has lasted: the waits between tries are short again */
    bed.rule = status_of_watches(2, 12);
    fake_drop_watches(bed.fakes[0]);
    fake_put(&bed.store, "a/9", "x");
    drive_until(seen.n[BELFRY_CHANGES] == 3 || seen.n[BELFRY_END] == 1, 3 * SOON_MS);
    assert_int_equal(bed.rule.times, 0);
    assert_int_equal(seen.n[BELFRY_END], 0);
}

static void a_doubt_that_is_the_same_each_time_is_said_once_however_long(void **state)
{
    struct seen seen = {0};
    char words[171]; /* longer than what is kept of the first */
    (void)state;
    memset(words, 'x', sizeof(words) - 1);
    words[sizeof(words) - 1] = '\0';
    make_members(1);
    open_session(NULL);
    bed.rule = status_of_watches(2, 100);
    bed.rule.message = words;
    watch("a/", "2", &seen);
    drive_until(seen.n[BELFRY_END] == 1, SOON_MS);
    assert_null(strstr(seen.why, "the first:"));
    assert_non_null(strstr(seen.why, "(gRPC status 2, 11 times in a row)"));
}

static void a_status_that_passes_is_tried_again_without_limit(void **state)
{
    struct seen seen = {0};
    (void)state;
    make_members(2);
    open_session(NULL);
    bed.rule = status_of_watches(14, 14);
    watch("a/", "2", &seen);
    drive_until(seen.n[BELFRY_CHANGES] == 2, SOON_MS);
    assert_int_equal(bed.rule.times, 0);
    assert_int_equal(seen.n[BELFRY_END], 0);
}

static void a_member_that_drains_keeps_its_calls_and_gets_no_new_ones(void **state)
{
    struct got slow = {0}, quick = {0};
    struct seen seen = {0};
    (void)state;
    make_members(2);
    open_session(NULL);
    bed.rule = (struct fake_rule){.path = "/Put", .times = 1, .how = FAKE_STALL};
    put("w", NULL, &slow);
    watch("a/", "2", &seen);
    drive_until(requests("/Put") == 1 && seen.n[BELFRY_CHANGES] == 2, SOON_MS);
    struct fake *first = fake_count(bed.fakes[0], "/Put") == 1 ? bed.fakes[0] : bed.fakes[1];
    fake_drain(first);
    drive_for(30);
    get("a/", NULL, &quick);
    drive_until(quick.n == 1, SOON_MS);
    assert_string_not_equal(quick.endpoint, fake_url(first));
    assert_int_equal(slow.n, 0);
    fake_put(&bed.store, "a/3", "x");
    drive_until(seen.n[BELFRY_CHANGES] == 3, SOON_MS);
}

static void without_endpoints_it_is_said_in_time(void **state)
{
    struct seen seen = {0};
    struct got read = {0}, wrote = {0};
    (void)state;
    make_members(2);
    fake_drop(bed.fakes[0], true);
    fake_drop(bed.fakes[1], true);
    open_session(OPTS("command-timeout", "300ms"));
    follow("a/", &seen);
    get("a/", NULL, &read);
    put("a/", NULL, &wrote);
    uint64_t from = belfry_clock_ms();
    drive_until(read.n == 1 && wrote.n == 1, SOON_MS);
    assert_in_range(belfry_clock_ms() - from, 290, 4000);
    assert_int_equal(read.err, BELFRY_ERR_UNAVAILABLE);
    assert_int_equal(wrote.err, BELFRY_ERR_UNAVAILABLE);
    assert_true(strstr(read.why, fake_url(bed.fakes[0])) != NULL && strstr(read.why, fake_url(bed.fakes[1])) != NULL);
    assert_string_equal(read.endpoint, "");
    watch("a/", "3", &seen);
    drive_until(strstr(seen.link, "no endpoint answers: ") != NULL, SOON_MS);
    assert_int_equal(seen.n[BELFRY_END], 0);
}

/* ---- identity ---- */

static void another_cluster_ends_watches_and_calls(void **state)
{
    struct seen watched = {0}, followed = {0};
    struct got got = {0};
    (void)state;
    make_members(2);
    open_session(NULL);
    watch("a/", "2", &watched);
    follow("a/", &followed);
    drive_until(watched.n[BELFRY_CHANGES] == 2 && followed.n[BELFRY_SYNCED] == 1, SOON_MS);
    bed.other.cluster_id = 0xc2;
    for (int i = 0; i < 2; i++) {
        fake_serve(bed.fakes[i], &bed.other);
        fake_drop(bed.fakes[i], false);
    }
    drive_until(watched.n[BELFRY_END] == 1 && followed.n[BELFRY_END] == 1, SOON_MS);
    assert_int_equal(watched.err, BELFRY_ERR_CLUSTER);
    assert_int_equal(followed.err, BELFRY_ERR_CLUSTER);
    get("a/", NULL, &got);
    drive_until(got.n == 1, SOON_MS);
    assert_int_equal(got.err, BELFRY_ERR_CLUSTER);
}

/* Many answers of one strange member are not many strange members, and none of them is taken. */
static void one_strange_member_is_only_left(void **state)
{
    struct got first = {0}, got[8] = {0};
    (void)state;
    make_members(2);
    open_session(NULL);
    get("a/", NULL, &first);
    drive_until(first.n == 1, SOON_MS);
    struct fake *used = strcmp(first.endpoint, fake_url(bed.fakes[0])) == 0 ? bed.fakes[0] : bed.fakes[1];
    bed.other.cluster_id = 0xc2;
    fake_serve(used, &bed.other);
    for (int i = 0; i < 8; i++)
        get("a/", NULL, &got[i]);
    drive_until(got[0].n + got[1].n + got[2].n + got[3].n + got[4].n + got[5].n + got[6].n + got[7].n == 8, SOON_MS);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(got[i].err, BELFRY_OK);
        assert_int_equal(got[i].count, 2);
    }
}

static void a_lower_revision_is_lag(void **state)
{
    struct seen seen = {0};
    (void)state;
    make_members(2);
    open_session(NULL);
    watch("a/", "2", &seen);
    drive_until(seen.n[BELFRY_CHANGES] == 2, SOON_MS);
    struct fake *first = watched_member(), *second = first == bed.fakes[0] ? bed.fakes[1] : bed.fakes[0];
    fake_lag(second, 2);
    fake_drop(first, true);
    drive_until(fake_n_watches(second) == 1, SOON_MS);
    drive_until(requests("/Range") >= 1, SOON_MS); /* it asks */
    drive_for(100);
    assert_int_equal(seen.n[BELFRY_END], 0);
    fake_put(&bed.store, "a/5", "x");
    fake_lag(second, 0);
    drive_until(seen.n[BELFRY_CHANGES] == 3, SOON_MS);
    assert_string_equal(seen.log, "+a/1 +a/2 +a/5 ");
}

static void a_rewritten_past_ends_watches_and_lists_follows_anew(void **state)
{
    struct seen watched = {0}, followed = {0};
    (void)state;
    make_members(1);
    open_session(NULL);
    watch("a/", "2", &watched);
    follow("a/", &followed);
    drive_until(watched.n[BELFRY_CHANGES] == 2 && followed.n[BELFRY_SYNCED] == 1, SOON_MS);
    fake_put(&bed.other, "a/0", "old");
    fake_serve(bed.fakes[0], &bed.other);
    fake_drop(bed.fakes[0], false);
    drive_until(watched.n[BELFRY_END] == 1 && followed.n[BELFRY_SYNCED] == 2, SOON_MS);
    assert_int_equal(watched.err, BELFRY_ERR_REWOUND);
    assert_non_null(strstr(followed.log, "+a/0 "));
    assert_true(strstr(followed.log, "-a/1 ") != NULL && strstr(followed.log, "-a/2 ") != NULL);
    assert_in_range(dispatches_while_idle(), 0, 3);
}

/* What was seen of the old past is no evidence against the new one. */
static void a_past_that_was_rewritten_once_is_not_found_out_again(void **state)
{
    struct seen watched = {0}, again = {0};
    char key[16];
    (void)state;
    make_members(1);
    open_session(NULL);
    watch("a/", "2", &watched);
    drive_until(watched.n[BELFRY_CHANGES] == 2, SOON_MS);
    fake_put(&bed.other, "a/0", "old");
    fake_serve(bed.fakes[0], &bed.other);
    fake_drop(bed.fakes[0], false);
    drive_until(watched.n[BELFRY_END] == 1, SOON_MS);
    assert_int_equal(watched.err, BELFRY_ERR_REWOUND);
    watch("a/", "2", &again);
    drive_until(again.n[BELFRY_CHANGES] == 1, SOON_MS);
    for (int i = 0; i < 9; i++) { /* past everything that was seen, out of the watch's sight */
        snprintf(key, sizeof(key), "z/%d", i);
        fake_put(&bed.other, key, "new");
    }
    fake_drop(bed.fakes[0], false);
    drive_for(100);
    fake_put(&bed.other, "a/9", "new");
    drive_until(again.n[BELFRY_CHANGES] == 2, SOON_MS);
    drive_for(100);
    assert_int_equal(again.n[BELFRY_END], 0);
}

/* A doubt about the past needs a key to ask with: without a watch it must wait, not spin. */
static void a_doubt_without_a_watch_does_not_spin(void **state)
{
    struct seen seen = {0};
    (void)state;
    make_members(1);
    open_session(NULL);
    struct belfry_watch *w = watch("a/", "2", &seen);
    drive_until(seen.n[BELFRY_CHANGES] == 2, SOON_MS);
    bed.rule = (struct fake_rule){.path = "/Range", .times = 100, .how = FAKE_STATUS, .code = 7, .message = "no"};
    fake_lag(bed.fakes[0], 2);
    fake_drop(bed.fakes[0], false);
    drive_until(requests("/Range") > 0, SOON_MS);
    drive_for(50);
    belfry_watch_close(w);
    drive_for(1100); /* until the question would be asked again */
    assert_in_range(dispatches_while_idle(), 0, 3);
}

/* ---- logging in ---- */

static void tokens_are_fetched_and_renewed(void **state)
{
    struct got got = {0};
    struct seen seen = {0};
    (void)state;
    make_members(1);
    bed.store.password = "secret";
    open_session(OPTS("user", "root:secret"));
    get("a/", NULL, &got);
    drive_until(got.n == 1, SOON_MS);
    assert_int_equal(got.err, BELFRY_OK);
    assert_int_equal(belfry_get_stats(bed.b)->log_ins, 1);
    bed.store.refuse_tokens = true;
    put("w", NULL, &got);
    drive_until(got.n == 2, SOON_MS);
    assert_int_equal(got.err, BELFRY_OK);
    assert_int_equal(belfry_get_stats(bed.b)->log_ins, 2);
    bed.store.refuse_tokens = true; /* met by the create */
    watch("a/", "2", &seen);
    drive_until(seen.n[BELFRY_CHANGES] == 2, SOON_MS);
    assert_true(belfry_get_stats(bed.b)->log_ins >= 3);
    assert_false(bed.store.refuse_tokens);
}

static void a_wrong_password_ends_everything(void **state)
{
    struct got got = {0};
    struct seen watched = {0}, followed = {0};
    (void)state;
    make_members(1);
    bed.store.password = "secret";
    open_session(OPTS("user", "root", "password", "wrong"));
    get("a/", NULL, &got);
    watch("a/", "2", &watched);
    follow("a/", &followed);
    drive_until(got.n == 1 && watched.n[BELFRY_END] == 1 && followed.n[BELFRY_END] == 1, SOON_MS);
    assert_int_equal(got.err, BELFRY_ERR_AUTH);
    assert_int_equal(watched.err, BELFRY_ERR_AUTH);
    assert_int_equal(followed.err, BELFRY_ERR_AUTH);
    assert_non_null(strstr(got.why, "authentication failed"));
    assert_in_range(dispatches_while_idle(), 0, 2);
}

static void a_server_without_auth_is_served_without_a_token(void **state)
{
    struct got got = {0};
    (void)state;
    make_members(1);
    open_session(OPTS("user", "root:secret"));
    get("a/", NULL, &got);
    drive_until(got.n == 1, SOON_MS);
    assert_int_equal(got.err, BELFRY_OK);
}

static void a_log_in_that_cannot_be_had_is_not_asked_for_without_end(void **state)
{
    struct got got = {0};
    struct seen seen = {0};
    (void)state;
    make_members(1);
    bed.rule = (struct fake_rule){.path = "/Authenticate", .times = 100, .how = FAKE_STATUS, .code = 12, .message = ""};
    open_session(OPTS("user", "root:secret"));
    get("a/", NULL, &got);
    watch("a/", "2", &seen);
    drive_until(got.n == 1 && seen.n[BELFRY_END] == 1, SOON_MS);
    assert_int_equal(got.err, BELFRY_ERR_UNSUPPORTED);
    assert_in_range(requests("/Authenticate"), 1, 2);
    bed.rule = (struct fake_rule){.path = "/Authenticate", .times = 1, .how = FAKE_STATUS, .code = 14, .message = ""};
    get("a/", NULL, &got);
    drive_until(got.n == 2, SOON_MS);
    assert_in_range(requests("/Authenticate"), 2, 6);
}

static void an_overloaded_log_in_passes(void **state)
{
    struct got got = {0};
    struct seen seen = {0};
    (void)state;
    make_members(1);
    bed.store.password = "secret";
    bed.rule = (struct fake_rule){
        .path = "/Authenticate", .times = 1, .how = FAKE_STATUS, .code = 8, .message = "etcdserver: too many requests"};
    open_session(OPTS("user", "root:secret"));
    get("a/", NULL, &got);
    watch("a/", "2", &seen);
    drive_until(got.n == 1 && seen.n[BELFRY_CHANGES] == 2, SOON_MS);
    assert_int_equal(got.err, BELFRY_OK);
    assert_int_equal(seen.n[BELFRY_END], 0);
}

static void a_password_file_that_is_not_there_is_said(void **state)
{
    struct got got = {0};
    (void)state;
    make_members(1);
    open_session(OPTS("user", "root", "password-file", "/nonexistent/password"));
    get("a/", NULL, &got);
    drive_until(got.n == 1, SOON_MS);
    assert_int_equal(got.err, BELFRY_ERR_AUTH);
    assert_non_null(strstr(got.why, "password file"));
    assert_in_range(dispatches_while_idle(), 0, 2);
}

static void a_full_queue_still_logs_in(void **state)
{
    static struct got got;
    (void)state;
    memset(&got, 0, sizeof(got));
    make_members(1);
    bed.store.password = "secret";
    open_session(OPTS("user", "root:secret", "command-timeout", "60s"));
    for (int i = 0; i < BELFRY_CALLS_MAX; i++)
        assert_int_equal(belfry_get(bed.b, belfry_key("a/1"), NULL, on_reply, &got, NULL), BELFRY_OK);
    drive_until(got.n > 0, SOON_MS);
    assert_int_equal(got.err, BELFRY_OK);
}

/* ---- memory ---- */

static const char *sweep_endpoints;
static struct fake *sweep_fake;

static enum belfry_err everything(struct belfry *b, struct seen *seen, struct got *got)
{
    int err = belfry_watch_open(b, belfry_prefix("a/"), NULL, on_batch, &seen[0], NULL);
    if (err == BELFRY_OK)
        err = belfry_follow_open(b, belfry_prefix("a/"), NULL, on_batch, &seen[1], NULL);
    if (err == BELFRY_OK)
        err = belfry_get(b, belfry_prefix("a/"), NULL, on_reply, &got[0], NULL);
    if (err == BELFRY_OK)
        err = belfry_put(b, str("a/1"), str("v"), NULL, on_reply, &got[1], NULL);
    if (err == BELFRY_OK)
        err = belfry_member_list(b, NULL, on_reply, &got[2], NULL);
    if (err == BELFRY_OK)
        err = belfry_request_progress(b);
    for (int i = 0; i < 60 && err == BELFRY_OK; i++) {
        struct pollfd fd = {.fd = belfry_fd(b), .events = POLLIN};
        if (sweep_fake != NULL)
            fake_turn(sweep_fake);
        if (poll(&fd, 1, sweep_fake != NULL ? 0 : i < 10) == 1)
            err = belfry_dispatch(b);
    }
    return err;
}

static enum belfry_err scenario(void)
{
    static struct seen seen[2];
    static struct got got[3];
    struct belfry_opts *opts = NULL;
    struct belfry *b = NULL;
    memset(seen, 0, sizeof(seen));
    memset(got, 0, sizeof(got));
    int err = belfry_opts_set(&opts, "command-timeout", "300ms");
    if (err == BELFRY_OK)
        err = belfry_open(sweep_endpoints, opts, &b);
    belfry_opts_free(opts);
    if (err != BELFRY_OK)
        return err;
    err = everything(b, seen, got);
    belfry_close(b);
    if (err == BELFRY_OK) { /* whatever was refused: each heard its end once */
        assert_int_equal(seen[0].n[BELFRY_END] + seen[1].n[BELFRY_END], 2);
        assert_int_equal(got[0].n + got[1].n + got[2].n, 3);
    }
    return err;
}

static void refused_memory_leaks_nothing_without_a_server(void **state)
{
    char url[64];
    (void)state;
    make_members(1);
    fake_drop(bed.fakes[0], true);
    snprintf(url, sizeof(url), "%s", fake_url(bed.fakes[0]));
    sweep_endpoints = url;
    sweep_fake = NULL;
    size_t n = refuse_sweep(scenario);
    print_message("%zu allocations\n", n);
    assert_true(n > 30);
}

static void refused_memory_leaks_nothing_with_a_server(void **state)
{
    (void)state;
    make_members(1);
    sweep_endpoints = fake_url(bed.fakes[0]);
    sweep_fake = bed.fakes[0];
    size_t n = refuse_sweep(scenario);
    print_message("%zu allocations\n", n);
    assert_true(n > 60);
    assert_true(fake_count(bed.fakes[0], "/Status") > 20); /* this far it came */
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(calls_are_answered),
        TEST(serializable_reads_are_sent_without_hasleader),
        TEST(arguments_that_make_no_sense_are_refused),
        TEST(why_says_what_was_wrong_with_the_last_call_that_failed),
        TEST(a_call_may_be_cancelled_at_any_time),
        TEST(a_write_that_was_sent_is_not_repeated),
        TEST(a_write_that_nobody_saw_is_tried_again),
        TEST(a_read_is_tried_again_elsewhere),
        TEST(the_first_cause_is_told_beside_the_last),
        TEST(stragglers_do_not_drive_the_session_from_a_good_member),
        TEST(too_many_calls_are_refused),
        TEST(idle_sessions_do_not_spin),
        TEST(an_idle_session_lets_a_lost_connection_rest),
        TEST(run_returns_when_it_should),
        TEST(a_signal_stops_run),
        TEST(a_stop_that_comes_early_stops_the_next_run_and_no_other),
        TEST(a_watch_from_now_on_reads_the_revision_first),
        TEST(a_watch_gives_each_revision_once_through_breaks),
        TEST(a_follow_gives_state_then_changes),
        TEST(a_follow_says_that_nobody_answers_and_goes_on),
        TEST(a_follow_says_that_its_page_is_late_and_that_it_came),
        TEST(a_follow_may_be_closed_while_nobody_answers),
        TEST(a_follow_once_ends_when_synced),
        TEST(a_listing_that_starts_over_forgets_the_page_under_way),
        TEST(a_follow_lists_anew_when_history_is_lost),
        TEST(a_paused_watch_waits_and_goes_on),
        TEST(a_follow_may_be_paused_at_every_kind),
        TEST(a_page_that_comes_in_a_pause_waits),
        TEST(a_stream_reset_for_calm_is_resumed),
        TEST(progress_is_told_on_request),
        TEST(progress_that_overtakes_events_is_not_asked_for),
        TEST(versions_that_keep_progress_behind_events_are_believed),
        TEST(versions_from_before_the_fix_and_what_is_no_version_are_not_believed),
        TEST(a_version_is_asked_of_the_member_that_is_watched),
        TEST(a_version_of_another_member_proves_nothing),
        TEST(servers_that_do_not_tell_their_version),
        TEST(a_version_that_does_not_come_is_asked_of_the_next_stream),
        TEST(a_follow_is_synced_by_progress_that_can_be_believed),
        TEST(a_follow_is_synced_by_an_event_where_progress_cannot_be_believed),
        TEST(a_watch_may_be_closed_inside_every_callback),
        TEST(a_follow_may_be_closed_inside_every_callback),
        TEST(closing_the_session_ends_everything_once),
        TEST(failing_over_is_told),
        TEST(a_member_without_a_leader_is_left),
        TEST(a_watch_says_when_it_has_begun),
        TEST(a_status_ends_watches_or_is_tried_again),
        TEST(a_server_that_is_no_etcd_ends_watches_unless_it_was_one),
        TEST(a_doubtful_status_is_tried_again_ten_times_in_a_row),
        TEST(a_server_that_has_served_may_be_doubtful_for_longer),
        TEST(a_doubt_that_is_the_same_each_time_is_said_once_however_long),
        TEST(a_status_that_passes_is_tried_again_without_limit),
        TEST(a_member_that_drains_keeps_its_calls_and_gets_no_new_ones),
        TEST(without_endpoints_it_is_said_in_time),
        TEST(another_cluster_ends_watches_and_calls),
        TEST(one_strange_member_is_only_left),
        TEST(a_lower_revision_is_lag),
        TEST(a_rewritten_past_ends_watches_and_lists_follows_anew),
        TEST(a_past_that_was_rewritten_once_is_not_found_out_again),
        TEST(a_doubt_without_a_watch_does_not_spin),
        TEST(tokens_are_fetched_and_renewed),
        TEST(a_wrong_password_ends_everything),
        TEST(a_server_without_auth_is_served_without_a_token),
        TEST(a_log_in_that_cannot_be_had_is_not_asked_for_without_end),
        TEST(an_overloaded_log_in_passes),
        TEST(a_password_file_that_is_not_there_is_said),
        TEST(a_full_queue_still_logs_in),
        TEST(refused_memory_leaks_nothing_without_a_server),
        TEST(refused_memory_leaks_nothing_with_a_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
