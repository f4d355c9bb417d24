/* src/daemon/reload.c */
#include "daemon/reload.h"

#include <string.h>

#include "daemon/config_print.h"

#define SAID_BYTES  512 /* of what a line says; base/log.h cuts lines at 640 */
#define VALUE_BYTES 128 /* of one value in it */

/* ---- what can change ---- */

static void apply_hosts(struct reload *reload, const struct config *next)
{
    hosts_set(reload->opts.hosts, next->allowed_hosts, next->n_allowed_hosts);
}

static void apply_limits(struct reload *reload, const struct config *next)
{
    limits_set(reload->opts.limits, next);
}

/* The file may have other keys under the same name, so a change is told here. */
static void apply_tickets(struct reload *reload, const struct config *next)
{
    if (!tickets_set(reload->opts.tickets, &next->ticket_keys, (int64_t)next->ticket_time_s))
        return;
    belfry_logf(logger_log(reload->opts.logger), BELFRY_LOG_INFO, "ticket_keys", "keys=%zu", next->ticket_keys.n);
}

static void apply_log_level(struct reload *reload, const struct config *next)
{
    logger_set_level(reload->opts.logger, next->log_level);
}

/* Each setting that is applied without a restart. `next` lives until the next reload has been applied. */
static const struct {
    enum config_key key;
    void (*apply)(struct reload *reload, const struct config *next);
} live[] = {
    {KEY_ALLOWED_HOSTS, apply_hosts}, {KEY_MAX_CONNECTIONS, apply_limits},  {KEY_MAX_WATCHERS, apply_limits},
    {KEY_MAX_CALLS, apply_limits},    {KEY_CLIENT_SHARE, apply_limits},     {KEY_TIER_SHARE, apply_limits},
    {KEY_GREET_TIME, apply_limits},   {KEY_MESSAGE_TIME, apply_limits},     {KEY_UNREAD_TIME, apply_limits},
    {KEY_IDLE_TIME, apply_limits},    {KEY_TICKET_KEY_FILE, apply_tickets}, {KEY_TICKET_TIME, apply_tickets},
    {KEY_LOG_LEVEL, apply_log_level},
};
#define N_LIVE (sizeof(live) / sizeof(live[0]))

static bool is_live(enum config_key key)
{
    for (size_t i = 0; i < N_LIVE; i++)
        if (live[i].key == key)
            return true;
    return false;
}

/* ---- what has changed ---- */

/* A text that grows up to its array; what does not fit is left out. */
struct said {
    char text[SAID_BYTES];
    size_t len;
};

__attribute__((format(printf, 2, 3))) static void say(struct said *said, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(said->text + said->len, sizeof(said->text) - said->len, format, args);
    va_end(args);
    said->len += n < 0 ? 0 : (size_t)n;
    if (said->len >= sizeof(said->text))
        said->len = sizeof(said->text) - 1;
}

static const struct config *in_force(const struct reload *reload)
{
    return reload->is_read ? &reload->last : reload->opts.config;
}

/* Errors: BELFRY_ERR_NOMEM. */
static enum belfry_err differs(const struct config *a, const struct config *b, enum config_key key, bool *out)
{
    struct belfry_buf of_a = {0}, of_b = {0};
    enum belfry_err err = config_write_key(a, key, &of_a);
    if (err == BELFRY_OK)
        err = config_write_key(b, key, &of_b);
    if (err == BELFRY_OK)
        *out = !belfry_bytes_equal(belfry_buf_bytes(&of_a), belfry_buf_bytes(&of_b));
    belfry_buf_fini(&of_a);
    belfry_buf_fini(&of_b);
    return err;
}

static enum belfry_err say_changes(const struct reload *reload, const struct config *next, struct said *said)
{
    const struct config *before = in_force(reload);
    for (size_t i = 0; i < N_LIVE; i++) {
        char from[VALUE_BYTES], to[VALUE_BYTES];
        bool changed;
        enum belfry_err err = differs(before, next, live[i].key, &changed);
        if (err != BELFRY_OK)
            return err;
        if (!changed)
            continue;
        config_show(before, live[i].key, from, sizeof(from));
        config_show(next, live[i].key, to, sizeof(to));
        say(said, "%s%s: %s -> %s", said->len > 0 ? "; " : "", config_rows[live[i].key].name, from, to);
    }
    return BELFRY_OK;
}

