/* src/opt/nearest.c */
#include "opt/nearest.h"

#include <string.h>

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t belfry_nearest_distance(const char *a, const char *b)
{
    size_t len_a = strlen(a), len_b = strlen(b);
    if (len_a > BELFRY_NEAREST_MAX || len_b > BELFRY_NEAREST_MAX)
        return BELFRY_NEAREST_MAX + 1;

    /* Three rows of the usual table: the row before the last is what a swap of neighbours goes back to. */
    size_t rows[3][BELFRY_NEAREST_MAX + 1];
    for (size_t j = 0; j <= len_b; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= len_a; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= len_b; j++) {
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return rows[len_a % 3][len_b];
}

void belfry_nearest_consider(const char *word, const char *candidate, const char **best)
{
    size_t distance = belfry_nearest_distance(word, candidate);
    if (distance > 1 + strlen(candidate) / 4 || distance >= strlen(candidate))
        return;
    if (*best == NULL || distance < belfry_nearest_distance(word, *best))
        *best = candidate;
}
