/* src/opt/help.c */
#include "opt/help.h"

#include <string.h>

#define LABEL_WIDTH 32 /* a longer label has its help on the next line */

static void write_line(FILE *out, const char *label, const struct belfry_opt_row *row)
{
    bool fits = strlen(label) < LABEL_WIDTH;
    fprintf(out, "%-*s%s%*s%s", LABEL_WIDTH - 1, label, fits ? " " : "\n", fits ? 0 : LABEL_WIDTH, "", row->help);
    const char *fallback = row->described != NULL ? row->described : row->fallback;
    if (fallback != NULL)
        fprintf(out, " [%s]", fallback);
    fputc('\n', out);
}

static void write_flag(FILE *out, const struct belfry_opt_row *row)
{
    char label[80], letter[5] = "    ";
    if (row->letter != 0)
        snprintf(letter, sizeof(letter), "-%c, ", row->letter);
    snprintf(label, sizeof(label), "  %s--%s%s%s", letter, row->name, row->value_name != NULL ? " " : "",
             row->value_name != NULL ? row->value_name : "");
    write_line(out, label, row);
}

static void write_flags(FILE *out, const struct belfry_opt_table *table, unsigned command)
{
    bool headed = false;
    for (size_t i = 0; i < table->n_rows && command != 0; i++) {
        if (table->rows[i].on == 0 || !belfry_opt_is_on(&table->rows[i], command))
            continue;
        if (!headed)
            fprintf(out, "\nFlags of %s:\n", table->commands[command].name);
        headed = true;
        write_flag(out, &table->rows[i]);
    }
    if (table->commands != NULL)
        fputs("\nFlags of every command [default]:\n", out);
    for (size_t i = 0; i < table->n_rows; i++) {
        if (table->rows[i].group != NULL)
            fprintf(out, "\n%s:\n", table->rows[i].group);
        if (table->rows[i].on == 0)
            write_flag(out, &table->rows[i]);
    }
}

static void write_parts(FILE *out, const struct belfry_opt_parts *parts)
{
    fprintf(out, "\n%s:\n", parts->heading);
    for (size_t i = 1; i < parts->n_rows; i++) {
        const struct belfry_opt_row *row = &parts->rows[i];
        char label[80];
        snprintf(label, sizeof(label), "  %s%s%s", row->name, row->value_name != NULL ? "=" : "",
                 row->value_name != NULL ? row->value_name : "");
        write_line(out, label, row);
    }
}

static void write_commands(FILE *out, const struct belfry_opt_table *table)
{
    fputs("\nCommands:\n", out);
    for (size_t i = 1; i < table->n_commands; i++) {
        char label[80];
        snprintf(label, sizeof(label), "  %s %s", table->commands[i].name, table->commands[i].arguments);
        fprintf(out, "%-*s%s\n", LABEL_WIDTH, label, table->commands[i].summary);
    }
    fprintf(out, "\n'%s COMMAND --help' has the flags of a command and examples.\n", table->program);
}

static void write_command(FILE *out, const struct belfry_opt_table *table, const struct belfry_opt_command *row)
{
    fprintf(out, "%s %s: %s.\n\nUsage: %s %s [flags]%s%s\n", table->program, row->name, row->summary, table->program,
            row->name, *row->arguments != '\0' ? " " : "", row->arguments);
    if (row->notes != NULL)
        fprintf(out, "\n%s\n", row->notes);
    if (row->example == NULL)
        return;
    fputs("\nExamples:\n", out);
    size_t len;
    const char *line, *lines = row->example;
    while ((line = belfry_value_item(&lines, "\n", &len)) != NULL)
        fprintf(out, "  %.*s\n", (int)len, line);
}

void belfry_opt_help(FILE *out, const struct belfry_opt_table *table, unsigned command)
{
    if (command != 0)
        write_command(out, table, &table->commands[command]);
    else
        fputs(table->about, out);
    if (command == 0 && table->commands != NULL)
        write_commands(out, table);
    write_flags(out, table, command);
    for (size_t i = 0; i < table->n_parts; i++)
        write_parts(out, &table->parts[i]);
    if (table->end != NULL)
        fprintf(out, "\n%s", table->end);
}
