/* src/kfollow/resource_driver_test.c: a driver against a scripted server: which requests it sends, what becomes of the
 * answers. Which requests are wanted, and when, is in resource_follow_test.c. */
#include "kfollow/resource_driver.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kfollow/resource_freshness.h"
#include "support/kubebed.h"
#include "support/modelstore.h"

#define WATCH_S 100

static struct {
    struct belfry_kube *servers[2]; /* the same: the peer plays both */
    struct store *store;
    struct evlog *evlog;
    struct resource_driver *driver;
    bool streams; /* the server is asked for initial events */
    unsigned n_changed;
} rig;

static void on_changed(void *user)
{
    assert_ptr_equal(user, &rig);
    rig.n_changed++;
}

static enum belfry_err open_driver(unsigned n_servers)
{
    rig.servers[0] = rig.servers[1] = bed.kube;
    struct resource_driver_opts opts = {.servers = rig.servers,
                                        .n_servers = n_servers,
                                        .group_version = "v1",
                                        .plural = "pods",
                                        .is_namespaced = true,
                                        .store = rig.store,
                                        .evlog = rig.evlog,
                                        .watch_s = WATCH_S,
                                        .no_initial = !rig.streams,
                                        .seed = 1};
    return resource_driver_open(&opts, on_changed, &rig, &rig.driver);
}

static int setup(void **state)
{
    static const struct modelstore_opts store = {.history_rows = 100, .history_age_s = 1000, .extent_bytes = 1 << 20};
    struct evlog_opts log = {.capacity_log2 = 8, .max_bytes = 1 << 20, .n_workers = 1};
    memset(&rig, 0, sizeof(rig));
    if (setup_bed(state) != 0)
        return -1;
    rig.store = modelstore_create(&store);
    return evlog_create(&log, &rig.evlog) == BELFRY_OK ? 0 : -1;
}

/* The driver is closed before its client. */
static int teardown(void **state)
{
    resource_driver_close(rig.driver);
    evlog_destroy(rig.evlog);
    modelstore_destroy(rig.store);
    return teardown_bed(state);
}

static struct resource_driver_status now(void)
{
    struct resource_driver_status status;
    resource_driver_status(rig.driver, &status);
    return status;
}

/* ---- the dialogue ---- */

static void assert_path(const struct scriptpeer_conn *conn, const char *path)
{
    char got[256];
    scriptpeer_path(conn, got, sizeof(got));
    assert_string_equal(got, path);
}

static bool is_metadata_only(const struct scriptpeer_conn *conn)
{
    char got[256];
    return scriptpeer_field(conn, "accept", got, sizeof(got)) && strstr(got, "as=PartialObjectMetadataList") != NULL;
}

static void answer_list(struct scriptpeer_conn *conn, const char *page)
{
    scriptpeer_answer(conn, "200 OK", JSON, page);
}

/* A list of one object, the probe after it, and the watch, which is returned: it is open. */
static struct scriptpeer_conn *follow(unsigned n_servers)
{
    assert_int_equal(open_driver(n_servers), BELFRY_OK);
    struct scriptpeer_conn *conn = next_request();
    assert_path(conn, "/api/v1/pods");
    assert_query(conn, "resourceVersion", "0");
    assert_query(conn, "limit", NULL);
    answer_list(conn, list_of("20", pod("a", "10")));
    conn = next_request();
    assert_path(conn, "/api/v1/namespaces/default/pods");
    assert_query(conn, "fieldSelector", "metadata.name=belfry-probe");
    assert_query(conn, "resourceVersion", NULL);
    assert_true(is_metadata_only(conn));
    answer_list(conn, list_of("21", ""));
    conn = next_request();
    assert_true(is_watch(conn));
    assert_query(conn, "resourceVersion", "20");
    assert_query(conn, "allowWatchBookmarks", "true");
    scriptpeer_begin(conn, "200 OK", JSON);
    drive_until(now().is_ready);
    return conn;
}

/* ---- following ---- */

static void resource_is_listed_checked_and_watched(void **state)
{
    (void)state;
    char timeout[16];
    struct scriptpeer_conn *watch = follow(1);
    assert_true(scriptpeer_query(watch, "timeoutSeconds", timeout, sizeof(timeout)));
    assert_true(atoi(timeout) >= WATCH_S && atoi(timeout) < 2 * WATCH_S);
    assert_true(now().version == 20 && now().past == 1 && now().state == RESOURCE_LIVE);
    assert_true(now().stats.links == 1 && now().stats.listings == 1);
    assert_true(rig.n_changed > 0);
}

