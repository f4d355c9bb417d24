/* src/base/secret_file_test.c */
#include "base/secret_file.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/refuse.h"

static char path[] = "/tmp/belfry-secret-XXXXXX", why[256];

static int make_file(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd >= 0 && write(fd, "0123456789", 10) == 10 ? close(fd) : -1;
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static enum belfry_err read_at_most(size_t max_bytes, struct belfry_buf *out)
{
    belfry_buf_init(out);
    why[0] = '\0';
    return belfry_secret_file_read(path, max_bytes, out, why, sizeof(why));
}

static void expect_refused(size_t max_bytes, const char *part)
{
    struct belfry_buf out;
    assert_int_equal(read_at_most(max_bytes, &out), BELFRY_ERR_INVALID);
    assert_int_equal(strncmp(why, path, strlen(path)), 0);
    assert_non_null(strstr(why, part));
    belfry_secret_buf_fini(&out);
    assert_int_equal(refuse_held(), 0);
}

static void a_file_is_read_whole_or_not_at_all(void **state)
{
    (void)state;
    struct belfry_buf out;
    assert_int_equal(read_at_most(10, &out), BELFRY_OK);
    assert_true(belfry_bytes_equal(belfry_buf_bytes(&out), belfry_bytes_str("0123456789")));
    belfry_secret_buf_fini(&out);
    expect_refused(9, "is too long for a key");
}

static void a_file_that_others_may_read_or_write_is_refused(void **state)
{
    (void)state;
    assert_int_equal(chmod(path, 0604), 0);
    expect_refused(10, "can be read by every user of this machine: run chmod o-rwx on it");
    assert_int_equal(chmod(path, 0602), 0);
    expect_refused(10, "can be written by every user");
    assert_int_equal(chmod(path, 0640), 0); /* a group is the administrator's choice */
    struct belfry_buf out;
    assert_int_equal(read_at_most(10, &out), BELFRY_OK);
    belfry_secret_buf_fini(&out);
}

static void a_folder_and_a_missing_file_are_refused(void **state)
{
    (void)state;
    struct belfry_buf out;
    belfry_buf_init(&out);
    assert_int_equal(belfry_secret_file_read("/tmp", 10, &out, why, sizeof(why)), BELFRY_ERR_INVALID);
    assert_string_equal(why, "/tmp is no file that can be read");
    assert_int_equal(belfry_secret_file_read("/nowhere/key", 10, &out, why, sizeof(why)), BELFRY_ERR_INVALID);
    assert_string_equal(why, "/nowhere/key cannot be read: No such file or directory");
    char tiny[4];
    assert_int_equal(belfry_secret_file_read("/nowhere/key", 10, &out, tiny, sizeof(tiny)), BELFRY_ERR_INVALID);
    assert_string_equal(tiny, "/no");
}

static enum belfry_err read_and_end(void)
{
    struct belfry_buf out;
    enum belfry_err err = read_at_most(10, &out);
    belfry_secret_buf_fini(&out);
    return err;
}

static void missing_memory_is_told(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(read_and_end), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_read_whole_or_not_at_all),
        cmocka_unit_test(a_file_that_others_may_read_or_write_is_refused),
        cmocka_unit_test(a_folder_and_a_missing_file_are_refused),
        cmocka_unit_test(missing_memory_is_told),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
