/* recorder: writes down everything that the watches of one session are given, for a checker to judge afterwards.
 *
 *     recorder ENDPOINTS RECORD [NAME=VALUE ...]        the pairs are options of the session
 *
 * It obeys one command a line on stdin and answers each with one line on stdout, "ok ..." or "no ...". Keys are in hex,
 * "-" being the empty one.
 *
 *     watch N KIND KEY END [NAME=VALUE ...]    opens watch number N; KIND is key, prefix, from or interval
 *     follow N KIND KEY END [NAME=VALUE ...]
 *     many FIRST COUNT PREFIX [NAME=VALUE ...] watches FIRST, FIRST+1, ... each of the one key PREFIX%06u
 *     pause N | resume N | close N             pause takes effect with the next batch
 *     progress | stats | quit
 *     status [N]                               N:STATE:REV:EVENTS:PLACE:MEMBER:ERR for one watch or for all
 *     created N                                later prints "!created N US" when N watches have been created
 *     until REV                                later prints "!until REV US" when each watch has an event above REV
 *
 * The record is text, one line a thing, all times in microseconds of CLOCK_MONOTONIC:
 *
 *     O watch us                                              opened
 *     B watch kind rev n part last us hdr_rev member cluster  a batch, followed by its n events; kind is C S Y P or N
 *     E op key len crc create mod version lease prev delay    op is P or D; prev is - or
 * len,crc,create,mod,version,lease L watch us why                                          BELFRY_LINK X watch us err
 * compact_rev rev why                      BELFRY_END Z watch us | R watch us | K watch us                    paused,
 * resumed, closed
 *
 * A key of up to 64 bytes is in hex, a longer one is *len,crc. delay is now minus the time that the value begins with
 * ("@nanoseconds;"), or - when it begins otherwise.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <belfry/belfry.h>

#include "commands.h"
#include "now.h"

#define WATCHES_MAX   20000
#define WORDS_MAX     24
#define COMMAND_BYTES (1 << 20) /* a key of 100,000 bytes is 200,000 in hex */
#define KEY_HEX_MAX   64

/* none -> open -> pausing -> paused -> open; any of them -> ended or closed */
enum state { NONE, OPEN, PAUSING, PAUSED, ENDED, CLOSED };
static const char *const state_names[] = {"none", "open", "pausing", "paused", "ended", "closed"};

struct watch {
    struct belfry_watch *handle; /* NULL once ended or closed */
    enum state state;
    int64_t rev;   /* of the newest event whose revision is here whole */
    int64_t place; /* of the newest batch */
    uint64_t n_events;
    uint64_t member_id; /* that the newest batch came from */
    int err;            /* ENDED: why */
};

/* The program is one session and its watches, so they are plain globals. */
static struct belfry *session;
static struct watch watches[WATCHES_MAX];
static size_t n_watches; /* highest number used, plus one */
static size_t n_live;    /* neither ended nor closed */
static FILE *record;
static uint64_t created_goal; /* 0: none */
static int64_t until_rev;     /* 0: none */
static size_t n_until;        /* live watches that have an event above until_rev */
static bool quitting;

static int64_t now_us(void)
{
    return now_ns() / 1000;
}

/* ---- the record ---- */

static uint32_t crc_table[256];

static void crc_init(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = (c >> 1) ^ (c & 1 ? 0xEDB88320U : 0);
        crc_table[i] = c;
    }
}

static uint32_t crc(struct belfry_bytes b)
{
    uint32_t c = 0xFFFFFFFFU;
    for (size_t i = 0; i < b.len; i++)
        c = crc_table[(c ^ (unsigned char)b.data[i]) & 0xFF] ^ (c >> 8);
    return c ^ 0xFFFFFFFFU;
}

static void put_key(struct belfry_bytes key)
{
    if (key.len > KEY_HEX_MAX) {
        fprintf(record, " *%zu,%" PRIu32, key.len, crc(key));
        return;
    }
    char hex[2 * KEY_HEX_MAX + 2] = " -";
    for (size_t i = 0; i < key.len; i++) {
        hex[1 + 2 * i] = "0123456789abcdef"[(unsigned char)key.data[i] >> 4];
        hex[2 + 2 * i] = "0123456789abcdef"[key.data[i] & 15];
        hex[3 + 2 * i] = 0;
    }
    fputs(hex, record);
}

