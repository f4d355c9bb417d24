/* src/daemon/logger.c */
#include "daemon/logger.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/utf8.h"

#define LINE_BYTES  4096 /* belfry_logf() gives 639 bytes, which JSON makes 3,834 of at worst */
#define END_ROOM    4    /* what closes a line always fits */
#define EVENT_BYTES 48
#define BURST       10 /* lines of one event in a second */
#define N_EVENTS    64

/* How often an event has come in the second it came last. */
struct tally {
    char event[EVENT_BYTES];
    uint64_t second;
    uint32_t n_lines;
    uint32_t n_held;
    enum belfry_log_level level; /* of the last one held */
};

struct logger {
    /* fixed at creation, but for log.level, which is atomic */
    struct belfry_log log;
    int fd;
    bool is_json, is_journal; /* journal: <N> before the line, and no time */
    logger_clock_fn clock;
    void *clock_user;
    struct log_lines lines; /* has a lock of its own */
    /* under mu */
    pthread_mutex_t mu;
    struct tally tallies[N_EVENTS];
    size_t n_tallies;
    size_t n_holding; /* tallies with n_held > 0 */
};

/* ---- a line ---- */

struct line {
    char bytes[LINE_BYTES];
    size_t len;
};

/* Appends what fits whole. */
static void line_put(struct line *line, const char *data, size_t len)
{
    if (len > LINE_BYTES - END_ROOM - line->len)
        return;
    memcpy(line->bytes + line->len, data, len);
    line->len += len;
}

__attribute__((format(printf, 2, 3))) static void line_putf(struct line *line, const char *format, ...)
{
    char piece[128];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(piece, sizeof(piece), format, args);
    va_end(args);
    line_put(line, piece, (size_t)len < sizeof(piece) ? (size_t)len : sizeof(piece) - 1);
}

enum escapes { ESCAPES_NONE, ESCAPES_BACKSLASH };

/* In JSON. With ESCAPES_BACKSLASH, a backslash before a quote or another one is not part of the text. */
static void line_put_string(struct line *line, const char *text, size_t len, enum escapes escapes)
{
    line_put(line, "\"", 1);
    while (len > 0) {
        uint32_t code = 0;
        if (escapes == ESCAPES_BACKSLASH && len > 1 && text[0] == '\\' && (text[1] == '"' || text[1] == '\\')) {
            text++;
            len--;
        }
        size_t n = belfry_utf8_next(text, len, &code), used = n == 0 ? 1 : n;
        if (n == 0) {
            line_put(line, "\\ufffd", 6);
        } else if (code == '"' || code == '\\') {
            char pair[2] = {'\\', (char)code};
            line_put(line, pair, 2);
        } else if (code < 0x20 || code == 0x7f) {
            line_putf(line, "\\u%04x", (unsigned)code);
        } else {
            line_put(line, text, n);
        }
        text += used;
        len -= used;
    }
    line_put(line, "\"", 1);
}

static void line_put_name(struct line *line, const char *text, size_t len)
{
    line_put(line, ",", 1);
    line_put_string(line, text, len, ESCAPES_NONE);
    line_put(line, ":", 1);
}

/* A whole number as JSON writes it, and as every reader of JSON keeps it: up to 15 digits. */
static bool is_json_number(const char *text, size_t len)
{
    size_t sign = len > 0 && text[0] == '-';
    size_t n_digits = strspn(text + sign, "0123456789");
    return n_digits > 0 && n_digits <= 15 && sign + n_digits == len && (text[sign] != '0' || (n_digits == 1 && !sign));
}

/* The bytes of a value in quotes, the closing one included. */
static size_t quoted_len(const char *text)
{
    for (size_t i = 1; text[i] != '\0'; i++) {
        if (text[i] == '"')
            return i + 1;
        i += text[i] == '\\' && text[i + 1] != '\0';
    }
    return strlen(text); /* cut */
}

