/* fuzz/cors_origin.c: any bytes as an origin. One that is fine has a scheme, no path, no blank and no upper case, and
 * is an item of a list of options: it has no comma.
 * Also any bytes as the fields Origin, Host and Sec-Fetch-Site of a request, one per line. A page of another site never
 * passes for one of this tier: an Origin that does does not differ from Host but for its scheme and port. */
#include <stdint.h>

#include "fuzz/check.h"
#include "server/cors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct belfry_bytes take_line(struct belfry_bytes *text)
{
    const char *end = text->len == 0 ? NULL : memchr(text->data, '\n', text->len);
    struct belfry_bytes line = {text->data, end != NULL ? (size_t)(end - text->data) : text->len};
    size_t taken = end != NULL ? line.len + 1 : line.len;
    *text = belfry_bytes_of(text->data + taken, text->len - taken);
    return line;
}

static void judge(struct belfry_bytes text)
{
    char app[] = "https://app.example", *const list[] = {app};
    struct cors_origins named = {list, 1};
    struct belfry_http_field fields[2] = {{belfry_bytes_str("origin"), take_line(&text)}};
    struct exchange_head head = {.authority = take_line(&text), .fields = fields, .n_fields = 1};
    if (text.len > 0)
        fields[head.n_fields++] = (struct belfry_http_field){belfry_bytes_str("sec-fetch-site"), text};
    struct belfry_bytes origin = fields[0].value;
    if (cors_is_foreign(&named, &head) || cors_origins_have(&named, origin) ||
        belfry_bytes_equal(text, belfry_bytes_str("same-origin")))
        return;
    const char *host = memmem(origin.data, origin.len, "://", 3);
    check(host != NULL && head.authority.len > 0);
    size_t len = 0, most = origin.len - (size_t)(host + 3 - origin.data);
    while (len < most && len < head.authority.len && (host[3 + len] | 0x20) == (head.authority.data[len] | 0x20))
        len++;
    check(len > 0); /* they begin alike, and what follows is a port */
    for (size_t i = len; i < most; i++)
        check(strchr(":0123456789", host[3 + i]) != NULL && host[3 + i] != '\0');
    for (size_t i = len; i < head.authority.len; i++)
        check(strchr(":0123456789", head.authority.data[i]) != NULL && head.authority.data[i] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct belfry_bytes text = belfry_bytes_of(data, size);
    judge(text);
    if (cors_origin_wrong(text) != NULL)
        return 0;
    const char *scheme = memmem(data, size, "://", 3);
    check(scheme != NULL && scheme > text.data);
    for (const char *at = text.data; at < text.data + size; at++)
        check(*at > ' ' && *at < 0x7f && *at != ',' && *at != '*' && (*at < 'A' || *at > 'Z') &&
              (*at != '/' || at == scheme + 1 || at == scheme + 2));
    return 0;
}
