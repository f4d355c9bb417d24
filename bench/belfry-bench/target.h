/* bench/belfry-bench/target.h
 *
 * target: where a load goes: http://127.0.0.1:2379, https://127.0.0.1:2379, 127.0.0.1:2379 or [::1]:2379. Addresses,
 * not names, and loopback unless it is said that another machine is meant: a load generator must not hit one by a slip
 * of the finger.
 *
 * Thread: any.
 */
#ifndef BENCH_TARGET_H
#define BENCH_TARGET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "base/err.h"
#include "net/tls.h"

struct target {
    struct sockaddr_storage addr;
    socklen_t addr_len;
    bool loopback;
    struct sockaddr_storage source; /* connections come from this address, of a port that the kernel chooses */
    socklen_t source_len;           /* 0: the kernel chooses the address too */
    unsigned n_sources;             /* connections take so many addresses in turn, from `source` on; 0: that one */
    bool is_tls;
    char host[INET6_ADDRSTRLEN]; /* the address, which the certificate must be for */
    struct belfry_tls *tls;      /* lent; of whoever parsed it. NULL: plain */
    struct belfry_bytes bearer;  /* lent; the token that requests show. Empty: none */
};

/* Errors: BELFRY_ERR_INVALID. */
BELFRY_NODISCARD enum belfry_err target_parse(const char *text, struct target *out);

/* Connections come from this IPv4 address from here on. Errors: BELFRY_ERR_INVALID. */
BELFRY_NODISCARD enum belfry_err target_set_source(struct target *target, const char *address);

/* A new socket, not blocking, that connects there. -1: none can be had, or it cannot connect; errno says why. */
int target_try(const struct target *target);

/* As target_try(), and dies when none can be had. */
int target_connect(const struct target *target);

/* Lets such a socket block from here on. */
void target_block(int fd);

#endif
