/* tests/support/kubebed.h: a session with a Kubernetes client, or an informer on it, whose server is
 * support/scriptpeer, and notes of everything it calls back with. Included by the suites that need it, after cmocka.
 *
 * Every news of an informer is judged on the way by programs/known.h. Notes are taken one by one, so that what a test
 * does not expect fails it; BELFRY_NEWS_LINK is kept apart. */
#ifndef BELFRY_TESTS_KUBEBED_H
#define BELFRY_TESTS_KUBEBED_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <belfry/informer.h>

#include "base/clock.h"
#include "programs/known.h"
#include "support/refuse.h"
#include "support/scriptpeer.h"

#define SOON_MS   5000 /* by then, on a slow machine too */
#define AT_ONCE   600  /* ms: sooner than the shortest wait, 800 */
#define NOTES_MAX 512

#define JSON "Content-Type: application/json\r\n"

struct note {
    int kind; /* of belfry_kube_kind or of belfry_news_kind */
    char key[64], version[32], uid[64];
    char old_version[32], old_uid[64];
    int initial, resync, missed, initial_end, err, code;
    char reason[64], why[640], value[512]; /* value: its beginning */
    int64_t retry_after_ms;
};

static struct bed {
    struct scriptpeer peer;
    struct belfry *session;
    struct belfry_kube *kube;
    struct belfry_kube_request *request;
    struct belfry_informer *informer;
    struct known known;
    struct note notes[NOTES_MAX];
    size_t n_notes, n_taken, n_links;
    char links[4096];      /* what LINK said, one behind the other */
    enum belfry_next next; /* what the next callback answers, once */
    const char *wrong;     /* the first rule that news broke */
    size_t held;
} bed;

/* ---- what is called back ---- */

static inline void copy_bytes(char *out, size_t cap, struct belfry_bytes from)
{
    size_t n = from.len < cap - 1 ? from.len : cap - 1;
    if (n > 0)
        memcpy(out, from.data, n);
    out[n] = '\0';
}

static inline struct note *add_note(int kind)
{
    if (bed.n_notes == NOTES_MAX)
        fail_msg("more than %d callbacks", NOTES_MAX);
    struct note *note = &bed.notes[bed.n_notes++];
    *note = (struct note){.kind = kind, .retry_after_ms = -1};
    return note;
}

static inline enum belfry_next answer_once(void)
{
    enum belfry_next next = bed.next;
    bed.next = BELFRY_MORE;
    return next;
}

static inline enum belfry_next on_event(struct belfry_kube_request *request, const struct belfry_kube_event *event,
                                        void *user)
{
    (void)request;
    (void)user;
    struct note *note = add_note((int)event->kind);
    if (event->object != NULL) {
        copy_bytes(note->key, sizeof(note->key), belfry_object_key(event->object));
        copy_bytes(note->value, sizeof(note->value), belfry_object_value(event->object));
    }
    copy_bytes(note->version, sizeof(note->version), event->version);
    note->initial_end = event->initial_end;
    if (event->kind == BELFRY_KUBE_ERROR || event->kind == BELFRY_KUBE_END) {
        note->err = event->err;
        note->code = event->code;
        note->retry_after_ms = event->retry_after_ms;
        snprintf(note->reason, sizeof(note->reason), "%s", event->reason);
        snprintf(note->why, sizeof(note->why), "%s", event->why);
    }
    enum belfry_next next = answer_once();
    if (event->kind == BELFRY_KUBE_END || next == BELFRY_STOP)
        bed.request = NULL;
    return next;
}

static inline void note_news(const struct belfry_news *news)
{
    struct note *note = add_note((int)news->kind);
    if (news->object != NULL) {
        copy_bytes(note->key, sizeof(note->key), belfry_object_key(news->object));
        copy_bytes(note->version, sizeof(note->version), belfry_object_version(news->object));
        copy_bytes(note->uid, sizeof(note->uid), belfry_object_uid(news->object));
        copy_bytes(note->value, sizeof(note->value), belfry_object_value(news->object));
    }
    if (news->old != NULL) {
        copy_bytes(note->old_version, sizeof(note->old_version), belfry_object_version(news->old));
        copy_bytes(note->old_uid, sizeof(note->old_uid), belfry_object_uid(news->old));
    }
    note->initial = news->initial;
    note->resync = news->resync;
    note->missed = news->missed;
    note->err = news->err;
    snprintf(note->why, sizeof(note->why), "%s", news->why != NULL ? news->why : "");
}

