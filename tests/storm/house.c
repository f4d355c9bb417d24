/* tests/storm/house.c */
#include "storm/house.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "daemon/limits.h"
#include "daemon/tier.h"
#include "net/tls_test_keys.h"
#include "net/tls_tickets.h"
#include "serve/sse/tickets.h"
#include "server/inbound.h"
#include "storm/apiserver.h"
#include "storm/clock.h"
#include "storm/etcd.h"
#include "storm/feed.h"
#include "storm/janitor.h"
#include "storm/origin.h"
#include "storm/reader.h"
#include "storm/threads.h"
#include "storm/verdict.h"
#include "support/refuse.h"

#define COUNT_TURNS     10000
#define READS           8 /* of the reader in a round */
#define WORKERS_MAX     3
#define HOUSE_OWN_FILES 128 /* that are not connections: OWN_FDS of daemon/service.c */
#define BALANCERS       "proxy-from=10.9.9.0/24"

static const char widgets[] =
    "apiVersion: apiextensions.k8s.io/v1\n"
    "kind: CustomResourceDefinition\n"
    "metadata: {name: widgets.demo.example.com}\n"
    "spec:\n"
    "  group: demo.example.com\n"
    "  scope: Namespaced\n"
    "  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}\n"
    "  versions:\n"
    "  - name: v1\n"
    "    served: true\n"
    "    storage: true\n"
    "    selectableFields: [{jsonPath: .spec.node}]\n"
    "    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: "
    "{node: {type: string}}}}}}\n";

/* Of the process. */
static struct {
    struct test_keys keys;
    char folder[64]; /* has a folder for each run */
    char widgets[128], token_key[128], password[128];
    struct belfry_tls_tickets *tickets;
    struct belfry_tls *server_tls[2]; /* the second asks for certificates */
    struct belfry_tls *client_tls[2]; /* the second has one */
} ground;

static struct {
    struct choices *choices;
    bool is_kube;
    char folder[80], socket[96], cache[96];
    struct config config;
    uv_loop_t loop; /* the front's */
    struct mailbox *box;
    struct hosts hosts;
    struct tickets tickets;
    struct limits limits;
    struct tier *tier;
    struct admin *admin;
    struct inbound_group *admin_inbound;
    struct belfry_log log;
    uint64_t longest_us;
    bool is_refusing;
    size_t refuse_at;
    size_t n_counted;
    bool is_counted;
    bool is_busy; /* the last round did something that the loops do not show */
    struct tier_numbers numbers;
    struct worker_numbers counted[WORKERS_MAX];
} house;

/* ---- files ---- */

static void write_file(char *path, size_t room, const char *name, const char *text)
{
    snprintf(path, room, "%s/%s", ground.keys.folder, name);
    FILE *file = fopen(path, "w");
    verdict_must(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0 && chmod(path, 0600) == 0, path);
}

void house_prepare(void)
{
    char why[256];
    bool has_shm = access("/dev/shm", W_OK) == 0; /* where fsync() costs nothing */
    snprintf(ground.folder, sizeof(ground.folder), "%s/belfry-storm-XXXXXX", has_shm ? "/dev/shm" : "/tmp");
    verdict_must(mkdtemp(ground.folder) != NULL, "a folder");
    keys_make(&ground.keys);
    janitor_start(ground.folder, ground.keys.folder);
    write_file(ground.widgets, sizeof(ground.widgets), "widgets.yaml", widgets);
    write_file(ground.token_key, sizeof(ground.token_key), "token.key", "a secret of etcd and of this tier");
    write_file(ground.password, sizeof(ground.password), "password", "pass\n");
    for (int i = 0; i < 2; i++) {
        struct belfry_tls_server_opts server = {
            .cert = ground.keys.server, .key = ground.keys.server_key, .client_ca = i == 1 ? ground.keys.ca : NULL};
        struct belfry_tls_opts client = {.cacert = ground.keys.ca,
                                         .cert = i == 1 ? ground.keys.client : NULL,
                                         .key = i == 1 ? ground.keys.client_key : NULL,
                                         .server_name = "etcd.test",
                                         .http1 = true};
        verdict_must(belfry_tls_create_server(&server, &ground.server_tls[i], why, sizeof(why)) == BELFRY_OK &&
                         belfry_tls_create(&client, &ground.client_tls[i], why, sizeof(why)) == BELFRY_OK,
                     "TLS");
    }
}

void house_clear(void)
{
    for (int i = 0; i < 2; i++) {
        belfry_tls_destroy(ground.server_tls[i]);
        belfry_tls_destroy(ground.client_tls[i]);
    }
    belfry_tls_tickets_destroy(ground.tickets);
    unlink(ground.widgets);
    unlink(ground.token_key);
    unlink(ground.password);
    keys_remove(&ground.keys);
    janitor_remove(ground.folder);
}

