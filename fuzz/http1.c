/* fuzz/http1.c: what a server sends over HTTP/1.1 for one request, in pieces.
 *
 *     input = what to do (1 byte), the response and whatever is behind it
 *
 * The same bytes are given whole, one by one and in pieces of a few, and must be told the same each time; then once
 * more to a call that is held, released and cancelled on the way. The call has its last callback exactly once unless it
 * is cancelled, and nothing may be left allocated.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/rng.h"
#include "net/fetch.h"

#define INPUT_MAX (32 * 1024) /* under what the parser puts up with outside of bodies: cuts do not matter there */

enum { HEAD_METHOD = 1, HOLDS = 2, CANCELS = 4 };

/* All that a call was told, as text. */
struct told {
    struct belfry_fetch *call; /* NULL once it is gone */
    struct belfry_buf text;
    size_t n_heads, n_last;
    int n_until_cancel; /* callbacks; -1: never */
};

static void expect(bool truth)
{
    if (!truth)
        abort();
}

static void note(struct told *told, struct belfry_bytes bytes)
{
    expect(belfry_buf_append(&told->text, bytes.data, bytes.len) == BELFRY_OK);
}

static void maybe_cancel(struct told *told)
{
    if (told->n_until_cancel < 0 || told->n_until_cancel-- > 0)
        return;
    struct belfry_fetch *call = told->call;
    told->call = NULL;
    belfry_fetch_cancel(call);
}

static void on_head(struct belfry_fetch *call, const struct belfry_fetch_head *head, void *user)
{
    struct told *told = user;
    expect(call == told->call && told->n_heads++ == 0 && told->n_last == 0);
    expect(head->status >= 200 && head->status <= 599 && head->n_fields <= BELFRY_FETCH_FIELDS);
    note(told, belfry_bytes_of(&head->status, sizeof(head->status)));
    for (size_t i = 0; i < head->n_fields; i++) {
        for (size_t at = 0; at < head->fields[i].name.len; at++)
            expect(head->fields[i].name.data[at] < 'A' || head->fields[i].name.data[at] > 'Z');
        note(told, head->fields[i].name);
        note(told, head->fields[i].value);
    }
    maybe_cancel(told);
}

static void on_body(struct belfry_fetch *call, struct belfry_bytes bytes, void *user)
{
    struct told *told = user;
    expect(call == told->call && told->n_heads == 1 && told->n_last == 0 && bytes.len > 0);
    note(told, bytes);
    maybe_cancel(told);
}

static void on_end(struct belfry_fetch *call, void *user)
{
    struct told *told = user;
    expect(call == told->call && told->n_heads == 1 && told->n_last++ == 0);
    told->call = NULL;
}

static void on_failed(struct belfry_fetch *call, enum belfry_err err, const char *why, bool unprocessed, void *user)
{
    struct told *told = user;
    expect(call == told->call && told->n_last++ == 0 && err != BELFRY_OK && why != NULL && !unprocessed);
    note(told, belfry_bytes_of(&err, sizeof(err)));
    told->call = NULL;
}

static struct belfry_http *begin(unsigned what, struct told *told)
{
    static const struct belfry_http_opts opts = {
        "http", "127.0.0.1:8001", {"fuzz", NULL, 0}, BELFRY_FETCH_WINDOW, 30000, 15000, false, false, NULL};
    static const struct belfry_fetch_events events = {on_head, on_body, on_end, on_failed};
    struct belfry_fetch_request request = {(what & HEAD_METHOD) != 0 ? "HEAD" : "GET", "/api", NULL, 0};
    struct belfry_http *http;
    struct belfry_bytes out;
    expect(belfry_http_create(&opts, 1, &http) == BELFRY_OK);
    expect(belfry_http_start(http, BELFRY_HTTP_1, 1) == BELFRY_OK);
    expect(belfry_fetch_open(http, &request, &events, told, &told->call) == BELFRY_OK);
    expect(belfry_http_pull(http, 1, &out) == BELFRY_OK && out.len > 0);
    return http;
}

/* Holding and releasing, as the dice fall. */
static void act(unsigned what, struct told *told, struct belfry_rng *rng)
{
    if ((what & HOLDS) != 0 && told->call != NULL)
        belfry_fetch_hold(told->call, belfry_rng_below(rng, 3) == 0);
}

static void play(unsigned what, struct belfry_bytes in, size_t piece_max, struct told *told)
{
    struct belfry_rng rng = {in.len};
    struct belfry_http *http = begin(what, told);
    for (size_t at = 0, n; at < in.len; at += n) {
        n = 1 + (size_t)belfry_rng_below(&rng, piece_max);
        n = n < in.len - at ? n : in.len - at;
        char *piece = malloc(n); /* of its own, so that a byte read past its end is found */
        expect(piece != NULL);
        memcpy(piece, in.data + at, n);
        act(what, told, &rng);
        enum belfry_err err = belfry_http_receive(http, belfry_bytes_of(piece, n), 1);
        free(piece);
        if (err != BELFRY_OK)
            break;
    }
    belfry_http_lost(http, "the end");
    belfry_ignore(belfry_http_tick(http, 1));
    belfry_http_destroy(http);
    expect(told->call == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > INPUT_MAX)
        return 0;
    unsigned method = data[0] & HEAD_METHOD;
    struct belfry_bytes in = belfry_bytes_of(data + 1, size - 1);
    const size_t pieces[] = {1, 7};
    struct told whole = {.n_until_cancel = -1};
    play(method, in, SIZE_MAX, &whole);
    expect(whole.n_last == 1);
    for (size_t i = 0; i < 2; i++) {
        struct told cut = {.n_until_cancel = -1};
        play(method, in, pieces[i], &cut);
        expect(cut.n_last == 1 && belfry_bytes_equal(belfry_buf_bytes(&cut.text), belfry_buf_bytes(&whole.text)));
        belfry_buf_fini(&cut.text);
    }
    struct told busy = {.n_until_cancel = (data[0] & CANCELS) != 0 ? data[0] >> 4 : -1};
    play(data[0], in, 30, &busy);
    expect(busy.n_last <= 1);
    belfry_buf_fini(&busy.text);
    belfry_buf_fini(&whole.text);
    return 0;
}
