/* tests/storm/line.c */
#include "storm/line.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "storm/house.h"
#include "storm/verdict.h"

#define PIECE (32 * 1024)

/* The head of the PROXY protocol, as a balancer sends it before all else. */
static void send_proxy_head(int fd, const struct client_address *client)
{
    uint8_t head[28] = "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c";
    memcpy(head + 16, client->bytes, 4);
    head[24] = (uint8_t)(client->port >> 8);
    head[25] = (uint8_t)client->port;
    verdict_must(send(fd, head, sizeof(head), MSG_NOSIGNAL) == sizeof(head), "a head");
}

void line_open(struct line *line, const struct line_opts *opts)
{
    int pair[2];
    verdict_must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0, "a socket");
    *line = (struct line){.fd = pair[0]};
    if (house_door_is_tls(opts->door) && !opts->is_bare)
        verdict_must(belfry_tls_conn_create(house_client_tls(opts->with_cert), "etcd.test", &line->tls) == BELFRY_OK,
                     "TLS");
    if (house_door_is_proxied(opts->door) && !opts->is_bare)
        send_proxy_head(pair[0], &opts->client);
    house_accept(opts->door, pair[1], opts->client);
}

void line_close(struct line *line)
{
    if (line->fd < 0)
        return;
    belfry_tls_conn_destroy(line->tls);
    belfry_buf_fini(&line->out);
    belfry_buf_fini(&line->in);
    close(line->fd);
    *line = (struct line){.fd = -1, .is_over = true};
}

/* Sends from the bytes; returns how many went. */
static size_t line_send(struct line *line, struct belfry_bytes bytes, size_t most)
{
    size_t n = bytes.len < most ? bytes.len : most;
    ssize_t sent = n == 0 ? 0 : send(line->fd, bytes.data, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN)
        line->is_over = true;
    return sent > 0 ? (size_t)sent : 0;
}

static void line_shake(struct line *line)
{
    if (line->is_shaken)
        return;
    enum belfry_err err = belfry_tls_conn_handshake(line->tls);
    line->is_shaken = err == BELFRY_OK;
    line->is_over = line->is_over || (err != BELFRY_OK && err != BELFRY_ERR_AGAIN);
}

static void line_push_tls(struct line *line, size_t most)
{
    size_t n;
    line_shake(line);
    struct belfry_bytes plain = belfry_buf_bytes(&line->out);
    if (line->is_shaken && plain.len > 0 && belfry_tls_conn_output(line->tls).len < PIECE &&
        belfry_tls_conn_write(line->tls, plain, &n) == BELFRY_OK)
        belfry_buf_take(&line->out, n);
    belfry_tls_conn_sent(line->tls, line_send(line, belfry_tls_conn_output(line->tls), most));
}

void line_push(struct line *line, size_t most)
{
    if (line->fd < 0 || line->is_over)
        return;
    if (line->tls != NULL)
        line_push_tls(line, most);
    else
        belfry_buf_take(&line->out, line_send(line, belfry_buf_bytes(&line->out), most));
}

static void line_feed_tls(struct line *line, struct belfry_bytes bytes)
{
    uint8_t plain[PIECE];
    size_t n;
    enum belfry_err err = BELFRY_ERR_AGAIN;
    belfry_tls_conn_feed(line->tls, bytes);
    line_shake(line);
    while (line->is_shaken && (err = belfry_tls_conn_read(line->tls, plain, sizeof(plain), &n)) == BELFRY_OK)
        verdict_must(belfry_buf_append(&line->in, plain, n) == BELFRY_OK, "input");
    line->is_over = line->is_over || err != BELFRY_ERR_AGAIN;
}

void line_pull(struct line *line, size_t most)
{
    uint8_t bytes[PIECE];
    if (line->fd < 0 || line->is_over)
        return;
    ssize_t n = recv(line->fd, bytes, most < sizeof(bytes) ? most : sizeof(bytes), MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN))
        line->is_over = true;
    else if (n > 0 && line->tls != NULL)
        line_feed_tls(line, belfry_bytes_of(bytes, (size_t)n));
    else if (n > 0)
        verdict_must(belfry_buf_append(&line->in, bytes, (size_t)n) == BELFRY_OK, "input");
}

void line_half_close(struct line *line)
{
    if (line->fd >= 0)
        shutdown(line->fd, SHUT_WR);
}
