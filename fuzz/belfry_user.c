/* fuzz/belfry_user.c: any bytes as the value of belfry-user, from a tier that may send it. A name that is read is one
 * that a certificate may have, and is written as it came. What is refused is of nobody, and has no right. */
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"
#include "fuzz/check.h"
#include "serve/rights/identity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"leaf"};
    static const struct listen_policy policy = {.users_from = {names, 1}, .rights = LISTEN_RIGHTS_OPEN};
    struct exchange_conn conn = {.user = "leaf", .policy = &policy};
    struct exchange x = {.conn = &conn};
    struct belfry_http_field field = {belfry_bytes_str(IDENTITY_USER_FIELD), belfry_bytes_of(data, size)};
    struct exchange_head head = {.fields = &field, .n_fields = 1};
    const char *why = identity_refuses(&x, &head);
    struct identity who = identity_read(&x, &head, IDENTITY_OF_GRPC);
    if (why != NULL) {
        check(who.kind == IDENTITY_NONE && who.rights == LISTEN_RIGHTS_UPSTREAM);
        return 0;
    }
    char text[IDENTITY_FIELD_BYTES];
    check(who.kind == IDENTITY_CERT && who.text.len > 0 && who.text.len <= IDENTITY_USER_BYTES);
    check(belfry_utf8_valid(who.text.data, who.text.len) && memchr(who.text.data, '"', who.text.len) == NULL);
    check(belfry_bytes_equal(identity_field_of_user(who.text, text).value, field.value));
    conn.user = "alice"; /* any other */
    check(identity_refuses(&x, &head) != NULL);
    return 0;
}
