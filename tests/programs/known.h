/* tests/programs/known.h
 *
 * known: what one handler of an informer has been told, and whether the next thing it is told can be true.
 *
 * The rules are those of belfry/informer.h, and nothing else of the library is known here: what is told leads from what
 * was known to the store as it is, change by change. Every object is held as long as it is known, so that a library
 * that changes or frees one that is held is found out as well.
 *
 * On the public API alone; included by programs and suites that have handlers.
 */
#ifndef BELFRY_TESTS_KNOWN_H
#define BELFRY_TESTS_KNOWN_H

#include <search.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <belfry/informer.h>

struct known {
    void *tree; /* of struct belfry_object, by key; each held */
    size_t n;
    bool synced; /* it has been told everything once: from then on it has what the store has */
    bool ended;  /* nothing may be told any more */
};

static inline bool same_bytes(struct belfry_bytes a, struct belfry_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static inline bool same_object(const struct belfry_object *a, const struct belfry_object *b)
{
    if (a == NULL || b == NULL || a == b)
        return a == b;
    return same_bytes(belfry_object_key(a), belfry_object_key(b)) && belfry_object_rev(a) == belfry_object_rev(b) &&
           same_bytes(belfry_object_version(a), belfry_object_version(b)) &&
           same_bytes(belfry_object_value(a), belfry_object_value(b));
}

static inline int known_order(const void *left, const void *right)
{
    struct belfry_bytes a = belfry_object_key(left), b = belfry_object_key(right);
    size_t both = a.len < b.len ? a.len : b.len;
    int order = both > 0 ? memcmp(a.data, b.data, both) : 0;
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static inline const struct belfry_object *known_find(const struct known *known, const struct belfry_object *like)
{
    void *const *node = tfind(like, &known->tree, known_order);
    return node == NULL ? NULL : *node;
}

static inline void known_drop(struct known *known, const struct belfry_object *object)
{
    tdelete(object, &known->tree, known_order);
    belfry_object_release(object);
    known->n--;
}

static inline bool known_keep(struct known *known, const struct belfry_object *object)
{
    const struct belfry_object *before = known_find(known, object);
    if (before != NULL)
        known_drop(known, before);
    if (tsearch(belfry_object_hold(object), &known->tree, known_order) == NULL) {
        belfry_object_release(object);
        return false;
    }
    known->n++;
    return true;
}

static inline const char *known_judge_update(const struct belfry_news *news, const struct belfry_object *before)
{
    if (before == NULL)
        return "UPDATED of what was not known";
    if (news->old == NULL || !same_object(news->old, before))
        return "UPDATED whose old is not what was known";
    if (news->resync)
        return same_object(news->object, news->old) ? NULL : "a resync that changes something";
    if (same_object(news->object, news->old))
        return "UPDATED that changes nothing";
    return belfry_object_rev(news->object) < belfry_object_rev(news->old) ? "UPDATED to something older" : NULL;
}

static inline const char *known_judge_change(struct known *known, const struct belfry_news *news)
{
    if (news->object == NULL)
        return "a change without its object";
    const struct belfry_object *before = known_find(known, news->object);
    const char *wrong = NULL;
    if (news->kind == BELFRY_NEWS_UPDATED)
        wrong = known_judge_update(news, before);
    else if (news->old != NULL)
        wrong = "old is for UPDATED only";
    else if (news->kind == BELFRY_NEWS_ADDED && before != NULL)
        wrong = "ADDED of what was known";
    else if (news->kind == BELFRY_NEWS_REMOVED && before == NULL)
        wrong = "REMOVED of what was not known";
    if (news->kind != BELFRY_NEWS_REMOVED)
        return known_keep(known, news->object) ? wrong : "the program is out of memory";
    if (before != NULL)
        known_drop(known, before);
    return wrong;
}

/* The store was moved before anybody was told, and is not moved on before everybody was. */
static inline const char *known_judge_store(const struct known *known, const struct belfry_informer *informer,
                                            const struct belfry_news *news)
{
    const struct belfry_object *stored = belfry_informer_get(informer, belfry_object_key(news->object));
    if (news->kind == BELFRY_NEWS_REMOVED && stored != NULL)
        return "REMOVED, but it is in the store";
    if (news->kind != BELFRY_NEWS_REMOVED && !same_object(stored, news->object))
        return "the store has something else than what is told";
    if (known->synced && belfry_informer_count(informer) != known->n)
        return "the store has more or less than was told";
    return NULL;
}

/* All of it, one by one. */
static inline const char *known_judge_all(const struct known *known, const struct belfry_informer *informer)
{
    const struct belfry_object *at = NULL, *last = NULL;
    size_t n = 0;
    while ((at = belfry_informer_next(informer, (struct belfry_bytes){NULL, 0}, last)) != NULL) {
        if (last != NULL && known_order(last, at) >= 0)
            return "the store is not in the order of its keys";
        if (!same_object(known_find(known, at), at))
            return "the store has what was not told";
        last = at;
        n++;
    }
    return n == known->n && n == belfry_informer_count(informer) ? NULL : "what was told is not in the store";
}

/* What is wrong with the news; NULL: nothing. */
static inline const char *known_judge(struct known *known, const struct belfry_informer *informer,
                                      const struct belfry_news *news)
{
    if (known->ended)
        return "told after its end";
    const char *wrong = NULL;
    switch (news->kind) {
    case BELFRY_NEWS_ADDED:
    case BELFRY_NEWS_UPDATED:
    case BELFRY_NEWS_REMOVED:
        wrong = known_judge_change(known, news);
        return wrong != NULL ? wrong : known_judge_store(known, informer, news);
    case BELFRY_NEWS_SYNCED:
        known->synced = true;
        return belfry_informer_synced(informer) ? known_judge_all(known, informer) : "SYNCED, but the informer is not";
    case BELFRY_NEWS_LINK:
        return news->why != NULL ? NULL : "LINK without a sentence";
    case BELFRY_NEWS_END:
        known->ended = true;
        return news->why != NULL ? NULL : "END without a sentence";
    }
    return "news of no kind";
}

static inline void known_release(void *object)
{
    belfry_object_release(object);
}

static inline void known_free(struct known *known)
{
    tdestroy(known->tree, known_release);
    known->tree = NULL;
    known->n = 0;
}

#endif
