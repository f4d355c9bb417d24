/* fuzz/mux.c: the watch machine between a server that says anything and a user who does anything.
 *
 * The input is a list of steps; a step is one byte, (step % N_STEPS), and the bytes it asks for. Responses are either
 * put together from a few bytes (ids and revisions near each other, so that they meet) or taken raw. Whatever comes,
 * for each watch: revisions rise, a revision is given twice only as parts, progress never goes back, next_rev is behind
 * what was given, nothing comes after the end or after removal; and nothing is left at the end.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/watch/mux.h"
#include "wire/write.h"

#define WATCHES     8
#define EVENTS      16
#define BOUND       2048
#define MESSAGE_MAX 2048

enum step {
    ADD,
    REMOVE,
    PAUSE,
    RESUME,
    UP,
    DOWN,
    PULL,
    TICK,
    ASK_PROGRESS,
    READ_REVISION,
    REFUSE_REVISION,
    JUDGE,
    AUTH_FINAL,
    FAIL,
    CREATED,
    EVENTS_OF,
    CANCELED,
    PROGRESS,
    RAW,
    N_STEPS
};

struct follower {
    struct belfry_mux_watch *watch; /* NULL: free slot */
    int64_t last;                   /* revision given last, as events or progress */
    bool part;                      /* of it, more is to come */
    bool unmerged;
};

struct fuzz {
    const uint8_t *at, *end;
    struct belfry_mux *mux;
    struct follower followers[WATCHES];
    bool up;
    uint64_t now;
};

static void expect(bool truth)
{
    if (!truth)
        abort();
}

static uint8_t take(struct fuzz *f)
{
    return f->at == f->end ? 0 : *f->at++;
}

static void down(struct fuzz *f)
{
    belfry_mux_stream_down(f->mux);
    f->up = false;
}

static void remove_one(struct fuzz *f, uint8_t which)
{
    struct follower *follower = &f->followers[which % WATCHES];
    if (follower->watch != NULL)
        belfry_mux_remove(f->mux, follower->watch);
    follower->watch = NULL;
}

/* ---- what comes out ---- */

static void check_events(struct follower *follower, const struct belfry_inbox_group *group)
{
    struct belfry_inbox_walk walk;
    struct belfry_wire_event event;
    size_t n = 0;
    enum belfry_err err;
    belfry_inbox_walk(group, &walk);
    while ((err = belfry_inbox_walk_next(&walk, &event)) == BELFRY_OK) {
        expect(event.kv.mod_rev == group->rev);
        n++;
    }
    expect(err == BELFRY_ERR_PROTOCOL || n == group->n_events);
    expect(group->n_events > 0 && (!group->part || follower->unmerged));
    expect(follower->part ? group->rev >= follower->last : group->rev > follower->last);
    follower->last = group->rev;
    follower->part = group->part;
}

static void check_action(struct follower *follower, const struct belfry_mux_action *action)
{
    expect(follower->watch == action->watch);
    switch (action->act) {
    case BELFRY_MUX_EVENTS:
        check_events(follower, &action->group);
        break;
    case BELFRY_MUX_PROGRESS:
        expect(action->rev >= follower->last); /* the same again is a sign of life */
        follower->last = action->rev;
        follower->part = false;
        break;
    case BELFRY_MUX_CREATED: /* neither was asked for */
    case BELFRY_MUX_LOST:
        expect(false);
        break;
    case BELFRY_MUX_END:
        expect(action->err != BELFRY_OK && action->why != NULL);
        follower->watch = NULL;
        break;
    }
}

static void take_actions(struct fuzz *f)
{
    struct belfry_mux_action action;
    enum belfry_err err;
    while ((err = belfry_mux_next(f->mux, &action)) == BELFRY_OK) {
        struct follower *follower = belfry_mux_user(action.watch);
        check_action(follower, &action);
        enum belfry_mux_verdict verdict = BELFRY_MUX_MORE;
        switch (take(f) % 16) {
        case 1:
            verdict = BELFRY_MUX_PAUSE;
            break;
        case 2:
            verdict = BELFRY_MUX_STOP;
            follower->watch = NULL;
            break;
        case 3:
            remove_one(f, take(f)); /* another, or itself */
            break;
        case 4:
            down(f);
            break;
        default:
            break;
        }
        belfry_mux_taken(f->mux, verdict);
        if (follower->watch != NULL)
            expect(belfry_mux_next_rev(follower->watch) > follower->last - follower->part);
    }
    if (err != BELFRY_ERR_AGAIN)
        down(f);
}

/* ---- what goes in ---- */

static void add(struct fuzz *f)
{
    uint8_t flags = take(f), rev = take(f);
    for (size_t i = 0; i < WATCHES; i++) {
        struct follower *follower = &f->followers[i];
        if (follower->watch != NULL)
            continue;
        struct belfry_mux_spec spec = {
            .key = belfry_bytes_str("key"),
            .range_end = belfry_bytes_of("kez", flags & 1 ? 3 : 0),
            .rev = rev % 32,
            .prev_kv = flags & 2,
            .fragment = flags & 4,
            .unmerged = flags & 8,
            .progress_notify = flags & 16,
            .pause_bytes = (size_t)(flags >> 5) * 64,
        };
        *follower = (struct follower){.last = -1, .unmerged = flags & 8};
        expect(belfry_mux_add(f->mux, &spec, follower, &follower->watch) == BELFRY_OK);
        return;
    }
}

