/* src/serve/sse/ticket_keys_test.c */
#include "serve/sse/ticket_keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/refuse.h"

#define BASE64 "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
#define HEX    "000102030405060708090a0B0c0d0e0f101112131415161718191a1b1c1d1e1F"
#define OTHER  "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

static char why[TICKET_KEYS_WHY];

static struct ticket_keys read_fine(const char *text)
{
    struct ticket_keys keys;
    if (ticket_keys_read(belfry_bytes_str(text), &keys, why) != BELFRY_OK)
        fail_msg("%s", why);
    return keys;
}

static void expect_refused(const char *text, const char *part)
{
    struct ticket_keys keys = {.n = 77};
    assert_int_equal(ticket_keys_read(belfry_bytes_str(text), &keys, why), BELFRY_ERR_INVALID);
    assert_int_equal(keys.n, 77);
    if (strstr(why, part) == NULL)
        fail_msg("'%s' is not in: %s", part, why);
}

static void a_key_is_base64_or_hex(void **state)
{
    (void)state;
    struct ticket_keys a = read_fine(BASE64), b = read_fine(HEX "\n"), c = read_fine(OTHER);
    assert_int_equal(a.n, 1);
    for (size_t i = 0; i < TICKET_KEY_BYTES; i++)
        assert_int_equal(a.key[0][i], i);
    assert_true(ticket_keys_equal(&a, &b));
    assert_false(ticket_keys_equal(&a, &c));
}

static void lines_may_be_empty_or_comments(void **state)
{
    (void)state;
    struct ticket_keys keys = read_fine("\n# the new one\r\n  " OTHER " \r\n\n\t" BASE64 "\n#" HEX "\n\n");
    assert_int_equal(keys.n, 2);
    assert_int_equal(keys.key[0][0], 0xff);
    assert_int_equal(keys.key[1][0], 0);
}

static void there_are_at_most_four_keys(void **state)
{
    (void)state;
    assert_int_equal(read_fine(HEX "\n" HEX "\n" HEX "\n" OTHER).n, 4);
    expect_refused(HEX "\n" HEX "\n" HEX "\n" HEX "\n" OTHER, "has more than 4 keys");
}

static void other_lines_are_refused_and_not_shown(void **state)
{
    (void)state;
    expect_refused("", "has no key: make one with: openssl rand -base64 32");
    expect_refused("# nothing\n", "has no key: make one");
    expect_refused(HEX "\nsecret", "has no key in line 2");
    assert_null(strstr(why, "secret"));
    expect_refused(HEX "0", "has no key in line 1");
    expect_refused("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", "line 1");  /* not padded */
    expect_refused("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg==", "line 1"); /* 31 bytes */
    expect_refused("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9=", "line 1"); /* a bit too many */
    expect_refused("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g", "line 1"); /* 33 bytes */
    expect_refused(HEX " " HEX, "line 1");
}

static void a_file_has_a_name_and_a_mode(void **state)
{
    (void)state;
    char path[] = "/tmp/belfry-ticket-keys-XXXXXX";
    struct ticket_keys keys;
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, HEX "\nx\n", 67) == 67);
    assert_int_equal(ticket_keys_load(path, &keys, why), BELFRY_ERR_INVALID);
    assert_non_null(strstr(why, path));
    assert_non_null(strstr(why, " has no key in line 2"));
    assert_int_equal(ftruncate(fd, 65), 0);
    assert_int_equal(ticket_keys_load(path, &keys, why), BELFRY_OK);
    assert_int_equal(keys.n, 1);
    assert_int_equal(fchmod(fd, 0644), 0);
    assert_int_equal(ticket_keys_load(path, &keys, why), BELFRY_ERR_INVALID);
    assert_non_null(strstr(why, "run chmod o-rwx on it"));
    close(fd);
    unlink(path);
    assert_int_equal(ticket_keys_load(path, &keys, why), BELFRY_ERR_INVALID);
    assert_non_null(strstr(why, "No such file"));
}

static enum belfry_err read_once(void)
{
    struct ticket_keys keys;
    return ticket_keys_read(belfry_bytes_str(BASE64 "\n" BASE64), &keys, why);
}

static void missing_memory_is_told(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(read_once), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_base64_or_hex),       cmocka_unit_test(lines_may_be_empty_or_comments),
        cmocka_unit_test(there_are_at_most_four_keys),  cmocka_unit_test(other_lines_are_refused_and_not_shown),
        cmocka_unit_test(a_file_has_a_name_and_a_mode), cmocka_unit_test(missing_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
