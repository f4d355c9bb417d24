/* tests/sim/kube/kube_servers.c */
#include "sim/kube/kube_servers.h"

#include <stdlib.h>
#include <string.h>

#include "sim/cover.h"
#include "sim/trace.h"
#include "sim/verdict.h"

#define NOT_OLDER_MS 3000 /* a list waits this long for its version */
#define BOOKMARK_MS  1500
#define ANSWER_MS    5000 /* a client waits this long for an answer, of a list longer */
#define LIST_MS      20000
#define SLOW_LIST_MS 4000

static uint64_t below(struct kube_servers *s, uint64_t n)
{
    return belfry_rng_below(s->rng, n);
}

/* ---- caches ---- */

static unsigned current_past(const struct kube_servers *s)
{
    return s->history->n - 1;
}

static void cache_begin(struct kube_servers *s, struct kube_server *server)
{
    server->past = current_past(s);
    server->base = server->at = kube_history_now(s->history)->revision;
}

static void cache_move(struct kube_servers *s, struct kube_server *server)
{
    const struct kube_past *past = &s->history->pasts[server->past];
    if (server->past != current_past(s))
        return;
    int64_t last = past->n > 0 ? past->changes[past->n - 1].rv : 0;
    int64_t at = server->has_progress ? past->revision : last;
    if (at > server->at)
        server->at = at;
}

/* A watch may begin at this version or above. */
static int64_t cache_oldest(const struct kube_servers *s, const struct kube_server *server)
{
    const struct kube_past *past = &s->history->pasts[server->past];
    size_t n = 0;
    for (size_t i = past->n; i > 0 && past->changes[i - 1].rv > server->base; i--) {
        if (past->changes[i - 1].rv > server->at)
            continue;
        if (++n == KUBE_WINDOW)
            return past->changes[i - 1].rv - 1;
    }
    return server->base;
}

/* ---- calls ---- */

static void call_push(struct kube_servers *s, struct kube_call *call, struct kube_message message, uint64_t now_ms)
{
    if (call->first > 0 && call->first == call->n)
        call->first = call->n = 0;
    if (call->n == call->cap) {
        call->cap = call->cap == 0 ? 16 : call->cap * 2;
        call->messages = realloc(call->messages, call->cap * sizeof(*call->messages));
        if (call->messages == NULL)
            abort();
    }
    message.at_ms = now_ms + below(s, below(s, 8) == 0 ? 200 : 10);
    if (call->n > call->first && message.at_ms < call->messages[call->n - 1].at_ms)
        message.at_ms = call->messages[call->n - 1].at_ms;
    call->messages[call->n++] = message;
}

static void call_end(struct kube_servers *s, struct kube_call *call, enum resource_end end, uint64_t now_ms)
{
    call_push(s, call, (struct kube_message){.kind = KUBE_END, .end = end}, now_ms);
    call->is_over = true;
    if (end != RESOURCE_ENDED)
        s->lost |= UINT32_C(1) << call->server;
}

/* What is on its way may be lost, from some message on. */
static void call_break(struct kube_servers *s, struct kube_call *call, uint64_t now_ms)
{
    if (call->is_over)
        return;
    size_t on_way = call->n - call->first;
    if (on_way > 0 && !call->is_held)
        call->n = call->first + below(s, on_way + 1);
    if (call->n > 0 && call->kind == KUBE_WATCH && call->messages[call->n - 1].kind == KUBE_EVENT)
        s->cut_rv = call->messages[call->n - 1].change.rv;
    call_end(s, call, RESOURCE_FAILED, now_ms);
}

static void push_state(struct kube_servers *s, struct kube_call *call, enum kube_message_kind kind,
                       const struct kube_state *state, uint64_t now_ms)
{
    for (unsigned key = 0; key < KUBE_KEYS; key++) {
        const struct kube_held *held = &state->held[key];
        struct kube_change change = {
            .rv = held->rv, .key = key, .uid = held->uid, .content = held->content, .is_create = true};
        if (held->uid != 0)
            call_push(s, call, (struct kube_message){.kind = kind, .change = change, .link = call->link}, now_ms);
    }
}

