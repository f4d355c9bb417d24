/* bench/belfry-bench/putter.c */
#include "putter.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "die.h"
#include "h2conn.h"
#include "put_time.h"
#include "stopwatch.h"
#include "wire/scan.h"

#define MESSAGE_HEADS 24 /* two tags and two lengths */

static void fault(struct putter *putter, const char *what, const char *text)
{
    if (putter->fault[0] == '\0')
        snprintf(putter->fault, sizeof(putter->fault), "put: %s%s", what, text);
}

static void on_message(void *user, uint32_t call, struct belfry_bytes message)
{
    struct putter *putter = user;
    struct belfry_wire_header header;
    size_t slot = call % PUTTER_CALLS;
    if (belfry_scan_response_header(message, &header) != BELFRY_OK || header.revision <= 0) {
        fault(putter, "a PutResponse cannot be read", "");
        return;
    }
    putter->revs[putter->put_of[slot]] = header.revision;
    histogram_add(&putter->latency, stopwatch_ns() - putter->sent_at[slot]);
}

static void on_ended(void *user, uint32_t call, int status, const char *text)
{
    struct putter *putter = user;
    char what[64];
    putter->answered++;
    if (status == 0 && putter->revs[putter->put_of[call % PUTTER_CALLS]] != 0)
        return;
    snprintf(what, sizeof(what), "grpc-status %d: ", status);
    fault(putter, what, text);
}

static void on_failed(void *user, const char *why)
{
    fault(user, why, "");
}

static const struct h2conn_events events = {on_message, on_ended, on_failed};

void putter_open(struct putter *putter, int poll, const struct putter_opts *opts)
{
    assert(opts->in_flight <= PUTTER_CALLS / 2 && opts->value_bytes >= PUT_TIME_BYTES);
    memset(putter, 0, sizeof(*putter));
    putter->opts = *opts;
    size_t value_max = load_value_max(&opts->load, opts->value_bytes);
    putter->message = must_have(malloc(MESSAGE_HEADS + LOAD_KEY_MAX + value_max));
    putter->value = must_have(malloc(value_max));
    putter->revs = must_have(calloc(opts->max_puts + 1, sizeof(*putter->revs)));
    if (opts->load.keys != LOAD_SHARED)
        putter->watchers = must_have(calloc(opts->max_puts + 1, sizeof(*putter->watchers)));
    histogram_clear(&putter->latency);
    putter->conn = h2conn_create(poll, &opts->target, PUTTER_CALLS, &events, putter);
    h2conn_set_token(putter->conn, opts->token);
}

void putter_close(struct putter *putter)
{
    h2conn_destroy(putter->conn);
    free(putter->message);
    free(putter->value);
    free(putter->revs);
    free(putter->watchers);
}

void putter_restart(struct putter *putter)
{
    assert(putter->answered == putter->sent);
    memset(putter->revs, 0, putter->sent * sizeof(*putter->revs));
    putter->sent = putter->answered = 0;
    histogram_clear(&putter->latency);
}

static char *field(char *to, char tag, size_t len)
{
    *to++ = tag;
    for (; len >= 128; len >>= 7)
        *to++ = (char)(len | 128);
    *to++ = (char)len;
    return to;
}

/* etcdserverpb.PutRequest: key = 1, value = 2 */
static struct belfry_bytes compose(struct putter *putter, size_t key_of, uint64_t now)
{
    char key[LOAD_KEY_MAX];
    load_put_key(&putter->opts.load, key_of, key);
    size_t key_len = strlen(key);
    char *to = field(putter->message, 0x0a, key_len);
    memcpy(to, key, key_len);
    size_t value_len = load_write_value(&putter->opts.load, key_of, putter->opts.value_bytes, now, putter->value);
    to = field(to + key_len, 0x12, value_len);
    memcpy(to, putter->value, value_len);
    to += value_len;
    return belfry_bytes_of(putter->message, (size_t)(to - putter->message));
}

static size_t key_of_put(struct putter *putter, size_t put)
{
    if (putter->watchers == NULL)
        return put;
    if (putter->opts.load.keys == LOAD_FLEET) {
        size_t range = put % fleet_ranges(&putter->opts.load.fleet);
        putter->watchers[put] = (uint32_t)range;
        return range;
    }
    size_t step = putter->opts.n_watchers / putter->opts.max_puts;
    size_t watcher = put * (step == 0 ? 1 : step) % putter->opts.n_watchers;
    putter->watchers[put] = (uint32_t)watcher;
    return watcher;
}

bool putter_put(struct putter *putter)
{
    assert(putter->sent < putter->opts.max_puts);
    if (putter->sent - putter->answered >= putter->opts.in_flight || h2conn_state(putter->conn) == H2CONN_CLOSED)
        return false;
    uint32_t call = h2conn_call(putter->conn, "/etcdserverpb.KV/Put");
    if (call == UINT32_MAX)
        return false;
    uint64_t now = stopwatch_ns();
    putter->sent_at[call % PUTTER_CALLS] = now;
    putter->put_of[call % PUTTER_CALLS] = putter->sent;
    h2conn_send(putter->conn, call, compose(putter, key_of_put(putter, putter->sent), now), H2CONN_LAST);
    h2conn_flush(putter->conn);
    putter->sent++;
    return true;
}

/* Puts under way together may have been given their revisions in another order; by how much is bounded by how many, so
 * that an insertion sort is nearly linear. */
struct tally_puts putter_puts(struct putter *putter)
{
    for (size_t i = 1; i < putter->sent; i++) {
        int64_t rev = putter->revs[i];
        uint32_t watcher = putter->watchers != NULL ? putter->watchers[i] : 0;
        size_t at = i;
        for (; at > 0 && putter->revs[at - 1] > rev; at--) {
            putter->revs[at] = putter->revs[at - 1];
            if (putter->watchers != NULL)
                putter->watchers[at] = putter->watchers[at - 1];
        }
        putter->revs[at] = rev;
        if (putter->watchers != NULL)
            putter->watchers[at] = watcher;
    }
    return (struct tally_puts){.revs = putter->revs, .watchers = putter->watchers, .n_puts = putter->sent};
}
