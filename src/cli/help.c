/* src/cli/help.c */
#include "cli/help.h"

#include <string.h>

#define LABEL_WIDTH 32 /* "  -w, --write-out FORM" and the like; a longer one gets its help on the next line */

static void write_flag(FILE *out, const struct flag_row *row)
{
    char label[80];
    char letter[5] = "    ";
    if (row->letter != 0)
        snprintf(letter, sizeof(letter), "-%c, ", row->letter);
    snprintf(label, sizeof(label), "  %s--%s%s%s", letter, row->name, row->value_name != NULL ? " " : "",
             row->value_name != NULL ? row->value_name : "");
    if (strlen(label) >= LABEL_WIDTH)
        fprintf(out, "%s\n%*s%s", label, LABEL_WIDTH, "", row->help);
    else
        fprintf(out, "%-*s%s", LABEL_WIDTH, label, row->help);
    if (row->fallback != NULL)
        fprintf(out, " [%s]", row->fallback);
    fputc('\n', out);
}

static void write_flags(FILE *out, enum command command)
{
    if (command != CMD_NONE) {
        int n = 0;
        for (size_t i = 0; i < n_flag_rows; i++)
            if (flag_rows[i].commands != ON_ALL && (flag_rows[i].commands & ON(command)) != 0) {
                if (n++ == 0)
                    fprintf(out, "\nFlags of %s:\n", command_rows[command].name);
                write_flag(out, &flag_rows[i]);
            }
    }
    fputs("\nFlags of every command [default]:\n", out);
    for (size_t i = 0; i < n_flag_rows; i++)
        if (flag_rows[i].commands == ON_ALL)
            write_flag(out, &flag_rows[i]);
}

static void write_indented(FILE *out, const char *lines)
{
    while (*lines != '\0') {
        size_t len = strcspn(lines, "\n");
        fprintf(out, "  %.*s\n", (int)len, lines);
        lines += len + (lines[len] == '\n');
    }
}

static void write_common_end(FILE *out)
{
    fputs("\nEnvironment: BELFRYCTL_ENDPOINTS stands for --endpoints, and so on for every flag\n"
          "(upper case, - as _); where it is not set, ETCDCTL_ENDPOINTS does. A flag wins.\n"
          "\nExit code: 0 done (a missing key too), 1 failed, 2 wrong usage, 3 no endpoint\n"
          "answered in time, 4 refused (credentials or rights), 5 compacted, 130 Ctrl-C.\n",
          out);
}

static void write_program(FILE *out)
{
    fputs("belfryctl: read, write, watch and follow keys in etcd, or in a belfryd.\n"
          "Arguments, flags and variables are those of etcdctl where it has them.\n"
          "\nUsage: belfryctl [flags] COMMAND [arguments]\n\nCommands:\n",
          out);
    for (enum command c = CMD_NONE + 1; c < N_COMMANDS; c++) {
        char label[64];
        snprintf(label, sizeof(label), "  %s %s", command_rows[c].name, command_rows[c].arguments);
        fprintf(out, "%-*s%s\n", LABEL_WIDTH, label, command_rows[c].summary);
    }
    fputs("\n'belfryctl help COMMAND' has the flags of a command and examples.\n", out);
}

static void write_command(FILE *out, const struct command_row *row)
{
    fprintf(out, "belfryctl %s: %s.\n\nUsage: belfryctl %s [flags]%s%s\n", row->name, row->summary, row->name,
            *row->arguments ? " " : "", row->arguments);
    if (row->notes != NULL)
        fprintf(out, "\n%s\n", row->notes);
    if (row->example != NULL) {
        fputs("\nExamples:\n", out);
        write_indented(out, row->example);
    }
}

void help_write(FILE *out, enum command command)
{
    if (command == CMD_NONE)
        write_program(out);
    else
        write_command(out, &command_rows[command]);
    write_flags(out, command);
    write_common_end(out);
}
