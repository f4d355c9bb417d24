/* src/kapi/bearer_test.c: with a real file in a folder of its own. */
#include "kapi/bearer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/refuse.h"

#define START_MS 1000000

static char folder[64], file[96];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/belfry-bearer-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(file, sizeof(file), "%s/token", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(file);
    return rmdir(folder);
}

static void write_bytes(const char *path, const char *text, size_t len)
{
    FILE *out = fopen(path, "we");
    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, len, out), len);
    assert_int_equal(fclose(out), 0);
}

static void write_file(const char *text)
{
    write_bytes(file, text, strlen(text));
}

static void init(struct belfry_bearer *bearer, const char *token, const char *path)
{
    const char *why = "";
    if (belfry_bearer_init(bearer, token, path, START_MS, &why) != BELFRY_OK)
        fail_msg("%s", why);
}

static void without_a_token_nothing_is_sent(void **state)
{
    (void)state;
    struct belfry_bearer bearer;
    init(&bearer, NULL, NULL);
    assert_null(belfry_bearer_field(&bearer, START_MS, NULL));
    belfry_bearer_refused(&bearer);
    assert_null(belfry_bearer_field(&bearer, START_MS, NULL));
    belfry_bearer_fini(&bearer);
}

static void a_token_that_was_given_never_changes(void **state)
{
    (void)state;
    struct belfry_bearer bearer;
    init(&bearer, " \tabc.def\r\n", NULL);
    assert_string_equal(belfry_bearer_field(&bearer, START_MS, NULL), "Bearer abc.def");
    belfry_bearer_refused(&bearer);
    assert_string_equal(belfry_bearer_field(&bearer, START_MS + 9999, NULL), "Bearer abc.def");
    assert_int_equal(bearer.reads, 0);
    belfry_bearer_fini(&bearer);
}

static void the_file_wins_and_is_read_at_once(void **state)
{
    (void)state;
    struct belfry_bearer bearer;
    write_file("from-the-file\n");
    init(&bearer, "given", file);
    assert_string_equal(belfry_bearer_field(&bearer, START_MS, NULL), "Bearer from-the-file");
    assert_int_equal(bearer.reads, 1);
    belfry_bearer_fini(&bearer);
}

static void a_new_token_is_seen_after_a_second(void **state)
{
    (void)state;
    struct belfry_bearer bearer;
    write_file("one");
    init(&bearer, NULL, file);
    write_file("two");
    assert_string_equal(belfry_bearer_field(&bearer, START_MS + 999, NULL), "Bearer one");
    assert_string_equal(belfry_bearer_field(&bearer, START_MS + 1000, NULL), "Bearer two");
    assert_int_equal(bearer.reads, 2);
    assert_string_equal(belfry_bearer_field(&bearer, START_MS + 2000, NULL), "Bearer two");
    assert_int_equal(bearer.reads, 2); /* looked at, but not new */
    belfry_bearer_fini(&bearer);
}

static void after_a_401_it_is_looked_at_at_once(void **state)
{
    (void)state;
    struct belfry_bearer bearer;
    write_file("one");
    init(&bearer, NULL, file);
    write_file("two");
    belfry_bearer_refused(&bearer);
    assert_string_equal(belfry_bearer_field(&bearer, START_MS + 1, NULL), "Bearer two");
    write_file("three"); /* and then not before a second has passed */
    assert_string_equal(belfry_bearer_field(&bearer, START_MS + 2, NULL), "Bearer two");
    assert_string_equal(belfry_bearer_field(&bearer, START_MS + 1001, NULL), "Bearer three");
    belfry_bearer_fini(&bearer);
}

/* As a kubelet does it: token -> ..data/token, ..data -> a folder; ..data is renamed over. */
static void a_rotation_by_exchanged_links_is_seen(void **state)
{
    (void)state;
    static const char *const folders[] = {"..a", "..b"};
    char path[160], link[160], next[160];
    struct belfry_bearer bearer;
    unlink(file);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, folders[i]);
        assert_int_equal(mkdir(path, 0700), 0);
        snprintf(path, sizeof(path), "%s/%s/token", folder, folders[i]);
        write_bytes(path, i == 0 ? "aaa" : "bbb", 3); /* of the same length, perhaps of the same moment */
    }
    snprintf(link, sizeof(link), "%s/..data", folder);
    snprintf(next, sizeof(next), "%s/..next", folder);
    assert_int_equal(symlink("..a", link), 0);
    assert_int_equal(symlink("..data/token", file), 0);
    init(&bearer, NULL, file);
    assert_string_equal(belfry_bearer_field(&bearer, START_MS, NULL), "Bearer aaa");
    assert_int_equal(symlink("..b", next), 0);
    assert_int_equal(rename(next, link), 0);
    assert_string_equal(belfry_bearer_field(&bearer, START_MS + 1000, NULL), "Bearer bbb");
    belfry_bearer_fini(&bearer);

    unlink(file);
    unlink(link);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%s/token", folder, folders[i]);
        unlink(path);
        snprintf(path, sizeof(path), "%s/%s", folder, folders[i]);
        rmdir(path);
    }
}

