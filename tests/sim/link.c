/* tests/sim/link.c */
#include "sim/link.h"

#include <assert.h>
#include <stdlib.h>

#include "base/list.h"

/* Something on its way: a request, a run of bytes, a call or its answer. */
struct parcel {
    struct belfry_list node;
    uint64_t at_ms;
    struct link_answer answer; /* of a call only its number */
    enum link_call kind;       /* of a call */
    size_t len, read;
    uint8_t data[];
};

struct link {
    struct link_opts opts;
    struct belfry_list requests, chunks;
    struct belfry_list calls, answers;       /* in no order */
    uint64_t n_calls;                        /* so far */
    uint64_t silent_ms;                      /* no call and no answer arrives before */
    uint64_t last_request_ms, last_chunk_ms; /* nothing overtakes */
    size_t unread;                           /* bytes written and not read */
    bool client_left, server_left, broken;
    uint64_t client_told_ms, server_told_ms; /* when this side notices that the other has left; BELFRY_NEVER */
};

static struct parcel *first(const struct belfry_list *list)
{
    return belfry_list_empty(list) ? NULL : belfry_container(list->next, struct parcel, node);
}

static void drop_all(struct belfry_list *list)
{
    while (!belfry_list_empty(list))
        free(belfry_container(belfry_list_pop(list), struct parcel, node));
}

struct link *link_create(const struct link_opts *opts)
{
    struct link *link = calloc(1, sizeof(*link));
    if (link == NULL)
        abort();
    link->opts = *opts;
    link->client_told_ms = link->server_told_ms = BELFRY_NEVER;
    belfry_list_init(&link->requests);
    belfry_list_init(&link->chunks);
    belfry_list_init(&link->calls);
    belfry_list_init(&link->answers);
    return link;
}

static void free_if_left(struct link *link)
{
    if (!link->client_left || !link->server_left)
        return;
    drop_all(&link->requests);
    drop_all(&link->chunks);
    drop_all(&link->calls);
    drop_all(&link->answers);
    free(link);
}

/* When something sent now arrives, if nothing holds it up. */
static uint64_t soonest_arrival(const struct link *link)
{
    struct sched *sched = link->opts.sched;
    uint64_t delay = sched_below(sched, link->opts.delay_ms + 1);
    if (sched_one_in(sched, 64))
        delay *= 20;
    return sched_now(sched) + delay;
}

/* Never before what was sent earlier. */
static uint64_t arrival(struct link *link, uint64_t *last)
{
    uint64_t at = soonest_arrival(link);
    *last = at > *last ? at : *last;
    return *last;
}

static struct parcel *post(struct belfry_list *list, uint64_t at_ms, const void *data, size_t len)
{
    struct parcel *parcel = malloc(sizeof(*parcel) + len);
    if (parcel == NULL)
        abort();
    *parcel = (struct parcel){.at_ms = at_ms, .len = len};
    if (len > 0)
        memcpy(parcel->data, data, len);
    belfry_list_append(list, &parcel->node);
    return parcel;
}

/* ---- calls ---- */

static struct parcel *post_call(struct link *link, struct belfry_list *list, const struct link_answer *answer,
                                struct belfry_bytes message)
{
    uint64_t at = soonest_arrival(link);
    at = at > link->silent_ms ? at : link->silent_ms;
    struct parcel *parcel = post(list, at, message.data, message.len);
    parcel->answer = *answer;
    return parcel;
}

/* The next that has arrived, taken out; NULL: none. */
static struct parcel *take_call(const struct link *link, struct belfry_list *list, struct belfry_buf *message)
{
    belfry_list_each_safe (node, list) {
        struct parcel *parcel = belfry_container(node, struct parcel, node);
        if (parcel->at_ms > sched_now(link->opts.sched))
            continue;
        belfry_buf_clear(message);
        if (belfry_buf_append(message, parcel->data, parcel->len) != BELFRY_OK)
            abort();
        belfry_list_remove(node);
        return parcel;
    }
    return NULL;
}

static uint64_t first_call(const struct belfry_list *list)
{
    uint64_t due = BELFRY_NEVER;
    belfry_list_each (node, list)
        due = belfry_min_time(due, belfry_container(node, struct parcel, node)->at_ms);
    return due;
}

