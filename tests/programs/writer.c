/* writer: makes revisions as fast as a session can, through any fault, with a bounded number of calls under way.
 *
 *     writer ENDPOINTS [NAME=VALUE ...] [--OPTION=VALUE ...]
 *
 * Names: mode (mix, fill, put, one), seed, count (writes that must succeed; 0: until end of input), inflight, rate
 * (writes a second, 0: no limit), prefix, keys (in each of 8 groups), size (largest value), per (puts in a transaction
 * of fill). What begins with dashes is an option of the session.
 *
 *     mix    puts, deletes, transactions of several keys, range deletes, leases revoked and left to expire; keys are
 *            PREFIXgG/kNNN
 *     fill   PREFIX000000 to PREFIX(count-1), in transactions
 *     put    the same keys, one put each
 *     one    the key PREFIX, again and again
 *
 * A write that fails is counted and not repeated by mix, since it may have happened: what did happen is for etcd's own
 * history to say. fill and put do repeat it. At the end it prints one line: writes, errors by name, the highest
 * revision seen. Exit status 0 when all was done.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <belfry/belfry.h>

#include "draw.h"
#include "now.h"

#define GROUPS       8
#define LEASES_MAX   8
#define TXN_KEYS_MAX 6
#define KEY_BYTES    256
#define COOL_NS      20000000 /* after a failed call, so that an unreachable cluster is not asked in a tight loop */

enum mode { MIX, FILL, PUT, ONE };

static struct {
    enum mode mode;
    uint64_t seed, count, inflight, rate, keys, size, per;
    const char *prefix;
} conf = {MIX, 1, 0, 32, 0, 60, 64, 100, "/w/"};

/* The program is one session and its calls, so they are plain globals. */
static struct belfry *session;
static uint64_t n_inflight, n_ok, n_failed, n_started;
static uint64_t n_errors[BELFRY_ERR_END_];
static int64_t highest_rev;
static int64_t cool_until_ns;
static int64_t leases[LEASES_MAX]; /* 0: none */
static char *value;                /* conf.size bytes and a terminator */
static bool *filled;               /* fill and put: which of the calls have succeeded or are under way */
static uint64_t n_slots;           /* of filled */

static uint64_t draw(uint64_t below)
{
    return draw_from(conf.seed, below);
}

static void on_reply(const struct belfry_reply *reply, void *user)
{
    bool *slot = user;
    n_inflight--;
    n_errors[reply->err]++;
    if (reply->err) {
        n_failed++;
        cool_until_ns = now_ns() + COOL_NS;
        if (slot != NULL)
            *slot = false;
        return;
    }
    n_ok++;
    if (reply->header.revision > highest_rev)
        highest_rev = reply->header.revision;
}

static void on_lease(const struct belfry_reply *reply, void *user)
{
    if (!reply->err)
        leases[draw(LEASES_MAX)] = reply->lease; /* one that is written over is left to expire */
    on_reply(reply, user);
}

/* Begins with the time, so that a reader on this machine can tell the delay, and is never the same twice. */
static struct belfry_bytes make_value(size_t len)
{
    int head = snprintf(value, conf.size + 64, "@%" PRId64 ";%" PRIu64 ".%" PRIu64 ";", now_ns(), conf.seed, n_started);
    if ((size_t)head < len) {
        memset(value + head, 'x', len - (size_t)head);
        return (struct belfry_bytes){value, len};
    }
    return (struct belfry_bytes){value, (size_t)head};
}

static struct belfry_bytes make_key(char *buf, uint64_t group, uint64_t number)
{
    int len = snprintf(buf, KEY_BYTES, "%sg%" PRIu64 "/k%03" PRIu64, conf.prefix, group, number);
    return (struct belfry_bytes){buf, (size_t)len};
}

static struct belfry_bytes any_key(char *buf)
{
    return make_key(buf, draw(GROUPS), draw(conf.keys));
}

static int mix_put(int64_t lease)
{
    char key[KEY_BYTES], id[32];
    struct belfry_opts *opts = NULL;
    snprintf(id, sizeof(id), "%" PRId64, lease);
    int err = lease != 0 ? belfry_opts_set(&opts, "lease", id) : BELFRY_OK;
    if (!err)
        err = belfry_put(session, any_key(key), make_value(draw(conf.size + 1)), opts, on_reply, NULL, NULL);
    belfry_opts_free(opts);
    return err;
}

