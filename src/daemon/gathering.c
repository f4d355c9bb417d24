/* src/daemon/gathering.c */
#include "daemon/gathering.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/owner.h"

struct gatherer {
    struct gatherer_opts opts;
    struct belfry_list under_way; /* of gathering.node */
    size_t n;
    uv_timer_t *timer; /* owned by the loop from its closing on */
    bool closing;
    BELFRY_OWNER;
};

/* One part of the question, on its way to a thread and back. */
struct part {
    struct worker_thread_ask ask; /* first: its mail is the part's */
    struct gathering *gathering;
    struct ingest_thread_numbers ingest; /* ingest's part */
    bool back;
};

struct gathering {
    struct belfry_list node;
    struct gatherer *gatherer;
    uint64_t until_ms;
    size_t n_parts, n_out; /* the workers', then ingest's for numbers */
    bool told;
    admin_numbers_fn numbers_fn;
    admin_scans_fn scans_fn;
    admin_clients_fn clients_fn;
    void *fn_user;
    struct part parts[];
};

static void free_if_done(struct gatherer *gatherer)
{
    if (gatherer->closing && gatherer->n == 0)
        free(gatherer);
}

static void gathering_end(struct gathering *gathering)
{
    struct gatherer *gatherer = gathering->gatherer;
    for (size_t i = 0; i < gathering->n_parts; i++) {
        watchers_scan_destroy(gathering->parts[i].ask.scan);
        clients_scan_destroy(gathering->parts[i].ask.clients);
        free(gathering->parts[i].ask.numbers.below);
        free(gathering->parts[i].ingest.resources);
    }
    belfry_list_remove(&gathering->node);
    gatherer->n--;
    free(gathering);
    free_if_done(gatherer);
}

/* ---- telling ---- */

static void tell_numbers(struct gathering *gathering)
{
    size_t n_workers = gathering->gatherer->opts.n_workers;
    struct worker_numbers *workers = calloc(n_workers, sizeof(*workers));
    struct tier_numbers numbers = {.n_workers = workers == NULL ? 0 : n_workers, .workers = workers};
    for (size_t i = 0; i < numbers.n_workers; i++) {
        if (gathering->parts[i].back)
            workers[i] = gathering->parts[i].ask.numbers;
    }
    const struct part *ingest = &gathering->parts[n_workers];
    numbers.upstream_answered = ingest->back && ingest->ask.numbers.answered;
    if (numbers.upstream_answered) {
        numbers.upstream = ingest->ingest.status;
        numbers.about = ingest->ingest.about;
        numbers.log_oldest = ingest->ingest.log_oldest;
        numbers.log_newest = ingest->ingest.status.revision;
        numbers.log_bytes = ingest->ingest.log_bytes;
        numbers.resources = ingest->ingest.resources;
        numbers.n_resources = ingest->ingest.n_resources;
    }
    gathering->gatherer->opts.finish(&numbers, gathering->gatherer->opts.user);
    gathering->numbers_fn(&numbers, gathering->fn_user);
    free(workers);
}

static void tell_scans(struct gathering *gathering)
{
    struct watchers_scan *scans[EVLOG_WORKERS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < gathering->n_parts; i++) {
        struct part *part = &gathering->parts[i];
        if (!part->back || part->ask.scan == NULL)
            continue;
        scans[n++] = part->ask.scan;
        part->ask.scan = NULL;
    }
    gathering->scans_fn(scans, n, gathering->fn_user);
}

static void tell_clients(struct gathering *gathering)
{
    struct clients_scan *scans[EVLOG_WORKERS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < gathering->n_parts; i++) {
        struct part *part = &gathering->parts[i];
        if (!part->back || part->ask.clients == NULL)
            continue;
        scans[n++] = part->ask.clients;
        part->ask.clients = NULL;
    }
    gathering->clients_fn(scans, n, gathering->fn_user);
}

static void gathering_tell(struct gathering *gathering)
{
    gathering->told = true;
    if (gathering->numbers_fn != NULL)
        tell_numbers(gathering);
    else if (gathering->clients_fn != NULL)
        tell_clients(gathering);
    else
        tell_scans(gathering);
}

static void on_back(struct mail *mail, void *owner)
{
    (void)owner; /* the same with and without a front: the memory is the front's thread's */
    struct part *part = belfry_container(mail, struct part, ask.mail);
    struct gathering *gathering = part->gathering;
    part->back = true;
    if (--gathering->n_out > 0)
        return;
    if (!gathering->told)
        gathering_tell(gathering);
    gathering_end(gathering);
}

static void gathering_on_timer(uv_timer_t *timer)
{
    struct gatherer *gatherer = timer->data;
    uint64_t now = belfry_clock_ms();
    belfry_list_each (node, &gatherer->under_way) {
        struct gathering *gathering = belfry_container(node, struct gathering, node);
        if (!gathering->told && gathering->until_ms <= now)
            gathering_tell(gathering);
    }
}

/* ---- asking ---- */

