/* src/core/registry_bed_test.h: a registry with all it stands on, for the suites of registry and cut. */
#ifndef BELFRY_CORE_REGISTRY_BED_TEST_H
#define BELFRY_CORE_REGISTRY_BED_TEST_H

#include "core/registry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "support/refuse.h"

#define BED_P    10 /* the position that the registry begins at */
#define BED_WORK 1000

static struct {
    struct turn turn;
    struct interest *interest;
    struct output output;
    struct registry registry;
} bed;

static void bed_write(void *user, const uint8_t *data, size_t len)
{
    (void)user;
    (void)data;
    (void)len;
}

static enum belfry_err bed_create(void)
{
    const struct output_opts opts = {.response_bytes = 1 << 20, .response_revs = 9, .write = bed_write};
    bed.turn = (struct turn){.now = 1000, .work = BED_WORK, .retry_at = BELFRY_NEVER};
    enum belfry_err err = interest_create(7, &bed.interest);
    if (err != BELFRY_OK)
        return err;
    err = output_init(&bed.output, &opts, &bed.turn);
    if (err != BELFRY_OK) {
        interest_destroy(bed.interest);
        return err;
    }
    registry_init(&bed.registry, &bed.turn, bed.interest, &bed.output);
    bed.registry.progress_ms = 600;
    bed.registry.p = (struct position){.past = 1, .at = BED_P};
    return BELFRY_OK;
}

/* Closes the streams that are open; nothing may be accounted afterwards. */
static void bed_destroy(void)
{
    bed.turn.work = SIZE_MAX;
    while (!belfry_list_empty(&bed.registry.streams))
        registry_close(&bed.registry, belfry_container(bed.registry.streams.next, struct stream, link));
    registry_take_down(&bed.registry);
    assert_int_equal(bed.registry.bytes, 0);
    assert_int_equal(bed.registry.n_streams, 0);
    assert_int_equal(bed.registry.n_parked, 0);
    assert_int_equal(bed.registry.n_riding_parked, 0);
    for (size_t i = 0; i < WATCHER_STATES; i++)
        assert_int_equal(bed.registry.n_state[i], 0);
    assert_int_equal(bed.registry.waiting.n, 0);
    assert_null(bed.registry.ticks);
    assert_int_equal(interest_n_nodes(bed.interest), 0);
    output_fini(&bed.output);
    interest_destroy(bed.interest);
}

static int bed_setup(void **state)
{
    (void)state;
    return bed_create() == BELFRY_OK ? 0 : -1;
}

static int bed_teardown(void **state)
{
    (void)state;
    bed_destroy();
    return 0;
}

static struct stream *open_stream(size_t room)
{
    struct stream *stream;
    assert_int_equal(registry_open(&bed.registry, NULL, NULL, bed.turn.now, &stream), BELFRY_OK);
    stream->outlet.room = room;
    return stream;
}

static enum belfry_err try_watcher(struct stream *stream, int64_t id, uint8_t flags, struct watcher **out)
{
    const struct range range = {RANGE_PREFIX, belfry_bytes_str("k"), {0}};
    struct interest_node *node;
    enum belfry_err err = interest_add(bed.interest, &range, NULL, &node);
    if (err != BELFRY_OK)
        return err;
    err = watcher_add(&bed.registry, stream, id, flags, node, out);
    if (err != BELFRY_OK)
        interest_drop(bed.interest, node);
    return err;
}

/* A watcher in no place. */
static struct watcher *add_watcher(struct stream *stream, int64_t id)
{
    struct watcher *watcher;
    assert_int_equal(try_watcher(stream, id, 0, &watcher), BELFRY_OK);
    return watcher;
}

static struct watcher *place_watcher(struct stream *stream, int64_t id, int64_t next)
{
    struct watcher *watcher = add_watcher(stream, id);
    watcher_place(&bed.registry, watcher, next);
    return watcher;
}

#endif
