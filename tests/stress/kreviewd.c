/* tests/stress/kreviewd.c
 *
 * Asks real Kubernetes API servers what users may read, with permit and the reviews of src/serve/rights, as a worker of
 * a tier does; nothing is served. Driven by integration/test_kube_reviews.py.
 *
 *     kreviewd --servers URL[,URL...] --cacert F --token T
 *
 * On stdin, one a line, the last may be missing:
 *
 *     ask ID TOKEN VERB RESOURCE NAMESPACE FIELDS     asks once; NAMESPACE "-": all
 *     hold ID TOKEN VERB RESOURCE NAMESPACE FIELDS    keeps asking, as for a watch
 *
 * On stdout: "verdict ID granted|held|refused|unavailable REASON", "event ID paused|resumed|ended REASON", "may ID 0|1"
 * when it changes whether a held ID may be delivered to, and "stats TOKEN_REVIEWS ACCESS_REVIEWS FAILED" every second.
 * The end of stdin ends it.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uv.h>

#include "base/buf.h"
#include "base/clock.h"
#include "serve/rights/permit.h"
#include "serve/rights/review_subject.h"
#include "serve/rights/reviews.h"

#define TURN_MS 20
#define TEXT    4096

/* One question, or one that is held. Those that were answered stay until the end. */
struct asked {
    struct asked *next;
    char id[64];
    bool holds, may;
    struct permit_question *question;
    struct permit_party party;
    struct identity who;
    char token[TEXT];
};

static struct {
    uv_loop_t loop;
    uv_timer_t timer;
    uv_pipe_t in;
    struct belfry_buf line;
    struct permit *permit;
    struct reviews *reviews;
    struct asked *asked;
    uint64_t said_ms;
} d;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "kreviewd: %s: %s\n", what, why);
    exit(1);
}

static void must(enum belfry_err err, const char *what)
{
    if (err != BELFRY_OK)
        die(what, belfry_strerror((int)err));
}

/* ---- answers ---- */

static void on_verdict(enum permit_verdict verdict, const char *reason, void *user)
{
    static const char *const names[] = {[PERMIT_GRANTED] = "granted",
                                        [PERMIT_HELD] = "held",
                                        [PERMIT_REFUSED] = "refused",
                                        [PERMIT_UNAVAILABLE] = "unavailable"};
    struct asked *asked = user;
    if (verdict != PERMIT_HELD)
        asked->question = NULL;
    printf("verdict %s %s %s\n", asked->id, names[verdict], reason);
}

static void on_party(struct permit_party *party, enum permit_event event, const char *reason)
{
    static const char *const names[] = {
        [PERMIT_PAUSED] = "paused", [PERMIT_RESUMED] = "resumed", [PERMIT_ENDED] = "ended"};
    const struct asked *asked = belfry_container(party, struct asked, party);
    printf("event %s %s %s\n", asked->id, names[event], reason);
}

static void look(struct asked *asked, uint64_t now)
{
    bool may = asked->question != NULL && asked->party.rights.bearer != NULL &&
               permit_may_deliver(d.permit, &asked->party, now);
    if (may != asked->may)
        printf("may %s %d\n", asked->id, may);
    asked->may = may;
}

static void on_turn(uv_timer_t *timer)
{
    struct reviews_stats stats;
    uint64_t now = belfry_clock_ms();
    (void)timer;
    permit_turn(d.permit, now);
    for (struct asked *asked = d.asked; asked != NULL; asked = asked->next)
        if (asked->holds)
            look(asked, now);
    if (now >= d.said_ms + 1000) {
        reviews_stats(d.reviews, &stats);
        printf("stats %llu %llu %llu\n", (unsigned long long)stats.token_reviews,
               (unsigned long long)stats.access_reviews, (unsigned long long)stats.failed);
        d.said_ms = now;
    }
    fflush(stdout);
}

/* ---- questions ---- */

static void ask(struct asked *asked, const struct review_subject *subject)
{
    struct belfry_buf key;
    uint64_t now = belfry_clock_ms();
    const struct belfry_bytes none = {0};
    belfry_buf_init(&key);
    must(review_subject_write(subject, &key), "subject");
    asked->who = identity_of_token(IDENTITY_FIELD_AUTHORIZATION, belfry_bytes_str(asked->token));
    if (asked->holds) {
        permit_join(d.permit, &asked->party, &asked->who, on_party);
        must(permit_hold(d.permit, &asked->party, belfry_buf_bytes(&key), none, now, on_verdict, asked,
                         &asked->question),
             "hold");
    } else {
        must(permit_ask(d.permit, &asked->who, belfry_buf_bytes(&key), none, now, on_verdict, asked, &asked->question),
             "ask");
    }
    belfry_buf_fini(&key);
}

