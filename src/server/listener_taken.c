/* src/server/listener_taken.c */
#include "server/listener_taken.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

/* States of the table, as in the kernel's tcp_states.h. */
#define TCP_STATE_TIME_WAIT 6 /* does not keep a listener from binding */
#define TCP_STATE_CLOSE     7 /* bound, neither connected nor listening */
#define TCP_STATE_LISTEN    10

static enum port_use use_of(unsigned state)
{
    switch (state) {
    case TCP_STATE_TIME_WAIT:
        return PORT_UNUSED;
    case TCP_STATE_CLOSE:
        return PORT_HELD;
    case TCP_STATE_LISTEN:
        return PORT_LISTENING;
    default:
        return PORT_CONNECTED;
    }
}

enum port_use listener_port_use(FILE *table, uint16_t port)
{
    enum port_use most = PORT_UNUSED;
    char line[512];
    unsigned local, state;
    while (fgets(line, sizeof(line), table) != NULL)
        /* "  0: 0100007F:1F90 00000000:0000 0A ..." */
        if (sscanf(line, " %*u: %*32[0-9A-F]:%4x %*32[0-9A-F]:%*4x %2x", &local, &state) == 2 && local == port &&
            use_of(state) > most)
            most = use_of(state);
    return most;
}

static enum port_use use_now(uint16_t port)
{
    static const char *const tables[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    enum port_use most = PORT_UNUSED;
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        FILE *table = fopen(tables[i], "re");
        if (table == NULL)
            continue;
        enum port_use use = listener_port_use(table, port);
        most = use > most ? use : most;
        fclose(table);
    }
    return most;
}

/* Ports that the kernel gives to outgoing connections. False: unknown. */
static bool outgoing_range(unsigned *first, unsigned *last)
{
    FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    if (file == NULL)
        return false;
    bool known = fscanf(file, "%u %u", first, last) == 2;
    fclose(file);
    return known;
}

static void taken_by_connection(uint16_t port, char *out, size_t out_len)
{
    unsigned first, last;
    if (outgoing_range(&first, &last) && port >= first && port <= last)
        snprintf(out, out_len,
                 ": nothing listens there, but a connection uses this port: the kernel gives %u to %u to outgoing "
                 "connections; choose a port outside of these, or list it in net.ipv4.ip_local_reserved_ports",
                 first, last);
    else
        snprintf(out, out_len,
                 ": nothing listens there, but a connection uses this port; wait until it has ended, or choose another "
                 "port");
}

static void taken_port(uint16_t port, char *out, size_t out_len)
{
    switch (use_now(port)) {
    case PORT_LISTENING:
        snprintf(out, out_len, ": another process listens there; stop it or choose another address");
        return;
    case PORT_CONNECTED:
        taken_by_connection(port, out, out_len);
        return;
    case PORT_HELD:
    case PORT_UNUSED: /* the table does not show it, or it went away meanwhile */
        snprintf(out, out_len, ": another process has bound this port; stop it or choose another address");
        return;
    }
}

static void taken_path(const char *path, char *out, size_t out_len)
{
    struct stat st;
    bool other = lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode);
    snprintf(out, out_len, "%s",
             other ? ": there is a file that is not a socket; remove it or choose another path"
                   : ": another process listens there; stop it or choose another address");
}

void listener_taken(const struct belfry_endpoint *endpoint, char *out, size_t out_len)
{
    if (endpoint->is_unix)
        taken_path(endpoint->host, out, out_len);
    else
        taken_port(endpoint->port, out, out_len);
}
