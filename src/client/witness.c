/* src/client/witness.c */
#include "client/witness.h"

#include "base/hash.h"

#define HASHED_MAX 256 /* bytes of a value: more would cost more than the evidence is worth */

static uint64_t hash_of(struct belfry_bytes value)
{
    static const struct belfry_hash_key key = {0x62656c66, 0x7279}; /* both sides are ours: no secret needed */
    if (value.len > HASHED_MAX)
        value.len = HASHED_MAX;
    return belfry_hash(key, value);
}

void belfry_witness_init(struct belfry_witness *witness)
{
    *witness = (struct belfry_witness){0};
    belfry_buf_init(&witness->key);
}

void belfry_witness_fini(struct belfry_witness *witness)
{
    belfry_buf_fini(&witness->key);
    belfry_witness_init(witness);
}

void belfry_witness_forget(struct belfry_witness *witness)
{
    witness->rev = 0;
}

void belfry_witness_note(struct belfry_witness *witness, const struct belfry_wire_event *event)
{
    const struct belfry_wire_kv *kv = &event->kv;
    if (event->is_delete && kv->mod_rev == witness->rev && belfry_bytes_equal(kv->key, belfry_buf_bytes(&witness->key)))
        belfry_witness_forget(witness);
    if (event->is_delete || kv->mod_rev <= witness->rev)
        return;
    belfry_buf_clear(&witness->key);
    if (belfry_buf_append(&witness->key, kv->key.data, kv->key.len) != BELFRY_OK) {
        witness->rev = 0;
        return;
    }
    witness->rev = kv->mod_rev;
    witness->create_rev = kv->create_rev;
    witness->version = kv->version;
    witness->value_len = kv->value.len;
    witness->value_hash = hash_of(kv->value);
}

bool belfry_witness_contradicts(const struct belfry_witness *witness, struct belfry_bytes response)
{
    struct belfry_bytes row;
    struct belfry_wire_kv kv;
    size_t at = 0;
    enum belfry_err err = belfry_scan_field(response, BELFRY_RANGE_KVS, &at, &row);
    if (err == BELFRY_ERR_AGAIN)
        return true; /* the key did not exist at that revision */
    if (err != BELFRY_OK || belfry_scan_kv(row, &kv) != BELFRY_OK)
        return false; /* an unreadable answer is no evidence */
    return kv.mod_rev != witness->rev || kv.create_rev != witness->create_rev || kv.version != witness->version ||
           kv.value.len != witness->value_len || hash_of(kv.value) != witness->value_hash;
}
