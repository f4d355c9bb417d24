/* src/opt/completion.c */
#include "opt/completion.h"

#include <string.h>

/* What a value is completed with. */
enum offer { OFFER_NO_VALUE, OFFER_NOTHING, OFFER_CHOICES, OFFER_FILES, OFFER_FOLDERS };

static enum offer offer_of(const struct belfry_opt_row *row)
{
    if (row->value_name == NULL)
        return OFFER_NO_VALUE;
    if (row->choices != NULL)
        return OFFER_CHOICES;
    if (strncmp(row->value_name, "FILE", 4) == 0)
        return OFFER_FILES;
    return strcmp(row->value_name, "DIR") == 0 ? OFFER_FOLDERS : OFFER_NOTHING;
}

/* Does an earlier row have the name? */
static bool is_again(const struct belfry_opt_table *table, const struct belfry_opt_row *row)
{
    const char *ignored;
    return belfry_opt_find(table->rows, table->n_rows, row->name, strlen(row->name), &ignored) != row;
}

/* "a|b" as "a b". */
static void write_choices(FILE *out, const char *choices)
{
    size_t len;
    const char *choice, *separator = "";
    while ((choice = belfry_value_item(&choices, "|", &len)) != NULL) {
        fprintf(out, "%s%.*s", separator, (int)len, choice);
        separator = " ";
    }
}

/* ---- bash ---- */

/* The flags whose value is completed in one of these ways, as a pattern of bash: --write-out|-w|--output. Returns
 * how many. */
static size_t write_pattern(FILE *out, const struct belfry_opt_table *table, enum offer first, enum offer last)
{
    size_t n = 0;
    for (size_t i = 0; i < table->n_rows; i++) {
        const struct belfry_opt_row *row = &table->rows[i];
        if (offer_of(row) < first || offer_of(row) > last || is_again(table, row))
            continue;
        fprintf(out, "%s--%s", n++ > 0 ? "|" : "    ", row->name);
        if (row->letter != 0)
            fprintf(out, "|-%c", row->letter);
    }
    return n;
}

/* Is it a flag of the command alone, or for 0 of all? */
static bool is_offered(const struct belfry_opt_row *row, unsigned command)
{
    if (row->kind == BELFRY_KIND_REFUSED)
        return false;
    return command == 0 ? row->on == 0 : row->on != 0 && belfry_opt_is_on(row, command);
}

static void write_flags(FILE *out, const struct belfry_opt_table *table, unsigned command)
{
    const char *separator = "";
    for (size_t i = 0; i < table->n_rows; i++) {
        const struct belfry_opt_row *row = &table->rows[i];
        if (!is_offered(row, command))
            continue;
        fprintf(out, "%s--%s", separator, row->name);
        separator = " ";
    }
}

static void write_bash_commands(FILE *out, const struct belfry_opt_table *table)
{
    fputs("    local command='' i\n"
          "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
          "        case ${COMP_WORDS[i]} in\n    ",
          out);
    write_pattern(out, table, OFFER_NOTHING, OFFER_FOLDERS);
    fputs(") [[ ${COMP_WORDS[++i]} != = ]] || ((i++)) ;;\n        ", out);
    for (unsigned c = 1; c < table->n_commands; c++)
        fprintf(out, "%s%s", c > 1 ? "|" : "", table->commands[c].name);
    fputs(")\n            command=${COMP_WORDS[i]}\n            break\n            ;;\n        esac\n    done\n"
          "    case $command in\n    '') words='",
          out);
    for (unsigned c = 1; c < table->n_commands; c++)
        fprintf(out, "%s%s", c > 1 ? " " : "", table->commands[c].name);
    fputs("' ;;\n", out);
    for (unsigned c = 1; c < table->n_commands; c++) {
        fprintf(out, "    %s) flags='", table->commands[c].name);
        write_flags(out, table, c);
        fputs("' words='", out);
        write_choices(out, table->commands[c].words != NULL ? table->commands[c].words : "");
        fputs("' ;;\n", out);
    }
    fputs("    esac\n", out);
}

