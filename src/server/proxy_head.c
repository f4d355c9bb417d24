/* src/server/proxy_head.c: the layout is that of proxy-protocol.txt of HAProxy, section 2.2. */
#include "server/proxy_head.h"

#include <string.h>

#define SIGNATURE  "\r\n\r\n\0\r\nQUIT\n"
#define VERSION    2 /* the high half of byte 12 */
#define IPV4_BYTES 12
#define IPV6_BYTES 36
#define UNIX_BYTES 216

enum proxy_command { COMMAND_LOCAL, COMMAND_PROXY };
enum proxy_family { FAMILY_UNSPEC, FAMILY_IPV4, FAMILY_IPV6, FAMILY_UNIX, N_FAMILIES };
enum proxy_kind { KIND_UNSPEC, KIND_STREAM };

static enum belfry_err head_refuse(struct proxy_head *head, const char *why)
{
    head->why = why;
    return BELFRY_ERR_PROTOCOL;
}

static size_t head_number(const struct proxy_head *head, size_t at)
{
    return (size_t)head->kept[at] << 8 | head->kept[at + 1];
}

/* Keeps the first bytes of the head, up to `end` of them. True: there are so many. */
static bool head_keep(struct proxy_head *head, struct belfry_bytes *bytes, size_t end)
{
    size_t n = head->n < end ? end - head->n : 0;
    n = n < bytes->len ? n : bytes->len;
    if (n > 0)
        memcpy(head->kept + head->n, bytes->data, n);
    head->n += n;
    *bytes = belfry_bytes_of(bytes->data + n, bytes->len - n);
    return head->n >= end;
}

/* What there is of the first bytes; a connection without a head is known by its first byte. */
static enum belfry_err check_signature(struct proxy_head *head)
{
    static const char signature[] = SIGNATURE, version1[] = "PROXY ";
    size_t n = head->n < sizeof(signature) - 1 ? head->n : sizeof(signature) - 1;
    if (memcmp(head->kept, signature, n) == 0)
        return BELFRY_OK;
    if (head->n >= sizeof(version1) - 1 && memcmp(head->kept, version1, sizeof(version1) - 1) == 0)
        return head_refuse(head, "a head of the PROXY protocol, version 1: set the balancer to version 2");
    return head_refuse(head, "no head of the PROXY protocol, version 2: set the balancer to send it");
}

static enum belfry_err check_fixed(struct proxy_head *head)
{
    static const size_t least[N_FAMILIES] = {
        [FAMILY_IPV4] = IPV4_BYTES, [FAMILY_IPV6] = IPV6_BYTES, [FAMILY_UNIX] = UNIX_BYTES};
    unsigned command = head->kept[12] & 0xf, family = head->kept[13] >> 4, kind = head->kept[13] & 0xf;
    size_t length = head_number(head, 14);
    if (head->kept[12] >> 4 != VERSION)
        return head_refuse(head, "a head of the PROXY protocol that is not of version 2");
    if (command > COMMAND_PROXY)
        return head_refuse(head, "a head of the PROXY protocol with an unknown command");
    if (PROXY_HEAD_FIXED + length > PROXY_HEAD_MOST)
        return head_refuse(head, "a head of the PROXY protocol of more than 4096 bytes");
    head->length = PROXY_HEAD_FIXED + length;
    if (command == COMMAND_LOCAL) /* whatever it holds is not for us */
        return BELFRY_OK;
    if (family >= N_FAMILIES || kind > KIND_STREAM)
        return head_refuse(head, "a head of the PROXY protocol that is not for TCP or a Unix socket");
    if (length < least[family])
        return head_refuse(head, "a head of the PROXY protocol that is too short for its addresses");
    return BELFRY_OK;
}

/* A client with kind UNSPEC is not named, as the specification has it. */
static void take_client(struct proxy_head *head)
{
    const uint8_t *at = head->kept + PROXY_HEAD_FIXED;
    if ((head->kept[12] & 0xf) == COMMAND_LOCAL || (head->kept[13] & 0xf) != KIND_STREAM)
        return;
    switch ((enum proxy_family)(head->kept[13] >> 4)) {
    case FAMILY_IPV4: /* the client's address, the balancer's, the client's port, the balancer's */
        head->client = client_address_ipv4(at, (uint16_t)head_number(head, PROXY_HEAD_FIXED + 8));
        return;
    case FAMILY_IPV6:
        head->client = client_address_ipv6(at, (uint16_t)head_number(head, PROXY_HEAD_FIXED + 32));
        return;
    case FAMILY_UNSPEC:
    case FAMILY_UNIX:
    case N_FAMILIES:
        return;
    }
}

enum belfry_err proxy_head_read(struct proxy_head *head, struct belfry_bytes *bytes)
{
    bool was_fixed = head->n >= PROXY_HEAD_FIXED;
    bool fixed = head_keep(head, bytes, PROXY_HEAD_FIXED);
    if (!was_fixed) {
        enum belfry_err err = check_signature(head);
        if (err == BELFRY_OK)
            err = fixed ? check_fixed(head) : BELFRY_ERR_AGAIN;
        if (err != BELFRY_OK)
            return err;
    }
    if (!head_keep(head, bytes, head->length < PROXY_HEAD_KEPT ? head->length : PROXY_HEAD_KEPT))
        return BELFRY_ERR_AGAIN;
    size_t skip = head->length - head->n < bytes->len ? head->length - head->n : bytes->len;
    head->n += skip;
    *bytes = belfry_bytes_of(bytes->data + skip, bytes->len - skip);
    if (head->n < head->length)
        return BELFRY_ERR_AGAIN;
    take_client(head);
    return BELFRY_OK;
}
