/* fuzz/http2.c: raw frames from a server that may be anybody, fed to a connection of net/fetch.h with calls open.
 *
 * The input is a list of steps (steps.h): bytes arrive, time passes and bytes are pulled, or a call is opened, held,
 * released or cancelled. Every call must end exactly once unless it is cancelled, and nothing may be left allocated.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/fetch.h"

#include "steps.h"

#define N_CALLS 4

struct place {
    struct belfry_fetch *call; /* NULL: none */
    bool told;                 /* its head */
};

struct fuzz {
    struct belfry_http *http;
    struct place places[N_CALLS];
    uint64_t now_ms;
    size_t n_told;
};

static struct fuzz fuzz;

static void expect(bool truth)
{
    if (!truth)
        abort();
}

static void cancel(struct place *place)
{
    struct belfry_fetch *call = place->call;
    place->call = NULL;
    belfry_fetch_cancel(call);
}

/* Now and then a callback does something. */
static void act_inside(struct place *place)
{
    switch (fuzz.n_told++ % 7) {
    case 3:
        belfry_fetch_hold(place->call, true);
        break;
    case 5:
        cancel(place);
        break;
    case 6:
        for (size_t i = 0; i < N_CALLS; i++) {
            if (fuzz.places[i].call != NULL)
                belfry_fetch_hold(fuzz.places[i].call, false);
        }
        break;
    }
}

static void on_head(struct belfry_fetch *call, const struct belfry_fetch_head *head, void *user)
{
    struct place *place = user;
    expect(place->call == call && !place->told);
    expect(head->status >= 200 && head->status <= 599 && head->n_fields <= BELFRY_FETCH_FIELDS);
    size_t bytes = 0;
    for (size_t i = 0; i < head->n_fields; i++)
        bytes += head->fields[i].name.len + head->fields[i].value.len;
    expect(bytes <= BELFRY_FETCH_HEAD_BYTES);
    place->told = true;
    act_inside(place);
}

static void on_body(struct belfry_fetch *call, struct belfry_bytes bytes, void *user)
{
    struct place *place = user;
    expect(place->call == call && place->told && bytes.len > 0 && bytes.len <= BELFRY_FETCH_WINDOW);
    act_inside(place);
}

static void on_end(struct belfry_fetch *call, void *user)
{
    struct place *place = user;
    expect(place->call == call && place->told);
    place->call = NULL;
}

static void on_failed(struct belfry_fetch *call, enum belfry_err err, const char *why, bool unprocessed, void *user)
{
    struct place *place = user;
    expect(place->call == call && err != BELFRY_OK && why != NULL && !(unprocessed && place->told));
    place->call = NULL;
}

static void open_at(struct place *place)
{
    static const struct belfry_fetch_events events = {on_head, on_body, on_end, on_failed};
    static const struct belfry_fetch_request request = {"GET", "/api", NULL, 0};
    *place = (struct place){0};
    enum belfry_err err = belfry_fetch_open(fuzz.http, &request, &events, place, &place->call);
    expect(err == BELFRY_OK || err == BELFRY_ERR_UNAVAILABLE);
}

static void pull_all(void)
{
    struct belfry_bytes out = {NULL, 1};
    while (out.len > 0 && belfry_http_pull(fuzz.http, fuzz.now_ms, &out) == BELFRY_OK)
        ;
}

static void act(unsigned what, struct place *place)
{
    if (place->call == NULL)
        open_at(place);
    else if (what < 2)
        belfry_fetch_hold(place->call, what == 0);
    else if (what == 2)
        cancel(place);
}

static void take(const struct step *step)
{
    switch (step->kind) {
    case STEP_PIECE:
        belfry_ignore(belfry_http_receive(fuzz.http, belfry_bytes_of(step->piece, step->n), fuzz.now_ms));
        break;
    case STEP_TIME:
        if ((step->n & 1) != 0)
            pull_all();
        fuzz.now_ms += step->n * 1000;
        belfry_ignore(belfry_http_tick(fuzz.http, fuzz.now_ms));
        break;
    case STEP_ACT:
        act((unsigned)(step->n >> 2) & 3, &fuzz.places[step->n & (N_CALLS - 1)]);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct belfry_http_opts opts = {
        "https", "127.0.0.1:6443", {"fuzz", NULL, 0}, BELFRY_FETCH_WINDOW, 30000, 15000, false, false, NULL};
    fuzz = (struct fuzz){.now_ms = 1};
    expect(belfry_http_create(&opts, fuzz.now_ms, &fuzz.http) == BELFRY_OK);
    open_at(&fuzz.places[0]);
    open_at(&fuzz.places[1]);
    expect(belfry_http_start(fuzz.http, BELFRY_HTTP_2, fuzz.now_ms) == BELFRY_OK);
    pull_all();
    struct belfry_bytes in = belfry_bytes_of(data, size);
    for (struct step step; step_next(&in, &step); free(step.piece))
        take(&step);
    pull_all();
    belfry_http_destroy(fuzz.http);
    for (size_t i = 0; i < N_CALLS; i++)
        expect(fuzz.places[i].call == NULL);
    return 0;
}
