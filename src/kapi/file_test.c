/* src/kapi/file_test.c */
#include "kapi/file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/belfry-file-XXXXXX", path[64];
static int pipe_fd; /* both ends of the pipe at `path` */

static int make_pipe(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/pipe", folder);
    if (mkfifo(path, 0600) != 0)
        return -1;
    pipe_fd = open(path, O_RDWR | O_CLOEXEC);
    return pipe_fd < 0 ? -1 : 0;
}

static int remove_pipe(void **state)
{
    (void)state;
    return close(pipe_fd) + unlink(path) + rmdir(folder);
}

static void a_file_that_is_larger_has_filled_what_there_is(void **state)
{
    (void)state;
    char out[4];
    size_t len = 99;
    assert_int_equal(belfry_file_read("/dev/zero", out, sizeof(out), &len), EFBIG);
    assert_int_equal(len, sizeof(out));
}

static void nothing_is_read_of_what_cannot_be_opened_or_read(void **state)
{
    (void)state;
    char out[4];
    size_t len = 99;
    assert_int_equal(belfry_file_read("/nowhere/at/all", out, sizeof(out), &len), ENOENT);
    assert_int_equal(len, 0);
    len = 99;
    assert_int_equal(belfry_file_read("/tmp", out, sizeof(out), &len), EISDIR);
    assert_int_equal(len, 0);
}

static void what_was_read_before_a_failure_is_told(void **state)
{
    (void)state;
    char out[4];
    size_t len = 99;
    assert_int_equal(write(pipe_fd, "abc", 3), 3);
    assert_int_equal(belfry_file_read(path, out, sizeof(out), &len), EAGAIN); /* its writer may go on */
    assert_int_equal(len, 3);
    assert_memory_equal(out, "abc", 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_is_larger_has_filled_what_there_is),
        cmocka_unit_test(nothing_is_read_of_what_cannot_be_opened_or_read),
        cmocka_unit_test(what_was_read_before_a_failure_is_told),
    };
    return cmocka_run_group_tests(tests, make_pipe, remove_pipe);
}
