/* src/daemon/harden_test.c: each test is a process of its own, because none of it can be taken back. */
#include "daemon/harden.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Exits of a child: which expectation failed. */
enum { HELD = 0, NOT_POSSIBLE = 99 };

#define EXPECT(holds)                                                                                                  \
    do {                                                                                                               \
        if (!(holds))                                                                                                  \
            _exit(1 + __LINE__ % 90);                                                                                  \
    } while (0)

static int status_of(void (*child)(void))
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct harden_report report;
        harden_self(&report);
        if (!harden_is_possible())
            _exit(NOT_POSSIBLE);
        EXPECT(report.no_new_privs && report.not_dumpable && report.filter);
        child();
        _exit(HELD);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void expect_held(void (*child)(void))
{
    int status = status_of(child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NOT_POSSIBLE) {
        print_message("this build has a sanitizer, which needs what is given up\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), HELD);
}

static bool is_eperm(long result)
{
    return result == -1 && errno == EPERM;
}

static void make_refused_calls(void)
{
    char *none[] = {NULL};
    EXPECT(is_eperm(execve("/bin/true", none, none)));
    EXPECT(is_eperm(syscall(SYS_ptrace, 0, 0, 0, 0)));
    EXPECT(is_eperm(syscall(SYS_unshare, 0)));
    EXPECT(is_eperm(syscall(SYS_bpf, 0, NULL, 0)));
    EXPECT(is_eperm(syscall(SYS_io_uring_setup, 1, NULL)));
    EXPECT(is_eperm(syscall(SYS_keyctl, 0, 0, 0, 0, 0)));
    EXPECT(is_eperm(socket(AF_PACKET, SOCK_RAW, 0)));
    EXPECT(is_eperm(socket(AF_VSOCK, SOCK_STREAM, 0)));
}

static void calls_of_an_intruder_are_refused(void **state)
{
    (void)state;
    expect_held(make_refused_calls);
}

static void *nothing(void *user)
{
    return user;
}

static void *make_a_refused_call(void *user)
{
    int *code = user;
    *code = syscall(SYS_unshare, 0) == -1 ? errno : 0;
    return NULL;
}

static void serve_as_usual(void)
{
    static const int usual[] = {AF_UNIX, AF_INET, AF_INET6};
    pthread_t thread;
    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++) {
        int fd = socket(usual[i], SOCK_STREAM, 0);
        EXPECT(fd >= 0 || errno == EAFNOSUPPORT);
        close(fd);
    }
    EXPECT(pthread_create(&thread, NULL, nothing, NULL) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT(open("/dev/null", O_RDONLY) >= 0);
    EXPECT(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
}

static void what_a_server_needs_is_allowed(void **state)
{
    (void)state;
    expect_held(serve_as_usual);
}

static void look_from_a_thread(void)
{
    pthread_t thread;
    int code = 0;
    EXPECT(pthread_create(&thread, NULL, make_a_refused_call, &code) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT(code == EPERM);
}

static void threads_inherit_it(void **state)
{
    (void)state;
    expect_held(look_from_a_thread);
}

static void look_at_itself(void)
{
    EXPECT(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    EXPECT(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0);
}

static void it_is_not_dumpable_and_gains_no_rights(void **state)
{
    (void)state;
    expect_held(look_at_itself);
}

static void harden_twice(void)
{
    struct harden_report report;
    harden_self(&report);
    EXPECT(report.no_new_privs && report.not_dumpable && report.filter);
    make_refused_calls();
    serve_as_usual();
}

static void twice_is_fine(void **state)
{
    (void)state;
    expect_held(harden_twice);
}

static void make_memory_executable(void)
{
    struct harden_report report;
    harden_self(&report);
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(page != MAP_FAILED);
    bool gained = mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0;
    EXPECT(gained != report.no_exec_gain);
}

static void memory_becomes_executable_only_where_the_kernel_cannot_refuse_it(void **state)
{
    (void)state;
    expect_held(make_memory_executable);
}

#if defined(__x86_64__) && !defined(__ILP32__)
static void call_by_x32(void)
{
    syscall(0x40000000 | SYS_getpid);
}

static void a_call_by_another_abi_ends_the_process(void **state)
{
    (void)state;
    int status = status_of(call_by_x32);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_POSSIBLE) {
        print_message("this build has a sanitizer, which needs what is given up\n");
        skip();
    }
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSYS);
}
#endif

static void the_table_has_what_the_filter_refuses(void **state)
{
    (void)state;
    assert_true(harden_is_refused(SYS_execve));
    assert_true(harden_is_refused(SYS_io_uring_register));
    assert_false(harden_is_refused(SYS_read));
    assert_false(harden_is_refused(SYS_socket));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_of_an_intruder_are_refused),
        cmocka_unit_test(what_a_server_needs_is_allowed),
        cmocka_unit_test(threads_inherit_it),
        cmocka_unit_test(it_is_not_dumpable_and_gains_no_rights),
        cmocka_unit_test(twice_is_fine),
        cmocka_unit_test(memory_becomes_executable_only_where_the_kernel_cannot_refuse_it),
#if defined(__x86_64__) && !defined(__ILP32__)
        cmocka_unit_test(a_call_by_another_abi_ends_the_process),
#endif
        cmocka_unit_test(the_table_has_what_the_filter_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
