/* src/net/dns.c
 *
 * c-ares calls back whenever it likes, from inside ares_getaddrinfo() too, and can only cancel everything at once. So a
 * query has two holders, the owner and c-ares, and is freed when neither holds it any more; answers wait in `ready`
 * until a callback of the loop delivers them.
 *
 *     ASKED --c-ares or deadline--> READY --delivered--> (gone)
 *       +-------cancel----------------+----------------> (gone, for the owner)
 */
#include "net/dns.h"

#include <ares.h>
#include <arpa/inet.h>
#include <assert.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/owner.h"
#include "net/dns_private.h"

#define TRY_MS        1250 /* the first try; c-ares doubles it for the second */
#define TRIES         2
#define QUERY_MAX_MS  5000 /* whatever the number of servers and search domains */
#define CHECK_EVERY   1000 /* ms between looks at the resolver's files */
#define RESOLV_CONF   "/etc/resolv.conf"
#define HOSTS         "/etc/hosts"
#define FILES_WATCHED 2

enum query_state { QUERY_ASKED, QUERY_READY, QUERY_GONE };

struct belfry_dns_query {
    struct belfry_list node; /* in dns->asked, dns->ready, or (held by c-ares alone) dns->gone */
    struct belfry_dns *dns;
    enum query_state state;
    bool held; /* c-ares will call back with it */
    uint16_t port;
    uint64_t deadline_ms;
    belfry_dns_fn fn;
    void *user;
    struct belfry_dns_answer answer;
    char why[160];
};

/* One socket of c-ares. */
struct watch {
    struct belfry_list node; /* in dns->watches */
    struct belfry_dns *dns;
    uv_poll_t poll;
    ares_socket_t fd;
};

struct file_mark {
    ino_t inode;
    off_t size;
    struct timespec changed;
};

struct belfry_dns {
    uv_loop_t *loop;
    uv_timer_t timer;
    const char *resolv_conf;
    uint16_t udp_port; /* 0: the usual one */
    bool closing;
    ares_channel channel; /* NULL: none yet */
    struct file_mark marks[FILES_WATCHED];
    uint64_t checked_ms;
    bool starved; /* a socket of c-ares could not be watched: its queries fail */
    struct belfry_list asked, ready, gone, watches;
    BELFRY_OWNER;
};

static void dns_process(struct belfry_dns *dns, ares_socket_t readable, ares_socket_t writable);

static void query_move(struct belfry_dns_query *query, enum query_state next)
{
    struct belfry_dns *dns = query->dns;
    assert(next > query->state);
    query->state = next;
    belfry_list_remove(&query->node);
    if (next == QUERY_GONE && !query->held)
        free(query);
    else
        belfry_list_append(next == QUERY_READY ? &dns->ready : &dns->gone, &query->node);
}

static void query_answer_error(struct belfry_dns_query *query, enum belfry_err err, const char *reason)
{
    query->answer.n = 0;
    query->answer.err = err;
    snprintf(query->why, sizeof(query->why), "%s", reason);
    query_move(query, QUERY_READY);
}

static void set_port(struct sockaddr_storage *address, uint16_t port)
{
    if (address->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)address)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)address)->sin_port = htons(port);
}

static void query_answer_info(struct belfry_dns_query *query, const struct ares_addrinfo *info)
{
    struct belfry_dns_answer *answer = &query->answer;
    for (const struct ares_addrinfo_node *node = info->nodes; node != NULL; node = node->ai_next) {
        bool is_ip = node->ai_family == AF_INET || node->ai_family == AF_INET6;
        if (!is_ip || answer->n == BELFRY_DNS_MAX || node->ai_addrlen > sizeof(answer->addresses[0]))
            continue;
        memcpy(&answer->addresses[answer->n], node->ai_addr, node->ai_addrlen);
        set_port(&answer->addresses[answer->n++], query->port);
    }
    if (answer->n == 0)
        query_answer_error(query, BELFRY_ERR_RESOLVE, "the name has no address");
    else
        query_move(query, QUERY_READY);
}

static const char *reason_of(int status)
{
    switch (status) {
    case ARES_ENOTFOUND:
        return "no such host";
    case ARES_ENODATA:
        return "the name has no address";
    case ARES_ETIMEOUT:
    case ARES_ECONNREFUSED:
        return "no name server answered";
    default:
        return ares_strerror(status);
    }
}

