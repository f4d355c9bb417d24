/* src/serve/admin/watchers_query.c: the query part of a URL. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/percent.h"
#include "serve/admin/watchers.h"

#define VALUE 768 /* of one parameter, encoded: room for a filter in which every byte is escaped */

static const char *const sorts[] = {"lag", "sent", "age", NULL};
static const char *const groups[] = {"", "range", "peer", "state", NULL};

static int find(const char *const *words, const char *value)
{
    for (int i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], value) == 0)
            return i;
    }
    return -1;
}

static enum belfry_err set_limit(struct watchers_query *query, const char *value)
{
    char *end;
    size_t digits = strspn(value, "0123456789");
    unsigned long limit = strtoul(value, &end, 10);
    if (digits == 0 || digits > 9 || *end != '\0' || limit == 0 || limit > WATCHERS_LIMIT_MAX)
        return BELFRY_ERR_INVALID;
    query->limit = limit;
    return BELFRY_OK;
}

static enum belfry_err set(struct watchers_query *query, const char *name, const char *value, char *why, size_t why_len)
{
    if (strcmp(name, "sort") == 0 && find(sorts, value) >= 0) {
        query->sort = (enum watchers_sort)find(sorts, value);
    } else if (strcmp(name, "group") == 0 && find(groups, value) >= 0) {
        query->group = (enum watchers_group)find(groups, value);
    } else if (strcmp(name, "limit") == 0 && set_limit(query, value) == BELFRY_OK) {
        return BELFRY_OK;
    } else if (strcmp(name, "filter") == 0 && strlen(value) < sizeof(query->filter)) {
        memcpy(query->filter, value, strlen(value) + 1);
    } else {
        static const char *const remedies[][2] = {{"sort", "one of lag, sent, age"},
                                                  {"group", "one of range, peer, state"},
                                                  {"limit", "a number from 1 to 10000"},
                                                  {"filter", "at most 255 bytes"}};
        snprintf(why, why_len, "no parameter is called %.32s: there are sort, limit, group and filter", name);
        for (size_t i = 0; i < sizeof(remedies) / sizeof(remedies[0]); i++) {
            if (strcmp(name, remedies[i][0]) == 0)
                snprintf(why, why_len, "%s: %s", name, remedies[i][1]);
        }
        return BELFRY_ERR_INVALID;
    }
    return BELFRY_OK;
}

/* One name=value; forms write a blank as a plus. */
static enum belfry_err take(struct watchers_query *query, struct belfry_bytes pair, char *why, size_t why_len)
{
    char text[VALUE + 64], decoded[VALUE + 64];
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
    return set(query, text, decoded, why, why_len);
}

enum belfry_err watchers_parse(struct belfry_bytes query, struct watchers_query *out, char *why, size_t why_len)
{
    struct watchers_query made = {.limit = WATCHERS_LIMIT};
    for (size_t from = 0; from < query.len;) {
        const char *end = memchr(query.data + from, '&', query.len - from);
        size_t len = end == NULL ? query.len - from : (size_t)(end - query.data) - from;
        enum belfry_err err = take(&made, belfry_bytes_of(query.data + from, len), why, why_len);
        if (err != BELFRY_OK)
            return err;
        from += len + 1;
    }
    *out = made;
    return BELFRY_OK;
}