/* False: its cache is too old, for now. */
static bool initial_begin(struct kube_servers *s, struct kube_call *call, struct kube_server *server, uint64_t now_ms)
{
    struct kube_state state;
    if (server->initial == KUBE_INITIAL_REFUSES) {
        call_end(s, call, RESOURCE_REFUSED, now_ms);
        return true;
    }
    if (server->at < call->at && now_ms < call->list_ms)
        return false;
    if (server->at < call->at) {
        call_end(s, call, RESOURCE_FAILED, now_ms);
        return true;
    }
    call_push(s, call, (struct kube_message){.kind = KUBE_OPENED, .link = call->link}, now_ms);
    if (server->initial == KUBE_INITIAL_SENDS || call->at == 0) {
        kube_past_state(&s->history->pasts[server->past], server->at, &state);
        push_state(s, call, KUBE_EVENT, &state, now_ms);
        call->at = server->at;
    }
    if (server->initial == KUBE_INITIAL_SENDS)
        call_push(s, call, (struct kube_message){.kind = KUBE_INITIAL_END, .rv = server->at}, now_ms);
    else if (call->at < cache_oldest(s, server))
        call_end(s, call, RESOURCE_EXPIRED, now_ms);
    return true;
}

/* How many changes the version has. */
static size_t changes_of(const struct kube_past *past, int64_t rv)
{
    const struct kube_change *first = kube_past_after(past, rv - 1), *end = past->changes + past->n;
    size_t n = 0;
    while (first != NULL && first + n < end && first[n].rv == rv)
        n++;
    return n;
}

static void watch_begin(struct kube_servers *s, struct kube_call *call, struct kube_server *server, uint64_t now_ms)
{
    call_push(s, call, (struct kube_message){.kind = KUBE_OPENED, .link = call->link}, now_ms);
    if (call->at < cache_oldest(s, server))
        call_end(s, call, RESOURCE_EXPIRED, now_ms);
    else if (s->is_tier && changes_of(&s->history->pasts[server->past], call->at) > 1)
        call->at--; /* the client may have seen a part of them */
}

static void watch_step(struct kube_servers *s, struct kube_call *call, struct kube_server *server, uint64_t now_ms)
{
    const struct kube_past *past = &s->history->pasts[server->past];
    const struct kube_change *change;
    while ((change = kube_past_after(past, call->at)) != NULL && change->rv <= server->at) {
        call->at = change->rv;
        for (; change < past->changes + past->n && change->rv == call->at; change++)
            call_push(s, call, (struct kube_message){.kind = KUBE_EVENT, .change = *change}, now_ms);
    }
    if (now_ms >= call->bookmark_ms && !s->is_silent) {
        call_push(s, call, (struct kube_message){.kind = KUBE_BOOKMARK, .rv = server->at}, now_ms);
        call->bookmark_ms = now_ms + BOOKMARK_MS + below(s, BOOKMARK_MS);
    }
    if (now_ms >= call->deadline_ms) {
        call_end(s, call, RESOURCE_ENDED, now_ms);
    } else if (now_ms < server->flaps_ms && below(s, 4) == 0) {
        static const enum resource_end ends[] = {RESOURCE_ENDED, RESOURCE_ENDED, RESOURCE_EXPIRED, RESOURCE_FAILED};
        call_end(s, call, ends[below(s, 4)], now_ms);
        s->lost |= UINT32_C(1) << call->server; /* it is of no use for now */
        COVER(kube_server_flaps);
    }
}

