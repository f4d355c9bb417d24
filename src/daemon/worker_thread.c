/* src/daemon/worker_thread.c */
#include "daemon/worker_thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "daemon/peak.h"
#include "daemon/slack.h"
#include "serve/admin/pools.h"
#include "server/inbound.h"
#include "thread/thread.h"

#define SCAN_VISITS 256 /* watchers or clients between two looks at the clock */
#define SCAN_NS     500000
#define LEAVE_MS    20 /* between two steps of sending connections away */

struct worker_thread {
    /* fixed at creation */
    struct worker_thread_opts opts;
    struct thread *thread;
    /* the thread's */
    struct worker_parts *parts;
    struct inbound_group *inbound;
    uv_prepare_t prepare;      /* the end of a turn */
    uv_idle_t idle;            /* runs while there is more to do, so that the loop does not block */
    struct limits_view limits; /* in force */
    unsigned limits_version;
    bool due;         /* the parts were given something to do since their last turn began */
    uv_timer_t timer; /* until the next thing is due */
    uint64_t timer_due;
    struct belfry_list scans;        /* of worker_thread_ask.mail.node */
    uint64_t turn_ended_ns, idle_ns; /* the end of the last turn; how long the loop had been blocked by then */
    uint64_t turns;
    struct peak longest_us;
    struct slack slack;                   /* of the parts and of connections */
    bool leaving;                         /* draining: connections are being shut, n_left of n_leaving so far */
    uint64_t leaving_from_ms, leaving_ms; /* when that began, and how long it takes */
    uint64_t drain_end_ms;                /* streams end between then and this */
    uint64_t leaving_newest;              /* later connections than this are served as before */
    size_t n_leaving, n_left;
    /* any */
    _Atomic size_t watchers, serving, refusing, coming; /* connections; coming: handed over and not there yet */
    _Atomic enum permit_auth auth;                      /* written by the thread; nothing else depends on it */
};

/* ---- a turn ---- */

static void send_back(struct worker_thread_ask *ask)
{
    ask->mail.open = ask->back;
    mailbox_post(ask->to, &ask->mail);
}

/* Goes on with the first question about watchers or clients. True: there is more to do. */
static bool worker_thread_scan_some(struct worker_thread *t)
{
    if (belfry_list_empty(&t->scans))
        return false;
    struct worker_thread_ask *ask = belfry_container(t->scans.next, struct worker_thread_ask, mail.node);
    uint64_t until = belfry_clock_ns() + SCAN_NS;
    bool done = false;
    while (!done && belfry_clock_ns() < until)
        done = ask->clients != NULL ? clients_scan_step(ask->clients, SCAN_VISITS)
                                    : watchers_scan_step(ask->scan, SCAN_VISITS);
    if (done) {
        belfry_list_remove(&ask->mail.node);
        send_back(ask);
    }
    return !belfry_list_empty(&t->scans);
}

/* The load is for the front to see; watchers and connections that have gone leave memory that the kernel can have. */
static void worker_thread_take_stock(struct worker_thread *t, uint64_t now)
{
    struct worker_parts_weight weight;
    struct inbound_stats inbound;
    t->parts->api->weigh(t->parts, &weight);
    inbound_stats(t->inbound, &inbound);
    atomic_store_explicit(&t->watchers, weight.watchers, memory_order_relaxed);
    atomic_store_explicit(&t->serving, inbound.connections - inbound.refused, memory_order_relaxed);
    atomic_store_explicit(&t->refusing, inbound.refused, memory_order_relaxed);
    atomic_store_explicit(&t->auth, weight.auth, memory_order_relaxed);
    if (slack_seen(&t->slack, weight.bytes + inbound.bytes, now))
        slack_give_back();
}

/* Clients connect elsewhere as soon as their connection is shut: one after another, over the first half of the drain.
 * Their streams end over the second half, and find the new connection there. A connection that was not sent away yet is
 * served as before. So is one that came after the drain began: otherwise a client without another tier would be sent
 * away again and again. */
static void worker_thread_send_away(struct worker_thread *t, uint64_t now)
{
    uint64_t passed = now - t->leaving_from_ms;
    if (passed >= t->leaving_ms) {
        t->leaving = false;
        (void)inbound_shut(t->inbound, t->leaving_newest, SIZE_MAX); /* all that are left */
        t->parts->api->drain(t->parts, now, t->drain_end_ms > now ? t->drain_end_ms - now : 0);
        return;
    }
    size_t by_now = t->n_leaving * passed / t->leaving_ms;
    (void)inbound_shut(t->inbound, t->leaving_newest,
                       by_now - t->n_left); /* whether there are more: we come again anyway */
    t->n_left = by_now;
}

