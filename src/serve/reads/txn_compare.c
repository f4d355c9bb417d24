/* src/serve/reads/txn_compare.c */
#include "serve/reads/txn_compare.h"

struct comparing {
    struct range_source *source;
    const struct belfry_wire_compare *compare;
    bool is_range, found, holds;
    enum belfry_err err;
};

static int order_of_numbers(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

static int order_of(const struct belfry_wire_compare *compare, const struct belfry_wire_kv *kv)
{
    switch ((enum belfry_wire_compare_target)compare->target) {
    case BELFRY_COMPARE_VERSION:
        return order_of_numbers(kv->version, compare->number);
    case BELFRY_COMPARE_CREATE:
        return order_of_numbers(kv->create_rev, compare->number);
    case BELFRY_COMPARE_MOD:
        return order_of_numbers(kv->mod_rev, compare->number);
    case BELFRY_COMPARE_VALUE:
        return belfry_bytes_cmp(kv->value, compare->value);
    case BELFRY_COMPARE_LEASE:
        return order_of_numbers(kv->lease, compare->number);
    }
    return 0;
}

static bool holds_for(const struct belfry_wire_compare *compare, const struct belfry_wire_kv *kv)
{
    int order = order_of(compare, kv);
    switch ((enum belfry_wire_compare_result)compare->result) {
    case BELFRY_COMPARE_EQUAL:
        return order == 0;
    case BELFRY_COMPARE_GREATER:
        return order > 0;
    case BELFRY_COMPARE_LESS:
        return order < 0;
    case BELFRY_COMPARE_NOT_EQUAL:
        return order != 0;
    }
    return false;
}

/* One comparison that does not hold is enough. */
static bool on_compare_row(struct belfry_bytes key, struct belfry_bytes kv, void *user)
{
    struct comparing *comparing = user;
    struct belfry_wire_kv parsed;
    if (!comparing->is_range && !belfry_bytes_equal(key, comparing->compare->key))
        return false; /* the next key: there is no such one */
    if (comparing->found && comparing->source->walk == 0)
        comparing->err = BELFRY_ERR_TOO_LARGE;
    else if (belfry_scan_kv(kv, &parsed) != BELFRY_OK)
        comparing->err = BELFRY_ERR_IO;
    if (comparing->err != BELFRY_OK)
        return false;
    comparing->source->walk -= comparing->found;
    comparing->found = true;
    comparing->holds = holds_for(comparing->compare, &parsed);
    return comparing->holds && comparing->is_range;
}

enum belfry_err txn_compare(struct range_source *source, const struct belfry_wire_compare *compare, bool *holds)
{
    static const struct belfry_wire_kv absent;
    bool is_open = compare->range_end.len == 1 && compare->range_end.data[0] == '\0';
    struct comparing comparing = {.source = source, .compare = compare, .is_range = compare->range_end.len > 0};
    struct store_read read = {.view = source->view,
                              .key = compare->key,
                              .end = is_open ? (struct belfry_bytes){0} : compare->range_end,
                              .max_rows = comparing.is_range ? SIZE_MAX : 1,
                              .max_bytes = SIZE_MAX};
    struct store_page page;
    enum belfry_err err = source->store->api->range(source->store, &read, on_compare_row, &comparing, &page);
    if (err == BELFRY_OK)
        err = comparing.err;
    if (err != BELFRY_OK)
        return err;
    if (!comparing.found)
        comparing.holds = compare->target != BELFRY_COMPARE_VALUE && holds_for(compare, &absent);
    *holds = comparing.holds;
    return BELFRY_OK;
}
