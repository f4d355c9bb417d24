/* bench/belfry-bench/visits_test.c */
#include "visits.h"

#include "server_test.h"
#include "stopwatch.h"

static struct server server;
static struct visits visits;

static void open_all(void)
{
    server_open(&server);
    visits_open(&visits, server.poll, &server.target, "/key");
}

static void close_all(void)
{
    visits_tend(&visits, stopwatch_ns());
    assert_true(visits_is_idle(&visits));
    visits_close(&visits);
    server_close(&server);
}

static int begin(enum visit_kind kind, const char *asks)
{
    visits_begin(&visits, kind);
    int fd = server_accept(&server);
    server_await(&server, fd, asks);
    assert_false(visits_is_idle(&visits));
    return fd;
}

static void a_read_is_over_with_its_status(void **state)
{
    (void)state;
    open_all();
    int fd = begin(VISIT_READ, "/key");
    server_end_call(fd, 1, '0');
    server_await_count(&server, &visits.outcomes[VISIT_READ].ok, 1);
    close(fd);
    close_all();
}

static void a_watch_is_over_when_it_is_created(void **state)
{
    (void)state;
    open_all();
    int fd = begin(VISIT_ETCD_WATCH, "/key");
    server_message(fd, 1, "\x0a\x00\x18\x01", 4); /* header, created */
    server_await_count(&server, &visits.outcomes[VISIT_ETCD_WATCH].ok, 1);
    close(fd);
    fd = begin(VISIT_ETCD_WATCH, "/key");
    server_message(fd, 1, "\x0a\x00\x18\x01\x20\x01", 6); /* created and canceled */
    server_await_count(&server, &visits.outcomes[VISIT_ETCD_WATCH].failed, 1);
    close(fd);
    close_all();
}

static void a_watch_of_history_is_over_with_its_first_event(void **state)
{
    (void)state;
    const struct outcome *outcome = &visits.outcomes[VISIT_HISTORY];
    open_all();
    int fd = begin(VISIT_HISTORY, "/key");
    server_message(fd, 1, "\x0a\x00\x18\x01", 4); /* header, created */
    for (int i = 0; i < 20; i++)
        poller_turn(server.poll, 1);
    assert_int_equal(outcome->ok, 0);
    server_message(fd, 1, "\x0a\x00\x5a\x00", 4); /* header, an event */
    server_await_count(&server, &outcome->ok, 1);
    close(fd);
    fd = begin(VISIT_HISTORY, "/key");
    server_message(fd, 1, "\x0a\x00\x18\x01\x20\x01", 6); /* created and canceled */
    server_await_count(&server, &outcome->failed, 1);
    close(fd);
    close_all();
}

static void a_list_is_over_with_its_body(void **state)
{
    (void)state;
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n";
    static const char busy[] = "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n";
    const struct outcome *outcome = &visits.outcomes[VISIT_LIST];
    open_all();
    int fd = begin(VISIT_LIST, "GET ");
    server_say(fd, head, strlen(head));
    for (int i = 0; i < 20; i++)
        poller_turn(server.poll, 1);
    assert_int_equal(outcome->ok, 0);
    server_say(fd, "list", 4);
    server_await_count(&server, &outcome->ok, 1);
    close(fd);
    fd = begin(VISIT_LIST, "GET ");
    server_say(fd, busy, strlen(busy));
    server_await_count(&server, &outcome->failed, 1);
    assert_string_equal(outcome->why, "HTTP 429");
    close(fd);
    close_all();
}

static void a_watch_of_objects_is_over_with_its_head(void **state)
{
    (void)state;
    static const char head[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    open_all();
    visits.revision = 77;
    int fd = begin(VISIT_KUBE_WATCH, "resourceVersion=77&");
    server_say(fd, head, strlen(head));
    server_await_count(&server, &visits.outcomes[VISIT_KUBE_WATCH].ok, 1);
    close(fd);
    close_all();
}

static void a_visit_that_is_late_fails(void **state)
{
    (void)state;
    open_all();
    int fd = begin(VISIT_LIST, "GET ");
    visits_tend(&visits, stopwatch_ns());
    assert_int_equal(visits.outcomes[VISIT_LIST].failed, 0);
    visits_tend(&visits, stopwatch_ns() + (uint64_t)(OUTCOME_LATE_MS + 1) * NS_PER_MS);
    assert_int_equal(visits.outcomes[VISIT_LIST].failed, 1);
    close(fd);
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_read_is_over_with_its_status),
        cmocka_unit_test(a_watch_is_over_when_it_is_created),
        cmocka_unit_test(a_list_is_over_with_its_body),
        cmocka_unit_test(a_watch_of_objects_is_over_with_its_head),
        cmocka_unit_test(a_visit_that_is_late_fails),
        cmocka_unit_test(a_watch_of_history_is_over_with_its_first_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
