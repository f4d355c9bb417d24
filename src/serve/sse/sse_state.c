/* src/serve/sse/sse_state.c */
#include "serve/sse/sse_state.h"

/* A step under way. */
struct step {
    struct sse_state *state;
    struct belfry_buf changes;
    struct belfry_buf next;
    uint64_t n;
    enum belfry_err err;
};

void sse_state_init(struct sse_state *state, const struct sse_ranges *ranges, enum sse_value value)
{
    *state = (struct sse_state){.ranges = *ranges, .value = value};
    belfry_buf_init(&state->next);
}

void sse_state_fini(struct sse_state *state)
{
    belfry_buf_fini(&state->next);
}

static enum belfry_err write_row(struct step *step, struct belfry_bytes kv)
{
    struct belfry_wire_kv fields;
    if (belfry_scan_kv(kv, &fields) != BELFRY_OK)
        return BELFRY_ERR_IO;
    struct sse_change change = {.key = fields.key, .value = fields.value};
    enum belfry_err err = belfry_buf_len(&step->changes) == 0 ? BELFRY_OK : belfry_buf_append(&step->changes, ",", 1);
    return err != BELFRY_OK ? err : sse_text_change(&change, step->state->value, &step->changes);
}

/* The next step goes on behind this key. */
static enum belfry_err note_place(struct step *step, struct belfry_bytes key)
{
    belfry_buf_clear(&step->next);
    enum belfry_err err = belfry_buf_append(&step->next, key.data, key.len);
    return err != BELFRY_OK ? err : belfry_buf_append(&step->next, "", 1);
}

/* False: that is enough, or step->err. A key that an earlier range has, too, was given with that. */
static bool on_row(struct belfry_bytes key, struct belfry_bytes kv, void *user)
{
    struct step *step = user;
    const struct sse_state *state = step->state;
    step->err = note_place(step, key);
    if (step->err == BELFRY_OK && !sse_ranges_have(&state->ranges, state->at, key)) {
        step->err = write_row(step, kv);
        step->n++;
    }
    return step->err == BELFRY_OK && belfry_buf_len(&step->changes) < SSE_STATE_BYTES;
}

static enum belfry_err read_rows(struct step *step, struct store *store, struct store_page *page)
{
    struct sse_state *state = step->state;
    struct belfry_buf end;
    struct store_read read = {
        .rev = state->rev, .max_rows = SSE_STATE_ROWS, .max_bytes = SSE_STATE_BYTES, .max_walk = SSE_STATE_WALK};
    belfry_buf_init(&end);
    enum belfry_err err = sse_range_interval(&state->ranges.list[state->at], &read.key, &end);
    read.end = belfry_buf_bytes(&end);
    if (belfry_buf_len(&state->next) > 0)
        read.key = belfry_buf_bytes(&state->next);
    if (err == BELFRY_OK)
        err = store->api->range(store, &read, on_row, step, page);
    belfry_buf_fini(&end);
    if (err == BELFRY_ERR_AGAIN && state->rev != 0)
        return BELFRY_ERR_CANCELED; /* it was there before */
    return err != BELFRY_OK ? err : step->err;
}

/* The store as it was found by the first step, or else. */
static enum belfry_err check_page(const struct sse_state *state, const struct store_page *page)
{
    if (page->at == 0)
        return BELFRY_ERR_AGAIN;
    return state->rev != 0 && page->meta.past != state->past ? BELFRY_ERR_CANCELED : BELFRY_OK;
}

/* The step has succeeded. */
static void move_on(struct step *step, const struct store_page *page)
{
    struct sse_state *state = step->state;
    state->rev = page->at;
    state->past = page->meta.past;
    state->cluster_id = page->meta.cluster_id;
    state->n += step->n;
    bool more = page->more;
    if (more && belfry_buf_len(&step->next) > 0) {
        struct belfry_buf before = state->next;
        state->next = step->next;
        step->next = before;
    } else if (!more) {
        state->at++;
        belfry_buf_clear(&state->next);
    }
}

enum belfry_err sse_state_step(struct sse_state *state, struct store *store, struct belfry_buf *out)
{
    struct step step = {.state = state};
    struct store_page page;
    struct belfry_buf message;
    belfry_buf_init(&step.changes);
    belfry_buf_init(&step.next);
    belfry_buf_init(&message);
    enum belfry_err err = read_rows(&step, store, &page);
    if (err == BELFRY_OK)
        err = check_page(state, &page);
    if (err == BELFRY_OK && belfry_buf_len(&step.changes) > 0)
        err = sse_text_state(belfry_buf_bytes(&step.changes), &message);
    if (err == BELFRY_OK)
        err = belfry_buf_append(out, message.data, belfry_buf_len(&message));
    if (err == BELFRY_OK)
        move_on(&step, &page);
    belfry_buf_fini(&message);
    belfry_buf_fini(&step.changes);
    belfry_buf_fini(&step.next);
    return err;
}