/* As much of the cache as it has, if that is not older than what was asked for. */
static void list_step(struct kube_servers *s, struct kube_call *call, const struct kube_server *server, uint64_t now_ms)
{
    struct kube_state state;
    unsigned past = server->past;
    int64_t at = server->at;
    if (call->at == RESOURCE_CONSISTENT) {
        past = current_past(s);
        at = kube_history_now(s->history)->revision;
    }
    if (server->at < call->at && now_ms < call->deadline_ms)
        return;
    if (server->at < call->at) {
        call_end(s, call, RESOURCE_FAILED, now_ms);
        return;
    }
    if (call->at == 0 && at < s->head)
        s->lost |= UINT32_C(1) << call->server; /* it is behind the client, and was asked how far */
    kube_past_state(&s->history->pasts[past], at, &state);
    push_state(s, call, KUBE_ITEM, &state, now_ms);
    uint64_t slow_ms = s->is_slow && below(s, 2) == 0 ? below(s, SLOW_LIST_MS) : 0;
    call_push(s, call, (struct kube_message){.kind = KUBE_LISTED, .rv = at, .link = call->link}, now_ms + slow_ms);
    call->is_over = true;
}

static void probe_step(struct kube_servers *s, struct kube_call *call, uint64_t now_ms)
{
    int64_t revision = kube_history_now(s->history)->revision;
    call_push(s, call, (struct kube_message){.kind = KUBE_LISTED, .rv = revision, .link = call->link}, now_ms);
    call->is_over = true;
}

static void call_step(struct kube_servers *s, struct kube_call *call, uint64_t now_ms)
{
    struct kube_server *server = &s->servers[call->server];
    if (call->kind == KUBE_NO_CALL || call->is_over || now_ms < call->next_ms)
        return;
    if (!call->is_begun && now_ms >= call->sent_ms + (call->kind == KUBE_LIST ? LIST_MS : ANSWER_MS)) {
        call_end(s, call, RESOURCE_FAILED, now_ms);
        return;
    }
    if (now_ms < server->stopped_ms)
        return;
    bool is_away = now_ms < server->away_ms && call->kind != KUBE_PROBE && !call->is_begun;
    if (!server->is_up || is_away) {
        call_end(s, call, RESOURCE_FAILED, now_ms);
        return;
    }
    if (call->kind == KUBE_PROBE)
        probe_step(s, call, now_ms);
    else if (call->kind == KUBE_LIST)
        list_step(s, call, server, now_ms);
    else if (call->is_begun)
        watch_step(s, call, server, now_ms);
    else if (!call->is_initial)
        watch_begin(s, call, server, now_ms);
    else if (!initial_begin(s, call, server, now_ms))
        return; /* its cache is too old, for now */
    call->is_begun = true;
}

/* ---- servers ---- */

static void each_call_of(struct kube_servers *s, unsigned server,
                         void (*act)(struct kube_servers *, struct kube_call *, uint64_t), uint64_t now_ms)
{
    for (unsigned i = 0; i < KUBE_CALLS; i++)
        if (s->calls[i].kind != KUBE_NO_CALL && s->calls[i].server == server)
            act(s, &s->calls[i], now_ms);
}

static void link_end(struct kube_servers *s, struct kube_link *link, uint64_t now_ms)
{
    for (unsigned i = 0; i < KUBE_CALLS; i++)
        if (s->calls[i].kind != KUBE_NO_CALL && s->calls[i].link == link->number)
            call_break(s, &s->calls[i], now_ms);
    link->number = 0;
}

void kube_servers_break_link(struct kube_servers *s, unsigned server, uint64_t now_ms)
{
    for (unsigned i = 0; i < KUBE_LINKS; i++)
        if (s->links[i].number != 0 && s->links[i].server == server)
            link_end(s, &s->links[i], now_ms);
}

static bool link_is_used(const struct kube_servers *s, const struct kube_link *link)
{
    for (unsigned i = 0; i < KUBE_CALLS; i++)
        if (s->calls[i].kind != KUBE_NO_CALL && s->calls[i].link == link->number)
            return true;
    return false;
}

/* One that is left ends with the last request on it. */
static void end_left_links(struct kube_servers *s)
{
    for (unsigned i = 0; i < KUBE_LINKS; i++)
        if (s->links[i].is_left && !link_is_used(s, &s->links[i]))
            s->links[i] = (struct kube_link){0};
}