static void events_and_bookmarks_go_to_the_log(void **state)
{
    (void)state;
    struct scriptpeer_conn *watch = follow(1);
    unsigned n = rig.n_changed;
    scriptpeer_chunk(watch, added("b", "30"));
    scriptpeer_chunk(watch, modified("a", "31"));
    drive_until(now().version == 31);
    assert_true(rig.n_changed > n);
    scriptpeer_chunk(watch, deleted("a", "35"));
    scriptpeer_chunk(watch, bookmark("40"));
    drive_until(now().version == 40);
    assert_int_equal(now().stats.events, 3);
    drive_until(now().committed == 40);
}

static void watch_that_ends_is_continued_before_the_last_change(void **state)
{
    (void)state;
    struct scriptpeer_conn *watch = follow(1);
    scriptpeer_chunk(watch, added("b", "30"));
    drive_until(now().version == 30);
    scriptpeer_end(watch);
    watch = next_request();
    assert_true(is_watch(watch));
    assert_query(watch, "resourceVersion", "29");
    scriptpeer_begin(watch, "200 OK", JSON);
    scriptpeer_chunk(watch, added("b", "30"));
    drive_until(now().stats.overlaps == 1 && now().is_ready);
}

static void answer_410_of_every_server_lists_anew(void **state)
{
    (void)state;
    struct scriptpeer_conn *watch = follow(2);
    scriptpeer_chunk(watch, added("b", "30"));
    drive_until(now().version == 30);
    scriptpeer_chunk(watch, event("ERROR", status(410, "Expired")));
    scriptpeer_end(watch);
    for (unsigned i = 0; i < 4; i++) { /* the overlap and the audit at each of both */
        watch = next_request();
        assert_true(is_watch(watch));
        scriptpeer_answer(watch, "410 Gone", JSON, status(410, "Expired"));
    }
    struct scriptpeer_conn *list = next_request();
    assert_false(is_watch(list));
    assert_query(list, "resourceVersion", "30"); /* not older than ours */
    assert_string_equal(now().why, "no server has the changes since our version");
    answer_list(list, list_of("50", pod("a", "45")));
    answer_list(next_request(), list_of("50", ""));
    drive_until(now().version == 50);
    assert_int_equal(now().stats.expired, 1);
}

static void object_without_a_version_ends_the_watch(void **state)
{
    (void)state;
    struct scriptpeer_conn *watch = follow(1);
    scriptpeer_chunk(watch, added("b", "x"));
    drive_until(now().failed[0] != '\0');
    assert_non_null(strstr(now().failed, "no version"));
    watch = next_request();
    assert_true(is_watch(watch));
    assert_int_equal(now().version, 20);
}

static void refused_request_is_reported_and_sent_again(void **state)
{
    (void)state;
    assert_int_equal(open_driver(1), BELFRY_OK);
    scriptpeer_answer(next_request(), "403 Forbidden", JSON, status(403, "Forbidden"));
    drive_until(now().failed[0] != '\0');
    assert_non_null(strstr(now().failed, "Forbidden"));
    assert_int_equal(now().failed_code, 403);
    answer_list(next_request(), list_of("20", ""));
    answer_list(next_request(), list_of("20", ""));
    drive_until(now().version == 20);
}

static void name_that_no_path_can_have_is_refused(void **state)
{
    (void)state;
    struct resource_driver_opts opts = {.servers = &bed.kube,
                                        .n_servers = 1,
                                        .group_version = "v1",
                                        .plural = "po/ds",
                                        .store = rig.store,
                                        .evlog = rig.evlog};
    assert_int_equal(resource_driver_open(&opts, on_changed, &rig, &rig.driver), BELFRY_ERR_INVALID);
    assert_null(rig.driver);
}

/* ---- over HTTP/1.1, as all of this peer ---- */

