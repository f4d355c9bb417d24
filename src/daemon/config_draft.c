/* src/daemon/config_draft.c */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/config_private.h"
#include "daemon/utf8.h"

#define SHOWN       64 /* bytes of a wrong value that are shown again */
#define MISTAKE_MAX 1024

enum belfry_err config_wrong(const struct config_draft *draft, const struct config_row *row,
                             struct config_origin origin, const char *format, ...)
{
    char env[CONFIG_ENV_NAME];
    fputs("belfryd: ", draft->err);
    switch (origin.source) {
    case CONFIG_FROM_DEFAULT:
        fprintf(draft->err, "%s: ", row->name);
        break;
    case CONFIG_FROM_FILE:
        fprintf(draft->err, "%s:%zu: ", draft->file, origin.line);
        if (row != NULL)
            fprintf(draft->err, "%s: ", row->name);
        break;
    case CONFIG_FROM_ENVIRONMENT:
        config_env_name(row, env);
        fprintf(draft->err, "%s: ", env);
        break;
    case CONFIG_FROM_FLAG:
        if (row != NULL)
            fprintf(draft->err, "--%s: ", row->name);
        break;
    }
    char text[MISTAKE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    for (char *at = text; *at != '\0'; at++) /* what was given may hold anything, and a mistake is one line */
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            *at = '?';
    fprintf(draft->err, "%s\n", text);
    return BELFRY_ERR_INVALID;
}

/* ---- scalars ---- */

static void *field(const struct config_draft *draft, const struct config_row *row)
{
    return (char *)draft->config + row->offset;
}

static enum belfry_err out_of_range(const struct config_draft *draft, const struct config_row *row,
                                    struct config_origin origin, const char *text)
{
    char least[CONFIG_NUMBER], most[CONFIG_NUMBER];
    uint64_t unit = row->kind == CONFIG_KIND_SECONDS ? 1000 : 1;
    if (row->kind == CONFIG_KIND_SIZE) {
        config_write_size(row->least, least);
        config_write_size(row->most, most);
    } else if (row->kind == CONFIG_KIND_COUNT) {
        snprintf(least, sizeof(least), "%" PRIu64, row->least);
        snprintf(most, sizeof(most), "%" PRIu64, row->most);
    } else {
        config_write_ms(row->least * unit, least);
        config_write_ms(row->most * unit, most);
    }
    return config_wrong(draft, row, origin, "%.*s is out of range: it goes from %s to %s", SHOWN, text, least, most);
}

static enum belfry_err set_size(struct config_draft *draft, const struct config_row *row, struct config_origin origin,
                                const char *text)
{
    uint64_t value;
    if (!config_read_size(text, &value))
        return config_wrong(draft, row, origin, "'%.*s' is not a size: write 512KiB, 256MiB or 4GiB", SHOWN, text);
    if (value < row->least || value > row->most)
        return out_of_range(draft, row, origin, text);
    *(size_t *)field(draft, row) = (size_t)value;
    return BELFRY_OK;
}

static enum belfry_err set_time(struct config_draft *draft, const struct config_row *row, struct config_origin origin,
                                const char *text)
{
    uint64_t value, unit = row->kind == CONFIG_KIND_SECONDS ? 1000 : 1;
    if (!config_read_ms(text, &value))
        return config_wrong(draft, row, origin, "'%.*s' is not a time: write 500ms, 5s, 10m or 1h30m", SHOWN, text);
    if (value % unit != 0)
        return config_wrong(draft, row, origin, "'%.*s' is not a time in whole seconds", SHOWN, text);
    if (value / unit < row->least || value / unit > row->most)
        return out_of_range(draft, row, origin, text);
    *(uint64_t *)field(draft, row) = value / unit;
    return BELFRY_OK;
}

static enum belfry_err set_count(struct config_draft *draft, const struct config_row *row, struct config_origin origin,
                                 const char *text)
{
    size_t n_digits = strspn(text, "0123456789");
    if (n_digits == 0 || text[n_digits] != '\0')
        return config_wrong(draft, row, origin, "'%.*s' is not a whole number", SHOWN, text);
    uint64_t value = n_digits > 12 ? UINT64_MAX : strtoull(text, NULL, 10);
    if (value < row->least || value > row->most)
        return out_of_range(draft, row, origin, text);
    *(unsigned *)field(draft, row) = (unsigned)value;
    return BELFRY_OK;
}

static enum belfry_err set_bool(struct config_draft *draft, const struct config_row *row, struct config_origin origin,
                                const char *text)
{
    if (!config_read_bool(text, field(draft, row)))
        return config_wrong(draft, row, origin, "'%.*s' is neither true nor false", SHOWN, text);
    return BELFRY_OK;
}

static enum belfry_err set_choice(struct config_draft *draft, const struct config_row *row, struct config_origin origin,
                                  const char *text)
{
    unsigned place = 0;
    size_t len = strlen(text);
    for (const char *at = row->choices; *at != '\0'; place++) {
        size_t n = strcspn(at, "|");
        if (n == len && memcmp(at, text, n) == 0) {
            *(unsigned *)field(draft, row) = place;
            return BELFRY_OK;
        }
        at += n + (at[n] == '|');
    }
    return config_wrong(draft, row, origin, "'%.*s' is not one of %s", SHOWN, text, row->choices);
}

static enum belfry_err set_text(struct config_draft *draft, const struct config_row *row, const char *text)
{
    char *copy = NULL;
    if (*text != '\0' && (copy = strdup(text)) == NULL)
        return BELFRY_ERR_NOMEM;
    char **at = field(draft, row);
    free(*at);
    *at = copy;
    return BELFRY_OK;
}

/* ---- endpoints and lists ---- */

static enum belfry_err set_admin(struct config_draft *draft, const struct config_row *row, struct config_origin origin,
                                 const char *text)
{
    struct config_listen listen;
    char why[CONFIG_WHY];
    enum belfry_err err = config_listen_parse(text, &listen, why);
    if (err == BELFRY_ERR_INVALID)
        return config_wrong(draft, row, origin, "%s", why);
    if (err != BELFRY_OK)
        return err;
    draft->config->admin = listen.endpoint;
    config_listen_fini(&listen);
    if (strchr(text, ',') != NULL)
        return config_wrong(draft, row, origin, "it takes a URL alone, without options");
    if (draft->config->admin.tls)
        return config_wrong(draft, row, origin, "TLS is not served here: use http on loopback, or unix:///PATH");
    return BELFRY_OK;
}

static enum belfry_err add_upstream(struct config_draft *draft, const struct config_row *row,
                                    struct config_origin origin, const char *text)
{
    struct config *config = draft->config;
    struct belfry_endpoint *more;
    size_t n_more;
    char why[CONFIG_WHY];
    enum belfry_err err = belfry_endpoint_parse_list(text, &more, &n_more, why, sizeof(why));
    if (err == BELFRY_ERR_INVALID)
        return config_wrong(draft, row, origin, "%s", why);
    if (err != BELFRY_OK)
        return err;
    struct belfry_endpoint *all = NULL;
    if (n_more > CONFIG_LIST_MAX - config->n_upstream)
        err = config_wrong(draft, row, origin, "more than %d of them: name some members, not all", CONFIG_LIST_MAX);
    else if ((all = realloc(config->upstream, (config->n_upstream + n_more) * sizeof(*all))) == NULL)
        err = BELFRY_ERR_NOMEM;
    if (all != NULL) {
        memcpy(all + config->n_upstream, more, n_more * sizeof(*more));
        config->upstream = all;
        config->n_upstream += n_more;
    }
    free(more);
    return err;
}

enum belfry_err config_draft_listen(struct config_draft *draft, struct config_origin origin,
                                    struct config_listen *listen)
{
    struct config *config = draft->config;
    const struct config_row *row = &config_rows[KEY_LISTEN];
    enum belfry_err err = BELFRY_OK;
    struct config_listen *all = NULL;
    config_draft_begin(draft, row, origin);
    if (config->n_listen == CONFIG_LIST_MAX)
        err = config_wrong(draft, row, origin, "more than %d of them", CONFIG_LIST_MAX);
    else if ((all = realloc(config->listen, (config->n_listen + 1) * sizeof(*all))) == NULL)
        err = BELFRY_ERR_NOMEM;
    if (err != BELFRY_OK) {
        config_listen_fini(listen);
        return err;
    }
    all[config->n_listen++] = *listen;
    config->listen = all;
    return BELFRY_OK;
}

static enum belfry_err add_listen(struct config_draft *draft, const struct config_row *row, struct config_origin origin,
                                  const char *text)
{
    struct config_listen listen;
    char why[CONFIG_WHY];
    enum belfry_err err = config_listen_parse(text, &listen, why);
    if (err == BELFRY_ERR_INVALID)
        return config_wrong(draft, row, origin, "%s", why);
    return err == BELFRY_OK ? config_draft_listen(draft, origin, &listen) : err;
}

static enum belfry_err add_host(struct config_draft *draft, const struct config_row *row, struct config_origin origin,
                                const char *name, size_t len)
{
    static const char legal[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    struct config *config = draft->config;
    bool is_star = len == 1 && name[0] == '*';
    if (!is_star && (len == 0 || len > 253 || strspn(name, legal) < len))
        return config_wrong(draft, row, origin, "'%.*s' is not a host's name: write it without scheme and port, or *",
                            (int)(len < SHOWN ? len : SHOWN), name);
    if (config->n_allowed_hosts == CONFIG_LIST_MAX)
        return config_wrong(draft, row, origin, "more than %d of them: write * to allow every name", CONFIG_LIST_MAX);
    char **all = realloc(config->allowed_hosts, (config->n_allowed_hosts + 1) * sizeof(*all));
    if (all == NULL)
        return BELFRY_ERR_NOMEM;
    config->allowed_hosts = all;
    if ((all[config->n_allowed_hosts] = strndup(name, len)) == NULL)
        return BELFRY_ERR_NOMEM;
    config->n_allowed_hosts++;
    return BELFRY_OK;
}

static enum belfry_err add_hosts(struct config_draft *draft, const struct config_row *row, struct config_origin origin,
                                 const char *text)
{
    enum belfry_err err = BELFRY_OK;
    while (*text != '\0' && err == BELFRY_OK) {
        size_t len = strcspn(text, ",");
        err = add_host(draft, row, origin, text, len);
        text += len + (text[len] == ',');
    }
    return err;
}

static void clear_hosts(struct config *config)
{
    for (size_t i = 0; i < config->n_allowed_hosts; i++)
        free(config->allowed_hosts[i]);
    free(config->allowed_hosts);
    config->allowed_hosts = NULL;
    config->n_allowed_hosts = 0;
}

static enum belfry_err add_scope(struct config_draft *draft, const struct config_row *row, struct config_origin origin,
                                 const char *text)
{
    struct config *config = draft->config;
    if (*text == '\0') /* every key begins with this */
        return BELFRY_OK;
    if (config->n_scope == 1)
        return config_wrong(
            draft, row, origin,
            "one prefix, or everything, can be followed today: give one that holds both, or leave it out");
    char **scope = calloc(1, sizeof(*scope));
    if (scope == NULL || (scope[0] = strdup(text)) == NULL) {
        free(scope);
        return BELFRY_ERR_NOMEM;
    }
    config->scope = scope;
    config->n_scope = 1;
    return BELFRY_OK;
}

enum belfry_err config_draft_resource(struct config_draft *draft, struct config_origin origin,
                                      struct definition_source *resource)
{
    struct config *config = draft->config;
    const struct config_row *row = &config_rows[KEY_RESOURCES];
    enum belfry_err err = BELFRY_OK;
    struct definition_source *all = NULL;
    config_draft_begin(draft, row, origin);
    if (config->resources.n == CONFIG_LIST_MAX)
        err = config_wrong(draft, row, origin, "more than %d of them: name files with a pattern", CONFIG_LIST_MAX);
    else if ((all = realloc(config->resources.all, (config->resources.n + 1) * sizeof(*all))) == NULL)
        err = BELFRY_ERR_NOMEM;
    if (err != BELFRY_OK) {
        config_resource_fini(resource);
        return err;
    }
    all[config->resources.n++] = *resource;
    config->resources.all = all;
    return BELFRY_OK;
}

static enum belfry_err add_resource(struct config_draft *draft, const struct config_row *row,
                                    struct config_origin origin, const char *text)
{
    struct definition_source resource;
    char why[CONFIG_WHY];
    if (*text == '\0') /* none */
        return BELFRY_OK;
    enum belfry_err err = config_resource_parse(text, &resource, why);
    if (err == BELFRY_ERR_INVALID)
        return config_wrong(draft, row, origin, "%s", why);
    return err == BELFRY_OK ? config_draft_resource(draft, origin, &resource) : err;
}

static void clear_resources(struct config *config)
{
    for (size_t i = 0; i < config->resources.n; i++)
        config_resource_fini(&config->resources.all[i]);
    free(config->resources.all);
    config->resources.all = NULL;
    config->resources.n = 0;
}

static void clear_listen(struct config *config)
{
    for (size_t i = 0; i < config->n_listen; i++)
        config_listen_fini(&config->listen[i]);
    free(config->listen);
    config->listen = NULL;
    config->n_listen = 0;
}

static void clear_scope(struct config *config)
{
    for (size_t i = 0; i < config->n_scope; i++)
        free(config->scope[i]);
    free(config->scope);
    config->scope = NULL;
    config->n_scope = 0;
}

void config_draft_begin(struct config_draft *draft, const struct config_row *row, struct config_origin origin)
{
    struct config *config = draft->config;
    struct config_origin *now = &draft->origin[config_row_key(row)];
    bool same = now->source == origin.source;
    *now = origin;
    if (same)
        return;
    if (row->kind == CONFIG_KIND_UPSTREAM) {
        free(config->upstream);
        config->upstream = NULL;
        config->n_upstream = 0;
    } else if (row->kind == CONFIG_KIND_LISTEN)
        clear_listen(config);
    else if (row->kind == CONFIG_KIND_HOSTS)
        clear_hosts(config);
    else if (row->kind == CONFIG_KIND_SCOPE)
        clear_scope(config);
    else if (row->kind == CONFIG_KIND_RESOURCES)
        clear_resources(config);
}

enum belfry_err config_draft_set(struct config_draft *draft, const struct config_row *row, struct config_origin origin,
                                 const char *text)
{
    size_t len = strlen(text);
    if (len >= CONFIG_TEXT_MAX)
        return config_wrong(draft, row, origin, "the value is longer than %d bytes", CONFIG_TEXT_MAX - 1);
    if (!utf8_valid(text, len))
        return config_wrong(draft, row, origin, "the value is not UTF-8");
    config_draft_begin(draft, row, origin);
    switch (row->kind) {
    case CONFIG_KIND_TEXT:
        return set_text(draft, row, text);
    case CONFIG_KIND_SIZE:
        return set_size(draft, row, origin, text);
    case CONFIG_KIND_MS:
    case CONFIG_KIND_SECONDS:
        return set_time(draft, row, origin, text);
    case CONFIG_KIND_COUNT:
        return set_count(draft, row, origin, text);
    case CONFIG_KIND_BOOL:
        return set_bool(draft, row, origin, text);
    case CONFIG_KIND_CHOICE:
        return set_choice(draft, row, origin, text);
    case CONFIG_KIND_ADMIN:
        return set_admin(draft, row, origin, text);
    case CONFIG_KIND_UPSTREAM:
        return add_upstream(draft, row, origin, text);
    case CONFIG_KIND_LISTEN:
        return add_listen(draft, row, origin, text);
    case CONFIG_KIND_HOSTS:
        return add_hosts(draft, row, origin, text);
    case CONFIG_KIND_SCOPE:
        return add_scope(draft, row, origin, text);
    case CONFIG_KIND_RESOURCES:
        return add_resource(draft, row, origin, text);
    case CONFIG_KIND_ACTION:
        break;
    }
    return BELFRY_ERR_INVALID;
}

/* ---- defaults ---- */

/* What systemd gives, else what the desktop's rules say; left alone when there is no home either. */
static void default_cache_dir(char *out, size_t size)
{
    const char *given = getenv("CACHE_DIRECTORY"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (given != NULL && *given != '\0')
        snprintf(out, size, "%.*s", (int)strcspn(given, ":"), given); /* the unit may name several */
    else if (xdg != NULL && *xdg == '/')                              /* a relative one is to be ignored */
        snprintf(out, size, "%s/belfry", xdg);
    else if (home != NULL && *home != '\0')
        snprintf(out, size, "%s/.cache/belfry", home);
}

static enum belfry_err set_default(struct config_draft *draft, enum config_key key)
{
    char text[CONFIG_TEXT_MAX] = "";
    const struct config_origin origin = {.source = CONFIG_FROM_DEFAULT};
    const struct config_row *row = &config_rows[key];
    if (key == KEY_CACHE_DIR)
        default_cache_dir(text, sizeof(text));
    else if (key == KEY_NAME && (gethostname(text, 254) != 0 || *text == '\0'))
        snprintf(text, sizeof(text), "belfryd");
    return config_draft_set(draft, row, origin, row->fallback != NULL ? row->fallback : text);
}

enum belfry_err config_draft_defaults(struct config_draft *draft)
{
    enum belfry_err err = BELFRY_OK;
    for (enum config_key key = 0; key < N_CONFIG_KEYS && err == BELFRY_OK; key++)
        err = set_default(draft, key);
    return err;
}