uint64_t link_call(struct link *link, enum link_call kind, struct belfry_bytes request)
{
    struct link_answer call = {.call = ++link->n_calls};
    if (link->server_left || link->broken)
        return call.call;
    struct parcel *parcel = post_call(link, &link->calls, &call, request);
    parcel->kind = kind;
    sched_wake(link->opts.sched, link->opts.server, parcel->at_ms);
    return call.call;
}

bool link_called(struct link *link, uint64_t *call, enum link_call *kind, struct belfry_buf *request)
{
    struct parcel *parcel = take_call(link, &link->calls, request);
    if (parcel == NULL)
        return false;
    *call = parcel->answer.call;
    *kind = parcel->kind;
    free(parcel);
    return true;
}

void link_answer(struct link *link, const struct link_answer *answer, struct belfry_bytes message)
{
    if (!link->client_left && !link->broken)
        sched_wake(link->opts.sched, link->opts.client, post_call(link, &link->answers, answer, message)->at_ms);
}

bool link_answered(struct link *link, struct link_answer *out, struct belfry_buf *message)
{
    struct parcel *parcel = take_call(link, &link->answers, message);
    if (parcel == NULL)
        return false;
    *out = parcel->answer;
    free(parcel);
    return true;
}

uint64_t link_answers_due(const struct link *link)
{
    return first_call(&link->answers);
}

uint64_t link_calls_due(const struct link *link)
{
    return first_call(&link->calls);
}

/* ---- the client's side ---- */

void link_send(struct link *link, struct belfry_bytes request)
{
    if (link->server_left || link->broken)
        return;
    uint64_t at = arrival(link, &link->last_request_ms);
    post(&link->requests, at, request.data, request.len);
    sched_wake(link->opts.sched, link->opts.server, at);
}

size_t link_arrived(const struct link *link)
{
    size_t n = 0;
    belfry_list_each (node, &link->chunks) {
        const struct parcel *parcel = belfry_container(node, struct parcel, node);
        if (parcel->at_ms > sched_now(link->opts.sched))
            break;
        n += parcel->len - parcel->read;
    }
    return n;
}

size_t link_read(struct link *link, size_t max, struct belfry_buf *to)
{
    size_t n = 0;
    for (struct parcel *parcel; n < max && (parcel = first(&link->chunks)) != NULL;) {
        if (parcel->at_ms > sched_now(link->opts.sched))
            break;
        size_t part = parcel->len - parcel->read < max - n ? parcel->len - parcel->read : max - n;
        if (belfry_buf_append(to, parcel->data + parcel->read, part) != BELFRY_OK)
            abort();
        n += part;
        parcel->read += part;
        if (parcel->read == parcel->len)
            free(belfry_container(belfry_list_pop(&link->chunks), struct parcel, node));
    }
    link->unread -= n;
    if (n > 0 && !link->server_left)
        sched_wake(link->opts.sched, link->opts.server, sched_now(link->opts.sched));
    return n;
}

uint64_t link_client_due(const struct link *link)
{
    const struct parcel *parcel = first(&link->chunks);
    return parcel != NULL ? parcel->at_ms : link->client_told_ms;
}

bool link_ended(const struct link *link)
{
    return belfry_list_empty(&link->chunks) && link->client_told_ms <= sched_now(link->opts.sched);
}

void link_set_window(struct link *link, size_t window)
{
    link->opts.window = window;
    if (!link->server_left)
        sched_wake(link->opts.sched, link->opts.server, sched_now(link->opts.sched));
}

void link_leave_client(struct link *link)
{
    assert(!link->client_left);
    link->client_left = true;
    link->server_told_ms = belfry_min_time(link->server_told_ms, arrival(link, &link->last_request_ms));
    if (!link->server_left)
        sched_wake(link->opts.sched, link->opts.server, link->server_told_ms);
    free_if_left(link);
}

/* ---- the server's side ---- */

bool link_request(struct link *link, struct belfry_buf *out)
{
    struct parcel *parcel = first(&link->requests);
    if (parcel == NULL || parcel->at_ms > sched_now(link->opts.sched))
        return false;
    belfry_buf_clear(out);
    if (belfry_buf_append(out, parcel->data, parcel->len) != BELFRY_OK)
        abort();
    free(belfry_container(belfry_list_pop(&link->requests), struct parcel, node));
    return true;
}

