/* src/daemon/front.c */
#include "daemon/front.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "daemon/config_listen.h"
#include "daemon/reload.h"
#include "daemon/service.h"
#include "daemon/tier.h"
#include "net/tls_tickets.h"
#include "server/inbound.h"
#include "server/listener.h"

#define BACKLOG          4096
#define LOOK_MS          250 /* how often readiness and the end of a drain are looked at */
#define FAREWELL_MS      500 /* CLOSING, at most; at most a quarter of the drain */
#define FAREWELL_LOOK_MS 10
#define N_SIGNALS        3
#define FILES_MS         1000 /* how often files of listeners are looked at, or a quarter of the period of rights */
#define CRL_LOG_S        86400
#define ADMIN_STREAMS    16 /* of one connection to the admin address */
#define ADMIN_GREET_MS   5000
#define ADMIN_IDLE_MS    60000
#define FIRST_FD         3 /* of those that a service manager hands over */

/* A listening socket and what it allows. */
struct gate {
    struct front *front;
    struct listener *listener;
    struct belfry_tls *tls; /* owned; NULL: plain */
    const struct config_listen *config;
    uint64_t tls_version;
    int64_t crl_log_s; /* a crl that is overdue is logged next at this time */
};

enum front_state { FRONT_SERVING, FRONT_DRAINING, FRONT_CLOSING, FRONT_STOPPED };

struct front {
    const struct config *config;
    struct logger *logger;
    const struct belfry_log *log; /* the logger's */
    uv_loop_t loop;
    struct mailbox *box;
    struct tier *tier;
    struct gate *gates;
    size_t n_gates;
    struct listener *admin_listener;
    struct inbound_group *admin_inbound;
    struct admin *admin;
    struct tail *tail;  /* NULL: it is off */
    struct hosts hosts; /* by which it may be asked over plain HTTP */
    struct tickets url_tickets;
    struct limits limits;
    struct reload reload;
    struct belfry_tls_tickets *tickets; /* of all listeners */
    uv_signal_t signals[N_SIGNALS];
    uv_timer_t timer;
    uv_prepare_t prepare;
    bool handles; /* the four above are there */
    enum front_state state;
    bool hopeless;        /* why it stopped */
    char told[320];       /* the last status for the service manager */
    uint64_t closing_ms;  /* DRAINING: when CLOSING begins */
    uint64_t until_ms;    /* DRAINING, CLOSING: when the drain ends */
    uint64_t watchdog_ms; /* interval; 0: not wanted */
    uint64_t watchdog_due;
    enum permit_auth guard; /* as last logged; tier_guard() */
    uint64_t files_due_ms;  /* when the files of listeners are looked at */
};

/* ---- connections ---- */

static void on_accept(int fd, struct client_address peer, void *user)
{
    struct gate *gate = user;
    struct inbound_arrival arrival = {.fd = fd,
                                      .peer = peer,
                                      .tls = gate->tls,
                                      .policy = &gate->config->policy,
                                      .proxies = &gate->config->proxy_from};
    tier_accept(gate->front->tier, &arrival);
}

static void on_admin_accept(int fd, struct client_address peer, void *user)
{
    struct front *front = user;
    struct inbound_arrival arrival = {.fd = fd, .peer = peer};
    belfry_ignore(inbound_accept(front->admin_inbound, &arrival, belfry_clock_ms())); /* the peer sees a close */
}

/* The service manager bound it, maybe to another address than the configuration has: that address decides. */
static enum belfry_err adopt_socket(struct front *front, struct gate *gate, int fd, char *why, size_t why_len)
{
    char address[LISTENER_ADDRESS];
    const char *url = gate->config->endpoint.url;
    bool local = listener_fd_address(fd, address);
    if (!local && gate->tls == NULL && !front->config->insecure_listen) {
        snprintf(why, why_len,
                 "the service manager handed over %s for --listen %s: it exposes all data without encryption or "
                 "authentication: use https, or give --insecure-listen",
                 address, url);
        return BELFRY_ERR_INVALID;
    }
    belfry_logf(front->log, BELFRY_LOG_INFO, "handed_over", "address=%s listen=%s", address, url);
    return listener_adopt(&front->loop, fd, front->log, on_accept, gate, &gate->listener);
}

