/* src/kube/request_plan_test.c: the tables of docs/spec/kubernetes-watch.md 2.2 and 3.1, row by row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "kube/request.h"
#include "support/refuse.h"

static struct kube_options options;
static struct kube_status status;

static void read_query(const char *query)
{
    if (kube_options_read(belfry_bytes_str(query), &options, &status) != BELFRY_OK)
        fail_msg("%s was refused: %s", query, status.message);
}

typedef enum belfry_err (*list_plan_fn)(const struct kube_options *options, struct kube_list_plan *out,
                                        struct kube_status *status);

struct list_row {
    const char *query;
    enum kube_read read;
    int64_t rev, limit;
};

static void assert_lists(list_plan_fn plan_fn, const struct list_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct kube_list_plan plan;
        read_query(rows[i].query);
        if (plan_fn(&options, &plan, &status) != BELFRY_OK)
            fail_msg("%s was refused: %s", rows[i].query, status.message);
        if (plan.read != rows[i].read || plan.rev != rows[i].rev || plan.limit != rows[i].limit)
            fail_msg("%s became read %d, rev %lld, limit %lld", rows[i].query, (int)plan.read, (long long)plan.rev,
                     (long long)plan.limit);
        kube_options_fini(&options);
    }
}

static void a_list_reads_what_the_table_says(void **state)
{
    (void)state;
    static const struct list_row rows[] = {
        /* unset, no paging */
        {"", KUBE_READ_LATEST, 0, 0},
        {"resourceVersion=", KUBE_READ_LATEST, 0, 0},
        {"resourceVersion=0", KUBE_READ_ANY, 0, 0},
        {"resourceVersion=7", KUBE_READ_NOT_OLDER, 7, 0},
        /* unset, limit */
        {"limit=5", KUBE_READ_LATEST, 0, 5},
        {"limit=500&resourceVersion=0", KUBE_READ_ANY, 0, 0},
        {"limit=5&resourceVersion=7", KUBE_READ_EXACT, 7, 5},
        /* unset, continue */
        {"limit=5&continue=t", KUBE_READ_CONTINUE, 0, 5},
        {"limit=5&continue=t&resourceVersion=0", KUBE_READ_CONTINUE, 0, 5},
        {"continue=t", KUBE_READ_CONTINUE, 0, 0},
        {"continue=", KUBE_READ_LATEST, 0, 0},
        /* Exact */
        {"resourceVersionMatch=Exact&resourceVersion=7", KUBE_READ_EXACT, 7, 0},
        {"resourceVersionMatch=Exact&resourceVersion=7&limit=5", KUBE_READ_EXACT, 7, 5},
        /* NotOlderThan */
        {"resourceVersionMatch=NotOlderThan&resourceVersion=0", KUBE_READ_ANY, 0, 0},
        {"resourceVersionMatch=NotOlderThan&resourceVersion=0&limit=5", KUBE_READ_ANY, 0, 0},
        {"resourceVersionMatch=NotOlderThan&resourceVersion=7", KUBE_READ_NOT_OLDER, 7, 0},
        {"resourceVersionMatch=NotOlderThan&resourceVersion=7&limit=5", KUBE_READ_NOT_OLDER, 7, 5},
        /* a negative limit is none, so it makes nothing exact */
        {"limit=-5&resourceVersion=7", KUBE_READ_NOT_OLDER, 7, 0},
        /* numbers above etcd's revisions are in the future */
        {"resourceVersion=9223372036854775807", KUBE_READ_NOT_OLDER, INT64_MAX, 0},
        {"resourceVersion=18446744073709551615", KUBE_READ_NOT_OLDER, INT64_MAX, 0},
        {"resourceVersion=007", KUBE_READ_NOT_OLDER, 7, 0},
        {"resourceVersion=00", KUBE_READ_ANY, 0, 0},
    };
    assert_lists(kube_plan_list, rows, sizeof(rows) / sizeof(rows[0]));
}

static void one_object_is_read_by_its_version_alone(void **state)
{
    (void)state;
    static const struct list_row rows[] = {
        {"", KUBE_READ_LATEST, 0, 0},
        {"resourceVersion=0", KUBE_READ_ANY, 0, 0},
        {"resourceVersion=7", KUBE_READ_NOT_OLDER, 7, 0},
        {"resourceVersion=7&limit=5&continue=t&watch=1&sendInitialEvents=true&resourceVersionMatch=x",
         KUBE_READ_NOT_OLDER, 7, 0},
    };
    assert_lists(kube_plan_get, rows, sizeof(rows) / sizeof(rows[0]));
}

struct watch_row {
    const char *query;
    bool state_first, mark_end;
    enum kube_read read;
    int64_t rev;
};