/* Answers all that comes until the resource is ready: probes at 51, watches with `shown`, lists with `page`. */
static struct scriptpeer_conn *serve_until_ready(const char *shown, const char *page)
{
    struct scriptpeer_conn *conn, *watch = NULL;
    char got[32];
    uint64_t end_ms = belfry_clock_ms() + 4 * SOON_MS;
    while (!now().is_ready && belfry_clock_ms() < end_ms) {
        if ((conn = scriptpeer_asked(&bed.peer)) == NULL) {
            turn();
        } else if (is_watch(conn)) {
            watch = conn;
            scriptpeer_begin(conn, "200 OK", JSON);
            scriptpeer_chunk(conn, shown);
        } else if (scriptpeer_query(conn, "fieldSelector", got, sizeof(got))) {
            answer_list(conn, list_of("51", ""));
        } else {
            answer_list(conn, page);
        }
    }
    assert_true(now().is_ready);
    return watch;
}

/* The connection of the list is closed, so its watch comes on another and proves nothing; the newest object is older
 * than the list, so an audit must prove it; and the audit's watch has its connection for itself. */
static void audit_lists_first_where_the_list_cannot_come_on_the_link_of_its_watch(void **state)
{
    (void)state;
    assert_int_equal(open_driver(1), BELFRY_OK);
    scriptpeer_answer(next_request(), "200 OK", "Connection: close\r\n" JSON,
                      list_of("20", two(pod("a", "10"), pod("b", "11"))));
    answer_list(next_request(), list_of("20", ""));
    struct scriptpeer_conn *watch = serve_until_ready(deleted("b", "22"), list_of("25", pod("a", "10")));
    drive_until(now().version == 22); /* the list lacked what the watch shows to be deleted */
    assert_int_equal(now().stats.listings, 1);
    assert_int_equal(now().stats.audits, 1);
    scriptpeer_chunk(watch, added("c", "30"));
    drive_until(now().version == 30);
}

/* ---- initial events ---- */

static void server_that_can_sends_its_objects_first(void **state)
{
    (void)state;
    rig.streams = true;
    assert_int_equal(open_driver(1), BELFRY_OK);
    struct scriptpeer_conn *watch = next_request();
    assert_true(is_watch_list(watch));
    assert_query(watch, "resourceVersion", "0");
    assert_query(watch, "resourceVersionMatch", "NotOlderThan");
    scriptpeer_begin(watch, "200 OK", JSON);
    scriptpeer_chunk(watch, added("a", "10"));
    scriptpeer_chunk(watch, initial_end("20"));
    scriptpeer_chunk(watch, added("b", "21")); /* waits for the probe */
    struct scriptpeer_conn *probe = next_request();
    assert_int_equal(now().version, 0);
    answer_list(probe, list_of("21", ""));
    drive_until(now().version == 21 && now().is_ready);
    assert_int_equal(now().stats.streams, 1);
    scriptpeer_chunk(watch, deleted("b", "25"));
    drive_until(now().version == 25);
}

static void server_that_refuses_initial_events_is_listed(void **state)
{
    (void)state;
    rig.streams = true;
    assert_int_equal(open_driver(1), BELFRY_OK);
    struct scriptpeer_conn *conn = next_request();
    assert_true(is_watch_list(conn));
    scriptpeer_answer(conn, "422 Unprocessable Entity", JSON, status(422, "Invalid"));
    conn = next_request();
    assert_false(is_watch(conn));
    answer_list(conn, list_of("20", pod("a", "10")));
    answer_list(next_request(), list_of("20", ""));
    conn = next_request();
    assert_true(is_watch(conn) && !is_watch_list(conn));
    assert_string_equal(now().failed, ""); /* that is no failure */
}

/* ---- freshness ---- */

struct asker {
    struct resource_proof proof; /* first */
    unsigned n;
    int64_t rv;
    struct asker *cancels, *asks; /* others, when it is answered */
};

static void on_proven(struct resource_proof *proof, int64_t rv)
{
    struct asker *asker = (struct asker *)proof;
    asker->n++;
    asker->rv = rv;
    if (asker->cancels != NULL)
        resource_proof_cancel(&asker->cancels->proof);
    if (asker->asks != NULL)
        resource_driver_prove(rig.driver, &asker->asks->proof);
}

static void ask(struct asker *asker)
{
    asker->proof.fn = on_proven;
    resource_driver_prove(rig.driver, &asker->proof);
    assert_int_equal(asker->n, 0);
}

