/* src/cli/cmd_lease.c: belfryctl lease grant, revoke, timetolive, list, keep-alive. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/one_call.h"
#include "cli/out/out.h"
#include "cli/out/out_etcd_json.h"
#include "cli/out/out_json.h"
#include "cli/out/out_simple.h"

#define AGAIN_MS 1000 /* after a renewal that failed */

/* As etcdctl writes an id. */
#define LEASE_ID "%016" PRIx64

static void show_line(int64_t lease, const char *name, int64_t number)
{
    printf("{\"lease\":\"%" PRIx64 "\",\"%s\":%" PRId64 "}\n", (uint64_t)lease, name, number);
}

/* ---- grant ---- */

static int start_grant(struct belfry *b, const struct session_call *call, const struct belfry_opts *opts,
                       belfry_reply_fn fn, void *user)
{
    return belfry_lease_grant(b, call->ttl_s, 0, opts, fn, user, NULL);
}

static void show_grant(const struct flags *flags, const struct session_call *call, enum form form,
                       const struct belfry_reply *reply)
{
    (void)flags;
    (void)call;
    if (form == FORM_ETCD_JSON)
        etcd_json_lease_grant(stdout, reply);
    else if (form == FORM_LINES)
        show_line(reply->lease, "ttl", reply->ttl_s);
    else
        printf("lease " LEASE_ID " granted with TTL(%" PRId64 "s)\n", (uint64_t)reply->lease, reply->ttl_s);
}

/* ---- revoke ---- */

static int start_revoke(struct belfry *b, const struct session_call *call, const struct belfry_opts *opts,
                        belfry_reply_fn fn, void *user)
{
    return belfry_lease_revoke(b, call->lease, opts, fn, user, NULL);
}

static void show_revoke(const struct flags *flags, const struct session_call *call, enum form form,
                        const struct belfry_reply *reply)
{
    (void)flags;
    if (form == FORM_ETCD_JSON)
        etcd_json_lease_revoked(stdout, reply);
    else if (form == FORM_LINES)
        show_line(call->lease, "ttl", 0);
    else
        printf("lease " LEASE_ID " revoked\n", (uint64_t)call->lease);
}

/* ---- timetolive ---- */

static int start_ttl(struct belfry *b, const struct session_call *call, const struct belfry_opts *opts,
                     belfry_reply_fn fn, void *user)
{
    return belfry_lease_ttl(b, call->lease, opts, fn, user, NULL);
}

static void show_ttl_lines(const struct belfry_reply *reply)
{
    printf("{\"lease\":\"%" PRIx64 "\",\"ttl\":%" PRId64 ",\"granted_ttl\":%" PRId64 "}\n", (uint64_t)reply->lease,
           reply->ttl_s, reply->granted_ttl_s);
    for (const struct belfry_bytes *key = NULL; (key = belfry_reply_key(reply, key)) != NULL;) {
        printf("{\"lease\":\"%" PRIx64 "\"", (uint64_t)reply->lease);
        json_member(stdout, "key", *key);
        fputs("}\n", stdout);
    }
}

static void show_ttl_simple(const struct flags *flags, const struct belfry_reply *reply)
{
    if (reply->granted_ttl_s == 0 && reply->ttl_s < 0) {
        printf("lease " LEASE_ID " already expired\n", (uint64_t)reply->lease);
        return;
    }
    printf("lease " LEASE_ID " granted with TTL(%" PRId64 "s), remaining(%" PRId64 "s)", (uint64_t)reply->lease,
           reply->granted_ttl_s, reply->ttl_s);
    if (flags_on(flags, FLAG_KEYS)) {
        const char *blank = "";
        fputs(", attached keys([", stdout);
        for (const struct belfry_bytes *key = NULL; (key = belfry_reply_key(reply, key)) != NULL; blank = " ") {
            fputs(blank, stdout);
            simple_bytes(stdout, *key, 0);
        }
        fputs("])", stdout);
    }
    putchar('\n');
}