/* What is completed behind a flag with a value. */
static void write_bash_values(FILE *out, const struct belfry_opt_table *table)
{
    fputs("    case $prev in\n", out);
    for (size_t i = 0; i < table->n_rows; i++) {
        const struct belfry_opt_row *row = &table->rows[i];
        if (offer_of(row) != OFFER_CHOICES || is_again(table, row))
            continue;
        fprintf(out, "    --%s", row->name);
        if (row->letter != 0)
            fprintf(out, "|-%c", row->letter);
        fputs(") words='", out);
        write_choices(out, row->choices);
        fputs("' ;;\n", out);
    }
    if (write_pattern(out, table, OFFER_FILES, OFFER_FILES) > 0)
        fputs(") what=-f ;;\n", out);
    if (write_pattern(out, table, OFFER_FOLDERS, OFFER_FOLDERS) > 0)
        fputs(") what=-d ;;\n", out);
    if (write_pattern(out, table, OFFER_NOTHING, OFFER_NOTHING) > 0)
        fputs(") return ;;\n", out);
    fputs("    *)\n        [[ $cur != -* ]] || words=\"$flags ", out);
    write_flags(out, table, 0);
    fputs("\"\n        ;;\n    esac\n", out);
}

void belfry_opt_complete_bash(FILE *out, const struct belfry_opt_table *table)
{
    char name[64];
    snprintf(name, sizeof(name), "_%s", table->program);
    for (char *at = name; *at != '\0'; at++)
        *at = *at == '-' ? '_' : *at;
    fprintf(out,
            "# bash completion for %s, made from its table of options by tools/options-doc.\n"
            "# shellcheck shell=bash\n%s()\n{\n"
            "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} flags='' words='' what=''\n"
            "    if [[ $cur == = ]]; then # --name=value comes as three words\n        cur=''\n"
            "    elif [[ $prev == = ]]; then\n        prev=${COMP_WORDS[COMP_CWORD - 2]}\n    fi\n",
            table->program, name);
    if (table->commands != NULL)
        write_bash_commands(out, table);
    write_bash_values(out, table);
    fprintf(out,
            "    if [[ -n $what ]]; then\n"
            "        compopt -o filenames 2>/dev/null\n"
            "        mapfile -t COMPREPLY < <(compgen \"$what\" -- \"$cur\")\n"
            "    else\n"
            "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
            "    fi\n}\ncomplete -F %s %s\n",
            name, table->program);
}

/* ---- fish ---- */

/* In single quotes. */
static void write_fish_text(FILE *out, const char *text)
{
    fputc('\'', out);
    for (; *text != '\0'; text++) {
        if (*text == '\'' || *text == '\\')
            fputc('\\', out);
        fputc(*text, out);
    }
    fputc('\'', out);
}

static void write_fish_flag(FILE *out, const struct belfry_opt_table *table, const struct belfry_opt_row *row)
{
    fprintf(out, "complete -c %s", table->program);
    if (row->on != 0) {
        fputs(" -n '__fish_seen_subcommand_from", out);
        for (unsigned c = 1; c < table->n_commands; c++)
            if (belfry_opt_is_on(row, c))
                fprintf(out, " %s", table->commands[c].name);
        fputs("'", out);
    }
    fprintf(out, " -l %s", row->name);
    if (row->letter != 0)
        fprintf(out, " -s %c", row->letter);
    switch (offer_of(row)) {
    case OFFER_NOTHING:
        fputs(" -x", out);
        break;
    case OFFER_CHOICES:
        fputs(" -x -a '", out);
        write_choices(out, row->choices);
        fputs("'", out);
        break;
    case OFFER_FILES:
        fputs(" -r -F", out);
        break;
    case OFFER_FOLDERS:
        fputs(" -x -a '(__fish_complete_directories)'", out);
        break;
    case OFFER_NO_VALUE:
        break;
    }
    fputs(" -d ", out);
    write_fish_text(out, row->help);
    fputc('\n', out);
}

void belfry_opt_complete_fish(FILE *out, const struct belfry_opt_table *table)
{
    fprintf(out,
            "# fish completion for %s, made from its table of options by tools/options-doc.\n"
            "complete -c %s -f\n",
            table->program, table->program);
    for (unsigned c = 1; c < table->n_commands; c++) {
        const struct belfry_opt_command *command = &table->commands[c];
        fprintf(out, "complete -c %s -n __fish_use_subcommand -a %s -d ", table->program, command->name);
        write_fish_text(out, command->summary);
        fputc('\n', out);
        if (command->words == NULL)
            continue;
        fprintf(out, "complete -c %s -n '__fish_seen_subcommand_from %s' -a '", table->program, command->name);
        write_choices(out, command->words);
        fputs("'\n", out);
    }
    for (size_t i = 0; i < table->n_rows; i++)
        if (table->rows[i].kind != BELFRY_KIND_REFUSED)
            write_fish_flag(out, table, &table->rows[i]);
}