static int mix_delete(void)
{
    char key[KEY_BYTES];
    return belfry_del(session, (struct belfry_range){.key = any_key(key), .kind = BELFRY_KEY}, NULL, on_reply, NULL,
                      NULL);
}

/* Ten keys of one group: k130 to k139, or none at all. */
static int mix_range_delete(void)
{
    char key[KEY_BYTES];
    int len = snprintf(key, sizeof(key), "%sg%" PRIu64 "/k%02" PRIu64, conf.prefix, draw(GROUPS), draw(conf.keys) / 10);
    struct belfry_range range = {.key = {key, (size_t)len}, .kind = BELFRY_PREFIX};
    return belfry_del(session, range, NULL, on_reply, NULL, NULL);
}

/* Different keys, as etcd demands, in an order that is not that of the keys. */
static int mix_txn(void)
{
    struct belfry_txn *txn = belfry_txn_create();
    uint64_t n = 2 + draw(TXN_KEYS_MAX - 1), first = draw(conf.keys);
    for (uint64_t i = 0; i < n; i++) {
        char key[KEY_BYTES];
        struct belfry_bytes k = make_key(key, draw(GROUPS), (first + (n - i) * 7) % conf.keys);
        if (draw(4) == 0)
            belfry_txn_del(txn, BELFRY_THEN, (struct belfry_range){.key = k, .kind = BELFRY_KEY});
        else
            belfry_txn_put(txn, BELFRY_THEN, k, make_value(draw(conf.size + 1)), 0);
        n_started++;
    }
    int err = belfry_txn_commit(session, txn, NULL, on_reply, NULL, NULL);
    belfry_txn_free(txn);
    return err;
}

static int mix_lease(void)
{
    size_t i = draw(LEASES_MAX);
    if (leases[i] == 0 || draw(4) == 0)
        return belfry_lease_grant(session, 2, 0, NULL, on_lease, NULL, NULL);
    if (draw(3) != 0)
        return mix_put(leases[i]);
    int64_t id = leases[i];
    leases[i] = 0;
    return belfry_lease_revoke(session, id, NULL, on_reply, NULL, NULL);
}

static int start_mix(void)
{
    uint64_t dice = draw(100);
    if (dice < 64)
        return mix_put(0);
    if (dice < 74)
        return mix_delete();
    if (dice < 88)
        return mix_txn();
    if (dice < 90)
        return mix_range_delete();
    return mix_lease();
}

static int start_slot(uint64_t slot)
{
    uint64_t per = conf.mode == FILL ? conf.per : 1, end = (slot + 1) * per;
    struct belfry_txn *txn = belfry_txn_create();
    char key[KEY_BYTES];
    for (uint64_t i = slot * per; i < end && i < conf.count; i++) {
        int len = conf.mode == ONE ? snprintf(key, sizeof(key), "%s", conf.prefix)
                                   : snprintf(key, sizeof(key), "%s%06" PRIu64, conf.prefix, i);
        belfry_txn_put(txn, BELFRY_THEN, (struct belfry_bytes){key, (size_t)len}, make_value(conf.size), 0);
        n_started++;
    }
    int err = belfry_txn_commit(session, txn, NULL, on_reply, &filled[slot], NULL);
    belfry_txn_free(txn);
    filled[slot] = err == BELFRY_OK;
    return err;
}

static int start_fill(void)
{
    static uint64_t next;
    for (uint64_t tried = 0; tried < n_slots; tried++) {
        uint64_t slot = next++ % n_slots;
        if (!filled[slot])
            return start_slot(slot);
    }
    return BELFRY_ERR_AGAIN; /* all done or under way */
}

static bool may_start(int64_t now, int64_t begin)
{
    if (n_inflight >= conf.inflight || now < cool_until_ns)
        return false;
    return conf.rate == 0 || n_started < conf.rate * (uint64_t)((now - begin) / 1000) / 1000000;
}

static void start_calls(int64_t begin)
{
    while (may_start(now_ns(), begin)) {
        if ((conf.mode == MIX ? start_mix() : start_fill()) != BELFRY_OK)
            return;
        n_started++;
        n_inflight++;
    }
}