static enum belfry_err open_gate(struct front *front, struct gate *gate, const struct config_listen *config,
                                 int handed_over, char *why, size_t why_len)
{
    *gate = (struct gate){.front = front, .config = config};
    if (config->endpoint.tls) {
        struct belfry_tls_server_opts tls = config_listen_tls(config);
        tls.tickets = front->tickets;
        enum belfry_err err = belfry_tls_create_server(&tls, &gate->tls, why, why_len);
        if (err != BELFRY_OK)
            return err;
        gate->tls_version = belfry_tls_version(gate->tls);
    }
    if (handed_over >= 0)
        return adopt_socket(front, gate, handed_over, why, why_len);
    return listener_open(&front->loop, &config->endpoint, BACKLOG, front->log, on_accept, gate, &gate->listener, why,
                         why_len);
}

/* Sockets that a service manager hands over take the places of the first listeners of the configuration. */
static enum belfry_err front_open_gates(struct front *front, char *why, size_t why_len)
{
    const struct config *config = front->config;
    unsigned handed_over = service_listen_fds();
    front->gates = calloc(config->n_listen, sizeof(*front->gates));
    if (front->gates == NULL)
        return BELFRY_ERR_NOMEM;
    for (size_t i = 0; i < config->n_listen; i++) {
        struct gate *gate = &front->gates[i];
        int fd = i < handed_over ? FIRST_FD + (int)i : -1;
        front->n_gates++;
        enum belfry_err err = open_gate(front, gate, &config->listen[i], fd, why, why_len);
        if (err != BELFRY_OK)
            return err;
        const char *rights = config_listen_rights(&config->listen[i].policy);
        belfry_logf(front->log, BELFRY_LOG_INFO, "listening", "address=%s port=%u read_only=%s rights=%s",
                    config->listen[i].endpoint.url, (unsigned)listener_port(gate->listener),
                    listen_policy_writes(&config->listen[i].policy) ? "false" : "true",
                    rights != NULL ? rights : "asked");
    }
    return BELFRY_OK;
}

static void front_close_gates(struct front *front)
{
    for (size_t i = 0; i < front->n_gates; i++) {
        listener_close(front->gates[i].listener);
        front->gates[i].listener = NULL;
    }
}

static enum belfry_err front_open_admin(struct front *front, char *why, size_t why_len)
{
    enum belfry_err err = front->config->admin_tail ? tier_open_tail(front->tier, &front->tail) : BELFRY_OK;
    if (err != BELFRY_OK)
        return err;
    struct admin_opts admin = {.collect = tier_collect,
                               .scan = tier_scan,
                               .clients = tier_clients,
                               .user = front->tier,
                               .hosts = &front->hosts,
                               .cors = {front->config->cors_origins, front->config->n_cors_origins},
                               .lines = logger_lines(front->logger),
                               .tail = front->tail,
                               .log = front->log};
    err = admin_create(&admin, &front->admin);
    struct inbound_opts inbound = {.loop = &front->loop,
                                   .begin = admin_begin,
                                   .user = front->admin,
                                   .max_streams = ADMIN_STREAMS,
                                   .limits = limits_admin(&front->limits),
                                   .newcomers_first = true, /* a probe of readiness always finds a place */
                                   .pools_hint = "at the admin address, whose limits are fixed: let fewer ask it",
                                   .greet_ms = ADMIN_GREET_MS,
                                   .idle_ms = ADMIN_IDLE_MS,
                                   .log = front->log};
    if (err == BELFRY_OK)
        err = inbound_create(&inbound, &front->admin_inbound);
    if (err == BELFRY_OK)
        err = listener_open(&front->loop, &front->config->admin, BACKLOG, front->log, on_admin_accept, front,
                            &front->admin_listener, why, why_len);
    if (err == BELFRY_OK)
        belfry_logf(front->log, BELFRY_LOG_INFO, "admin", "address=%s port=%u", front->config->admin.url,
                    (unsigned)listener_port(front->admin_listener));
    return err;
}

