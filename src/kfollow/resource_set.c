/* src/kfollow/resource_set.c */
#include "kfollow/resource_set.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <belfry/adapters/libuv.h>

#include "base/clock.h"
#include "base/owner.h"
#include "client/session.h"
#include "kfollow/resource_pulse.h"
#include "kfollow/server_document.h"
#include "replica/replica.h"

#define LOG_CAPACITY_LOG2 17 /* batches, which are single changes; what bounds it is its bytes */
#define LOG_BYTES_LEAST   (1024 * 1024)
#define ANSWER_MS         5000

enum entry_state { ENTRY_LOOKING, ENTRY_FOLLOWED };

struct entry {
    /* fixed */
    struct resource_set *set;
    size_t number;
    char text[RESOURCE_NAME_MAX + 1]; /* how it is called */
    /* owner */
    enum entry_state state;
    struct belfry_timer timer;        /* LOOKING: the next look; FOLLOWED: `ready_until` */
    struct resource_find find;        /* LOOKING */
    struct server_document *document; /* LOOKING: the answer that is waited for; NULL: none */
    unsigned server;                  /* LOOKING: that is asked */
    uint64_t wait_ms;                 /* LOOKING: before the next look, if this one fails */
    char why[256];                    /* LOOKING: why it is not found; "": not known yet */
    int code;                         /* HTTP's, of the answer that says so; 0: there was none */
    bool is_absent;                   /* LOOKING: it was not there at the last answer */
    struct store *store;              /* this and the next two: FOLLOWED */
    struct evlog *evlog;
    struct resource_driver *driver;
    uint64_t ready_until; /* BELFRY_NEVER: the driver is ready; 0: it never was */
    struct {              /* FOLLOWED: if it is stale, does upstream still have it? If not, is it selected as before? */
        struct belfry_timer timer;
        struct resource_find find;
        struct server_document *document; /* the answer that is waited for; NULL: none */
        unsigned server;                  /* that is asked */
        uint64_t watches;                 /* of the follower, when that was last asked for */
        bool is_due;                      /* a watch began since then, or there was no answer */
        bool is_gone, is_changed;         /* changed: until a restart */
    } again;
};

struct resource_set {
    /* fixed */
    struct resource_set_opts opts;
    struct resource_set_events events;
    void *user;
    /* owner */
    struct belfry *b;
    struct belfry_libuv *on_loop; /* owned by the loop once it is closing */
    struct belfry_kube *servers[RESOURCE_SERVERS_MAX];
    struct resource_pulse pulse; /* of all drivers */
    struct entry *entries;
    BELFRY_OWNER;
};

/* ---- following ---- */

static bool entry_is_ready(const struct entry *entry, uint64_t now)
{
    return entry->ready_until > now;
}

/* What was ready stays so for a while. */
static void entry_judge(struct entry *entry)
{
    struct resource_driver_status status;
    uint64_t now = belfry_clock_ms();
    resource_driver_status(entry->driver, &status);
    if (status.is_ready)
        entry->ready_until = BELFRY_NEVER;
    else if (status.is_stale)
        entry->ready_until = 0;
    else if (entry->ready_until == BELFRY_NEVER)
        entry->ready_until = now + RESOURCE_STALE_MS;
    bool ends = entry_is_ready(entry, now) && entry->ready_until != BELFRY_NEVER;
    belfry_session_set_timer(entry->set->b, &entry->timer, ends ? entry->ready_until : BELFRY_NEVER);
    entry->again.is_gone = entry->again.is_changed || (entry->again.is_gone && !status.is_ready);
    entry->again.is_due = entry->again.is_due || status.stats.watches > entry->again.watches;
    bool is_looking = entry->again.document != NULL || entry->again.timer.due_ms != BELFRY_NEVER;
    if ((status.is_stale || (status.is_ready && entry->again.is_due)) && !is_looking)
        belfry_session_set_timer(entry->set->b, &entry->again.timer, now);
}

static void on_entry_changed(void *user)
{
    struct entry *entry = user;
    entry_judge(entry);
    entry->set->events.changed(entry->number, entry->set->user);
}

