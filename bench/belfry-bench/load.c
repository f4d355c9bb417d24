/* bench/belfry-bench/load.c */
#include "load.h"

#include <stdio.h>
#include <string.h>

void load_range(const struct load *load, size_t index, char *key, char *end)
{
    if (load->keys == LOAD_DISTINCT) {
        load_put_key(load, index, key);
        end[0] = '\0';
        return;
    }
    snprintf(key, LOAD_KEY_MAX, "%s", load->prefix);
    snprintf(end, LOAD_KEY_MAX, "%s", load->prefix);
    end[strlen(end) - 1]++;
}

void load_put_key(const struct load *load, size_t put, char *key)
{
    if (load->keys == LOAD_DISTINCT)
        snprintf(key, LOAD_KEY_MAX, "%s%08zu", load->prefix, put);
    else
        snprintf(key, LOAD_KEY_MAX, "%s%zu", load->prefix, put % LOAD_KEYS);
}

void load_stamp(char *value, uint64_t now_ns)
{
    char text[LOAD_TIME_BYTES + 1];
    snprintf(text, sizeof(text), "%-*llu", LOAD_TIME_BYTES, (unsigned long long)now_ns);
    memcpy(value, text, LOAD_TIME_BYTES);
}

uint64_t load_put_time(struct belfry_bytes value)
{
    uint64_t time = 0;
    if (value.len < LOAD_TIME_BYTES)
        return 0;
    for (size_t i = 0; i < LOAD_TIME_BYTES && value.data[i] >= '0' && value.data[i] <= '9'; i++)
        time = time * 10 + (uint64_t)(value.data[i] - '0');
    return time;
}
