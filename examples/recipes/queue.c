#include "queue.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* requests a lease -> ENTERING: writes its key -> WAITING <-> finds the key before -> FIRST; from any state -> LOST */
enum state { ENTERING, WAITING, FIRST, LOST };

struct place {
    struct belfry *b;
    struct belfry_lease *lease; /* NULL once it has ended */
    struct belfry_watch *watch; /* of the key before ours; if we are first, of our own. NULL: none */
    struct belfry_call *call;   /* in progress; NULL: none */
    enum state state;
    int64_t rev;  /* the create revision of our key; from WAITING on */
    char *prefix; /* NAME/ */
    char *key;    /* NAME/LEASE */
    char *value;
    place_fn fn;
    void *user;
};

static void enter(struct place *p);
static void look(struct place *p);

static void lose(struct place *p, const char *why)
{
    struct place_event event = {PLACE_LOST, p->key, p->rev, why};
    if (p->state == LOST)
        return;
    p->state = LOST;
    p->fn(&event, p->user);
}

/* Errors that are worth a retry, as long as the lease lives. */
static int is_passing(int err)
{
    return err == BELFRY_ERR_UNAVAILABLE || err == BELFRY_ERR_TIMEOUT || err == BELFRY_ERR_UNCERTAIN;
}

/* ---- the key before ours ---- */

static enum belfry_next on_batch(struct belfry_watch *watch, const struct belfry_batch *batch, void *user)
{
    struct place *p = user;
    int gone = batch->kind == BELFRY_END; /* history was compacted or rewritten: look again */
    (void)watch;
    for (const struct belfry_event *e = NULL; (e = belfry_batch_next(batch, e)) != NULL;)
        gone = gone || e->op == BELFRY_DELETE;
    if (!gone)
        return BELFRY_MORE;
    p->watch = NULL;
    if (p->state != LOST && batch->err != BELFRY_ERR_CANCELED)
        look(p);
    return BELFRY_STOP;
}

static void wait_for_end_of(struct place *p, struct belfry_bytes key, int64_t rev)
{
    struct belfry_range range = {key, {NULL, 0}, BELFRY_KEY};
    struct belfry_opts *opts = NULL;
    char number[24];
    snprintf(number, sizeof(number), "%" PRId64, rev);
    int err = belfry_opts_set(&opts, "rev", number);
    if (err == BELFRY_OK)
        err = belfry_watch_open(p->b, range, opts, on_batch, p, &p->watch);
    belfry_opts_free(opts);
    if (err != BELFRY_OK)
        lose(p, belfry_strerror(err));
}

static void be_first(struct place *p)
{
    struct place_event event = {PLACE_FIRST, p->key, p->rev, ""};
    if (p->state == FIRST || !place_is_held(p)) /* already reported, or the end of the lease is about to be */
        return;
    p->state = FIRST;
    p->fn(&event, p->user);
}

/* Reads the two newest keys that are not newer than ours: ours and the one before it. */
static void on_look(const struct belfry_reply *reply, void *user)
{
    struct place *p = user;
    p->call = NULL;
    if (p->state == LOST || reply->err == BELFRY_ERR_CANCELED)
        return;
    if (is_passing(reply->err)) {
        look(p);
        return;
    }
    const struct belfry_event *kv = belfry_reply_kv(reply, NULL);
    if (reply->err != BELFRY_OK) {
        lose(p, reply->why);
    } else if (kv == NULL || kv->create_rev != p->rev) {
        lose(p, "the key was deleted");
    } else if ((kv = belfry_reply_kv(reply, kv)) != NULL) {
        wait_for_end_of(p, kv->key, reply->header.revision + 1);
    } else {
        wait_for_end_of(p, belfry_text(p->key), reply->header.revision + 1);
        if (p->state != LOST)
            be_first(p);
    }
}

