/* src/daemon/nearest.c */
#include "daemon/nearest.h"

#include <stddef.h>
#include <string.h>

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Letters to add, drop or change, in one row of the usual table: `corner` is what the row above had one to the left. */
static size_t distance(const char *a, const char *b)
{
    size_t row[NEAREST_MAX + 1], len = strlen(b);
    for (size_t j = 0; j <= len; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t corner = row[0];
        row[0] = i;
        for (size_t j = 1; j <= len; j++) {
            size_t above = row[j];
            row[j] = least(least(above, row[j - 1]) + 1, corner + (a[i - 1] != b[j - 1]));
            corner = above;
        }
    }
    return row[len];
}

void nearest_consider(const char *word, const char *candidate, const char **best)
{
    if (strlen(word) > NEAREST_MAX || strlen(candidate) > NEAREST_MAX)
        return;
    size_t far = distance(word, candidate);
    if (far > 2 + strlen(candidate) / 6 || far >= strlen(candidate))
        return;
    if (*best == NULL || far < distance(word, *best))
        *best = candidate;
}
