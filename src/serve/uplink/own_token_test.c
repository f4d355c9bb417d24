/* src/serve/uplink/own_token_test.c: kapi/bearer_test.c tests files and tokens; here is what the tier's own adds. */
#include "serve/uplink/own_token.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/refuse.h"

#define START_MS 1000000

static void write_file(const char *path, const char *text)
{
    FILE *out = fopen(path, "we");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static void expect_field(struct own_token *token, uint64_t now_ms, const char *field)
{
    assert_true(belfry_bytes_equal(own_token_field(token, now_ms), belfry_bytes_str(field)));
}

static void a_replaced_file_is_read_again_after_a_refusal(void **state)
{
    (void)state;
    char path[] = "/tmp/belfry-own-token-XXXXXX";
    int fd = mkstemp(path);
    struct own_token *token;
    const char *why = "";
    assert_true(fd >= 0);
    close(fd);
    write_file(path, "first\n");
    assert_int_equal(own_token_create(&(struct own_token_opts){.file = path}, START_MS, &token, &why), BELFRY_OK);
    expect_field(token, START_MS, "Bearer first");
    write_file(path, "second\n");
    expect_field(token, START_MS + 1, "Bearer first");
    own_token_refused(token);
    expect_field(token, START_MS + 2, "Bearer second");
    unlink(path);
    expect_field(token, START_MS + 5000, "Bearer second");
    own_token_destroy(token);
}

static void without_a_token_there_is_no_field_and_a_bad_one_is_refused(void **state)
{
    (void)state;
    struct own_token *token;
    const char *why = NULL;
    assert_int_equal(own_token_create(&(struct own_token_opts){0}, START_MS, &token, &why), BELFRY_OK);
    assert_null(own_token_field(token, START_MS).data);
    own_token_destroy(token);
    assert_int_equal(own_token_create(&(struct own_token_opts){.token = "two words"}, START_MS, &token, &why),
                     BELFRY_ERR_INVALID);
    assert_non_null(why);
    own_token_destroy(NULL);
}

static enum belfry_err scenario(void)
{
    struct own_token *token;
    const char *why;
    enum belfry_err err = own_token_create(&(struct own_token_opts){.token = "t"}, START_MS, &token, &why);
    if (err == BELFRY_OK)
        own_token_destroy(token);
    return err;
}

static void without_memory_nothing_leaks(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replaced_file_is_read_again_after_a_refusal),
        cmocka_unit_test(without_a_token_there_is_no_field_and_a_bad_one_is_refused),
        cmocka_unit_test(without_memory_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
