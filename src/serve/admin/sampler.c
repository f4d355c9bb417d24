/* src/serve/admin/sampler.c */
#include "serve/admin/sampler.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/owner.h"
#include "serve/admin/live.h"
#include "serve/admin/numbers_document.h"

struct sampler {
    struct sampler_opts opts;
    struct hour *hour; /* owned */
    struct live live;
    struct question *question; /* under way; NULL: none */
    uint64_t publish_ms;       /* when open pages are due */
    uint64_t told_samples;     /* of the hour, that the pages know of */
    uint64_t told_lines;       /* of the log, likewise */
    struct belfry_buf message; /* empty between two of them */
    BELFRY_OWNER;
};

/* The numbers that are being asked for. */
struct question {
    struct sampler *sampler; /* NULL: gone */
};

static enum belfry_err write_event(struct belfry_buf *out, const char *name)
{
    char text[32];
    int len = snprintf(text, sizeof(text), "event: %s\ndata: ", name);
    return belfry_buf_append(out, text, (size_t)len);
}

/* The documents end with a newline, and an event with an empty line. */
static enum belfry_err write_message(struct sampler *sampler, const struct tier_numbers *numbers)
{
    struct belfry_buf *out = &sampler->message;
    enum belfry_err err = write_event(out, "numbers");
    if (err == BELFRY_OK)
        err = numbers_write(numbers, NUMBERS_SUMS, out);
    if (err == BELFRY_OK)
        err = belfry_buf_append(out, "\n", 1);
    if (err == BELFRY_OK)
        err = write_event(out, "tree");
    if (err == BELFRY_OK)
        err = tree_write_json(numbers, SAMPLER_PAGE_TIERS, out);
    if (err == BELFRY_OK)
        err = belfry_buf_append(out, "\n", 1);
    return err;
}

static enum belfry_err write_newest(struct sampler *sampler)
{
    struct belfry_buf *out = &sampler->message;
    enum belfry_err err = BELFRY_OK;
    if (hour_next(sampler->hour) > sampler->told_samples) {
        err = write_event(out, "hour");
        if (err == BELFRY_OK)
            err = hour_write_newest(sampler->hour, out);
        if (err == BELFRY_OK)
            err = belfry_buf_append(out, "\n\n", 2);
        sampler->told_samples = hour_next(sampler->hour);
    }
    uint64_t lines = sampler->opts.lines != NULL ? log_lines_next(sampler->opts.lines) : 0;
    if (err == BELFRY_OK && lines > sampler->told_lines) {
        char text[48];
        int len = snprintf(text, sizeof(text), "event: log\ndata: %" PRIu64 "\n\n", lines);
        err = belfry_buf_append(out, text, (size_t)len);
        sampler->told_lines = lines;
    }
    return err;
}

static void publish(struct sampler *sampler, const struct tier_numbers *numbers)
{
    enum belfry_err err = write_message(sampler, numbers);
    if (err == BELFRY_OK)
        err = write_newest(sampler);
    if (err == BELFRY_OK)
        live_send(&sampler->live, belfry_buf_bytes(&sampler->message));
    belfry_buf_fini(&sampler->message); /* without memory the pages miss one; they receive the next */
}

static void on_sample(const struct tier_numbers *numbers, void *user)
{
    struct question *question = user;
    struct sampler *sampler = question->sampler;
    free(question);
    if (sampler == NULL)
        return;
    sampler->question = NULL;
    if (hour_is_due(sampler->hour, numbers->now_ms))
        hour_add(sampler->hour, numbers);
    if (sampler->live.n > 0)
        publish(sampler, numbers);
}

void sampler_tick(struct sampler *sampler, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(sampler);
    bool pages_due = sampler->live.n > 0 && now_ms >= sampler->publish_ms;
    if (sampler->question != NULL || !(pages_due || hour_is_due(sampler->hour, now_ms)))
        return;
    struct question *question = malloc(sizeof(*question));
    if (question == NULL)
        return; /* the next tick tries again; so below */
    *question = (struct question){sampler};
    sampler->question = question;
    if (sampler->opts.sample(on_sample, question, sampler->opts.user) != BELFRY_OK) {
        sampler->question = NULL;
        free(question);
        return;
    }
    sampler->publish_ms = now_ms + SAMPLER_PUBLISH_MS;
}

/* ---- the whole ---- */

enum belfry_err sampler_create(const struct sampler_opts *opts, struct sampler **out)
{
    struct sampler *sampler = calloc(1, sizeof(*sampler));
    if (sampler == NULL)
        return BELFRY_ERR_NOMEM;
    sampler->opts = *opts;
    live_init(&sampler->live);
    BELFRY_OWNER_INIT(sampler);
    if (hour_create(&sampler->hour) != BELFRY_OK) {
        sampler_destroy(sampler);
        return BELFRY_ERR_NOMEM;
    }
    *out = sampler;
    return BELFRY_OK;
}

void sampler_destroy(struct sampler *sampler)
{
    if (sampler == NULL)
        return;
    BELFRY_OWNER_CHECK(sampler);
    if (sampler->question != NULL)
        sampler->question->sampler = NULL; /* its answer will come and free it */
    live_fini(&sampler->live);
    hour_destroy(sampler->hour);
    belfry_buf_fini(&sampler->message);
    free(sampler);
}

const struct hour *sampler_hour(const struct sampler *sampler)
{
    return sampler->hour;
}

bool sampler_open_page(struct sampler *sampler, struct exchange *x)
{
    BELFRY_OWNER_CHECK(sampler);
    if (!live_open(&sampler->live, x))
        return false;
    sampler->publish_ms = 0; /* at the next tick: until then it shows nothing */
    return true;
}