/* ---- states ---- */

static void front_on_timer(uv_timer_t *timer);

static void front_move_to(struct front *front, enum front_state state)
{
    static const char *const names[] = {"serving", "draining", "closing", "stopped"};
    if (state == FRONT_DRAINING)
        belfry_logf(front->log, BELFRY_LOG_INFO, "draining", "connections=%zu for_ms=%" PRIu64, tier_busy(front->tier),
                    front->config->drain_ms);
    else
        belfry_logf(front->log, BELFRY_LOG_INFO, names[state], "connections=%zu", tier_busy(front->tier));
    front->state = state;
}

static void front_stop(struct front *front)
{
    front_move_to(front, FRONT_STOPPED);
    uv_stop(&front->loop);
}

/* ---- files of listeners ---- */

/* Connections check their certificates again when they see another version (server/inbound.h). */
static void front_look_at_files(struct front *front, uint64_t now)
{
    char why[400];
    if (now < front->files_due_ms)
        return;
    front->files_due_ms = now + belfry_min_time(FILES_MS, front->config->rights_period_ms / 4);
    for (size_t i = 0; i < front->n_gates; i++) {
        struct gate *gate = &front->gates[i];
        if (gate->tls == NULL)
            continue;
        belfry_ignore(belfry_tls_refresh(gate->tls, why, sizeof(why))); /* logged below, and tried again */
        belfry_tls_log_refresh(gate->tls, front->log);
        uint64_t version = belfry_tls_version(gate->tls);
        if (version != gate->tls_version)
            belfry_logf(front->log, BELFRY_LOG_INFO, "tls_reloaded", "address=%s", gate->config->endpoint.url);
        gate->tls_version = version;

        /* an overdue list of revoked certificates is said once per day */
        int64_t now_s = (int64_t)time(NULL);
        if (gate->config->crl == NULL || now_s <= belfry_tls_crl_due(gate->tls) || now_s < gate->crl_log_s)
            continue;
        gate->crl_log_s = now_s + CRL_LOG_S;
        belfry_logf(front->log, BELFRY_LOG_WARN, "crl_overdue",
                    "file=\"%s\" why=\"the next update of a list in it is overdue; it still counts\"",
                    gate->config->crl);
    }
}

static void on_signal(uv_signal_t *signal, int number)
{
    struct front *front = signal->data;
    if (number == SIGHUP) {
        belfry_logf(front->log, BELFRY_LOG_INFO, "signal", "name=SIGHUP");
        reload_run(&front->reload);
        front->files_due_ms = 0;
        front_look_at_files(front, belfry_clock_ms());
        return;
    }
    belfry_logf(front->log, BELFRY_LOG_INFO, "signal", "name=%s", number == SIGTERM ? "SIGTERM" : "SIGINT");
    if (front->state == FRONT_SERVING) {
        uint64_t drain_ms = front->config->drain_ms;
        front_move_to(front, FRONT_DRAINING);
        service_notify("STOPPING=1");
        front->until_ms = belfry_clock_ms() + drain_ms;
        front->closing_ms = front->until_ms - belfry_min_time(FAREWELL_MS, drain_ms / 4);
        tier_drain(front->tier, drain_ms);
    } else if (front->state != FRONT_STOPPED) {
        front_stop(front); /* asked twice */
    }
}

/* The service manager hears of the first readiness, and of why it is not there. */
static void front_look_at_readiness(struct front *front)
{
    char reason[256], text[sizeof(front->told)];
    enum tier_state state = tier_look(front->tier, reason, sizeof(reason));
    bool ready = state == TIER_READY;
    snprintf(text, sizeof(text), "%sSTATUS=%s", ready ? "READY=1\n" : "", ready ? "following upstream" : reason);
    if (strcmp(text, front->told) != 0)
        service_notify(text);
    memcpy(front->told, text, sizeof(text));
    if (state == TIER_HOPELESS && front->state != FRONT_STOPPED) {
        front->hopeless = true;
        front_stop(front); /* its clients were never served, or resume elsewhere */
    }
}

