/* bench/belfry-bench/credentials_test.c */
#include "credentials.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static void read_text(struct credentials *credentials, const char *text)
{
    char path[] = "/tmp/belfry-credentials-XXXXXX";
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    credentials_read(credentials, path);
    unlink(path);
}

static void connections_have_lines_in_turn(void **state)
{
    (void)state;
    struct credentials credentials;
    read_text(&credentials, "one.1\n\ntwo.2\nnot whole");
    assert_int_equal(credentials.n, 2);
    assert_true(belfry_bytes_equal(credentials_of(&credentials, 0), belfry_bytes_str("one.1")));
    assert_true(belfry_bytes_equal(credentials_of(&credentials, 1), belfry_bytes_str("two.2")));
    assert_true(belfry_bytes_equal(credentials_of(&credentials, 2), belfry_bytes_str("one.1")));
    credentials_fini(&credentials);
    assert_int_equal(credentials_of(&credentials, 5).len, 0);
}

static void a_login_is_a_name_and_a_password_and_gives_a_token(void **state)
{
    (void)state;
    struct belfry_buf out;
    belfry_buf_init(&out);
    credentials_write_login(belfry_bytes_str("me:a:b"), &out);
    assert_true(belfry_bytes_equal(belfry_buf_bytes(&out), belfry_bytes_str("\x0a\x02me\x12\x03"
                                                                            "a:b")));
    belfry_buf_fini(&out);
    struct belfry_bytes answer = belfry_bytes_of("\x0a\x02\x18\x05\x12\x04tk.7", 10);
    assert_true(belfry_bytes_equal(credentials_read_login(answer), belfry_bytes_str("tk.7")));
    assert_int_equal(credentials_read_login(belfry_bytes_of("\x0a\x02\x18\x05", 4)).len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_have_lines_in_turn),
        cmocka_unit_test(a_login_is_a_name_and_a_password_and_gives_a_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
