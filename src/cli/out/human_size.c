/* src/cli/out/human_size.c */
#include "cli/out/human_size.h"

#include <stdio.h>

void human_size(int64_t bytes, char out[HUMAN_SIZE])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1000 && unit < sizeof(units) / sizeof(units[0]) - 1) {
        value /= 1000;
        unit++;
    }
    value = (double)(int64_t)(value * 10 + 0.5) / 10;
    snprintf(out, HUMAN_SIZE, value < 10 && unit > 0 ? "%.1f %s" : "%.0f %s", value, units[unit]);
}
