/* tests/sim/client.c */
#include "sim/client.h"

#include <stdio.h>
#include <stdlib.h>

#include "sim/cover.h"
#include "sim/dialect.h"
#include "sim/gateway.h"
#include "sim/trace.h"
#include "sim/verdict.h"
#include "wire/write.h"

#define WATCHES_MAX 8
#define SAVED_MAX   16
#define KEY_MAX     2048
#define QUIT_MS     8000 /* well before the run ends */

/* How it reads. */
enum client_mode { CLIENT_READS, CLIENT_TRICKLES, CLIENT_STALLS };

/* A watch to be gone on with. */
struct saved {
    struct belfry_wire_create create;
    bool has_all; /* of lines, resumed: everything of its start revision */
    char key[KEY_MAX], range_end[KEY_MAX];
};

struct client {
    struct client_opts opts;
    char name[32];
    struct actor *actor;
    struct link *link; /* NULL: none */
    struct checker_stream *stream;
    uint64_t canceled; /* ids below 64 that this stream was asked to cancel */
    bool asked;        /* a watch of this stream */
    bool cut_off;      /* behind the line that was read last: nothing more comes of this stream */
    struct belfry_buf in, request;
    struct belfry_buf raw;  /* by_gateway: what comes before that */
    struct gateway gateway; /* of this stream */
    enum client_mode mode;
    bool settled;
    bool resumes; /* the next stream begins with what was saved */
    uint64_t dial_ms, act_ms;
    struct saved saved[SAVED_MAX];
    size_t n_saved;
    struct auth_who who; /* of this stream, or the last one */
    bool logs_in;        /* its token was refused */
    uint64_t quit_ms;    /* once settled, with auth: when it cancels all of its watches */
};

/* ---- requests ---- */

static void send(struct client *client)
{
    struct belfry_bytes bytes = belfry_buf_bytes(&client->request);
    checker_stream_sent(client->stream, bytes);
    link_send(client->link, bytes);
    belfry_buf_take(&client->request, bytes.len);
}

static void send_create(struct client *client, const struct belfry_wire_create *create)
{
    if (belfry_write_watch_create(&client->request, create) != BELFRY_OK)
        abort();
    client->asked = true;
    send(client);
}

static void send_cancel(struct client *client, int64_t id)
{
    if (id >= 0 && id < 64)
        client->canceled |= (uint64_t)1 << id;
    if (belfry_write_watch_cancel(&client->request, id) != BELFRY_OK)
        abort();
    send(client);
}

static void send_progress(struct client *client)
{
    if (belfry_write_watch_progress(&client->request) != BELFRY_OK)
        abort();
    send(client);
}

static int64_t pick_start(struct client *client)
{
    struct sched *sched = client->opts.sched;
    const struct history *history = client->opts.history;
    unsigned past = history_now(history);
    int64_t head = history_head(history, past);
    switch (sched_below(sched, 8)) {
    case 0:
    case 1:
        return 0;
    case 2:
        return head + 1 + (int64_t)sched_below(sched, 12);
    case 3:
        return 1 + (int64_t)sched_below(sched, (uint64_t)head);
    case 4:
        return history_compacted(history, past) + (int64_t)sched_below(sched, 4);
    default: {
        int64_t back = (int64_t)sched_below(sched, 40);
        return head > back ? head - back + 1 : 1;
    }
    }
}

/* It says where it starts: nobody tells. */
static void suit_lines(struct client *client, struct belfry_wire_create *create)
{
    struct sched *sched = client->opts.sched;
    const struct history *history = client->opts.history;
    bool pages = client->opts.kind == CHECKER_PAGES;
    create->watch_id = sched_one_in(sched, 3) ? 0
                       : pages                ? DIALECT_PINS + 1 + (int64_t)sched_below(sched, DIALECT_KEY_PINS)
                                              : 1 + (int64_t)sched_below(sched, DIALECT_PINS);
    if (create->start_revision == 0)
        create->start_revision = history_head(history, history_now(history)) + 1;
    int64_t compacted = history_compacted(history, history_now(history));
    if (compacted > 0 && sched_one_in(sched, 4)) /* the one revision whose previous values nobody has */
        create->start_revision = compacted;
    create->fragment = sched_one_in(sched, 3); /* as one that has listed at that revision */
    if (pages)
        create->prev_kv = create->no_put = create->no_delete = false;
    checker_stream_resumes(client->stream, true);
}