/* ---- zsh ---- */

/* For a word of zsh in single quotes. The characters of `special` get a backslash, which _arguments takes away. */
static void write_zsh_text(FILE *out, const char *text, const char *special)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputs("'\\'", out);
        else if (*text == '\\' || strchr(special, *text) != NULL)
            fputc('\\', out);
        fputc(*text, out);
    }
}

static void write_zsh_value(FILE *out, const struct belfry_opt_row *row)
{
    enum offer offer = offer_of(row);
    if (offer == OFFER_NO_VALUE)
        return;
    fputc(':', out);
    write_zsh_text(out, row->value_name, ":");
    if (offer == OFFER_CHOICES) {
        fputs(":(", out);
        write_choices(out, row->choices);
        fputs(")", out);
    } else {
        fputs(offer == OFFER_FILES ? ":_files" : offer == OFFER_FOLDERS ? ":_path_files -/" : ": ", out);
    }
}

/* As _arguments of zsh wants it: '(-w --write-out)'{-w+,--write-out=}'[help]:FORMAT:(simple json)' */
static void write_zsh_flag(FILE *out, const struct belfry_opt_row *row)
{
    bool has_value = offer_of(row) != OFFER_NO_VALUE;
    bool repeats = row->kind == BELFRY_KIND_LIST || row->kind == BELFRY_KIND_WORDS;
    const char *equals = has_value ? "=" : "";
    fputs("        '", out);
    if (repeats)
        fputc('*', out);
    else if (row->letter != 0)
        fprintf(out, "(-%c --%s)", row->letter, row->name);
    if (row->letter != 0)
        fprintf(out, "'{-%c%s,--%s%s}'[", row->letter, has_value ? "+" : "", row->name, equals);
    else
        fprintf(out, "--%s%s[", row->name, equals);
    write_zsh_text(out, row->help, "]");
    fputc(']', out);
    write_zsh_value(out, row);
    fputs("'\n", out);
}

static void write_zsh_flags(FILE *out, const struct belfry_opt_table *table, unsigned command)
{
    for (size_t i = 0; i < table->n_rows; i++)
        if (is_offered(&table->rows[i], command))
            write_zsh_flag(out, &table->rows[i]);
}

static void write_zsh_commands(FILE *out, const struct belfry_opt_table *table)
{
    fputs("    _arguments -C -A '-*' \"$flags[@]\" '1:command:->command' '*::argument:->argument' && return\n"
          "    case $state in\n    command)\n        local -a commands=(\n",
          out);
    for (unsigned c = 1; c < table->n_commands; c++) {
        fprintf(out, "        '%s:", table->commands[c].name);
        write_zsh_text(out, table->commands[c].summary, "");
        fputs("'\n", out);
    }
    fputs("        )\n        _describe command commands\n        ;;\n"
          "    argument)\n        case $words[1] in\n",
          out);
    for (unsigned c = 1; c < table->n_commands; c++) {
        const struct belfry_opt_command *command = &table->commands[c];
        fprintf(out, "        %s) flags+=(\n", command->name);
        write_zsh_flags(out, table, c);
        if (command->words != NULL) {
            fputs("        '1:argument:(", out);
            write_choices(out, command->words);
            fputs(")'\n", out);
        }
        fputs("        ) ;;\n", out);
    }
    fputs("        esac\n        _arguments \"$flags[@]\" '*:argument: '\n        ;;\n    esac\n", out);
}

void belfry_opt_complete_zsh(FILE *out, const struct belfry_opt_table *table)
{
    fprintf(out,
            "#compdef %s\n"
            "# zsh completion for %s, made from its table of options by tools/options-doc.\n"
            "_%s()\n{\n"
            "    local curcontext=$curcontext state line\n"
            "    local -A opt_args\n"
            "    local -a flags=(\n",
            table->program, table->program, table->program);
    write_zsh_flags(out, table, 0);
    fputs("    )\n", out);
    if (table->commands != NULL)
        write_zsh_commands(out, table);
    else
        fputs("    _arguments \"$flags[@]\"\n", out);
    fprintf(out, "}\n_%s \"$@\"\n", table->program);
}
