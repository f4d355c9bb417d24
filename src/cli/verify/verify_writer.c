/* src/cli/verify/verify_writer.c */
#include "cli/verify/verify_writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/verify/verify_range.h"

#define KEYS      16
#define KEY_BYTES (VERIFY_WRITER_PREFIX + 16)
#define VALUE_MAX 300
#define UNDER_WAY 100 /* a cluster that is slower than the rate receives no more */

static uint64_t under_way(const struct verify_writer *writer)
{
    return writer->n_begun - writer->n_done - writer->n_failed;
}

static void on_reply(const struct belfry_reply *reply, void *user)
{
    struct verify_writer *writer = user;
    if (reply->err == BELFRY_OK)
        writer->n_done++;
    else
        writer->n_failed++;
    bool refused = reply->err == BELFRY_ERR_DENIED || reply->err == BELFRY_ERR_AUTH;
    if (refused) /* the next would be rejected, too */
        verify_env_fail(writer->env, "writing to the reference", reply->err, reply->why);
    writer->wrote = writer->wrote || !refused;
}

static void on_deleted(const struct belfry_reply *reply, void *user)
{
    struct verify_writer *writer = user;
    writer->deleted = reply->err == BELFRY_OK;
    on_reply(reply, user);
}

static struct belfry_bytes key_below(const char *prefix, unsigned number, char room[KEY_BYTES])
{
    int len = snprintf(room, KEY_BYTES, "%sverify-%02u", prefix, number);
    return (struct belfry_bytes){room, (size_t)len};
}

static struct belfry_bytes key_of(const struct verify_writer *writer, unsigned number, char room[KEY_BYTES])
{
    return key_below(writer->prefix, number, room);
}

bool verify_writer_fits(const char *prefix, const struct belfry_range *range)
{
    char first[KEY_BYTES], last[KEY_BYTES];
    return judge_range_has(range, key_below(prefix, 0, first)) &&
           judge_range_has(range, key_below(prefix, KEYS - 1, last));
}

static int write_some(struct verify_writer *writer)
{
    char key[KEY_BYTES], value[VALUE_MAX];
    unsigned first = (unsigned)belfry_rng_below(&writer->env->rng, KEYS),
             n = (unsigned)belfry_rng_below(&writer->env->rng, 8);
    struct belfry_bytes bytes = {value, (size_t)belfry_rng_below(&writer->env->rng, VALUE_MAX)};
    memset(value, 'a' + (int)(writer->n_begun % 26), sizeof(value));
    memcpy(value, &writer->n_begun, sizeof(writer->n_begun)); /* values differ, except the shortest */
    if (n == 0)
        return belfry_del(writer->b, (struct belfry_range){.key = key_of(writer, first, key), .kind = BELFRY_KEY}, NULL,
                          on_reply, writer, NULL);
    if (n > 2)
        return belfry_put(writer->b, key_of(writer, first, key), bytes, NULL, on_reply, writer, NULL);
    struct belfry_txn *txn = belfry_txn_create();
    for (unsigned i = 0; i < 4; i++) {
        struct belfry_bytes one = key_of(writer, (first + i) % KEYS, key);
        if (i < 3)
            belfry_txn_put(txn, BELFRY_THEN, one, bytes, 0);
        else
            belfry_txn_del(txn, BELFRY_THEN, (struct belfry_range){.key = one, .kind = BELFRY_KEY});
    }
    int err = belfry_txn_commit(writer->b, txn, NULL, on_reply, writer, NULL);
    belfry_txn_free(txn);
    return err;
}

static void begin(struct verify_writer *writer, int err)
{
    if (err == BELFRY_OK)
        writer->n_begun++;
    else
        verify_env_fail(writer->env, "writing to the reference", err, NULL);
}

/* Only when no write is under way: a write may be overtaken by a later one. */
static void delete_keys(struct verify_writer *writer)
{
    char key[KEY_BYTES];
    struct belfry_txn *txn = belfry_txn_create();
    for (unsigned i = 0; i < KEYS; i++)
        belfry_txn_del(txn, BELFRY_THEN, (struct belfry_range){.key = key_of(writer, i, key), .kind = BELFRY_KEY});
    begin(writer, belfry_txn_commit(writer->b, txn, NULL, on_deleted, writer, NULL));
    belfry_txn_free(txn);
}

static void write_on(struct verify_writer *writer, int64_t now_us)
{
    if (now_us - writer->next_us > SECOND_US)
        writer->next_us = now_us; /* writes that an outage prevented are not made up for */
    while (writer->next_us <= now_us && under_way(writer) < UNDER_WAY && writer->env->err == BELFRY_OK) {
        begin(writer, write_some(writer));
        writer->next_us += SECOND_US / writer->rate;
    }
}

void verify_writer_turn(struct verify_writer *writer, int64_t now_us)
{
    switch (writer->state) {
    case VERIFY_WRITING:
        if (writer->rate > 0)
            write_on(writer, now_us);
        break;
    case VERIFY_ENDING:
        if (under_way(writer) == 0) {
            writer->state = VERIFY_DELETING;
            delete_keys(writer);
        }
        break;
    case VERIFY_DELETING:
        break;
    }
}

void verify_writer_end(struct verify_writer *writer)
{
    if (writer->rate > 0 && writer->state == VERIFY_WRITING)
        writer->state = VERIFY_ENDING;
}

bool verify_writer_idle(const struct verify_writer *writer)
{
    return under_way(writer) == 0 && writer->state != VERIFY_ENDING;
}

bool verify_writer_left(const struct verify_writer *writer)
{
    return (writer->wrote || under_way(writer) > 0) && !writer->deleted;
}
