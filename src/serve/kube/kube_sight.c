/* src/serve/kube/kube_sight.c */
#include "serve/kube/kube_sight.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/owner.h"
#include "base/pack.h"
#include "core/key_range.h"

/* The part of a catalog that a client sees which may read these guards. */
struct kept {
    const struct kube_catalog *of; /* a reference to the whole one; NULL: the place is free */
    bool *guards;                  /* owned; kube_catalog_guards(of) of them */
    struct kube_catalog *part;     /* a reference */
};

struct kube_sight {
    struct permit *permit;
    struct kept kept[KUBE_SIGHT_KEPT];
    size_t oldest;
    BELFRY_OWNER;
};

/* One guard that is being asked about. */
struct question {
    struct kube_sight_asker *asker;
    struct permit_question *asked; /* NULL: free */
    size_t guard;
};

struct kube_sight_asker {
    /* fixed */
    struct kube_sight *sight;
    const struct kube_catalog *catalog; /* a reference */
    struct identity who;                /* in text */
    kube_sight_fn fn;
    void *user;
    size_t n; /* questions in all: one for each guard, one if there is none */
    /* owner */
    struct question questions[KUBE_SIGHT_ASKS];
    size_t next; /* the first that was not asked yet */
    size_t n_answered;
    size_t bytes; /* of it */
    bool seen[];  /* n of them; the text follows */
};

/* ---- kept catalogs ---- */

static void drop_kept(struct kept *kept)
{
    kube_catalog_unref(kept->of);
    kube_catalog_unref(kept->part);
    free(kept->guards);
    *kept = (struct kept){0};
}

void kube_sight_forget(struct kube_sight *sight)
{
    BELFRY_OWNER_CHECK(sight);
    for (size_t i = 0; i < KUBE_SIGHT_KEPT; i++)
        drop_kept(&sight->kept[i]);
}

static const struct kept *find_kept(const struct kube_sight *sight, const struct kube_sight_asker *asker)
{
    for (size_t i = 0; i < KUBE_SIGHT_KEPT; i++) {
        const struct kept *kept = &sight->kept[i];
        if (kept->of == asker->catalog && memcmp(kept->guards, asker->seen, asker->n * sizeof(bool)) == 0)
            return kept;
    }
    return NULL;
}

static enum belfry_err kube_sight_keep(struct kube_sight *sight, const struct kube_sight_asker *asker,
                                       const struct kept **out)
{
    struct kept made = {.guards = calloc(asker->n, sizeof(bool))};
    if (made.guards == NULL)
        return BELFRY_ERR_NOMEM;
    memcpy(made.guards, asker->seen, asker->n * sizeof(bool));
    enum belfry_err err = kube_catalog_part(asker->catalog, asker->seen, &made.part);
    if (err != BELFRY_OK) {
        free(made.guards);
        return err;
    }
    struct kept *at = &sight->kept[sight->oldest];
    sight->oldest = (sight->oldest + 1) % KUBE_SIGHT_KEPT;
    drop_kept(at);
    made.of = kube_catalog_ref(asker->catalog);
    *at = made;
    *out = at;
    return BELFRY_OK;
}

/* ---- answers ---- */

static void free_asker(struct kube_sight_asker *asker)
{
    for (size_t i = 0; i < KUBE_SIGHT_ASKS; i++) {
        if (asker->questions[i].asked != NULL)
            permit_cancel(asker->questions[i].asked);
    }
    kube_catalog_unref(asker->catalog);
    explicit_bzero(asker->seen, asker->bytes - sizeof(*asker));
    free(asker);
}

/* The catalog is referenced during the call, because the kept one may be dropped meanwhile. */
static void kube_sight_answer(struct kube_sight_asker *asker, enum kube_sight_verdict verdict,
                              const struct kube_catalog *seen, const char *why)
{
    kube_sight_fn fn = asker->fn;
    void *user = asker->user;
    const struct kube_catalog *held = seen == NULL ? NULL : kube_catalog_ref(seen);
    free_asker(asker);
    fn(verdict, held, why, user);
    kube_catalog_unref(held);
}

/* Every guard has its answer. */
static void kube_sight_conclude(struct kube_sight_asker *asker)
{
    size_t n_guards = kube_catalog_guards(asker->catalog), n_seen = 0;
    for (size_t i = 0; i < n_guards; i++)
        n_seen += asker->seen[i];
    if (n_seen == n_guards) {
        kube_sight_answer(asker, KUBE_SIGHT_SEES, asker->catalog, "");
        return;
    }
    if (n_seen == 0) {
        kube_sight_answer(asker, KUBE_SIGHT_NOTHING, NULL, "");
        return;
    }
    const struct kept *kept = find_kept(asker->sight, asker);
    if (kept == NULL && kube_sight_keep(asker->sight, asker, &kept) != BELFRY_OK)
        kube_sight_answer(asker, KUBE_SIGHT_BUSY, NULL, "");
    else
        kube_sight_answer(asker, KUBE_SIGHT_SEES, kept->part, "");
}

