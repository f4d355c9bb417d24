/* registers: clients that write and read keys at the same time, and a record of what each asked for and was answered.
 *
 *     registers RECORD [NAME=VALUE ...]
 *
 * Each of these names adds a client on the endpoints that are its value:
 *
 *     writer    puts and deletes
 *     reader    reads linearizably: a third of it in transactions, which also compare what they read
 *     stale     reads serializably
 *     liar      reads serializably and records it as linearizable, which a judge must find out
 *
 * Other names: seed, keys, first (the values written are first, first + 1, ...), rest (milliseconds from an answer to
 * the client's next call), timeout (milliseconds for a call). Clients have a session each and one call at a time.
 * Every line on stdin is answered with the counts so far. At the end of input the calls under way are awaited, and the
 * counts are the last line.
 *
 * The record has a line per call that ended, and per write that may have happened. Times are of CLOCK_MONOTONIC, in
 * nanoseconds: so records of several processes make one history. tests/stress/linearizable.c judges it, and says what
 * the lines mean.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <belfry/belfry.h>

#include "commands.h"
#include "draw.h"
#include "now.h"

#define CLIENTS_MAX 64
#define KEY_BYTES   32
#define VALUE_BYTES 24
#define COOL_MS     20 /* after a call that failed, so that an unreachable server is not asked in a tight loop */

enum role { WRITER, READER, STALE, LIAR };
enum act { PUT, DELETE, GET, TXN }; /* TXN: reads */

struct client {
    enum role role;
    unsigned number;
    struct belfry *session;
    bool is_busy;
    int64_t due_ns; /* not busy: when it calls next */
    /* busy: the call */
    enum act act;
    uint64_t key, value;
    int64_t call_ns;
};

/* The program is its clients and one record, so they are plain globals. */
static struct client clients[CLIENTS_MAX];
static size_t n_clients, n_busy;
static uint64_t seed = 1, n_keys = 16, next_value = 1, rest_ms, timeout_ms = 3000;
static uint64_t n_reads, n_writes, n_stale, n_failed, n_uncertain, n_txns;
static uint64_t n_torn; /* transactions whose comparison saw another state than their read */
static struct belfry_opts *opts_call, *opts_stale;
static FILE *record;
static bool is_ending;

static uint64_t draw(uint64_t below)
{
    return draw_from(seed, below);
}

/* ---- the record ---- */

static void record_read(const struct client *c, const struct belfry_reply *reply, int64_t end_ns)
{
    const struct belfry_reply *got = c->act == TXN ? belfry_reply_op(reply, NULL) : reply;
    const struct belfry_event *kv = got == NULL ? NULL : belfry_reply_kv(got, NULL);
    int64_t rev = reply->header.revision;
    n_txns += c->act == TXN;
    n_torn += c->act == TXN && (got == NULL || reply->succeeded != (kv != NULL));
    if (c->role == STALE) {
        n_stale++;
        fprintf(record, "serializable %u %" PRIu64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", c->number,
                belfry_get_stats(c->session)->connects, rev, c->call_ns, end_ns);
        return;
    }
    n_reads++;
    char value[VALUE_BYTES] = "0";
    if (kv != NULL)
        snprintf(value, sizeof(value), "%.*s", (int)kv->value.len, kv->value.data);
    fprintf(record, "get %" PRIu64 " %s %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", c->key, value,
            kv != NULL ? kv->mod_rev : 0, rev, c->call_ns, end_ns);
}

static void record_write(const struct client *c, const struct belfry_reply *reply, int64_t end_ns)
{
    n_writes++;
    if (c->act == PUT)
        fprintf(record, "put %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", c->key, c->value,
                reply->header.revision, c->call_ns, end_ns);
    else
        fprintf(record, "delete %" PRIu64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", c->key, reply->deleted,
                reply->header.revision, c->call_ns, end_ns);
}

/* A write that failed may have happened, or may still happen. */
static void record_open(const struct client *c)
{
    n_uncertain++;
    if (c->act == PUT)
        fprintf(record, "put %" PRIu64 " %" PRIu64 " 0 %" PRId64 " -\n", c->key, c->value, c->call_ns);
    else
        fprintf(record, "delete %" PRIu64 " 0 0 %" PRId64 " -\n", c->key, c->call_ns);
}

/* ---- calls ---- */

static void client_rest(struct client *c, uint64_t ms)
{
    c->is_busy = false;
    n_busy--;
    c->due_ns = now_ns() + (int64_t)ms * 1000000;
}

static void on_reply(const struct belfry_reply *reply, void *user)
{
    struct client *c = user;
    int64_t end_ns = now_ns();
    bool is_read = c->act == GET || c->act == TXN;
    if (!reply->err && is_read)
        record_read(c, reply, end_ns);
    else if (!reply->err)
        record_write(c, reply, end_ns);
    else if (!is_read)
        record_open(c);
    n_failed += reply->err != BELFRY_OK;
    client_rest(c, reply->err ? COOL_MS : rest_ms);
}

/* Reads the key in either branch, by whether it is there. */
static int read_in_txn(struct client *c, struct belfry_range range, const struct belfry_opts *opts)
{
    struct belfry_txn *txn = belfry_txn_create();
    belfry_txn_if_mod_rev(txn, range.key, '>', 0);
    belfry_txn_get(txn, BELFRY_THEN, range);
    belfry_txn_get(txn, BELFRY_ELSE, range);
    int err = belfry_txn_commit(c->session, txn, opts, on_reply, c, NULL);
    belfry_txn_free(txn);
    return err;
}

