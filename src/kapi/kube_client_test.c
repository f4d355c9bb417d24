/* src/kapi/kube_client_test.c: a client and its requests through the public API, against a scripted server: what
 * callbacks may do, what a pause holds, how one request affects others, and how requests end from every state. The
 * rules for retries are tested in informer/behaviour_request_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/kubebed.h"

#define RETRY_NOW "Retry-After: 0\r\n"

/* ---- a caller that does something inside its n-th callback ---- */

struct caller;
typedef enum belfry_next (*act_fn)(struct caller *caller, const struct belfry_kube_event *event);

static struct caller {
    struct belfry_kube_request *request; /* NULL: gone */
    act_fn act;
    int at;     /* in this call of it */
    int n;      /* calls so far */
    bool over;  /* nothing may come any more */
    bool acted; /* it did */
} callers[2];

static bool inside; /* belfry_dispatch(), or a close */

static enum belfry_next on_call(struct belfry_kube_request *request, const struct belfry_kube_event *event, void *user)
{
    struct caller *caller = user;
    enum belfry_next next = BELFRY_MORE;
    assert_true(inside);
    assert_false(caller->over);
    assert_ptr_equal(caller->request, request);
    if (event->kind == BELFRY_KUBE_END)
        caller->over = true;
    if (caller->act != NULL && caller->n++ == caller->at) {
        caller->acted = true;
        next = caller->act(caller, event);
    }
    if (next == BELFRY_STOP)
        caller->over = true;
    if (caller->over)
        caller->request = NULL;
    return next;
}

static enum belfry_next cancels_itself(struct caller *caller, const struct belfry_kube_event *event)
{
    (void)event;
    caller->over = true;
    belfry_kube_cancel(caller->request);
    belfry_kube_cancel(event->kind == BELFRY_KUBE_END ? caller->request : NULL);
    return BELFRY_PAUSE; /* which nobody looks at any more */
}

static enum belfry_next stops(struct caller *caller, const struct belfry_kube_event *event)
{
    (void)caller;
    (void)event;
    return BELFRY_STOP;
}

static enum belfry_next pauses_and_goes_on(struct caller *caller, const struct belfry_kube_event *event)
{
    (void)event;
    belfry_kube_resume(caller->request); /* too early: it counts from the return on */
    return BELFRY_PAUSE;
}

static enum belfry_next cancels_the_other(struct caller *caller, const struct belfry_kube_event *event)
{
    struct caller *other = &callers[caller == callers];
    (void)event;
    belfry_kube_cancel(other->request);
    other->request = NULL;
    other->over = true;
    return BELFRY_MORE;
}

static enum belfry_next asks_for_more(struct caller *caller, const struct belfry_kube_event *event)
{
    struct caller *other = &callers[caller == callers];
    (void)event;
    if (!other->over)
        return BELFRY_MORE;
    *other = (struct caller){0};
    assert_int_equal(belfry_kube_get(bed.kube, PODS, "more", NULL, on_call, other, &other->request), BELFRY_OK);
    return BELFRY_MORE;
}

static const act_fn acts[] = {cancels_itself, stops, pauses_and_goes_on, cancels_the_other, asks_for_more};
#define N_ACTS (sizeof(acts) / sizeof(acts[0]))

/* ---- a server that has a bit of everything, by turns ---- */

