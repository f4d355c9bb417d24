/* src/server/inbound_socket.c */
#include "server/inbound_socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#define TLS_COST (16 * 1024) /* about what OpenSSL keeps for an idle connection */

/* A Unix socket knows only the buffer, and works without it: no failure here is a reason to refuse. */
static void set_socket_options(int fd, int sndbuf)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},    {SOL_SOCKET, SO_KEEPALIVE, 1}, {IPPROTO_TCP, TCP_KEEPIDLE, 30},
        {IPPROTO_TCP, TCP_KEEPINTVL, 10}, {IPPROTO_TCP, TCP_KEEPCNT, 3},
    };
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &sndbuf, sizeof(sndbuf));
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(options[i].value));
}

enum belfry_err inbound_socket_open(struct inbound_socket *socket, int fd, struct belfry_tls *tls, int sndbuf,
                                    struct inbound_traffic *traffic)
{
    *socket = (struct inbound_socket){.fd = fd, .traffic = traffic};
    if (tls != NULL) {
        enum belfry_err err = belfry_tls_conn_accept(tls, &socket->tls);
        if (err != BELFRY_OK) {
            close(fd);
            return err;
        }
    }
    set_socket_options(fd, sndbuf);
    return BELFRY_OK;
}

static void set_full(struct inbound_socket *socket, bool full)
{
    socket->traffic->n_full += full - socket->full;
    socket->full = full;
}

void inbound_socket_close(struct inbound_socket *socket)
{
    belfry_tls_conn_destroy(socket->tls);
    belfry_buf_fini(&socket->rest);
    set_full(socket, false);
    close(socket->fd);
    socket->tls = NULL;
    socket->fd = -1;
}

/* Returns how many of the bytes were sent, or -1 when the connection is lost. */
static ssize_t send_some(struct inbound_socket *socket, struct belfry_bytes bytes)
{
    ssize_t n;
    do
        n = send(socket->fd, bytes.data, bytes.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
        return -1;
    n = n < 0 ? 0 : n;
    socket->traffic->writes++;
    socket->traffic->bytes_out += (uint64_t)n;
    socket->sent += (uint64_t)n;
    set_full(socket, (size_t)n < bytes.len);
    return n;
}

bool inbound_socket_write(struct inbound_socket *socket, struct belfry_bytes bytes)
{
    if (socket->tls == NULL) {
        ssize_t n = send_some(socket, bytes);
        return n >= 0 && belfry_buf_append(&socket->rest, bytes.data + n, bytes.len - (size_t)n) == BELFRY_OK;
    }
    for (size_t n; bytes.len > 0; bytes = belfry_bytes_of(bytes.data + n, bytes.len - n)) {
        if (belfry_tls_conn_write(socket->tls, bytes, &n) != BELFRY_OK)
            return false;
    }
    return inbound_socket_flush(socket);
}

bool inbound_socket_flush(struct inbound_socket *socket)
{
    struct belfry_bytes waits =
        socket->tls != NULL ? belfry_tls_conn_output(socket->tls) : belfry_buf_bytes(&socket->rest);
    if (waits.len == 0)
        return true;
    ssize_t n = send_some(socket, waits);
    if (n < 0)
        return false;
    if (socket->tls != NULL)
        belfry_tls_conn_sent(socket->tls, (size_t)n);
    else if ((size_t)n == waits.len)
        belfry_buf_fini(&socket->rest);
    else
        belfry_buf_take(&socket->rest, (size_t)n);
    return true;
}

void inbound_socket_say_goodbye(struct inbound_socket *socket, enum inbound_goodbye goodbye)
{
    if (socket->tls == NULL)
        return;
    if (goodbye == INBOUND_GOODBYE && belfry_tls_conn_output(socket->tls).len == 0)
        belfry_tls_conn_end(socket->tls);
    struct belfry_bytes output = belfry_tls_conn_output(socket->tls);
    if (output.len > 0)
        (void)send(socket->fd, output.data, output.len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool inbound_socket_has_output(const struct inbound_socket *socket)
{
    return socket->tls != NULL && belfry_tls_conn_output(socket->tls).len > 0;
}

size_t inbound_socket_bytes(const struct inbound_socket *socket)
{
    size_t tls = socket->tls != NULL ? TLS_COST + belfry_tls_conn_output(socket->tls).len : 0;
    return tls + socket->rest.cap;
}
