/* src/serve/rights/review_users.c */
#include "serve/rights/review_users.h"

#include <assert.h>
#include <openssl/sha.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/map.h"
#include "base/owner.h"
#include "base/pack.h"

struct token_hash {
    unsigned char bytes[SHA256_DIGEST_LENGTH];
};

struct known_token {
    struct belfry_map_node by_hash; /* of review_users.by_hash */
    struct belfry_list order;       /* of review_users.order */
    struct token_hash hash;
    struct review_known known; /* its texts are in `text` */
    size_t bytes;
    char text[];
};

struct review_users {
    /* fixed at creation */
    uint64_t period_ms;
    size_t bytes_max;
    /* owner */
    struct belfry_map by_hash;
    struct belfry_list order; /* as they were kept */
    size_t n, bytes;
    BELFRY_OWNER;
};

static struct token_hash hash_of(struct belfry_bytes token)
{
    struct token_hash hash;
    SHA256((const unsigned char *)token.data, token.len, hash.bytes);
    return hash;
}

static uint64_t bucket_of(const struct token_hash *hash)
{
    uint64_t bucket;
    memcpy(&bucket, hash->bytes, sizeof(bucket));
    return bucket;
}

static struct known_token *review_users_get(const struct review_users *users, const struct token_hash *hash)
{
    struct belfry_map_node *node = belfry_map_first(&users->by_hash, bucket_of(hash));
    for (; node != NULL; node = belfry_map_next(node)) {
        struct known_token *token = belfry_container(node, struct known_token, by_hash);
        if (memcmp(token->hash.bytes, hash->bytes, sizeof(hash->bytes)) == 0)
            return token;
    }
    return NULL;
}

static void review_users_drop(struct review_users *users, struct known_token *token)
{
    belfry_map_remove(&users->by_hash, &token->by_hash);
    belfry_list_remove(&token->order);
    users->n--;
    users->bytes -= token->bytes;
    free(token);
}

static void review_users_drop_old(struct review_users *users, uint64_t now)
{
    while (!belfry_list_empty(&users->order)) {
        struct known_token *oldest = belfry_container(users->order.next, struct known_token, order);
        bool is_old = oldest->known.since_ms + users->period_ms <= now;
        if (!is_old && users->bytes <= users->bytes_max)
            return;
        review_users_drop(users, oldest);
    }
}

void review_users_keep(struct review_users *users, struct belfry_bytes token, const struct review_user *user,
                       uint64_t since_ms, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(users);
    struct belfry_bytes spec = {0}, name = {0};
    struct token_hash hash = hash_of(token);
    struct known_token *before = review_users_get(users, &hash);
    if (user != NULL) {
        spec = belfry_buf_bytes(&user->spec);
        name = belfry_buf_bytes(&user->name);
    }
    if (before != NULL)
        review_users_drop(users, before);
    size_t bytes = sizeof(struct known_token) + spec.len + name.len;
    struct known_token *known = bytes <= users->bytes_max ? malloc(bytes) : NULL;
    if (known != NULL) {
        char *to = known->text;
        *known = (struct known_token){.hash = hash, .bytes = bytes};
        known->known = (struct review_known){.is_bad = user == NULL, .since_ms = since_ms};
        known->known.spec = belfry_pack(&to, spec);
        known->known.name = belfry_pack(&to, name);
        belfry_list_init(&known->order);
        belfry_list_append(&users->order, &known->order);
        belfry_map_add(&users->by_hash, bucket_of(&hash), &known->by_hash);
        users->n++;
        users->bytes += bytes;
    }
    review_users_drop_old(users, now_ms);
}

bool review_users_find(const struct review_users *users, struct belfry_bytes token, uint64_t within_ms, uint64_t now_ms,
                       struct review_known *out)
{
    BELFRY_OWNER_CHECK(users);
    struct token_hash hash = hash_of(token);
    const struct known_token *known = review_users_get(users, &hash);
    if (known == NULL)
        return false;
    uint64_t age = now_ms - known->known.since_ms, most = within_ms;
    if (known->known.is_bad && most > REVIEW_BAD_MS)
        most = REVIEW_BAD_MS;
    if (age > most)
        return false;
    *out = known->known;
    return true;
}

enum belfry_err review_users_create(uint64_t period_ms, size_t bytes_max, struct review_users **out)
{
    struct review_users *users = calloc(1, sizeof(*users));
    if (users == NULL)
        return BELFRY_ERR_NOMEM;
    users->period_ms = period_ms;
    users->bytes_max = bytes_max;
    belfry_map_init(&users->by_hash);
    belfry_list_init(&users->order);
    BELFRY_OWNER_INIT(users);
    *out = users;
    return BELFRY_OK;
}

void review_users_destroy(struct review_users *users)
{
    if (users == NULL)
        return;
    BELFRY_OWNER_CHECK(users);
    while (!belfry_list_empty(&users->order))
        review_users_drop(users, belfry_container(users->order.next, struct known_token, order));
    belfry_map_fini(&users->by_hash);
    free(users);
}

size_t review_users_count(const struct review_users *users)
{
    return users->n;
}

size_t review_users_bytes(const struct review_users *users)
{
    return users->bytes;
}