static void put_delay(struct belfry_bytes value, int64_t now)
{
    if (value.len < 3 || value.data[0] != '@') {
        fputs(" -\n", record);
        return;
    }
    int64_t sent = 0;
    for (size_t i = 1; i < value.len && isdigit((unsigned char)value.data[i]); i++)
        sent = sent * 10 + (value.data[i] - '0');
    fprintf(record, " %" PRId64 "\n", (now - sent) / 1000);
}

static void put_event(const struct belfry_event *e, int64_t now)
{
    fputs(e->op == BELFRY_DELETE ? "E D" : "E P", record);
    put_key(e->key);
    fprintf(record, " %zu %" PRIu32 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64, e->value.len, crc(e->value),
            e->create_rev, e->mod_rev, e->version, e->lease);
    if (e->prev.data == NULL)
        fputs(" -", record);
    else
        fprintf(record, " %zu,%" PRIu32 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64, e->prev.len, crc(e->prev),
                e->prev_create_rev, e->prev_mod_rev, e->prev_version, e->prev_lease);
    put_delay(e->value, now);
}

static void put_mark(char what, size_t number)
{
    fprintf(record, "%c %zu %" PRId64 "\n", what, number, now_us());
}

/* ---- batches ---- */

static void leave(struct watch *w, enum state state)
{
    if (until_rev > 0 && w->rev > until_rev)
        n_until--;
    w->handle = NULL;
    w->state = state;
    n_live--;
}

static void note_whole_rev(struct watch *w, int64_t rev)
{
    if (until_rev > 0 && w->rev <= until_rev && rev > until_rev)
        n_until++;
    w->rev = rev;
}

static void take_events(struct watch *w, const struct belfry_batch *batch)
{
    static const char letters[] = {[BELFRY_CHANGES] = 'C',
                                   [BELFRY_STATE] = 'S',
                                   [BELFRY_SYNCED] = 'Y',
                                   [BELFRY_PROGRESS] = 'P',
                                   [BELFRY_CREATED] = 'N'};
    int64_t now = now_ns();
    fprintf(record, "B %zu %c %" PRId64 " %zu %d %d %" PRId64 " %" PRId64 " %" PRIu64 " %" PRIu64 "\n",
            (size_t)(w - watches), letters[batch->kind], batch->rev, batch->n_events, batch->part, batch->last,
            now / 1000, batch->header.revision, batch->header.member_id, batch->header.cluster_id);
    for (const struct belfry_event *e = belfry_batch_next(batch, NULL); e != NULL; e = belfry_batch_next(batch, e)) {
        put_event(e, now);
        if (!batch->part)
            note_whole_rev(w, e->mod_rev);
        w->n_events++;
    }
    w->place = batch->rev;
    w->member_id = batch->header.member_id;
}

static enum belfry_next on_batch(struct belfry_watch *handle, const struct belfry_batch *batch, void *user)
{
    (void)handle;
    struct watch *w = user;
    size_t number = (size_t)(w - watches);
    switch (batch->kind) {
    case BELFRY_LINK:
        fprintf(record, "L %zu %" PRId64 " %s\n", number, now_us(), batch->why);
        return BELFRY_MORE;
    case BELFRY_END:
        fprintf(record, "X %zu %" PRId64 " %s %" PRId64 " %" PRId64 " %s\n", number, now_us(),
                belfry_errname(batch->err), batch->compact_rev, batch->rev, batch->why);
        w->err = batch->err;
        leave(w, ENDED);
        return BELFRY_MORE;
    case BELFRY_CHANGES:
    case BELFRY_STATE:
    case BELFRY_SYNCED:
    case BELFRY_PROGRESS:
    case BELFRY_CREATED:
        break;
    }
    take_events(w, batch);
    if (w->state != PAUSING)
        return BELFRY_MORE;
    w->state = PAUSED;
    put_mark('Z', number);
    return BELFRY_PAUSE;
}

/* ---- commands ---- */

static void say_no(const char *what)
{
    printf("no %s\n", what);
}

static bool unhex(const char *hex, struct belfry_bytes *out)
{
    size_t len = strcmp(hex, "-") == 0 ? 0 : strlen(hex) / 2;
    char *data = malloc(len + 1);
    if (data == NULL)
        return false;
    for (size_t i = 0; i < len; i++) {
        unsigned byte;
        if (sscanf(hex + 2 * i, "%2x", &byte) != 1) {
            free(data);
            return false;
        }
        data[i] = (char)byte;
    }
    *out = (struct belfry_bytes){data, len};
    return true;
}

