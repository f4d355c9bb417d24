/* src/kapi/html.c */
#include "kapi/html.h"

#include <stdbool.h>
#include <strings.h>

static struct belfry_bytes from(struct belfry_bytes text, size_t at)
{
    return belfry_bytes_of(text.data + at, text.len - at);
}

/* The offset of the next `c`, or the length. */
static size_t until(struct belfry_bytes text, char c)
{
    const char *at = text.len == 0 ? NULL : memchr(text.data, c, text.len);
    return at == NULL ? text.len : (size_t)(at - text.data);
}

static bool is_html(struct belfry_bytes body)
{
    size_t at = 0;
    while (at < body.len && memchr(" \t\r\n", body.data[at], 4) != NULL)
        at++;
    return at < body.len && body.data[at] == '<';
}

/* The page's title; empty: none. */
static struct belfry_bytes title_of(struct belfry_bytes body)
{
    static const char tag[] = "<title>";
    size_t n = strlen(tag);
    for (size_t at = until(body, '<'); body.len - at >= n; at = until(body, '<')) {
        body = from(body, at);
        if (strncasecmp(body.data, tag, n) == 0) {
            body = from(body, n);
            return belfry_bytes_of(body.data, until(body, '<'));
        }
        body = from(body, 1);
    }
    return (struct belfry_bytes){0};
}

static void quote_without_tags(struct belfry_sentence *sentence, struct belfry_bytes body)
{
    while (body.len > 0 && !sentence->is_cut) {
        size_t text = until(body, '<');
        belfry_sentence_quote(sentence, belfry_bytes_of(body.data, text));
        belfry_sentence_say(sentence, " ");
        body = from(body, text);
        size_t tag = until(body, '>');
        body = from(body, tag < body.len ? tag + 1 : tag);
    }
}

void belfry_html_quote(struct belfry_sentence *sentence, struct belfry_bytes body)
{
    if (!is_html(body)) {
        belfry_sentence_quote(sentence, body);
        return;
    }
    struct belfry_bytes title = title_of(body);
    if (title.len > 0)
        belfry_sentence_quote(sentence, title);
    else
        quote_without_tags(sentence, body);
}
