/* src/net/http_machine.c */
#include "net/http_machine.h"

#include "net/http.h"

static enum belfry_err machine_receive(void *machine, struct belfry_bytes bytes, uint64_t now_ms)
{
    return belfry_http_receive(machine, bytes, now_ms);
}

static enum belfry_err machine_pull(void *machine, uint64_t now_ms, struct belfry_bytes *out)
{
    return belfry_http_pull(machine, now_ms, out);
}

static bool machine_wants_write(void *machine)
{
    return belfry_http_wants_write(machine);
}

static bool machine_wants_read(void *machine)
{
    return belfry_http_wants_read(machine);
}

static void machine_lost(void *machine, const char *why)
{
    belfry_http_lost(machine, why);
}

static enum belfry_err machine_tick(void *machine, uint64_t now_ms)
{
    return belfry_http_tick(machine, now_ms);
}

static uint64_t machine_due(const void *machine)
{
    return belfry_http_due(machine);
}

static bool machine_draining(const void *machine)
{
    return belfry_http_state(machine) >= BELFRY_HTTP_DRAINING;
}

static void machine_destroy(void *machine)
{
    belfry_http_destroy(machine);
}

const struct belfry_machine belfry_http_machine = {
    .receive = machine_receive,
    .pull = machine_pull,
    .wants_write = machine_wants_write,
    .wants_read = machine_wants_read,
    .lost = machine_lost,
    .tick = machine_tick,
    .due = machine_due,
    .draining = machine_draining,
    .destroy = machine_destroy,
    .nonsense = "it does not speak HTTP as it should",
};