static void deliver(struct fuzz *f, const uint8_t *bytes, size_t len)
{
    struct belfry_blob *blob;
    expect(belfry_blob_copy(belfry_bytes_of(bytes, len), &blob) == BELFRY_OK);
    enum belfry_err err = belfry_mux_message(f->mux, blob, f->now);
    belfry_blob_unref(blob);
    expect(err != BELFRY_ERR_AGAIN && err != BELFRY_ERR_NOMEM);
    if (err != BELFRY_OK)
        down(f);
    take_actions(f);
}

static size_t put_events(struct fuzz *f, uint8_t *to, int64_t rev)
{
    uint8_t *from = to;
    for (int n = take(f) % EVENTS + 1; n > 0; n--) {
        struct belfry_wire_event event = {.kv = {.key = belfry_bytes_str("key"), .mod_rev = rev}};
        to = belfry_write_event_field(belfry_write_event_size(&event), to);
        to = belfry_write_event(&event, to);
        rev += take(f) % 4 == 0;
    }
    return (size_t)(to - from);
}

static void respond(struct fuzz *f, enum step step)
{
    static const char *const reasons[] = {"", "permission denied", "invalid auth token", "other",
                                          "required revision has been compacted"};
    uint8_t message[MESSAGE_MAX];
    uint8_t bits = take(f), rev = take(f);
    struct belfry_wire_watch head = {.header = {.revision = rev % 64}, .watch_id = bits % 16 == 15 ? -1 : bits % 16};
    if (step == CREATED) {
        head.created = true;
        head.canceled = bits & 128;
    } else if (step == CANCELED) {
        head.canceled = true;
        head.compact_revision = bits & 64 ? rev % 64 : 0;
    } else if (step == EVENTS_OF) {
        head.fragment = bits & 128;
    }
    if (head.canceled)
        head.cancel_reason = belfry_bytes_str(reasons[take(f) % 5]);
    uint8_t *to = belfry_write_watch_head(&head, message);
    size_t len = (size_t)(to - message);
    if (step == EVENTS_OF)
        len += put_events(f, to, rev % 64);
    deliver(f, message, len);
}

static void raw(struct fuzz *f)
{
    size_t len = take(f), left = (size_t)(f->end - f->at);
    if (len > left)
        len = left;
    const uint8_t *bytes = f->at;
    f->at += len;
    deliver(f, bytes, len);
}

static void pull(struct fuzz *f)
{
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    while (belfry_mux_pull(f->mux, f->now, &buf) == BELFRY_OK)
        ;
    expect(f->up || belfry_buf_len(&buf) == 0);
    belfry_buf_fini(&buf);
}

static void tick(struct fuzz *f)
{
    f->now += (uint64_t)take(f) * 128;
    if (belfry_mux_tick(f->mux, f->now) != BELFRY_OK)
        down(f);
}

static void judge(struct fuzz *f)
{
    int64_t seen;
    if (belfry_mux_suspects(f->mux, &seen))
        belfry_mux_judge(f->mux, seen, take(f) % 64);
}

static void read_revision(struct fuzz *f)
{
    struct belfry_mux_read read;
    if (belfry_mux_wants_revision(f->mux, &read))
        belfry_mux_revision(f->mux, read.generation - take(f) % 2, take(f) % 64);
}

static void refuse_revision(struct fuzz *f)
{
    struct belfry_mux_read read;
    if (belfry_mux_wants_revision(f->mux, &read))
        belfry_mux_revision_refused(f->mux, read.asker - take(f) % 2, BELFRY_ERR_DENIED, "no");
}

static void user_step(struct fuzz *f, enum step step)
{
    struct follower *follower = &f->followers[take(f) % WATCHES];
    if (follower->watch == NULL)
        return;
    if (step == REMOVE)
        remove_one(f, (uint8_t)(follower - f->followers));
    else if (step == PAUSE)
        belfry_mux_pause(f->mux, follower->watch);
    else
        belfry_mux_resume(f->mux, follower->watch);
}

static void one_step(struct fuzz *f)
{
    enum step step = take(f) % N_STEPS;
    switch (step) {
    case ADD:
        add(f);
        break;
    case REMOVE:
    case PAUSE:
    case RESUME:
        user_step(f, step);
        break;
    case UP:
        if (!f->up)
            belfry_mux_stream_up(f->mux, f->now);
        f->up = true;
        break;
    case DOWN:
        down(f);
        break;
    case PULL:
        pull(f);
        break;
    case TICK:
        tick(f);
        break;
    case ASK_PROGRESS:
        belfry_mux_request_progress(f->mux, f->now);
        break;
    case READ_REVISION:
        read_revision(f);
        break;
    case REFUSE_REVISION:
        refuse_revision(f);
        break;
    case JUDGE:
        judge(f);
        break;
    case AUTH_FINAL:
        belfry_mux_auth_is_final(f->mux, take(f) & 1);
        break;
    case FAIL:
        if (take(f) % 8 == 0)
            belfry_mux_fail(f->mux, BELFRY_ERR_CLUSTER, NULL);
        break;
    case CREATED:
    case EVENTS_OF:
    case CANCELED:
    case PROGRESS:
        respond(f, step);
        break;
    case RAW:
        raw(f);
        break;
    case N_STEPS:
        abort();
    }
    take_actions(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz f = {.at = data, .end = data + size, .now = 1};
    struct belfry_mux_opts opts = {.max_revision_bytes = BOUND};
    if (size == 0)
        return 0;
    expect(belfry_mux_create(&opts, &f.mux) == BELFRY_OK);
    while (f.at != f.end)
        one_step(&f);
    for (uint8_t i = 0; i < WATCHES; i++)
        remove_one(&f, i);
    expect(belfry_mux_held_bytes(f.mux) == 0 && belfry_mux_count(f.mux) == 0);
    belfry_mux_destroy(f.mux);
    return 0;
}
