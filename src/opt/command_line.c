/* src/opt/command_line.c */
#include "opt/command_line.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static enum belfry_opt_found wrong_word(char *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, BELFRY_OPT_WHY, format, args);
    va_end(args);
    return BELFRY_FOUND_WRONG;
}

static bool needs_value(const struct belfry_opt_row *row)
{
    return row->kind != BELFRY_KIND_BARE && row->kind != BELFRY_KIND_BOOL && row->kind != BELFRY_KIND_REFUSED;
}

/* `attached`: what stands behind "="; NULL: nothing does. */
static enum belfry_opt_found take_value(struct belfry_opt_words *words, const char *attached,
                                        struct belfry_opt_word *out, char *why)
{
    const struct belfry_opt_row *row = out->row;
    out->text = attached;
    if (row->kind == BELFRY_KIND_BARE && attached != NULL)
        return wrong_word(why, "%s takes no value", out->label);
    if (!needs_value(row) && attached == NULL)
        out->text = row->kind == BELFRY_KIND_BARE ? NULL : "true";
    if (!needs_value(row) || attached != NULL)
        return BELFRY_FOUND_FLAG;
    if (words->at == words->argc)
        return wrong_word(why, "%s needs a value: %s %s", out->label, out->label, row->value_name);
    out->text = words->argv[words->at++];
    if (strncmp(out->text, "--", 2) == 0)
        return wrong_word(why, "%s needs a value, and %.48s looks like a flag: %s %s, or %s=%.48s if it is meant",
                          out->label, out->text, out->label, row->value_name, out->label, out->text);
    return BELFRY_FOUND_FLAG;
}

static enum belfry_opt_found take_long(struct belfry_opt_words *words, const char *name, struct belfry_opt_word *out,
                                       char *why)
{
    const struct belfry_opt_table *table = words->table;
    const char *nearest;
    size_t len = strcspn(name, "=");
    out->row = belfry_opt_find(table->rows, table->n_rows, name, len, &nearest);
    snprintf(out->label, sizeof(out->label), "--%.*s", (int)(len < 48 ? len : 48), name);
    if (out->row == NULL && nearest != NULL)
        return wrong_word(why, "unknown flag %s: did you mean --%s?", out->label, nearest);
    if (out->row == NULL)
        return wrong_word(why, "unknown flag %s: '%s' lists them", out->label, table->ask);
    return take_value(words, name[len] == '=' ? name + len + 1 : NULL, out, why);
}

static enum belfry_opt_found take_letter(struct belfry_opt_words *words, struct belfry_opt_word *out, char *why)
{
    const struct belfry_opt_table *table = words->table;
    const char *at = words->letters;
    snprintf(out->label, sizeof(out->label), "-%c", *at);
    out->row = NULL;
    for (size_t i = 0; i < table->n_rows && out->row == NULL; i++)
        if (table->rows[i].letter == *at)
            out->row = &table->rows[i];
    if (out->row == NULL) {
        words->letters = NULL; /* the rest of the word says nothing */
        return wrong_word(why, "unknown flag %s: '%s' lists them", out->label, table->ask);
    }
    bool equals = at[1] == '=', attached = equals || (needs_value(out->row) && at[1] != '\0');
    words->letters = attached || at[1] == '\0' ? NULL : at + 1;
    return take_value(words, attached ? at + 1 + equals : NULL, out, why);
}

enum belfry_opt_found belfry_opt_words_next(struct belfry_opt_words *words, struct belfry_opt_word *out, char *why)
{
    if (words->letters != NULL)
        return take_letter(words, out, why);
    if (!words->ended && words->at < words->argc && strcmp(words->argv[words->at], "--") == 0) {
        words->ended = true;
        words->at++;
    }
    if (words->at >= words->argc)
        return BELFRY_FOUND_END;
    const char *word = words->argv[words->at++];
    if (words->ended || word[0] != '-' || word[1] == '\0') {
        *out = (struct belfry_opt_word){.text = word};
        return BELFRY_FOUND_ARGUMENT;
    }
    if (word[1] == '-')
        return take_long(words, word + 2, out, why);
    words->letters = word + 1;
    return take_letter(words, out, why);
}