#define NOT_OLDER "&resourceVersionMatch=NotOlderThan"
#define BOOKMARKS "&allowWatchBookmarks=true"

static void a_watch_begins_where_the_table_says(void **state)
{
    (void)state;
    static const struct watch_row rows[] = {
        {"watch=1", true, false, KUBE_READ_LATEST, 0},
        {"watch=1&resourceVersion=0", true, false, KUBE_READ_ANY, 0},
        {"watch=1&resourceVersion=7", false, false, KUBE_READ_EXACT, 7},
        {"watch=1&sendInitialEvents=true" NOT_OLDER, true, false, KUBE_READ_LATEST, 0},
        {"watch=1&resourceVersion=0&sendInitialEvents=true" NOT_OLDER, true, false, KUBE_READ_ANY, 0},
        {"watch=1&resourceVersion=7&sendInitialEvents=true" NOT_OLDER, true, false, KUBE_READ_NOT_OLDER, 7},
        {"watch=1&sendInitialEvents=false" NOT_OLDER, false, false, KUBE_READ_LATEST, 0},
        {"watch=1&resourceVersion=0&sendInitialEvents=false" NOT_OLDER, false, false, KUBE_READ_ANY, 0},
        {"watch=1&resourceVersion=7&sendInitialEvents=false" NOT_OLDER, false, false, KUBE_READ_EXACT, 7},
        /* the end of the state is marked if bookmarks are requested */
        {"watch=1" BOOKMARKS, true, true, KUBE_READ_LATEST, 0},
        {"watch=1&resourceVersion=0" BOOKMARKS, true, true, KUBE_READ_ANY, 0},
        {"watch=1&resourceVersion=7" BOOKMARKS, false, false, KUBE_READ_EXACT, 7},
        {"watch=1&sendInitialEvents=true" NOT_OLDER BOOKMARKS, true, true, KUBE_READ_LATEST, 0},
        {"watch=1&resourceVersion=0&sendInitialEvents=true" NOT_OLDER BOOKMARKS, true, true, KUBE_READ_ANY, 0},
        {"watch=1&resourceVersion=7&sendInitialEvents=true" NOT_OLDER BOOKMARKS, true, true, KUBE_READ_NOT_OLDER, 7},
        {"watch=1&sendInitialEvents=false" NOT_OLDER BOOKMARKS, false, false, KUBE_READ_LATEST, 0},
        /* limit and continue do not count */
        {"watch=1&resourceVersion=7&limit=5&continue=t", false, false, KUBE_READ_EXACT, 7},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kube_watch_plan plan;
        read_query(rows[i].query);
        if (kube_plan_watch(&options, &plan, &status) != BELFRY_OK)
            fail_msg("%s was refused: %s", rows[i].query, status.message);
        if (plan.state_first != rows[i].state_first || plan.mark_end != rows[i].mark_end || plan.read != rows[i].read ||
            plan.rev != rows[i].rev)
            fail_msg("%s became state_first %d, mark_end %d, read %d, rev %lld", rows[i].query, plan.state_first,
                     plan.mark_end, (int)plan.read, (long long)plan.rev);
        assert_int_equal(plan.bookmarks, options.bookmarks);
        assert_int_equal(plan.timeout_ms, 0);
        kube_options_fini(&options);
    }
}

static void a_watch_lasts_as_long_as_it_says_up_to_a_bound(void **state)
{
    (void)state;
    static const struct {
        const char *query;
        uint64_t timeout_ms;
    } rows[] = {{"timeoutSeconds=0", 0},
                {"timeoutSeconds=-1", 0},
                {"timeoutSeconds=300", 300000},
                {"timeoutSeconds=31536000", UINT64_C(1000) * KUBE_TIMEOUT_MAX_S},
                {"timeoutSeconds=9223372036854775807", UINT64_C(1000) * KUBE_TIMEOUT_MAX_S}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kube_watch_plan plan;
        read_query(rows[i].query);
        assert_int_equal(kube_plan_watch(&options, &plan, &status), BELFRY_OK);
        assert_int_equal(plan.timeout_ms, rows[i].timeout_ms);
        kube_options_fini(&options);
    }
}

/* ---- refusals ---- */

#define F                 "resourceVersionMatch: Forbidden: "
#define NEEDS_VERSION     F "resourceVersionMatch is forbidden unless resourceVersion is provided"
#define WITH_CONTINUE     F "resourceVersionMatch is forbidden when continue is provided"
#define EXACT_AT_ZERO     F "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""
#define NEEDS_INITIAL     F "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
#define INITIAL_NEEDS     F "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
#define INITIAL_IN_LIST   "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"
#define UNSUPPORTED(text) "resourceVersionMatch: Unsupported value: \"" text "\": supported values: "
#define FOR_LIST          "\"Exact\", \"NotOlderThan\", \"\""
#define FOR_WATCH         "\"NotOlderThan\""
#define BAD_VERSION(text) "resourceVersion: Invalid value: \"" text "\": must be a decimal number of 64 bits"

