/* src/serve/relay/txn_deletes.c */
#include "serve/relay/txn_deletes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

void txn_key_append(struct txn_key *key, const uint8_t *bytes, size_t n)
{
    size_t room = sizeof(key->bytes) - key->len;
    n = n < room ? n : room;
    memcpy(key->bytes + key->len, bytes, n);
    key->len += n;
}

static int key_compare(const struct txn_key *a, const struct txn_key *b)
{
    return belfry_bytes_cmp(belfry_bytes_of(a->bytes, a->len), belfry_bytes_of(b->bytes, b->len));
}

static unsigned branch_of(uint64_t branches, unsigned level)
{
    return branches >> level & 1;
}

void txn_deletes_fini(struct txn_deletes *deletes)
{
    for (unsigned level = 0; level < TXN_LEVELS; level++) {
        free(deletes->lowest[level][0]);
        free(deletes->lowest[level][1]);
    }
    txn_deletes_init(deletes);
}

enum belfry_err txn_deletes_add(struct txn_deletes *deletes, unsigned level, uint64_t branches,
                                const struct txn_key *key)
{
    assert(level < TXN_LEVELS);
    struct txn_key **lowest = &deletes->lowest[level][branch_of(branches, level)];
    if (*lowest == NULL) {
        *lowest = malloc(sizeof(**lowest));
        if (*lowest == NULL)
            return BELFRY_ERR_NOMEM;
        deletes->n_keys++;
    } else if (key_compare(*lowest, key) <= 0) {
        return BELFRY_OK;
    }
    **lowest = *key;
    return BELFRY_OK;
}

bool txn_deletes_has(const struct txn_deletes *deletes, unsigned level, uint64_t branches, const struct txn_key *key)
{
    assert(level < TXN_LEVELS);
    for (unsigned i = 0; i <= level; i++) {
        const struct txn_key *lowest = deletes->lowest[i][branch_of(branches, i)];
        if (lowest != NULL && key_compare(lowest, key) <= 0)
            return true;
    }
    return false;
}

/* Into *outer, the lower one of both. *inner is empty then. */
static void key_merge(struct txn_deletes *deletes, struct txn_key **outer, struct txn_key **inner)
{
    bool is_lower = *inner != NULL && (*outer == NULL || key_compare(*inner, *outer) < 0);
    struct txn_key *other = is_lower ? *outer : *inner;
    deletes->n_keys -= *inner != NULL && *outer != NULL;
    *outer = is_lower ? *inner : *outer;
    *inner = NULL;
    free(other);
}

void txn_deletes_close(struct txn_deletes *deletes, unsigned level, uint64_t branches)
{
    assert(level > 0 && level < TXN_LEVELS);
    struct txn_key **outer = &deletes->lowest[level - 1][branch_of(branches, level - 1)];
    key_merge(deletes, outer, &deletes->lowest[level][0]);
    key_merge(deletes, outer, &deletes->lowest[level][1]);
}