static bool done(bool stop)
{
    if (conf.mode != MIX)
        return n_ok >= n_slots && n_inflight == 0;
    return (stop || (conf.count > 0 && n_ok >= conf.count)) && n_inflight == 0;
}

static int loop(void)
{
    struct pollfd fds[] = {{.fd = belfry_fd(session), .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
    int64_t begin = now_ns();
    bool stop = false;
    while (!done(stop)) {
        if (!stop && !(conf.mode == MIX && conf.count > 0 && n_ok >= conf.count))
            start_calls(begin);
        if (poll(fds, stop || conf.count > 0 ? 1 : 2, 5) < 0 && errno != EINTR)
            return 1;
        char byte;
        if (fds[1].revents && read(STDIN_FILENO, &byte, 1) <= 0) {
            stop = true;
            fds[1].revents = 0;
        }
        if (belfry_dispatch(session) != BELFRY_OK)
            return 1;
    }
    return 0;
}

static bool set_number(const char *name, const char *text)
{
    const struct {
        const char *name;
        uint64_t *at;
    } numbers[] = {{"seed", &conf.seed}, {"count", &conf.count}, {"inflight", &conf.inflight},
                   {"rate", &conf.rate}, {"keys", &conf.keys},   {"size", &conf.size},
                   {"per", &conf.per}};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (strcmp(name, numbers[i].name) != 0)
            continue;
        *numbers[i].at = strtoull(text, NULL, 10);
        return true;
    }
    return false;
}

static bool set_conf(const char *name, const char *text)
{
    static const char *const modes[] = {[MIX] = "mix", [FILL] = "fill", [PUT] = "put", [ONE] = "one"};
    if (strcmp(name, "prefix") == 0) {
        conf.prefix = text;
        return true;
    }
    if (strcmp(name, "mode") != 0)
        return set_number(name, text);
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(text, modes[i]) != 0)
            continue;
        conf.mode = (enum mode)i;
        return true;
    }
    return false;
}

static int read_arguments(char **words, struct belfry_opts **opts)
{
    for (; *words != NULL; words++) {
        char *eq = strchr(*words, '=');
        if (eq != NULL)
            *eq = 0;
        bool is_option = strncmp(*words, "--", 2) == 0;
        if (is_option ? belfry_opts_set(opts, *words + 2, eq != NULL ? eq + 1 : NULL) == BELFRY_OK
                      : eq != NULL && set_conf(*words, eq + 1))
            continue;
        fprintf(stderr, "writer: %s: not understood\n", *words);
        return BELFRY_ERR_INVALID;
    }
    return BELFRY_OK;
}

static bool reserve(void)
{
    uint64_t per = conf.mode == FILL && conf.per > 0 ? conf.per : 1;
    n_slots = (conf.count + per - 1) / per;
    value = malloc(conf.size + 64);
    filled = calloc(n_slots + 1, sizeof(*filled));
    return value != NULL && filled != NULL;
}

static void print_result(void)
{
    printf("writes=%" PRIu64 " failed=%" PRIu64 " rev=%" PRId64, n_ok, n_failed, highest_rev);
    for (int i = 1; i < BELFRY_ERR_END_; i++)
        if (n_errors[i] > 0)
            printf(" %s=%" PRIu64, belfry_errname(i), n_errors[i]);
    putchar('\n');
}

int main(int argc, char **argv)
{
    struct belfry_opts *opts = NULL;
    char why[256] = "";
    if (argc < 2 || read_arguments(argv + 2, &opts) != BELFRY_OK || !reserve()) {
        fprintf(stderr, "usage: writer ENDPOINTS [NAME=VALUE ...] [--OPTION=VALUE ...]\n");
        belfry_opts_free(opts);
        return 2;
    }
    int err = belfry_open_why(argv[1], opts, &session, why, sizeof(why));
    belfry_opts_free(opts);
    if (err) {
        fprintf(stderr, "writer: %s: %s\n", belfry_errname(err), why);
        return 1;
    }
    int status = loop();
    print_result();
    belfry_close(session);
    free(value);
    free(filled);
    return status;
}
