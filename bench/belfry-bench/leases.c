/* bench/belfry-bench/leases.c */
#include "leases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "die.h"
#include "h2conn.h"
#include "stopwatch.h"
#include "wire/scan.h"

#define EVERY_NS ((uint64_t)NS_PER_S)
#define CALLS    (4 * LEASES_PER_CONN)

/* Fields of LeaseGrantResponse and LeaseKeepAliveResponse. */
#define FIELD_ID  2
#define FIELD_TTL 3

static void conn_break(struct leases_conn *conn, const char *why)
{
    if (conn->broken)
        return;
    conn->broken = true;
    conn->leases->cut++;
    snprintf(conn->leases->why, sizeof(conn->leases->why), "%s", why);
}

/* One message with a number in its field 1: LeaseGrantRequest.TTL, LeaseKeepAliveRequest.ID. */
static void send_number(struct leases_conn *conn, uint32_t call, uint64_t number, enum h2conn_more more)
{
    uint8_t request[1 + 10] = {8};
    size_t len = 1;
    for (; number >= 128; number >>= 7)
        request[len++] = (uint8_t)(number | 128);
    request[len++] = (uint8_t)number;
    h2conn_send(conn->conn, call, belfry_bytes_of(request, len), more);
}

static void open_streams(struct leases_conn *conn)
{
    for (uint32_t i = 0; i < LEASES_PER_CONN; i++) {
        uint32_t call = h2conn_call(conn->conn, "/etcdserverpb.Lease/LeaseKeepAlive");
        if (i == 0)
            conn->first_call = call;
        send_number(conn, call, conn->own[i].id, H2CONN_MORE);
    }
}

static void on_granted(struct leases_conn *conn, uint32_t call, struct belfry_bytes message)
{
    struct lease *lease = &conn->own[call];
    if (belfry_scan_number(message, FIELD_ID, &lease->id) != BELFRY_OK || lease->id == 0)
        die("a lease was not granted");
    lease->state = LEASE_KEPT;
    lease->kept_ns = stopwatch_ns();
    if (++conn->granted == LEASES_PER_CONN)
        open_streams(conn);
}

static void on_message(void *user, uint32_t call, struct belfry_bytes message)
{
    struct leases_conn *conn = user;
    uint64_t ttl = 0;
    if (call < conn->first_call) {
        on_granted(conn, call, message);
        return;
    }
    struct lease *lease = &conn->own[call - conn->first_call];
    if (belfry_scan_number(message, FIELD_TTL, &ttl) == BELFRY_OK && (int64_t)ttl > 0)
        lease->kept_ns = stopwatch_ns();
    else
        lease->state = LEASE_LOST;
}

static void on_ended(void *user, uint32_t call, int status, const char *text)
{
    struct leases_conn *conn = user;
    char why[128];
    if (call < conn->first_call && status == 0)
        return; /* it was granted */
    snprintf(why, sizeof(why), "grpc-status %d: %.90s", status, text);
    if (call < conn->first_call)
        die("a lease was not granted: %s", why);
    conn_break(conn, why);
}

static void on_failed(void *user, const char *why)
{
    conn_break(user, why);
}

static void conn_open(struct leases_conn *conn)
{
    static const struct h2conn_events events = {on_message, on_ended, on_failed};
    h2conn_destroy(conn->conn);
    conn->broken = false;
    conn->first_call = UINT32_MAX;
    conn->conn = h2conn_create(conn->leases->poll, &conn->leases->target, CALLS, &events, conn);
}

void leases_open(struct leases *leases, int poll, const struct target *target, size_t n)
{
    *leases = (struct leases){.poll = poll, .target = *target, .n_conns = n / LEASES_PER_CONN};
    leases->conns = must_have(calloc(leases->n_conns, sizeof(*leases->conns)));
    leases->all = must_have(calloc(n, sizeof(*leases->all)));
    for (size_t i = 0; i < leases->n_conns; i++) {
        struct leases_conn *conn = &leases->conns[i];
        *conn = (struct leases_conn){.leases = leases, .own = &leases->all[i * LEASES_PER_CONN]};
        conn_open(conn);
        for (uint32_t call = 0; call < LEASES_PER_CONN; call++)
            send_number(conn, h2conn_call(conn->conn, "/etcdserverpb.Lease/LeaseGrant"), LEASES_TTL_S, H2CONN_LAST);
    }
}

void leases_close(struct leases *leases)
{
    for (size_t i = 0; i < leases->n_conns; i++)
        h2conn_destroy(leases->conns[i].conn);
    free(leases->conns);
    free(leases->all);
}

static void conn_keep(struct leases_conn *conn)
{
    if (conn->broken) {
        if (conn->granted < LEASES_PER_CONN)
            die("leases were not granted: %s", conn->leases->why);
        conn_open(conn);
        open_streams(conn);
        return;
    }
    for (uint32_t i = 0; i < LEASES_PER_CONN && conn->first_call != UINT32_MAX; i++)
        send_number(conn, conn->first_call + i, conn->own[i].id, H2CONN_MORE);
    h2conn_flush(conn->conn);
}

void leases_tend(struct leases *leases, uint64_t now_ns)
{
    size_t n = leases->n_conns * LEASES_PER_CONN;
    if (now_ns < leases->due_ns)
        return;
    leases->due_ns = now_ns + EVERY_NS;
    for (size_t i = 0; i < leases->n_conns; i++)
        conn_keep(&leases->conns[i]);
    for (size_t i = 0; i < n; i++) {
        struct lease *lease = &leases->all[i];
        if (lease->state == LEASE_KEPT && now_ns > lease->kept_ns + (uint64_t)LEASES_TTL_S * NS_PER_S)
            lease->state = LEASE_LOST;
    }
}

size_t leases_count(const struct leases *leases, enum lease_state state)
{
    size_t n = 0;
    for (size_t i = 0; i < leases->n_conns * LEASES_PER_CONN; i++)
        n += leases->all[i].state == state;
    return n;
}
