/* src/serve/reads/read_rights.c */
#include "serve/reads/read_rights.h"

#include <stdlib.h>

#include "base/owner.h"

/* One range. */
struct right {
    struct read_rights *rights;
    struct permit_question *question; /* NULL: it is answered, or was not asked */
};

struct read_rights {
    permit_fn fn;
    void *user;
    size_t n, n_waiting;
    BELFRY_OWNER;
    struct right each[];
};

void read_rights_cancel(struct read_rights *rights)
{
    if (rights == NULL)
        return;
    BELFRY_OWNER_CHECK(rights);
    for (size_t i = 0; i < rights->n; i++) {
        if (rights->each[i].question != NULL)
            permit_cancel(rights->each[i].question);
    }
    free(rights);
}

/* The first that is not granted decides, and so does the last. */
static void on_right(enum permit_verdict verdict, const char *reason, void *user)
{
    struct right *right = user;
    struct read_rights *rights = right->rights;
    bool is_granted = verdict == PERMIT_GRANTED || verdict == PERMIT_HELD;
    right->question = NULL;
    if (--rights->n_waiting > 0 && is_granted)
        return;
    permit_fn fn = rights->fn;
    void *to = rights->user;
    read_rights_cancel(rights);
    fn(verdict, reason, to);
}

static bool is_among(const struct read_request_span *spans, size_t n, const struct read_request_span *span)
{
    for (size_t i = 0; i < n; i++) {
        if (belfry_bytes_equal(spans[i].key, span->key) && belfry_bytes_equal(spans[i].range_end, span->range_end))
            return true;
    }
    return false;
}

/* The ranges of a request, each once. False: there are too many. */
static bool gather_spans(const struct read_request *request, struct read_request_span out[READ_RIGHTS_MAX], size_t *n)
{
    struct read_request_walk walk = {0};
    struct read_request_span span;
    *n = 0;
    while (read_request_next_span(request, &walk, &span)) {
        if (is_among(out, *n, &span))
            continue;
        if (*n == READ_RIGHTS_MAX)
            return false;
        out[(*n)++] = span;
    }
    return true;
}

enum belfry_err read_rights_ask(struct permit *permit, const struct identity *who, const struct read_request *request,
                                uint64_t now_ms, permit_fn fn, void *user, struct read_rights **out)
{
    struct read_request_span spans[READ_RIGHTS_MAX];
    size_t n;
    if (!gather_spans(request, spans, &n) || n == 0)
        return BELFRY_ERR_LIMIT;
    struct read_rights *rights = calloc(1, sizeof(*rights) + n * sizeof(rights->each[0]));
    if (rights == NULL)
        return BELFRY_ERR_NOMEM;
    rights->fn = fn;
    rights->user = user;
    rights->n = rights->n_waiting = n;
    BELFRY_OWNER_INIT(rights);
    enum belfry_err err = BELFRY_OK;
    for (size_t i = 0; i < n && err == BELFRY_OK; i++) {
        struct right *right = &rights->each[i];
        right->rights = rights;
        err = permit_ask(permit, who, spans[i].key, spans[i].range_end, now_ms, on_right, right, &right->question);
    }
    if (err != BELFRY_OK) {
        read_rights_cancel(rights);
        return err;
    }
    *out = rights;
    return BELFRY_OK;
}