static enum belfry_err entry_open_store(struct entry *entry, char **why)
{
    const struct resource_set_opts *opts = &entry->set->opts;
    char *dir = NULL, scope[RESOURCE_NAME_MAX + RESOURCE_FIND_PATH];
    if (asprintf(&dir, "%s/%s", opts->dir, entry->text) < 0)
        return BELFRY_ERR_NOMEM;
    snprintf(scope, sizeof(scope), "%s %s", entry->find.facts.group_version, entry->text);
    /* audit_here: other threads run, so a child is out of the question */
    struct replica_opts replica = {.dir = dir,
                                   .history_bytes = opts->history_bytes / opts->n_names,
                                   .history_age_s = opts->history_age_s,
                                   .extent_bytes = INGEST_EXTENT_BYTES,
                                   .scope = scope,
                                   .audit_here = true,
                                   .log = opts->log};
    enum belfry_err err = replica_open(&replica, &entry->store, why);
    free(dir);
    return err;
}

static enum belfry_err entry_open_log(struct entry *entry)
{
    const struct resource_set_opts *opts = &entry->set->opts;
    size_t bytes = opts->log_bytes / opts->n_names;
    struct evlog_opts log = {.capacity_log2 = LOG_CAPACITY_LOG2,
                             .max_bytes = bytes > LOG_BYTES_LEAST ? bytes : LOG_BYTES_LEAST,
                             .n_workers = opts->n_workers};
    return evlog_create(&log, &entry->evlog);
}

static enum belfry_err entry_open_driver(struct entry *entry)
{
    struct resource_set *set = entry->set;
    struct resource_driver_opts driver = {.servers = set->servers,
                                          .n_servers = set->opts.n_servers,
                                          .group_version = entry->find.facts.group_version,
                                          .plural = entry->find.name.plural,
                                          .is_namespaced = entry->find.facts.is_namespaced,
                                          .store = entry->store,
                                          .evlog = entry->evlog,
                                          .watch_s = set->opts.watch_s,
                                          .seed = set->opts.seed + entry->number,
                                          .pulse = &set->pulse,
                                          .log = set->opts.log};
    return resource_driver_open(&driver, on_entry_changed, entry, &entry->driver);
}

static void entry_drop(struct entry *entry, enum replica_close how)
{
    resource_driver_close(entry->driver);
    evlog_destroy(entry->evlog);
    replica_close(entry->store, how);
    entry->driver = NULL;
    entry->evlog = NULL;
    entry->store = NULL;
}

static void entry_look_later(struct entry *entry, uint64_t wait_ms)
{
    belfry_session_set_timer(entry->set->b, &entry->timer, belfry_clock_ms() + wait_ms);
}

static void entry_follow(struct entry *entry)
{
    struct resource_set *set = entry->set;
    char *why = NULL;
    enum belfry_err err = entry_open_store(entry, &why);
    if (err == BELFRY_OK)
        err = entry_open_log(entry);
    if (err == BELFRY_OK)
        err = entry_open_driver(entry);
    if (err != BELFRY_OK) {
        snprintf(entry->why, sizeof(entry->why), "%s", why != NULL ? why : belfry_strerror((int)err));
        belfry_logf(set->opts.log, BELFRY_LOG_ERROR, "resource_not_opened", "resource=%s why=\"%s\"", entry->text,
                    entry->why);
        entry_drop(entry, REPLICA_CLOSE_DIRTY);
        entry_look_later(entry, RESOURCE_SET_LOOK_MS);
        free(why);
        return;
    }
    free(why);
    entry->state = ENTRY_FOLLOWED;
    entry->again.watches = 1; /* the first one begins now */
    entry->again.is_due = entry->find.is_unsure;
    entry->is_absent = false;
    entry->why[0] = '\0';
    replica_serves(entry->store);
    belfry_logf(set->opts.log, BELFRY_LOG_INFO, "resource_found", "resource=%s version=%s kind=%s namespaced=%s",
                entry->text, entry->find.facts.version, entry->find.facts.kind,
                entry->find.facts.is_namespaced ? "true" : "false");
    set->events.found(entry->number, set->user);
}

/* ---- looking ---- */

static void entry_ask(struct entry *entry);

