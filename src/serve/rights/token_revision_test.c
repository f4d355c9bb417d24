/* src/serve/rights/token_revision_test.c */
#include "serve/rights/token_revision.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/base64.h"
#include "support/refuse.h"

static enum belfry_err read_claims(const char *claims, uint64_t *out)
{
    char token[TOKEN_REVISION_MAX];
    strcpy(token, "eyJhbGciOiJSUzI1NiJ9.");
    size_t len = strlen(token);
    len += belfry_base64_write(BELFRY_BASE64_URL, belfry_bytes_str(claims), token + len);
    len += (size_t)snprintf(token + len, sizeof(token) - len, ".c2lnbmF0dXJl");
    return token_revision_read(belfry_bytes_of(token, len), out);
}

static void revision_of_etcds_token_is_read(void **state)
{
    (void)state;
    uint64_t revision = 0;
    assert_int_equal(read_claims("{\"exp\":1767225600,\"revision\":17,\"username\":\"root\"}", &revision), BELFRY_OK);
    assert_int_equal(revision, 17);
    assert_int_equal(read_claims("{\"revision\":9007199254740992}", &revision), BELFRY_OK);
    assert_true(revision == UINT64_C(1) << 53);
}

static void whatever_is_no_jwt_with_a_revision_is_refused(void **state)
{
    (void)state;
    static const char *const claims[] = {"{}",
                                         "{\"revision\":0}",
                                         "{\"revision\":-1}",
                                         "{\"revision\":1.5}",
                                         "{\"revision\":1e3}",
                                         "{\"revision\":\"17\"}",
                                         "{\"revision\":null}",
                                         "{\"revision\":9007199254740993}",
                                         "{\"revision\":99999999999999999999999}",
                                         "[17]",
                                         "17",
                                         "",
                                         "{\"revision\":17"};
    static const char *const tokens[] = {"",         "abcdefghijklmnop.17", "a.b",         "..", "a..c", "a.b.c", ".",
                                         "a.!!!!.c", "a.e30.c.d",           "x.eyJyZX==.y"};
    uint64_t revision = 5;
    for (size_t i = 0; i < sizeof(claims) / sizeof(claims[0]); i++)
        assert_int_equal(read_claims(claims[i], &revision), BELFRY_ERR_INVALID);
    for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++)
        assert_int_equal(token_revision_read(belfry_bytes_str(tokens[i]), &revision), BELFRY_ERR_INVALID);
    assert_int_equal(token_revision_read((struct belfry_bytes){0}, &revision), BELFRY_ERR_INVALID);
    assert_int_equal(revision, 5);
}

static void long_token_is_refused(void **state)
{
    (void)state;
    static char token[TOKEN_REVISION_MAX + 1];
    uint64_t revision;
    memset(token, 'A', sizeof(token));
    token[1] = token[sizeof(token) - 2] = '.';
    assert_int_equal(token_revision_read(belfry_bytes_of(token, sizeof(token)), &revision), BELFRY_ERR_INVALID);
}

static enum belfry_err scenario(void)
{
    uint64_t revision;
    return read_claims("{\"revision\":17}", &revision);
}

static void every_refused_allocation_is_reported(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(revision_of_etcds_token_is_read),
        cmocka_unit_test(whatever_is_no_jwt_with_a_revision_is_refused),
        cmocka_unit_test(long_token_is_refused),
        cmocka_unit_test(every_refused_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