/* Splits key=value pairs as belfry_logf() writes them: in a value in double quotes, quotes and backslashes have a
 * backslash before them. */
static void line_put_pairs(struct line *line, const char *text)
{
    for (text += strspn(text, " "); *text != '\0'; text += strspn(text, " ")) {
        /* what is no pair becomes "msg", with all that follows it */
        size_t len = strcspn(text, "= ");
        if (text[len] != '=' || len == 0) {
            line_put_name(line, "msg", 3);
            line_put_string(line, text, strlen(text), ESCAPES_NONE);
            return;
        }
        line_put_name(line, text, len);
        text += len + 1;

        /* a value in quotes is a text, even "5" */
        if (*text == '"') {
            len = quoted_len(text);
            bool closed = len > 1 && text[len - 1] == '"';
            line_put_string(line, text + 1, len - 1 - closed, ESCAPES_BACKSLASH);
        } else {
            len = strcspn(text, " ");
            if (is_json_number(text, len))
                line_put(line, text, len);
            else
                line_put_string(line, text, len, ESCAPES_NONE);
        }
        text += len;
    }
}

/* The whole line, with its end. A text that belfry_logf() would have cut is cut. */
static void line_format(const struct logger *logger, uint64_t now_ms, enum belfry_log_level level, const char *event,
                        const char *text, struct line *line)
{
    static const char *const level_names[] = {"error", "warn", "info", "debug"};
    static const int journal_levels[] = {3, 4, 6, 7}; /* syslog(3) */
    char ts[32], bounded[BELFRY_LOG_TEXT];
    snprintf(bounded, sizeof(bounded), "%s", text);
    line->len = 0;

    /* the journal has a time of its own */
    time_t seconds = (time_t)(now_ms / 1000);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    size_t n = strftime(ts, sizeof(ts), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(ts + n, sizeof(ts) - n, ".%03uZ", (unsigned)(now_ms % 1000));
    if (logger->is_journal)
        line_putf(line, "<%d>", journal_levels[level]);

    if (logger->is_json) {
        line_put(line, "{", 1);
        if (!logger->is_journal)
            line_putf(line, "\"ts\":\"%s\",", ts);
        line_putf(line, "\"level\":\"%s\",\"event\":", level_names[level]);
        line_put_string(line, event, strnlen(event, EVENT_BYTES - 1), ESCAPES_NONE);
        line_put_pairs(line, bounded);
        line->bytes[line->len++] = '}';
    } else {
        if (!logger->is_journal)
            line_putf(line, "ts=%s ", ts);
        line_putf(line, "level=%s event=%.*s", level_names[level], EVENT_BYTES - 1, event);
        if (bounded[0] != '\0')
            line_put(line, " ", 1);
        for (const char *at = bounded; *at != '\0'; at++)
            line_put(line, (unsigned char)*at < 0x20 || *at == 0x7f ? "?" : at, 1);
    }
    line->bytes[line->len++] = '\n';
}

/* One write, so that a line is whole. What cannot be written (a full or closed pipe) is lost. */
static void write_line(struct logger *logger, uint64_t now_ms, enum belfry_log_level level, const char *event,
                       const char *text)
{
    struct line line;
    line_format(logger, now_ms, level, event, text, &line);
    log_lines_add(&logger->lines, now_ms, level, event, text);
    while (write(logger->fd, line.bytes, line.len) < 0 && errno == EINTR)
        ;
}

/* ---- holding back ---- */

static struct tally *find_tally(struct logger *logger, const char *event)
{
    for (size_t i = 0; i < logger->n_tallies; i++)
        if (strncmp(logger->tallies[i].event, event, EVENT_BYTES - 1) == 0)
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

static uint64_t real_ms(void *user)
{
    (void)user;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

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
    static_assert(LINE_BYTES <= PIPE_BUF, "a line goes into a pipe whole");
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
    logger->is_json = format == CONFIG_JSON;
    logger->is_journal = is_journal(fd);
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
