/* src/serve/rights/answers.c */
#include "serve/rights/answers.h"

#include <openssl/sha.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/map.h"

struct tag {
    unsigned char bytes[SHA256_DIGEST_LENGTH];
};

struct answer {
    struct belfry_map_node node; /* of answers.by_tag */
    struct belfry_list order;    /* of answers.order */
    struct tag tag;
    uint64_t since_ms;
};

struct answers {
    /* fixed at creation */
    uint64_t period_ms;
    pthread_mutex_t mu;
    /* under mu */
    struct belfry_map by_tag;
    struct belfry_list order; /* as they were kept: about by age */
    size_t n;
};

/* ---- tags ---- */

/* The tag of (token, range) is a hash of the token's own and the range, so that a long token is hashed once. */
struct tag_text {
    unsigned char kind;
    unsigned char secret[SHA256_DIGEST_LENGTH];
    unsigned char key_len[4];
};

static struct tag_text tag_text_of(const struct rights_who *who)
{
    struct tag_text text = {.kind = (unsigned char)who->kind};
    SHA256((const unsigned char *)who->secret.data, who->secret.len, text.secret);
    return text;
}

static enum belfry_err tag_of(struct tag_text *text, const struct rights_range *range, struct belfry_buf *room,
                              struct tag *out)
{
    for (int i = 0; i < 4; i++)
        text->key_len[i] = (unsigned char)(range->key.len >> (8 * i));
    belfry_buf_clear(room);
    enum belfry_err err = belfry_buf_append(room, text, sizeof(*text));
    if (err == BELFRY_OK)
        err = belfry_buf_append(room, range->key.data, range->key.len);
    if (err == BELFRY_OK && range->end.len > 0)
        err = belfry_buf_append(room, range->end.data, range->end.len);
    struct belfry_bytes bytes = belfry_buf_bytes(room);
    if (err == BELFRY_OK)
        SHA256((const unsigned char *)bytes.data, bytes.len, out->bytes);
    return err;
}

/* The tags of its ranges. Errors: BELFRY_ERR_NOMEM. */
static enum belfry_err tags_of(const struct rights_question *question, struct tag out[RIGHTS_BATCH])
{
    struct tag_text text = tag_text_of(&question->who);
    struct belfry_buf room;
    enum belfry_err err = BELFRY_OK;
    size_t n = 0;
    belfry_buf_init(&room);
    for (const struct rights_range *range = NULL;
         err == BELFRY_OK && (range = rights_question_range(question, range)) != NULL;)
        err = tag_of(&text, range, &room, &out[n++]);
    belfry_buf_fini(&room);
    return err;
}

static enum belfry_err tag_of_one(const struct rights_who *who, const struct rights_range *range, struct tag *out)
{
    struct tag_text text = tag_text_of(who);
    struct belfry_buf room;
    belfry_buf_init(&room);
    enum belfry_err err = tag_of(&text, range, &room, out);
    belfry_buf_fini(&room);
    return err;
}

static uint64_t hash_of(const struct tag *tag)
{
    uint64_t hash;
    memcpy(&hash, tag->bytes, sizeof(hash));
    return hash;
}

/* ---- answers ---- */

static struct answer *answers_get(const struct answers *answers, const struct tag *tag)
{
    struct belfry_map_node *node = belfry_map_first(&answers->by_tag, hash_of(tag));
    for (; node != NULL; node = belfry_map_next(node)) {
        struct answer *answer = belfry_container(node, struct answer, node);
        if (memcmp(answer->tag.bytes, tag->bytes, sizeof(tag->bytes)) == 0)
            return answer;
    }
    return NULL;
}

static void answers_drop(struct answers *answers, struct answer *answer)
{
    belfry_map_remove(&answers->by_tag, &answer->node);
    belfry_list_remove(&answer->order);
    answers->n--;
    free(answer);
}

static void answers_drop_old(struct answers *answers, uint64_t now)
{
    while (!belfry_list_empty(&answers->order)) {
        struct answer *oldest = belfry_container(answers->order.next, struct answer, order);
        if (answers->n < ANSWERS_MAX && now < oldest->since_ms + answers->period_ms)
            return;
        answers_drop(answers, oldest);
    }
}