static void read_line(const char *line)
{
    char word[8], verb[16], resource[64], namespace[64], fields[256] = "";
    struct asked *asked = calloc(1, sizeof(*asked));
    if (asked == NULL)
        die("memory", "none");
    int n = sscanf(line, "%7s %63s %4095s %15s %63s %63s %255s", word, asked->id, asked->token, verb, resource,
                   namespace, fields);
    if (n < 6)
        die("line", line);
    asked->holds = strcmp(word, "hold") == 0;
    asked->next = d.asked;
    d.asked = asked;
    struct review_subject subject = {.verb = belfry_bytes_str(verb),
                                     .version = belfry_bytes_str("v1"),
                                     .resource = belfry_bytes_str(resource),
                                     .field_selector = belfry_bytes_str(fields)};
    if (strcmp(namespace, "-") != 0)
        subject.namespace = belfry_bytes_str(namespace);
    ask(asked, &subject);
}

static void on_room(uv_handle_t *handle, size_t wanted, uv_buf_t *out)
{
    static char room[1 << 16];
    (void)handle, (void)wanted;
    *out = uv_buf_init(room, sizeof(room));
}

static void on_input(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    if (n < 0) {
        uv_read_stop(stream);
        uv_stop(&d.loop);
        return;
    }
    for (ssize_t i = 0; i < n; i++) {
        char c = buf->base[i] == '\n' ? '\0' : buf->base[i];
        must(belfry_buf_append(&d.line, &c, 1), "line");
        if (c != '\0')
            continue;
        read_line(belfry_buf_bytes(&d.line).data);
        belfry_buf_clear(&d.line);
    }
}

/* ---- */

static void run(const char *servers, const char *cacert, const char *token)
{
    struct belfry_endpoint *endpoints;
    struct belfry_tls *tls = NULL;
    struct belfry_dns *dns;
    struct uplink *uplink;
    struct own_token *own;
    struct answers *answers;
    size_t n;
    char why[300];
    const char *refusal = "";
    if (belfry_endpoint_parse_list(servers, &endpoints, &n, why, sizeof(why)) != BELFRY_OK ||
        belfry_tls_create(&(struct belfry_tls_opts){.cacert = cacert}, &tls, why, sizeof(why)) != BELFRY_OK)
        die("servers", why);
    uv_loop_init(&d.loop);
    must(belfry_dns_create(&d.loop, &dns), "dns");
    struct uplink_opts up = {.loop = &d.loop,
                             .dns = dns,
                             .endpoints = endpoints,
                             .n_endpoints = n,
                             .tls = tls,
                             .dial_timeout_ms = 2000,
                             .is_kube = true,
                             .seed = 1};
    must(uplink_create(&up, &uplink), "uplink");
    must(own_token_create(&(struct own_token_opts){.token = token}, belfry_clock_ms(), &own, &refusal), "token");
    must(answers_create(PERMIT_PERIOD_MS, &answers), "answers");
    struct reviews_opts reviews = {.uplink = uplink,
                                   .loop = &d.loop,
                                   .own_token = own,
                                   .answers = answers,
                                   .n_members = n,
                                   .period_ms = PERMIT_PERIOD_MS};
    must(reviews_create(&reviews, &d.reviews), "reviews");
    struct permit_opts permit = {.uplink = uplink,
                                 .asker = reviews_asker(d.reviews),
                                 .loop = &d.loop,
                                 .n_members = n,
                                 .seed = 1,
                                 .answers = answers};
    must(permit_create(&permit, &d.permit), "permit");
    uv_timer_init(&d.loop, &d.timer);
    uv_timer_start(&d.timer, on_turn, 0, TURN_MS);
    uv_pipe_init(&d.loop, &d.in, 0);
    uv_pipe_open(&d.in, 0);
    uv_read_start((uv_stream_t *)&d.in, on_room, on_input);
    uv_run(&d.loop, UV_RUN_DEFAULT); /* the process ends with it, and so does all that was created */
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"servers", required_argument, NULL, 's'},
                                            {"cacert", required_argument, NULL, 'c'},
                                            {"token", required_argument, NULL, 't'},
                                            {NULL, 0, NULL, 0}};
    const char *servers = "", *cacert = NULL, *token = NULL;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 's')
            servers = optarg;
        else if (c == 'c')
            cacert = optarg;
        else if (c == 't')
            token = optarg;
        else
            return 2;
    }
    run(servers, cacert, token);
    _Exit(0);
}
