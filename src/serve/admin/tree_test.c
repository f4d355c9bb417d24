/* src/serve/admin/tree_test.c */
#include "serve/admin/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "serve/admin/numbers.h"
#include "support/refuse.h"

static void add(struct tree_below *below, const char *name, const char *peer, uint64_t since_ms, int64_t position)
{
    struct tree_tier tier = {.since_ms = since_ms, .streams = 1, .position = position};
    snprintf(tier.name, sizeof(tier.name), "%s", name);
    snprintf(tier.peer, sizeof(tier.peer), "%s", peer);
    tree_below_add(below, &tier);
}

static struct tree_below *rooms[2]; /* made by main() */
static struct worker_numbers workers[2];

static struct tier_numbers scene(void)
{
    struct tree_below *one = rooms[0], *two = rooms[1];
    one->n = two->n = 0;
    add(one, "edge-2", "10.0.0.2:4000", 5000, 90);
    add(one, "edge-1", "10.0.0.1:4001", 4000, 40);
    add(two, "edge-1", "10.0.0.1:4000", 3000, 100);
    add(two, "edge-1", "10.0.0.9:4000", 9000, 0);
    workers[0] = (struct worker_numbers){.answered = true, .below = one};
    workers[1] = (struct worker_numbers){.answered = true, .below = two};
    struct tier_numbers numbers = {.now_ms = 10000, .n_workers = 2, .workers = workers};
    numbers.about = (struct about){
        .self = {.name = "mid", .version = "belfryd/1", .standing = ABOUT_READY, .revision = 100, .silent_ms = 7},
        .n_above = 2};
    numbers.about.self.hop = ABOUT_HOP_MEASURED;
    numbers.about.self.hop_us = 431;
    numbers.about.self.hop_error_us = 62;
    numbers.about.above[0] = (struct about_level){.name = "top",
                                                  .version = "belfryd/1",
                                                  .endpoint = "http://top:23790",
                                                  .standing = ABOUT_STALE,
                                                  .revision = 101,
                                                  .lag = 2,
                                                  .silent_ms = BELFRY_NEVER,
                                                  .hop = ABOUT_HOP_HALF_TRIP,
                                                  .hop_us = 200,
                                                  .age_ms = 900};
    numbers.about.above[1] = (struct about_level){.name = "etcd", .silent_ms = BELFRY_NEVER, .revision = 103};
    return numbers;
}

static void streams_of_one_name_and_host_are_one_tier(void **state)
{
    (void)state;
    struct tier_numbers numbers = scene();
    struct tree_below *all = tree_gather(&numbers);
    assert_non_null(all);
    assert_int_equal(all->n, 3);
    const struct tree_tier *one = &all->tiers[0];
    assert_string_equal(one->name, "edge-1");
    assert_string_equal(one->peer, "10.0.0.1:4000"); /* of the oldest */
    assert_int_equal(one->streams, 2);
    assert_int_equal(one->since_ms, 3000);
    assert_int_equal(one->position, 100);
    free(all);
}

static void tiers_below_are_bounded_and_the_rest_counted(void **state)
{
    (void)state;
    struct tree_below *many = tree_below_create(TREE_STREAMS);
    struct worker_numbers worker = {.answered = true, .below = many};
    struct tier_numbers numbers = {.n_workers = 1, .workers = &worker};
    char name[32];
    assert_non_null(many);
    for (int i = 0; i < TREE_STREAMS + 5; i++) { /* two streams each */
        snprintf(name, sizeof(name), "t%04d", i / 2 % (TREE_BELOW / 2));
        add(many, name, i % 2 == 0 ? "h:1" : "h:2", 0, 0);
    }
    assert_int_equal(many->n, TREE_STREAMS);
    assert_int_equal(many->more, 5);
    struct tree_below *all = tree_gather(&numbers);
    assert_int_equal(all->n, TREE_BELOW / 2);
    assert_int_equal(all->tiers[7].streams, 4);
    assert_int_equal(all->more, 5);
    free(all);
    many->n = 0;
    for (int i = 0; i < TREE_BELOW + 7; i++) {
        snprintf(name, sizeof(name), "t%04d", i);
        add(many, name, "h:1", 0, 0);
    }
    all = tree_gather(&numbers);
    assert_int_equal(all->n, TREE_BELOW);
    assert_int_equal(all->more, 5 + 7);
    free(all);
    free(many);
}