static void show_ttl(const struct flags *flags, const struct session_call *call, enum form form,
                     const struct belfry_reply *reply)
{
    (void)call;
    if (form == FORM_ETCD_JSON)
        etcd_json_lease_ttl(stdout, reply);
    else if (form == FORM_LINES)
        show_ttl_lines(reply);
    else
        show_ttl_simple(flags, reply);
}

/* ---- list ---- */

static int start_list(struct belfry *b, const struct session_call *call, const struct belfry_opts *opts,
                      belfry_reply_fn fn, void *user)
{
    (void)call;
    return belfry_lease_list(b, opts, fn, user, NULL);
}

static void show_list(const struct flags *flags, const struct session_call *call, enum form form,
                      const struct belfry_reply *reply)
{
    size_t n = 0;
    (void)flags;
    (void)call;
    if (form == FORM_ETCD_JSON) {
        etcd_json_leases(stdout, reply);
        return;
    }
    for (const int64_t *id = NULL; (id = belfry_reply_lease(reply, id)) != NULL;)
        n++;
    if (form != FORM_LINES)
        printf("found %zu leases\n", n);
    for (const int64_t *id = NULL; (id = belfry_reply_lease(reply, id)) != NULL;) {
        if (form == FORM_LINES)
            printf("{\"lease\":\"%" PRIx64 "\"}\n", (uint64_t)*id);
        else
            printf(LEASE_ID "\n", (uint64_t)*id);
    }
}

/* ---- keep-alive ---- */

static int start_renewal(struct belfry *b, const struct session_call *call, const struct belfry_opts *opts,
                         belfry_reply_fn fn, void *user)
{
    return belfry_lease_keepalive(b, call->lease, opts, fn, user, NULL);
}

static void show_renewal(const struct flags *flags, const struct session_call *call, enum form form,
                         const struct belfry_reply *reply)
{
    (void)flags;
    (void)call;
    if (form == FORM_ETCD_JSON)
        etcd_json_lease_renewed(stdout, reply);
    else if (form == FORM_LINES)
        show_line(reply->lease, "ttl", reply->ttl_s);
    else
        printf("lease " LEASE_ID " keepalived with TTL(%" PRId64 ")\n", (uint64_t)reply->lease, reply->ttl_s);
}

/* A lease that is renewed until it is gone. */
struct keeping {
    const struct session_call *call;
    enum form form;
    struct belfry *b;
    int64_t gone_ms; /* when the server may have let it go; 0: it was never renewed */
    int64_t next_ms; /* the next renewal; -1: one is under way */
    bool over;
    enum exit_code code; /* valid when over */
};

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now); /* a lease goes on while the machine sleeps */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void end(struct keeping *k, enum exit_code code)
{
    k->over = true;
    k->code = code;
}

/* As etcdctl tells it: not at all in JSON. */
static void show_gone(const struct keeping *k)
{
    if (k->form == FORM_LINES)
        show_line(k->call->lease, "ttl", 0);
    else if (k->form != FORM_ETCD_JSON)
        printf("lease " LEASE_ID " expired or revoked.\n", (uint64_t)k->call->lease);
}

static void on_renewal(const struct belfry_reply *reply, void *user)
{
    struct keeping *k = user;
    if (reply->err == BELFRY_OK) {
        show_renewal(NULL, k->call, k->form, reply);
        k->gone_ms = now_ms() + reply->ttl_s * 1000;
        k->next_ms = now_ms() + reply->ttl_s * 1000 / 3;
    } else if (reply->err == BELFRY_ERR_NOT_FOUND) { /* which is how it is meant to end */
        show_gone(k);
        end(k, EXIT_DONE);
    } else if (now_ms() < k->gone_ms) {
        (void)report_error(reply->err, reply->why);
        k->next_ms = now_ms() + AGAIN_MS;
    } else if (reply->err != BELFRY_ERR_CANCELED) {
        end(k, report_error(reply->err, reply->why));
    }
    if (out_flush() != OUT_OPEN)
        end(k, out_flush() == OUT_BROKEN ? EXIT_FAILED : EXIT_DONE);
}

