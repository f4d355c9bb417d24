/* bench/belfry-bench/asker.c */
#include "asker.h"

#include <string.h>

#include "base/buf.h"
#include "die.h"
#include "h2conn.h"
#include "stopwatch.h"

static void on_message(void *user, uint32_t call, struct belfry_bytes message)
{
    (void)user, (void)call, (void)message;
}

static void on_ended(void *user, uint32_t call, int status, const char *text)
{
    struct asker_seat *seat = user;
    uint64_t began = seat->began_ns[call % ASKER_CALLS];
    seat->began_ns[call % ASKER_CALLS] = 0;
    if (began == 0)
        return; /* it was late, and has been counted */
    if (status == 0) {
        outcome_ok(&seat->asker->outcome, stopwatch_ns() - began);
    } else {
        char why[128];
        snprintf(why, sizeof(why), "grpc-status %d: %.90s", status, text);
        outcome_fail(&seat->asker->outcome, why);
    }
}

static void on_failed(void *user, const char *why)
{
    struct asker_seat *seat = user;
    seat->lost = true;
    for (size_t i = 0; i < ASKER_CALLS; i++) {
        if (seat->began_ns[i] != 0)
            outcome_fail(&seat->asker->outcome, why);
        seat->began_ns[i] = 0;
    }
}

static void seat_connect(struct asker_seat *seat)
{
    static const struct h2conn_events events = {on_message, on_ended, on_failed};
    h2conn_destroy(seat->conn);
    seat->lost = false;
    seat->conn = h2conn_create(seat->asker->poll, &seat->asker->target, ASKER_CALLS, &events, seat);
}

void asker_open(struct asker *asker, int poll, const struct target *target, const char *key)
{
    memset(asker, 0, sizeof(*asker));
    asker->poll = poll;
    asker->target = *target;
    asker->key = key;
    outcome_clear(&asker->outcome);
    for (size_t i = 0; i < ASKER_CONNS; i++) {
        asker->seats[i].asker = asker;
        seat_connect(&asker->seats[i]);
    }
}

void asker_close(struct asker *asker)
{
    for (size_t i = 0; i < ASKER_CONNS; i++)
        h2conn_destroy(asker->seats[i].conn);
}

void asker_ask(struct asker *asker)
{
    struct asker_seat *seat = &asker->seats[asker->next++ % ASKER_CONNS];
    uint8_t request[2 + 127] = {0x0a, (uint8_t)strlen(asker->key)}; /* etcdserverpb.RangeRequest: key = 1 */
    uint32_t call = seat->lost ? UINT32_MAX : h2conn_call(seat->conn, "/etcdserverpb.KV/Range");
    if (call == UINT32_MAX) {
        outcome_fail(&asker->outcome, "no connection");
        return;
    }
    memcpy(request + 2, asker->key, request[1]);
    seat->began_ns[call % ASKER_CALLS] = stopwatch_ns();
    h2conn_send(seat->conn, call, belfry_bytes_of(request, 2 + (size_t)request[1]), H2CONN_LAST);
    h2conn_flush(seat->conn);
}

bool asker_is_idle(const struct asker *asker)
{
    for (size_t i = 0; i < ASKER_CONNS; i++)
        for (size_t call = 0; call < ASKER_CALLS; call++)
            if (asker->seats[i].began_ns[call] != 0)
                return false;
    return true;
}

void asker_tend(struct asker *asker, uint64_t now_ns)
{
    for (size_t i = 0; i < ASKER_CONNS; i++) {
        struct asker_seat *seat = &asker->seats[i];
        if (seat->lost)
            seat_connect(seat);
        for (size_t call = 0; call < ASKER_CALLS; call++)
            if (seat->began_ns[call] != 0 && now_ns > seat->began_ns[call] + (uint64_t)OUTCOME_LATE_MS * NS_PER_MS) {
                seat->began_ns[call] = 0;
                outcome_fail(&asker->outcome, "no answer in time");
            }
    }
}