static enum belfry_err ask_more(struct kube_sight_asker *asker, uint64_t now_ms);

static void on_sight_verdict(enum permit_verdict verdict, const char *reason, void *user)
{
    struct question *question = user;
    struct kube_sight_asker *asker = question->asker;
    question->asked = NULL;
    if (verdict == PERMIT_UNAVAILABLE) {
        kube_sight_answer(asker, KUBE_SIGHT_UNAVAILABLE, NULL, reason);
        return;
    }
    if (verdict == PERMIT_REFUSED && permit_is_about_token(reason)) {
        kube_sight_answer(asker, KUBE_SIGHT_NO_TOKEN, NULL, reason);
        return;
    }
    asker->seen[question->guard] = verdict == PERMIT_GRANTED;
    if (++asker->n_answered == asker->n)
        kube_sight_conclude(asker);
    else if (ask_more(asker, belfry_clock_ms()) != BELFRY_OK)
        kube_sight_answer(asker, KUBE_SIGHT_BUSY, NULL, "");
}

/* ---- questions ---- */

static enum belfry_err ask_one(struct question *question, uint64_t now_ms)
{
    struct kube_sight_asker *asker = question->asker;
    bool has_guard = question->guard < kube_catalog_guards(asker->catalog);
    struct belfry_bytes guard = belfry_bytes_str(has_guard ? kube_catalog_guard(asker->catalog, question->guard) : "");
    struct belfry_buf end;
    belfry_buf_init(&end);
    enum belfry_err err = has_guard ? range_prefix_end(guard, &end) : BELFRY_OK;
    if (err == BELFRY_OK)
        err = permit_ask(asker->sight->permit, &asker->who, guard, belfry_buf_bytes(&end), now_ms, on_sight_verdict,
                         question, &question->asked);
    belfry_buf_fini(&end);
    return err;
}

static enum belfry_err ask_more(struct kube_sight_asker *asker, uint64_t now_ms)
{
    enum belfry_err err = BELFRY_OK;
    for (size_t i = 0; i < KUBE_SIGHT_ASKS && asker->next < asker->n && err == BELFRY_OK; i++) {
        struct question *question = &asker->questions[i];
        if (question->asked != NULL)
            continue;
        question->guard = asker->next++;
        err = ask_one(question, now_ms);
    }
    return err;
}

/* ---- interface ---- */

enum belfry_err kube_sight_create(struct permit *permit, struct kube_sight **out)
{
    struct kube_sight *sight = calloc(1, sizeof(*sight));
    if (sight == NULL)
        return BELFRY_ERR_NOMEM;
    sight->permit = permit;
    BELFRY_OWNER_INIT(sight);
    *out = sight;
    return BELFRY_OK;
}

void kube_sight_destroy(struct kube_sight *sight)
{
    if (sight == NULL)
        return;
    BELFRY_OWNER_CHECK(sight);
    kube_sight_forget(sight);
    free(sight);
}

static size_t n_questions(const struct kube_catalog *catalog)
{
    size_t n = kube_catalog_guards(catalog);
    return n > 0 ? n : 1;
}

size_t kube_sight_bytes(const struct kube_catalog *catalog, const struct identity *who)
{
    return sizeof(struct kube_sight_asker) + n_questions(catalog) * sizeof(bool) + who->text.len;
}

enum belfry_err kube_sight_ask(struct kube_sight *sight, const struct kube_catalog *catalog, const struct identity *who,
                               uint64_t now_ms, kube_sight_fn fn, void *user, struct kube_sight_asker **out)
{
    BELFRY_OWNER_CHECK(sight);
    size_t bytes = kube_sight_bytes(catalog, who);
    struct kube_sight_asker *asker = calloc(1, bytes);
    if (asker == NULL)
        return BELFRY_ERR_NOMEM;
    *asker =
        (struct kube_sight_asker){.sight = sight, .fn = fn, .user = user, .n = n_questions(catalog), .bytes = bytes};
    asker->catalog = kube_catalog_ref(catalog);
    char *to = (char *)&asker->seen[asker->n];
    asker->who = identity_pack(&to, who);
    for (size_t i = 0; i < KUBE_SIGHT_ASKS; i++)
        asker->questions[i].asker = asker;
    enum belfry_err err = ask_more(asker, now_ms);
    if (err != BELFRY_OK) {
        free_asker(asker);
        return err;
    }
    *out = asker;
    return BELFRY_OK;
}

void kube_sight_cancel(struct kube_sight_asker *asker)
{
    free_asker(asker);
}
