/* src/kube/quote.c */
#include "kube/quote.h"

#include "base/utf8.h"

static const char cut[] = "...";

static bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

struct kube_quote kube_quote(struct belfry_bytes bytes)
{
    struct kube_quote quote;
    size_t len = 0;
    for (size_t at = 0, n; at < bytes.len; at += n) {
        uint32_t ignored;
        size_t known = belfry_utf8_next(bytes.data + at, bytes.len - at, &ignored);
        n = known == 0 ? 1 : known;
        if (len + n > sizeof(quote.text) - sizeof(cut)) {
            memcpy(quote.text + len, cut, sizeof(cut));
            return quote;
        }
        memcpy(quote.text + len, bytes.data + at, n);
        if (known == 0 || is_control(bytes.data[at]))
            quote.text[len] = '?';
        len += n;
    }
    quote.text[len] = '\0';
    return quote;
}