static void on_idle(uv_idle_t *idle)
{
    (void)idle; /* its being there is all */
}

static void worker_thread_on_timer(uv_timer_t *timer)
{
    struct worker_thread *t = timer->data;
    t->timer_due = BELFRY_NEVER; /* the turn it caused does the rest */
}

static void worker_thread_on_prepare(uv_prepare_t *prepare)
{
    struct worker_thread *t = prepare->data;
    uint64_t now = belfry_clock_ms();
    t->due = false; /* from here on: what follows may find room for waiting streams */
    t->parts->api->look(t->parts, now);
    bool more = t->parts->api->deliver(t->parts, now);

    /* new limits and times, from the configuration that was read again */
    if (limits_take(t->opts.limits, &t->limits_version, &t->limits)) {
        const struct limits_times *times = &t->limits.times;
        inbound_set_limits(t->inbound, &t->limits.shares);
        inbound_set_times(t->inbound, &(struct inbound_times){times->greet_ms, times->idle_ms, times->unread_ms});
        t->parts->api->set_times(t->parts, times);
    }
    if (t->leaving)
        worker_thread_send_away(t, now);

    /* sockets are written; then a slice of a scan */
    more = inbound_flush(t->inbound, now) || more || t->parts->api->rest(t->parts);
    if (!more)
        t->parts->api->settled(t->parts);
    more = worker_thread_scan_some(t) || more || t->due;
    worker_thread_take_stock(t, now);

    /* when the next turn is due even if nothing happens; immediately, if there is more to do */
    uint64_t due = belfry_min_time(t->parts->api->due(t->parts), slack_due(&t->slack));
    if (t->leaving)
        due = belfry_min_time(due, now + LEAVE_MS);
    if (due != t->timer_due && due == BELFRY_NEVER)
        uv_timer_stop(&t->timer);
    else if (due != t->timer_due)
        uv_timer_start(&t->timer, worker_thread_on_timer, due > now ? due - now : 0, 0);
    t->timer_due = due;
    if (more)
        uv_idle_start(&t->idle, on_idle);
    else
        uv_idle_stop(&t->idle);

    /* A turn is all that happened since the last one ended, reads of sockets included, but for the time that the loop
     * was blocked. */
    uint64_t now_ns = belfry_clock_ns(), idle_ns = uv_metrics_idle_time(prepare->loop);
    uint64_t all_ns = now_ns - t->turn_ended_ns, blocked_ns = idle_ns - t->idle_ns;
    uint64_t busy_us = all_ns > blocked_ns ? (all_ns - blocked_ns) / 1000 : 0;
    t->turn_ended_ns = now_ns;
    t->idle_ns = idle_ns;
    t->turns++;
    peak_note(&t->longest_us, busy_us, now_ns / 1000000);
}

static void on_work(void *user)
{
    struct worker_thread *t = user;
    t->due = true;
    uv_idle_start(&t->idle, on_idle); /* the next prepare comes without blocking */
}

static uint64_t on_now(void *user)
{
    (void)user;
    return belfry_clock_ms();
}

/* ---- what lives there ---- */

static enum belfry_err worker_thread_create_parts(struct worker_thread *t, uv_loop_t *loop)
{
    struct worker_parts_host host = {
        .thread = t->thread, .times = t->limits.times, .now = on_now, .work = on_work, .user = t};
    enum belfry_err err = t->opts.create(t->opts.parts, &host, &t->parts);
    if (err != BELFRY_OK)
        return err;
    size_t refused_most = t->opts.limits->refused / 2 / t->opts.limits->workers; /* as many may be on their way here */
    struct inbound_opts inbound = {.loop = loop,
                                   .begin = t->parts->api->begin,
                                   .user = t->parts,
                                   .max_streams = t->opts.max_streams,
                                   .limits = t->limits.shares,
                                   .seed = t->opts.clients_seed,
                                   .is_tier = listen_policy_is_tier,
                                   .refused_most = refused_most > 0 ? refused_most : 1,
                                   .greet_ms = t->limits.times.greet_ms,
                                   .idle_ms = t->limits.times.idle_ms,
                                   .unread_ms = t->limits.times.unread_ms,
                                   .check_ms = t->opts.check_ms,
                                   .log = t->opts.log};
    return inbound_create(&inbound, &t->inbound);
}

/* Takes down what exists: first the parts that send clients a last message, so that they know how it ended and resume;
 * then what carries those messages; then the rest. No request begins meanwhile: a connection that was shut drops those
 * that were pipelined. */
