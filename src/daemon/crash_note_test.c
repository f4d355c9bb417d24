/* src/daemon/crash_note_test.c */
#include "daemon/crash_note.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/replicabed.h"

/* What `deaths` says: how many lives in a row have died with the replica. */
static char deaths_digit(void)
{
    char path[256], digit = '?';
    snprintf(path, sizeof(path), "%s/deaths", dir);
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, &digit, 1), 1);
    close(fd);
    return digit;
}

/* A life that serves, and then does `last`, in a process of its own. Writes a byte to `ready` before that. */
static pid_t live(void (*last)(void), int ready)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child != 0)
        return child;
    setrlimit(RLIMIT_CORE, &(struct rlimit){0});
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL); /* cmocka's, or a sanitizer's */
    struct replica_opts opts = usual();
    struct store *store = NULL;
    char *why;
    enum belfry_err err = replica_open(&opts, &store, &why);
    free(why);
    crash_note_watch(store);
    if (err == BELFRY_OK)
        replica_serves(store);
    if (err != BELFRY_OK || write(ready, "r", 1) != 1)
        _exit(1);
    last();
    _exit(0);
}

/* Waits for a signal; gives up after a while. */
static void hang(void)
{
    for (int i = 0; i < 100; i++)
        usleep(20000);
}

static void touch_nothing(void)
{
    volatile char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page[0] = 1;
}

/* Which signal ended it; `sent` is sent once it serves, 0: none. */
static int end_of(void (*last)(void), int sent)
{
    int ready[2], status;
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t child = live(last, ready[1]);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    if (sent != 0)
        assert_int_equal(kill(child, sent), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void fault_ends_the_process_and_is_noted(void **state)
{
    (void)state;
    assert_int_equal(end_of(touch_nothing, 0), SIGSEGV);
    assert_int_equal(deaths_digit(), '1');
}

static void failed_assertion_ends_the_process_and_is_noted(void **state)
{
    (void)state;
    assert_int_equal(end_of(abort, 0), SIGABRT);
    assert_int_equal(deaths_digit(), '1');
}

/* As a service manager does whose watchdog has heard nothing. */
static void signal_of_another_process_ends_it_at_once_and_is_not_the_replicas_fault(void **state)
{
    (void)state;
    assert_int_equal(end_of(hang, SIGABRT), SIGABRT);
    assert_int_equal(deaths_digit(), '0');
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        TEST(fault_ends_the_process_and_is_noted),
        TEST(failed_assertion_ends_the_process_and_is_noted),
        TEST(signal_of_another_process_ends_it_at_once_and_is_not_the_replicas_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
