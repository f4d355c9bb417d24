/* src/cli/suggest.c */
#include "cli/suggest.h"

#include <string.h>

static size_t least(size_t a, size_t b, size_t c)
{
    size_t ab = a < b ? a : b;
    return ab < c ? ab : c;
}

size_t suggest_distance(const char *a, const char *b)
{
    size_t len_a = strlen(a), len_b = strlen(b);
    if (len_a > SUGGEST_MAX || len_b > SUGGEST_MAX)
        return SUGGEST_MAX + 1;

    /* Three rows of the usual table: the row before the last is what a swap of neighbours goes back to. */
    size_t rows[3][SUGGEST_MAX + 1];
    for (size_t j = 0; j <= len_b; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= len_a; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= len_b; j++) {
            size_t change = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = least(above[j] + 1, row[j - 1] + 1, change);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < row[j])
                row[j] = before[j - 2] + 1;
        }
    }
    return rows[len_a % 3][len_b];
}

void suggest_consider(const char *word, const char *candidate, const char **best)
{
    size_t distance = suggest_distance(word, candidate);
    if (distance > 1 + strlen(candidate) / 4)
        return;
    if (*best == NULL || distance < suggest_distance(word, *best))
        *best = candidate;
}