/* A stream of lines has one. */
static bool may_create(const struct client *client)
{
    return checker_is_of_lines(client->opts.kind) ? !client->asked
                                                  : checker_stream_watches(client->stream) < WATCHES_MAX;
}

/* As things are now. */
static bool may_read(const struct client *client, const struct belfry_wire_create *create)
{
    struct auth *auth = client->opts.auth;
    struct rights_range range = rights_range_of(create->key, create->range_end);
    return auth == NULL || auth_had_right(auth, &client->who, range, auth_now(auth), auth_now(auth));
}

static bool is_of_lines(const struct client *client)
{
    return checker_is_of_lines(client->opts.kind);
}

static void create_watch(struct client *client)
{
    struct sched *sched = client->opts.sched;
    struct belfry_wire_create create = {.start_revision = pick_start(client)};
    history_pick_range(client->opts.history, sched_rng(sched), &create.key, &create.range_end);
    for (int n = 0; n < 4 && !may_read(client, &create); n++)
        history_pick_range(client->opts.history, sched_rng(sched), &create.key, &create.range_end);
    create.watch_id = sched_one_in(sched, 6) ? 1 + (int64_t)sched_below(sched, 12) : 0;
    if (client->opts.auth != NULL)
        create.watch_id = 0; /* a watch that loses its right frees its id, and a cancel on its way would find another */
    create.prev_kv = sched_one_in(sched, 2);
    create.fragment = sched_one_in(sched, 2);
    create.progress_notify = sched_one_in(sched, 3);
    create.no_put = sched_one_in(sched, 10);
    create.no_delete = sched_one_in(sched, 8);
    if (is_of_lines(client))
        suit_lines(client, &create);
    send_create(client, &create);
    if ((create.start_revision == 0 || is_of_lines(client)) && sched_one_in(sched, 3))
        send_progress(client); /* an answer below what created shows would be wrong */
}

/* ---- going on elsewhere ---- */

static struct belfry_bytes keep(char *room, struct belfry_bytes bytes)
{
    if (bytes.len > KEY_MAX)
        abort();
    if (bytes.len > 0)
        memcpy(room, bytes.data, bytes.len);
    return belfry_bytes_of(room, bytes.len);
}

/* Its client knows what the last line has shown, and nothing else. */
static void save_line(struct saved *saved, const struct checker_watch *watch)
{
    saved->create.start_revision = watch->shown != 0 ? watch->shown : watch->start;
    saved->create.fragment = watch->shown != 0 || watch->resumed;
    saved->has_all = watch->shown != 0 ? watch->next > watch->shown : watch->has_all;
    if (saved->create.fragment)
        COVER(lines_resumed);
    if (!saved->has_all)
        COVER(lines_resumed_inside);
}

static void save_watches(struct client *client)
{
    client->n_saved = 0;
    for (size_t i = 0; i < checker_stream_watches(client->stream) && client->n_saved < SAVED_MAX; i++) {
        struct checker_watch watch = checker_stream_watch(client->stream, i);
        if (watch.cancel_sent)
            continue;
        struct saved *saved = &client->saved[client->n_saved++];
        saved->create = (struct belfry_wire_create){
            .key = keep(saved->key, watch.key),
            .range_end = keep(saved->range_end, watch.range_end),
            .start_revision = watch.next,
            .watch_id = watch.pin,
            .prev_kv = watch.prev_kv,
            .fragment = watch.fragment,
            .progress_notify = watch.progress_notify,
            .no_put = watch.no_put,
            .no_delete = watch.no_delete,
        };
        if (client->opts.kind == CHECKER_LINES)
            save_line(saved, &watch);
    }
}

static void hang_up(struct client *client)
{
    struct sched *sched = client->opts.sched;
    save_watches(client);
    client->resumes = !sched_one_in(sched, 4);
    checker_stream_close(client->stream);
    link_leave_client(client->link);
    client->stream = NULL;
    client->link = NULL;
    belfry_buf_clear(&client->in);
    gateway_fini(&client->gateway);
    gateway_init(&client->gateway);
    client->dial_ms = sched_now(sched) + sched_below(sched, 300);
}

