/* src/cli/verify/verify_reference.c */
#include "cli/verify/verify_reference.h"

#include <inttypes.h>
#include <stdio.h>

static void fail(struct verify_reference *reference, int err, const char *why)
{
    verify_env_fail(reference->env, "reference", err, why);
}

static void begin(struct verify_reference *reference, int64_t from);

static void on_end(struct verify_reference *reference, const struct belfry_batch *batch)
{
    switch (batch->err) {
    case BELFRY_ERR_COMPACTED:
        if (batch->compact_rev > reference->env->compacted)
            reference->env->compacted = batch->compact_rev;
        /* etcd before 3.5.18 may forget the deletes of the compacted revision itself */
        begin(reference, (batch->compact_rev > 0 ? batch->compact_rev : reference->revision) + 1);
        break;
    case BELFRY_ERR_REWOUND:
        reference->n_rewinds++;
        reference->env->compacted = 0;
        reference->state = VERIFY_ASKING;
        break;
    case BELFRY_ERR_CANCELED: /* the session is being closed */
        break;
    default:
        fail(reference, batch->err, batch->why);
    }
}

static void on_changes(struct verify_reference *reference, const struct belfry_batch *batch)
{
    struct judge_rev *rev;
    enum belfry_err err = verify_rev_of_batch(batch, &rev);
    if (err == BELFRY_OK)
        err = verify_judge_reference(reference->env->judge, rev);
    if (err != BELFRY_OK)
        fail(reference, err, NULL);
}

static enum belfry_next on_batch(struct belfry_watch *watch, const struct belfry_batch *batch, void *user)
{
    struct verify_reference *reference = user;
    (void)watch;
    switch (batch->kind) {
    case BELFRY_CHANGES:
        on_changes(reference, batch);
        break;
    case BELFRY_PROGRESS:
        verify_judge_reference_at(reference->env->judge, batch->rev);
        break;
    case BELFRY_END:
        on_end(reference, batch);
        break;
    case BELFRY_STATE:
    case BELFRY_SYNCED:
    case BELFRY_CREATED:
    case BELFRY_LINK:
        break;
    }
    return reference->env->err == BELFRY_OK ? BELFRY_MORE : BELFRY_STOP;
}

static void open_watch(struct verify_reference *reference, int64_t from)
{
    struct belfry_opts *opts = NULL;
    char rev[24];
    snprintf(rev, sizeof(rev), "%" PRId64, from);
    int err = belfry_opts_set(&opts, "rev", rev);
    if (err == BELFRY_OK)
        err = belfry_opts_set(&opts, "prev-kv", NULL);
    if (err == BELFRY_OK)
        err = belfry_opts_set(&opts, "progress-notify", NULL);
    if (err == BELFRY_OK)
        err = belfry_watch_open(reference->b, reference->env->range, opts, on_batch, reference, NULL);
    belfry_opts_free(opts);
    if (err != BELFRY_OK)
        fail(reference, err, NULL);
}

static void begin(struct verify_reference *reference, int64_t from)
{
    verify_judge_begin(reference->env->judge, from);
    open_watch(reference, from);
}

static void on_first(struct verify_reference *reference)
{
    int64_t from = reference->revision - reference->env->history + 1;
    bool rewound = reference->n_rewinds > 0; /* what was there before is unknown now */
    if (reference->first_revision == 0)
        reference->first_revision = reference->revision;
    reference->state = VERIFY_FOLLOWING;
    begin(reference, rewound ? reference->revision + 1 : from > 1 ? from : 1);
}

static void on_revision(const struct belfry_reply *reply, void *user)
{
    struct verify_reference *reference = user;
    reference->under_way = false;
    if (reply->err != BELFRY_OK) {
        if (reference->first_revision == 0)
            fail(reference, reply->err, reply->why);
        return; /* the next turn asks again, in a second */
    }
    int64_t now_us = verify_now_us();
    reference->silent_us = verify_reference_silence(reference, now_us);
    reference->answered_us = now_us;
    bool back = reply->header.revision < verify_reference_newest(reference); /* rewound: the watch will report it */
    reference->revision = reply->header.revision;
    reference->env->cluster_id = reply->header.cluster_id;
    if (reference->state == VERIFY_ASKING)
        on_first(reference);
    else if (!back)
        verify_judge_cluster_at(reference->env->judge, reference->revision, reference->asked_us);
}

/* Can the revision before an event whose previous value a watcher lacks still be read? */
static void on_prev(const struct belfry_reply *reply, void *user)
{
    struct verify_reference *reference = user;
    enum verify_compacted answer = VERIFY_NOBODY_KNOWS;
    if (reply->err == BELFRY_OK)
        answer = VERIFY_READABLE;
    else if (reply->err == BELFRY_ERR_COMPACTED)
        answer = VERIFY_COMPACTED;
    verify_judge_answer_prev(reference->env->judge, answer);
}

static int ask(struct verify_reference *reference)
{
    int64_t prev = reference->state == VERIFY_FOLLOWING ? verify_judge_ask_prev(reference->env->judge) : 0;
    int err = belfry_get(reference->b, verify_env_key(reference->env), NULL, on_revision, reference, NULL);
    if (err == BELFRY_OK && prev > 0)
        err = verify_reference_probe(reference, prev - 1, on_prev, reference);
    if (err == BELFRY_OK && reference->state == VERIFY_FOLLOWING)
        err = belfry_request_progress(reference->b);
    return err;
}

void verify_reference_turn(struct verify_reference *reference, int64_t now_us)
{
    if (reference->under_way || (reference->asked_us != 0 && now_us - reference->asked_us < SECOND_US))
        return;
    reference->asked_us = now_us;
    reference->under_way = true;
    int err = ask(reference);
    if (err != BELFRY_OK)
        fail(reference, err, NULL);
}

bool verify_reference_answers(const struct verify_reference *reference, int64_t now_us)
{
    int64_t half_us = reference->env->max_lag_us / 2;
    int64_t limit_us = half_us > SECOND_US * 3 / 2 ? half_us : SECOND_US * 3 / 2; /* it is asked every second */
    return now_us - reference->answered_us <= (limit_us < VERIFY_SILENT_US ? limit_us : VERIFY_SILENT_US);
}

int64_t verify_reference_silence(const struct verify_reference *reference, int64_t now_us)
{
    int64_t silent_us = reference->answered_us != 0 ? now_us - reference->answered_us : 0;
    return silent_us > reference->silent_us ? silent_us : reference->silent_us;
}

int64_t verify_reference_newest(const struct verify_reference *reference)
{
    int64_t head = verify_judge_head(reference->env->judge);
    return head > reference->revision ? head : reference->revision;
}

int verify_reference_probe(struct verify_reference *reference, int64_t rev, belfry_reply_fn fn, void *user)
{
    struct belfry_opts *opts = NULL;
    char text[24];
    snprintf(text, sizeof(text), "%" PRId64, rev);
    int err = belfry_opts_set(&opts, "rev", text);
    if (err == BELFRY_OK)
        err = belfry_get(reference->b, verify_env_key(reference->env), opts, fn, user, NULL);
    belfry_opts_free(opts);
    return err;
}
