/* src/daemon/logger.c */
#include "daemon/logger.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/logline.h"

#define BURST    10 /* lines of one event in a second */
#define N_EVENTS 64

/* How often an event has come in the second it came last. */
struct tally {
    char event[LOGLINE_EVENT];
    uint64_t second;
    uint32_t n_lines;
    uint32_t n_held;
    enum belfry_log_level level; /* of the last one held */
};

struct logger {
    /* fixed at creation, but for log.level, which is atomic */
    struct belfry_log log;
    int fd;
    struct logline_form form;
    logger_clock_fn clock;
    void *clock_user;
    struct log_lines lines; /* has a lock of its own */
    /* under mu */
    pthread_mutex_t mu;
    struct tally tallies[N_EVENTS];
    size_t n_tallies;
    size_t n_holding; /* tallies with n_held > 0 */
};

static uint64_t real_ms(void *user)
{
    (void)user;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* One write, so that a line is whole. What cannot be written (a full or closed pipe) is lost. */
static void write_line(struct logger *logger, uint64_t now_ms, enum belfry_log_level level, const char *event,
                       const char *text)
{
    char line[LOGLINE_MAX];
    size_t len = logline_format(&logger->form, now_ms, level, event, text, line);
    log_lines_add(&logger->lines, now_ms, level, event, text);
    while (write(logger->fd, line, len) < 0 && errno == EINTR)
        ;
}

/* ---- holding back ---- */

static struct tally *find_tally(struct logger *logger, const char *event)
{
    for (size_t i = 0; i < logger->n_tallies; i++)
        if (strncmp(logger->tallies[i].event, event, LOGLINE_EVENT - 1) == 0)
            return &logger->tallies[i];
    if (logger->n_tallies == N_EVENTS)
        return NULL;
    struct tally *tally = &logger->tallies[logger->n_tallies++];
    snprintf(tally->event, sizeof(tally->event), "%s", event);
    return tally;
}

/* Whether this line goes out. A clock that was set back begins a new second too. */
static bool logger_admit(struct logger *logger, uint64_t second, enum belfry_log_level level, const char *event)
{
    struct tally *tally = find_tally(logger, event);
    if (tally == NULL)
        return true;
    if (tally->second != second) {
        tally->second = second;
        tally->n_lines = 0;
    }
    if (tally->n_lines < BURST) {
        tally->n_lines++;
        return true;
    }
    logger->n_holding += tally->n_held == 0;
    tally->n_held++;
    tally->level = level;
    return false;
}

/* Takes one tally whose second is not `second` and that has held something back. */
static bool take_held(struct logger *logger, uint64_t second, struct tally *out)
{
    for (size_t i = 0; i < logger->n_tallies && logger->n_holding > 0; i++) {
        struct tally *tally = &logger->tallies[i];
        if (tally->n_held == 0 || tally->second == second)
            continue;
        *out = *tally;
        tally->n_held = 0;
        logger->n_holding--;
        return true;
    }
    return false;
}

static void tell_held(struct logger *logger, uint64_t now_ms, uint64_t second)
{
    struct tally held;
    char text[32];
    while (true) {
        pthread_mutex_lock(&logger->mu);
        bool found = take_held(logger, second, &held);
        pthread_mutex_unlock(&logger->mu);
        if (!found)
            return;
        snprintf(text, sizeof(text), "held_back=%" PRIu32, held.n_held);
        write_line(logger, now_ms, held.level, held.event, text);
    }
}

static void take_line(enum belfry_log_level level, const char *event, const char *text, void *user)
{
    struct logger *logger = user;
    uint64_t now_ms = logger->clock(logger->clock_user);
    tell_held(logger, now_ms, now_ms / 1000);
    pthread_mutex_lock(&logger->mu);
    bool admitted = logger_admit(logger, now_ms / 1000, level, event);
    pthread_mutex_unlock(&logger->mu);
    if (admitted)
        write_line(logger, now_ms, level, event, text);
}

void logger_tick(struct logger *logger)
{
    uint64_t now_ms = logger->clock(logger->clock_user);
    tell_held(logger, now_ms, now_ms / 1000);
}

/* ---- life ---- */

/* systemd names the journal's socket, which only counts if `fd` is it: stderr may have been sent elsewhere since. */
static bool is_journal(int fd)
{
    const char *stream = getenv("JOURNAL_STREAM");
    uintmax_t device, inode;
    struct stat is;
    return stream != NULL && sscanf(stream, "%ju:%ju", &device, &inode) == 2 && fstat(fd, &is) == 0 &&
           is.st_dev == device && is.st_ino == inode;
}

enum belfry_err logger_create(enum belfry_log_level level, enum config_format format, int fd, struct logger **out)
{
    static_assert(LOGLINE_MAX <= PIPE_BUF, "a line goes into a pipe whole");
    struct logger *logger = calloc(1, sizeof(*logger));
    if (logger == NULL)
        return BELFRY_ERR_NOMEM;
    if (pthread_mutex_init(&logger->mu, NULL) != 0) {
        free(logger);
        return BELFRY_ERR_NOMEM;
    }
    if (log_lines_init(&logger->lines) != BELFRY_OK) {
        pthread_mutex_destroy(&logger->mu);
        free(logger);
        return BELFRY_ERR_NOMEM;
    }
    logger->log.line = take_line;
    logger->log.user = logger;
    logger_set_level(logger, level);
    logger->fd = fd;
    logger->form = (struct logline_form){.json = format == CONFIG_JSON, .journal = is_journal(fd)};
    logger->clock = real_ms;
    *out = logger;
    return BELFRY_OK;
}

void logger_destroy(struct logger *logger)
{
    if (logger == NULL)
        return;
    tell_held(logger, logger->clock(logger->clock_user), UINT64_MAX);
    log_lines_fini(&logger->lines);
    pthread_mutex_destroy(&logger->mu);
    free(logger);
}

const struct belfry_log *logger_log(const struct logger *logger)
{
    return &logger->log;
}

struct log_lines *logger_lines(struct logger *logger)
{
    return &logger->lines;
}

void logger_set_level(struct logger *logger, enum belfry_log_level level)
{
    atomic_store_explicit(&logger->log.level, level, memory_order_relaxed);
}

void logger_set_clock(struct logger *logger, logger_clock_fn clock, void *user)
{
    logger->clock = clock;
    logger->clock_user = user;
}
