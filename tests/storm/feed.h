/* tests/storm/feed.h
 *
 * feed: what follows upstream, made up: it writes revisions into replica and log through ingest, and keeps a ledger of
 * them. feed_etcd.c and feed_kube.c stand in the place of the threads that would.
 *
 * Keys are numbered:
 *
 *     0 to 7      /a/k0 ...                                       small values, which healthy clients watch
 *     8 to 15     /b/k0 ...                                       values of all sizes
 *     16 to 23    /registry/demo.example.com/widgets/ns/w0 ...    objects, some of them broken (FEED_ANY)
 *     24          /crds/gadgets                                   a definition, some of them broken (FEED_ANY alone)
 *
 * In front of Kubernetes there are the objects alone, as ns/w0 ..., and none is broken.
 *
 * Thread: owner.
 */
#ifndef BELFRY_STORM_FEED_H
#define BELFRY_STORM_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include "core/evlog.h"
#include "follow/ingest.h"
#include "storm/choices.h"

#define FEED_WATCHED 8 /* keys below this one are under FEED_PREFIX */
#define FEED_PREFIX  "/a/"
#define FEED_END     "/a0"
#define FEED_WIDGETS 16
#define FEED_OBJECTS "/registry/demo.example.com/widgets/ns/"
#define FEED_CRD     24
#define FEED_KEYS    25
#define FEED_LEDGER  (1 << 17) /* events of a run, at most */

void feed_key(unsigned key, char *to, size_t room);
void feed_object_key(struct belfry_bytes name, char *to, size_t room); /* of the object with that name */

/* A revision of one to four events. The choice decides keys, values and deletes. */
enum feed_manner { FEED_ANY, FEED_SOUND };
void feed_write(struct choices *choices, enum feed_manner manner);

/* A listing in the place of what there is: watchers of the old past are lost, or those below the head. */
void feed_cut(enum evlog_cut_why why);

void feed_set_stale(bool stale);
bool feed_is_stale(void);
void feed_turn(void); /* commits, and answers what was asked */
uint64_t feed_due(void);

int64_t feed_head(void);
struct belfry_wire_header feed_header(int64_t rev);

/* The ledger: events in order. The first entry at or above `rev` of these keys; NULL: none. */
struct feed_entry {
    int64_t rev;
    unsigned key;
    bool is_delete;
};
enum feed_keys { FEED_KEYS_WATCHED, FEED_KEYS_WIDGETS };
/* *at: where to look from; moves to the entry */
const struct feed_entry *feed_next(size_t *at, int64_t rev, enum feed_keys keys);

/* For what stands in the place of a thread. */
struct feed_opts {
    bool is_kube;
    struct store *store; /* lent, as is: */
    struct evlog *evlog;
    void (*tell)(void *user);     /* there is news */
    void (*answer)(void *user);   /* in each turn: what was asked, */
    bool (*is_asked)(void *user); /* if there is such a thing */
    void *user;
};
struct ingest *feed_begin(const struct feed_opts *opts); /* its ingest; lent */
void feed_end(void);

#endif
