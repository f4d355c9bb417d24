/* src/daemon/config.c: the command line, the environment, and the order of it all. */
#include "daemon/config.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/config_check.h"
#include "daemon/config_file.h"
#include "daemon/config_print.h"
#include "daemon/service.h"
#include "opt/command_line.h"
#include "opt/help.h"
#include "serve/kube/definitions.h"

static const struct config_origin from_flag = {.source = CONFIG_FROM_FLAG};

/* What the command line asks for, besides settings. */
struct questions {
    const char *file; /* --config; NULL: none */
    bool asked[N_CONFIG_ROWS];
};

/* A word that is no flag of ours. */
static enum belfry_err tell_word(const struct config_draft *draft, enum belfry_opt_found found,
                                 const struct belfry_opt_word *word, const char *why)
{
    if (found == BELFRY_FOUND_WRONG)
        return config_draft_wrong(draft, NULL, from_flag, "%s", why);
    return config_draft_wrong(draft, NULL, from_flag,
                              "unexpected '%.64s': flags begin with --; 'belfryd --help' lists them", word->text);
}

/* First pass: what is asked for, and which file. The values are read when all that ranks below is there. A word that is
 * no flag ends a start here; --check-config tells all of them in the second pass. */
static enum belfry_err read_questions(const struct config_draft *draft, struct belfry_opt_words words,
                                      struct questions *out)
{
    struct belfry_opt_word flag, wrong = {0};
    enum belfry_opt_found found, first = BELFRY_FOUND_FLAG;
    char label[BELFRY_OPT_ENV_NAME], why[BELFRY_OPT_WHY] = "", first_why[BELFRY_OPT_WHY];
    while (!out->asked[KEY_HELP] && (found = belfry_opt_words_next(&words, &flag, why)) != BELFRY_FOUND_END) {
        if (found == BELFRY_FOUND_FLAG) {
            out->asked[flag.row->id] = true;
            if (flag.row->id == KEY_CONFIG)
                out->file = flag.text;
        } else if (first == BELFRY_FOUND_FLAG) {
            first = found;
            wrong = flag;
            memcpy(first_why, why, sizeof(why));
        }
    }
    if (first != BELFRY_FOUND_FLAG && !out->asked[KEY_CHECK_CONFIG])
        return tell_word(draft, first, &wrong, first_why);
    if (out->file == NULL)
        out->file = belfry_opt_env(&config_table, &config_rows[KEY_CONFIG], getenv, label);
    return BELFRY_OK;
}

static enum belfry_err read_flags(struct config_draft *draft, struct belfry_opt_words words)
{
    struct belfry_opt_word flag;
    enum belfry_opt_found found, before = BELFRY_FOUND_FLAG;
    char why[BELFRY_OPT_WHY];
    while ((found = belfry_opt_words_next(&words, &flag, why)) != BELFRY_FOUND_END) {
        enum belfry_err err = BELFRY_OK;
        bool is_value =
            found == BELFRY_FOUND_ARGUMENT && before == BELFRY_FOUND_WRONG; /* of an unknown flag, probably */
        if (found != BELFRY_FOUND_FLAG && !is_value)
            err = tell_word(draft, found, &flag, why);
        else if (found == BELFRY_FOUND_FLAG && !flag.row->line_only)
            err = config_draft_set(draft, flag.row, from_flag, flag.text);
        if (config_draft_go_on(draft, err) != BELFRY_OK)
            return err;
        before = found;
    }
    return BELFRY_OK;
}