/* Standard output is in the poll without events: that tells of a reader who has gone while nothing is written. */
static void turn(struct keeping *k)
{
    struct pollfd fds[] = {{.fd = belfry_fd(k->b), .events = POLLIN}, {.fd = STDOUT_FILENO}};
    int64_t now = now_ms(), wait = k->next_ms < 0 ? -1 : k->next_ms > now ? k->next_ms - now : 0;
    if (poll(fds, 2, wait > INT32_MAX ? INT32_MAX : (int)wait) < 0 && errno != EINTR)
        end(k, report_errno("poll"));
    int err = (fds[0].revents & POLLIN) != 0 ? belfry_dispatch(k->b) : BELFRY_OK;
    if (err != BELFRY_OK)
        end(k, report_error(err, NULL));
    else if ((fds[1].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0 && !k->over)
        end(k, EXIT_DONE);
}

static enum exit_code keep_alive(const struct flags *flags, const struct session_call *call)
{
    struct keeping k = {.call = call};
    char why[FLAGS_WHY];
    if (form_choose(flags, isatty(STDOUT_FILENO) == 1, &k.form, why) != BELFRY_OK)
        return report_usage(why);
    enum exit_code code = session_open(flags, NULL, &k.b);
    if (code != EXIT_DONE)
        return code;
    while (!k.over) {
        if (k.next_ms >= 0 && now_ms() >= k.next_ms) {
            int err = start_renewal(k.b, call, NULL, on_renewal, &k);
            k.next_ms = -1;
            if (err != BELFRY_OK)
                end(&k, report_error(err, NULL));
        }
        if (!k.over)
            turn(&k);
    }
    code = k.code; /* before what is under way is told CANCELED */
    belfry_close(k.b);
    return code;
}

/* ---- the command ---- */

static bool parse(const char *text, int base, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, base);
    return errno == 0 && *text != '\0' && strchr(" +-\t\n", *text) == NULL && *end == '\0';
}

static const struct word {
    const char *name;
    enum { TAKES_NOTHING, TAKES_TTL, TAKES_ID } takes;
    struct session_call call;
} words[] = {
    {"grant", TAKES_TTL, {.start = start_grant, .show = show_grant}},
    {"revoke", TAKES_ID, {.start = start_revoke, .show = show_revoke}},
    {"timetolive", TAKES_ID, {.start = start_ttl, .show = show_ttl}},
    {"list", TAKES_NOTHING, {.start = start_list, .show = show_list}},
    {"keep-alive", TAKES_ID, {.start = start_renewal, .show = show_renewal}},
};

static enum exit_code understand(const struct flags *flags, const struct word *word, struct session_call *call)
{
    const char *argument = flags->n_args > 1 ? flags->args[1] : NULL;
    if (word->takes == TAKES_NOTHING && argument != NULL)
        return report_usage("lease list takes nothing more");
    if (word->takes == TAKES_TTL && (argument == NULL || !parse(argument, 10, &call->ttl_s)))
        return report_usage("lease grant needs a number of seconds: belfryctl lease grant 60");
    if (word->takes == TAKES_ID && (argument == NULL || !parse(argument, 16, &call->lease)))
        return report_usage("a lease is named by its hexadecimal digits: 'belfryctl lease list' has them");
    if (flags_on(flags, FLAG_KEYS) && word->call.start != start_ttl)
        return report_usage("--keys is for lease timetolive");
    if (flags_on(flags, FLAG_ONCE) && word->call.start != start_renewal)
        return report_usage("--once is for lease keep-alive");
    return EXIT_DONE;
}

enum exit_code cmd_lease(const struct flags *flags)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        struct session_call call = words[i].call;
        if (strcmp(words[i].name, flags->args[0]) != 0)
            continue;
        enum exit_code code = understand(flags, &words[i], &call);
        if (code != EXIT_DONE)
            return code;
        return call.start == start_renewal && !flags_on(flags, FLAG_ONCE) ? keep_alive(flags, &call)
                                                                          : session_run_call(flags, &call);
    }
    return report_usage("lease knows grant, revoke, timetolive, list and keep-alive");
}
