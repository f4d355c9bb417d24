/* fuzz/h2server.c: raw bytes from a client that may be anybody, fed to the server's side of HTTP/2.
 *
 * The input is a list of steps, behind the client's preface. The first byte of a step says what happens: a piece of up
 * to 63 or 16,128 bytes arrives, bytes are pulled and time passes, or a handler does something. What a step needs is
 * taken from the bytes behind it. Every exchange must end exactly once, and nothing may be left allocated.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "server/h2_server.h"

#define N_PLACES 4

/* What a handler remembers of its exchange; it is the `user`, so that an event finds it again. */
struct place {
    struct exchange *x; /* NULL: none */
    bool responded, ended;
    size_t untaken;
};

static struct {
    struct h2_server *h2;
    struct exchange_conn conn;
    struct place places[N_PLACES];
    uint64_t now_ms;
    size_t n_events;
} fuzz;

static void expect(bool truth)
{
    if (!truth)
        abort();
}

static void respond(struct place *place)
{
    const struct belfry_http_field type = {belfry_bytes_str("content-type"), belfry_bytes_str("application/grpc")};
    if (!place->responded)
        exchange_respond(place->x, 200, &type, 1);
    place->responded = true;
}

static void last_word(struct place *place, unsigned which)
{
    const struct belfry_http_field status = {belfry_bytes_str("grpc-status"), belfry_bytes_str("0")};
    struct exchange *x = place->x;
    bool responded = place->responded;
    *place = (struct place){0};
    if (which == 0)
        exchange_reset(x, 8);
    else if (responded)
        exchange_end(x, &status, which - 1);
    else
        exchange_answer(x, 200, &status, 1, belfry_bytes_str(which == 1 ? "" : "body"));
}

static void write_some(struct place *place)
{
    static const char zeroes[20000];
    respond(place);
    size_t room = exchange_room(place->x);
    expect(room <= EXCHANGE_ROOM);
    exchange_write(place->x, zeroes, room < sizeof(zeroes) ? room + 1 : sizeof(zeroes));
}

/* Now and then a handler does something from inside an event, to its own exchange or to another. */
static void meddle(void)
{
    struct place *place = &fuzz.places[fuzz.n_events % N_PLACES];
    size_t n = fuzz.n_events++;
    if (place->x == NULL)
        return;
    if (n % 7 == 3)
        write_some(place);
    else if (n % 13 == 5)
        last_word(place, (unsigned)(n / 13 % 3));
}

static void on_body(struct exchange *x, struct belfry_bytes bytes, void *user)
{
    struct place *place = user;
    expect(place->x == x && !place->ended);
    place->untaken += bytes.len;
    expect(place->untaken <= EXCHANGE_WINDOW);
    if (place->untaken > 1000) {
        exchange_taken(x, place->untaken);
        place->untaken = 0;
    }
    meddle();
}

static void on_body_end(struct exchange *x, void *user)
{
    struct place *place = user;
    expect(place->x == x && !place->ended);
    place->ended = true;
    meddle();
}

static void on_writable(struct exchange *x, void *user)
{
    struct place *place = user;
    expect(place->x == x);
    meddle();
}

static void on_gone(struct exchange *x, void *user)
{
    struct place *place = user;
    expect(place->x == x);
    *place = (struct place){0};
    meddle();
}

static void on_begin(struct exchange *x, const struct exchange_head *head, void *user)
{
    static const struct exchange_events events = {on_body, on_body_end, on_writable, on_gone};
    (void)user;
    size_t bytes = head->method.len + head->scheme.len + head->path.len;
    for (size_t i = 0; i < head->n_fields; i++)
        bytes += head->fields[i].name.len + head->fields[i].value.len;
    expect(bytes <= H2_SERVER_HEADER_BYTES);
    for (size_t i = 0; i < N_PLACES; i++) {
        if (fuzz.places[i].x != NULL)
            continue;
        fuzz.places[i] = (struct place){.x = x};
        exchange_handle(x, &events, &fuzz.places[i]);
        meddle();
        return;
    }
    exchange_answer(x, 503, NULL, 0, belfry_bytes_str("busy"));
}

static void on_wants_flush(void *user)
{
    (void)user;
    expect(h2_server_wants_write(fuzz.h2));
}

static void receive(struct belfry_bytes piece)
{
    /* A copy of its own, so that a byte read past its end is found. */
    char *copy = malloc(piece.len + 1);
    expect(copy != NULL);
    if (piece.len > 0)
        memcpy(copy, piece.data, piece.len);
    belfry_ignore(h2_server_receive(fuzz.h2, belfry_bytes_of(copy, piece.len), fuzz.now_ms));
    free(copy);
}

static void pull(size_t enough)
{
    struct belfry_buf out;
    belfry_buf_init(&out);
    bool wanted = h2_server_wants_write(fuzz.h2) || h2_server_owes_pong(fuzz.h2);
    belfry_ignore(h2_server_pull(fuzz.h2, enough, &out));
    expect(wanted || belfry_buf_len(&out) == 0);
    belfry_buf_fini(&out);
    h2_server_unhold(fuzz.h2);
}

/* Steps that concern one exchange, or the connection when there is none. */
static void act(unsigned what, struct place *place)
{
    if (place->x == NULL) {
        what == 15 ? h2_server_shut(fuzz.h2) : h2_server_hold(fuzz.h2);
        return;
    }
    if (what < 8)
        write_some(place);
    else if (what < 12)
        respond(place);
    else
        last_word(place, what % 3);
}

static void step(uint8_t head, struct belfry_bytes *in)
{
    size_t n = head & 0x3f;
    switch (head >> 6) {
    case 0: /* a short piece */
    case 1: /* a long one */
        n = head >> 6 == 1 ? n << 8 : n;
        n = n < in->len ? n : in->len;
        receive(belfry_bytes_of(in->data, n));
        *in = belfry_bytes_of(in->data + n, in->len - n);
        break;
    case 2:
        if (h2_server_is_behind(fuzz.h2))
            receive((struct belfry_bytes){0});
        pull((n & 1) != 0 ? SIZE_MAX : 1);
        fuzz.now_ms += n;
        break;
    case 3:
        act((unsigned)n >> 2, &fuzz.places[n & (N_PLACES - 1)]);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct h2_server_opts opts = {.conn = &fuzz.conn, .begin = on_begin, .wants_flush = on_wants_flush};
    memset(&fuzz, 0, sizeof(fuzz));
    expect(h2_server_create(&opts, &fuzz.h2) == BELFRY_OK);
    receive(belfry_bytes_str("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
    struct belfry_bytes in = belfry_bytes_of(data, size);
    while (in.len > 0) {
        uint8_t head = (uint8_t)in.data[0];
        in = belfry_bytes_of(in.data + 1, in.len - 1);
        step(head, &in);
    }
    pull(SIZE_MAX);
    h2_server_destroy(fuzz.h2);
    for (size_t i = 0; i < N_PLACES; i++)
        expect(fuzz.places[i].x == NULL);
    return 0;
}