static inline enum belfry_next on_news(struct belfry_informer *informer, const struct belfry_news *news, void *user)
{
    (void)user;
    const char *wrong = known_judge(&bed.known, informer, news);
    if (bed.wrong == NULL)
        bed.wrong = wrong;
    if (news->kind == BELFRY_NEWS_LINK) {
        size_t used = strlen(bed.links);
        bed.n_links++;
        snprintf(bed.links + used, sizeof(bed.links) - used, "%s; ", news->why);
        return BELFRY_MORE;
    }
    note_news(news);
    if (news->kind == BELFRY_NEWS_END)
        bed.informer = NULL;
    return answer_once();
}

/* ---- turning it ---- */

static inline void turn_for(int ms)
{
    struct pollfd fds[SCRIPTPEER_CONNS + 2];
    size_t n = scriptpeer_fds(&bed.peer, fds);
    fds[n++] = (struct pollfd){.fd = belfry_fd(bed.session), .events = POLLIN};
    poll(fds, n, ms);
    scriptpeer_turn(&bed.peer);
    assert_int_equal(belfry_dispatch(bed.session), BELFRY_OK);
    if (bed.wrong != NULL)
        fail_msg("news: %s", bed.wrong);
}

static inline void turn(void)
{
    turn_for(5);
}

#define drive_until(condition)                                                                                         \
    do {                                                                                                               \
        uint64_t end_ = belfry_clock_ms() + SOON_MS;                                                                   \
        while (!(condition) && belfry_clock_ms() < end_)                                                               \
            turn();                                                                                                    \
        assert_true(condition);                                                                                        \
    } while (0)

static inline void drive_for(uint64_t ms)
{
    uint64_t end = belfry_clock_ms() + ms;
    while (belfry_clock_ms() < end)
        turn();
}

/* ---- a bed for each test ---- */

static inline enum belfry_err set_all(struct belfry_opts **opts, const char *const *pairs)
{
    enum belfry_err err = BELFRY_OK;
    for (; err == BELFRY_OK && pairs != NULL && *pairs != NULL; pairs += 2)
        err = (enum belfry_err)belfry_opts_set(opts, pairs[0], pairs[1]);
    return err;
}

/* Session and client; `pairs` are names and values, ended by NULL; NULL: none. */
static inline enum belfry_err open_kube(const char *const *pairs)
{
    char url[64], why[256] = "";
    struct belfry_opts *opts = NULL;
    snprintf(url, sizeof(url), "http://127.0.0.1:%u", bed.peer.port);
    enum belfry_err err = (enum belfry_err)belfry_open(NULL, NULL, &bed.session);
    if (err == BELFRY_OK)
        err = (enum belfry_err)belfry_opts_set(&opts, "server", url);
    if (err == BELFRY_OK)
        err = set_all(&opts, pairs);
    if (err == BELFRY_OK)
        err = (enum belfry_err)belfry_kube_open(bed.session, opts, &bed.kube, why, sizeof(why));
    belfry_opts_free(opts);
    return err;
}

#define PAIRS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NO_PAIRS   NULL

static inline int setup_bed(void **state)
{
    (void)state;
    memset(&bed, 0, sizeof(bed));
    bed.held = refuse_held();
    return scriptpeer_open(&bed.peer) && open_kube(NO_PAIRS) == BELFRY_OK ? 0 : -1;
}

static inline void close_session(void)
{
    belfry_close(bed.session);
    bed.session = NULL;
    bed.kube = NULL;
    bed.request = NULL;
    bed.informer = NULL;
    known_free(&bed.known);
}

/* The session and the peer's connections: what comes next begins anew. */
static inline void close_all(void)
{
    close_session();
    for (size_t i = 0; i < SCRIPTPEER_CONNS; i++)
        scriptpeer_hang_up(&bed.peer.conns[i]);
}

/* The end of a life in which memory was refused: `err`, or what the informer ended with. */
static inline enum belfry_err end_life(enum belfry_err err)
{
    for (size_t i = 0; i < bed.n_notes; i++)
        if (bed.notes[i].kind == BELFRY_NEWS_END)
            err = (enum belfry_err)bed.notes[i].err;
    close_all();
    bed.known = (struct known){0};
    return err;
}