static enum belfry_err gathering_begin(struct gatherer *gatherer, size_t n_parts, struct gathering **out)
{
    if (gatherer->n >= GATHERINGS_MAX || gatherer->closing)
        return BELFRY_ERR_LIMIT;
    struct gathering *gathering = calloc(1, sizeof(*gathering) + n_parts * sizeof(struct part));
    if (gathering == NULL)
        return BELFRY_ERR_NOMEM;
    gathering->gatherer = gatherer;
    gathering->until_ms = belfry_clock_ms() + GATHERING_MS;
    gathering->n_parts = gathering->n_out = n_parts;
    for (size_t i = 0; i < n_parts; i++) {
        gathering->parts[i].gathering = gathering;
        gathering->parts[i].ask.back = on_back;
        gathering->parts[i].ask.to = gatherer->opts.front;
    }
    belfry_list_append(&gatherer->under_way, &gathering->node);
    gatherer->n++;
    *out = gathering;
    return BELFRY_OK;
}

static void open_status(struct mail *mail, void *owner)
{
    struct part *part = belfry_container(mail, struct part, ask.mail);
    if (owner != NULL) {
        part->gathering->gatherer->opts.parts->api->fill(owner, &part->ingest);
        part->ask.numbers.answered = true;
    }
    part->ask.mail.open = on_back;
    mailbox_post(part->ask.to, &part->ask.mail);
}

enum belfry_err gatherer_numbers(struct gatherer *gatherer, admin_numbers_fn fn, void *fn_user)
{
    BELFRY_OWNER_CHECK(gatherer);
    size_t n_workers = gatherer->opts.n_workers;
    struct gathering *gathering;
    enum belfry_err err = gathering_begin(gatherer, n_workers + 1, &gathering);
    if (err != BELFRY_OK)
        return err;
    gathering->numbers_fn = fn;
    gathering->fn_user = fn_user;
    for (size_t i = 0; i < n_workers; i++)
        worker_thread_count(gatherer->opts.workers[i], &gathering->parts[i].ask);
    gathering->parts[n_workers].ask.mail.open = open_status;
    gatherer->opts.parts->api->post(gatherer->opts.parts, &gathering->parts[n_workers].ask.mail);
    return BELFRY_OK;
}

enum belfry_err gatherer_scan(struct gatherer *gatherer, const struct watchers_query *query, admin_scans_fn fn,
                              void *fn_user)
{
    BELFRY_OWNER_CHECK(gatherer);
    struct gathering *gathering;
    enum belfry_err err = gathering_begin(gatherer, gatherer->opts.n_workers, &gathering);
    if (err != BELFRY_OK)
        return err;
    gathering->scans_fn = fn;
    gathering->fn_user = fn_user;
    gathering->until_ms += GATHERING_MS * 4; /* a million watchers are walked in short steps */
    for (size_t i = 0; i < gathering->n_parts; i++) {
        gathering->parts[i].ask.query = *query;
        worker_thread_scan(gatherer->opts.workers[i], &gathering->parts[i].ask);
    }
    return BELFRY_OK;
}

enum belfry_err gatherer_clients(struct gatherer *gatherer, const struct clients_query *query, admin_clients_fn fn,
                                 void *fn_user)
{
    BELFRY_OWNER_CHECK(gatherer);
    struct gathering *gathering;
    enum belfry_err err = gathering_begin(gatherer, gatherer->opts.n_workers, &gathering);
    if (err != BELFRY_OK)
        return err;
    gathering->clients_fn = fn;
    gathering->fn_user = fn_user;
    for (size_t i = 0; i < gathering->n_parts; i++) {
        gathering->parts[i].ask.clients_query = *query;
        worker_thread_clients(gatherer->opts.workers[i], &gathering->parts[i].ask);
    }
    return BELFRY_OK;
}

enum belfry_err gatherer_create(const struct gatherer_opts *opts, struct gatherer **out)
{
    struct gatherer *gatherer = calloc(1, sizeof(*gatherer));
    uv_timer_t *timer = malloc(sizeof(*timer));
    if (gatherer == NULL || timer == NULL) {
        free(timer);
        free(gatherer);
        return BELFRY_ERR_NOMEM;
    }
    gatherer->opts = *opts;
    gatherer->timer = timer;
    belfry_list_init(&gatherer->under_way);
    uv_timer_init(opts->loop, timer);
    timer->data = gatherer;
    uv_timer_start(timer, gathering_on_timer, GATHERING_MS / 8, GATHERING_MS / 8);
    uv_unref((uv_handle_t *)timer);
    BELFRY_OWNER_INIT(gatherer);
    *out = gatherer;
    return BELFRY_OK;
}

static void free_timer(uv_handle_t *handle)
{
    free(handle);
}

void gatherer_destroy(struct gatherer *gatherer)
{
    if (gatherer == NULL)
        return;
    BELFRY_OWNER_CHECK(gatherer);
    uv_close((uv_handle_t *)gatherer->timer, free_timer);
    belfry_list_each (node, &gatherer->under_way) {
        struct gathering *gathering = belfry_container(node, struct gathering, node);
        if (!gathering->told)
            gathering_tell(gathering);
    }
    gatherer->closing = true;
    free_if_done(gatherer);
}
