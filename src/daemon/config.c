/* src/daemon/config.c: the command line, the environment, and the order of it all. */
#include "daemon/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/config_private.h"
#include "daemon/service.h"
#include "serve/kube/definitions.h"

/* What the command line said, before it is laid over the rest. */
struct command_line {
    int argc;
    char **argv;
    int at;           /* the next word */
    const char *file; /* --config; NULL: none */
    bool asked[N_CONFIG_ROWS];
};

static const struct config_origin from_flag = {.source = CONFIG_FROM_FLAG};

static enum belfry_err unknown_flag(const struct config_draft *draft, const char *name, size_t len, const char *nearest)
{
    int shown = len < 64 ? (int)len : 64;
    if (nearest != NULL)
        return config_wrong(draft, NULL, from_flag, "unknown flag --%.*s: did you mean --%s?", shown, name, nearest);
    return config_wrong(draft, NULL, from_flag, "unknown flag --%.*s: 'belfryd --help' lists them", shown, name);
}

/* The next flag and its value. Errors: BELFRY_ERR_INVALID. */
static enum belfry_err next_flag(const struct config_draft *draft, struct command_line *line,
                                 const struct config_row **row, const char **value)
{
    const char *word = line->argv[line->at++], *nearest;
    if (strcmp(word, "-h") == 0)
        word = "--help";
    if (strncmp(word, "--", 2) != 0)
        return config_wrong(draft, NULL, from_flag,
                            "unexpected '%.64s': flags begin with --; 'belfryd --help' lists them", word);
    const char *name = word + 2;
    size_t len = strcspn(name, "=");
    *row = config_row_named(name, len, &nearest);
    if (*row == NULL)
        return unknown_flag(draft, name, len, nearest);
    *value = name[len] == '=' ? name + len + 1 : NULL;
    if ((*row)->kind == CONFIG_KIND_BOOL && *value == NULL)
        *value = "true";
    if ((*row)->value_name == NULL && (*row)->kind != CONFIG_KIND_BOOL && *value != NULL)
        return config_wrong(draft, *row, from_flag, "it takes no value");
    if ((*row)->value_name == NULL || *value != NULL)
        return BELFRY_OK;
    if (line->at == line->argc)
        return config_wrong(draft, *row, from_flag, "the value is missing: --%s %s", (*row)->name, (*row)->value_name);
    *value = line->argv[line->at++];
    if (strncmp(*value, "--", 2) == 0) /* rather a value that was forgotten */
        return config_wrong(draft, *row, from_flag,
                            "the value is missing, and %.64s looks like a flag: --%s %s, or --%s=%.64s if it is meant",
                            *value, (*row)->name, (*row)->value_name, (*row)->name, *value);
    return BELFRY_OK;
}

/* First pass: what is asked for, and which file. The values are looked at when all that ranks below is there. */
static enum belfry_err read_questions(const struct config_draft *draft, struct command_line *line)
{
    const struct config_row *row;
    const char *value;
    for (line->at = 1; line->at < line->argc && !line->asked[KEY_HELP];) {
        enum belfry_err err = next_flag(draft, line, &row, &value);
        if (err != BELFRY_OK)
            return err;
        line->asked[config_row_key(row)] = true;
        if (config_row_key(row) == KEY_CONFIG)
            line->file = value;
    }
    const char *file = getenv(CONFIG_ENV "CONFIG");
    if (line->file == NULL && file != NULL && *file != '\0')
        line->file = file;
    return BELFRY_OK;
}

static enum belfry_err read_flags(struct config_draft *draft, struct command_line *line)
{
    const struct config_row *row;
    const char *value;
    enum belfry_err err = BELFRY_OK;
    for (line->at = 1; line->at < line->argc && err == BELFRY_OK;) {
        err = next_flag(draft, line, &row, &value);
        if (err == BELFRY_OK && row->kind != CONFIG_KIND_ACTION)
            err = config_draft_set(draft, row, from_flag, value);
    }
    return err;
}

static enum belfry_err set_words(struct config_draft *draft, const struct config_row *row, struct config_origin origin,
                                 const char *text)
{
    char word[CONFIG_TEXT_MAX];
    enum belfry_err err = BELFRY_OK;
    for (text += strspn(text, " \n"); *text != '\0' && err == BELFRY_OK; text += strspn(text, " \n")) {
        size_t len = strcspn(text, " \n");
        if (len >= sizeof(word))
            return config_wrong(draft, row, origin, "the value is longer than %d bytes", CONFIG_TEXT_MAX - 1);
        memcpy(word, text, len);
        word[len] = '\0';
        err = config_draft_set(draft, row, origin, word);
        text += len;
    }
    return err;
}

