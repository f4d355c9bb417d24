/* bench/belfry-bench/fleet.c */
#include "fleet.h"

#include <stdio.h>
#include <string.h>

static size_t own_keys(const struct fleet *fleet)
{
    return fleet->n_watches / 2;
}

static size_t own_ranges(const struct fleet *fleet)
{
    return own_keys(fleet) + fleet->n_watches / 10;
}

/* Distinct ones that a client watches. */
static size_t shared_ranges(const struct fleet *fleet)
{
    size_t n = (fleet->n_watches - own_ranges(fleet)) * 3 / 4;
    return n < FLEET_SHARED ? n : FLEET_SHARED;
}

size_t fleet_ranges(const struct fleet *fleet)
{
    return FLEET_SHARED + fleet->n_clients * own_ranges(fleet);
}

size_t fleet_range_of(const struct fleet *fleet, size_t watcher)
{
    size_t client = watcher / fleet->n_watches, watch = watcher % fleet->n_watches, own = own_ranges(fleet);
    if (watch < own)
        return FLEET_SHARED + client * own + watch;
    return (client * 7 + (watch - own) % shared_ranges(fleet)) % FLEET_SHARED;
}

void fleet_range(const struct fleet *fleet, const char *prefix, size_t range, char *key, char *end)
{
    end[0] = '\0';
    if (range < FLEET_SHARED) {
        snprintf(key, FLEET_KEY_MAX, "%sshared/%03zu/", prefix, range);
    } else {
        size_t client = (range - FLEET_SHARED) / own_ranges(fleet), own = (range - FLEET_SHARED) % own_ranges(fleet);
        if (own < own_keys(fleet)) {
            snprintf(key, FLEET_KEY_MAX, "%sown/%05zu/key-%03zu", prefix, client, own);
            return;
        }
        snprintf(key, FLEET_KEY_MAX, "%sown/%05zu/dir-%03zu/", prefix, client, own);
    }
    snprintf(end, FLEET_KEY_MAX, "%s", key);
    end[strlen(end) - 1]++;
}

void fleet_key(const struct fleet *fleet, const char *prefix, size_t range, char *key)
{
    char end[FLEET_KEY_MAX];
    fleet_range(fleet, prefix, range, key, end);
    size_t len = strlen(key);
    if (end[0] != '\0')
        snprintf(key + len, FLEET_KEY_MAX - len, "key");
}
