/* src/kfollow/resource_set_test.c: a set against a server that has discovery, lists and watches of what a test says. */
#include "kfollow/resource_set.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "support/scriptpeer.h"

#define SOON_MS 30000 /* by then, on a slow machine too */
#define JSON    "Content-Type: application/json\r\n"
#define VERBS   "\"verbs\":[\"list\",\"watch\"]"

static struct {
    struct scriptpeer peer;
    uv_loop_t loop;
    struct belfry_opts *opts;
    struct resource_name names[2];
    struct resource_set *set;
    char dir[32];
    bool has_widgets;       /* the server has them */
    bool hides_widgets;     /* it answers 404 to all but discovery */
    bool is_namespaced;     /* they are */
    bool refuses;           /* and answers 503 to everything */
    const char *version;    /* what it says of itself; NULL: nothing */
    const char *definition; /* of the widgets; NULL: it is not shown */
    unsigned n_lists[2];    /* of pods, of widgets */
    unsigned n_found[2], n_changed;
} rig;

/* ---- the server ---- */

static const char *discovery_of(const char *path)
{
    if (strcmp(path, "/api/v1") == 0)
        return "{\"resources\":[{\"name\":\"pods\",\"namespaced\":true,\"kind\":\"Pod\"," VERBS "}]}";
    if (strcmp(path, "/version") == 0)
        return rig.version;
    if (!rig.has_widgets)
        return NULL;
    if (strcmp(path, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.demo.example.com") == 0)
        return rig.definition;
    if (strcmp(path, "/apis/demo.example.com") == 0)
        return "{\"versions\":[{\"version\":\"v1\"}],\"preferredVersion\":{\"version\":\"v1\"}}";
    if (strcmp(path, "/apis/demo.example.com/v1") == 0 && rig.is_namespaced)
        return "{\"resources\":[{\"name\":\"widgets\",\"namespaced\":true,\"kind\":\"Widget\"," VERBS "}]}";
    if (strcmp(path, "/apis/demo.example.com/v1") == 0)
        return "{\"resources\":[{\"name\":\"widgets\",\"namespaced\":false,\"kind\":\"Widget\"," VERBS "}]}";
    return NULL;
}

#define INITIAL_END                                                                                                    \
    "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"X\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":"       \
    "\"20\","                                                                                                          \
    "\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}\n"

static void answer(struct scriptpeer_conn *conn)
{
    char path[256], watch[8], initial[8], selector[64];
    scriptpeer_path(conn, path, sizeof(path));
    const char *discovery = discovery_of(path);
    bool is_probe = scriptpeer_query(conn, "fieldSelector", selector, sizeof(selector));
    bool is_widget = strstr(path, "/widgets") != NULL;
    if (rig.refuses)
        scriptpeer_answer(conn, "503 Service Unavailable", JSON, "{}");
    else if (discovery != NULL)
        scriptpeer_answer(conn, "200 OK", JSON, discovery);
    else if (strstr(path, "customresourcedefinitions") != NULL)
        scriptpeer_answer(conn, "403 Forbidden", JSON, "{\"kind\":\"Status\",\"code\":403}");
    else if ((strstr(path, "pods") == NULL && !is_widget) || (is_widget && (!rig.has_widgets || rig.hides_widgets)))
        scriptpeer_answer(conn, "404 Not Found", JSON, "{\"kind\":\"Status\",\"code\":404}");
    else if (scriptpeer_query(conn, "watch", watch, sizeof(watch))) {
        scriptpeer_begin(conn, "200 OK", JSON); /* and it stays open */
        if (scriptpeer_query(conn, "sendInitialEvents", initial, sizeof(initial))) {
            rig.n_lists[is_widget]++;
            scriptpeer_chunk(conn, INITIAL_END);
        }
    } else {
        rig.n_lists[is_widget] += !is_probe;
        scriptpeer_answer(conn, "200 OK", JSON,
                          "{\"kind\":\"List\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"20\"},"
                          "\"items\":[]}");
    }
}

static void turn(void)
{
    struct scriptpeer_conn *conn;
    uv_run(&rig.loop, UV_RUN_NOWAIT);
    scriptpeer_turn(&rig.peer);
    while ((conn = scriptpeer_asked(&rig.peer)) != NULL)
        answer(conn);
    struct timespec wait = {.tv_nsec = 1000000};
    nanosleep(&wait, NULL);
}

#define turn_until(condition)                                                                                          \
    do {                                                                                                               \
        for (uint64_t until = belfry_clock_ms() + SOON_MS; !(condition); turn())                                       \
            if (belfry_clock_ms() > until)                                                                             \
                fail_msg("not so in time: %s", #condition);                                                            \
    } while (0)

/* ---- the set ---- */

static void on_found(size_t number, void *user)
{
    assert_ptr_equal(user, &rig);
    rig.n_found[number]++;
}

static void on_changed(size_t number, void *user)
{
    assert_ptr_equal(user, &rig);
    assert_true(number < 2);
    rig.n_changed++;
}

static bool is_builtin(const char *group)
{
    return group[0] == '\0';
}

static void open_set(void)
{
    static const struct resource_set_events events = {on_found, on_changed};
    const struct belfry_opts *servers[] = {rig.opts};
    struct resource_set_opts opts = {.loop = &rig.loop,
                                     .servers = servers,
                                     .n_servers = 1,
                                     .names = rig.names,
                                     .n_names = 2,
                                     .dir = rig.dir,
                                     .log_bytes = 1 << 20,
                                     .history_bytes = 1 << 20,
                                     .history_age_s = 1000,
                                     .n_workers = 1,
                                     .look_ms = 100,
                                     .is_builtin = is_builtin,
                                     .seed = 1};
    char why[256];
    assert_int_equal(resource_set_open(&opts, &events, &rig, &rig.set, why, sizeof(why)), BELFRY_OK);
}

static struct resource_set_view look(size_t number)
{
    struct resource_set_view view;
    resource_set_look(rig.set, number, &view);
    return view;
}

static int setup(void **state)
{
    char url[64];
    (void)state;
    memset(&rig, 0, sizeof(rig));
    strcpy(rig.dir, "/tmp/belfry-set-XXXXXX");
    if (!scriptpeer_open(&rig.peer) || mkdtemp(rig.dir) == NULL || uv_loop_init(&rig.loop) != 0)
        return -1;
    snprintf(url, sizeof(url), "http://127.0.0.1:%u", (unsigned)rig.peer.port);
    bool named =
        resource_name_read("pods", &rig.names[0]) && resource_name_read("widgets.demo.example.com", &rig.names[1]);
    return named && belfry_opts_set(&rig.opts, "server", url) == BELFRY_OK ? 0 : -1;
}

static void close_set(void)
{
    resource_set_close(rig.set);
    rig.set = NULL;
    uv_run(&rig.loop, UV_RUN_DEFAULT); /* its handle closes */
}

static int teardown(void **state)
{
    char command[64];
    (void)state;
    close_set();
    belfry_opts_free(rig.opts);
    scriptpeer_close(&rig.peer);
    snprintf(command, sizeof(command), "rm -rf %s", rig.dir);
    return uv_loop_close(&rig.loop) == 0 && system(command) == 0 ? 0 : -1;
}

/* ---- tests ---- */

static void resources_are_found_and_followed(void **state)
{
    (void)state;
    rig.has_widgets = true;
    open_set();
    assert_false(look(0).is_found);
    assert_non_null(strstr(look(0).reason, "pods is not followed yet"));
    turn_until(look(0).is_ready && look(1).is_ready);
    assert_int_equal(rig.n_found[0], 1);
    assert_int_equal(rig.n_found[1], 1);
    assert_string_equal(look(0).reason, "");
    assert_string_equal(look(0).facts->kind, "Pod");
    assert_string_equal(look(1).facts->group_version, "demo.example.com/v1");
    assert_false(look(1).facts->is_namespaced);
    assert_ptr_not_equal(look(0).store, look(1).store);
    assert_ptr_not_equal(look(0).log, look(1).log);
    assert_int_equal(evlog_head(look(1).log), 20);
}

static void one_that_is_absent_is_looked_for_again(void **state)
{
    (void)state;
    open_set();
    turn_until(look(0).is_ready && look(1).is_absent);
    assert_false(look(1).is_found);
    assert_non_null(strstr(look(1).reason, "upstream does not have the resource"));
    rig.has_widgets = true; /* its definition was made */
    turn_until(look(1).is_ready);
    assert_false(look(1).is_absent);
    assert_int_equal(rig.n_found[1], 1);
}

static void a_server_that_does_not_answer_is_asked_again(void **state)
{
    (void)state;
    rig.refuses = rig.has_widgets = true;
    open_set();
    turn_until(strstr(look(0).reason, "does not answer its discovery") != NULL);
    assert_false(look(0).is_absent); /* nothing is known of it */
    assert_int_equal(look(0).code, 503);
    assert_true(rig.n_changed > 0);
    rig.refuses = false;
    turn_until(look(0).is_ready && look(1).is_ready);
}

static void a_second_start_is_warm(void **state)
{
    (void)state;
    rig.has_widgets = true;
    open_set();
    turn_until(look(0).is_ready && look(1).is_ready);
    assert_int_equal(rig.n_lists[0], 1);
    close_set();
    open_set();
    turn_until(look(0).is_found);
    assert_int_equal(evlog_head(look(0).log), 20); /* from its replica */
    close_set();                                   /* before it is found to be live */
    assert_int_equal(rig.n_found[0], 2);
}

static void what_was_ready_stays_so_while_the_follower_joins_anew(void **state)
{
    (void)state;
    rig.has_widgets = true;
    open_set();
    turn_until(look(0).is_ready && look(1).is_ready);
    rig.refuses = true;
    for (size_t i = 0; i < SCRIPTPEER_CONNS; i++)
        if (rig.peer.conns[i].state != SCRIPTPEER_GONE)
            scriptpeer_cut(&rig.peer.conns[i]);
    struct resource_driver_status status = {.is_ready = true};
    turn_until((resource_driver_status(look(0).driver, &status), !status.is_ready));
    assert_true(look(0).is_ready);
    turn_until(!look(0).is_ready); /* RESOURCE_STALE_MS later */
    assert_string_not_equal(look(0).reason, "");
}

static void close_watches(void)
{
    for (size_t i = 0; i < SCRIPTPEER_CONNS; i++)
        if (rig.peer.conns[i].state != SCRIPTPEER_GONE)
            scriptpeer_cut(&rig.peer.conns[i]);
}

static void one_that_upstream_lost_is_absent_until_it_is_back(void **state)
{
    (void)state;
    rig.has_widgets = true;
    open_set();
    turn_until(look(0).is_ready && look(1).is_ready);
    rig.has_widgets = false; /* its definition was deleted, and its watches ended */
    close_watches();
    turn_until(look(1).is_absent);
    assert_true(look(1).is_found && !look(1).is_ready);
    assert_non_null(strstr(look(1).reason, "upstream does not have it any more"));
    turn_until(look(0).is_ready && !look(0).is_absent);
    rig.has_widgets = true;
    turn_until(look(1).is_ready && !look(1).is_absent);
    assert_int_equal(rig.n_found[1], 1); /* the same store and log */
}

static void one_that_has_another_scope_is_absent_for_good(void **state)
{
    (void)state;
    rig.has_widgets = true;
    open_set();
    turn_until(look(1).is_ready);
    rig.has_widgets = false;
    close_watches();
    turn_until(look(1).is_absent);
    rig.is_namespaced = rig.has_widgets = true;
    rig.hides_widgets = true; /* the follower is not answered before discovery is */
    turn_until(strstr(look(1).reason, "it has changed upstream: restart the tier") != NULL);
    rig.hides_widgets = false;
    for (int i = 0; i < 200; i++)
        turn();
    assert_true(look(1).is_absent && !look(1).is_ready);
}

#define V1(fields) "{\"spec\":{\"versions\":[{\"name\":\"v1\",\"selectableFields\":[" fields "]}]}}"

static void the_server_and_the_definition_say_how_it_is_selected(void **state)
{
    (void)state;
    rig.has_widgets = true;
    rig.version = "{\"major\":\"1\",\"minor\":\"31\"}";
    rig.definition = V1("{\"jsonPath\":\".spec.color\"}");
    open_set();
    turn_until(look(0).is_ready && look(1).is_ready);
    assert_int_equal(look(0).facts->selectable.minor, 31);
    assert_int_equal(look(0).facts->selectable.n_fields, 0);
    assert_int_equal(look(1).facts->selectable.n_fields, 1);
    assert_string_equal(look(1).facts->selectable.fields[0], ".spec.color");
}

static void a_definition_that_changes_is_read_again(void **state)
{
    (void)state;
    rig.has_widgets = true;
    open_set();
    turn_until(look(0).is_ready && look(1).is_ready);
    assert_int_equal(look(1).facts->selectable.n_fields, 0); /* it may not be read */
    rig.definition = V1("{\"jsonPath\":\".spec.color\"},{\"jsonPath\":\".spec.size\"}");
    close_watches(); /* as API servers do */
    turn_until(look(1).facts->selectable.n_fields == 2);
    assert_int_equal(rig.n_found[1], 2);
    assert_int_equal(rig.n_found[0], 1);
    turn_until(look(0).is_ready && look(1).is_ready);
}

static void a_server_of_another_version_is_noticed(void **state)
{
    (void)state;
    rig.has_widgets = true;
    rig.version = "{\"major\":\"1\",\"minor\":\"30\"}";
    open_set();
    turn_until(look(0).is_ready && look(1).is_ready);
    rig.version = "{\"major\":\"1\",\"minor\":\"31\"}";
    close_watches();
    turn_until(look(0).facts->selectable.minor == 31 && look(1).facts->selectable.minor == 31);
    assert_int_equal(rig.n_found[0], 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(resources_are_found_and_followed, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_is_absent_is_looked_for_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_server_that_does_not_answer_is_asked_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_second_start_is_warm, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_upstream_lost_is_absent_until_it_is_back, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_has_another_scope_is_absent_for_good, setup, teardown),
        cmocka_unit_test_setup_teardown(the_server_and_the_definition_say_how_it_is_selected, setup, teardown),
        cmocka_unit_test_setup_teardown(a_definition_that_changes_is_read_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_server_of_another_version_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_ready_stays_so_while_the_follower_joins_anew, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
