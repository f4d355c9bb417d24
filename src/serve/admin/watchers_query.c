/* src/serve/admin/watchers_query.c: the query part of a URL. */
#include <stdio.h>
#include <string.h>

#include "serve/admin/page_query.h"
#include "serve/admin/watchers.h"

static const char *const sorts[] = {"lag", "sent", "age", NULL};
static const char *const groups[] = {"", "range", "peer", "state", NULL};

static void remedy(const char *name, char *why, size_t why_len)
{
    static const char *const remedies[][2] = {{"sort", "one of lag, sent, age"},
                                              {"group", "one of range, peer, state"},
                                              {"limit", "a number from 1 to 10000"},
                                              {"filter", "at most 255 bytes"}};
    snprintf(why, why_len, "no parameter is called %.32s: there are sort, limit, group and filter", name);
    for (size_t i = 0; i < sizeof(remedies) / sizeof(remedies[0]); i++) {
        if (strcmp(name, remedies[i][0]) == 0)
            snprintf(why, why_len, "%s: %s", name, remedies[i][1]);
    }
}

static enum belfry_err set_parameter(const char *name, const char *value, void *user, char *why, size_t why_len)
{
    struct watchers_query *query = user;
    if (strcmp(name, "sort") == 0 && page_query_word(sorts, value) >= 0) {
        query->sort = (enum watchers_sort)page_query_word(sorts, value);
    } else if (strcmp(name, "group") == 0 && page_query_word(groups, value) >= 0) {
        query->group = (enum watchers_group)page_query_word(groups, value);
    } else if (strcmp(name, "limit") == 0 && page_query_limit(value, WATCHERS_LIMIT_MAX, &query->limit) == BELFRY_OK) {
        return BELFRY_OK;
    } else if (strcmp(name, "filter") == 0 && strlen(value) < sizeof(query->filter)) {
        memcpy(query->filter, value, strlen(value) + 1);
    } else {
        remedy(name, why, why_len);
        return BELFRY_ERR_INVALID;
    }
    return BELFRY_OK;
}

enum belfry_err watchers_parse(struct belfry_bytes query, struct watchers_query *out, char *why, size_t why_len)
{
    struct watchers_query made = {.limit = WATCHERS_LIMIT};
    enum belfry_err err = page_query_each(query, set_parameter, &made, why, why_len);
    if (err == BELFRY_OK)
        *out = made;
    return err;
}