static enum act draw_act(enum role role)
{
    if (role == WRITER)
        return draw(4) == 0 ? DELETE : PUT;
    return role == READER && draw(3) == 0 ? TXN : GET;
}

static void client_call(struct client *c)
{
    char key[KEY_BYTES], value[VALUE_BYTES];
    c->act = draw_act(c->role);
    c->key = draw(n_keys);
    c->value = c->act == PUT ? next_value++ : 0;
    struct belfry_bytes k = {key, (size_t)snprintf(key, sizeof(key), "/register/%04" PRIu64, c->key)};
    struct belfry_bytes v = {value, (size_t)snprintf(value, sizeof(value), "%" PRIu64, c->value)};
    struct belfry_range range = {.key = k, .kind = BELFRY_KEY};
    const struct belfry_opts *opts = c->role == STALE || c->role == LIAR ? opts_stale : opts_call;
    c->is_busy = true;
    n_busy++;
    c->call_ns = now_ns();
    int err;
    if (c->act == GET)
        err = belfry_get(c->session, range, opts, on_reply, c, NULL);
    else if (c->act == TXN)
        err = read_in_txn(c, range, opts);
    else if (c->act == PUT)
        err = belfry_put(c->session, k, v, opts, on_reply, c, NULL);
    else
        err = belfry_del(c->session, range, opts, on_reply, c, NULL);
    if (err) /* nothing was sent */
        client_rest(c, COOL_MS);
}

static void print_counts(char *line)
{
    (void)line;
    printf("reads=%" PRIu64 " writes=%" PRIu64 " serializable=%" PRIu64 " failed=%" PRIu64 " uncertain=%" PRIu64
           " txns=%" PRIu64 " torn=%" PRIu64 "\n",
           n_reads, n_writes, n_stale, n_failed, n_uncertain, n_txns, n_torn);
    fflush(stdout);
}

static bool turn(struct pollfd *fds, struct commands *in)
{
    int64_t now = now_ns();
    for (size_t i = 0; i < n_clients && !is_ending; i++) {
        if (!clients[i].is_busy && clients[i].due_ns <= now)
            client_call(&clients[i]);
    }
    fds[n_clients].fd = is_ending ? -1 : STDIN_FILENO;
    if (poll(fds, n_clients + 1, rest_ms > 0 ? 1 : 5) < 0 && errno != EINTR)
        return false;
    for (size_t i = 0; i < n_clients; i++) {
        if (belfry_dispatch(clients[i].session) != BELFRY_OK)
            return false;
    }
    if (fds[n_clients].revents != 0)
        commands_read(in, print_counts, &is_ending);
    return true;
}

static bool run(void)
{
    static char buf[256];
    struct commands in = {buf, sizeof(buf), 0};
    struct pollfd fds[CLIENTS_MAX + 1];
    for (size_t i = 0; i < n_clients; i++)
        fds[i] = (struct pollfd){.fd = belfry_fd(clients[i].session), .events = POLLIN};
    fds[n_clients] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    while (!is_ending || n_busy > 0) {
        if (!turn(fds, &in))
            return false;
    }
    return true;
}

/* ---- arguments ---- */

static bool add_client(enum role role, const char *endpoints)
{
    char why[256];
    struct client *c = &clients[n_clients];
    if (n_clients == CLIENTS_MAX)
        return false;
    c->role = role;
    c->number = (unsigned)n_clients;
    if (belfry_open_why(endpoints, NULL, &c->session, why, sizeof(why)) != BELFRY_OK) {
        fprintf(stderr, "registers: %s: %s\n", endpoints, why);
        return false;
    }
    n_clients++;
    return true;
}

static bool set(const char *name, const char *text)
{
    static const char *const roles[] = {[WRITER] = "writer", [READER] = "reader", [STALE] = "stale", [LIAR] = "liar"};
    const struct {
        const char *name;
        uint64_t *at;
    } numbers[] = {
        {"seed", &seed}, {"keys", &n_keys}, {"first", &next_value}, {"rest", &rest_ms}, {"timeout", &timeout_ms}};
    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
        if (strcmp(name, roles[i]) == 0)
            return add_client((enum role)i, text);
    }
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (strcmp(name, numbers[i].name) != 0)
            continue;
        *numbers[i].at = strtoull(text, NULL, 10);
        return *numbers[i].at > 0 || numbers[i].at == &rest_ms;
    }
    return false;
}

static bool read_arguments(char **words)
{
    for (; *words != NULL; words++) {
        char *eq = strchr(*words, '=');
        if (eq != NULL)
            *eq = 0;
        if (eq != NULL && set(*words, eq + 1))
            continue;
        fprintf(stderr, "registers: %s: not understood\n", *words);
        return false;
    }
    return belfry_opts_set_int(&opts_call, "command-timeout", (int64_t)timeout_ms) == BELFRY_OK &&
           belfry_opts_set_int(&opts_stale, "command-timeout", (int64_t)timeout_ms) == BELFRY_OK &&
           belfry_opts_set(&opts_stale, "serializable", NULL) == BELFRY_OK;
}

int main(int argc, char **argv)
{
    int status = 2;
    if (argc < 3 || !read_arguments(argv + 2)) {
        fprintf(stderr, "usage: registers RECORD [NAME=VALUE ...]\n");
    } else if ((record = fopen(argv[1], "w")) == NULL) {
        perror(argv[1]);
        status = 1;
    } else {
        status = run() ? 0 : 1;
        print_counts(NULL);
        if (fclose(record) != 0)
            status = 1;
    }
    for (size_t i = 0; i < n_clients; i++)
        belfry_close(clients[i].session);
    belfry_opts_free(opts_call);
    belfry_opts_free(opts_stale);
    return status;
}
