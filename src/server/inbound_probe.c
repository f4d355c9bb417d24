/* src/server/inbound_probe.c: apart from the rest because libc's tcp_info ends before the fields that matter here. */
#include "server/inbound_probe.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#define STATE_CLOSE 7 /* TCP_CLOSE of the kernel, which is in libc's header alone */

enum inbound_verdict inbound_probe_judge(struct inbound_probe *probe, const struct inbound_probe_info *info,
                                         uint64_t now_ms, uint64_t dead_ms)
{
    if (info->closed)
        return INBOUND_DEAD;
    if (!info->underway) {
        probe->since_ms = 0;
        return info->unsent ? INBOUND_WAITING : INBOUND_CLEAR;
    }
    bool acknowledged = probe->since_ms != 0 && info->last_ack_ms < now_ms - probe->since_ms;
    if (probe->since_ms == 0 || acknowledged)
        probe->since_ms = now_ms;
    return now_ms - probe->since_ms >= dead_ms ? INBOUND_DEAD : INBOUND_WAITING;
}

/* A unix socket: its peer is a process of this machine. */
static struct inbound_probe_info ask_unix(int fd)
{
    struct pollfd peer = {.fd = fd};
    bool hung_up = poll(&peer, 1, 0) > 0 && (peer.revents & (POLLHUP | POLLERR)) != 0;
    return (struct inbound_probe_info){.closed = hung_up};
}

void inbound_probe_ask(int fd, struct inbound_probe_info *out)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0) {
        *out = ask_unix(fd);
        return;
    }
    *out = (struct inbound_probe_info){.closed = info.tcpi_state == STATE_CLOSE,
                                       .underway = info.tcpi_unacked > 0 || info.tcpi_probes > 0,
                                       .unsent = info.tcpi_notsent_bytes > 0,
                                       .last_ack_ms = info.tcpi_last_ack_recv};
}
