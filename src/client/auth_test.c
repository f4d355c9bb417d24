/* src/client/auth_test.c */
#include "client/auth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <unistd.h>

#include "base/buf.h"
#include "support/refuse.h"
#include "wire/rpc.pb-c.h"

/* The log-in request names this user and password. */
static void asks_with(struct belfry_auth *auth, const char *user, const char *password)
{
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    assert_int_equal(belfry_auth_begin(auth, &buf), BELFRY_OK);
    assert_int_equal(auth->state, BELFRY_AUTH_ASKING);
    Etcdserverpb__AuthenticateRequest *request =
        etcdserverpb__authenticate_request__unpack(NULL, belfry_buf_len(&buf), buf.data + buf.start);
    assert_non_null(request);
    assert_string_equal(request->name, user);
    assert_string_equal(request->password, password);
    etcdserverpb__authenticate_request__free_unpacked(request, NULL);
    belfry_buf_fini(&buf);
}

static enum belfry_err answer(struct belfry_auth *auth, const char *token, uint64_t now_ms)
{
    Etcdserverpb__AuthenticateResponse response;
    etcdserverpb__authenticate_response__init(&response);
    uint8_t packed[200];
    char copy[100];
    snprintf(copy, sizeof(copy), "%s", token);
    response.token = copy;
    return belfry_auth_done(auth, belfry_bytes_of(packed, etcdserverpb__authenticate_response__pack(&response, packed)),
                            now_ms);
}

static void without_a_user_nothing_is_needed(void **state)
{
    struct belfry_auth auth;
    (void)state;
    assert_int_equal(belfry_auth_init(&auth, NULL, "x", NULL), BELFRY_OK);
    assert_true(belfry_auth_ready(&auth) && belfry_auth_is_new(&auth, 0));
    assert_null(belfry_auth_token(&auth));
    belfry_auth_drop(&auth);
    assert_true(belfry_auth_ready(&auth));
    belfry_auth_fini(&auth);
}

static void user_and_password_come_in_three_ways(void **state)
{
    static const struct {
        const char *user, *password, *name, *secret;
    } rows[] = {{"root", "pw", "root", "pw"}, {"root:pw", NULL, "root", "pw"}, {"root:p:w", NULL, "root", "p:w"},
                {"root:", NULL, "root", ""},  {"ro:ot", "pw", "ro:ot", "pw"},  {"root", "", "root", ""}};
    struct belfry_auth auth;
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(belfry_auth_init(&auth, rows[i].user, rows[i].password, NULL), BELFRY_OK);
        assert_false(belfry_auth_ready(&auth));
        asks_with(&auth, rows[i].name, rows[i].secret);
        belfry_auth_fini(&auth);
    }
    assert_int_equal(belfry_auth_init(&auth, "root", NULL, NULL), BELFRY_ERR_INVALID);
}

static void the_first_line_of_the_file_is_the_password_each_time(void **state)
{
    char path[] = "/tmp/belfry-auth-XXXXXX", longest[2000];
    static const struct {
        const char *text, *password; /* NULL: refused */
    } rows[] = {{"secret\n", "secret"}, {"secret", "secret"}, {"secret\r\nmore\n", "secret"}, {"\n", ""}, {"", NULL}};
    struct belfry_auth auth;
    struct belfry_buf buf;
    int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(belfry_auth_init(&auth, "root", NULL, path), BELFRY_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, rows[i].text, strlen(rows[i].text), 0), strlen(rows[i].text));
        if (rows[i].password != NULL) {
            asks_with(&auth, "root", rows[i].password);
            belfry_auth_failed(&auth);
        } else {
            belfry_buf_init(&buf);
            assert_int_equal(belfry_auth_begin(&auth, &buf), BELFRY_ERR_AUTH);
            assert_int_equal(auth.state, BELFRY_AUTH_STALE);
        }
    }
    memset(longest, 'x', sizeof(longest)); /* cut, it would be another password */
    assert_int_equal(pwrite(fd, longest, sizeof(longest), 0), sizeof(longest));
    belfry_buf_init(&buf);
    assert_int_equal(belfry_auth_begin(&auth, &buf), BELFRY_ERR_AUTH);
    unlink(path);
    close(fd);
    assert_int_equal(belfry_auth_begin(&auth, &buf), BELFRY_ERR_AUTH);
    belfry_auth_fini(&auth);
}

static void a_token_is_new_for_a_second(void **state)
{
    struct belfry_auth auth;
    (void)state;
    assert_int_equal(belfry_auth_init(&auth, "root", "pw", NULL), BELFRY_OK);
    asks_with(&auth, "root", "pw");
    belfry_auth_drop(&auth); /* under way: nothing to drop */
    assert_int_equal(auth.state, BELFRY_AUTH_ASKING);
    assert_int_equal(answer(&auth, "t1", 5000), BELFRY_OK);
    assert_true(belfry_auth_ready(&auth));
    assert_string_equal(belfry_auth_token(&auth), "t1");
    assert_true(belfry_auth_is_new(&auth, 5000) && belfry_auth_is_new(&auth, 5999));
    assert_false(belfry_auth_is_new(&auth, 6000));
    belfry_auth_drop(&auth);
    assert_false(belfry_auth_ready(&auth));
    assert_null(belfry_auth_token(&auth));
    asks_with(&auth, "root", "pw");
    assert_int_equal(answer(&auth, "t2", 7000), BELFRY_OK);
    assert_string_equal(belfry_auth_token(&auth), "t2");
    assert_int_equal(auth.log_ins, 2);
    belfry_auth_fini(&auth);
}

static void a_log_in_may_end_badly(void **state)
{
    struct belfry_auth auth;
    (void)state;
    assert_int_equal(belfry_auth_init(&auth, "root", "pw", NULL), BELFRY_OK);
    asks_with(&auth, "root", "pw");
    belfry_auth_failed(&auth);
    assert_int_equal(auth.state, BELFRY_AUTH_STALE);
    asks_with(&auth, "root", "pw");
    assert_int_equal(belfry_auth_done(&auth, belfry_bytes_of("\x12\x09x", 3), 0), BELFRY_ERR_PROTOCOL);
    assert_int_equal(auth.state, BELFRY_AUTH_STALE);
    asks_with(&auth, "root", "pw");
    assert_int_equal(belfry_auth_not_enabled(&auth, 0), BELFRY_OK);
    assert_true(belfry_auth_ready(&auth));
    assert_null(belfry_auth_token(&auth));
    belfry_auth_fini(&auth);
}

static enum belfry_err scenario(void)
{
    struct belfry_auth auth;
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    enum belfry_err err = belfry_auth_init(&auth, "root", "pw", "/nonexistent/file");
    if (err != BELFRY_OK)
        return err;
    belfry_auth_fini(&auth);
    err = belfry_auth_init(&auth, "root:pw", NULL, NULL);
    if (err != BELFRY_OK)
        return err;
    err = belfry_auth_begin(&auth, &buf);
    if (err == BELFRY_OK)
        err = answer(&auth, "token", 1);
    belfry_buf_fini(&buf);
    belfry_auth_fini(&auth);
    return err;
}

static void refused_memory_leaks_nothing(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(scenario), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_user_nothing_is_needed),
        cmocka_unit_test(user_and_password_come_in_three_ways),
        cmocka_unit_test(the_first_line_of_the_file_is_the_password_each_time),
        cmocka_unit_test(a_token_is_new_for_a_second),
        cmocka_unit_test(a_log_in_may_end_badly),
        cmocka_unit_test(refused_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