/* A get is refused once; a list has two pages, the second of which expires once; a watch has events and an end. */
static void serve(void)
{
    static unsigned turn_of;
    char path[64], got[64];
    struct scriptpeer_conn *conn = scriptpeer_asked(&bed.peer);
    if (conn == NULL)
        return;
    scriptpeer_path(conn, path, sizeof(path));
    turn_of++;
    if (is_watch(conn)) {
        scriptpeer_begin(conn, "200 OK", JSON);
        scriptpeer_chunk(conn, text("%s%s", added("a", "5"), modified("a", "6")));
        scriptpeer_chunk(conn, bookmark("7"));
        if (turn_of % 2 == 0)
            scriptpeer_chunk(conn, event("ERROR", status(410, "Expired")));
        scriptpeer_end(conn);
    } else if (scriptpeer_query(conn, "continue", got, sizeof(got))) {
        scriptpeer_answer(conn, "410 Gone", JSON, status(410, "Expired"));
    } else if (scriptpeer_query(conn, "limit", got, sizeof(got))) {
        scriptpeer_answer(conn, "200 OK", JSON, list_page("10", two(pod("a", "1"), pod("b", "2")), "more"));
    } else if (strcmp(path, "/api/v1/pods") == 0) {
        scriptpeer_answer(conn, "200 OK", "Connection: close\r\n" JSON,
                          list_of("12", two(pod("a", "1"), pod("b", "11"))));
    } else if (turn_of % 2 == 0) {
        scriptpeer_answer(conn, "503 Service Unavailable", RETRY_NOW, "no");
    } else {
        scriptpeer_answer(conn, "200 OK", JSON, pod("more", "5"));
    }
}

static void step(void)
{
    inside = true;
    turn_for(1);
    inside = false;
    serve();
}

static enum belfry_err ask(struct caller *caller, int what)
{
    struct belfry_opts *opts = NULL;
    enum belfry_err err = BELFRY_OK;
    if (what == 0)
        err = (enum belfry_err)belfry_opts_set(&opts, "chunk-size", "2");
    if (err == BELFRY_OK && what == 0)
        err = (enum belfry_err)belfry_kube_list(bed.kube, PODS, opts, on_call, caller, &caller->request);
    else if (err == BELFRY_OK && what == 1)
        err = (enum belfry_err)belfry_kube_watch(bed.kube, PODS, NULL, on_call, caller, &caller->request);
    else if (err == BELFRY_OK)
        err = (enum belfry_err)belfry_kube_get(bed.kube, PODS, "a", NULL, on_call, caller, &caller->request);
    belfry_opts_free(opts);
    return err;
}

static bool all_over(void)
{
    return (callers[0].request == NULL || callers[0].over) && (callers[1].request == NULL || callers[1].over);
}

/* The first acts in its n-th callback; whatever it does, every request comes to an end. */
static bool acted_in(act_fn act, int what, int nth)
{
    memset(callers, 0, sizeof(callers));
    callers[0].act = act;
    callers[0].at = nth;
    assert_int_equal(ask(&callers[0], what), BELFRY_OK);
    assert_int_equal(ask(&callers[1], (what + 1) % 3), BELFRY_OK);
    uint64_t end = belfry_clock_ms() + SOON_MS;
    while (!all_over() && belfry_clock_ms() < end) {
        step();
        if (act == pauses_and_goes_on && callers[0].acted && callers[0].request != NULL)
            belfry_kube_resume(callers[0].request);
    }
    assert_true(all_over());
    for (int i = 0; i < 3; i++)
        step();
    return callers[0].acted;
}

static void a_callback_may_do_anything_in_any_of_its_calls(void **state)
{
    (void)state;
    for (size_t act = 0; act < N_ACTS; act++) {
        for (int what = 0; what < 3; what++) {
            int nth = 0;
            while (acted_in(acts[act], what, nth))
                nth++;
            assert_true(nth >= 1);
        }
    }
}

/* ---- closed in every state ---- */

/* Leaves a request in the state and returns: how long its END may take is no matter, closing brings it. */
static void comes_to_be_asked(void)
{
    start_list(NO_PAIRS);
}

static void comes_to_be_dialled(void)
{
    start_list(NO_PAIRS);
    belfry_dispatch(bed.session);
}

static void comes_to_be_sent(void)
{
    start_list(NO_PAIRS);
    next_request();
}

static void comes_to_be_refused(void)
{
    start_list(NO_PAIRS);
    scriptpeer_begin(next_request(), "403 Forbidden", JSON);
    drive_for(10);
}