struct refusal_row {
    const char *query, *message;
    const char *causes[3]; /* "reason field" */
};

#define FORBIDDEN_MATCH   "FieldValueForbidden resourceVersionMatch"
#define FORBIDDEN_INITIAL "FieldValueForbidden sendInitialEvents"
#define UNSUPPORTED_MATCH "FieldValueNotSupported resourceVersionMatch"

static void assert_invalid(const struct refusal_row *row)
{
    char message[KUBE_MESSAGE_MAX];
    snprintf(message, sizeof(message), "ListOptions.meta.k8s.io \"\" is invalid: %s", row->message);
    assert_int_equal(status.reason, KUBE_INVALID);
    assert_string_equal(status.message, message);
    assert_true(belfry_bytes_equal(status.kind, belfry_bytes_str("ListOptions")));
    assert_true(belfry_bytes_equal(status.group, belfry_bytes_str("meta.k8s.io")));
    size_t n = 0;
    for (; n < 3 && row->causes[n] != NULL; n++) {
        char cause[96];
        assert_true(n < status.n_causes);
        snprintf(cause, sizeof(cause), "%s %s", status.causes[n].reason, status.causes[n].field);
        assert_string_equal(cause, row->causes[n]);
    }
    assert_int_equal(status.n_causes, n);
}