/* Over which connection a request goes. When all places are taken, one that is there has to do. */
static struct kube_link *link_for(struct kube_servers *s, const struct resource_action *action)
{
    struct kube_link *fit[KUBE_LINKS], *free_place = NULL;
    unsigned n = 0;
    end_left_links(s);
    for (unsigned i = 0; i < KUBE_LINKS; i++) {
        struct kube_link *link = &s->links[i];
        bool is_free = link->number != 0 && !link->is_left && !(s->is_http1 && link_is_used(s, link));
        bool leads = is_free && (s->is_balanced || link->server == action->server);
        if (leads && link->number == action->link && below(s, 8) != 0) /* it may be full */
            return link;
        if (leads)
            fit[n++] = link;
        else if (link->number == 0)
            free_place = link;
    }
    if (n > 0 && (free_place == NULL || below(s, 8) != 0))
        return fit[below(s, n)];
    if (free_place == NULL) { /* of other servers: the connection is idle, or its requests break */
        free_place = &s->links[below(s, KUBE_LINKS)];
        link_end(s, free_place, s->now_ms);
    }
    *free_place = (struct kube_link){.number = 2 * ++s->numbers + !s->is_http1,
                                     .server = s->is_balanced ? (unsigned)below(s, s->n) : action->server};
    return free_place;
}

/* GOAWAY: what is under way there goes on, and nothing more begins. */
void kube_servers_leave_links(struct kube_servers *s, unsigned server)
{
    COVER(kube_link_left);
    for (unsigned i = 0; i < KUBE_LINKS; i++)
        s->links[i].is_left = s->links[i].is_left || s->links[i].server == server;
}

void kube_servers_restart(struct kube_servers *s, unsigned server, uint64_t down_ms, uint64_t now_ms)
{
    kube_servers_break_link(s, server, now_ms);
    s->servers[server].is_up = false;
    s->servers[server].up_ms = now_ms + down_ms;
    s->servers[server].anew_ms = 0;
}

static void end_watch(struct kube_servers *s, struct kube_call *call, uint64_t now_ms)
{
    if (call->kind == KUBE_WATCH && call->is_begun && !call->is_over)
        call_end(s, call, RESOURCE_ENDED, now_ms);
}

static void read_anew(struct kube_servers *s, unsigned server, uint64_t now_ms)
{
    s->servers[server].anew_ms = 0;
    if (s->servers[server].anew_by_restart) {
        COVER(kube_server_restarted);
        kube_servers_restart(s, server, below(s, 2000), now_ms);
        return;
    }
    COVER(kube_server_read_anew);
    each_call_of(s, server, end_watch, now_ms);
    cache_begin(s, &s->servers[server]);
    s->servers[server].away_ms = now_ms + RESOURCE_LINK_MS + 200 + below(s, 1000);
}

static void break_read(struct kube_servers *s, struct kube_call *call, uint64_t now_ms)
{
    if (call->kind != KUBE_WATCH && call->is_begun)
        call_break(s, call, now_ms);
}

void kube_servers_restored(struct kube_servers *s, uint64_t now_ms)
{
    s->restored_ms = now_ms;
    TRACE("kube", "etcd restored at %lld", (long long)kube_history_now(s->history)->revision);
    for (unsigned i = 0; i < s->n; i++) {
        each_call_of(s, i, break_read, now_ms); /* etcd was away */
        s->servers[i].anew_ms = now_ms + 1 + below(s, 4000);
        s->servers[i].anew_by_restart = below(s, 2) == 0;
    }
}

static void server_step(struct kube_servers *s, unsigned number, uint64_t now_ms)
{
    struct kube_server *server = &s->servers[number];
    if (now_ms < server->stopped_ms || now_ms < server->lag_ms || now_ms < server->away_ms)
        s->lost |= UINT32_C(1) << number;
    if (now_ms < server->stopped_ms)
        return;
    if (!server->is_up && now_ms >= server->up_ms) {
        server->is_up = true;
        cache_begin(s, server);
    }
    if (server->is_up && server->anew_ms != 0 && now_ms >= server->anew_ms)
        read_anew(s, number, now_ms);
    if (server->is_up && now_ms >= server->lag_ms)
        cache_move(s, server);
}