static void comes_to_be_answered(void)
{
    start_list(NO_PAIRS);
    scriptpeer_begin(next_request(), "200 OK", JSON);
    drive_for(10);
}

static void comes_to_rest(void)
{
    start_list(NO_PAIRS);
    scriptpeer_answer(next_request(), "503 Service Unavailable", "Retry-After: 10\r\n", "");
    drive_for(10);
}

static void comes_to_be_paused(void)
{
    start_list(NO_PAIRS);
    bed.next = BELFRY_PAUSE;
    scriptpeer_answer(next_request(), "200 OK", JSON, list_of("10", two(pod("a", "1"), pod("b", "2"))));
    assert_note(BELFRY_KUBE_ITEM, "x/a", "1");
    drive_for(10);
}

static void comes_to_be_resumed(void)
{
    comes_to_be_paused();
    belfry_kube_resume(bed.request);
}

static void comes_to_be_paused_without_a_connection(void)
{
    start_list(NO_PAIRS);
    bed.next = BELFRY_PAUSE;
    struct scriptpeer_conn *conn = next_request();
    scriptpeer_answer(conn, "200 OK", JSON, list_of("10", two(pod("a", "1"), pod("b", "2"))));
    scriptpeer_hang_up(conn);
    assert_note(BELFRY_KUBE_ITEM, "x/a", "1");
    drive_for(10);
}

static void (*const states[])(void) = {
    comes_to_be_asked,   comes_to_be_dialled,  comes_to_be_sent,
    comes_to_be_refused, comes_to_be_answered, comes_to_rest,
    comes_to_be_paused,  comes_to_be_resumed,  comes_to_be_paused_without_a_connection};

static void closed_in_any_state_a_client_ends_its_requests_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        for (int way = 0; way < 3; way++) { /* the client, the session, the request */
            states[i]();
            bed.n_taken = bed.n_notes;
            if (way == 0) {
                belfry_kube_close(bed.kube);
                bed.kube = NULL;
            } else if (way == 1) {
                belfry_close(bed.session);
                bed.session = NULL;
                bed.kube = NULL;
            } else {
                belfry_kube_cancel(bed.request);
                bed.request = NULL;
            }
            assert_int_equal(bed.n_notes, bed.n_taken + (way < 2));
            if (way < 2)
                assert_int_equal(bed.notes[bed.n_taken++].err, BELFRY_ERR_CANCELED);
            if (bed.session != NULL)
                no_note_for(10);
            open_kube_again(NO_PAIRS);
        }
    }
}

/* ---- pauses ---- */

static void a_paused_list_outlives_its_connection(void **state)
{
    (void)state;
    start_list(NO_PAIRS);
    bed.next = BELFRY_PAUSE;
    struct scriptpeer_conn *conn = next_request();
    scriptpeer_answer(conn, "200 OK", "Connection: close\r\n" JSON, list_of("10", two(pod("a", "1"), pod("b", "2"))));
    scriptpeer_hang_up(conn);
    assert_note(BELFRY_KUBE_ITEM, "x/a", "1");
    no_note_for(50);
    belfry_kube_resume(bed.request);
    assert_note(BELFRY_KUBE_ITEM, "x/b", "2");
    assert_end(BELFRY_OK, 0);
    assert_int_equal(belfry_kube_get_stats(bed.kube)->losses, 0);
    assert_int_equal(belfry_kube_get_stats(bed.kube)->connections, 0);
}

static void a_paused_watch_is_told_of_a_broken_connection_when_it_goes_on(void **state)
{
    (void)state;
    start_watch(NO_PAIRS);
    bed.next = BELFRY_PAUSE;
    struct scriptpeer_conn *conn = next_request();
    scriptpeer_begin(conn, "200 OK", JSON);
    scriptpeer_chunk(conn, text("%s%s", added("a", "1"), added("b", "2")));
    assert_note(BELFRY_KUBE_ADDED, "x/a", "1");
    scriptpeer_cut(conn);
    no_note_for(50);
    belfry_kube_resume(bed.request);
    assert_note(BELFRY_KUBE_ADDED, "x/b", "2");
    assert_end(BELFRY_ERR_UNAVAILABLE, 0);
}

