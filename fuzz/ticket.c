/* fuzz/ticket.c: any bytes as a ticket, which must be refused: they do not have the key. The same bytes as the text of
 * a sealed identity, which must come back; and cut or changed after that, which must be refused, too. */
#include <stdint.h>

#include "fuzz/check.h"
#include "serve/sse/ticket.h"

#define NOW INT64_C(1800000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct ticket_keys keys = {.key = {{1, 2, 3}, {4}}, .n = 2};

static void seal_and_open(const struct identity *who, size_t hurt)
{
    struct belfry_buf text;
    struct ticket ticket;
    int64_t expires_s;
    belfry_buf_init(&text);
    check(ticket_seal(&keys, &(struct ticket_order){who, NOW, NOW, 300}, &text, &expires_s) == BELFRY_OK);
    check(belfry_buf_len(&text) <= TICKET_TEXT_MAX);
    check(ticket_open(&keys, belfry_buf_bytes(&text), NOW, &ticket) == BELFRY_OK);
    check(identity_same(&ticket.who, who) && ticket.expires_s == expires_s);
    ticket_fini(&ticket);
    uint8_t *byte = text.data + text.start + hurt % belfry_buf_len(&text);
    *byte = *byte == 'A' ? 'B' : 'A';
    check(ticket_open(&keys, belfry_buf_bytes(&text), NOW, &ticket) == BELFRY_ERR_AUTH);
    check(ticket_open(&keys, belfry_bytes_of(text.data + text.start, hurt % belfry_buf_len(&text)), NOW, &ticket) ==
          BELFRY_ERR_AUTH);
    belfry_buf_fini(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct belfry_bytes bytes = belfry_bytes_of(data, size);
    struct ticket ticket;
    check(ticket_open(&keys, bytes, NOW, &ticket) == BELFRY_ERR_AUTH);
    if (size > TICKET_IDENTITY_BYTES)
        return 0;
    struct identity token = identity_of_token(IDENTITY_FIELD_TOKEN, bytes);
    seal_and_open(&token, size > 0 ? data[0] * 7u : 0);
    if (size > 0 && size <= IDENTITY_USER_BYTES)
        seal_and_open(&(struct identity){.kind = IDENTITY_CERT, .text = bytes}, data[0]);
    return 0;
}
