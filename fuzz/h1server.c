/* fuzz/h1server.c: raw bytes from a peer that may be anybody, fed to the server side of an HTTP/1.1 connection.
 *
 * The input is a list of steps. The first byte of a step says what happens: a piece of up to 63 or 16,128 bytes
 * arrives, bytes are pulled, the socket is full or not, the connection is shut or the peer sends no more, or the
 * handler acts on the exchange that is open. Whatever is written to the peer begins like a response, every exchange
 * ends exactly once, and what is kept is bounded by what one piece brings.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "server/h1_server.h"

struct fuzz {
    struct exchange_conn conn;
    struct h1_server *h1;
    struct exchange *x; /* open; NULL: none */
    bool responded, first_seen;
    size_t untaken;
    uint8_t choice; /* what the next handler does */
};

static struct fuzz fuzz;

static void expect(bool truth)
{
    if (!truth)
        abort();
}

static void on_body(struct exchange *x, struct belfry_bytes bytes, void *user)
{
    (void)user;
    expect(x == fuzz.x && bytes.len > 0);
    fuzz.untaken += bytes.len;
    expect(fuzz.untaken <= EXCHANGE_WINDOW);
    if ((fuzz.choice & 1) != 0) {
        exchange_taken(x, bytes.len);
        fuzz.untaken -= bytes.len;
    }
}

static void on_body_end(struct exchange *x, void *user)
{
    (void)user;
    expect(x == fuzz.x);
    if ((fuzz.choice & 2) != 0 && !fuzz.responded) {
        fuzz.x = NULL;
        exchange_answer(x, 200, NULL, 0, belfry_bytes_str("done"));
    }
}

static void on_writable(struct exchange *x, void *user)
{
    (void)user;
    expect(x == fuzz.x);
    expect(exchange_room(x) >= EXCHANGE_ROOM_LOW);
}

static void on_gone(struct exchange *x, void *user)
{
    (void)user;
    expect(x == fuzz.x);
    fuzz.x = NULL;
}

static void check_head(const struct exchange_head *head)
{
    size_t bytes = head->method.len + head->path.len;
    for (size_t i = 0; i < head->n_fields; i++) {
        struct belfry_bytes name = head->fields[i].name;
        bytes += name.len + head->fields[i].value.len;
        expect(name.len > 0);
        for (size_t k = 0; k < name.len; k++)
            expect(name.data[k] < 'A' || name.data[k] > 'Z');
        expect(head->fields[i].value.len == 0 ||
               memchr(head->fields[i].value.data, '\n', head->fields[i].value.len) == NULL);
    }
    expect(head->method.len > 0 && bytes <= H1_SERVER_HEAD_BYTES);
}

static void begin(struct exchange *x, const struct exchange_head *head, void *user)
{
    static const struct exchange_events events = {on_body, on_body_end, on_writable, on_gone};
    (void)user;
    expect(fuzz.x == NULL);
    check_head(head);
    fuzz.responded = false;
    fuzz.untaken = 0;
    switch (fuzz.choice >> 4 & 3) {
    case 0:
        exchange_answer(x, 404, NULL, 0, belfry_bytes_str("no"));
        return;
    case 1:
        exchange_handle(x, &events, NULL);
        exchange_respond(x, 200, NULL, 0);
        fuzz.responded = true;
        break;
    default:
        exchange_handle(x, &events, NULL);
    }
    fuzz.x = x;
}

static void wants_flush(void *user)
{
    (void)user;
}

/* A handler's move. */
static void act(unsigned what)
{
    static const char bytes[3000];
    struct exchange *x = fuzz.x;
    if (x == NULL)
        return;
    if (what == 0) {
        exchange_taken(x, fuzz.untaken);
        fuzz.untaken = 0;
    } else if (what == 1) {
        if (!fuzz.responded)
            exchange_respond(x, 200, NULL, 0);
        fuzz.responded = true;
        exchange_write(x, bytes, sizeof(bytes));
    } else if (what == 2) {
        fuzz.x = NULL;
        if (fuzz.responded)
            exchange_end(x, NULL, 0);
        else
            exchange_answer(x, 200, NULL, 0, belfry_bytes_str("x"));
    } else {
        fuzz.x = NULL;
        exchange_reset(x, 0);
    }
}

static void pull(void)
{
    struct belfry_buf out;
    belfry_buf_init(&out);
    expect(h1_server_pull(fuzz.h1, 65536, &out) == BELFRY_OK);
    if (!fuzz.first_seen && belfry_buf_len(&out) >= 9) {
        fuzz.first_seen = true;
        expect(memcmp(belfry_buf_bytes(&out).data, "HTTP/1.1 ", 9) == 0);
    }
    belfry_buf_fini(&out);
    h1_server_unhold(fuzz.h1);
}

static void receive(struct belfry_bytes piece)
{
    /* A copy of its own, so that a byte read past its end is found. */
    char *copy = malloc(piece.len + 1);
    expect(copy != NULL);
    if (piece.len > 0)
        memcpy(copy, piece.data, piece.len);
    enum belfry_err err = h1_server_receive(fuzz.h1, belfry_bytes_of(copy, piece.len));
    expect(err == BELFRY_OK || err == BELFRY_ERR_PROTOCOL);
    free(copy);
}

static void step(uint8_t head, struct belfry_bytes *in)
{
    size_t n = head & 0x3f;
    switch (head >> 6) {
    case 0: /* a short piece */
    case 1: /* a long one */
        if (!h1_server_wants_read(fuzz.h1))
            return;
        n = head >> 6 == 1 ? n << 8 : n;
        n = n < in->len ? n : in->len;
        receive(belfry_bytes_of(in->data, n));
        *in = belfry_bytes_of(in->data + n, in->len - n);
        break;
    case 2:
        fuzz.choice = (uint8_t)n;
        pull();
        if (n == 0x3f)
            h1_server_input_ended(fuzz.h1);
        else if (n == 0x3e)
            h1_server_shut(fuzz.h1);
        else if (n == 0x3d)
            h1_server_hold(fuzz.h1);
        break;
    case 3:
        act((unsigned)n & 3);
        break;
    }
    expect(h1_server_open(fuzz.h1) == (fuzz.x != NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz = (struct fuzz){.choice = 0x23};
    struct h1_server_opts opts = {.conn = &fuzz.conn, .begin = begin, .wants_flush = wants_flush};
    expect(h1_server_create(&opts, &fuzz.h1) == BELFRY_OK);
    struct belfry_bytes in = belfry_bytes_of(data, size);
    while (in.len > 0) {
        uint8_t head = (uint8_t)in.data[0];
        in = belfry_bytes_of(in.data + 1, in.len - 1);
        step(head, &in);
    }
    pull();
    h1_server_destroy(fuzz.h1);
    expect(fuzz.x == NULL);
    return 0;
}
