/* src/serve/etcd/watch_claims.c */
#include "serve/etcd/watch_claims.h"

#include <assert.h>
#include <stdlib.h>

static_assert(sizeof(struct watch_claim) <= PERMIT_HOLDER, "a claim is accounted for");

static struct watch_claim *claim_of(struct belfry_treap_node *node)
{
    return node == NULL ? NULL : belfry_container(node, struct watch_claim, by_id);
}

static int watch_claim_order(const struct belfry_treap_node *a, const struct belfry_treap_node *b)
{
    const struct watch_claim *x = belfry_container_const(a, struct watch_claim, by_id);
    const struct watch_claim *y = belfry_container_const(b, struct watch_claim, by_id);
    return (x->id > y->id) - (x->id < y->id);
}

static int watch_claim_seek(const void *key, const struct belfry_treap_node *node)
{
    int64_t id = *(const int64_t *)key, at = belfry_container_const(node, struct watch_claim, by_id)->id;
    return (id > at) - (id < at);
}

struct watch_claim *watch_claims_find(const struct watch_claims *claims, int64_t id)
{
    return claim_of(belfry_treap_find(claims->by_id, &id, watch_claim_seek));
}

void watch_claim_join(struct watch_claim *claim, int64_t id)
{
    if (claim->waiting != NULL)
        claim->waiting->claim = NULL;
    claim->waiting = NULL;
    claim->id = id;
    belfry_treap_insert(&claim->claims->by_id, &claim->by_id, watch_claim_order);
}

void watch_claim_join_unproven(struct watch_claim *claim, int64_t id)
{
    claim->unproven = true;
    claim->claims->n_unproven++;
    watch_claim_join(claim, id);
}

void watch_claim_prove(struct watch_claim *claim)
{
    claim->claims->n_unproven -= claim->unproven;
    claim->unproven = false;
}

void watch_claim_end(struct watch_claim *claim)
{
    if (claim->waiting == NULL)
        belfry_treap_remove(&claim->claims->by_id, &claim->by_id, watch_claim_order);
    else
        claim->waiting->claim = NULL;
    watch_claim_prove(claim);
    if (claim->question != NULL)
        permit_cancel(claim->question);
    free(claim);
}

void watch_claims_fini(struct watch_claims *claims)
{
    for (struct watch_claim *claim; (claim = claim_of(belfry_treap_first(claims->by_id))) != NULL;)
        watch_claim_end(claim);
}

static void on_watch_verdict(enum permit_verdict verdict, const char *reason, void *user)
{
    struct watch_claim *claim = user;
    if (verdict != PERMIT_HELD)
        claim->question = NULL;
    claim->claims->fn(claim, verdict, reason);
}

enum belfry_err watch_claims_ask(struct watch_claims *claims, struct belfry_bytes key, struct belfry_bytes range_end,
                                 uint64_t now_ms, struct watch_claim **out)
{
    struct watch_claim *claim = calloc(1, sizeof(*claim));
    if (claim == NULL)
        return BELFRY_ERR_NOMEM;
    claim->claims = claims;
    enum belfry_err err =
        permit_hold(claims->permit, claims->party, key, range_end, now_ms, on_watch_verdict, claim, &claim->question);
    if (err == BELFRY_OK)
        *out = claim;
    else
        free(claim);
    return err;
}
