/* src/follow/about_test.c */
#include "follow/about.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "support/refuse.h"

static void fill(struct about_level *level, unsigned n)
{
    *level = (struct about_level){.standing = ABOUT_STALE,
                                  .trouble = ABOUT_CIRCLE,
                                  .revision = INT64_MAX - n,
                                  .lag = INT64_MAX - n,
                                  .silent_ms = INT64_MAX - 1 - n,
                                  .hop = ABOUT_HOP_MEASURED,
                                  .hop_us = INT64_MAX - n,
                                  .hop_error_us = INT64_MAX - n,
                                  .age_ms = INT64_MAX - n};
    memset(level->name, 'n', sizeof(level->name) - 1);
    memset(level->version, 'v', sizeof(level->version) - 1);
    memset(level->endpoint, 'e', sizeof(level->endpoint) - 1);
}

static void fill_all(struct about *about)
{
    *about = (struct about){.n_above = ABOUT_LEVELS, .n_stamps = ABOUT_STAMPS, .clock_ns = INT64_MAX};
    fill(&about->self, 0);
    for (unsigned i = 0; i < ABOUT_LEVELS; i++)
        fill(&about->above[i], i + 1);
    for (unsigned i = 0; i < ABOUT_STAMPS; i++)
        about->stamps[i] = (struct stamp){INT64_MAX - i, INT64_MAX - i};
}

static void assert_level(const struct about_level *a, const struct about_level *b)
{
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->version, b->version);
    assert_int_equal(a->standing, b->standing);
    assert_int_equal(a->trouble, b->trouble);
    assert_int_equal(a->revision, b->revision);
    assert_int_equal(a->lag, b->lag);
    assert_int_equal(a->silent_ms, b->silent_ms);
    assert_int_equal(a->hop, b->hop);
    assert_int_equal(a->hop_us, b->hop_us);
    assert_int_equal(a->hop_error_us, b->hop_error_us);
    assert_int_equal(a->age_ms, b->age_ms);
}

static void what_is_written_is_read_however_large(void **state)
{
    (void)state;
    struct about about, read;
    uint8_t message[ABOUT_BYTES];
    fill_all(&about);
    size_t len = about_write(&about, message);
    assert_true(len <= sizeof(message));
    assert_int_equal(about_read(belfry_bytes_of(message, len), &read), BELFRY_OK);
    assert_level(&read.self, &about.self);
    assert_int_equal(read.n_above, ABOUT_LEVELS);
    for (size_t i = 0; i < ABOUT_LEVELS; i++)
        assert_level(&read.above[i], &about.above[i]);
    assert_int_equal(read.clock_ns, about.clock_ns);
    assert_int_equal(read.n_stamps, ABOUT_STAMPS);
    assert_memory_equal(read.stamps, about.stamps, sizeof(about.stamps));
}

static void first_tiers_said_only_name_and_version(void **state)
{
    (void)state;
    static const char old[] = "\x0a\x01"
                              "a\x12\x09"
                              "belfryd/0";
    struct about read;
    assert_int_equal(about_read(belfry_bytes_of(old, sizeof(old) - 1), &read), BELFRY_OK);
    assert_string_equal(read.self.name, "a");
    assert_string_equal(read.self.version, "belfryd/0");
    assert_int_equal(read.self.standing, ABOUT_UNKNOWN);
    assert_true(read.self.silent_ms == BELFRY_NEVER);
    assert_int_equal(read.n_above + read.n_stamps + read.clock_ns, 0);
    struct about about = {.self = {.silent_ms = BELFRY_NEVER}};
    uint8_t message[ABOUT_BYTES];
    about_copy(about.self.name, sizeof(about.self.name), belfry_bytes_str("a"));
    about_copy(about.self.version, sizeof(about.self.version), belfry_bytes_str("belfryd/0"));
    about_write(&about, message);
    assert_memory_equal(message, old, sizeof(old) - 1); /* and who reads only these finds them */
}

