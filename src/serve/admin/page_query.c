/* src/serve/admin/page_query.c */
#include "serve/admin/page_query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/percent.h"

static enum belfry_err take_pair(struct belfry_bytes pair, page_query_fn fn, void *user, char *why, size_t why_len)
{
    char text[PAGE_QUERY_BYTES], decoded[PAGE_QUERY_BYTES];
    if (pair.len == 0)
        return BELFRY_OK;
    if (pair.len >= sizeof(text)) {
        snprintf(why, why_len, "a parameter is longer than %zu bytes", sizeof(text));
        return BELFRY_ERR_INVALID;
    }
    memcpy(text, pair.data, pair.len);
    text[pair.len] = '\0';
    if (strlen(text) != pair.len) {
        snprintf(why, why_len, "a parameter has a zero byte");
        return BELFRY_ERR_INVALID;
    }
    for (char *at = text; *at != '\0'; at++)
        *at = *at == '+' ? ' ' : *at;
    char *value = text + strcspn(text, "=");
    if (*value == '=')
        *value++ = '\0';
    belfry_percent_decode(belfry_bytes_str(value), decoded);
    return fn(text, decoded, user, why, why_len);
}

enum belfry_err page_query_each(struct belfry_bytes query, page_query_fn fn, void *user, char *why, size_t why_len)
{
    for (size_t from = 0; from < query.len;) {
        const char *end = memchr(query.data + from, '&', query.len - from);
        size_t len = end == NULL ? query.len - from : (size_t)(end - query.data) - from;
        enum belfry_err err = take_pair(belfry_bytes_of(query.data + from, len), fn, user, why, why_len);
        if (err != BELFRY_OK)
            return err;
        from += len + 1;
    }
    return BELFRY_OK;
}

int page_query_word(const char *const *words, const char *value)
{
    for (int i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], value) == 0)
            return i;
    }
    return -1;
}

enum belfry_err page_query_limit(const char *value, size_t max, size_t *out)
{
    char *end;
    size_t digits = strspn(value, "0123456789");
    unsigned long limit = strtoul(value, &end, 10);
    if (digits == 0 || digits > 9 || *end != '\0' || limit == 0 || limit > max)
        return BELFRY_ERR_INVALID;
    *out = limit;
    return BELFRY_OK;
}