/* ---- opening ---- */

#define ARGUMENTS 40

struct command_line {
    int n;
    char *argv[ARGUMENTS];
    char texts[ARGUMENTS][400];
};

__attribute__((format(printf, 2, 3))) static void add(struct command_line *line, const char *format, ...)
{
    va_list args;
    verdict_must(line->n < ARGUMENTS - 1, "arguments");
    va_start(args, format);
    vsnprintf(line->texts[line->n], sizeof(line->texts[0]), format, args);
    va_end(args);
    line->argv[line->n] = line->texts[line->n];
    line->n++;
}

static void add_door(struct command_line *line, const char *scheme, const char *options)
{
    add(line, "--listen");
    add(line, "%s://127.0.0.1:%d%s%s", scheme, 1000 + line->n, options[0] == '\0' ? "" : ",", options);
}

static void add_tls_door(struct command_line *line, bool asks, const char *options)
{
    char all[360];
    snprintf(all, sizeof(all), "cert=%s,key=%s%s%s%s%s", ground.keys.server, ground.keys.server_key,
             asks ? ",client-ca=" : "", asks ? ground.keys.ca : "", options[0] == '\0' ? "" : ",", options);
    add_door(line, "https", all);
}

/* A tier that signs tokens for its clients' certificates needs credentials, and then each door says what it allows. */
static void add_doors(struct command_line *line)
{
    bool signs = choose(house.choices, 2) == 1;
    if (signs) {
        add(line, "--upstream-user=tier");
        add(line, "--upstream-password-file=%s", ground.password);
        add(line, "--upstream-token-key=%s", ground.token_key);
        add(line, "--upstream-token-method=HS256");
        add_door(line, "http", "rights=open+writes");
        add_tls_door(line, true, "users-from=alice");
    } else {
        add_door(line, "http", "");
    }
    add_tls_door(line, true, "");
    add_tls_door(line, false, signs ? "rights=open" : "");
    add_door(line, "http", signs ? "rights=open,read-only" : "read-only");
    add_door(line, "http", signs ? "rights=open,serve=kube" : "serve=grpc");
    add_door(line, "http", signs ? "rights=open," BALANCERS : BALANCERS);
    if (choose(house.choices, 2) == 1)
        add_door(line, "http", "rights=upstream");
}

/* In front of Kubernetes each client is asked about, at every door. */
static void add_kube_doors(struct command_line *line)
{
    add_door(line, "http", "");
    add_tls_door(line, true, "");
    add_tls_door(line, false, "");
    add_door(line, "http", "read-only");
    add_door(line, "http", BALANCERS);
}

static void shrink(struct config *config)
{
    static const size_t memories[] = {512 << 10, 1 << 20, 4 << 20, 64 << 20};
    static const uint32_t streams[] = {0, 3, 30, 300};
    struct choices *choices = house.choices;
    config->workers = 1 + choose(choices, WORKERS_MAX);
    config->memory_bytes = memories[choose(choices, 4)] * config->workers;
    config->log_bytes = (size_t)(16 << 10) << choose(choices, 6);
    config->history_bytes = (size_t)(32 << 10) << choose(choices, 6);
    config->max_streams = streams[choose(choices, 4)];
    config->progress_ms = 500 << choose(choices, 6);
    config->rights_period_ms = 1000 << choose(choices, 4);
    if (house.is_kube) /* what is unread is relayed, too */
        config->unread_time_ms = 1000 << choose(choices, 7);
}

/* Pools that a few clients fill, and shares of them. Two clients in good order have room in each. */
static void choose_shares(struct config *config)
{
    static const uint32_t percents[] = {50, 40, 90, 100};
    static const uint32_t few[] = {0, 10, 30, 100};
    struct choices *choices = house.choices;
    config->max_connections = few[choose(choices, 4)] * config->workers;
    config->max_watchers = few[choose(choices, 4)] * config->workers;
    config->max_calls = (8 + choose(choices, 60)) * config->workers;
    config->client_share = percents[choose(choices, 4)];
    config->tier_share = percents[choose(choices, 4)];
}

void house_reload(void)
{
    choose_shares(&house.config);
    limits_set(&house.limits, &house.config);
}

static void load_config(void (*add_all_doors)(struct command_line *line))
{
    static struct command_line line;
    enum config_do what;
    memset(&line, 0, sizeof(line));
    add(&line, "belfryd");
    add(&line, "--upstream%s=unix://%s", house.is_kube ? "-kube" : "", house.socket);
    add(&line, "--cache-dir=%s", house.cache);
    add(&line, "--name=storm");
    if (house.is_kube) {
        add(&line, "--follow=widgets.demo.example.com");
    } else {
        add(&line, "--resources=%s", ground.widgets);
        add(&line, "--resources=crds-under=/crds/");
    }
    add_all_doors(&line);
    verdict_must(config_load(line.n, line.argv, stderr, stderr, &house.config, &what) == BELFRY_OK, "configuration");
}