static void tree_is_written_for_programs(void **state)
{
    (void)state;
    struct tier_numbers numbers = scene();
    struct belfry_buf out;
    belfry_buf_init(&out);
    assert_int_equal(tree_write_json(&numbers, TREE_BELOW, &out), BELFRY_OK);
    assert_int_equal(belfry_buf_append(&out, "", 1), BELFRY_OK);
    const char *text = belfry_buf_bytes(&out).data;
    assert_non_null(strstr(text, "{\"above\":[{\"level\":2,\"name\":\"etcd\",\"revision\":103,\"lag\":0,\"age_ms\":0},"
                                 "{\"level\":1,\"name\":\"top\",\"version\":\"belfryd/1\","
                                 "\"endpoint\":\"http://top:23790\",\"standing\":\"stale\",\"revision\":101,\"lag\":2,"
                                 "\"hop\":\"half_trip\",\"hop_us\":200,\"age_ms\":900}],\"self\":{\"level\":0,"
                                 "\"name\":\"mid\",\"version\":\"belfryd/1\",\"standing\":\"ready\",\"revision\":100,"
                                 "\"lag\":0,\"silent_ms\":7,\"hop\":\"measured\",\"hop_us\":431,\"hop_error_us\":62,"));
    assert_non_null(strstr(text, "{\"name\":\"edge-2\",\"peer\":\"10.0.0.2:4000\",\"since_ms\":5000,\"streams\":1,"
                                 "\"position\":90,\"lag\":10}],\"more\":0}\n"));
    belfry_buf_fini(&out);
}

static void tiers_beyond_what_is_wanted_are_counted(void **state)
{
    (void)state;
    struct tier_numbers numbers = scene();
    struct belfry_buf out;
    belfry_buf_init(&out);
    assert_int_equal(tree_write_json(&numbers, 1, &out), BELFRY_OK);
    assert_int_equal(belfry_buf_append(&out, "", 1), BELFRY_OK);
    const char *text = belfry_buf_bytes(&out).data;
    struct tree_below *all = tree_gather(&numbers);
    char more[32];
    size_t streams = 0;
    for (size_t i = 1; i < all->n; i++)
        streams += all->tiers[i].streams;
    snprintf(more, sizeof(more), "],\"more\":%zu}", streams);
    free(all);
    assert_true(streams > 1);
    assert_non_null(strstr(text, more));
    assert_non_null(strstr(text, "\"below\":[{\"name\":\"edge-1\""));
    assert_null(strstr(text, "edge-2"));
    belfry_buf_fini(&out);
}

static void tree_is_written_for_people(void **state)
{
    (void)state;
    struct tier_numbers numbers = scene();
    struct belfry_buf out;
    belfry_buf_init(&out);
    assert_int_equal(tree_write_text(&numbers, &out), BELFRY_OK);
    assert_int_equal(belfry_buf_append(&out, "", 1), BELFRY_OK);
    const char *text = belfry_buf_bytes(&out).data;
    assert_non_null(strstr(text, "0.431 ms +- 0.062"));
    assert_non_null(strstr(text, "0.200 ms (rtt/2)"));
    assert_non_null(strstr(text, "below: 3\n"));
    belfry_buf_fini(&out);
}

/* Both forms, one behind the other; the caller frees nothing: the room is static. */
static const char *write_text(const struct tier_numbers *numbers)
{
    static char room[8192];
    struct belfry_buf out;
    belfry_buf_init(&out);
    assert_int_equal(tree_write_json(numbers, TREE_BELOW, &out), BELFRY_OK);
    assert_int_equal(tree_write_text(numbers, &out), BELFRY_OK);
    struct belfry_bytes bytes = belfry_buf_bytes(&out);
    snprintf(room, sizeof(room), "%.*s", (int)bytes.len, bytes.data);
    belfry_buf_fini(&out);
    return room;
}

static void old_knowledge_is_kept_with_its_age_and_not_called_a_standing(void **state)
{
    (void)state;
    struct tier_numbers numbers = scene();
    numbers.about.above[0].standing = ABOUT_READY;
    numbers.about.above[0].age_ms = 4000;
    numbers.about.above[1].age_ms = 4000;
    const char *text = write_text(&numbers);
    assert_non_null(strstr(text, "\"standing\":\"?\",\"last_standing\":\"ready\""));
    assert_non_null(strstr(text, "\"age_ms\":4000"));
    assert_non_null(strstr(text, "    1 top   1        ready?      4.0 s "));
    assert_non_null(strstr(text, "    2 etcd  -        -           4.0 s "));
    assert_non_null(strstr(text, "    0 mid   1        ready       0.0 s "));
    assert_null(strstr(text, "broken"));
}

