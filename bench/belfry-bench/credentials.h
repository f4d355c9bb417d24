/* bench/belfry-bench/credentials.h
 *
 * credentials: what the connections of a run show to a server with auth on: a file with one line per connection, a
 * token, or a name and a password ("NAME:PASSWORD") with which the connection logs in before anything else.
 *
 * Thread: any; fixed once read.
 * Memory: the file.
 */
#ifndef BENCH_CREDENTIALS_H
#define BENCH_CREDENTIALS_H

#include <stddef.h>

#include "base/buf.h"
#include "base/bytes.h"

struct credentials {
    char *text;                 /* owned */
    struct belfry_bytes *lines; /* owned */
    size_t n;                   /* 0: connections show nothing */
};

void credentials_read(struct credentials *credentials, const char *path); /* dies when it cannot be read or is empty */
void credentials_fini(struct credentials *credentials);

/* Of connection `number`; lines are used again when there are fewer than connections. */
struct belfry_bytes credentials_of(const struct credentials *credentials, size_t number);

/* Appends the AuthenticateRequest of a line "NAME:PASSWORD". */
void credentials_write_login(struct belfry_bytes line, struct belfry_buf *to);

/* The token in an AuthenticateResponse, lent; empty: there is none. */
struct belfry_bytes credentials_read_login(struct belfry_bytes response);

#endif