static void addresses_are_told_to_nobody(void **state)
{
    (void)state;
    struct about about, read;
    uint8_t message[ABOUT_BYTES];
    fill_all(&about);
    size_t len = about_write(&about, message);
    assert_null(memmem(message, len, "eeee", 4));
    assert_int_equal(about_read(belfry_bytes_of(message, len), &read), BELFRY_OK);
    assert_string_equal(read.above[0].endpoint, "");
    static const char told[] = "\x1a\x0a\x0a\x01"
                               "a\x1a\x05"
                               "where"; /* by somebody else, in the field that once was it */
    assert_int_equal(about_read(belfry_bytes_of(told, sizeof(told) - 1), &read), BELFRY_OK);
    assert_string_equal(read.above[0].name, "a");
    assert_string_equal(read.above[0].endpoint, "");
}

static void message_over_its_bound_is_not_read(void **state)
{
    (void)state;
    static char message[ABOUT_READ_MAX + 1]; /* one field that nobody knows */
    struct about read;
    size_t len = sizeof(message) - 5;
    memcpy(message, (char[]){0x7a, (char)((len & 127) | 128), (char)((len >> 7 & 127) | 128), (char)(len >> 14)}, 4);
    assert_int_equal(about_read(belfry_bytes_of(message, sizeof(message) - 1), &read), BELFRY_OK);
    message[1]++; /* a byte more */
    assert_int_equal(about_read(belfry_bytes_of(message, sizeof(message)), &read), BELFRY_ERR_PROTOCOL);
}

static void tier_is_known_by_its_version_not_by_its_name(void **state)
{
    (void)state;
    assert_true(about_is_tier(&(struct about_level){.name = "etcd", .version = "belfryd/1.0"}));
    assert_false(about_is_tier(&(struct about_level){.name = "edge", .version = "3.5.16"}));
    assert_false(about_is_tier(&(struct about_level){.name = "edge"}));
}

static void what_could_upset_a_terminal_is_not_kept(void **state)
{
    (void)state;
    char text[8];
    about_copy(text, sizeof(text), belfry_bytes_of("a\033[1m\0b", 7));
    assert_string_equal(text, "a?[1m?b");
    about_copy(text, sizeof(text),
               belfry_bytes_of("\x7f\xc3\xa9"
                               "4567890",
                               10));
    assert_string_equal(text, "???4567");
}

static void more_than_there_is_room_for_is_left_out(void **state)
{
    (void)state;
    uint8_t message[4 * 100];
    struct about read;
    for (size_t i = 0; i < 100; i++) /* above=3: a level with revision 5, then stamps of nothing */
        memcpy(message + 4 * i, i < 20 ? "\x1a\x02\x20\x05" : "\x32\x02\x08\x01", 4);
    assert_int_equal(about_read(belfry_bytes_of(message, sizeof(message)), &read), BELFRY_OK);
    assert_int_equal(read.n_above, ABOUT_LEVELS);
    assert_int_equal(read.above[ABOUT_LEVELS - 1].revision, 5);
    assert_int_equal(read.n_stamps, ABOUT_STAMPS);
}

static void what_is_cut_short_is_refused(void **state)
{
    (void)state;
    struct about about, read;
    uint8_t message[ABOUT_BYTES];
    fill_all(&about);
    size_t len = about_write(&about, message), bad = 0;
    for (size_t i = 0; i < len; i++)
        bad += about_read(belfry_bytes_of(message, i), &read) == BELFRY_ERR_PROTOCOL;
    assert_true(bad > len - 100); /* all but those that end between two fields */
    assert_int_equal(about_read((struct belfry_bytes){0}, &read), BELFRY_OK);
    assert_string_equal(read.self.name, "");
}

static enum belfry_err nothing_is_allocated(void)
{
    struct about about, read;
    uint8_t message[ABOUT_BYTES];
    fill_all(&about);
    return about_read(belfry_bytes_of(message, about_write(&about, message)), &read);
}

static void refused_allocation_changes_nothing(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(nothing_is_allocated), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_however_large),
        cmocka_unit_test(first_tiers_said_only_name_and_version),
        cmocka_unit_test(addresses_are_told_to_nobody),
        cmocka_unit_test(message_over_its_bound_is_not_read),
        cmocka_unit_test(tier_is_known_by_its_version_not_by_its_name),
        cmocka_unit_test(what_could_upset_a_terminal_is_not_kept),
        cmocka_unit_test(more_than_there_is_room_for_is_left_out),
        cmocka_unit_test(what_is_cut_short_is_refused),
        cmocka_unit_test(refused_allocation_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