static void worker_thread_destroy_parts(struct worker_thread *t)
{
    if (t->inbound != NULL)
        (void)inbound_shut(t->inbound, INBOUND_ALL, SIZE_MAX);
    if (t->parts != NULL)
        t->parts->api->end(t->parts);
    while (t->inbound != NULL && inbound_flush(t->inbound, belfry_clock_ms()))
        ;
    inbound_destroy(t->inbound);
    if (t->parts != NULL)
        t->parts->api->destroy(t->parts);
}

static enum belfry_err worker_thread_begin(struct thread *thread, void *user)
{
    struct worker_thread *t = user;
    uv_loop_t *loop = thread_loop(thread);
    belfry_list_init(&t->scans);
    t->timer_due = BELFRY_NEVER;
    t->thread = thread;
    (void)limits_take(t->opts.limits, &t->limits_version, &t->limits);
    enum belfry_err err = worker_thread_create_parts(t, loop);
    if (err != BELFRY_OK) {
        worker_thread_destroy_parts(t);
        return err;
    }
    uv_prepare_init(loop, &t->prepare);
    uv_idle_init(loop, &t->idle);
    uv_timer_init(loop, &t->timer);
    t->prepare.data = t->idle.data = t->timer.data = t;
    uv_prepare_start(&t->prepare, worker_thread_on_prepare);
    uv_loop_configure(loop, UV_METRICS_IDLE_TIME); /* worker_thread_on_prepare() */
    t->turn_ended_ns = belfry_clock_ns();
    return BELFRY_OK;
}

static void worker_thread_end(struct thread *thread, void *user)
{
    (void)thread;
    struct worker_thread *t = user;
    for (struct belfry_list *node; (node = belfry_list_pop(&t->scans)) != NULL;) {
        struct worker_thread_ask *ask = belfry_container(node, struct worker_thread_ask, mail.node);
        watchers_scan_destroy(ask->scan);
        clients_scan_destroy(ask->clients);
        ask->scan = NULL;
        ask->clients = NULL;
        send_back(ask);
    }
    worker_thread_destroy_parts(t); /* before the handles: parts on their way out may still ask for a turn */
    uv_close((uv_handle_t *)&t->prepare, NULL);
    uv_close((uv_handle_t *)&t->idle, NULL);
    uv_close((uv_handle_t *)&t->timer, NULL);
}

enum belfry_err worker_thread_start(const struct worker_thread_opts *opts, struct worker_thread **out)
{
    static const struct thread_part part = {"belfry-worker", worker_thread_begin, worker_thread_end};
    struct worker_thread *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return BELFRY_ERR_NOMEM;
    t->opts = *opts;
    enum belfry_err err = thread_start(&part, t, &t->thread);
    if (err != BELFRY_OK) {
        free(t);
        return err;
    }
    *out = t;
    return BELFRY_OK;
}

void worker_thread_stop(struct worker_thread *thread)
{
    if (thread != NULL)
        thread_stop(thread->thread);
}

void worker_thread_destroy(struct worker_thread *thread)
{
    if (thread == NULL)
        return;
    thread_destroy(thread->thread);
    free(thread);
}

void worker_thread_wake(struct worker_thread *thread)
{
    thread_wake(thread->thread);
}

/* ---- what comes by mail ---- */

struct arrival_mail {
    struct mail mail;
    struct worker_thread *thread;
    struct inbound_arrival arrival;
};

static void open_arrival(struct mail *mail, void *owner)
{
    struct arrival_mail *coming = belfry_container(mail, struct arrival_mail, mail);
    struct worker_thread *t = owner;
    atomic_fetch_sub_explicit(&coming->thread->coming, 1, memory_order_relaxed);
    if (t == NULL)
        close(coming->arrival.fd);
    else
        belfry_ignore(inbound_accept(t->inbound, &coming->arrival, belfry_clock_ms())); /* the peer sees it closed */
    free(coming);
}

void worker_thread_accept(struct worker_thread *thread, const struct inbound_arrival *arrival)
{
    struct arrival_mail *coming = calloc(1, sizeof(*coming));
    if (coming == NULL) {
        close(arrival->fd);
        return;
    }
    *coming = (struct arrival_mail){.mail.open = open_arrival, .thread = thread, .arrival = *arrival};
    atomic_fetch_add_explicit(&thread->coming, 1, memory_order_relaxed);
    thread_post(thread->thread, &coming->mail);
}

void worker_thread_post(struct worker_thread *thread, struct mail *mail)
{
    thread_post(thread->thread, mail);
}

struct worker_parts *worker_thread_parts(struct worker_thread *thread)
{
    return thread->parts;
}

