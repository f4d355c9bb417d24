/* src/kapi/frames_fixture.h: for suites: feeds frames text in pieces, and keeps what it finds. */
#ifndef BELFRY_KAPI_FRAMES_FIXTURE_H
#define BELFRY_KAPI_FRAMES_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "kapi/frames.h"

#define TEXTS_MAX 16
#define ROOMY     ((size_t)1 << 20)

struct found {
    char *texts[TEXTS_MAX];
    size_t n;
    bool envelope; /* the last is one */
    enum belfry_err err;
};

static inline void free_found(struct found *found)
{
    for (size_t i = 0; i < found->n; i++)
        free(found->texts[i]);
}

/* Everything that is there. */
static inline void drain(struct belfry_frames *frames, struct found *found)
{
    struct belfry_bytes frame;
    for (;;) {
        bool envelope;
        found->err = belfry_frames_next(frames, &frame, &envelope);
        if (found->err != BELFRY_OK)
            return;
        assert_true(found->n < TEXTS_MAX && !found->envelope);
        found->envelope = envelope;
        found->texts[found->n] = strndup(frame.data, frame.len);
        assert_non_null(found->texts[found->n]);
        assert_int_equal(strlen(found->texts[found->n++]), frame.len);
    }
}

/* In pieces of 1 to `piece_max` bytes, some of them fed together. */
static inline struct found find(enum belfry_frames_mode mode, struct belfry_bytes text, size_t max_bytes,
                                size_t piece_max, struct belfry_rng *rng, bool *out_clean)
{
    struct belfry_frames *frames;
    struct found found = {.err = BELFRY_ERR_AGAIN};
    assert_int_equal(belfry_frames_create(mode, max_bytes, &frames), BELFRY_OK);
    for (size_t at = 0; at < text.len && found.err == BELFRY_ERR_AGAIN;) {
        size_t n = 1 + belfry_rng_below(rng, piece_max);
        n = n < text.len - at ? n : text.len - at;
        assert_int_equal(belfry_frames_feed(frames, belfry_bytes_of(text.data + at, n)), BELFRY_OK);
        at += n;
        if (at == text.len || belfry_rng_below(rng, 4) != 0)
            drain(frames, &found);
    }
    *out_clean = belfry_frames_clean(frames);
    belfry_frames_destroy(frames);
    return found;
}

#endif