/* Settings of the file that are other than at the start. A default that has become another one (the name of the host,
 * the number of CPUs) is no change of the file. */
static enum belfry_err say_needs(const struct reload *reload, const struct config *next, struct said *said)
{
    const struct config *start = reload->opts.config;
    for (enum config_key key = 0; key < N_CONFIG_KEYS; key++) {
        bool changed = false, of_file = ((start->in_file | next->in_file) >> key & 1) != 0;
        enum belfry_err err = of_file && !is_live(key) ? differs(start, next, key, &changed) : BELFRY_OK;
        if (err != BELFRY_OK)
            return err;
        if (changed)
            say(said, "%s%s", said->len > 0 ? ", " : "", config_rows[key].name);
    }
    return BELFRY_OK;
}

/* ---- all of it ---- */

/* What config_load() prints, as a value of a log line: without the program's name, in one line. */
static void log_failure(struct reload *reload, char *mistakes)
{
    static const char name[] = "belfryd: ";
    const char *at = strncmp(mistakes, name, strlen(name)) == 0 ? mistakes + strlen(name) : mistakes;
    mistakes[strcspn(mistakes, "\n")] = '\0';
    belfry_logf(logger_log(reload->opts.logger), BELFRY_LOG_ERROR, "reload_failed",
                "why=\"%s\" hint=\"all settings stay as they were\"", at);
}

/* Errors: as config_load(); told. */
static enum belfry_err read_again(struct reload *reload, struct config *next)
{
    char mistakes[SAID_BYTES] = "out of memory";
    enum config_do ignored;                                     /* --help and its like ended the first reading */
    FILE *told = fmemopen(mistakes, sizeof(mistakes) - 1, "w"); /* a text that fills it has an end, too */
    enum belfry_err err = BELFRY_ERR_NOMEM;
    if (told != NULL) {
        err = config_load(reload->opts.argc, reload->opts.argv, told, told, next, &ignored);
        fclose(told);
    }
    if (err != BELFRY_OK)
        log_failure(reload, mistakes);
    return err;
}

/* The lines are logged at the level that shows more, so that a lower one does not hide its own change. */
static void apply(struct reload *reload, struct config *next, const struct said *changes, const struct said *needs)
{
    const struct belfry_log *log = logger_log(reload->opts.logger);
    if (next->log_level > in_force(reload)->log_level)
        logger_set_level(reload->opts.logger, next->log_level);
    belfry_logf(log, BELFRY_LOG_INFO, "reloaded", "changed=\"%s\"", changes->len > 0 ? changes->text : "nothing");
    if (needs->len > 0)
        belfry_logf(log, BELFRY_LOG_WARN, "restart_needed",
                    "settings=\"%s\" why=\"the file has other values, which are applied at the next start\"",
                    needs->text);
    struct config before = reload->last;
    reload->last = *next;
    reload->is_read = true;
    for (size_t i = 0; i < N_LIVE; i++)
        live[i].apply(reload, &reload->last);
    config_fini(&before);
}

void reload_run(struct reload *reload)
{
    BELFRY_OWNER_CHECK(reload);
    struct config next;
    struct said changes = {.len = 0}, needs = {.len = 0};
    if (read_again(reload, &next) != BELFRY_OK)
        return;
    enum belfry_err err = say_changes(reload, &next, &changes);
    if (err == BELFRY_OK)
        err = say_needs(reload, &next, &needs);
    if (err == BELFRY_OK) {
        apply(reload, &next, &changes, &needs);
        return;
    }
    char why[] = "out of memory";
    log_failure(reload, why);
    config_fini(&next);
}

void reload_init(struct reload *reload, const struct reload_opts *opts)
{
    *reload = (struct reload){.opts = *opts};
    BELFRY_OWNER_INIT(reload);
    apply_hosts(reload, opts->config);
    apply_tickets(reload, opts->config);
}

void reload_fini(struct reload *reload)
{
    BELFRY_OWNER_CHECK(reload);
    config_fini(&reload->last);
}