size_t worker_thread_refusing(const struct worker_thread *thread)
{
    return atomic_load_explicit(&thread->refusing, memory_order_relaxed);
}

size_t worker_thread_connections(const struct worker_thread *thread)
{
    return atomic_load_explicit(&thread->serving, memory_order_relaxed) + worker_thread_refusing(thread) +
           atomic_load_explicit(&thread->coming, memory_order_relaxed);
}

size_t worker_thread_load(const struct worker_thread *thread)
{
    return atomic_load_explicit(&thread->watchers, memory_order_relaxed) + worker_thread_connections(thread);
}

enum permit_auth worker_thread_auth(const struct worker_thread *thread)
{
    return atomic_load_explicit(&thread->auth, memory_order_relaxed);
}

struct drain_order {
    struct mail mail;
    uint64_t drain_ms;
};

static void open_drain(struct mail *mail, void *owner)
{
    struct drain_order *order = belfry_container(mail, struct drain_order, mail);
    struct worker_thread *t = owner;
    if (t != NULL) {
        uint64_t now = belfry_clock_ms();
        t->parts->api->announce_drain(t->parts);
        t->leaving = true;
        t->leaving_from_ms = now;
        t->leaving_ms = order->drain_ms / 2;
        t->drain_end_ms = now + order->drain_ms;
        t->leaving_newest = inbound_newest(t->inbound);
        t->n_leaving = inbound_connections(t->inbound);
        t->n_left = 0;
        worker_thread_send_away(t, now);
    }
    free(order);
}

void worker_thread_drain(struct worker_thread *thread, uint64_t drain_ms)
{
    struct drain_order *order = calloc(1, sizeof(*order));
    if (order == NULL)
        return; /* the end of the period ends them all */
    *order = (struct drain_order){.mail.open = open_drain, .drain_ms = drain_ms};
    thread_post(thread->thread, &order->mail);
}

static void open_farewell(struct mail *mail, void *owner)
{
    struct worker_thread *t = owner;
    if (t != NULL) {
        uint64_t now = belfry_clock_ms();
        t->leaving = false;
        (void)inbound_shut(t->inbound, INBOUND_ALL, SIZE_MAX);
        t->parts->api->drain(t->parts, now, 0);
    }
    free(mail);
}

void worker_thread_farewell(struct worker_thread *thread)
{
    struct mail *order = calloc(1, sizeof(*order));
    if (order == NULL)
        return; /* the end of the period ends them all */
    order->open = open_farewell;
    thread_post(thread->thread, order);
}

static void open_count(struct mail *mail, void *owner)
{
    struct worker_thread_ask *ask = belfry_container(mail, struct worker_thread_ask, mail);
    struct worker_thread *t = owner;
    if (t != NULL) {
        struct worker_numbers *numbers = &ask->numbers;
        t->parts->api->count(t->parts, numbers);
        inbound_stats(t->inbound, &numbers->inbound);
        pools_count(inbound_shares(t->inbound), inbound_alarm(t->inbound), numbers->pools);
        numbers->turns = t->turns;
        numbers->longest_turn_us = peak_now(&t->longest_us, belfry_clock_ns() / 1000000);
        numbers->answered = true;
    }
    send_back(ask);
}

void worker_thread_count(struct worker_thread *thread, struct worker_thread_ask *ask)
{
    ask->mail.open = open_count;
    thread_post(thread->thread, &ask->mail);
}

static void open_scan(struct mail *mail, void *owner)
{
    struct worker_thread_ask *ask = belfry_container(mail, struct worker_thread_ask, mail);
    struct worker_thread *t = owner;
    if (t == NULL || t->parts->api->scan(t->parts, &ask->query, &ask->scan) != BELFRY_OK)
        send_back(ask);
    else
        belfry_list_append(&t->scans, &ask->mail.node);
}

void worker_thread_scan(struct worker_thread *thread, struct worker_thread_ask *ask)
{
    ask->mail.open = open_scan;
    thread_post(thread->thread, &ask->mail);
}

static void open_clients(struct mail *mail, void *owner)
{
    struct worker_thread_ask *ask = belfry_container(mail, struct worker_thread_ask, mail);
    struct worker_thread *t = owner;
    if (t == NULL || clients_scan_create(&ask->clients_query, inbound_shares(t->inbound), &ask->clients) != BELFRY_OK)
        send_back(ask);
    else
        belfry_list_append(&t->scans, &ask->mail.node);
}

void worker_thread_clients(struct worker_thread *thread, struct worker_thread_ask *ask)
{
    ask->mail.open = open_clients;
    thread_post(thread->thread, &ask->mail);
}