/* Mostly itself. */
static struct auth_who choose_who(struct client *client)
{
    struct sched *sched = client->opts.sched;
    struct auth *auth = client->opts.auth;
    bool is_itself = client->who.kind == AUTH_TOKEN && client->who.secret[0] == 't';
    if (auth == NULL || (!client->settled && sched_one_in(sched, 16)))
        return (struct auth_who){.kind = AUTH_NOBODY};
    if (!client->settled && sched_one_in(sched, 8))
        return auth_made_up(auth);
    if (client->opts.by_name)
        return auth_by_name(client->opts.auth_user);
    if (is_itself && !client->logs_in && !client->settled && sched_one_in(sched, 2))
        return client->who;
    return auth_log_in(auth, client->opts.auth_user);
}

/* In the end a client asks for nothing that it may not have: it would be refused again and again. */
static bool may_resume(const struct client *client, const struct saved *saved)
{
    return !client->settled || may_read(client, &saved->create);
}

static void dial(struct client *client)
{
    struct sched *sched = client->opts.sched;
    static const size_t windows[] = {1, 7, 60, 1000, 64 * 1024, 64 * 1024};
    enum checker_kind kind = client->opts.kind;
    size_t window = client->settled ? 64 * 1024 : windows[sched_below(sched, 6)];
    client->who = choose_who(client);
    client->logs_in = false;
    client->link = client->opts.dial(client->opts.user, client->actor, window, &client->who, &kind);
    client->dial_ms = sched_now(sched) + 50 + sched_below(sched, 300);
    if (client->link == NULL)
        return;
    TRACE(client->name, "connects %s, window %zu, as %s", kind == CHECKER_DIRECT ? "to etcd" : "to a tier", window,
          client->who.kind == AUTH_NOBODY ? "nobody" : client->who.secret);
    client->canceled = 0;
    client->asked = client->cut_off = false;
    client->stream = checker_stream_open(client->opts.checker, client->name, kind);
    if (client->opts.auth != NULL && kind != CHECKER_DIRECT)
        checker_stream_is_guarded(client->stream);
    if (client->opts.by_gateway)
        checker_stream_is_translated(client->stream);
    client->mode = CLIENT_READS;
    for (size_t i = 0; client->resumes && i < client->n_saved; i++) {
        if (!may_resume(client, &client->saved[i]))
            continue;
        COVER(resume_elsewhere);
        checker_stream_resumes(client->stream, client->saved[i].has_all);
        send_create(client, &client->saved[i].create);
    }
    for (uint64_t n = sched_below(sched, 4); n > 0 && may_create(client); n--)
        create_watch(client);
}

/* ---- responses ---- */

static void on_message(struct client *client, struct belfry_bytes message)
{
    struct sched *sched = client->opts.sched;
    struct belfry_wire_watch watch;
    checker_stream_received(client->stream, message);
    if (belfry_scan_watch(message, &watch) != BELFRY_OK)
        return;
    if (watch.created && watch.canceled)
        COVER(refused);
    if (watch.created && watch.canceled && client->opts.auth != NULL && sched_one_in(sched, 4))
        client->cut_off = client->logs_in = true; /* as clients do whose token was refused */
    if (!watch.created && !watch.canceled && watch.n_events == 0) {
        if (watch.watch_id == -1)
            COVER(progress_manual);
        else
            COVER(progress_periodic);
    }
    /* As etcd's own client does; but who has cancelled it already must not do so twice: the id may be another's by
     * then.
     */
    bool again = watch.watch_id >= 0 && watch.watch_id < 64 && (client->canceled >> watch.watch_id & 1) != 0;
    if (watch.canceled && watch.compact_revision > 0 && !again && !is_of_lines(client) &&
        (client->settled || sched_one_in(sched, 2)))
        send_cancel(client, watch.watch_id);
    if (is_of_lines(client) && watch.n_events > 0 && !client->settled)
        client->cut_off = sched_one_in(sched, 8); /* between any two lines, those of one revision too */
}

static void read_some(struct client *client)
{
    struct sched *sched = client->opts.sched;
    if (client->mode == CLIENT_STALLS)
        return;
    link_read(client->link, client->mode == CLIENT_TRICKLES ? 1 + sched_below(sched, 8) : SIZE_MAX,
              client->opts.by_gateway ? &client->raw : &client->in);
    if (client->opts.by_gateway) {
        COVER_BY(gateway, belfry_buf_len(&client->raw) > 0);
        gateway_pass(&client->gateway, belfry_buf_bytes(&client->raw), &client->in);
        belfry_buf_clear(&client->raw);
    }
    for (struct belfry_blob *message;
         !verdict_failed() && !client->cut_off && (message = link_cut(&client->in)) != NULL;) {
        on_message(client, belfry_blob_bytes(message));
        belfry_blob_unref(message);
    }
}