static void on_answer(void *arg, int status, int timeouts, struct ares_addrinfo *info)
{
    struct belfry_dns_query *query = arg;
    (void)timeouts;
    query->held = false;
    if (query->state == QUERY_GONE) {
        belfry_list_remove(&query->node);
        free(query);
    } else if (query->state == QUERY_ASKED) {
        if (status == ARES_SUCCESS)
            query_answer_info(query, info);
        else
            query_answer_error(query, status == ARES_ENOMEM ? BELFRY_ERR_NOMEM : BELFRY_ERR_RESOLVE, reason_of(status));
    }
    if (info != NULL)
        ares_freeaddrinfo(info);
}

/* A numeric address, IPv6 perhaps with a zone; needs nobody to ask. */
static bool parse_numeric(const char *host, struct sockaddr_storage *out)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    char bare[INET6_ADDRSTRLEN];
    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
        memcpy(out, &v4, sizeof(v4));
        return true;
    }
    size_t len = strcspn(host, "%");
    if (len >= sizeof(bare))
        return false;
    memcpy(bare, host, len);
    bare[len] = '\0';
    if (inet_pton(AF_INET6, bare, &v6.sin6_addr) != 1)
        return false;
    if (host[len] == '%')
        v6.sin6_scope_id = if_nametoindex(host + len + 1);
    memcpy(out, &v6, sizeof(v6));
    return true;
}

static uint64_t next_due(struct belfry_dns *dns)
{
    uint64_t now_ms = uv_now(dns->loop), due_ms = BELFRY_NEVER;
    if (!belfry_list_empty(&dns->ready) || dns->starved)
        return now_ms;
    belfry_list_each (node, &dns->asked) {
        due_ms = belfry_min_time(due_ms, belfry_container(node, struct belfry_dns_query, node)->deadline_ms);
    }
    struct timeval left;
    if (dns->channel != NULL && ares_timeout(dns->channel, NULL, &left) != NULL)
        due_ms = belfry_min_time(due_ms, now_ms + (uint64_t)left.tv_sec * 1000 + ((uint64_t)left.tv_usec + 999) / 1000);
    return due_ms;
}

