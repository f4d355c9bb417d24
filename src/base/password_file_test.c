/* src/base/password_file_test.c */
#include "base/password_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char path[32], word[BELFRY_PASSWORD_MAX], why[256];

static int make_file(void **state)
{
    (void)state;
    strcpy(path, "/tmp/belfry-password-XXXXXX");
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static enum belfry_err read_of(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    why[0] = '\0';
    return belfry_password_file_read(path, word, why, sizeof(why));
}

static void first_line_is_the_password_whatever_ends_it(void **state)
{
    (void)state;
    static const char *const texts[] = {"s3cret", "s3cret\n", "s3cret\r\n", "s3cret\nanother\n"};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(read_of(texts[i]), BELFRY_OK);
        assert_string_equal(word, "s3cret");
    }
}

static void empty_or_endless_files_hold_no_password(void **state)
{
    (void)state;
    char endless[2 * BELFRY_PASSWORD_MAX];
    memset(endless, 'x', sizeof(endless) - 1);
    endless[sizeof(endless) - 1] = '\0';
    assert_int_equal(read_of(""), BELFRY_ERR_AUTH);
    assert_non_null(strstr(why, " is empty"));
    assert_int_equal(read_of(endless), BELFRY_ERR_AUTH);
    assert_non_null(strstr(why, "too long"));
    assert_int_equal(word[0], '\0'); /* no part of it is left */
    assert_int_equal(read_of(endless + sizeof(endless) - (BELFRY_PASSWORD_MAX - 1)), BELFRY_OK); /* the longest */
}

static void file_that_cannot_be_read_is_named(void **state)
{
    (void)state;
    assert_int_equal(belfry_password_file_read("/nowhere/at/all", word, why, sizeof(why)), BELFRY_ERR_AUTH);
    assert_string_equal(why, "/nowhere/at/all cannot be read: No such file or directory");
    assert_int_equal(belfry_password_file_read("/tmp", word, why, sizeof(why)), BELFRY_ERR_AUTH);
    assert_string_equal(why, "/tmp cannot be read: Is a directory");
    assert_int_equal(belfry_password_file_read("/nowhere/at/all", word, NULL, 0), BELFRY_ERR_AUTH);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_file, remove_file)
    const struct CMUnitTest tests[] = {
        TEST(first_line_is_the_password_whatever_ends_it),
        TEST(empty_or_endless_files_hold_no_password),
        TEST(file_that_cannot_be_read_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