static void entry_look_failed(struct entry *entry, int code, const char *why)
{
    struct resource_set *set = entry->set;
    entry->code = code;
    snprintf(entry->why, sizeof(entry->why), "%s", why);
    belfry_logf(set->opts.log, BELFRY_LOG_WARN, "resource_not_found", "resource=%s server=%s why=\"%s\"", entry->text,
                belfry_kube_server(set->servers[entry->server]), why);
    entry->server = (entry->server + 1) % set->opts.n_servers;
    entry_look_later(entry, entry->wait_ms);
    entry->wait_ms = belfry_min_time(entry->wait_ms * 2, RESOURCE_SET_LOOK_MS);
    set->events.changed(entry->number, set->user);
}

static void entry_absent(struct entry *entry)
{
    const struct resource_find *find = &entry->find;
    char absent[sizeof(entry->why)];
    bool has_idea = find->nearest[0] != '\0', has_group = find->name.group[0] != '\0';
    snprintf(absent, sizeof(absent), "upstream does not have the resource%s%s%s%.64s%s",
             has_idea ? ": did you mean " : "", find->nearest, has_idea && has_group ? "." : "",
             has_idea ? find->name.group : "", has_idea ? "?" : "");
    if (strcmp(entry->why, absent) != 0)
        belfry_logf(entry->set->opts.log, BELFRY_LOG_WARN, "resource_absent", "resource=%s why=\"%s\"", entry->text,
                    absent);
    snprintf(entry->why, sizeof(entry->why), "%s", absent);
    entry->is_absent = true;
    entry->wait_ms = RESOURCE_SET_RETRY_MS;
    entry_look_later(entry, entry->set->opts.look_ms);
    entry->set->events.changed(entry->number, entry->set->user);
}

static void on_entry_document(const struct server_document_answer *answer, void *user)
{
    struct entry *entry = user;
    entry->document = NULL;
    if (answer->status == 0) {
        entry_look_failed(entry, 0, answer->why);
        return;
    }
    switch (resource_find_take(&entry->find, answer->status, answer->body)) {
    case RESOURCE_FIND_ASKING:
        entry_ask(entry);
        break;
    case RESOURCE_FIND_FOUND: /* not from inside an answer: it reads a warm store */
        entry_look_later(entry, 0);
        break;
    case RESOURCE_FIND_ABSENT:
        entry_absent(entry);
        break;
    case RESOURCE_FIND_FAILED:
        entry_look_failed(entry, answer->status, entry->find.why);
        break;
    }
}

static void entry_ask(struct entry *entry)
{
    struct server_document_ask ask = {.server = entry->set->servers[entry->server],
                                      .path = resource_find_path(&entry->find),
                                      .max_bytes = RESOURCE_FIND_BYTES,
                                      .timeout_ms = ANSWER_MS};
    if (server_document_get(&ask, on_entry_document, entry, &entry->document) != BELFRY_OK)
        entry_look_failed(entry, 0, "out of memory");
}

static bool entry_is_custom(const struct entry *entry)
{
    const struct resource_set_opts *opts = &entry->set->opts;
    return opts->is_builtin != NULL && !opts->is_builtin(opts->names[entry->number].group);
}

static void on_entry_timer(struct belfry_timer *timer)
{
    struct entry *entry = belfry_container(timer, struct entry, timer);
    if (entry->state == ENTRY_FOLLOWED) {
        on_entry_changed(entry);
        return;
    }
    if (entry->find.state == RESOURCE_FIND_FOUND) {
        entry_follow(entry);
        return;
    }
    resource_find_init(&entry->find, &entry->set->opts.names[entry->number], entry_is_custom(entry));
    entry_ask(entry);
}

/* ---- looking again ---- */

static void again_ask(struct entry *entry);

static bool facts_equal(const struct resource_facts *a, const struct resource_facts *b)
{
    return strcmp(a->group_version, b->group_version) == 0 && strcmp(a->kind, b->kind) == 0 &&
           a->is_namespaced == b->is_namespaced;
}

static void again_gone(struct entry *entry, const char *why)
{
    if (entry->again.is_gone)
        return;
    entry->again.is_gone = true;
    belfry_logf(entry->set->opts.log, BELFRY_LOG_WARN, "resource_gone", "resource=%s why=\"%s\"", entry->text, why);
    entry->set->events.changed(entry->number, entry->set->user);
}