static void look(struct place *p)
{
    struct belfry_opts *opts = NULL;
    char rev[24];
    snprintf(rev, sizeof(rev), "%" PRId64, p->rev);
    int err = belfry_opts_set(&opts, "limit", "2");
    if (err == BELFRY_OK)
        err = belfry_opts_set(&opts, "sort-by", "create");
    if (err == BELFRY_OK)
        err = belfry_opts_set(&opts, "order", "descend");
    if (err == BELFRY_OK)
        err = belfry_opts_set(&opts, "max-create-rev", rev);
    if (err == BELFRY_OK)
        err = belfry_get(p->b, belfry_prefix(p->prefix), opts, on_look, p, &p->call);
    belfry_opts_free(opts);
    if (err != BELFRY_OK)
        lose(p, belfry_strerror(err));
}

/* ---- taking the place ---- */

static void on_enter(const struct belfry_reply *reply, void *user)
{
    struct place *p = user;
    p->call = NULL;
    if (p->state == LOST || reply->err == BELFRY_ERR_CANCELED)
        return;
    if (is_passing(reply->err)) { /* it may have been written: the transaction finds out */
        enter(p);
        return;
    }
    if (reply->err != BELFRY_OK) {
        lose(p, reply->why);
        return;
    }
    const struct belfry_reply *op = belfry_reply_op(reply, NULL);
    const struct belfry_event *kv = op != NULL ? belfry_reply_kv(op, NULL) : NULL;
    p->rev = reply->succeeded || kv == NULL ? reply->header.revision : kv->create_rev;
    p->state = WAITING;
    look(p);
}

/* Writes our key if it does not exist, else reads it: safe to send twice. */
static void enter(struct place *p)
{
    struct belfry_txn *txn = belfry_txn_create();
    belfry_txn_if_create_rev(txn, belfry_text(p->key), '=', 0);
    belfry_txn_put(txn, BELFRY_THEN, belfry_text(p->key), belfry_text(p->value), belfry_lease_id(p->lease));
    belfry_txn_get(txn, BELFRY_ELSE, belfry_key(p->key));
    int err = belfry_txn_commit(p->b, txn, NULL, on_enter, p, &p->call);
    belfry_txn_free(txn);
    if (err != BELFRY_OK)
        lose(p, belfry_strerror(err));
}

static void on_lease(struct belfry_lease *lease, const struct belfry_lease_event *event, void *user)
{
    struct place *p = user;
    (void)lease;
    if (event->kind == BELFRY_LEASE_HELD) {
        sprintf(p->key, "%s%" PRIx64, p->prefix, (uint64_t)event->id);
        enter(p);
    } else if (event->kind == BELFRY_LEASE_END) {
        p->lease = NULL;
        lose(p, event->why);
    }
}

/* ---- public functions ---- */

int place_open(struct belfry *b, const char *name, const char *value, int64_t ttl_s, place_fn fn, void *user,
               struct place **out)
{
    struct place *p = calloc(1, sizeof(*p));
    if (p == NULL)
        return BELFRY_ERR_NOMEM;
    p->b = b;
    p->fn = fn;
    p->user = user;
    p->prefix = malloc(strlen(name) + 2);
    p->key = calloc(1, strlen(name) + 1 + 16 + 1);
    p->value = malloc(strlen(value) + 1);
    int err = p->prefix == NULL || p->key == NULL || p->value == NULL ? BELFRY_ERR_NOMEM : BELFRY_OK;
    if (err == BELFRY_OK) {
        sprintf(p->prefix, "%s/", name);
        strcpy(p->value, value);
        err = belfry_lease_open(b, ttl_s, on_lease, p, &p->lease);
    }
    if (err == BELFRY_OK)
        *out = p;
    else
        place_close(p);
    return err;
}

int place_is_held(const struct place *p)
{
    return p->lease != NULL && p->state != LOST && belfry_lease_left_ms(p->lease) > 0;
}

void place_close(struct place *p)
{
    if (p == NULL)
        return;
    p->state = LOST; /* no more callbacks */
    belfry_call_cancel(p->call);
    belfry_watch_close(p->watch);
    belfry_lease_close(p->lease, BELFRY_LEASE_REVOKE); /* also deletes the key */
    free(p->prefix);
    free(p->key);
    free(p->value);
    free(p);
}
