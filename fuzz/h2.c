/* fuzz/h2.c: raw bytes from a peer that may be anybody, fed to a connection with calls open.
 *
 * The input is a list of steps (steps.h): bytes arrive, time passes and bytes are pulled, or a call is opened, held,
 * released, cancelled or sent on. Every call must end exactly once unless it is cancelled, and nothing may be left
 * allocated.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/clock.h"
#include "net/grpc.h"

#include "steps.h"

#define N_CALLS 4

struct fuzz {
    struct belfry_http *grpc;
    struct belfry_grpc_call *calls[N_CALLS]; /* NULL: none */
    uint64_t now_ms;
    size_t n_messages;
};

static void expect(bool truth)
{
    if (!truth)
        abort();
}

/* The user of a call is its place in `calls`, so that a callback finds it again. */
static struct fuzz fuzz;

static void on_message(struct belfry_grpc_call *call, struct belfry_blob *message, void *user)
{
    struct belfry_grpc_call **place = user;
    expect(*place == call);
    expect(belfry_blob_len(message) <= 1 << 20);
    if (fuzz.n_messages++ % 5 == 4) {
        belfry_grpc_call_cancel(call);
        *place = NULL;
    }
}

static void on_closed(struct belfry_grpc_call *call, const struct belfry_grpc_status *status, void *user)
{
    struct belfry_grpc_call **place = user;
    expect(*place == call);
    expect(status->message != NULL && status->code >= 0 && status->code <= 16);
    *place = NULL;
}

static void open_at(struct belfry_grpc_call **place)
{
    static const struct belfry_grpc_events events = {on_message, on_closed};
    struct belfry_grpc_call_opts opts = {.path = "/s/m", .deadline_ms = fuzz.now_ms + 60000};
    if (belfry_grpc_call_open(fuzz.grpc, &opts, &events, place, place) != BELFRY_OK)
        return;
    expect(belfry_grpc_call_send(*place, belfry_bytes_str("ask")) == BELFRY_OK);
}

static void pull_all(void)
{
    struct belfry_bytes out = {NULL, 1};
    while (out.len > 0 && belfry_http_pull(fuzz.grpc, fuzz.now_ms, &out) == BELFRY_OK)
        ;
}

/* Steps that concern one call. */
static void act(unsigned what, struct belfry_grpc_call **place)
{
    if (*place == NULL) {
        open_at(place);
        return;
    }
    if (what < 3) {
        belfry_grpc_call_half_close(*place);
    } else {
        belfry_grpc_call_cancel(*place);
        *place = NULL;
    }
}

static void take(const struct step *step)
{
    switch (step->kind) {
    case STEP_PIECE:
        belfry_ignore(belfry_http_receive(fuzz.grpc, belfry_bytes_of(step->piece, step->n), fuzz.now_ms));
        break;
    case STEP_TIME:
        if ((step->n & 1) != 0)
            pull_all();
        fuzz.now_ms += step->n * 400;
        belfry_ignore(belfry_http_tick(fuzz.grpc, fuzz.now_ms));
        break;
    case STEP_ACT:
        act((unsigned)(step->n >> 2) & 3, &fuzz.calls[step->n & (N_CALLS - 1)]);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct belfry_grpc_opts opts = {.scheme = "http",
                                                 .authority = "127.0.0.1:2379",
                                                 .user_agent = "fuzz",
                                                 .keepalive_ms = 10000,
                                                 .keepalive_timeout_ms = 5000,
                                                 .max_message_bytes = 1 << 20};
    fuzz = (struct fuzz){.now_ms = 1};
    expect(belfry_grpc_connect(&opts, fuzz.now_ms, &fuzz.grpc) == BELFRY_OK);
    open_at(&fuzz.calls[0]);
    open_at(&fuzz.calls[1]);
    pull_all();
    struct belfry_bytes in = belfry_bytes_of(data, size);
    for (struct step step; step_next(&in, &step); free(step.piece))
        take(&step);
    pull_all();
    belfry_http_destroy(fuzz.grpc);
    for (size_t i = 0; i < N_CALLS; i++)
        expect(fuzz.calls[i] == NULL);
    return 0;
}
