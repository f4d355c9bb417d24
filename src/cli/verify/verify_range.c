/* src/cli/verify/verify_range.c */
#include "cli/verify/verify_range.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "judge/judge_rev.h"

enum belfry_err verify_range_copy(struct verify_range *out, struct belfry_range from)
{
    char *bytes = malloc(from.key.len + from.end.len + 1); /* malloc(0) may return NULL */
    if (bytes == NULL)
        return BELFRY_ERR_NOMEM;
    if (from.key.len > 0)
        memcpy(bytes, from.key.data, from.key.len);
    if (from.end.len > 0)
        memcpy(bytes + from.key.len, from.end.data, from.end.len);
    verify_range_fini(out);
    out->bytes = bytes;
    out->is = (struct belfry_range){{bytes, from.key.len}, {bytes + from.key.len, from.end.len}, from.kind};
    return BELFRY_OK;
}

void verify_range_fini(struct verify_range *range)
{
    free(range->bytes);
    *range = (struct verify_range){.bytes = NULL};
}

/* The key up to the last slash that is still inside `whole`; without one, the whole key. */
static struct belfry_bytes folder_of(struct belfry_bytes key, struct belfry_bytes whole)
{
    for (size_t len = key.len; len > whole.len; len--)
        if (len < key.len && key.data[len - 1] == '/')
            return (struct belfry_bytes){key.data, len};
    return key;
}

struct belfry_range verify_range_within(const struct belfry_range *whole, struct belfry_bytes a, struct belfry_bytes b,
                                        unsigned dice)
{
    int order = belfry_bytes_cmp(a, b);
    if (dice % 3 == 0 && order != 0)
        return (struct belfry_range){order < 0 ? a : b, order < 0 ? b : a, BELFRY_INTERVAL};
    if (dice % 3 == 1 && whole->kind == BELFRY_PREFIX) /* a prefix may reach beyond other kinds of ranges */
        return (struct belfry_range){folder_of(a, whole->key), {NULL, 0}, BELFRY_PREFIX};
    return (struct belfry_range){a, {NULL, 0}, BELFRY_KEY};
}

void verify_range_text(const struct belfry_range *range, char out[VERIFY_RANGE_TEXT])
{
    char key[VERIFY_RANGE_TEXT / 2 - 8], end[VERIFY_RANGE_TEXT / 2 - 8];
    judge_bytes_text(range->key, key, sizeof(key));
    judge_bytes_text(range->end, end, sizeof(end));
    switch (range->kind) {
    case BELFRY_KEY:
        snprintf(out, VERIFY_RANGE_TEXT, "key %s", key);
        break;
    case BELFRY_PREFIX:
        snprintf(out, VERIFY_RANGE_TEXT, range->key.len > 0 ? "prefix %s" : "all keys", key);
        break;
    case BELFRY_FROM:
        snprintf(out, VERIFY_RANGE_TEXT, "from %s", key);
        break;
    case BELFRY_INTERVAL:
        snprintf(out, VERIFY_RANGE_TEXT, "%s to %s", key, end);
        break;
    }
}