static enum belfry_err read_environment(struct config_draft *draft)
{
    const struct config_origin origin = {.source = CONFIG_FROM_ENVIRONMENT};
    char name[CONFIG_ENV_NAME];
    enum belfry_err err = BELFRY_OK;
    for (enum config_key key = 0; key < N_CONFIG_KEYS && err == BELFRY_OK; key++) {
        const struct config_row *row = &config_rows[key];
        config_env_name(row, name);
        const char *text = getenv(name);
        if (text == NULL || *text == '\0') /* as good as not set, as everywhere */
            continue;
        bool words = row->kind == CONFIG_KIND_LISTEN || row->kind == CONFIG_KIND_RESOURCES;
        err = words ? set_words(draft, row, origin, text) : config_draft_set(draft, row, origin, text);
    }
    return err;
}

static enum belfry_err read_file(struct config_draft *draft, const char *name)
{
    if (name == NULL)
        return BELFRY_OK;
    FILE *file = fopen(name, "re");
    if (file == NULL)
        return config_wrong(draft, &config_rows[KEY_CONFIG], from_flag, "%s cannot be opened: %s", name,
                            strerror(errno));
    draft->file = name;
    enum belfry_err err = config_file_read(draft, file);
    fclose(file);
    return err;
}

static enum belfry_err read_all(struct config_draft *draft, struct command_line *line)
{
    enum belfry_err err = config_draft_defaults(draft);
    if (err == BELFRY_OK)
        err = read_file(draft, line->file);
    if (err == BELFRY_OK)
        err = read_environment(draft);
    if (err == BELFRY_OK)
        err = read_flags(draft, line);
    if (err != BELFRY_OK)
        return err;
    if (draft->config->workers == 0)
        draft->config->workers = service_cpus();
    return config_check(draft);
}

/* Answers --print-config and --check-config. */
static enum belfry_err answer(const struct config_draft *draft, const struct command_line *line, FILE *out)
{
    if (line->asked[KEY_PRINT_CONFIG])
        config_write(draft->config, draft, out);
    if (!line->asked[KEY_CHECK_CONFIG])
        return BELFRY_OK;
    config_warn(draft, out);
    enum belfry_err err = config_try(draft, out);
    if (err == BELFRY_OK)
        fputs("configuration ok\n", out);
    return err;
}

enum belfry_err config_load(int argc, char **argv, FILE *out, FILE *err_out, struct config *config,
                            enum config_do *what)
{
    struct command_line line = {.argc = argc, .argv = argv};
    struct config_draft draft = {.config = config, .err = err_out};
    *config = (struct config){0};
    enum belfry_err err = read_questions(&draft, &line);
    if (err != BELFRY_OK)
        return err;
    if (line.asked[KEY_HELP] || line.asked[KEY_VERSION]) {
        if (line.asked[KEY_HELP])
            config_help(out);
        else
            fputs("belfryd " BELFRY_VERSION "\n", out);
        *what = CONFIG_EXIT;
        return BELFRY_OK;
    }
    err = read_all(&draft, &line);
    if (err == BELFRY_OK)
        err = answer(&draft, &line, out);
    if (err == BELFRY_ERR_NOMEM)
        fprintf(err_out, "belfryd: %s\n", belfry_strerror(err));
    if (err != BELFRY_OK)
        config_fini(config);
    else
        *what = line.asked[KEY_PRINT_CONFIG] || line.asked[KEY_CHECK_CONFIG] ? CONFIG_EXIT : CONFIG_RUN;
    return err;
}

void config_fini(struct config *config)
{
    char *texts[] = {
        config->upstream_cacert, config->upstream_cert,          config->upstream_key, config->upstream_server_name,
        config->upstream_user,   config->upstream_password_file, config->advertise,    config->name,
        config->cache_dir};
    definitions_destroy(config->definitions);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        free(texts[i]);
    for (size_t i = 0; i < config->n_listen; i++)
        config_listen_fini(&config->listen[i]);
    for (size_t i = 0; i < config->n_scope; i++)
        free(config->scope[i]);
    for (size_t i = 0; i < config->n_allowed_hosts; i++)
        free(config->allowed_hosts[i]);
    free(config->allowed_hosts);
    for (size_t i = 0; i < config->resources.n; i++)
        config_resource_fini(&config->resources.all[i]);
    free(config->upstream);
    free(config->listen);
    free(config->scope);
    free(config->resources.all);
    *config = (struct config){0};
}
