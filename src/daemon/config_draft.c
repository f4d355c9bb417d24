/* src/daemon/config_draft.c */
#include "daemon/config_draft.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "daemon/config_listen.h"
#include "daemon/config_resource.h"
#include "kfollow/resource_set.h"
#include "server/cors.h"

#define MISTAKE_MAX 1024

enum belfry_err config_draft_wrong(const struct config_draft *draft, const struct belfry_opt_row *row,
                                   struct config_origin origin, const char *format, ...)
{
    char label[BELFRY_OPT_ENV_NAME], text[MISTAKE_MAX];
    draft->faults->n++;
    if (row != NULL && row->id < N_CONFIG_KEYS)
        draft->faults->keys |= UINT64_C(1) << row->id;
    fputs("belfryd: ", draft->err);
    if (origin.source == CONFIG_FROM_FILE)
        fprintf(draft->err, "%s:%zu: ", draft->file, origin.line);
    if (row != NULL && origin.source == CONFIG_FROM_ENVIRONMENT) {
        belfry_opt_env_name(config_table.env[0], row->name, label);
        fprintf(draft->err, "%s: ", label);
    } else if (row != NULL)
        fprintf(draft->err, "%s%s: ", origin.source == CONFIG_FROM_FLAG ? "--" : "", row->name);
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

/* ---- lists ---- */

/* The array with n_items more behind its *n; NULL: no memory, and the array is as it was. */
static void *with_more(void *array, size_t *n, const void *items, size_t n_items, size_t size)
{
    char *more = realloc(array, (*n + n_items) * size);
    if (more == NULL)
        return NULL;
    memcpy(more + *n * size, items, n_items * size);
    *n += n_items;
    return more;
}

static void drop_texts(char ***texts, size_t *n)
{
    for (size_t i = 0; i < *n; i++)
        free((*texts)[i]);
    free(*texts);
    *texts = NULL;
    *n = 0;
}

static void drop_listen(struct config *config)
{
    for (size_t i = 0; i < config->n_listen; i++)
        config_listen_fini(&config->listen[i]);
    free(config->listen);
    config->listen = NULL;
    config->n_listen = 0;
}

static void drop_resources(struct config *config)
{
    for (size_t i = 0; i < config->resources.n; i++)
        config_resource_fini(&config->resources.all[i]);
    free(config->resources.all);
    config->resources.all = NULL;
    config->resources.n = 0;
}

static char **text_of(struct config *config, const struct belfry_opt_row *row)
{
    return (char **)(void *)((char *)config + row->offset);
}

void config_drop(struct config *config, enum config_key key)
{
    const struct belfry_opt_row *row = &config_rows[key];
    if (key == KEY_UPSTREAM) {
        free(config->upstream);
        config->upstream = NULL;
        config->n_upstream = 0;
    } else if (key == KEY_LISTEN)
        drop_listen(config);
    else if (key == KEY_RESOURCES)
        drop_resources(config);
    else if (key == KEY_ALLOWED_HOSTS)
        drop_texts(&config->allowed_hosts, &config->n_allowed_hosts);
    else if (key == KEY_CORS_ORIGINS)
        drop_texts(&config->cors_origins, &config->n_cors_origins);
    else if (key == KEY_SCOPE)
        drop_texts(&config->scope, &config->n_scope);
    else if (key == KEY_FOLLOW)
        drop_texts(&config->follow, &config->n_follow);
    else if (row->kind == BELFRY_KIND_TEXT && row->width > 0) {
        free(*text_of(config, row));
        *text_of(config, row) = NULL;
    }
}

void config_draft_begin(struct config_draft *draft, const struct belfry_opt_row *row, struct config_origin origin)
{
    struct config_origin *now = &draft->origin[row->id];
    if (config_row_is_list(row) && now->source != origin.source)
        config_drop(draft->config, (enum config_key)row->id);
    *now = origin;
}

static enum belfry_err add_upstream(struct config_draft *draft, const struct belfry_opt_row *row,
                                    struct config_origin origin, const char *text)
{
    struct config *config = draft->config;
    struct belfry_endpoint *more, *all;
    size_t n_more;
    char why[CONFIG_WHY];
    enum belfry_err err = belfry_endpoint_parse_list(text, &more, &n_more, why, sizeof(why));
    if (err == BELFRY_ERR_INVALID)
        return config_draft_wrong(draft, row, origin, "%s", why);
    if (err != BELFRY_OK)
        return err;
    if (n_more > CONFIG_LIST_MAX - config->n_upstream)
        err =
            config_draft_wrong(draft, row, origin, "more than %d of them: name some members, not all", CONFIG_LIST_MAX);
    else if ((all = with_more(config->upstream, &config->n_upstream, more, n_more, sizeof(*more))) == NULL)
        err = BELFRY_ERR_NOMEM;
    else
        config->upstream = all;
    free(more);
    return err;
}

enum belfry_err config_draft_listen(struct config_draft *draft, struct config_origin origin,
                                    struct config_listen *listen)
{
    struct config *config = draft->config;
    const struct belfry_opt_row *row = &config_rows[KEY_LISTEN];
    struct config_listen *all;
    enum belfry_err err = BELFRY_OK;
    config_draft_begin(draft, row, origin);
    if (config->n_listen == CONFIG_LIST_MAX)
        err = config_draft_wrong(draft, row, origin, "more than %d of them", CONFIG_LIST_MAX);
    else if ((all = with_more(config->listen, &config->n_listen, listen, 1, sizeof(*listen))) == NULL)
        err = BELFRY_ERR_NOMEM;
    else
        config->listen = all;
    if (err != BELFRY_OK)
        config_listen_fini(listen);
    return err;
}

enum belfry_err config_draft_resource(struct config_draft *draft, struct config_origin origin,
                                      struct definition_source *resource)
{
    struct config *config = draft->config;
    const struct belfry_opt_row *row = &config_rows[KEY_RESOURCES];
    struct definition_source *all;
    enum belfry_err err = BELFRY_OK;
    config_draft_begin(draft, row, origin);
    if (config->resources.n == CONFIG_LIST_MAX)
        err =
            config_draft_wrong(draft, row, origin, "more than %d of them: name files with a pattern", CONFIG_LIST_MAX);
    else if ((all = with_more(config->resources.all, &config->resources.n, resource, 1, sizeof(*resource))) == NULL)
        err = BELFRY_ERR_NOMEM;
    else
        config->resources.all = all;
    if (err != BELFRY_OK)
        config_resource_fini(resource);
    return err;
}

static enum belfry_err add_text(char ***texts, size_t *n, const char *text, size_t len)
{
    char *copy = strndup(text, len), **all = copy == NULL ? NULL : with_more(*texts, n, &copy, 1, sizeof(copy));
    if (all == NULL) {
        free(copy);
        return BELFRY_ERR_NOMEM;
    }
    *texts = all;
    return BELFRY_OK;
}

static enum belfry_err add_hosts(struct config_draft *draft, const struct belfry_opt_row *row,
                                 struct config_origin origin, const char *text)
{
    static const char legal[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    struct config *config = draft->config;
    enum belfry_err err = BELFRY_OK;
    size_t len;
    const char *name;
    while (err == BELFRY_OK && (name = belfry_value_item(&text, ",", &len)) != NULL) {
        bool is_star = len == 1 && name[0] == '*';
        if (!is_star && (len == 0 || len > 253 || strspn(name, legal) < len))
            err = config_draft_wrong(draft, row, origin,
                                     "'%.*s' is not a host's name: write it without scheme and port, or *",
                                     (int)(len < BELFRY_OPT_SHOWN ? len : BELFRY_OPT_SHOWN), name);
        else if (config->n_allowed_hosts == CONFIG_LIST_MAX)
            err = config_draft_wrong(draft, row, origin, "more than %d of them: write * to allow every name",
                                     CONFIG_LIST_MAX);
        else
            err = add_text(&config->allowed_hosts, &config->n_allowed_hosts, name, len);
    }
    return err;
}

static enum belfry_err add_origins(struct config_draft *draft, const struct belfry_opt_row *row,
                                   struct config_origin origin, const char *text)
{
    struct config *config = draft->config;
    enum belfry_err err = BELFRY_OK;
    size_t len;
    const char *item, *wrong;
    while (err == BELFRY_OK && (item = belfry_value_item(&text, ",", &len)) != NULL) {
        if ((wrong = cors_origin_wrong(belfry_bytes_of(item, len))) != NULL)
            err = config_draft_wrong(draft, row, origin, "'%.*s' %s",
                                     (int)(len < BELFRY_OPT_SHOWN ? len : BELFRY_OPT_SHOWN), item, wrong);
        else if (config->n_cors_origins == CONFIG_LIST_MAX)
            err = config_draft_wrong(draft, row, origin, "more than %d of them", CONFIG_LIST_MAX);
        else
            err = add_text(&config->cors_origins, &config->n_cors_origins, item, len);
    }
    return err;
}

static bool is_followed(const struct config *config, const struct resource_name *name)
{
    struct resource_name other;
    for (size_t i = 0; i < config->n_follow; i++)
        if (resource_name_read(config->follow[i], &other) && resource_name_same(&other, name))
            return true;
    return false;
}

static enum belfry_err add_follow(struct config_draft *draft, const struct belfry_opt_row *row,
                                  struct config_origin origin, const char *text)
{
    struct config *config = draft->config;
    enum belfry_err err = BELFRY_OK;
    size_t len;
    const char *item;
    while (err == BELFRY_OK && (item = belfry_value_item(&text, ",", &len)) != NULL) {
        char copy[2 * RESOURCE_NAME_MAX];
        struct resource_name name;
        int shown = (int)(len < BELFRY_OPT_SHOWN ? len : BELFRY_OPT_SHOWN);
        snprintf(copy, sizeof(copy), "%.*s", (int)(len < sizeof(copy) ? len : sizeof(copy) - 1), item);
        if (!resource_name_read(copy, &name))
            err = config_draft_wrong(draft, row, origin,
                                     "'%.*s' is not a resource: write PLURAL, PLURAL.GROUP or PLURAL.VERSION.GROUP",
                                     shown, item);
        else if (is_followed(config, &name))
            err = config_draft_wrong(draft, row, origin, "'%.*s' is there twice: keep one", shown, item);
        else if (config->n_follow == RESOURCE_SET_MAX)
            err = config_draft_wrong(draft, row, origin, "more than %d of them: start a second belfryd",
                                     RESOURCE_SET_MAX);
        else
            err = add_text(&config->follow, &config->n_follow, item, len);
    }
    return err;
}

static enum belfry_err add_scope(struct config_draft *draft, const struct belfry_opt_row *row,
                                 struct config_origin origin, const char *text)
{
    struct config *config = draft->config;
    if (*text == '\0') /* every key begins with this */
        return BELFRY_OK;
    if (config->n_scope == 1)
        return config_draft_wrong(
            draft, row, origin,
            "one prefix, or everything, can be followed today: give one that holds both, or leave it out");
    return add_text(&config->scope, &config->n_scope, text, strlen(text));
}

/* ---- values ---- */

static enum belfry_err set_admin(struct config_draft *draft, const char *text, char why[CONFIG_WHY])
{
    struct config_listen listen;
    enum belfry_err err = config_listen_parse(text, &listen, why);
    if (err != BELFRY_OK)
        return err;
    draft->config->admin = listen.endpoint;
    config_listen_fini(&listen);
    if (strchr(text, ',') != NULL)
        return config_why(why, "it takes a URL alone, without options");
    if (draft->config->admin.tls)
        return config_why(why, "TLS is not served here: use http on loopback, or unix:///PATH");
    return BELFRY_OK;
}

static enum belfry_err set_text(struct config *config, const struct belfry_opt_row *row, const char *text)
{
    char *copy = NULL;
    if (*text != '\0' && (copy = strdup(text)) == NULL)
        return BELFRY_ERR_NOMEM;
    free(*text_of(config, row));
    *text_of(config, row) = copy;
    return BELFRY_OK;
}

static enum belfry_err set_number(struct config *config, const struct belfry_opt_row *row, const char *text,
                                  char why[CONFIG_WHY])
{
    uint64_t number;
    enum belfry_err err = belfry_opt_read(row, text, &number, why);
    if (err == BELFRY_OK)
        belfry_opt_store(row, config, number);
    return err;
}

/* Errors: BELFRY_ERR_INVALID (a sentence in why, or "" when it was told), BELFRY_ERR_NOMEM. */
static enum belfry_err set_value(struct config_draft *draft, const struct belfry_opt_row *row,
                                 struct config_origin origin, const char *text, char why[CONFIG_WHY])
{
    struct config_listen listen;
    struct definition_source resource;
    enum belfry_err err;
    if (row->id == KEY_ADMIN)
        return set_admin(draft, text, why);
    if (row->id == KEY_UPSTREAM)
        return add_upstream(draft, row, origin, text);
    if (row->id == KEY_ALLOWED_HOSTS)
        return add_hosts(draft, row, origin, text);
    if (row->id == KEY_CORS_ORIGINS)
        return add_origins(draft, row, origin, text);
    if (row->id == KEY_FOLLOW)
        return add_follow(draft, row, origin, text);
    if (row->id == KEY_SCOPE)
        return add_scope(draft, row, origin, text);
    if (row->id == KEY_LISTEN) {
        err = config_listen_parse(text, &listen, why);
        return err == BELFRY_OK ? config_draft_listen(draft, origin, &listen) : err;
    }
    if (row->id == KEY_RESOURCES) {
        if (*text == '\0') /* none */
            return BELFRY_OK;
        err = config_resource_parse(text, &resource, why);
        return err == BELFRY_OK ? config_draft_resource(draft, origin, &resource) : err;
    }
    return row->kind == BELFRY_KIND_TEXT ? set_text(draft->config, row, text)
                                         : set_number(draft->config, row, text, why);
}

enum belfry_err config_draft_set(struct config_draft *draft, const struct belfry_opt_row *row,
                                 struct config_origin origin, const char *text)
{
    size_t len = strlen(text);
    char why[CONFIG_WHY] = "";
    if (len >= CONFIG_TEXT_MAX)
        return config_draft_wrong(draft, row, origin, "the value is longer than %d bytes", CONFIG_TEXT_MAX - 1);
    if (!belfry_utf8_valid(text, len))
        return config_draft_wrong(draft, row, origin, "the value is not UTF-8");
    config_draft_begin(draft, row, origin);
    enum belfry_err err = set_value(draft, row, origin, text, why);
    if (err == BELFRY_ERR_INVALID && why[0] != '\0')
        return config_draft_wrong(draft, row, origin, "%s", why);
    return err;
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

enum belfry_err config_draft_defaults(struct config_draft *draft)
{
    const struct config_origin origin = {.source = CONFIG_FROM_DEFAULT};
    enum belfry_err err = BELFRY_OK;
    for (enum config_key key = 0; key < N_CONFIG_KEYS && err == BELFRY_OK; key++) {
        char text[CONFIG_TEXT_MAX] = "";
        const struct belfry_opt_row *row = &config_rows[key];
        if (key == KEY_CACHE_DIR)
            default_cache_dir(text, sizeof(text));
        else if (key == KEY_NAME && (gethostname(text, 254) != 0 || *text == '\0'))
            snprintf(text, sizeof(text), "belfryd");
        err = config_draft_set(draft, row, origin, row->fallback != NULL ? row->fallback : text);
    }
    return err;
}