size_t link_room(const struct link *link)
{
    return link->unread < link->opts.window ? link->opts.window - link->unread : 0;
}

void link_write(struct link *link, const uint8_t *data, size_t len)
{
    if (link->client_left || link->broken || len == 0)
        return;
    uint64_t at = arrival(link, &link->last_chunk_ms);
    post(&link->chunks, at, data, len);
    link->unread += len;
    sched_wake(link->opts.sched, link->opts.client, at);
}

void link_write_message(struct link *link, struct belfry_bytes message)
{
    uint8_t prefix[5] = {0, (uint8_t)(message.len >> 24), (uint8_t)(message.len >> 16), (uint8_t)(message.len >> 8),
                         (uint8_t)message.len};
    link_write(link, prefix, sizeof(prefix));
    link_write(link, (const uint8_t *)message.data, message.len);
}

uint64_t link_server_due(const struct link *link)
{
    const struct parcel *parcel = first(&link->requests);
    return belfry_min_time(parcel != NULL ? parcel->at_ms : BELFRY_NEVER, link->server_told_ms);
}

bool link_client_gone(const struct link *link)
{
    return link->server_told_ms <= sched_now(link->opts.sched);
}

bool link_is_quiet(const struct link *link)
{
    return belfry_list_empty(&link->requests) && belfry_list_empty(&link->chunks) && belfry_list_empty(&link->calls) &&
           belfry_list_empty(&link->answers);
}

void link_leave_server(struct link *link)
{
    assert(!link->server_left);
    link->server_left = true;
    link->client_told_ms = belfry_min_time(link->client_told_ms, arrival(link, &link->last_chunk_ms));
    if (!link->client_left)
        sched_wake(link->opts.sched, link->opts.client, link->client_told_ms);
    free_if_left(link);
}

/* ---- the network ---- */

/* What has not arrived never will. */
static void lose(struct link *link, struct belfry_list *list, bool counted)
{
    uint64_t now = sched_now(link->opts.sched);
    belfry_list_each_safe (node, list) {
        struct parcel *parcel = belfry_container(node, struct parcel, node);
        if (parcel->at_ms <= now)
            continue;
        if (counted)
            link->unread -= parcel->len - parcel->read;
        belfry_list_remove(node);
        free(parcel);
    }
}

void link_break(struct link *link)
{
    struct sched *sched = link->opts.sched;
    link->broken = true;
    lose(link, &link->requests, false);
    lose(link, &link->chunks, true);
    lose(link, &link->calls, false);
    lose(link, &link->answers, false);
    /* one side may notice long before the other, and what the other writes until then is lost */
    link->client_told_ms = belfry_min_time(link->client_told_ms, sched_now(sched) + sched_below(sched, 300));
    link->server_told_ms = belfry_min_time(link->server_told_ms, sched_now(sched) + sched_below(sched, 3000));
    if (!link->client_left)
        sched_wake(sched, link->opts.client, link->client_told_ms);
    if (!link->server_left)
        sched_wake(sched, link->opts.server, link->server_told_ms);
}

void link_silence(struct link *link, uint64_t until_ms)
{
    link->last_chunk_ms = until_ms > link->last_chunk_ms ? until_ms : link->last_chunk_ms;
    link->last_request_ms = until_ms > link->last_request_ms ? until_ms : link->last_request_ms;
    link->silent_ms = until_ms > link->silent_ms ? until_ms : link->silent_ms;
}

struct belfry_blob *link_cut(struct belfry_buf *bytes)
{
    struct belfry_bytes have = belfry_buf_bytes(bytes);
    if (have.len < 5)
        return NULL;
    const uint8_t *at = (const uint8_t *)have.data;
    size_t len = (size_t)at[1] << 24 | (size_t)at[2] << 16 | (size_t)at[3] << 8 | at[4];
    if (have.len < 5 + len)
        return NULL;
    struct belfry_blob *blob;
    if (belfry_blob_copy(belfry_bytes_of(have.data + 5, len), &blob) != BELFRY_OK)
        abort();
    belfry_buf_take(bytes, 5 + len);
    return blob;
}
