/* fuzz/krelay_head.c: any bytes as the fields of a request, "name:value" on each line. Credentials go up as often as
 * they came, whatever `connection` says; no field of the connection does; and one x-forwarded-for at most. */
#include <stdint.h>

#include "fuzz/check.h"
#include "serve/kfront/krelay_docs.h"
#include "serve/kfront/krelay_head.h"

#define FIELDS 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t read_fields(struct belfry_bytes text, struct belfry_http_field fields[FIELDS])
{
    size_t n = 0;
    while (text.len > 0 && n < FIELDS) {
        const char *end = memchr(text.data, '\n', text.len);
        size_t len = end == NULL ? text.len : (size_t)(end - text.data);
        const char *colon = len == 0 ? NULL : memchr(text.data, ':', len);
        size_t name_len = colon == NULL ? len : (size_t)(colon - text.data);
        size_t value_at = colon == NULL ? len : name_len + 1;
        if (name_len > 0)
            fields[n++] = (struct belfry_http_field){belfry_bytes_of(text.data, name_len),
                                                     belfry_bytes_of(text.data + value_at, len - value_at)};
        size_t taken = end == NULL ? len : len + 1;
        text = belfry_bytes_of(text.data + taken, text.len - taken);
    }
    return n;
}

static size_t count(const struct belfry_http_field *fields, size_t n, const char *name)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++)
        found += belfry_bytes_equal(fields[i].name, belfry_bytes_str(name));
    return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct client_address client = {.family = CLIENT_IPV4, .bytes = {10, 0, 0, 9}};
    struct belfry_http_field fields[FIELDS];
    struct exchange_head head = {.fields = fields, .n_fields = read_fields(belfry_bytes_of(data, size), fields)};
    struct fields out;
    fields_init(&out);
    check(krelay_head_take(&head, NULL, &client, &out) == BELFRY_OK);
    const struct belfry_http_field *list = fields_list(&out);
    static const char *const credentials[] = {"authorization", "impersonate-user", "impersonate-group"};
    for (size_t i = 0; i < 3; i++)
        check(count(list, out.n, credentials[i]) == count(fields, head.n_fields, credentials[i]));
    static const char *const hops[] = {"connection", "upgrade", "host", "expect", "belfry-user", "x-remote-user"};
    for (size_t i = 0; i < sizeof(hops) / sizeof(hops[0]); i++)
        check(count(list, out.n, hops[i]) == 0);
    check(count(list, out.n, "x-forwarded-for") == 1);
    if (head.n_fields > 1)
        (void)krelay_doc_matches(fields[0].value, fields[1].value);
    fields_fini(&out);
    return 0;
}