static void open_admin(void)
{
    struct admin_opts admin = {.collect = tier_collect, .scan = tier_scan, .user = house.tier, .log = &house.log};
    verdict_must(admin_create(&admin, &house.admin) == BELFRY_OK, "admin");
    struct inbound_opts inbound = {
        .loop = &house.loop, .begin = admin_begin, .user = house.admin, .max_streams = 100, .log = &house.log};
    verdict_must(inbound_create(&inbound, &house.admin_inbound) == BELFRY_OK, "admin");
}

static void on_line(enum belfry_log_level level, const char *event, const char *text, void *user)
{
    (void)user;
    if (getenv("STORM_LOG") != NULL)
        fprintf(stderr, "%10llu %d %s %s\n", (unsigned long long)belfry_clock_ms(), (int)level, event, text);
}

static void make_place(struct choices *choices)
{
    memset(&house, 0, sizeof(house));
    house.choices = choices;
    house.log = (struct belfry_log){.line = on_line, .level = BELFRY_LOG_DEBUG};
    snprintf(house.folder, sizeof(house.folder), "%s/run-XXXXXX", ground.folder); /* one that failed left its own */
    verdict_must(mkdtemp(house.folder) != NULL, house.folder);
    snprintf(house.socket, sizeof(house.socket), "%s/upstream", house.folder);
    snprintf(house.cache, sizeof(house.cache), "%s/cache", house.folder);
}

static void start_tier(struct choices *choices)
{
    char why[512];
    house.is_kube ? apiserver_open(house.socket, choices) : etcd_open(house.socket, choices);
    verdict_must(uv_loop_init(&house.loop) == 0 && mailbox_create(&house.loop, &house, &house.box) == BELFRY_OK,
                 "the front");
    hosts_init(&house.hosts, NULL);
    tickets_init(&house.tickets);
    limits_init(&house.limits, &house.config);
    struct tier_opts opts = {.config = &house.config,
                             .loop = &house.loop,
                             .front = house.box,
                             .limits = &house.limits,
                             .hosts = &house.hosts,
                             .tickets = &house.tickets,
                             .log = &house.log};
    if (tier_start(&opts, &house.tier, why, sizeof(why)) != BELFRY_OK)
        verdict_fail("the tier does not start: %s", why);
    open_admin();
}

void house_open(struct choices *choices)
{
    make_place(choices);
    house.is_kube = choose_rarely(choices, 3);
    load_config(house.is_kube ? add_kube_doors : add_doors);
    shrink(&house.config);
    choose_shares(&house.config);
    start_tier(choices);
    if (house.is_kube)
        house_round(); /* the workers learn of the resource; without memory they would relay it for good */
}

bool house_is_kube(void)
{
    return house.is_kube;
}

static void add_plain_doors(struct command_line *line)
{
    add_door(line, "http", "");
    add_tls_door(line, false, "");
}

/* What limits_init() would learn from that machine. */
void house_open_plain(struct choices *choices, void (*change)(struct config *config))
{
    make_place(choices);
    load_config(add_plain_doors);
    house.config.workers = HOUSE_WORKERS;
    house.config.memory_bytes = HOUSE_MEMORY / 100 * 75;
    house.config.max_connections = HOUSE_FILES - HOUSE_OWN_FILES;
    house.config.log_bytes = HOUSE_LOG;
    if (change != NULL)
        change(&house.config);
    start_tier(choices);
}

/* In the order of daemon/front.c. */
void house_close(void)
{
    inbound_destroy(house.admin_inbound);
    tier_stop(house.tier);
    admin_destroy(house.admin);
    mailbox_close(house.box);
    threads_end_loop(&house.loop);
    tier_destroy(house.tier);
    mailbox_destroy(house.box);
    limits_fini(&house.limits);
    tickets_fini(&house.tickets);
    hosts_fini(&house.hosts);
    config_fini(&house.config);
    origin_close();
    janitor_remove(house.folder);
}

/* ---- doors ---- */

size_t house_doors(void)
{
    return house.config.n_listen + 1;
}

bool house_door_is_admin(size_t door)
{
    return door == house.config.n_listen;
}

bool house_door_is_tls(size_t door)
{
    return !house_door_is_admin(door) && house.config.listen[door].endpoint.tls;
}

bool house_door_is_healthy(size_t door)
{
    if (house_door_is_admin(door))
        return false;
    const struct listen_policy *policy = &house.config.listen[door].policy;
    if (house.is_kube)
        return listen_policy_writes(policy);
    return (policy->dialects & DIALECT_GRPC) != 0 && policy->rights != LISTEN_RIGHTS_UPSTREAM;
}