void kube_servers_step(struct kube_servers *s, uint64_t now_ms)
{
    s->now_ms = now_ms;
    for (unsigned i = 0; i < s->n; i++)
        server_step(s, i, now_ms);
    for (unsigned i = 0; i < KUBE_CALLS; i++)
        call_step(s, &s->calls[i], now_ms);
}

void kube_servers_mend(struct kube_servers *s, uint64_t now_ms)
{
    for (unsigned i = 0; i < s->n; i++) {
        s->servers[i].stopped_ms = s->servers[i].lag_ms = s->servers[i].flaps_ms = 0;
        if (!s->servers[i].is_up)
            s->servers[i].up_ms = now_ms;
    }
}

void kube_servers_init(struct kube_servers *s, struct kube_history *history, struct belfry_rng *rng, unsigned n)
{
    *s = (struct kube_servers){.history = history, .rng = rng, .n = n};
    bool has_progress = below(s, 2) == 0;
    s->is_balanced = n > 1 && below(s, 3) == 0;
    s->is_http1 = below(s, 8) == 0;
    s->is_slow = !s->is_http1 && (rng->state & 7) == 0; /* over HTTP/1.1 such a list proves nothing */
    s->is_tier = (rng->state & 48) == 0;
    COVER_BY(kube_slow, s->is_slow);
    COVER_BY(kube_http1, s->is_http1);
    COVER_BY(kube_balanced, s->is_balanced);
    for (unsigned i = 0; i < n; i++) {
        s->servers[i].is_up = true;
        s->servers[i].has_progress = has_progress;
        s->servers[i].initial = (enum kube_initial)below(s, 3);
        cache_begin(s, &s->servers[i]);
    }
}

/* ---- the client's side ---- */

static void call_free(struct kube_call *call)
{
    free(call->messages);
    *call = (struct kube_call){0};
}

void kube_servers_forget(struct kube_servers *s)
{
    for (unsigned i = 0; i < KUBE_CALLS; i++)
        call_free(&s->calls[i]);
    memset(s->links, 0, sizeof(s->links));
    s->asked_ms = 0;
    for (unsigned i = 0; i < s->n; i++)
        s->servers[i].n_shorts = 0;
}

unsigned kube_servers_seen(const struct kube_servers *s)
{
    return s->is_balanced ? 1 : s->n;
}

unsigned kube_servers_watched(const struct kube_servers *s, unsigned seen)
{
    for (unsigned i = 0; i < KUBE_CALLS; i++)
        if (s->calls[i].kind == KUBE_WATCH && s->calls[i].opened_ms != 0)
            return s->calls[i].server;
    return seen;
}

/* The first of them and its retry are free. */
static void note_short(struct kube_server *server, uint64_t sent_ms)
{
    memmove(server->shorts, server->shorts + 1, sizeof(server->shorts) - sizeof(server->shorts[0]));
    server->shorts[KUBE_SHORTS - 1] = sent_ms;
    if (++server->n_shorts > KUBE_SHORTS + 1 && sent_ms - server->shorts[0] < RESOURCE_SHORT_MS)
        verdict_fail("%u watches that ended at once were asked for in %llu ms", KUBE_SHORTS,
                     (unsigned long long)(sent_ms - server->shorts[0]));
}

/* A watch is over. True: it lasted. */
static bool note_lasting(struct kube_servers *s, const struct kube_call *call, uint64_t now_ms)
{
    bool lasted = call->kind == KUBE_WATCH && call->opened_ms != 0 && now_ms - call->opened_ms >= RESOURCE_SHORT_MS;
    for (unsigned i = 0; i < s->n && lasted; i++)
        s->servers[i].n_shorts = 0;
    return lasted;
}

