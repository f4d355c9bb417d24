/* src/cli/top/top_text.c */
#include "cli/top/top_text.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

void top_text_number(uint64_t number, char out[TOP_TEXT])
{
    char digits[24];
    size_t len = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, number), n = 0;
    for (size_t i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            out[n++] = ',';
        out[n++] = digits[i];
    }
    out[n] = '\0';
}

void top_text_age(uint64_t ms, char out[TOP_TEXT])
{
    uint64_t s = ms / 1000, m = s / 60, h = m / 60;
    if (ms < 1000)
        snprintf(out, TOP_TEXT, "%" PRIu64 "ms", ms);
    else if (s < 60)
        snprintf(out, TOP_TEXT, "%" PRIu64 "s", s);
    else if (m < 60)
        snprintf(out, TOP_TEXT, "%" PRIu64 "m%02" PRIu64 "s", m, s % 60);
    else if (h < 24)
        snprintf(out, TOP_TEXT, "%" PRIu64 "h%02" PRIu64 "m", h, m % 60);
    else
        snprintf(out, TOP_TEXT, "%" PRIu64 "d%02" PRIu64 "h", h / 24, h % 24);
}