static void a_list_with_options_that_do_not_fit_is_invalid(void **state)
{
    (void)state;
    static const struct refusal_row rows[] = {
        {"resourceVersionMatch=Exact", NEEDS_VERSION, {FORBIDDEN_MATCH}},
        {"resourceVersionMatch=Exact&limit=5", NEEDS_VERSION, {FORBIDDEN_MATCH}},
        {"resourceVersionMatch=Exact&resourceVersion=0", EXACT_AT_ZERO, {FORBIDDEN_MATCH}},
        {"resourceVersionMatch=Exact&resourceVersion=0&limit=5", EXACT_AT_ZERO, {FORBIDDEN_MATCH}},
        {"resourceVersionMatch=NotOlderThan", NEEDS_VERSION, {FORBIDDEN_MATCH}},
        {"resourceVersionMatch=NotOlderThan&limit=5", NEEDS_VERSION, {FORBIDDEN_MATCH}},
        {"resourceVersionMatch=Exact&resourceVersion=7&continue=t", WITH_CONTINUE, {FORBIDDEN_MATCH}},
        {"resourceVersionMatch=exact&resourceVersion=7", UNSUPPORTED("exact") FOR_LIST, {UNSUPPORTED_MATCH}},
        {"resourceVersionMatch=%22%0a&resourceVersion=7", UNSUPPORTED("??") FOR_LIST, {UNSUPPORTED_MATCH}},
        {"sendInitialEvents=true", INITIAL_IN_LIST, {FORBIDDEN_INITIAL}},
        {"sendInitialEvents=false&resourceVersion=abc", INITIAL_IN_LIST, {FORBIDDEN_INITIAL}},
        {"sendInitialEvents=1&resourceVersionMatch=Exact&continue=t",
         "[" NEEDS_VERSION ", " WITH_CONTINUE ", " INITIAL_IN_LIST "]",
         {FORBIDDEN_MATCH, FORBIDDEN_MATCH, FORBIDDEN_INITIAL}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kube_list_plan plan;
        read_query(rows[i].query);
        assert_int_equal(kube_plan_list(&options, &plan, &status), BELFRY_ERR_INVALID);
        assert_invalid(&rows[i]);
        kube_options_fini(&options);
    }
}

static void a_watch_with_options_that_do_not_fit_is_invalid(void **state)
{
    (void)state;
    static const struct refusal_row rows[] = {
        {"sendInitialEvents=true", INITIAL_NEEDS, {FORBIDDEN_MATCH}},
        {"sendInitialEvents=false&resourceVersion=7", INITIAL_NEEDS, {FORBIDDEN_MATCH}},
        {"sendInitialEvents=true&resourceVersion=0&resourceVersionMatch=Exact",
         "[" INITIAL_NEEDS ", " UNSUPPORTED("Exact") FOR_WATCH "]",
         {FORBIDDEN_MATCH, UNSUPPORTED_MATCH}},
        {"resourceVersionMatch=NotOlderThan", NEEDS_INITIAL, {FORBIDDEN_MATCH}},
        {"resourceVersionMatch=NotOlderThan&resourceVersion=0", NEEDS_INITIAL, {FORBIDDEN_MATCH}},
        {"resourceVersionMatch=NotOlderThan&resourceVersion=7", NEEDS_INITIAL, {FORBIDDEN_MATCH}},
        {"resourceVersionMatch=Exact&resourceVersion=7",
         "[" NEEDS_INITIAL ", " UNSUPPORTED("Exact") FOR_WATCH "]",
         {FORBIDDEN_MATCH, UNSUPPORTED_MATCH}},
        {"resourceVersionMatch=NotOlderThan&sendInitialEvents=true&continue=t", WITH_CONTINUE, {FORBIDDEN_MATCH}},
        {"resourceVersion=abc", BAD_VERSION("abc"), {"FieldValueInvalid resourceVersion"}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kube_watch_plan plan;
        read_query(rows[i].query);
        assert_int_equal(kube_plan_watch(&options, &plan, &status), BELFRY_ERR_INVALID);
        assert_invalid(&rows[i]);
        kube_options_fini(&options);
    }
}

static void a_version_that_is_no_number_is_a_bad_request_of_a_list(void **state)
{
    (void)state;
    static const char *const values[] = {"abc", "-1",  "+1", "1.0", "0x10", "1_0", "18446744073709551616",
                                         "%00", "7%20"};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        char query[64];
        struct kube_list_plan plan;
        struct kube_watch_plan watch;
        snprintf(query, sizeof(query), "resourceVersion=%s", values[i]);
        read_query(query);
        assert_int_equal(kube_plan_list(&options, &plan, &status), BELFRY_ERR_INVALID);
        assert_int_equal(status.reason, KUBE_BAD_REQUEST);
        assert_int_equal(kube_plan_get(&options, &plan, &status), BELFRY_ERR_INVALID);
        assert_int_equal(status.reason, KUBE_BAD_REQUEST);
        assert_non_null(strstr(status.message, "invalid resource version: resourceVersion: Invalid value: \""));
        assert_int_equal(kube_plan_watch(&options, &watch, &status), BELFRY_ERR_INVALID);
        assert_int_equal(status.reason, KUBE_INVALID);
        kube_options_fini(&options);
    }
}

static void a_page_has_no_version_of_its_own(void **state)
{
    (void)state;
    struct kube_list_plan plan;
    read_query("limit=5&continue=t&resourceVersion=7");
    assert_int_equal(kube_plan_list(&options, &plan, &status), BELFRY_ERR_INVALID);
    assert_int_equal(status.reason, KUBE_BAD_REQUEST);
    assert_string_equal(status.message, "specifying resource version is not allowed when using continue");
    kube_options_fini(&options);
}

/* The largest number of errors together, with the longest value: every cause is there, and the message is complete. */
static void all_faults_together_have_room(void **state)
{
    (void)state;
    char query[1024];
    struct kube_list_plan plan;
    struct belfry_buf buf;
    snprintf(query, sizeof(query), "sendInitialEvents=1&continue=t&resourceVersionMatch=%0300d", 1);
    read_query(query);
    assert_int_equal(kube_plan_list(&options, &plan, &status), BELFRY_ERR_INVALID);
    assert_int_equal(status.n_causes, KUBE_CAUSES_MAX);
    assert_int_equal(status.message[strlen(status.message) - 1], ']');
    belfry_buf_init(&buf);
    assert_int_equal(kube_status_write(&status, &buf), BELFRY_OK);
    belfry_buf_fini(&buf);
    kube_options_fini(&options);
}

static enum belfry_err plan_and_tell(void)
{
    struct kube_watch_plan plan;
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    enum belfry_err err = kube_options_read(belfry_bytes_str("sendInitialEvents=true"), &options, &status);
    if (err == BELFRY_OK && kube_plan_watch(&options, &plan, &status) == BELFRY_ERR_INVALID)
        err = kube_status_write(&status, &buf);
    belfry_buf_fini(&buf);
    kube_options_fini(&options);
    return err;
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    assert_true(refuse_sweep(plan_and_tell) > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_reads_what_the_table_says),
        cmocka_unit_test(one_object_is_read_by_its_version_alone),
        cmocka_unit_test(a_watch_begins_where_the_table_says),
        cmocka_unit_test(a_watch_lasts_as_long_as_it_says_up_to_a_bound),
        cmocka_unit_test(a_list_with_options_that_do_not_fit_is_invalid),
        cmocka_unit_test(a_watch_with_options_that_do_not_fit_is_invalid),
        cmocka_unit_test(a_version_that_is_no_number_is_a_bad_request_of_a_list),
        cmocka_unit_test(a_page_has_no_version_of_its_own),
        cmocka_unit_test(all_faults_together_have_room),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