static void answers_put(struct answers *answers, const struct tag *tag, uint64_t since_ms)
{
    struct answer *answer = answers_get(answers, tag);
    if (answer == NULL) {
        answer = malloc(sizeof(*answer));
        if (answer == NULL)
            return;
        *answer = (struct answer){.tag = *tag, .since_ms = since_ms};
        belfry_list_init(&answer->order);
        belfry_map_add(&answers->by_tag, hash_of(tag), &answer->node);
        answers->n++;
    }
    if (since_ms > answer->since_ms)
        answer->since_ms = since_ms;
    belfry_list_remove(&answer->order);
    belfry_list_append(&answers->order, &answer->order);
}

void answers_keep(struct answers *answers, const struct rights_question *question, uint64_t since_ms, uint64_t now_ms)
{
    struct tag tags[RIGHTS_BATCH];
    if (tags_of(question, tags) != BELFRY_OK)
        return;
    pthread_mutex_lock(&answers->mu);
    for (size_t i = 0; i < question->n; i++) {
        answers_drop_old(answers, now_ms);
        answers_put(answers, &tags[i], since_ms);
    }
    pthread_mutex_unlock(&answers->mu);
}

bool answers_find(struct answers *answers, const struct rights_question *question, uint64_t now_ms,
                  uint64_t *out_since_ms)
{
    struct tag tags[RIGHTS_BATCH];
    uint64_t since_ms = now_ms;
    if (tags_of(question, tags) != BELFRY_OK)
        return false;
    pthread_mutex_lock(&answers->mu);
    bool found = true;
    for (size_t i = 0; i < question->n && found; i++) {
        const struct answer *answer = answers_get(answers, &tags[i]);
        found = answer != NULL && now_ms < answer->since_ms + question->within_ms;
        if (found)
            since_ms = belfry_min_time(since_ms, answer->since_ms);
    }
    pthread_mutex_unlock(&answers->mu);
    *out_since_ms = since_ms;
    return found;
}

void answers_keep_one(struct answers *answers, const struct rights_who *who, const struct rights_range *range,
                      uint64_t since_ms, uint64_t now_ms)
{
    struct tag tag;
    if (tag_of_one(who, range, &tag) != BELFRY_OK)
        return;
    pthread_mutex_lock(&answers->mu);
    answers_drop_old(answers, now_ms);
    answers_put(answers, &tag, since_ms);
    pthread_mutex_unlock(&answers->mu);
}

bool answers_find_one(struct answers *answers, const struct rights_who *who, const struct rights_range *range,
                      uint64_t within_ms, uint64_t now_ms, uint64_t *out_since_ms)
{
    struct tag tag;
    if (tag_of_one(who, range, &tag) != BELFRY_OK)
        return false;
    pthread_mutex_lock(&answers->mu);
    const struct answer *answer = answers_get(answers, &tag);
    bool found = answer != NULL && now_ms < answer->since_ms + within_ms;
    if (found)
        *out_since_ms = answer->since_ms;
    pthread_mutex_unlock(&answers->mu);
    return found;
}

size_t answers_count(struct answers *answers)
{
    pthread_mutex_lock(&answers->mu);
    size_t n = answers->n;
    pthread_mutex_unlock(&answers->mu);
    return n;
}

/* ---- create and destroy ---- */

enum belfry_err answers_create(uint64_t period_ms, struct answers **out)
{
    struct answers *answers = calloc(1, sizeof(*answers));
    if (answers == NULL)
        return BELFRY_ERR_NOMEM;
    answers->period_ms = period_ms;
    belfry_map_init(&answers->by_tag);
    belfry_list_init(&answers->order);
    if (pthread_mutex_init(&answers->mu, NULL) != 0) {
        free(answers);
        return BELFRY_ERR_NOMEM;
    }
    *out = answers;
    return BELFRY_OK;
}

void answers_destroy(struct answers *answers)
{
    if (answers == NULL)
        return;
    while (!belfry_list_empty(&answers->order))
        answers_drop(answers, belfry_container(answers->order.next, struct answer, order));
    belfry_map_fini(&answers->by_tag);
    pthread_mutex_destroy(&answers->mu);
    free(answers);
}
