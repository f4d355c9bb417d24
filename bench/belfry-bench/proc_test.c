/* bench/belfry-bench/proc_test.c */
#include "proc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static void a_line_of_status_is_found_by_its_whole_name(void **state)
{
    (void)state;
    const char *text = "Name:\tetcd\nVmRSSx:\t  1 kB\nVmRSS:\t   12 kB\nRssAnon:\t    7 kB\n";
    assert_int_equal(proc_status_bytes(text, "VmRSS"), 12 * 1024);
    assert_int_equal(proc_status_bytes(text, "RssAnon"), 7 * 1024);
    assert_int_equal(proc_status_bytes(text, "Rss"), 0);
    assert_int_equal(proc_status_bytes(text, "VmSwap"), 0);
    assert_int_equal(proc_status_bytes("", "VmRSS"), 0);
}

static void ticks_are_found_behind_a_name_with_brackets(void **state)
{
    (void)state;
    assert_int_equal(proc_stat_ticks("12 (a) b) c) S 1 12 12 0 -1 4194560 900 0 3 0 170 35 0 0 20 0 9 0"), 205);
    assert_int_equal(proc_stat_ticks("12 (etcd) S 1 12"), 0);
    assert_int_equal(proc_stat_ticks(""), 0);
}

static void the_own_process_uses_memory_and_time(void **state)
{
    (void)state;
    struct proc_use before = proc_use(getpid());
    volatile unsigned spin = 0;
    while (spin < 20000000)
        spin = spin + 1;
    struct proc_use after = proc_use(getpid());
    assert_true(after.cpu_s > before.cpu_s);
    assert_true(after.anon_bytes > 0 && after.rss_bytes > after.anon_bytes);
    assert_int_equal(proc_use(0).rss_bytes, 0);
}

static void a_peak_counts_from_where_it_was_restarted(void **state)
{
    (void)state;
    const size_t size = 64 << 20;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    assert_true(memory != MAP_FAILED);
    uint64_t high = proc_use(getpid()).peak_bytes;
    assert_int_equal(munmap(memory, size), 0);
    assert_true(proc_use(getpid()).peak_bytes + size / 2 > high); /* the kernel counts in batches */
    proc_restart_peak(getpid());
    assert_true(proc_use(getpid()).peak_bytes + size / 2 < high);
}

static void the_machine_has_memory_left(void **state)
{
    (void)state;
    assert_true(proc_available_bytes() > 1 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_of_status_is_found_by_its_whole_name),
        cmocka_unit_test(ticks_are_found_behind_a_name_with_brackets),
        cmocka_unit_test(the_own_process_uses_memory_and_time),
        cmocka_unit_test(the_machine_has_memory_left),
        cmocka_unit_test(a_peak_counts_from_where_it_was_restarted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