/* Nothing is left; what is told while the session closes is judged as well. */
static inline int teardown_bed(void **state)
{
    (void)state;
    close_session();
    scriptpeer_close(&bed.peer);
    if (bed.wrong != NULL)
        fail_msg("news: %s", bed.wrong);
    if (refuse_held() != bed.held)
        fail_msg("%zd blocks leaked", (ssize_t)(refuse_held() - bed.held));
    return 0;
}

/* With other options than none, before anything was asked. */
static inline void open_kube_again(const char *const *pairs)
{
    close_session();
    assert_int_equal(open_kube(pairs), BELFRY_OK);
}

#define PODS belfry_resource("v1", "pods", NULL)

static inline void start_watch(const char *const *pairs)
{
    struct belfry_opts *opts = NULL;
    assert_int_equal(set_all(&opts, pairs), BELFRY_OK);
    assert_int_equal(belfry_kube_watch(bed.kube, PODS, opts, on_event, NULL, &bed.request), BELFRY_OK);
    belfry_opts_free(opts);
}

static inline void start_list(const char *const *pairs)
{
    struct belfry_opts *opts = NULL;
    assert_int_equal(set_all(&opts, pairs), BELFRY_OK);
    assert_int_equal(belfry_kube_list(bed.kube, PODS, opts, on_event, NULL, &bed.request), BELFRY_OK);
    belfry_opts_free(opts);
}

static inline void start_informer(const char *const *pairs)
{
    struct belfry_opts *opts = NULL;
    assert_int_equal(set_all(&opts, pairs), BELFRY_OK);
    assert_int_equal(belfry_informer_resource(bed.kube, PODS, opts, on_news, NULL, &bed.informer), BELFRY_OK);
    belfry_opts_free(opts);
}

/* ---- the dialogue ---- */

static inline struct scriptpeer_conn *next_request(void)
{
    struct scriptpeer_conn *conn = NULL;
    drive_until(conn != NULL || (conn = scriptpeer_asked(&bed.peer)) != NULL);
    return conn;
}

/* And how long it took to come. */
static inline struct scriptpeer_conn *next_request_after(uint64_t least_ms, uint64_t most_ms)
{
    uint64_t began = belfry_clock_ms();
    struct scriptpeer_conn *conn = next_request();
    uint64_t took = belfry_clock_ms() - began;
    if (took < least_ms || took > most_ms)
        fail_msg("the request came after %d ms, not %d to %d", (int)took, (int)least_ms, (int)most_ms);
    return conn;
}

static inline void no_request_for(uint64_t ms)
{
    drive_for(ms);
    struct scriptpeer_conn *conn = scriptpeer_asked(&bed.peer);
    if (conn != NULL)
        fail_msg("asked for: %.200s", conn->head);
}

/* NULL: it must not be there. */
static inline void assert_query(const struct scriptpeer_conn *conn, const char *name, const char *value)
{
    char got[512];
    bool there = scriptpeer_query(conn, name, got, sizeof(got));
    if (value == NULL ? there && got[0] != '\0' : !there || strcmp(got, value) != 0)
        fail_msg("%s is %s, not %s: %.300s", name, there ? got : "not there", value != NULL ? value : "to be there",
                 conn->head);
}

static inline bool is_watch(const struct scriptpeer_conn *conn)
{
    char got[16];
    return scriptpeer_query(conn, "watch", got, sizeof(got)) && strcmp(got, "0") != 0 && strcmp(got, "false") != 0;
}

static inline bool is_watch_list(const struct scriptpeer_conn *conn)
{
    char got[16];
    return is_watch(conn) && scriptpeer_query(conn, "sendInitialEvents", got, sizeof(got)) && strcmp(got, "true") == 0;
}

static inline const struct note *next_note(void)
{
    drive_until(bed.n_taken < bed.n_notes);
    return &bed.notes[bed.n_taken++];
}

static inline const struct note *assert_note(int kind, const char *key, const char *version)
{
    const struct note *note = next_note();
    if (note->kind != kind || strcmp(note->key, key) != 0 || (version != NULL && strcmp(note->version, version) != 0))
        fail_msg("kind %d, key '%s', version '%s', err %s %s; not %d '%s' '%s'", note->kind, note->key, note->version,
                 belfry_errname(note->err), note->why, kind, key, version != NULL ? version : "any");
    return note;
}

/* The code of an end in good order says nothing. */
static inline const struct note *assert_end(int err, int code)
{
    const struct note *note = next_note();
    if (note->kind != BELFRY_KUBE_END || note->err != err || (err != BELFRY_OK && note->code != code))
        fail_msg("kind %d %s, code %d: %s; not an end with %s, %d", note->kind, belfry_errname(note->err), note->code,
                 note->why, belfry_errname(err), code);
    return note;
}