static void free_bytes(struct belfry_bytes b)
{
    union {
        const char *lent;
        char *owned;
    } data = {b.data}; /* unhex() made it */
    free(data.owned);
}

static int set_options(struct belfry_opts **opts, char **pairs, int n)
{
    for (int i = 0; i < n; i++) {
        char *eq = strchr(pairs[i], '=');
        if (eq != NULL)
            *eq = 0;
        int err = belfry_opts_set(opts, pairs[i], eq != NULL ? eq + 1 : NULL);
        if (err) {
            fprintf(stderr, "recorder: %s\n", belfry_opts_why(*opts));
            return err;
        }
    }
    return BELFRY_OK;
}

static int range_kind(const char *name)
{
    static const char *const names[] = {
        [BELFRY_KEY] = "key", [BELFRY_PREFIX] = "prefix", [BELFRY_FROM] = "from", [BELFRY_INTERVAL] = "interval"};
    for (int i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

typedef int (*open_fn)(struct belfry *, struct belfry_range, const struct belfry_opts *, belfry_batch_fn, void *,
                       struct belfry_watch **);

static int open_one(open_fn open, size_t number, struct belfry_range range, const struct belfry_opts *opts)
{
    if (number >= WATCHES_MAX || watches[number].handle != NULL)
        return BELFRY_ERR_INVALID;
    struct watch *w = &watches[number];
    struct belfry_watch *handle;
    int err = open(session, range, opts, on_batch, w, &handle);
    if (err)
        return err;
    *w = (struct watch){.handle = handle, .state = OPEN};
    n_live++;
    if (number >= n_watches)
        n_watches = number + 1;
    put_mark('O', number);
    return BELFRY_OK;
}

/* watch N KIND KEY END [NAME=VALUE ...] */
static void do_open(open_fn open, char **words, int n)
{
    struct belfry_opts *opts = NULL;
    struct belfry_bytes key = {0}, end = {0};
    int err = BELFRY_ERR_INVALID;
    if (n < 5 || range_kind(words[2]) < 0 || !unhex(words[3], &key) || !unhex(words[4], &end))
        goto out;
    err = set_options(&opts, words + 5, n - 5);
    if (err)
        goto out;
    struct belfry_range range = {key, end, (enum belfry_range_kind)range_kind(words[2])};
    err = open_one(open, strtoul(words[1], NULL, 10), range, opts);
out:
    if (err)
        say_no(belfry_errname(err));
    else
        puts("ok");
    belfry_opts_free(opts);
    free_bytes(key);
    free_bytes(end);
}

/* many FIRST COUNT PREFIX [NAME=VALUE ...] */
static void do_many(char **words, int n)
{
    struct belfry_opts *opts = NULL;
    int err = n < 4 ? BELFRY_ERR_INVALID : set_options(&opts, words + 4, n - 4);
    size_t first = n < 4 ? 0 : strtoul(words[1], NULL, 10), count = n < 4 ? 0 : strtoul(words[2], NULL, 10);
    int64_t start = now_us();
    for (size_t i = first; !err && i < first + count; i++) {
        char key[128];
        snprintf(key, sizeof(key), "%s%06zu", words[3], i);
        err = open_one(belfry_watch_open, i, belfry_key(key), opts);
    }
    if (err)
        say_no(belfry_errname(err));
    else
        printf("ok %" PRId64 "\n", start);
    belfry_opts_free(opts);
}

static void do_change(const char *verb, struct watch *w)
{
    size_t number = (size_t)(w - watches);
    if (w->handle == NULL) {
        say_no("not open");
        return;
    }
    if (*verb == 'p') {
        w->state = PAUSING;
    } else if (*verb == 'r') {
        put_mark('R', number);
        w->state = OPEN;
        belfry_watch_resume(w->handle);
    } else {
        put_mark('K', number);
        belfry_watch_close(w->handle);
        leave(w, CLOSED);
    }
    puts("ok");
}

static void print_status(size_t i)
{
    const struct watch *w = &watches[i];
    printf(" %zu:%s:%" PRId64 ":%" PRIu64 ":%" PRId64 ":%" PRIu64 ":%s", i, state_names[w->state], w->rev, w->n_events,
           w->place, w->member_id, belfry_errname(w->err));
}

static void do_status(char **words, int n)
{
    fputs("ok", stdout);
    size_t first = n > 1 ? strtoul(words[1], NULL, 10) : 0;
    for (size_t i = first; i < n_watches && (n == 1 || i == first); i++)
        print_status(i);
    putchar('\n');
}

static void do_stats(void)
{
    const struct belfry_stats *s = belfry_get_stats(session);
    printf("ok connects=%" PRIu64 " losses=%" PRIu64 " resumes=%" PRIu64 " creates=%" PRIu64 " parked=%" PRIu64
           " lists=%" PRIu64 " events=%" PRIu64 " stale_events=%" PRIu64 " held_bytes=%" PRIu64 " log_ins=%" PRIu64
           "\n",
           s->connects, s->losses, s->resumes, s->creates, s->parked, s->lists, s->events, s->stale_events,
           s->held_bytes, s->log_ins);
}

static void do_until(int64_t rev)
{
    until_rev = rev;
    n_until = 0;
    for (size_t i = 0; i < n_watches; i++)
        n_until += watches[i].handle != NULL && watches[i].rev > rev;
    puts("ok");
}

static struct watch *named_watch(char **words, int n)
{
    size_t number = n > 1 ? strtoul(words[1], NULL, 10) : WATCHES_MAX;
    return &watches[number < WATCHES_MAX ? number : WATCHES_MAX - 1];
}

static void obey(char *line)
{
    char *words[WORDS_MAX];
    int n = 0;
    for (char *w = strtok(line, " \n"); w != NULL && n < WORDS_MAX; w = strtok(NULL, " \n"))
        words[n++] = w;
    if (n == 0)
        return;
    const char *verb = words[0];
    if (strcmp(verb, "watch") == 0)
        do_open(belfry_watch_open, words, n);
    else if (strcmp(verb, "follow") == 0)
        do_open(belfry_follow_open, words, n);
    else if (strcmp(verb, "many") == 0)
        do_many(words, n);
    else if (strcmp(verb, "pause") == 0 || strcmp(verb, "resume") == 0 || strcmp(verb, "close") == 0)
        do_change(verb, named_watch(words, n));
    else if (strcmp(verb, "progress") == 0)
        printf("%s\n", belfry_request_progress(session) ? "no" : "ok");
    else if (strcmp(verb, "stats") == 0)
        do_stats();
    else if (strcmp(verb, "status") == 0)
        do_status(words, n);
    else if (strcmp(verb, "created") == 0 && n > 1)
        printf("ok %" PRIu64 "\n", created_goal = strtoull(words[1], NULL, 10));
    else if (strcmp(verb, "until") == 0 && n > 1)
        do_until(strtoll(words[1], NULL, 10));
    else if (strcmp(verb, "quit") == 0)
        quitting = true;
    else
        say_no("such command");
}

/* End of input is "quit". */
static void read_commands(void)
{
    static char buf[COMMAND_BYTES];
    static struct commands in = {.buf = buf, .size = sizeof(buf)};
    commands_read(&in, obey, &quitting);
    fflush(stdout);
}

static void check_goals(void)
{
    if (created_goal > 0 && belfry_get_stats(session)->creates >= created_goal) {
        printf("!created %" PRIu64 " %" PRId64 "\n", created_goal, now_us());
        created_goal = 0;
        fflush(stdout);
    }
    if (until_rev > 0 && n_until == n_live) {
        printf("!until %" PRId64 " %" PRId64 "\n", until_rev, now_us());
        until_rev = 0;
        fflush(stdout);
    }
}

static int loop(void)
{
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = belfry_fd(session), .events = POLLIN}};
    while (!quitting) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return 1;
        if (fds[0].revents)
            read_commands();
        if (fds[1].revents && belfry_dispatch(session) != BELFRY_OK)
            return 1;
        check_goals();
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: recorder ENDPOINTS RECORD [NAME=VALUE ...]\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    crc_init();
    record = fopen(argv[2], "w");
    if (record == NULL) {
        fprintf(stderr, "recorder: %s: %s\n", argv[2], strerror(errno));
        return 1;
    }
    struct belfry_opts *opts = NULL;
    char why[256] = "";
    int err = set_options(&opts, argv + 3, argc - 3);
    if (!err)
        err = belfry_open_why(argv[1], opts, &session, why, sizeof(why));
    belfry_opts_free(opts);
    if (err) {
        fprintf(stderr, "recorder: %s: %s\n", belfry_errname(err), why);
        return 1;
    }
    puts("ok");
    fflush(stdout);
    int status = loop();
    belfry_close(session);
    if (fclose(record) != 0)
        status = 1;
    return status;
}