static void between_an_error_and_the_end_there_may_be_a_pause(void **state)
{
    (void)state;
    start_watch(NO_PAIRS);
    bed.next = BELFRY_PAUSE;
    struct scriptpeer_conn *conn = next_request();
    scriptpeer_begin(conn, "200 OK", JSON);
    scriptpeer_chunk(conn, event("ERROR", status(410, "Expired")));
    scriptpeer_end(conn);
    assert_int_equal(next_note()->kind, BELFRY_KUBE_ERROR);
    no_note_for(50);
    belfry_kube_resume(bed.request);
    assert_end(BELFRY_ERR_COMPACTED, 410);
}

static void a_list_paused_where_it_begins_anew_goes_on(void **state)
{
    (void)state;
    start_list(PAIRS("chunk-size", "1"));
    scriptpeer_answer(next_request(), "200 OK", JSON, list_page("10", pod("a", "1"), "next/1"));
    assert_note(BELFRY_KUBE_ITEM, "x/a", "1");
    struct scriptpeer_conn *conn = next_request();
    bed.next = BELFRY_PAUSE;
    scriptpeer_answer(conn, "410 Gone", JSON, status(410, "Expired"));
    assert_int_equal(next_note()->kind, BELFRY_KUBE_RESTART);
    no_request_for(50);
    belfry_kube_resume(bed.request);
    scriptpeer_answer(next_request(), "200 OK", JSON, list_of("12", pod("a", "1")));
    assert_note(BELFRY_KUBE_ITEM, "x/a", "1");
    assert_end(BELFRY_OK, 0);
}

/* ---- what one may cost the others ---- */

static void a_request_that_cannot_be_sent_fails_alone(void **state)
{
    (void)state;
    static char selector[50000];
    memset(selector, 'x', sizeof(selector) - 1);
    struct caller *first = &callers[0];
    start_watch(PAIRS("selector", selector));
    *first = (struct caller){0};
    assert_int_equal(belfry_kube_get(bed.kube, PODS, "a", NULL, on_call, first, &first->request), BELFRY_OK);
    inside = true;
    struct scriptpeer_conn *conn = next_request();
    scriptpeer_answer(conn, "200 OK", JSON, pod("a", "5"));
    drive_until(first->over);
    inside = false;
    assert_non_null(strstr(assert_end(BELFRY_ERR_INVALID, 0)->why, "too long"));
}

static void every_connection_that_was_kept_too_long_is_passed_over_at_once(void **state)
{
    (void)state;
    struct scriptpeer_conn *conns[3];
    for (int i = 0; i < 3; i++)
        start_list(NO_PAIRS);
    for (int i = 0; i < 3; i++)
        conns[i] = next_request();
    for (int i = 0; i < 3; i++)
        scriptpeer_answer(conns[i], "200 OK", JSON, list_of("10", ""));
    for (int i = 0; i < 3; i++)
        assert_end(BELFRY_OK, 0);
    assert_int_equal(bed.peer.n_accepted, 3);
    start_list(NO_PAIRS);
    for (int i = 0; i < 3; i++) /* each ended by the server just when it is used again */
        scriptpeer_hang_up(next_request_after(0, AT_ONCE));
    struct scriptpeer_conn *conn = next_request_after(0, AT_ONCE);
    assert_int_equal(bed.peer.n_accepted, 4);
    scriptpeer_hang_up(conn); /* a new one is another matter */
    scriptpeer_answer(next_request_after(900, 2200), "200 OK", JSON, list_of("10", ""));
    assert_end(BELFRY_OK, 0);
    assert_int_equal(belfry_kube_get_stats(bed.kube)->retries, 1);
}

