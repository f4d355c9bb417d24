/* src/net/fetch_seen_test.h
 *
 * What a call of net/fetch.h was told, for its suites; and what to do from inside the callbacks. Everything is static:
 * each suite has its own copy, and nothing is allocated.
 */
#ifndef BELFRY_NET_FETCH_SEEN_TEST_H
#define BELFRY_NET_FETCH_SEEN_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "net/fetch.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"

struct seen {
    struct belfry_fetch *call; /* set by whoever opens it; NULL once it is gone */
    size_t n_heads, n_bodies, n_bytes, n_ends, n_failures;
    int status;
    char fields[2048]; /* "name=value;" of each, as far as they fit */
    char body[4096];   /* as far as it fits */
    size_t n_fields;
    enum belfry_err err;
    char why[512];
    bool unprocessed;
    /* may be NULL */
    void (*on_head)(struct seen *seen);
    void (*on_body)(struct seen *seen);
    void (*on_last)(struct seen *seen);
};

static bool is_over(const struct seen *seen)
{
    return seen->n_ends + seen->n_failures > 0;
}

static void saw_head(struct belfry_fetch *call, const struct belfry_fetch_head *head, void *user)
{
    struct seen *seen = user;
    assert_ptr_equal(call, seen->call);
    assert_int_equal(seen->n_heads++, 0);
    assert_false(is_over(seen));
    seen->status = head->status;
    seen->n_fields = head->n_fields;
    size_t at = 0;
    for (size_t i = 0; i < head->n_fields && at < sizeof(seen->fields); i++)
        at +=
            (size_t)snprintf(seen->fields + at, sizeof(seen->fields) - at, "%.*s=%.*s;", (int)head->fields[i].name.len,
                             head->fields[i].name.data, (int)head->fields[i].value.len, head->fields[i].value.data);
    if (seen->on_head != NULL)
        seen->on_head(seen);
}

static void saw_body(struct belfry_fetch *call, struct belfry_bytes bytes, void *user)
{
    struct seen *seen = user;
    assert_ptr_equal(call, seen->call);
    assert_int_equal(seen->n_heads, 1);
    assert_false(is_over(seen));
    assert_true(bytes.len > 0);
    size_t room = seen->n_bytes < sizeof(seen->body) - 1 ? sizeof(seen->body) - 1 - seen->n_bytes : 0;
    size_t n = bytes.len < room ? bytes.len : room;
    memcpy(seen->body + (room > 0 ? seen->n_bytes : 0), bytes.data, n);
    seen->n_bytes += bytes.len;
    seen->n_bodies++;
    if (seen->on_body != NULL)
        seen->on_body(seen);
}

static void saw_last(struct belfry_fetch *call, struct seen *seen)
{
    assert_ptr_equal(call, seen->call);
    assert_false(is_over(seen));
    seen->call = NULL;
}

static void saw_end(struct belfry_fetch *call, void *user)
{
    struct seen *seen = user;
    saw_last(call, seen);
    assert_int_equal(seen->n_heads, 1);
    seen->n_ends++;
    if (seen->on_last != NULL)
        seen->on_last(seen);
}

static void saw_failed(struct belfry_fetch *call, enum belfry_err err, const char *why, bool unprocessed, void *user)
{
    struct seen *seen = user;
    saw_last(call, seen);
    assert_int_not_equal(err, BELFRY_OK);
    seen->n_failures++;
    seen->err = err;
    snprintf(seen->why, sizeof(seen->why), "%s", why);
    seen->unprocessed = unprocessed;
    if (seen->on_last != NULL)
        seen->on_last(seen);
}

static const struct belfry_fetch_events seen_events = {saw_head, saw_body, saw_end, saw_failed};

static const struct belfry_http_opts seen_opts = {.scheme = "https",
                                                  .authority = "kube.test:6443",
                                                  .common = {.user_agent = "belfry-test/1"},
                                                  .window = BELFRY_FETCH_WINDOW,
                                                  .ping_ms = 30000,
                                                  .ping_timeout_ms = 15000};

static enum belfry_err ask(struct belfry_http *http, const char *method, const char *target, struct seen *seen)
{
    struct belfry_http_field accept = {belfry_bytes_str("Accept"), belfry_bytes_str("application/json")};
    struct belfry_fetch_request request = {method, target, &accept, 1};
    return belfry_fetch_open(http, &request, &seen_events, seen, &seen->call);
}

static void get(struct belfry_http *http, const char *target, struct seen *seen)
{
    assert_int_equal(ask(http, "GET", target, seen), BELFRY_OK);
}

static void assert_ended(const struct seen *seen, int status, const char *body)
{
    if (seen->n_failures > 0)
        fail_msg("it failed: %s", seen->why);
    assert_int_equal(seen->n_ends, 1);
    assert_int_equal(seen->status, status);
    assert_string_equal(seen->body, body);
}

static void assert_failed(const struct seen *seen, enum belfry_err err, const char *why)
{
    assert_int_equal(seen->n_ends, 0);
    assert_int_equal(seen->n_failures, 1);
    assert_int_equal(seen->err, err);
    if (strstr(seen->why, why) == NULL)
        fail_msg("it says \"%s\"", seen->why);
}

#pragma GCC diagnostic pop

#endif
