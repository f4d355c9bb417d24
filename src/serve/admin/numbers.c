/* src/serve/admin/numbers.c */
#include "serve/admin/numbers.h"

#include <stddef.h>
#include <string.h>

#include "serve/admin/numbers_table.h"

const char *numbers_standing_name(enum driver_standing standing)
{
    switch (standing) {
    case DRIVER_NOT_READY:
        return "not ready";
    case DRIVER_READY:
        return "ready";
    case DRIVER_STALE:
        return "stale";
    }
    return "";
}

const char *numbers_trouble_name(enum driver_trouble trouble)
{
    static const char *const names[DRIVER_TROUBLES] = {
        [DRIVER_FINE] = "",         [DRIVER_GAVE_UP] = "gave_up", [DRIVER_TOO_OLD] = "too_old",
        [DRIVER_LOG_IN] = "log_in", [DRIVER_REFUSED] = "refused", [DRIVER_UNREACHABLE] = "unreachable",
        [DRIVER_DISK] = "disk",     [DRIVER_WORKING] = "working", [DRIVER_SILENT] = "silent",
        [DRIVER_ABSENT] = "absent", [DRIVER_DENIED] = "denied"};
    return names[trouble];
}

const char *numbers_state_name(enum upstream_state state)
{
    switch (state) {
    case UPSTREAM_START:
        return "start";
    case UPSTREAM_JOINING:
        return "joining";
    case UPSTREAM_REPLAYING:
        return "replaying";
    case UPSTREAM_LISTING:
        return "listing";
    case UPSTREAM_LIVE:
        return "live";
    }
    return "";
}

/* ---- the table ---- */

#define BASE_TIER         struct tier_numbers
#define BASE_KNOWN        struct tier_numbers
#define BASE_SUM          struct worker_numbers
#define BASE_MAX          struct worker_numbers
#define BASE_MIN          struct worker_numbers
#define NAME_JSON(name)   #name
#define NAME_TOP(name)    #name
#define NAME_HIDDEN(name) NULL
#define TYPE(member)      _Generic(member, bool : NUMBER_BOOL, int64_t : NUMBER_INT, default : NUMBER_UINT)
#define ROW(is_over, member, json, show, ...)                                                                          \
    {.name = NAME_##show(json),                                                                                        \
     .over = NUMBER_##is_over,                                                                                         \
     .type = TYPE(((const BASE_##is_over *)NULL)->member),                                                             \
     .offset = offsetof(BASE_##is_over, member),                                                                       \
     .size = sizeof(((const BASE_##is_over *)NULL)->member),                                                           \
     .metric = __VA_ARGS__},
#define ROWS(part) {.name = #part, .over = NUMBER_PART}, NUMBERS_##part(ROW)

static const struct number table[] = {NUMBERS_PARTS(ROWS)};

void latency_note(struct latency *latency, uint64_t published_ns, uint64_t now_ns)
{
    double seconds = now_ns > published_ns ? (double)(now_ns - published_ns) / 1e9 : 0;
    size_t bucket = 0;
    for (double bound = 0.0001; bucket < LATENCY_BUCKETS && seconds > bound; bucket++)
        bound *= 2;
    latency->buckets[bucket]++;
    latency->count++;
    latency->sum_s += seconds;
}

size_t numbers_table(const struct number **out)
{
    *out = table;
    return sizeof(table) / sizeof(table[0]);
}

uint64_t numbers_bits(const void *base, const struct number *number)
{
    const char *at = (const char *)base + number->offset;
    uint64_t wide;
    uint32_t narrow;
    if (number->type == NUMBER_BOOL)
        return *(const bool *)at;
    if (number->size == sizeof(narrow)) { /* a size_t of 32 bits */
        memcpy(&narrow, at, sizeof(narrow));
        return narrow;
    }
    memcpy(&wide, at, sizeof(wide));
    return wide;
}

static uint64_t number_or_zero(const void *base, const struct number *number)
{
    uint64_t value = numbers_bits(base, number);
    return number->type == NUMBER_INT && (int64_t)value < 0 ? 0 : value;
}

uint64_t numbers_value(const struct tier_numbers *numbers, const struct number *number)
{
    if (number->over == NUMBER_TIER || number->over == NUMBER_KNOWN)
        return number_or_zero(numbers, number);
    uint64_t sum = 0, highest = 0, lowest = UINT64_MAX;
    for (size_t i = 0; i < numbers->n_workers; i++) {
        if (!numbers->workers[i].answered)
            continue;
        uint64_t value = number_or_zero(&numbers->workers[i], number);
        sum += value;
        highest = value > highest ? value : highest;
        lowest = value < lowest ? value : lowest;
    }
    if (number->over == NUMBER_MIN)
        return lowest == UINT64_MAX ? 0 : lowest;
    return number->over == NUMBER_MAX ? highest : sum;
}