static void count_line(enum belfry_log_level level, const char *event, const char *text, void *user)
{
    assert_int_equal(level, BELFRY_LOG_WARN);
    assert_string_equal(event, "token_kept");
    assert_non_null(strstr(text, file));
    ++*(int *)user;
}

static void a_file_that_cannot_be_read_leaves_the_token_and_is_told_once(void **state)
{
    (void)state;
    struct belfry_bearer bearer;
    int n_lines = 0;
    struct belfry_log log = {.line = count_line, .user = &n_lines, .level = BELFRY_LOG_WARN};
    write_file("one");
    init(&bearer, NULL, file);
    unlink(file);
    for (uint64_t i = 1; i <= 3; i++)
        assert_string_equal(belfry_bearer_field(&bearer, START_MS + 1000 * i, &log), "Bearer one");
    assert_int_equal(n_lines, 1);
    write_file(""); /* there again, but not complete */
    assert_string_equal(belfry_bearer_field(&bearer, START_MS + 4000, &log), "Bearer one");
    write_file("two");
    assert_string_equal(belfry_bearer_field(&bearer, START_MS + 5000, &log), "Bearer two");
    assert_int_equal(n_lines, 1);
    unlink(file);
    assert_string_equal(belfry_bearer_field(&bearer, START_MS + 6000, &log), "Bearer two");
    assert_int_equal(n_lines, 2);
    belfry_bearer_fini(&bearer);
}

static void assert_refused(const char *token, const char *path, enum belfry_err err)
{
    struct belfry_bearer bearer;
    const char *why = NULL;
    assert_int_equal(belfry_bearer_init(&bearer, token, path, START_MS, &why), err);
    assert_non_null(why);
    assert_non_null(strstr(why, "token"));
}

static void what_is_no_token_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"", " \n", "a b", "a\nb", "a\tb", "a\x7f", "\xc3\xa9", "a\rX-Evil: 1"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_refused(texts[i], NULL, BELFRY_ERR_INVALID);
        write_file(texts[i]);
        assert_refused(NULL, file, BELFRY_ERR_AUTH);
    }
    write_bytes(file, "a\0b", 3);
    assert_refused(NULL, file, BELFRY_ERR_AUTH);
    unlink(file);
    assert_refused("given", file, BELFRY_ERR_AUTH);
    assert_refused(NULL, folder, BELFRY_ERR_AUTH);
    assert_int_equal(mkfifo(file, 0600), 0); /* does not wait for a writer */
    assert_refused(NULL, file, BELFRY_ERR_AUTH);
    unlink(file);
}

static void a_token_has_at_most_64_kib(void **state)
{
    (void)state;
    static char text[64 * 1024 + 258];
    struct belfry_bearer bearer;
    memset(text, 'x', 64 * 1024);
    text[64 * 1024] = '\n';
    init(&bearer, text, NULL);
    assert_int_equal(strlen(belfry_bearer_field(&bearer, START_MS, NULL)), strlen("Bearer ") + 64 * 1024);
    belfry_bearer_fini(&bearer);
    write_file(text);
    init(&bearer, NULL, file);
    belfry_bearer_fini(&bearer);
    text[64 * 1024] = 'x';
    assert_refused(text, NULL, BELFRY_ERR_INVALID);
    write_file(text);
    assert_refused(NULL, file, BELFRY_ERR_AUTH);
    memset(text + 64 * 1024, ' ', 257); /* more than is read */
    write_file(text);
    assert_refused(NULL, file, BELFRY_ERR_AUTH);
}

static enum belfry_err read_twice(void)
{
    struct belfry_bearer bearer;
    const char *why;
    write_file("one");
    enum belfry_err err = belfry_bearer_init(&bearer, NULL, file, START_MS, &why);
    if (err != BELFRY_OK)
        return err;
    write_file("two");
    if (strcmp(belfry_bearer_field(&bearer, START_MS + 1000, NULL), "Bearer two") != 0)
        err = BELFRY_ERR_NOMEM; /* the old one goes on */
    belfry_bearer_fini(&bearer);
    return err;
}

static void refused_memory_leaks_nothing(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(read_twice), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_token_nothing_is_sent),
        cmocka_unit_test(a_token_that_was_given_never_changes),
        cmocka_unit_test(the_file_wins_and_is_read_at_once),
        cmocka_unit_test(a_new_token_is_seen_after_a_second),
        cmocka_unit_test(after_a_401_it_is_looked_at_at_once),
        cmocka_unit_test(a_rotation_by_exchanged_links_is_seen),
        cmocka_unit_test(a_file_that_cannot_be_read_leaves_the_token_and_is_told_once),
        cmocka_unit_test(what_is_no_token_is_refused),
        cmocka_unit_test(a_token_has_at_most_64_kib),
        cmocka_unit_test(refused_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