/* A server that gave no answer is asked again later. */
static void again_take_selectable(struct entry *entry)
{
    const struct resource_selectable *now = &entry->again.find.facts.selectable;
    struct resource_selectable *before = &entry->find.facts.selectable;
    entry->again.is_due = entry->again.find.is_unsure;
    if (entry->again.is_due || memcmp(now, before, sizeof(*now)) == 0) /* it has no padding */
        return;
    memcpy(before, now, sizeof(*before));
    belfry_logf(entry->set->opts.log, BELFRY_LOG_INFO, "resource_selectable",
                "resource=%s minor=%u fields=%u why=\"its definition or its server is another one\"", entry->text,
                now->minor, now->n_fields);
    entry->set->events.found(entry->number, entry->set->user);
}

/* A preferred version that is another one now is no change: ours may still be served. */
static void again_found(struct entry *entry)
{
    if (facts_equal(&entry->again.find.facts, &entry->find.facts)) {
        again_take_selectable(entry);
        return;
    }
    entry->again.is_changed = true;
    again_gone(entry, "its version, kind or scope is another one: restart the tier");
}

static void again_look_later(struct entry *entry)
{
    belfry_session_set_timer(entry->set->b, &entry->again.timer, belfry_clock_ms() + entry->set->opts.look_ms);
}

static void on_again_document(const struct server_document_answer *answer, void *user)
{
    struct entry *entry = user;
    entry->again.document = NULL;
    enum resource_find_state state = RESOURCE_FIND_FAILED;
    if (answer->status != 0)
        state = resource_find_take(&entry->again.find, answer->status, answer->body);
    if (state == RESOURCE_FIND_ASKING) {
        again_ask(entry);
        return;
    }
    if (state == RESOURCE_FIND_FOUND)
        again_found(entry);
    else if (state == RESOURCE_FIND_ABSENT)
        again_gone(entry, "upstream does not have it any more");
    else
        entry->again.is_due = true;
    again_look_later(entry);
}

static void again_ask(struct entry *entry)
{
    struct server_document_ask ask = {.server = entry->set->servers[entry->again.server],
                                      .path = resource_find_path(&entry->again.find),
                                      .max_bytes = RESOURCE_FIND_BYTES,
                                      .timeout_ms = ANSWER_MS};
    if (server_document_get(&ask, on_again_document, entry, &entry->again.document) != BELFRY_OK)
        again_look_later(entry);
}

/* Asks for the version that is followed, whatever is preferred now. */
static void again_look(struct entry *entry)
{
    struct resource_name name = entry->find.name;
    memcpy(name.version, entry->find.facts.version, sizeof(name.version));
    resource_find_init(&entry->again.find, &name, entry_is_custom(entry));
    entry->again.server = (entry->again.server + 1) % entry->set->opts.n_servers;
    again_ask(entry);
}

static void on_again_timer(struct belfry_timer *timer)
{
    struct entry *entry = belfry_container(timer, struct entry, again.timer);
    struct resource_driver_status status;
    resource_driver_status(entry->driver, &status);
    if (entry->again.is_changed || (!status.is_stale && !entry->again.is_due))
        return;
    entry->again.watches = status.stats.watches;
    if (status.is_stale) {
        again_look(entry);
        return;
    }
    resource_find_init_selectable(&entry->again.find, &entry->find);
    entry->again.server = status.server;
    again_ask(entry);
}

/* ---- opening and closing ---- */

static void on_libuv_closed(struct belfry_libuv *on_loop)
{
    free(on_loop);
}

static enum belfry_err open_session(struct resource_set *set, char *why, size_t why_len)
{
    int err = belfry_open(NULL, NULL, &set->b);
    if (err != BELFRY_OK)
        return (enum belfry_err)err;
    if (set->opts.log != NULL)
        set->b->log = *set->opts.log;
    for (unsigned i = 0; i < set->opts.n_servers; i++) {
        err = belfry_kube_open(set->b, set->opts.servers[i], &set->servers[i], why, why_len);
        if (err != BELFRY_OK)
            return (enum belfry_err)err;
    }
    struct belfry_libuv *on_loop = calloc(1, sizeof(*on_loop));
    if (on_loop == NULL)
        return BELFRY_ERR_NOMEM;
    err = belfry_libuv_attach(on_loop, set->opts.loop, set->b, NULL, NULL);
    if (err != BELFRY_OK) {
        free(on_loop);
        return (enum belfry_err)err;
    }
    set->on_loop = on_loop;
    return BELFRY_OK;
}

