/* src/replica/folder_test.c: the folder itself; its marker and data folders are in replica_test.c. */
#include "replica/folder.h"

#include <errno.h>
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

#define BOOT "a-boot"

static char root[64], path[256];

/* A path below the root, which is empty at first. */
static const char *in(const char *name)
{
    snprintf(path, sizeof(path), "%s/%s", root, name);
    return path;
}

static int make_root(void **state)
{
    (void)state;
    strcpy(root, "/tmp/belfry-folder-XXXXXX");
    return mkdtemp(root) == NULL;
}

static int remove_root(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command);
}

static mode_t mode_of(const char *name)
{
    struct stat st;
    assert_int_equal(stat(in(name), &st), 0);
    return st.st_mode & 07777;
}

static void write_plain(const char *name)
{
    FILE *file = fopen(in(name), "w");
    assert_non_null(file);
    fclose(file);
}

static void missing_parents_are_made_for_the_owner_alone(void **state)
{
    struct folder folder;
    char *why = NULL;
    (void)state;
    mode_t mask = umask(0);
    assert_int_equal(folder_open(&folder, in("home/.cache/belfry"), BOOT, &why), BELFRY_OK);
    umask(mask);
    assert_string_equal(folder.path, in("home/.cache/belfry"));
    folder_close(&folder);
    assert_int_equal(mode_of("home"), 0700);
    assert_int_equal(mode_of("home/.cache"), 0700);
    assert_int_equal(mode_of("home/.cache/belfry"), 0700);
}

static void parents_that_are_there_keep_their_mode(void **state)
{
    struct folder folder;
    char *why = NULL;
    (void)state;
    assert_int_equal(mkdir(in("home"), 0750), 0);
    assert_int_equal(chmod(in("home"), 0755), 0);
    assert_int_equal(folder_open(&folder, in("home//belfry/"), BOOT, &why), BELFRY_OK); /* slashes do no harm */
    folder_close(&folder);
    assert_int_equal(mode_of("home"), 0755);
    assert_int_equal(mode_of("home/belfry"), 0700);
}

static void relative_path_is_below_the_working_directory(void **state)
{
    struct folder folder;
    char *why = NULL;
    (void)state;
    assert_int_equal(chdir(root), 0);
    assert_int_equal(folder_open(&folder, "a/b", BOOT, &why), BELFRY_OK);
    folder_close(&folder);
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(mode_of("a/b"), 0700);
}

static void folder_that_cannot_be_made_is_named(void **state)
{
    struct folder folder;
    char *why = NULL, wanted[512];
    (void)state;
    write_plain("file");
    assert_int_equal(folder_open(&folder, in("file/belfry"), BOOT, &why), BELFRY_ERR_IO);
    snprintf(wanted, sizeof(wanted), "%s: cannot make the folder: %s", in("file/belfry"), strerror(ENOTDIR));
    assert_string_equal(why, wanted);
    free(why);
    assert_int_equal(folder_open(&folder, "/proc/belfry/cache", BOOT, &why), BELFRY_ERR_IO);
    assert_non_null(strstr(why, "/proc/belfry: cannot make the folder: ")); /* the one above it is at fault */
    free(why);
}

static const char *fault(const char *name)
{
    static char why[512];
    why[0] = '\0';
    enum belfry_err err = folder_try(in(name), why, sizeof(why));
    assert_int_equal(err, why[0] == '\0' ? BELFRY_OK : BELFRY_ERR_IO);
    return why;
}

static void trial_says_what_opening_would_and_makes_nothing(void **state)
{
    struct stat st;
    char why[512];
    (void)state;
    write_plain("file");
    assert_string_equal(fault("a/b/c"), "");
    assert_string_equal(fault("a//"), "");
    assert_string_equal(fault(""), ""); /* the root is there already */
    assert_int_equal(stat(in("a"), &st), -1);
    assert_non_null(strstr(fault("file"), "/file: cannot use the folder: Not a directory"));
    assert_non_null(strstr(fault("file/belfry"), "Not a directory"));
    assert_int_equal(chdir(root), 0);
    assert_int_equal(folder_try("cache", why, sizeof(why)), BELFRY_OK);
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(stat(in("cache"), &st), -1);
}