static void front_log_guard(struct front *front)
{
    enum permit_auth guard = tier_guard(front->tier);
    if (guard == front->guard || guard == PERMIT_AUTH_UNKNOWN)
        return;
    front->guard = guard;
    for (size_t i = 0; i < front->n_gates; i++) {
        const struct config_listen *listen = front->gates[i].config;
        if (listen->policy.rights != LISTEN_RIGHTS_UPSTREAM)
            continue;
        if (guard == PERMIT_AUTH_ON)
            belfry_logf(front->log, BELFRY_LOG_INFO, "listener_ready", "address=%s", listen->endpoint.url);
        else
            belfry_logf(front->log, BELFRY_LOG_ERROR, "listener_not_ready",
                        "address=%s why=\"it has rights=upstream, and auth is off upstream: turn auth on there, or "
                        "restart with another rights=\"",
                        listen->endpoint.url);
    }
}

static void front_note_listeners(struct front *front)
{
    struct listener_stats sum = {0}, one;
    int64_t expires_s = INT64_MAX;
    for (size_t i = 0; i < front->n_gates; i++) {
        if (front->gates[i].listener == NULL)
            continue;
        int64_t own_s = front->gates[i].tls != NULL ? belfry_tls_expires(front->gates[i].tls) : INT64_MAX;
        expires_s = own_s < expires_s ? own_s : expires_s;
        listener_stats(front->gates[i].listener, &one);
        sum.accepted += one.accepted;
        sum.refused += one.refused;
    }
    tier_note_listeners(front->tier, &sum, expires_s);
}

/* A client without another tier comes back after each GOAWAY, so connections may be there until the period is over. */
static void front_look_at_drain(struct front *front, uint64_t now)
{
    bool drains = front->state == FRONT_DRAINING || front->state == FRONT_CLOSING;
    if (drains && (now >= front->until_ms || tier_busy(front->tier) == 0)) {
        front_stop(front);
    } else if (front->state == FRONT_DRAINING && now >= front->closing_ms) {
        front_move_to(front, FRONT_CLOSING);
        front_close_gates(front); /* before GOAWAY: a client that is sent away must not come back to this process */
        tier_farewell(front->tier);
        uv_timer_start(&front->timer, front_on_timer, FAREWELL_LOOK_MS, FAREWELL_LOOK_MS);
    }
}

static void front_on_timer(uv_timer_t *timer)
{
    struct front *front = timer->data;
    uint64_t now = belfry_clock_ms();
    front_look_at_readiness(front);
    front_log_guard(front);
    front_look_at_files(front, now);
    belfry_tls_tickets_rotate(front->tickets, now);
    logger_tick(front->logger);
    tier_note_admin(front->tier, front->admin_inbound, front->admin);
    admin_tick(front->admin, now);
    if (front->state == FRONT_SERVING || front->state == FRONT_DRAINING)
        front_note_listeners(front);
    if (front->watchdog_ms > 0 && now >= front->watchdog_due) {
        front->watchdog_due = now + front->watchdog_ms;
        service_notify("WATCHDOG=1");
    }
    front_look_at_drain(front, now);
}

static void front_on_prepare(uv_prepare_t *prepare)
{
    struct front *front = prepare->data;
    while (inbound_flush(front->admin_inbound, belfry_clock_ms()))
        ;
}

/* ---- all of it ---- */

static void front_start_handles(struct front *front)
{
    static const int numbers[N_SIGNALS] = {SIGTERM, SIGINT, SIGHUP};
    for (size_t i = 0; i < N_SIGNALS; i++) {
        uv_signal_init(&front->loop, &front->signals[i]);
        front->signals[i].data = front;
        uv_signal_start(&front->signals[i], on_signal, numbers[i]);
    }
    uv_timer_init(&front->loop, &front->timer);
    uv_prepare_init(&front->loop, &front->prepare);
    front->timer.data = front->prepare.data = front;
    uv_timer_start(&front->timer, front_on_timer, 0, LOOK_MS);
    uv_prepare_start(&front->prepare, front_on_prepare);
    front->handles = true;
}