/* Items with blanks between them. */
static enum belfry_err set_words(struct config_draft *draft, const struct belfry_opt_row *row,
                                 struct config_origin origin, const char *text)
{
    char word[CONFIG_TEXT_MAX];
    enum belfry_err err = BELFRY_OK;
    for (text += strspn(text, " \n"); *text != '\0' && err == BELFRY_OK; text += strspn(text, " \n")) {
        size_t len = strcspn(text, " \n");
        if (len >= sizeof(word))
            return config_draft_wrong(draft, row, origin, "the value is longer than %d bytes", CONFIG_TEXT_MAX - 1);
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
    char label[BELFRY_OPT_ENV_NAME];
    enum belfry_err err = BELFRY_OK;
    for (enum config_key key = 0; key < N_CONFIG_KEYS && err == BELFRY_OK; key++) {
        const struct belfry_opt_row *row = &config_rows[key];
        const char *text = belfry_opt_env(&config_table, row, getenv, label);
        if (text == NULL)
            continue;
        bool words = row->kind == BELFRY_KIND_WORDS && key != KEY_SCOPE; /* a prefix may hold blanks, and is alone */
        err = words ? set_words(draft, row, origin, text) : config_draft_set(draft, row, origin, text);
        err = config_draft_go_on(draft, err);
    }
    return err;
}

static enum belfry_err read_file(struct config_draft *draft, const char *name)
{
    if (name == NULL)
        return BELFRY_OK;
    FILE *file = fopen(name, "re");
    if (file == NULL)
        return config_draft_wrong(draft, &config_rows[KEY_CONFIG], from_flag, "%s cannot be opened: %s", name,
                                  strerror(errno));
    draft->file = name;
    enum belfry_err err = config_file_read(draft, file);
    fclose(file);
    return err;
}

static uint64_t keys_of_file(const struct config_draft *draft)
{
    static_assert(N_CONFIG_KEYS <= 64, "each key has a bit");
    uint64_t keys = 0;
    for (enum config_key key = 0; key < N_CONFIG_KEYS; key++)
        keys |= (uint64_t)(draft->origin[key].source == CONFIG_FROM_FILE) << key;
    return keys;
}

static enum belfry_err read_all(struct config_draft *draft, const struct questions *questions,
                                struct belfry_opt_words words)
{
    enum belfry_err err = config_draft_defaults(draft);
    if (err == BELFRY_OK)
        err = config_draft_go_on(draft, read_file(draft, questions->file));
    if (err == BELFRY_OK)
        err = read_environment(draft);
    if (err == BELFRY_OK)
        err = read_flags(draft, words);
    if (err != BELFRY_OK)
        return err;
    draft->faults->unread = draft->faults->keys;
    draft->config->in_file = keys_of_file(draft);
    if (draft->config->workers == 0)
        draft->config->workers = service_cpus();
    return config_check(draft);
}

/* Answers --print-config and --check-config. */
static enum belfry_err answer(const struct config_draft *draft, const struct questions *questions, FILE *out)
{
    if (questions->asked[KEY_PRINT_CONFIG] && draft->faults->n == 0)
        config_write(draft->config, draft, out);
    if (!questions->asked[KEY_CHECK_CONFIG])
        return BELFRY_OK;
    config_warn(draft, out);
    enum belfry_err err = config_try(draft, out);
    if (err == BELFRY_OK && draft->faults->n > 0)
        return BELFRY_ERR_INVALID;
    if (err == BELFRY_OK)
        fputs("configuration ok\n", out);
    return err;
}

enum belfry_err config_load(int argc, char **argv, FILE *out, FILE *err_out, struct config *config,
                            enum config_do *what)
{
    struct questions questions = {0};
    struct belfry_opt_words words = {.table = &config_table, .argc = argc, .argv = argv, .at = 1};
    struct config_faults faults = {0};
    struct config_draft draft = {.config = config, .faults = &faults, .err = err_out};
    *config = (struct config){0};
    enum belfry_err err = read_questions(&draft, words, &questions);
    if (err != BELFRY_OK)
        return err;
    if (questions.asked[KEY_HELP] || questions.asked[KEY_VERSION]) {
        if (questions.asked[KEY_HELP])
            belfry_opt_help(out, &config_table, 0);
        else
            fputs("belfryd " BELFRY_VERSION "\n", out);
        *what = CONFIG_EXIT;
        return BELFRY_OK;
    }
    faults.wants_all = questions.asked[KEY_CHECK_CONFIG];
    err = read_all(&draft, &questions, words);
    if (err == BELFRY_OK)
        err = answer(&draft, &questions, out);
    if (err == BELFRY_ERR_NOMEM)
        fprintf(err_out, "belfryd: %s\n", belfry_strerror(err));
    if (err != BELFRY_OK)
        config_fini(config);
    else
        *what = questions.asked[KEY_PRINT_CONFIG] || questions.asked[KEY_CHECK_CONFIG] ? CONFIG_EXIT : CONFIG_RUN;
    return err;
}

void config_fini(struct config *config)
{
    definitions_destroy(config->definitions);
    ticket_keys_wipe(&config->ticket_keys);
    for (enum config_key key = 0; key < N_CONFIG_KEYS; key++)
        config_drop(config, key);
    *config = (struct config){0};
}
