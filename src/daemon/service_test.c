/* src/daemon/service_test.c */
#include "daemon/service.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define FD_FIRST 3

static char folder[] = "/tmp/belfry-service-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof(command), "rm -r '%s'", folder);
    return system(command);
}

/* ---- notify ---- */

static int receiver(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    memcpy(address.sun_path, path, len);
    if (path[0] == '@')
        address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)),
                     0);
    setenv("NOTIFY_SOCKET", path, 1);
    return fd;
}

static void expect_datagram(int fd, const char *text)
{
    char got[128] = "";
    assert_int_equal(recv(fd, got, sizeof(got) - 1, 0), strlen(text));
    assert_string_equal(got, text);
}

static void state_goes_to_the_managers_socket(void **state)
{
    (void)state;
    char path[128];
    snprintf(path, sizeof(path), "%s/notify", folder);
    int fd = receiver(path);
    service_notify("READY=1\nSTATUS=live");
    service_notify("WATCHDOG=1");
    expect_datagram(fd, "READY=1\nSTATUS=live");
    expect_datagram(fd, "WATCHDOG=1");
    close(fd);
    snprintf(path, sizeof(path), "@%s/abstract", folder);
    fd = receiver(path);
    service_notify("STOPPING=1");
    expect_datagram(fd, "STOPPING=1");
    close(fd);
}

static void a_manager_that_does_not_read_is_not_waited_for(void **state)
{
    (void)state;
    char path[128], got[64];
    unsigned n = 0;
    snprintf(path, sizeof(path), "%s/full", folder);
    int fd = receiver(path);
    for (int i = 0; i < 5000; i++)
        service_notify("WATCHDOG=1");
    while (recv(fd, got, sizeof(got), 0) > 0)
        n++;
    assert_true(n > 0 && n < 5000);
    close(fd);
}

static void without_a_usable_socket_nothing_happens(void **state)
{
    (void)state;
    char longer[300];
    memset(longer, '/', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    const char *const paths[] = {NULL, "", "/", "relative", "/nonexistent/socket", longer};
    int before = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(before);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        if (paths[i] == NULL)
            unsetenv("NOTIFY_SOCKET");
        else
            setenv("NOTIFY_SOCKET", paths[i], 1);
        service_notify("READY=1");
    }
    int after = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(after, before); /* no descriptor stays open */
    close(after);
}

/* ---- watchdog ---- */

static void set_pid(const char *variable, int more)
{
    char pid[32];
    snprintf(pid, sizeof(pid), "%d", (int)getpid() + more);
    setenv(variable, pid, 1);
}

static void watchdog_is_due_at_half_its_time(void **state)
{
    (void)state;
    unsetenv("WATCHDOG_PID");
    unsetenv("WATCHDOG_USEC");
    assert_int_equal(service_watchdog_ms(), 0);
    setenv("WATCHDOG_USEC", "30000000", 1);
    assert_int_equal(service_watchdog_ms(), 15000);
    set_pid("WATCHDOG_PID", 0);
    assert_int_equal(service_watchdog_ms(), 15000);
    set_pid("WATCHDOG_PID", 1);
    assert_int_equal(service_watchdog_ms(), 0);
    unsetenv("WATCHDOG_PID");
    setenv("WATCHDOG_USEC", "10", 1);
    assert_int_equal(service_watchdog_ms(), 1);
    static const char *const wrong[] = {"", "0", "-5", "5s", "99999999999999999999999"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        setenv("WATCHDOG_USEC", wrong[i], 1);
        assert_int_equal(service_watchdog_ms(), 0);
    }
}

/* ---- sockets handed over ---- */

/* In a child, which has descriptors 3 and 4 and no other: returns what service_listen_fds() did, + 100 if a variable
 * stayed, + 50 if a descriptor would be inherited. */