static inline void no_note_for(uint64_t ms)
{
    drive_for(ms);
    if (bed.n_taken < bed.n_notes)
        fail_msg("kind %d, key '%s', why '%s'", bed.notes[bed.n_taken].kind, bed.notes[bed.n_taken].key,
                 bed.notes[bed.n_taken].why);
}

/* ---- texts ---- */

#define TEXT_BYTES 8192

/* Stays for the next seven: texts are built of one another. */
__attribute__((format(printf, 1, 2))) static inline const char *text(const char *format, ...)
{
    static char kept[8][TEXT_BYTES];
    static unsigned used;
    char built[TEXT_BYTES]; /* what it is built of may be the oldest of those that are kept */
    va_list args;
    va_start(args, format);
    vsnprintf(built, sizeof(built), format, args);
    va_end(args);
    return strcpy(kept[used++ % 8], built);
}

static inline const char *number(uint64_t n)
{
    return text("%llu", (unsigned long long)n);
}

static inline const char *pod_of(const char *name, const char *version, const char *uid)
{
    return text(
        "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"%s\",\"namespace\":\"x\",\"uid\":\"%s\","
        "\"resourceVersion\":\"%s\"},\"spec\":{\"nodeName\":\"node-%s\"}}",
        name, uid, version, version);
}

static inline const char *pod(const char *name, const char *version)
{
    return pod_of(name, version, "1");
}

static inline const char *event(const char *type, const char *object)
{
    return text("{\"type\":\"%s\",\"object\":%s}\n", type, object);
}

static inline const char *added(const char *name, const char *version)
{
    return event("ADDED", pod(name, version));
}

static inline const char *modified(const char *name, const char *version)
{
    return event("MODIFIED", pod(name, version));
}

static inline const char *deleted(const char *name, const char *version)
{
    return event("DELETED", pod(name, version));
}

static inline const char *bookmark(const char *version)
{
    return event("BOOKMARK",
                 text("{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"%s\"}}", version));
}

static inline const char *initial_end(const char *version)
{
    return event("BOOKMARK", text("{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"%s\","
                                  "\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}",
                                  version));
}

static inline const char *status(int code, const char *reason)
{
    return text(
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"it says %s\","
        "\"reason\":\"%s\",\"code\":%d}",
        reason, reason, code);
}

static inline const char *too_large(void)
{
    return "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"Timeout: "
           "Too "
           "large resource version: 99, current: 12\",\"reason\":\"Timeout\",\"details\":{\"causes\":[{\"reason\":"
           "\"ResourceVersionTooLarge\",\"message\":\"Too large resource version\"}]},\"code\":504}";
}

/* A list at `version` of what `items`, joined by commas, holds; `more`: where the next page begins, or "". */
static inline const char *list_page(const char *version, const char *items, const char *more)
{
    return text(
        "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"%s\"%s%s%s},\"items\":[%s]}",
        version, *more != '\0' ? ",\"continue\":\"" : "", more, *more != '\0' ? "\"" : "", items);
}

static inline const char *list_of(const char *version, const char *items)
{
    return list_page(version, items, "");
}

static inline const char *two(const char *first, const char *next)
{
    return text("%s,%s", first, next);
}

/* ---- what most tests of an informer begin with ---- */

/* Lists `items` at `version`, in a session without watch-list, and takes the notes up to SYNCED. Returns the watch. */
static inline struct scriptpeer_conn *list_and_watch(const char *version, const char *items)
{
    struct scriptpeer_conn *conn = next_request();
    assert_false(is_watch(conn));
    scriptpeer_answer(conn, "200 OK", JSON, list_of(version, items));
    drive_until(bed.n_notes > 0 && bed.notes[bed.n_notes - 1].kind == BELFRY_NEWS_SYNCED);
    bed.n_taken = bed.n_notes;
    conn = next_request();
    assert_true(is_watch(conn));
    assert_query(conn, "resourceVersion", version);
    return conn;
}

static inline struct scriptpeer_conn *listed_and_watching(const char *version, const char *items)
{
    start_informer(PAIRS("watch-list", "false"));
    struct scriptpeer_conn *conn = list_and_watch(version, items);
    scriptpeer_begin(conn, "200 OK", JSON);
    return conn;
}

#endif