static enum belfry_err open_entries(struct resource_set *set)
{
    set->entries = calloc(set->opts.n_names, sizeof(*set->entries));
    if (set->entries == NULL)
        return BELFRY_ERR_NOMEM;
    for (size_t i = 0; i < set->opts.n_names; i++) {
        struct entry *entry = &set->entries[i];
        *entry = (struct entry){.set = set, .number = i, .wait_ms = RESOURCE_SET_RETRY_MS};
        entry->server = (unsigned)(i % set->opts.n_servers);
        resource_name_write(&set->opts.names[i], entry->text);
        resource_find_init(&entry->find, &set->opts.names[i], entry_is_custom(entry));
        belfry_timer_init(&entry->timer, on_entry_timer);
        belfry_timer_init(&entry->again.timer, on_again_timer);
        entry_look_later(entry, 0);
    }
    return BELFRY_OK;
}

enum belfry_err resource_set_open(const struct resource_set_opts *opts, const struct resource_set_events *events,
                                  void *user, struct resource_set **out, char *why, size_t why_len)
{
    assert(opts->n_names > 0 && opts->n_names <= RESOURCE_SET_MAX);
    assert(opts->n_servers > 0 && opts->n_servers <= RESOURCE_SERVERS_MAX);
    struct resource_set *set = calloc(1, sizeof(*set));
    if (set == NULL)
        return BELFRY_ERR_NOMEM;
    set->opts = *opts;
    if (set->opts.look_ms == 0)
        set->opts.look_ms = RESOURCE_SET_LOOK_MS;
    set->events = *events;
    set->user = user;
    BELFRY_OWNER_INIT(set);
    enum belfry_err err = open_session(set, why, why_len);
    if (err == BELFRY_OK)
        err = open_entries(set);
    if (err != BELFRY_OK) {
        resource_set_close(set);
        return err;
    }
    *out = set;
    return BELFRY_OK;
}

/* Requests of a driver end while its session still is. */
void resource_set_close(struct resource_set *set)
{
    if (set == NULL)
        return;
    BELFRY_OWNER_CHECK(set);
    for (size_t i = 0; set->entries != NULL && i < set->opts.n_names; i++) {
        struct entry *entry = &set->entries[i];
        belfry_session_set_timer(set->b, &entry->timer, BELFRY_NEVER);
        belfry_session_set_timer(set->b, &entry->again.timer, BELFRY_NEVER);
        server_document_cancel(entry->document);
        server_document_cancel(entry->again.document);
        entry_drop(entry, REPLICA_CLOSE_CLEAN);
    }
    if (set->on_loop != NULL)
        belfry_libuv_detach(set->on_loop, on_libuv_closed);
    belfry_close(set->b);
    free(set->entries);
    free(set);
}

/* ---- looking at it ---- */

static void reason_of(const struct entry *entry, const struct resource_driver_status *status, char *out, size_t len)
{
    const char *why = entry->state == ENTRY_LOOKING ? entry->why : status->failed;
    if (entry->again.is_gone)
        why = entry->again.is_changed ? "it has changed upstream: restart the tier"
                                      : "upstream does not have it any more";
    snprintf(out, len, "%.80s is not followed yet%s%.120s", entry->text, why[0] == '\0' ? "" : ": ", why);
}

void resource_set_look(const struct resource_set *set, size_t number, struct resource_set_view *out)
{
    const struct entry *entry = &set->entries[number];
    struct resource_driver_status status;
    *out = (struct resource_set_view){.is_found = entry->state == ENTRY_FOLLOWED,
                                      .is_absent = entry->is_absent || entry->again.is_gone};
    if (out->is_found) {
        resource_driver_status(entry->driver, &status);
        out->is_ready = entry_is_ready(entry, belfry_clock_ms()) && !entry->again.is_gone;
        out->is_stale = status.is_stale;
        out->facts = &entry->find.facts;
        out->store = entry->store;
        out->log = entry->evlog;
        out->driver = entry->driver;
    }
    if (!out->is_ready) {
        out->code = entry->state == ENTRY_LOOKING ? entry->code : status.failed_code;
        reason_of(entry, &status, out->reason, sizeof(out->reason));
    }
}

struct belfry_kube *resource_set_server(const struct resource_set *set, unsigned number)
{
    return set->servers[number];
}
