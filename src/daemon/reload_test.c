/* src/daemon/reload_test.c */
#include "daemon/reload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/refuse.h"

#define MAX_ARGS 8

/* The configuration file, the same for all tests: a test that fails ends before it could remove its own. */
static char path[] = "/tmp/belfry-reload-XXXXXX";

static int make_file(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

/* What belfryd was started with, and what it logs. */
struct bed {
    FILE *lines;
    char *argv[MAX_ARGS];
    int argc;
    struct config config;
    struct logger *logger;
    struct limits limits;
    struct hosts hosts;
    struct tickets tickets;
    struct reload reload;
};

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* `flag` NULL: none. */
static void bed_open(struct bed *bed, const char *text, char *flag)
{
    static char name[] = "belfryd", config[] = "--config";
    enum config_do what;
    *bed = (struct bed){.argc = flag != NULL ? 4 : 3};
    write_file(text);
    bed->argv[0] = name;
    bed->argv[1] = config;
    bed->argv[2] = path;
    bed->argv[3] = flag;
    bed->lines = tmpfile();
    assert_non_null(bed->lines);
    assert_int_equal(config_load(bed->argc, bed->argv, stdout, stderr, &bed->config, &what), BELFRY_OK);
    assert_int_equal(logger_create(bed->config.log_level, bed->config.log_format, fileno(bed->lines), &bed->logger),
                     BELFRY_OK);
    hosts_init(&bed->hosts, NULL);
    tickets_init(&bed->tickets);
    limits_init(&bed->limits, &bed->config);
    struct reload_opts opts = {.argc = bed->argc,
                               .argv = bed->argv,
                               .config = &bed->config,
                               .logger = bed->logger,
                               .limits = &bed->limits,
                               .hosts = &bed->hosts,
                               .tickets = &bed->tickets};
    reload_init(&bed->reload, &opts);
}

static void bed_close(struct bed *bed)
{
    reload_fini(&bed->reload);
    limits_fini(&bed->limits);
    tickets_fini(&bed->tickets);
    hosts_fini(&bed->hosts);
    logger_destroy(bed->logger);
    config_fini(&bed->config);
    fclose(bed->lines);
    assert_int_equal(refuse_held(), 0);
}

/* Writes the file, reads it, and returns the lines that were logged. */
static const char *reload_with(struct bed *bed, const char *text)
{
    static char logged[8192];
    write_file(text);
    reload_run(&bed->reload);
    ssize_t n = pread(fileno(bed->lines), logged, sizeof(logged) - 1, 0);
    assert_true(n >= 0);
    logged[n] = '\0';
    assert_int_equal(ftruncate(fileno(bed->lines), 0), 0);
    assert_int_equal(lseek(fileno(bed->lines), 0, SEEK_SET), 0);
    return logged;
}

static void expect_in(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("'%s' is not in: %s", part, text);
}

static void expect_not_in(const char *text, const char *part)
{
    if (strstr(text, part) != NULL)
        fail_msg("'%s' is in: %s", part, text);
}

static bool allows(struct bed *bed, const char *name)
{
    return hosts_allow(&bed->hosts, belfry_bytes_str(name));
}

static bool logs_debug(struct bed *bed)
{
    off_t before = lseek(fileno(bed->lines), 0, SEEK_END);
    belfry_logf(logger_log(bed->logger), BELFRY_LOG_DEBUG, "detail", "a=1");
    return lseek(fileno(bed->lines), 0, SEEK_END) > before;
}

static void a_new_level_is_applied_and_said(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed, "log-level: info\n", NULL);
    assert_false(logs_debug(&bed));
    const char *logged = reload_with(&bed, "log-level: debug\n");
    expect_in(logged, "level=info event=reloaded changed=\"log-level: info -> debug\"\n");
    expect_not_in(logged, "restart_needed");
    assert_true(logs_debug(&bed));
    expect_in(reload_with(&bed, "log-level: debug\n"), "event=reloaded changed=\"nothing\"");
    bed_close(&bed);
}

static void a_change_to_fewer_lines_is_the_last_of_them(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed, "log-level: info\n", NULL);
    expect_in(reload_with(&bed, "log-level: error\n"), "changed=\"log-level: info -> error\"");
    assert_string_equal(reload_with(&bed, "log-level: error\n"), "");
    expect_in(reload_with(&bed, "log-level: info\n"), "changed=\"log-level: error -> info\"");
    bed_close(&bed);
}