static void the_highest_broken_link_is_named_with_its_time(void **state)
{
    (void)state;
    struct tier_numbers numbers = scene();
    numbers.about.self.standing = ABOUT_STALE;
    numbers.about.self.trouble = ABOUT_ABOVE_NOT_READY;
    numbers.about.above[0].trouble = ABOUT_UNREACHABLE;
    numbers.about.above[0].silent_ms = 16000;
    const char *text = write_text(&numbers);
    assert_non_null(strstr(text, "\nbroken: top cannot connect to etcd, for 16.9 s\n"));
    assert_non_null(strstr(text, "\"broken\":{\"level\":1,\"name\":\"top\",\"above\":\"etcd\",\"for_ms\":16900,"
                                 "\"what\":\"top cannot connect to etcd\"}"));
    numbers.about.above[0].age_ms = 9000; /* it does not report any more: our own link to it is broken */
    numbers.about.self.trouble = ABOUT_UNREACHABLE;
    numbers.upstream_answered = true;
    snprintf(numbers.upstream.reason, sizeof(numbers.upstream.reason), "http://top:23790: connection refused");
    text = write_text(&numbers);
    assert_non_null(strstr(text, "\nbroken: mid cannot connect to top, for 0.0 s\n        http://top:23790: connection "
                                 "refused\n"));
    for (enum about_trouble t = 0; t < ABOUT_TROUBLES; t++) {
        numbers.about.self.trouble = t;
        assert_non_null(strstr(write_text(&numbers), "\nbroken: mid "));
    }
}

/* With names of eight bytes and revisions of ten digits. */
static void a_usual_tree_has_lines_of_80_columns(void **state)
{
    (void)state;
    struct tier_numbers numbers = scene();
    struct belfry_buf out;
    snprintf(numbers.about.above[0].version, sizeof(numbers.about.above[0].version), "belfryd/0.2.1-dev");
    snprintf(numbers.about.above[0].name, sizeof(numbers.about.above[0].name), "central1");
    numbers.about.above[0].revision = INT64_C(4812070100);
    numbers.about.above[0].hop = ABOUT_HOP_MEASURED;
    belfry_buf_init(&out);
    assert_int_equal(tree_write_text(&numbers, &out), BELFRY_OK);
    struct belfry_bytes bytes = belfry_buf_bytes(&out);
    for (const char *line = bytes.data, *end;
         (end = memchr(line, '\n', (size_t)(bytes.data + bytes.len - line))) != NULL; line = end + 1)
        assert_true(end - line <= 80);
    belfry_buf_fini(&out);
}

static enum belfry_err write_both(void)
{
    struct tier_numbers numbers = scene();
    struct belfry_buf out;
    belfry_buf_init(&out);
    enum belfry_err err = tree_write_json(&numbers, TREE_BELOW, &out);
    if (err == BELFRY_OK)
        err = tree_write_text(&numbers, &out);
    belfry_buf_fini(&out);
    return err;
}

static void refused_allocation_is_told(void **state)
{
    (void)state;
    assert_true(refuse_sweep(write_both) > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_of_one_name_and_host_are_one_tier),
        cmocka_unit_test(tiers_below_are_bounded_and_the_rest_counted),
        cmocka_unit_test(tree_is_written_for_programs),
        cmocka_unit_test(tiers_beyond_what_is_wanted_are_counted),
        cmocka_unit_test(tree_is_written_for_people),
        cmocka_unit_test(old_knowledge_is_kept_with_its_age_and_not_called_a_standing),
        cmocka_unit_test(the_highest_broken_link_is_named_with_its_time),
        cmocka_unit_test(a_usual_tree_has_lines_of_80_columns),
        cmocka_unit_test(refused_allocation_is_told),
    };
    for (int i = 0; i < 2; i++) {
        rooms[i] = tree_below_create(4);
        if (rooms[i] == NULL)
            return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(rooms[0]);
    free(rooms[1]);
    return failed;
}