/* As somebody who may not write there; root may. */
static void trial_finds_a_folder_that_may_not_be_written_to(void **state)
{
    (void)state;
    assert_int_equal(chmod(root, 0755), 0);
    bool is_root = geteuid() == 0;
    if (is_root)
        assert_int_equal(seteuid(65534), 0);
    else
        assert_int_equal(chmod(root, 0555), 0);
    char *why = strdup(fault("a/b"));
    if (is_root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(root, 0755), 0);
    assert_non_null(strstr(why, "cannot make a folder in it: Permission denied"));
    free(why);
}

/* Opens it and tells why that failed; the caller frees it. */
static char *refusal(const char *name)
{
    struct folder folder;
    char *why = NULL;
    assert_int_equal(folder_open(&folder, in(name), BOOT, &why), BELFRY_ERR_IO);
    assert_non_null(why);
    return why;
}

static void folder_that_others_may_write_to_is_refused(void **state)
{
    static const mode_t modes[] = {0777, 01777, 0770, 0722};
    struct stat st;
    (void)state;
    assert_int_equal(mkdir(in("cache"), 0700), 0);
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        assert_int_equal(chmod(in("cache"), modes[i]), 0);
        char *why = refusal("cache");
        assert_non_null(strstr(why, "/cache: others may write to it: chmod go-w it"));
        assert_string_equal(fault("cache"), why);
        free(why);
        assert_int_equal(stat(in("cache/lock"), &st), -1);
        assert_string_equal(fault("cache/own"), "");
    }
    assert_int_equal(chmod(in("cache"), 0755), 0);
    assert_string_equal(fault("cache"), "");
}

static void folder_of_another_user_is_refused(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("only root can give a folder away\n");
        skip();
    }
    assert_int_equal(mkdir(in("cache"), 0700), 0);
    assert_int_equal(chown(in("cache"), 65534, 65534), 0);
    char *why = refusal("cache");
    assert_non_null(strstr(why, "/cache: belongs to another user: give a folder of this user's"));
    assert_string_equal(fault("cache"), why);
    free(why);
}

static void link_of_another_user_is_refused(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("only root can give a link away\n");
        skip();
    }
    char target[256];
    assert_int_equal(mkdir(in("cache"), 0700), 0);
    snprintf(target, sizeof(target), "%s", in("cache"));
    assert_int_equal(symlink(target, in("link")), 0);
    assert_string_equal(fault("link"), ""); /* one's own */
    assert_int_equal(lchown(in("link"), 65534, 65534), 0);
    char *why = refusal("link");
    assert_non_null(strstr(why, "/link: is a link of another user's: give the folder itself"));
    assert_string_equal(fault("link"), why);
    assert_string_equal(fault("link//"), why); /* which lead through it */
    free(why);
    why = refusal("link//");
    assert_non_null(strstr(why, "/link: is a link of another user's: give the folder itself"));
    free(why);
    assert_int_equal(unlink(in("link")), 0);
}

static enum belfry_err open_and_close(void)
{
    struct folder folder;
    char *why = NULL;
    enum belfry_err err = folder_try(in("a/b/c"), (char[512]){0}, 512);
    if (err == BELFRY_OK)
        err = folder_open(&folder, in("a/b/c"), BOOT, &why);
    if (err == BELFRY_OK)
        folder_close(&folder);
    free(why);
    return err;
}

static void refused_memory_leaves_nothing(void **state)
{
    (void)state;
    assert_true(refuse_sweep(open_and_close) > 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_root, remove_root)
    const struct CMUnitTest tests[] = {
        TEST(missing_parents_are_made_for_the_owner_alone),
        TEST(parents_that_are_there_keep_their_mode),
        TEST(relative_path_is_below_the_working_directory),
        TEST(folder_that_cannot_be_made_is_named),
        TEST(trial_says_what_opening_would_and_makes_nothing),
        TEST(trial_finds_a_folder_that_may_not_be_written_to),
        TEST(folder_that_others_may_write_to_is_refused),
        TEST(folder_of_another_user_is_refused),
        TEST(link_of_another_user_is_refused),
        TEST(refused_memory_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
