/* bench/belfry-bench/load.c */
#include "load.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "object.h"
#include "put_time.h"

static_assert(LOAD_KEY_MAX == FLEET_KEY_MAX, "a key of a fleet is a key of a load");

/* The object that a put writes. */
static size_t object_of(const struct load *load, size_t put)
{
    return load->keys == LOAD_DISTINCT ? put : put % LOAD_KEYS;
}

void load_range(const struct load *load, size_t index, char *key, char *end)
{
    if (load->keys == LOAD_FLEET) {
        fleet_range(&load->fleet, load->prefix, fleet_range_of(&load->fleet, index), key, end);
        return;
    }
    if (load->keys == LOAD_DISTINCT) {
        load_put_key(load, index, key);
        end[0] = '\0';
        return;
    }
    snprintf(key, LOAD_KEY_MAX, "%s", load->prefix);
    snprintf(end, LOAD_KEY_MAX, "%s", load->prefix);
    end[strlen(end) - 1]++;
}

bool load_covers(const struct load *load, size_t index, struct belfry_bytes key)
{
    char own[LOAD_KEY_MAX];
    if (load->keys == LOAD_SHARED)
        return belfry_bytes_begins(key, belfry_bytes_str(load->prefix));
    load_put_key(load, load->keys == LOAD_FLEET ? fleet_range_of(&load->fleet, index) : index, own);
    return belfry_bytes_equal(key, belfry_bytes_str(own));
}

void load_put_key(const struct load *load, size_t put, char *key)
{
    if (load->form == LOAD_OBJECTS) {
        char name[OBJECT_NAME_MAX];
        object_name(object_of(load, put), name);
        snprintf(key, LOAD_KEY_MAX, "%s" OBJECT_NAMESPACE "/%s", load->prefix, name);
    } else if (load->keys == LOAD_FLEET) {
        fleet_key(&load->fleet, load->prefix, put, key);
    } else if (load->keys == LOAD_DISTINCT) {
        snprintf(key, LOAD_KEY_MAX, "%s%08zu", load->prefix, put);
    } else {
        snprintf(key, LOAD_KEY_MAX, "%s%zu", load->prefix, put % LOAD_KEYS);
    }
}

size_t load_value_max(const struct load *load, size_t value_bytes)
{
    return value_bytes + (load->form == LOAD_OBJECTS ? OBJECT_EXTRA : 0);
}

size_t load_write_value(const struct load *load, size_t put, size_t value_bytes, uint64_t now_ns, char *to)
{
    if (load->form == LOAD_OBJECTS)
        return object_write(to, object_of(load, put), value_bytes, now_ns);
    put_time_write(to, now_ns);
    memset(to + PUT_TIME_BYTES, 'x', value_bytes - PUT_TIME_BYTES);
    return value_bytes;
}