static void new_names_are_applied_and_old_ones_end(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed, "allowed-hosts: [one.example]\n", NULL);
    assert_true(allows(&bed, "one.example"));
    expect_in(reload_with(&bed, "allowed-hosts: [two.example, three.example]\nlog-level: debug\n"),
              "changed=\"allowed-hosts: one.example -> two.example,three.example; log-level: info -> debug\"");
    assert_false(allows(&bed, "one.example"));
    assert_true(allows(&bed, "two.example"));
    assert_true(allows(&bed, "three.example"));
    expect_in(reload_with(&bed, "log-level: debug\n"), "changed=\"allowed-hosts: two.example,three.example -> none\"");
    assert_false(allows(&bed, "two.example"));
    bed_close(&bed);
}

static void other_settings_of_the_file_are_named_until_a_restart(void **state)
{
    (void)state;
    static const char changed[] = "workers: 3\nlisten:\n  - url: http://127.0.0.1:1\n    read-only: true\n";
    struct bed bed;
    bed_open(&bed, "drain: 20s\nlisten: [\"http://127.0.0.1:1\"]\n", NULL);
    for (int i = 0; i < 2; i++) {
        const char *logged = reload_with(&bed, changed);
        expect_in(logged, "event=reloaded changed=\"nothing\"");
        expect_in(logged, "level=warn event=restart_needed settings=\"listen, workers, drain\"");
    }
    expect_not_in(reload_with(&bed, "drain: 20s\nlisten: [\"http://127.0.0.1:1\"]\n"), "restart_needed");
    bed_close(&bed);
}

static void flags_stay_above_the_file(void **state)
{
    (void)state;
    char level[] = "--log-level=warn";
    struct bed bed;
    bed_open(&bed, "log-level: info\n", level);
    assert_string_equal(reload_with(&bed, "log-level: debug\n"), "");
    assert_false(logs_debug(&bed));
    bed_close(&bed);
}

static void a_default_that_becomes_another_needs_no_restart(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed, "", NULL);
    bed.config.workers++; /* as if a CPU had been taken away since */
    expect_not_in(reload_with(&bed, ""), "restart_needed");
    bed_close(&bed);
}

static void a_file_that_is_wrong_changes_nothing(void **state)
{
    (void)state;
    static const char *const wrong[] = {"log-level: loud\nallowed-hosts: [two.example]\n",
                                        "allowed-hosts: [two.example]\nno-such-key: 1\n", "log-level: [", "\"a\"b\n"};
    struct bed bed;
    bed_open(&bed, "allowed-hosts: [one.example]\n", NULL);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const char *logged = reload_with(&bed, wrong[i]);
        expect_in(logged, "level=error event=reload_failed why=\"/tmp/belfry-reload-");
        expect_in(logged, "\" hint=\"all settings stay as they were\"\n");
        expect_not_in(logged, "event=reloaded");
        assert_true(allows(&bed, "one.example"));
        assert_false(allows(&bed, "two.example"));
        assert_false(logs_debug(&bed));
    }
    unlink(path);
    reload_run(&bed.reload);
    assert_true(allows(&bed, "one.example"));
    expect_in(reload_with(&bed, "allowed-hosts: [two.example]\n"), "cannot be opened");
    assert_true(allows(&bed, "two.example"));
    bed_close(&bed);
}

static void new_limits_are_there_for_every_worker(void **state)
{
    (void)state;
    struct bed bed;
    struct limits_view limits;
    unsigned one = 0, two = 0;
    bed_open(&bed, "workers: 4\nmax-calls: 400\n", NULL);
    assert_true(limits_take(&bed.limits, &one, &limits));
    assert_int_equal(limits.shares.total[SHARES_CALLS], 100);
    assert_int_equal(limits.shares.percent[SHARES_CLIENT], 50);
    assert_false(limits_take(&bed.limits, &one, &limits));
    expect_in(reload_with(&bed, "workers: 4\nmax-calls: 800\nclient-share: 20\n"),
              "changed=\"max-calls: 400 -> 800; client-share: 50 -> 20\"");
    assert_true(limits_take(&bed.limits, &one, &limits));
    assert_int_equal(limits.shares.total[SHARES_CALLS], 200);
    assert_int_equal(limits.shares.percent[SHARES_CLIENT], 20);
    assert_true(limits_take(&bed.limits, &two, &limits)); /* another worker */
    assert_false(limits_take(&bed.limits, &two, &limits));
    bed_close(&bed);
}