void kube_servers_pace(struct kube_servers *s, struct kube_call *call, uint64_t now_ms)
{
    const struct kube_message *message = &call->messages[call->first];
    if (message->kind == KUBE_OPENED)
        call->opened_ms = now_ms;
    if (message->kind != KUBE_END || note_lasting(s, call, now_ms) || call->opened_ms == 0)
        return;
    bool is_answer = message->end == RESOURCE_EXPIRED; /* after a watch that lasted: the next question is another one */
    for (unsigned i = 0; i < s->n; i++)
        is_answer = is_answer && s->servers[i].n_shorts == 0;
    if (!is_answer)
        note_short(&s->servers[call->server], call->sent_ms);
}

void kube_servers_fini(struct kube_servers *s)
{
    kube_servers_forget(s);
}

static struct kube_call *call_find(struct kube_servers *s, uint64_t id)
{
    for (unsigned i = 0; i < KUBE_CALLS; i++)
        if (s->calls[i].kind != KUBE_NO_CALL && s->calls[i].id == id)
            return &s->calls[i];
    return NULL;
}

static void call_open(struct kube_servers *s, const struct resource_action *action, uint64_t now_ms)
{
    struct kube_call *call = s->calls;
    while (call < s->calls + KUBE_CALLS && call->kind != KUBE_NO_CALL)
        call++;
    if (call == s->calls + KUBE_CALLS)
        abort(); /* the machine has four requests at most */
    const struct kube_link *link = link_for(s, action);
    *call = (struct kube_call){
        .kind = action->want == RESOURCE_WANT_WATCH   ? KUBE_WATCH
                : action->want == RESOURCE_WANT_PROBE ? KUBE_PROBE
                                                      : KUBE_LIST,
        .id = action->id,
        .sent_ms = now_ms,
        .head = s->head,
        .server = link->server,
        .link = link->number,
        .next_ms = now_ms + below(s, 20),
        .at = action->rv,
        .is_initial = action->is_initial,
        .list_ms = now_ms + NOT_OLDER_MS,
        .deadline_ms =
            now_ms + (action->want == RESOURCE_WANT_WATCH ? action->timeout_s * UINT64_C(1000) : NOT_OLDER_MS),
        .bookmark_ms = now_ms + below(s, 2 * BOOKMARK_MS)};
    TRACE("kube", "%s %llu at server %u on link %llu from %lld",
          call->kind == KUBE_WATCH  ? "watch"
          : call->kind == KUBE_LIST ? "list"
                                    : "probe",
          (unsigned long long)call->id, call->server, (unsigned long long)call->link, (long long)action->rv);
}

void kube_servers_do(struct kube_servers *s, const struct resource_action *action, uint64_t now_ms)
{
    struct kube_call *call = call_find(s, action->id);
    bool is_for_life = action->want == RESOURCE_WANT_PROBE && action->rv != RESOURCE_CONSISTENT;
    if (is_for_life && s->asked_ms == 0)
        s->asked_ms = now_ms;
    switch (action->want) {
    case RESOURCE_WANT_WATCH:
    case RESOURCE_WANT_LIST:
    case RESOURCE_WANT_PROBE:
    case RESOURCE_WANT_VERSIONS:
        call_open(s, action, now_ms);
        break;
    case RESOURCE_WANT_ANSWER: /* for those who asked the client */
        break;
    case RESOURCE_WANT_CANCEL:
        if (call != NULL) {
            note_lasting(s, call, now_ms);
            call_free(call);
        }
        break;
    case RESOURCE_WANT_RESUME:
        if (call != NULL)
            call->is_held = false;
        break;
    }
}

struct kube_call *kube_servers_due(struct kube_servers *s, uint64_t now_ms)
{
    unsigned from = (unsigned)below(s, KUBE_CALLS);
    for (unsigned i = 0; i < KUBE_CALLS; i++) {
        struct kube_call *call = &s->calls[(from + i) % KUBE_CALLS];
        bool has = call->kind != KUBE_NO_CALL && !call->is_held && call->first < call->n;
        if (has && call->messages[call->first].at_ms <= now_ms)
            return call;
    }
    return NULL;
}

void kube_call_took(struct kube_call *call)
{
    enum kube_message_kind kind = call->messages[call->first].kind;
    call->first++;
    if (kind == KUBE_END || kind == KUBE_LISTED)
        call_free(call);
}
