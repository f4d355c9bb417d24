/* bench/belfry-bench/put_time.c */
#include "put_time.h"

#include <stdio.h>
#include <string.h>

void put_time_write(char *to, uint64_t now_ns)
{
    char text[PUT_TIME_BYTES + 1];
    snprintf(text, sizeof(text), "%-*llu", PUT_TIME_BYTES, (unsigned long long)now_ns);
    memcpy(to, text, PUT_TIME_BYTES);
}

uint64_t put_time_read(struct belfry_bytes text)
{
    uint64_t time = 0;
    if (text.len < PUT_TIME_BYTES)
        return 0;
    for (size_t i = 0; i < PUT_TIME_BYTES && text.data[i] >= '0' && text.data[i] <= '9'; i++)
        time = time * 10 + (uint64_t)(text.data[i] - '0');
    return time;
}
