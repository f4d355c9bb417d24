/* tests/support/fakeexchange.h
 *
 * fakeexchange: an exchange without a connection: the test is the peer. It keeps what the handler said, says what room
 * there is, and holds the handler to the contract: nothing after its last word, no body before the head, nothing taken
 * that did not come.
 *
 * Thread: owner.
 * Memory: the body grows on the heap; when that is refused, `lost` is set and the test says fakeexchange_gone(), as a
 * connection would from its loop. Everything else is in place.
 */
#ifndef BELFRY_TESTS_FAKEEXCHANGE_H
#define BELFRY_TESTS_FAKEEXCHANGE_H

#include "base/buf.h"
#include "base/list.h"
#include "server/exchange.h"

#define FAKEEXCHANGE_TEXT 4096

enum fakeexchange_state { FAKEEXCHANGE_OPEN, FAKEEXCHANGE_ENDED, FAKEEXCHANGE_RESET, FAKEEXCHANGE_GONE };

struct fakeexchange {
    struct exchange x;
    struct exchange_conn conn;
    enum fakeexchange_state state;
    int status;                     /* 0: no head was sent */
    bool whole;                     /* it came as one answer: for gRPC, trailers-only */
    char fields[FAKEEXCHANGE_TEXT]; /* head and trailers: "name: value\n" each */
    struct belfry_buf body;         /* what was written and not taken by the test */
    size_t writes;                  /* how often a part of the body was written */
    uint32_t reset_code;
    size_t room;        /* writes take from it; the test gives */
    size_t asked, told; /* how often room was asked for; what was said last */
    size_t came, taken; /* bytes of the request's body */
    bool lost;
};

void fakeexchange_init(struct fakeexchange *fake, size_t room);
void fakeexchange_fini(struct fakeexchange *fake);

/* A head with the fields named: "name: value" strings up to NULL. The texts are lent. */
struct fakeexchange_head {
    struct exchange_head head;
    struct belfry_http_field fields[20];
};
void fakeexchange_head(struct fakeexchange_head *head, const char *method, const char *path, const char *const *fields);

/* What the peer does. No event reaches a handler that has had its last word. */
void fakeexchange_send(struct fakeexchange *fake, const void *data, size_t len);
void fakeexchange_send_message(struct fakeexchange *fake, const void *data, size_t len); /* with gRPC's prefix */
void fakeexchange_half_close(struct fakeexchange *fake);
void fakeexchange_make_room(struct fakeexchange *fake, size_t room); /* and says writable */
void fakeexchange_gone(struct fakeexchange *fake);

/* The value of a field of the head or the trailers, lent until the next call; NULL: there is none. */
const char *fakeexchange_field(const struct fakeexchange *fake, const char *name);

/* The next whole gRPC message of the body; false: there is none. Lent until fakeexchange_next(). */
bool fakeexchange_message(const struct fakeexchange *fake, struct belfry_bytes *out);
void fakeexchange_next(struct fakeexchange *fake);

#endif