static void new_times_are_there_for_every_worker(void **state)
{
    (void)state;
    struct bed bed;
    struct limits_view view;
    unsigned version = 0;
    bed_open(&bed, "", NULL);
    assert_true(limits_take(&bed.limits, &version, &view));
    assert_int_equal(view.times.greet_ms, 10000);
    assert_int_equal(view.times.message_ms, 10000);
    assert_int_equal(view.times.unread_ms, 60000);
    assert_int_equal(view.times.idle_ms, 300000);
    const char *logged = reload_with(&bed, "greet-time: 1s\nmessage-time: 2s\nunread-time: 3s\nidle-time: 4s\n");
    expect_in(logged, "changed=\"greet-time: 10s -> 1s; message-time: 10s -> 2s; unread-time: 1m -> 3s; "
                      "idle-time: 5m -> 4s\"");
    expect_not_in(logged, "restart_needed");
    assert_true(limits_take(&bed.limits, &version, &view));
    assert_int_equal(view.times.greet_ms, 1000);
    assert_int_equal(view.times.message_ms, 2000);
    assert_int_equal(view.times.unread_ms, 3000);
    assert_int_equal(view.times.idle_ms, 4000);
    bed_close(&bed);
}

static void write_keys(const char *keys, const char *text)
{
    FILE *file = fopen(keys, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void keys_of_tickets_are_read_again_under_the_same_name(void **state)
{
    (void)state;
    static const char old_key[] = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n",
                      both[] = "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"
                               "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n";
    char keys[] = "/tmp/belfry-reload-keys-XXXXXX", text[64];
    struct bed bed;
    int fd = mkstemp(keys);
    assert_true(fd >= 0 && close(fd) == 0);
    write_keys(keys, old_key);
    snprintf(text, sizeof(text), "ticket-key-file: %s\n", keys);
    bed_open(&bed, text, NULL);
    assert_int_equal(bed.tickets.keys.n, 1);                          /* from the start */
    expect_in(reload_with(&bed, text), "event=ticket_keys keys=1\n"); /* told at the start; nothing is new now */
    expect_not_in(reload_with(&bed, text), "event=ticket_keys");
    write_keys(keys, both);
    expect_in(reload_with(&bed, text), "event=ticket_keys keys=2\n");
    assert_int_equal(bed.tickets.keys.key[0][0], 0xff);
    expect_not_in(reload_with(&bed, text), "event=ticket_keys");
    write_keys(keys, "nonsense\n");
    expect_in(reload_with(&bed, text), "event=reload_failed");
    assert_int_equal(bed.tickets.keys.n, 2);
    const char *logged = reload_with(&bed, "");
    expect_in(logged, "ticket-key-file: /tmp/belfry-reload-keys-");
    expect_in(logged, " -> none");
    assert_int_equal(bed.tickets.keys.n, 0);
    unlink(keys);
    bed_close(&bed);
}

static void many_long_names_are_cut_in_the_line_only(void **state)
{
    (void)state;
    char text[8192] = "allowed-hosts:\n", name[64];
    size_t len = strlen(text);
    struct bed bed;
    for (int i = 0; i < 60; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "  - a-long-name-of-a-host-%d.belfry.example\n", i);
    bed_open(&bed, "", NULL);
    expect_in(reload_with(&bed, text), "changed=\"allowed-hosts: none -> a-long-name-of-a-host-0.belfry.example,");
    for (int i = 0; i < 60; i++) {
        snprintf(name, sizeof(name), "a-long-name-of-a-host-%d.belfry.example", i);
        assert_true(allows(&bed, name));
    }
    bed_close(&bed);
}

static void without_memory_nothing_changes(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed, "allowed-hosts: [one.example]\n", NULL);
    write_file("allowed-hosts: [two.example]\nlog-level: debug\n");
    size_t held = refuse_held(), n = 0;
    for (;; n++) {
        refuse_begin(n);
        reload_run(&bed.reload);
        if (!refuse_end())
            break;
        assert_int_equal(refuse_held(), held);
        assert_true(allows(&bed, "one.example"));
        assert_false(logs_debug(&bed));
    }
    assert_true(n > 10);
    assert_true(allows(&bed, "two.example"));
    assert_true(logs_debug(&bed));
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_level_is_applied_and_said),
        cmocka_unit_test(a_change_to_fewer_lines_is_the_last_of_them),
        cmocka_unit_test(new_names_are_applied_and_old_ones_end),
        cmocka_unit_test(other_settings_of_the_file_are_named_until_a_restart),
        cmocka_unit_test(flags_stay_above_the_file),
        cmocka_unit_test(a_default_that_becomes_another_needs_no_restart),
        cmocka_unit_test(a_file_that_is_wrong_changes_nothing),
        cmocka_unit_test(new_limits_are_there_for_every_worker),
        cmocka_unit_test(new_times_are_there_for_every_worker),
        cmocka_unit_test(keys_of_tickets_are_read_again_under_the_same_name),
        cmocka_unit_test(many_long_names_are_cut_in_the_line_only),
        cmocka_unit_test(without_memory_nothing_changes),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