bool house_door_has_kube(size_t door)
{
    return !house_door_is_admin(door) && (house.config.listen[door].policy.dialects & DIALECT_KUBE) != 0;
}

bool house_door_is_proxied(size_t door)
{
    return !house_door_is_admin(door) && house.config.listen[door].proxy_from.n > 0;
}

void house_accept(size_t door, int fd, struct client_address client)
{
    static const uint8_t balancer[4] = {10, 9, 9, 1};
    struct inbound_arrival arrival = {.fd = fd, .peer = client};
    if (house_door_is_admin(door)) {
        belfry_ignore(inbound_accept(house.admin_inbound, &arrival, belfry_clock_ms())); /* the peer sees a close */
        return;
    }
    const struct config_listen *listen = &house.config.listen[door];
    arrival.tls = listen->endpoint.tls ? ground.server_tls[listen->client_ca != NULL] : NULL;
    arrival.policy = &listen->policy;
    arrival.proxies = &listen->proxy_from;
    if (house_door_is_proxied(door))
        arrival.peer = client_address_ipv4(balancer, client.port);
    tier_accept(house.tier, &arrival);
}

struct belfry_tls *house_client_tls(bool with_cert)
{
    return ground.client_tls[with_cert];
}

/* ---- turns ---- */

static void front_turn(void)
{
    uv_run(&house.loop, UV_RUN_NOWAIT);
    while (inbound_flush(house.admin_inbound, belfry_clock_ms()))
        continue;
}

/* Parts: the workers, the front, the reader; then those that are no part of the server: upstream, and its feed. */
enum house_part { PART_FRONT, PART_READER, PART_ETCD, PART_FEED, PARTS }; /* after the workers */

static bool server_turn(size_t part)
{
    if (part < threads_count())
        threads_turn(part);
    else if (part == threads_count() + PART_FRONT)
        front_turn();
    else
        return reader_turn();
    return true;
}

/* A turn in which memory may be refused, and whose time is measured. False: there was nothing to do. */
static bool part_turn(size_t part)
{
    uint64_t began_us = clock_cpu_us();
    if (house.is_refusing)
        refuse_begin(house.refuse_at);
    bool did = server_turn(part);
    if (house.is_refusing && refuse_end())
        house.is_refusing = false;
    uint64_t took_us = clock_cpu_us() - began_us;
    house.longest_us = took_us > house.longest_us ? took_us : house.longest_us;
    return did;
}

void house_turn(void)
{
    size_t part = choose(house.choices, (uint32_t)threads_count() + PARTS);
    if (part == threads_count() + PART_ETCD)
        (void)origin_turn();
    else if (part == threads_count() + PART_FEED)
        feed_turn();
    else
        (void)part_turn(part);
}

void house_round(void)
{
    for (size_t i = 0; i <= threads_count() + PART_FRONT; i++)
        (void)part_turn(i);
    for (int n = 0; n < READS && part_turn(threads_count() + PART_READER); n++)
        continue;
    feed_turn();
    house.is_busy = origin_turn() || reader_is_busy();
}

uint64_t house_due(void)
{
    uint64_t due_ms = house.is_busy ? 0 : belfry_min_time(threads_due(), threads_loop_due(&house.loop));
    return belfry_min_time(due_ms, belfry_min_time(origin_due(), feed_due()));
}

void house_refuse(size_t n)
{
    house.is_refusing = true;
    house.refuse_at = n;
}

void house_drain(uint64_t ms)
{
    tier_drain(house.tier, ms);
}

uint64_t house_longest_us(void)
{
    return house.longest_us;
}

/* ---- what is counted ---- */

static void on_numbers(const struct tier_numbers *numbers, void *user)
{
    (void)user;
    house.n_counted = numbers->n_workers;
    house.numbers = *numbers;
    if (numbers->n_workers > 0) /* 0 and NULL: there was no memory to ask them */
        memcpy(house.counted, numbers->workers, numbers->n_workers * sizeof(house.counted[0]));
    house.numbers.workers = house.counted;
    house.is_counted = true;
}

const struct worker_numbers *house_count(size_t *out_n)
{
    house.is_counted = false;
    if (tier_collect(on_numbers, NULL, house.tier) != BELFRY_OK)
        return NULL;
    for (int n = 0; n < COUNT_TURNS && !house.is_counted; n++)
        house_round();
    if (!house.is_counted)
        verdict_fail("the workers do not answer");
    *out_n = house.n_counted;
    return house.counted;
}

const struct tier_numbers *house_numbers(void)
{
    size_t n;
    verdict_must(house_count(&n) != NULL, "numbers");
    return &house.numbers;
}

size_t house_call_bytes(void)
{
    return house.limits.now.shares.total[SHARES_CALL_BYTES];
}
