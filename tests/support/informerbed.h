/* tests/support/informerbed.h: an informer on a session without servers, with a source that the test speaks for and
 * handlers that keep what they are told. Included by the suites that need it, after cmocka. */
#ifndef BELFRY_TESTS_INFORMERBED_H
#define BELFRY_TESTS_INFORMERBED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "client/opts.h"
#include "informer/informer.h"
#include "support/refuse.h"

#define KEYS     140 /* more than a slice */
#define HANDLERS 6

/* ---- the bed ---- */

struct listener {
    struct belfry_handler *handler; /* NULL: the first, or gone */
    bool there;
    int64_t holds[KEYS]; /* the revision it was told; 0: nothing */
    int n[BELFRY_NEWS_END + 1], n_missed, n_resync, n_initial, err;
    int64_t last_rev; /* of the last object removed */
    char why[200];
    enum belfry_next answer; /* to the next call */
};

static struct bed {
    struct belfry *b;
    struct belfry_informer *informer; /* NULL: not open */
    struct listener listeners[HANDLERS];
    int n_listeners;
    /* the source */
    bool attached, source_paused, source_closed;
    int n_pauses, n_resumes;
    struct belfry_source_counts counts;
    /* what the source has */
    int64_t truth[KEYS], rev;
    /* inside the at-th call of all from now on */
    void (*act)(struct listener *listener);
    int n_calls, act_at;
    bool close_session;
} bed;

static inline void source_pause(void *source)
{
    assert_ptr_equal(source, &bed);
    assert_false(bed.source_paused || bed.source_closed);
    bed.source_paused = true;
    bed.n_pauses++;
}

static inline void source_resume(void *source)
{
    assert_ptr_equal(source, &bed);
    assert_true(bed.source_paused && !bed.source_closed);
    bed.source_paused = false;
    bed.n_resumes++;
}

static inline void source_counts(const void *source, struct belfry_source_counts *out)
{
    assert_ptr_equal(source, &bed);
    *out = bed.counts;
}

static inline void source_close(void *source)
{
    assert_ptr_equal(source, &bed);
    assert_false(bed.source_closed);
    bed.source_closed = true;
}

static const struct belfry_source_ops source_ops = {
    .pause = source_pause, .resume = source_resume, .counts = source_counts, .close = source_close};

static inline struct belfry_bytes key_name(int i)
{
    static char name[16];
    snprintf(name, sizeof(name), "k%04d", i);
    return belfry_bytes_str(name);
}

static inline int key_number(const struct belfry_object *object)
{
    char text[16] = "";
    struct belfry_bytes key = belfry_object_key(object);
    memcpy(text, key.data, key.len);
    return atoi(text + 1);
}

static inline void note_change(struct listener *listener, const struct belfry_news *news)
{
    int key = key_number(news->object);
    listener->n_missed += news->missed;
    listener->n_resync += news->resync;
    listener->n_initial += news->initial;
    if (news->kind == BELFRY_NEWS_ADDED) {
        assert_int_equal(listener->holds[key], 0);
        listener->holds[key] = belfry_object_rev(news->object);
    } else if (news->kind == BELFRY_NEWS_UPDATED) {
        assert_int_equal(belfry_object_rev(news->old), listener->holds[key]);
        listener->holds[key] = belfry_object_rev(news->object);
    } else {
        assert_int_not_equal(listener->holds[key], 0);
        assert_null(belfry_informer_get(bed.informer, key_name(key))); /* the store is moved first */
        listener->holds[key] = 0;
        listener->last_rev = belfry_object_rev(news->object);
    }
}

static inline enum belfry_next on_news(struct belfry_informer *informer, const struct belfry_news *news, void *user)
{
    struct listener *listener = user;
    assert_true(listener->there);
    assert_int_equal(listener->n[BELFRY_NEWS_END], 0);
    assert_true(bed.informer == NULL || informer == bed.informer);
    listener->n[news->kind]++;
    if (news->object != NULL)
        note_change(listener, news);
    if (news->kind == BELFRY_NEWS_LINK || news->kind == BELFRY_NEWS_END) {
        snprintf(listener->why, sizeof(listener->why), "%s", news->why);
        listener->err = news->err;
    }
    enum belfry_next answer = listener->answer;
    listener->answer = BELFRY_MORE;
    if (bed.act != NULL && bed.n_calls++ == bed.act_at)
        bed.act(listener);
    if (answer == BELFRY_STOP)
        listener->there = false;
    return answer;
}

static inline struct listener *new_listener(void)
{
    assert_true(bed.n_listeners < HANDLERS);
    struct listener *listener = &bed.listeners[bed.n_listeners++];
    listener->there = true;
    return listener;
}

