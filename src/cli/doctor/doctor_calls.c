/* src/cli/doctor/doctor_calls.c */
#include "cli/doctor/doctor_calls.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/opts.h"

#define MEMBER_TRIES 3

static void try_fail(struct doctor_try *try, int err, const char *why)
{
    try->err = (enum belfry_err)err;
    snprintf(try->why, sizeof(try->why), "%s", why != NULL && *why != '\0' ? why : belfry_strerror(err));
}

void doctor_open(const struct flags *flags, const char *endpoints, struct belfry **out, struct doctor_try *try)
{
    struct belfry_opts *opts = NULL;
    char why[FLAGS_WHY > DOCTOR_TEXT ? FLAGS_WHY : DOCTOR_TEXT] = "";
    *out = NULL;
    int err = opts_fill(flags, TAKER_OPEN, &opts, why);
    if (err == BELFRY_OK)
        err = belfry_open_why(endpoints, opts, out, why, sizeof(why));
    if (err != BELFRY_OK) {
        *out = NULL;
        try_fail(try, err, why);
    }
    belfry_opts_free(opts);
}

/* ---- one question at a time ---- */

/* A question that is out, and where its answer goes. */
struct question {
    struct belfry *b;
    struct doctor_try *try;
    uint64_t began_ns;
    int64_t count;                /* of a Range */
    struct doctor_member *member; /* of a Status; NULL: nobody wants it */
};

static void copy_status(const struct belfry_reply *reply, struct doctor_member *out)
{
    const struct belfry_status *status = reply->status;
    size_t used = 0;
    out->revision = reply->header.revision;
    snprintf(out->version, sizeof(out->version), "%s", status->version);
    out->leader = status->leader;
    out->errors[0] = '\0';
    for (const char *const *e = status->errors; e != NULL && *e != NULL && used < sizeof(out->errors); e++)
        used += (size_t)snprintf(out->errors + used, sizeof(out->errors) - used, "%s%s", used > 0 ? ", " : "", *e);
}

static void on_reply(const struct belfry_reply *reply, void *user)
{
    struct question *q = user;
    belfry_stop(q->b);
    q->try->took_us = (belfry_clock_ns() - q->began_ns) / 1000;
    if (reply->err != BELFRY_OK) {
        try_fail(q->try, reply->err, reply->why);
        return;
    }
    q->try->err = BELFRY_OK;
    q->count = reply->count;
    if (reply->status != NULL && q->member != NULL)
        copy_status(reply, q->member);
}

static void question_begin(struct question *q, struct doctor_try *try)
{
    *try = (struct doctor_try){.err = BELFRY_ERR_TIMEOUT, .why = "no answer in time"};
    q->try = try;
    q->began_ns = belfry_clock_ns();
}

/* The call has its own deadline: command-timeout. */
static void question_wait(struct question *q, int err)
{
    if (err == BELFRY_OK)
        err = belfry_run(q->b, -1);
    if (err != BELFRY_OK)
        try_fail(q->try, err, NULL);
}

static void ask_status(struct question *q, struct doctor_try *try)
{
    question_begin(q, try);
    question_wait(q, belfry_status(q->b, NULL, on_reply, q, NULL));
}

static void ask_range(struct question *q, struct belfry_range range, struct doctor_try *try)
{
    struct belfry_opts *opts = NULL;
    question_begin(q, try);
    int err = belfry_opts_set(&opts, "count-only", "true");
    if (err == BELFRY_OK)
        err = belfry_get(q->b, range, opts, on_reply, q, NULL);
    question_wait(q, err);
    belfry_opts_free(opts);
}

/* ---- a watch ---- */

static enum belfry_next on_batch(struct belfry_watch *watch, const struct belfry_batch *batch, void *user)
{
    struct question *q = user;
    (void)watch;
    if (batch->kind == BELFRY_LINK)
        return BELFRY_MORE;
    q->try->took_us = (belfry_clock_ns() - q->began_ns) / 1000;
    if (batch->kind == BELFRY_END)
        try_fail(q->try, batch->err, batch->why);
    else
        q->try->err = BELFRY_OK;
    belfry_stop(q->b);
    return batch->kind == BELFRY_END ? BELFRY_MORE : BELFRY_STOP;
}

/* Until the server has it. A watch goes on trying for ever, so there is a limit of time. */
static void ask_watch(struct question *q, struct belfry_range range, int timeout_ms, struct doctor_try *try)
{
    struct belfry_opts *opts = NULL;
    question_begin(q, try);
    int err = belfry_opts_set(&opts, "created-notify", "true");
    if (err == BELFRY_OK)
        err = belfry_watch_open(q->b, range, opts, on_batch, q, NULL);
    if (err == BELFRY_OK)
        err = belfry_run(q->b, timeout_ms);
    if (err != BELFRY_OK && err != BELFRY_ERR_TIMEOUT)
        try_fail(try, err, NULL);
    belfry_opts_free(opts);
}

/* ---- questions ---- */

void doctor_ask_client(const struct flags *flags, const char *endpoints, struct belfry_range range,
                       struct doctor_client *out)
{
    struct question q = {0};
    doctor_open(flags, endpoints, &q.b, &out->answer);
    if (q.b == NULL)
        return;
    if (out->asks_range) {
        ask_range(&q, range, &out->read);
        out->answer = out->read;
        out->count = q.count;
        if (out->read.err == BELFRY_OK)
            ask_watch(&q, range, (int)flags_ms(flags, FLAG_COMMAND_TIMEOUT), &out->watch);
    } else {
        ask_status(&q, &out->answer);
    }
    belfry_close(q.b);
}

/* The quickest answer counts: a busy moment is no slow member. After a failure there is no second try, because it has
 * taken its time already. */
void doctor_ask_member(const struct flags *flags, struct doctor_member *out)
{
    struct question q = {.member = out};
    doctor_open(flags, out->url, &q.b, &out->status);
    if (q.b == NULL)
        return;
    ask_status(&q, &out->status);
    for (int i = 1; i < MEMBER_TRIES && out->status.err == BELFRY_OK; i++) {
        struct doctor_try again;
        ask_status(&q, &again);
        if (again.err == BELFRY_OK && again.took_us < out->status.took_us)
            out->status = again;
    }
    belfry_close(q.b);
}