static void on_timer(uv_timer_t *timer)
{
    dns_process(timer->data, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
}

static void dns_arm(struct belfry_dns *dns)
{
    if (dns->closing)
        return;
    uv_update_time(dns->loop); /* we may be called outside a turn, when libuv's clock stands still */
    uint64_t now_ms = uv_now(dns->loop), due_ms = next_due(dns);
    if (due_ms == BELFRY_NEVER)
        uv_timer_stop(&dns->timer);
    else
        uv_timer_start(&dns->timer, on_timer, due_ms > now_ms ? due_ms - now_ms : 0, 0);
}

static void dns_expire(struct belfry_dns *dns)
{
    belfry_list_each_safe (node, &dns->asked) {
        struct belfry_dns_query *query = belfry_container(node, struct belfry_dns_query, node);
        if (dns->starved)
            query_answer_error(query, BELFRY_ERR_NOMEM, belfry_strerror(BELFRY_ERR_NOMEM));
        else if (query->deadline_ms <= uv_now(dns->loop))
            query_answer_error(query, BELFRY_ERR_RESOLVE, "no name server answered in 5 s");
    }
    dns->starved = false;
}

/* The owner may do anything in its callback, even destroy dns: that empties the list, and dns itself stays until its
 * timer is closed on a later turn. What becomes ready meanwhile is left for the next turn. */
static void dns_deliver(struct belfry_dns *dns)
{
    struct belfry_list batch;
    belfry_list_init(&batch);
    belfry_list_move_all(&batch, &dns->ready);
    while (!belfry_list_empty(&batch)) {
        struct belfry_dns_query *query = belfry_container(batch.next, struct belfry_dns_query, node);
        belfry_dns_fn fn = query->fn;
        void *user = query->user;
        struct belfry_dns_answer answer = query->answer;
        char why[sizeof(query->why)];
        memcpy(why, query->why, sizeof(why));
        answer.why = why;
        query_move(query, QUERY_GONE);
        fn(&answer, user);
        if (dns->closing)
            break;
    }
    while (!belfry_list_empty(&batch))
        query_move(belfry_container(batch.next, struct belfry_dns_query, node), QUERY_GONE);
}

static void dns_process(struct belfry_dns *dns, ares_socket_t readable, ares_socket_t writable)
{
    if (dns->channel != NULL)
        ares_process_fd(dns->channel, readable, writable);
    dns_expire(dns);
    dns_deliver(dns);
    dns_arm(dns);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct watch *watch = poll->data;
    /* libuv reports EPOLLERR as a status and stops watching; c-ares learns what it is by reading. */
    bool readable = status < 0 || (events & UV_READABLE) != 0;
    bool writable = (events & UV_WRITABLE) != 0;
    dns_process(watch->dns, readable ? watch->fd : ARES_SOCKET_BAD, writable ? watch->fd : ARES_SOCKET_BAD);
}

static void on_watch_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static struct watch *find_watch(struct belfry_dns *dns, ares_socket_t fd)
{
    belfry_list_each (node, &dns->watches) {
        struct watch *watch = belfry_container(node, struct watch, node);
        if (watch->fd == fd)
            return watch;
    }
    return NULL;
}

static struct watch *add_watch(struct belfry_dns *dns, ares_socket_t fd)
{
    struct watch *watch = calloc(1, sizeof(*watch));
    if (watch == NULL)
        return NULL;
    if (uv_poll_init(dns->loop, &watch->poll, fd) != 0) {
        free(watch);
        return NULL;
    }
    watch->poll.data = watch;
    watch->dns = dns;
    watch->fd = fd;
    belfry_list_append(&dns->watches, &watch->node);
    return watch;
}

/* c-ares says what it wants to know of a socket; it closes the socket as soon as it wants nothing. */
static void on_socket(void *arg, ares_socket_t fd, int readable, int writable)
{
    struct belfry_dns *dns = arg;
    struct watch *watch = find_watch(dns, fd);
    if (!readable && !writable) {
        if (watch == NULL)
            return;
        belfry_list_remove(&watch->node);
        uv_close((uv_handle_t *)&watch->poll, on_watch_closed);
        return;
    }
    if (watch == NULL)
        watch = add_watch(dns, fd);
    int events = (readable ? UV_READABLE : 0) | (writable ? UV_WRITABLE : 0);
    if (watch == NULL || uv_poll_start(&watch->poll, events, on_poll) != 0)
        dns->starved = true;
}

static struct file_mark mark_of(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return (struct file_mark){0};
    return (struct file_mark){info.st_ino, info.st_size, info.st_mtim};
}

static bool same_mark(const struct file_mark *a, const struct file_mark *b)
{
    return a->inode == b->inode && a->size == b->size && a->changed.tv_sec == b->changed.tv_sec &&
           a->changed.tv_nsec == b->changed.tv_nsec;
}

static enum belfry_err open_channel(struct belfry_dns *dns)
{
    char path[256];
    struct ares_options options = {.timeout = TRY_MS, .tries = TRIES, .sock_state_cb = on_socket};
    int mask = ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB;
    options.sock_state_cb_data = dns;
    if (strcmp(dns->resolv_conf, RESOLV_CONF) != 0) {
        snprintf(path, sizeof(path), "%s", dns->resolv_conf);
        options.resolvconf_path = path;
        options.udp_port = options.tcp_port = dns->udp_port;
        mask |= ARES_OPT_RESOLVCONF | ARES_OPT_UDP_PORT | ARES_OPT_TCP_PORT;
    }
    dns->marks[0] = mark_of(dns->resolv_conf);
    dns->marks[1] = mark_of(HOSTS);
    dns->checked_ms = uv_now(dns->loop);
    int status = ares_init_options(&dns->channel, &options, mask);
    if (status == ARES_SUCCESS)
        return BELFRY_OK;
    dns->channel = NULL;
    return status == ARES_ENOMEM ? BELFRY_ERR_NOMEM : BELFRY_ERR_RESOLVE;
}

/* A channel whose files have changed since is made anew, unless it is in use. */
static enum belfry_err ensure_channel(struct belfry_dns *dns)
{
    uv_update_time(dns->loop);
    uint64_t now_ms = uv_now(dns->loop);
    bool busy = !belfry_list_empty(&dns->asked) || !belfry_list_empty(&dns->gone);
    if (dns->channel != NULL && !busy && now_ms - dns->checked_ms >= CHECK_EVERY) {
        dns->checked_ms = now_ms;
        struct file_mark now[FILES_WATCHED] = {mark_of(dns->resolv_conf), mark_of(HOSTS)};
        if (!same_mark(&now[0], &dns->marks[0]) || !same_mark(&now[1], &dns->marks[1])) {
            ares_destroy(dns->channel);
            dns->channel = NULL;
        }
    }
    return dns->channel != NULL ? BELFRY_OK : open_channel(dns);
}

static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static int library_status;

/* c-ares counts calls of this without a lock, so it is made once a process and never undone. */
static void start_library(void)
{
    library_status = ares_library_init(ARES_LIB_INIT_ALL);
}

enum belfry_err belfry_dns_create(uv_loop_t *loop, struct belfry_dns **out)
{
    pthread_once(&library_once, start_library);
    if (library_status != ARES_SUCCESS)
        return BELFRY_ERR_RESOLVE;
    struct belfry_dns *dns = calloc(1, sizeof(*dns));
    if (dns == NULL)
        return BELFRY_ERR_NOMEM;
    dns->loop = loop;
    dns->resolv_conf = RESOLV_CONF;
    belfry_list_init(&dns->asked);
    belfry_list_init(&dns->ready);
    belfry_list_init(&dns->gone);
    belfry_list_init(&dns->watches);
    uv_timer_init(loop, &dns->timer);
    dns->timer.data = dns;
    BELFRY_OWNER_INIT(dns);
    *out = dns;
    return BELFRY_OK;
}

void belfry_dns_redirect(struct belfry_dns *dns, const char *resolv_conf, uint16_t udp_port)
{
    assert(dns->channel == NULL);
    dns->resolv_conf = resolv_conf;
    dns->udp_port = udp_port;
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void drop_all(struct belfry_list *list)
{
    belfry_list_each_safe (node, list) {
        query_move(belfry_container(node, struct belfry_dns_query, node), QUERY_GONE);
    }
}

void belfry_dns_destroy(struct belfry_dns *dns)
{
    if (dns == NULL)
        return;
    BELFRY_OWNER_CHECK(dns);
    dns->closing = true;
    drop_all(&dns->asked);
    drop_all(&dns->ready);
    if (dns->channel != NULL)
        ares_destroy(dns->channel); /* calls back for every query it holds, which frees them, and closes the sockets */
    assert(belfry_list_empty(&dns->gone) && belfry_list_empty(&dns->watches));
    uv_close((uv_handle_t *)&dns->timer, on_timer_closed);
}

enum belfry_err belfry_dns_resolve(struct belfry_dns *dns, const char *host, uint16_t port, belfry_dns_fn fn,
                                   void *user, struct belfry_dns_query **out)
{
    BELFRY_OWNER_CHECK(dns);
    struct sockaddr_storage numeric = {0};
    bool is_numeric = parse_numeric(host, &numeric);
    enum belfry_err err = is_numeric ? BELFRY_OK : ensure_channel(dns);
    if (err != BELFRY_OK)
        return err;
    struct belfry_dns_query *query = calloc(1, sizeof(*query));
    if (query == NULL)
        return BELFRY_ERR_NOMEM;
    query->dns = dns;
    query->fn = fn;
    query->user = user;
    query->port = port;
    uv_update_time(dns->loop);
    query->deadline_ms = uv_now(dns->loop) + QUERY_MAX_MS;
    belfry_list_append(&dns->asked, &query->node);
    if (is_numeric) {
        set_port(&numeric, port);
        query->answer.addresses[query->answer.n++] = numeric;
        query_move(query, QUERY_READY);
    } else {
        struct ares_addrinfo_hints hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
        query->held = true;
        ares_getaddrinfo(dns->channel, host, NULL, &hints, on_answer, query);
    }
    dns_arm(dns);
    *out = query;
    return BELFRY_OK;
}

void belfry_dns_cancel(struct belfry_dns_query *query)
{
    query_move(query, QUERY_GONE);
}