static inline int try_open(const struct belfry_opts *opts)
{
    struct listener *first = new_listener();
    int err = belfry_informer_create(bed.b, opts, BELFRY_FOR_INFORMER_KEYS, on_news, first, &bed.informer);
    if (err != BELFRY_OK)
        return err;
    belfry_informer_attach(bed.informer, (struct belfry_source){.ops = &source_ops, .impl = &bed});
    bed.attached = true;
    return BELFRY_OK;
}

static inline struct listener *open_with(const char *name, const char *value)
{
    struct belfry_opts *opts = NULL;
    memset(&bed, 0, sizeof(bed));
    assert_int_equal(belfry_open(NULL, NULL, &bed.b), BELFRY_OK);
    if (name != NULL)
        assert_int_equal(belfry_opts_set(&opts, name, value), BELFRY_OK);
    assert_int_equal(try_open(opts), BELFRY_OK);
    belfry_opts_free(opts);
    return &bed.listeners[0];
}

static inline struct listener *open_one(void)
{
    return open_with(NULL, NULL);
}

static inline struct listener *add(void)
{
    struct listener *listener = new_listener();
    assert_int_equal(belfry_informer_add(bed.informer, NULL, on_news, listener, &listener->handler), BELFRY_OK);
    return listener;
}

static inline void close_informer(void)
{
    struct belfry_informer *informer = bed.informer;
    bed.informer = NULL;
    for (int i = 0; i < bed.n_listeners; i++)
        bed.listeners[i].there = false;
    belfry_informer_close(informer);
}

static inline int tear_down(void **state)
{
    (void)state;
    bed.act = NULL;
    belfry_close(bed.b);
    bed.b = NULL;
    if (bed.attached && !bed.source_closed)
        return -1;
    return refuse_held() == 0 ? 0 : -1;
}

/* Until nothing is due. */
static inline void settle(void)
{
    for (int i = 0; i < 10000 && belfry_timers_due(&bed.b->timers) <= belfry_clock_ms(); i++)
        assert_int_equal(belfry_dispatch(bed.b), BELFRY_OK);
    assert_true(belfry_timers_due(&bed.b->timers) > belfry_clock_ms());
}

/* ---- the source speaks, unless it was closed ---- */

#define EVENTS (&belfry_informer_events)

static inline struct belfry_object *make(int key, int64_t rev)
{
    struct belfry_object *object;
    char value[64];
    snprintf(value, sizeof(value), "{\"n\":%d,\"tags\":[\"t%d\",\"all\"]}", key, key % 3);
    struct belfry_object_key_value kv = {.key = key_name(key), .value = belfry_bytes_str(value), .rev = rev};
    return belfry_object_of_key(&kv, &object) == BELFRY_OK ? object : NULL;
}

static inline void say_put(int key, int64_t rev)
{
    if (bed.source_closed)
        return;
    struct belfry_object *object = make(key, rev);
    if (object != NULL)
        EVENTS->put(object, bed.informer);
    else
        EVENTS->end(BELFRY_ERR_NOMEM, "no memory in the source", bed.informer);
}

static inline void write_key(int key)
{
    bed.truth[key] = ++bed.rev;
    say_put(key, bed.truth[key]);
}

static inline void remove_key(int key, bool with_last, bool missed)
{
    struct belfry_object *last = with_last && !bed.source_closed ? make(key, bed.rev + 1) : NULL;
    bed.truth[key] = 0;
    bed.rev++;
    if (!bed.source_closed)
        EVENTS->removed(key_name(key), last, missed, bed.informer);
}

static inline void say_begin(void)
{
    if (!bed.source_closed)
        EVENTS->begin(bed.informer);
}

static inline void say_synced(void)
{
    if (!bed.source_closed)
        EVENTS->synced(bed.informer);
}

static inline void say_link(enum belfry_err err, const char *why)
{
    if (!bed.source_closed)
        EVENTS->link(err, why, bed.informer);
}

static inline void list_all(void)
{
    say_begin();
    for (int key = 0; key < KEYS; key++) {
        if (bed.truth[key] != 0)
            say_put(key, bed.truth[key]);
    }
    say_synced();
}

static inline void assert_holds_the_truth(const struct listener *listener)
{
    for (int key = 0; key < KEYS; key++) {
        assert_int_equal(listener->holds[key], bed.truth[key]);
        const struct belfry_object *object = belfry_informer_get(bed.informer, key_name(key));
        assert_int_equal(object == NULL ? 0 : belfry_object_rev(object), bed.truth[key]);
    }
}

#endif