static void questions_about_a_quiet_resource_share_a_list_of_versions(void **state)
{
    (void)state;
    follow(1);
    drive_for(RESOURCE_FRESH_QUIET_MS);
    struct asker askers[5] = {0};
    askers[0].cancels = &askers[1];
    askers[2].asks = &askers[3];
    askers[3].proof.fn = on_proven;
    for (unsigned i = 0; i < 3; i++)
        ask(&askers[i]);
    struct scriptpeer_conn *list = next_request();
    assert_path(list, "/api/v1/pods");
    assert_query(list, "limit", "500");
    assert_query(list, "resourceVersion", NULL);
    assert_true(is_metadata_only(list));
    ask(&askers[4]); /* too late for this list */
    answer_list(list, list_page("50", pod("a", "10"), "more"));
    list = next_request();
    assert_query(list, "continue", "more");
    answer_list(list, list_of("50", ""));
    drive_until(askers[2].n == 1);
    assert_true(askers[0].rv == 20 && askers[2].rv == 20 && askers[1].n == 0 && askers[4].n == 0);
    answer_list(next_request(), list_of("51", pod("a", "10")));
    drive_until(askers[4].n == 1 && askers[3].n == 1);
    assert_int_equal(now().stats.fresh_lists, 2);
    assert_int_equal(now().stats.fresh_probes, 0);
}

static void question_about_a_busy_resource_costs_a_probe(void **state)
{
    (void)state;
    struct scriptpeer_conn *watch = follow(1);
    struct asker asker = {0};
    scriptpeer_chunk(watch, added("b", "30"));
    drive_until(now().version == 30);
    ask(&asker);
    struct scriptpeer_conn *probe = next_request();
    assert_path(probe, "/api/v1/namespaces/default/pods");
    answer_list(probe, list_of("33", ""));
    scriptpeer_chunk(watch, added("c", "34"));
    drive_until(asker.n == 1);
    assert_int_equal(asker.rv, 34);
}

static void question_that_waits_is_answered_when_the_driver_is_closed(void **state)
{
    (void)state;
    follow(1);
    struct asker asker = {0};
    ask(&asker);
    turn();
    resource_driver_close(rig.driver);
    rig.driver = NULL;
    assert_true(asker.n == 1 && asker.rv == 0);
    drive_for(50);
    assert_int_equal(asker.n, 1);
}

/* ---- memory ---- */

/* The store of the model is not refused anything: it is opened before. */
static void driver_without_memory_is_not_opened(void **state)
{
    (void)state;
    enum belfry_err err = BELFRY_ERR_NOMEM;
    size_t held = refuse_held(), n = 0;
    for (; err == BELFRY_ERR_NOMEM && n < 50; n++) {
        refuse_begin(n);
        err = open_driver(1);
        refuse_end();
        if (err == BELFRY_ERR_NOMEM)
            assert_int_equal(refuse_held(), held);
    }
    assert_int_equal(err, BELFRY_OK);
    assert_true(n > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(resource_is_listed_checked_and_watched, setup, teardown),
        cmocka_unit_test_setup_teardown(events_and_bookmarks_go_to_the_log, setup, teardown),
        cmocka_unit_test_setup_teardown(watch_that_ends_is_continued_before_the_last_change, setup, teardown),
        cmocka_unit_test_setup_teardown(answer_410_of_every_server_lists_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(object_without_a_version_ends_the_watch, setup, teardown),
        cmocka_unit_test_setup_teardown(refused_request_is_reported_and_sent_again, setup, teardown),
        cmocka_unit_test_setup_teardown(name_that_no_path_can_have_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(audit_lists_first_where_the_list_cannot_come_on_the_link_of_its_watch, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(server_that_can_sends_its_objects_first, setup, teardown),
        cmocka_unit_test_setup_teardown(server_that_refuses_initial_events_is_listed, setup, teardown),
        cmocka_unit_test_setup_teardown(questions_about_a_quiet_resource_share_a_list_of_versions, setup, teardown),
        cmocka_unit_test_setup_teardown(question_about_a_busy_resource_costs_a_probe, setup, teardown),
        cmocka_unit_test_setup_teardown(question_that_waits_is_answered_when_the_driver_is_closed, setup, teardown),
        cmocka_unit_test_setup_teardown(driver_without_memory_is_not_opened, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