static int fds_in_child(const char *n_fds, int more_pid)
{
    pid_t child = fork();
    if (child == 0) {
        if (n_fds == NULL)
            unsetenv("LISTEN_FDS");
        else
            setenv("LISTEN_FDS", n_fds, 1);
        setenv("LISTEN_FDNAMES", "a:b", 1);
        set_pid("LISTEN_PID", more_pid);
        int null = open("/dev/null", O_RDONLY);
        dup2(null, FD_FIRST);
        dup2(null, FD_FIRST + 1);
        close_range(FD_FIRST + 2, ~0u, 0);
        int n = (int)service_listen_fds();
        int inherited = n > 0 && (fcntl(FD_FIRST, F_GETFD) & FD_CLOEXEC) == 0 ? 50 : 0;
        bool stayed = getenv("LISTEN_FDS") != NULL || getenv("LISTEN_PID") != NULL || getenv("LISTEN_FDNAMES") != NULL;
        _exit(n + inherited + (stayed ? 100 : 0));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void sockets_handed_over_are_counted_and_kept(void **state)
{
    (void)state;
    assert_int_equal(fds_in_child("2", 0), 2);
    assert_int_equal(fds_in_child("1", 0), 1);
    assert_int_equal(fds_in_child("2", 1), 0); /* of another process */
    assert_int_equal(fds_in_child(NULL, 0), 0);
    assert_int_equal(fds_in_child("0", 0), 0);
    assert_int_equal(fds_in_child("two", 0), 0);
    assert_int_equal(fds_in_child("3", 0), 2);          /* one was promised and is not there */
    assert_int_equal(fds_in_child("4294967298", 0), 2); /* and so many cannot be */
}

/* ---- cgroups ---- */

static void put_file(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    for (char *at = path + strlen(folder) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static struct service_cgroup read_limits(void)
{
    struct service_cgroup limits;
    char self[128];
    snprintf(self, sizeof(self), "%s/self", folder);
    service_read_cgroup(self, folder, &limits);
    return limits;
}

static void the_smallest_bound_on_the_way_up_holds(void **state)
{
    (void)state;
    assert_int_equal(read_limits().cpu_milli, 0); /* no file at all */
    put_file("self", "0::/a/b\n");
    assert_int_equal(read_limits().memory_bytes, 0);
    put_file("a/b/cpu.max", "max 100000\n");
    put_file("a/b/memory.max", "max\n");
    assert_int_equal(read_limits().cpu_milli, 0);
    assert_int_equal(read_limits().memory_bytes, 0);
    put_file("a/cpu.max", "250000 100000\n");
    put_file("a/memory.max", "1000000\n");
    assert_int_equal(read_limits().cpu_milli, 2500);
    assert_int_equal(read_limits().memory_bytes, 1000000);
    put_file("a/b/memory.max", "2000000\n");
    put_file("cpu.max", "50000 100000\n"); /* at the mount itself, as in a container */
    assert_int_equal(read_limits().cpu_milli, 500);
    assert_int_equal(read_limits().memory_bytes, 1000000);
}

static void version_1_groups_are_read_too(void **state)
{
    (void)state;
    put_file("self", "5:cpuset:/x\n4:cpuacct,cpu:/x\n3:memory:/y\nnonsense\n1:\n");
    put_file("cpu/x/cpu.cfs_quota_us", "-1\n");
    put_file("cpu/x/cpu.cfs_period_us", "100000\n");
    put_file("memory/y/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(read_limits().cpu_milli, 0);
    assert_int_equal(read_limits().memory_bytes, 0);
    put_file("cpu/x/cpu.cfs_quota_us", "150000\n");
    put_file("memory/y/memory.limit_in_bytes", "4096\n");
    assert_int_equal(read_limits().cpu_milli, 1500);
    assert_int_equal(read_limits().memory_bytes, 4096);
}

/* ---- limits ---- */

static void cpus_are_no_more_than_affinity_allows(void **state)
{
    (void)state;
    cpu_set_t was, one;
    assert_int_equal(sched_getaffinity(0, sizeof(was), &was), 0);
    unsigned n = service_cpus();
    assert_true(n >= 1 && n <= (unsigned)CPU_COUNT(&was));
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &was))
            CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(service_cpus(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof(was), &was), 0);
}

static void the_soft_limit_of_descriptors_is_raised(void **state)
{
    (void)state;
    struct rlimit was, now;
    struct service_limits limits;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    struct rlimit low = {.rlim_cur = was.rlim_max / 2, .rlim_max = was.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    service_limits(&limits);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
    assert_int_equal(now.rlim_cur, was.rlim_max);
    assert_int_equal(limits.descriptors, was.rlim_max);
    assert_true(limits.connections > 0 && limits.admin > 0 && limits.refused > 0);
    assert_true(limits.connections + limits.admin + limits.refused < limits.descriptors);
    assert_true(limits.memory_bytes > 0);
    assert_true(limits.somaxconn > 0);
    setrlimit(RLIMIT_NOFILE, &was);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(state_goes_to_the_managers_socket, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_manager_that_does_not_read_is_not_waited_for, make_folder, remove_folder),
        cmocka_unit_test(without_a_usable_socket_nothing_happens),
        cmocka_unit_test(watchdog_is_due_at_half_its_time),
        cmocka_unit_test(sockets_handed_over_are_counted_and_kept),
        cmocka_unit_test_setup_teardown(the_smallest_bound_on_the_way_up_holds, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(version_1_groups_are_read_too, make_folder, remove_folder),
        cmocka_unit_test(cpus_are_no_more_than_affinity_allows),
        cmocka_unit_test(the_soft_limit_of_descriptors_is_raised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