static void a_connection_is_lost_once_however_it_is_noticed(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        start_watch(NO_PAIRS);
        struct scriptpeer_conn *conn = next_request();
        scriptpeer_begin(conn, "200 OK", JSON);
        drive_for(10);
        if (i == 0)
            scriptpeer_cut(conn);
        else
            scriptpeer_hang_up(conn);
        assert_end(BELFRY_ERR_UNAVAILABLE, 0);
        assert_int_equal(belfry_kube_get_stats(bed.kube)->losses, i + 1);
        assert_int_equal(belfry_kube_get_stats(bed.kube)->connections, 0);
    }
}

/* ---- credentials ---- */

static void write_token(const char *path, const char *token)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(token, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void assert_bearer(const struct scriptpeer_conn *conn, const char *value)
{
    char got[64];
    assert_true(scriptpeer_field(conn, "Authorization", got, sizeof(got)));
    assert_string_equal(got, value);
}

/* Of two that were sent with the old token the second finds it read already. */
static void everybody_who_is_refused_with_an_old_token_asks_again_with_the_new(void **state)
{
    (void)state;
    char path[] = "/tmp/belfry-token-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    write_token(path, "old\n");
    open_kube_again(PAIRS("token-file", path));
    start_list(NO_PAIRS);
    start_list(NO_PAIRS);
    struct scriptpeer_conn *conns[] = {next_request(), next_request()};
    write_token(path, "new\n");
    for (int i = 0; i < 2; i++) {
        assert_bearer(conns[i], "Bearer old");
        scriptpeer_answer(conns[i], "401 Unauthorized", JSON, status(401, "Unauthorized"));
        struct scriptpeer_conn *conn = next_request_after(0, AT_ONCE);
        assert_bearer(conn, "Bearer new");
        if (i == 0) {
            scriptpeer_answer(conn, "200 OK", JSON, list_of("10", ""));
            assert_end(BELFRY_OK, 0);
        } else { /* and only once */
            scriptpeer_answer(conn, "401 Unauthorized", JSON, status(401, "Unauthorized"));
            assert_end(BELFRY_ERR_AUTH, 401);
        }
    }
    no_request_for(20);
    unlink(path);
}

/* ---- servers that are slow, or talk too much ---- */

static void the_head_of_a_refusal_says_enough_when_its_body_does_not_come(void **state)
{
    (void)state;
    open_kube_again(PAIRS("command-timeout", "200ms"));
    start_list(NO_PAIRS);
    scriptpeer_begin(next_request(), "403 Forbidden", JSON);
    assert_end(BELFRY_ERR_DENIED, 403);
    no_request_for(20);
}

static void a_refusal_without_end_is_cut(void **state)
{
    (void)state;
    static char filler[4096];
    memset(filler, 'x', sizeof(filler));
    start_list(NO_PAIRS);
    struct scriptpeer_conn *conn = next_request();
    assert_int_equal(scriptpeer_send(conn, "HTTP/1.1 404 Not Found\r\n\r\n", 26), 26);
    for (int i = 0; i < 1000 && bed.n_notes == 0; i++) {
        scriptpeer_send(conn, filler, sizeof(filler));
        turn();
    }
    assert_end(BELFRY_ERR_NOT_FOUND, 404);
    drive_until(conn->state == SCRIPTPEER_GONE);
}

static size_t n_lines;

static void count_line(enum belfry_level level, const char *event, const char *text_of, void *user)
{
    (void)level;
    (void)text_of;
    if (strcmp(event, user) == 0)
        n_lines++;
}

static void what_a_server_says_again_and_again_fills_no_log(void **state)
{
    (void)state;
    n_lines = 0;
    belfry_set_log(bed.session, BELFRY_DEBUG, count_line, (void *)(uintptr_t) "kube_unreadable");
    start_watch(NO_PAIRS);
    struct scriptpeer_conn *conn = next_request();
    scriptpeer_begin(conn, "200 OK", JSON);
    for (int i = 0; i < 500; i++) {
        scriptpeer_chunk(conn, event("ADDED", "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{}}"));
        turn_for(0);
    }
    drive_until(belfry_kube_get_stats(bed.kube)->decode_errors == 500);
    assert_in_range(n_lines, 1, 10);
    n_lines = 0;
    belfry_set_log(bed.session, BELFRY_DEBUG, count_line, (void *)(uintptr_t) "kube_warning");
    for (int i = 0; i < 100; i++) {
        start_list(NO_PAIRS);
        scriptpeer_answer(next_request(), "200 OK", "Warning: 299 - \"v1 is old\"\r\n" JSON, list_of("10", ""));
        assert_end(BELFRY_OK, 0);
    }
    assert_int_equal(n_lines, 1);
}

/* ---- warnings ---- */

static struct {
    char texts[512];
    size_t n;
    bool cancels;
} warned;

static void on_warning(struct belfry_kube *k, const struct belfry_kube_warning *warning, void *user)
{
    size_t used = strlen(warned.texts);
    assert_ptr_equal(k, bed.kube);
    assert_ptr_equal(user, &warned);
    assert_int_equal(warning->code, 299);
    assert_memory_equal(warning->target, "/api/v1/pods", 12);
    snprintf(warned.texts + used, sizeof(warned.texts) - used, "%s;", warning->text);
    warned.n++;
    if (warned.cancels)
        belfry_kube_cancel(bed.request);
}

static void every_warning_is_told_once(void **state)
{
    (void)state;
    memset(&warned, 0, sizeof(warned));
    belfry_kube_set_warning(bed.kube, on_warning, &warned);
    for (int i = 0; i < 3; i++) {
        start_list(NO_PAIRS);
        scriptpeer_answer(next_request(), "200 OK",
                          "Warning: 299 - \"v1 is old\", 299 - \"so are you\"\r\nWarning: 299 - \"third\"\r\n" JSON,
                          list_of("10", ""));
        assert_end(BELFRY_OK, 0);
    }
    start_list(NO_PAIRS); /* a refusal may have one, too */
    scriptpeer_answer(next_request(), "404 Not Found", "Warning: 299 - \"gone\"\r\n", "no");
    assert_end(BELFRY_ERR_NOT_FOUND, 404);
    assert_string_equal(warned.texts, "v1 is old;so are you;third;gone;");
    assert_int_equal(belfry_kube_get_stats(bed.kube)->warnings, 10);
    belfry_kube_set_warning(bed.kube, NULL, NULL);
    start_list(NO_PAIRS);
    scriptpeer_answer(next_request(), "200 OK", "Warning: 299 - \"unheard\"\r\n" JSON, list_of("10", ""));
    assert_end(BELFRY_OK, 0);
    assert_int_equal(warned.n, 4);
}

static void a_request_can_be_canceled_by_its_warning(void **state)
{
    (void)state;
    memset(&warned, 0, sizeof(warned));
    warned.cancels = true;
    belfry_kube_set_warning(bed.kube, on_warning, &warned);
    start_list(NO_PAIRS);
    scriptpeer_answer(next_request(), "200 OK", "Warning: 299 - \"a\", 299 - \"b\"\r\n" JSON, list_of("10", ""));
    drive_until(warned.n > 0);
    bed.request = NULL;
    no_note_for(50);
    assert_string_equal(warned.texts, "a;");
}

static void a_resource_without_a_name_is_refused(void **state)
{
    (void)state;
    struct belfry_resource none[] = {{NULL, "pods", NULL}, {"v1", NULL, NULL}, {"", "pods", NULL}, {"v1", "", NULL}};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        assert_int_equal(belfry_kube_list(bed.kube, none[i], NULL, on_event, NULL, NULL), BELFRY_ERR_INVALID);
    assert_int_equal(belfry_kube_list(bed.kube, PODS, NULL, NULL, NULL, NULL), BELFRY_ERR_INVALID);
    assert_int_equal(belfry_kube_get(bed.kube, PODS, NULL, NULL, on_event, NULL, NULL), BELFRY_ERR_INVALID);
}

/* ---- the descriptor ---- */

static bool is_readable(void)
{
    struct pollfd fd = {.fd = belfry_fd(bed.session), .events = POLLIN};
    return poll(&fd, 1, 0) == 1;
}

/* Whatever is asked for from outside makes the descriptor readable, and done with it is quiet again. */
static void assert_stirs_and_settles(void)
{
    assert_true(is_readable());
    drive_for(20);
    assert_false(is_readable());
}

static void every_call_from_outside_stirs_the_descriptor(void **state)
{
    (void)state;
    drive_for(20);
    start_watch(NO_PAIRS);
    assert_true(is_readable());
    struct scriptpeer_conn *conn = next_request();
    bed.next = BELFRY_PAUSE;
    scriptpeer_begin(conn, "200 OK", JSON);
    scriptpeer_chunk(conn, text("%s%s", added("a", "1"), added("b", "2")));
    assert_note(BELFRY_KUBE_ADDED, "x/a", "1");
    drive_for(20);
    assert_false(is_readable());
    belfry_kube_resume(bed.request);
    assert_stirs_and_settles();
    assert_note(BELFRY_KUBE_ADDED, "x/b", "2");
    belfry_kube_cancel(bed.request);
    assert_stirs_and_settles(); /* what the connection had is freed */
    start_watch(NO_PAIRS);
    next_request();
    belfry_kube_close(bed.kube);
    bed.kube = NULL;
    assert_end(BELFRY_ERR_CANCELED, 0);
    assert_stirs_and_settles();
}

/* ---- out of memory ---- */

/* A paged list that starts again, a get that is retried, a watch: each until its end. */
static enum belfry_err life(void)
{
    memset(callers, 0, sizeof(callers));
    enum belfry_err err = open_kube(NO_PAIRS);
    for (int what = 0; what < 3 && err == BELFRY_OK; what++) {
        struct caller *caller = &callers[0];
        *caller = (struct caller){0};
        err = ask(caller, what);
        uint64_t until = belfry_clock_ms() + 100; /* one that waits a second to be tried again is not waited for */
        while (err == BELFRY_OK && !caller->over && belfry_clock_ms() < until)
            step();
        if (err == BELFRY_OK && caller->request != NULL && !caller->over)
            belfry_kube_cancel(caller->request);
    }
    inside = true;
    close_session();
    inside = false;
    for (size_t i = 0; i < SCRIPTPEER_CONNS; i++)
        scriptpeer_hang_up(&bed.peer.conns[i]);
    return err;
}

static void no_memory_is_an_end_and_leaks_nothing(void **state)
{
    (void)state;
    close_session();
    assert_true(refuse_sweep(life) >= 20);
}

#define row(name) cmocka_unit_test_setup_teardown(name, setup_bed, teardown_bed)

int main(void)
{
    const struct CMUnitTest tests[] = {
        row(a_callback_may_do_anything_in_any_of_its_calls),
        row(closed_in_any_state_a_client_ends_its_requests_once),
        row(a_paused_list_outlives_its_connection),
        row(a_paused_watch_is_told_of_a_broken_connection_when_it_goes_on),
        row(between_an_error_and_the_end_there_may_be_a_pause),
        row(a_list_paused_where_it_begins_anew_goes_on),
        row(a_request_that_cannot_be_sent_fails_alone),
        row(every_connection_that_was_kept_too_long_is_passed_over_at_once),
        row(a_connection_is_lost_once_however_it_is_noticed),
        row(everybody_who_is_refused_with_an_old_token_asks_again_with_the_new),
        row(the_head_of_a_refusal_says_enough_when_its_body_does_not_come),
        row(a_refusal_without_end_is_cut),
        row(what_a_server_says_again_and_again_fills_no_log),
        row(every_warning_is_told_once),
        row(a_request_can_be_canceled_by_its_warning),
        row(a_resource_without_a_name_is_refused),
        row(every_call_from_outside_stirs_the_descriptor),
        row(no_memory_is_an_end_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