/* ---- tricks ---- */

static void cancel_watch(struct client *client, size_t i)
{
    struct checker_watch watch = checker_stream_watch(client->stream, i);
    if (watch.created && !watch.cancel_sent)
        send_cancel(client, watch.id);
}

static void cancel_one(struct client *client)
{
    struct sched *sched = client->opts.sched;
    size_t n = checker_stream_watches(client->stream);
    if (n == 0 || is_of_lines(client))
        return;
    cancel_watch(client, sched_below(sched, n));
}

static void do_something(struct client *client)
{
    struct sched *sched = client->opts.sched;
    switch (sched_below(sched, 20)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
        if (may_create(client))
            create_watch(client);
        break;
    case 5:
    case 6:
        cancel_one(client);
        break;
    case 7:
    case 8:
    case 9:
        send_progress(client);
        break;
    case 10:
        client->mode = CLIENT_STALLS;
        break;
    case 11:
        client->mode = CLIENT_TRICKLES;
        break;
    case 12:
    case 13:
    case 14:
        client->mode = CLIENT_READS;
        break;
    case 15:
        link_set_window(client->link, 1 + sched_below(sched, sched_one_in(sched, 2) ? 20 : 20000));
        break;
    case 16:
        if (sched_one_in(sched, 3) && !auth_hangs(&client->who)) /* such a token takes its time */
            hang_up(client);
        break;
    case 17:
        if (sched_one_in(sched, 3) && !auth_hangs(&client->who))
            link_break(client->link);
        break;
    default:
        break;
    }
}

static uint64_t client_step(void *arg)
{
    struct client *client = arg;
    struct sched *sched = client->opts.sched;
    uint64_t now = sched_now(sched);
    if (client->link == NULL) {
        if (now >= client->dial_ms)
            dial(client);
        if (client->link == NULL)
            return client->dial_ms;
    }
    bool ended = link_ended(client->link);
    read_some(client);
    if (ended || client->cut_off) {
        hang_up(client);
        return client->dial_ms;
    }
    if (!client->settled && now >= client->act_ms) {
        client->act_ms = now + sched_below(sched, 60 * sched_tempo(sched));
        do_something(client);
        if (client->link == NULL)
            return client->dial_ms;
    }
    if (now >= client->quit_ms) {
        client->quit_ms = BELFRY_NEVER;
        for (size_t i = checker_stream_watches(client->stream); i-- > 0 && !is_of_lines(client);)
            cancel_watch(client, i);
    }
    uint64_t due = client->mode == CLIENT_STALLS ? BELFRY_NEVER : link_client_due(client->link);
    if (client->mode == CLIENT_TRICKLES && due != BELFRY_NEVER && due <= now)
        due = now + sched_below(sched, 5);
    return belfry_min_time(due, client->settled ? client->quit_ms : client->act_ms);
}

struct client *client_create(const struct client_opts *opts)
{
    struct client *client = calloc(1, sizeof(*client));
    if (client == NULL)
        abort();
    client->opts = *opts;
    client->quit_ms = BELFRY_NEVER;
    gateway_init(&client->gateway);
    snprintf(client->name, sizeof(client->name), "client%u", opts->number);
    client->actor = sched_add(opts->sched, ACTOR_PLAIN, client_step, client);
    return client;
}

void client_destroy(struct client *client)
{
    if (client == NULL)
        return;
    if (client->link != NULL)
        hang_up(client);
    sched_remove(client->opts.sched, client->actor);
    belfry_buf_fini(&client->in);
    belfry_buf_fini(&client->raw);
    gateway_fini(&client->gateway);
    belfry_buf_fini(&client->request);
    free(client);
}

void client_settle(struct client *client)
{
    client->settled = true;
    client->mode = CLIENT_READS;
    if (client->link != NULL && auth_hangs(&client->who))
        hang_up(client); /* a token that is never answered keeps its stream paused for ever, if auth was off before */
    if (client->link != NULL)
        link_set_window(client->link, 64 * 1024);
    if (client->opts.auth != NULL && sched_one_in(client->opts.sched, 4)) /* while its stream is paused, perhaps */
        client->quit_ms = sched_now(client->opts.sched) +
                          sched_below(client->opts.sched, belfry_min_time(2 * auth_period(client->opts.auth), QUIT_MS));
    sched_wake(client->opts.sched, client->actor, sched_now(client->opts.sched));
}

bool client_connected(const struct client *client)
{
    return client->link != NULL;
}