/* libuv gives signals their default action back; a SIGHUP that comes now waits, and is forgotten with the process.
 * This is the one thread that takes signals (thread/thread). */
static void front_close_handles(struct front *front)
{
    sigset_t hangup;
    if (!front->handles)
        return;
    sigemptyset(&hangup);
    sigaddset(&hangup, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &hangup, NULL);
    for (size_t i = 0; i < N_SIGNALS; i++)
        uv_close((uv_handle_t *)&front->signals[i], NULL);
    uv_close((uv_handle_t *)&front->timer, NULL);
    uv_close((uv_handle_t *)&front->prepare, NULL);
}

static enum belfry_err front_start(struct front *front, char *why, size_t why_len)
{
    /* Before anything is asked of upstream: a belfryd that cannot listen, and is restarted in a loop, would list it
     * each time. It does not listen yet: a client that cannot be served must go elsewhere. */
    const struct config *config = front->config;
    enum belfry_err err = listener_try(&config->admin, why, why_len);
    size_t n = service_has_listen_fds() ? 0 : config->n_listen; /* those are bound */
    for (size_t i = 0; i < n && err == BELFRY_OK; i++)
        err = listener_try(&config->listen[i].endpoint, why, why_len);

    if (err == BELFRY_OK)
        err = mailbox_create(&front->loop, front, &front->box);
    struct tier_opts opts = {.config = config,
                             .loop = &front->loop,
                             .front = front->box,
                             .limits = &front->limits,
                             .hosts = &front->hosts,
                             .tickets = &front->url_tickets,
                             .log = front->log};
    if (err == BELFRY_OK)
        err = tier_start(&opts, &front->tier, why, why_len);
    if (err == BELFRY_OK)
        err = front_open_admin(front, why, why_len);
    if (err == BELFRY_OK)
        err = belfry_tls_tickets_create(belfry_clock_ms(), &front->tickets);
    if (err == BELFRY_OK)
        err = front_open_gates(front, why, why_len);
    return err;
}

/* Takes down what exists, users before what they use. Answers of threads that ended go through the mailbox to the
 * admin, which drops them. */
static void front_end(struct front *front)
{
    front_close_gates(front);
    listener_close(front->admin_listener);
    inbound_destroy(front->admin_inbound);
    tail_destroy(front->tail);
    tier_stop(front->tier);
    admin_destroy(front->admin);
    mailbox_close(front->box);
    front_close_handles(front);
    uv_run(&front->loop, UV_RUN_DEFAULT);
    uv_loop_close(&front->loop);
    tier_destroy(front->tier);
    mailbox_destroy(front->box);
    for (size_t i = 0; i < front->n_gates; i++)
        belfry_tls_destroy(front->gates[i].tls);
    belfry_tls_tickets_destroy(front->tickets);
    free(front->gates);
    reload_fini(&front->reload);
    limits_fini(&front->limits);
    tickets_fini(&front->url_tickets);
    hosts_fini(&front->hosts);
}

enum belfry_err front_run(const struct front_opts *opts, char *why, size_t why_len)
{
    struct front front = {.config = opts->config,
                          .logger = opts->logger,
                          .log = logger_log(opts->logger),
                          .watchdog_ms = service_watchdog_ms()};
    struct reload_opts reload = {.argc = opts->argc,
                                 .argv = opts->argv,
                                 .config = opts->config,
                                 .logger = opts->logger,
                                 .limits = &front.limits,
                                 .hosts = &front.hosts,
                                 .tickets = &front.url_tickets};
    if (uv_loop_init(&front.loop) != 0)
        return BELFRY_ERR_LIMIT;
    hosts_init(&front.hosts, opts->config->advertise);
    tickets_init(&front.url_tickets);
    limits_init(&front.limits, opts->config);
    reload_init(&front.reload, &reload);
    enum belfry_err err = front_start(&front, why, why_len);
    if (err == BELFRY_OK) {
        front_start_handles(&front);
        uv_run(&front.loop, UV_RUN_DEFAULT);
    }
    front_end(&front);
    if (front.hopeless) {
        why[0] = '\0';
        return BELFRY_ERR_REFUSED;
    }
    return err;
}
