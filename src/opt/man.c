/* src/opt/man.c */
#include "opt/man.h"

#include <ctype.h>
#include <string.h>

/* How options are named in running text. */
enum naming { AS_FLAGS, AS_KEYS };

struct page {
    FILE *out;
    const struct belfry_opt_table *table;
    enum naming naming;
};

static void write_escaped(FILE *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\\')
            fputs("\\e", out);
        else if (text[i] == '-')
            fputs("\\-", out);
        else if (text[i] == '\'')
            fputs("\\(aq", out);
        else
            fputc(text[i], out);
    }
}

/* A flag in running text: --name, which is bold, and in the page of a file without its dashes. Returns its bytes; 0:
 * none. */
static size_t write_flag_in_text(const struct page *page, const char *text)
{
    const char *ignored;
    size_t len = strncmp(text, "--", 2) == 0 ? strspn(text + 2, "abcdefghijklmnopqrstuvwxyz-") : 0;
    if (len == 0 || belfry_opt_find(page->table->rows, page->table->n_rows, text + 2, len, &ignored) == NULL)
        return 0;
    fputs("\\fB", page->out);
    write_escaped(page->out, page->naming == AS_FLAGS ? text : text + 2, page->naming == AS_FLAGS ? len + 2 : len);
    fputs("\\fR", page->out);
    return len + 2;
}

/* Running text: a blank line begins a paragraph. */
static void write_text(const struct page *page, const char *text)
{
    for (size_t at = 0; text[at] != '\0';) {
        bool begins = at == 0 || strchr(" (\n", text[at - 1]) != NULL;
        size_t flag = begins ? write_flag_in_text(page, text + at) : 0;
        if (flag == 0 && strncmp(text + at, "\n\n", 2) == 0) {
            fputs("\n.PP\n", page->out);
            at += 2;
            continue;
        }
        if (flag == 0)
            write_escaped(page->out, text + at, 1);
        at += flag == 0 ? 1 : flag;
    }
}

/* Is the first word something to type, or the name of a program? */
static bool is_literal(const char *help, const char *choices)
{
    size_t len = strcspn(help, " ,;");
    unsigned ignored;
    char word[64];
    snprintf(word, sizeof(word), "%.*s", (int)len, help);
    return strcspn(help, ":/=|") + 1 < len || strcmp(word, "etcd") == 0 ||
           (choices != NULL && belfry_value_choice(choices, word, &ignored));
}

/* A help line as a sentence. */
static void write_sentence(const struct page *page, const char *help, const char *choices)
{
    bool literal = is_literal(help, choices);
    if (!literal)
        fputc(toupper((unsigned char)help[0]), page->out);
    write_text(page, literal ? help : help + 1);
    fputc('.', page->out);
}

static const char *fallback_of(const struct belfry_opt_row *row)
{
    return row->described != NULL ? row->described : row->fallback;
}

/* The body of an entry. */
static void write_body(const struct page *page, const struct belfry_opt_row *row)
{
    write_sentence(page, row->help, row->choices);
    if (page->naming == AS_FLAGS && fallback_of(row) != NULL) {
        fputs(" Default: ", page->out);
        write_text(page, fallback_of(row));
        fputc('.', page->out);
    }
    if (row->more != NULL) {
        fputc('\n', page->out);
        write_text(page, row->more);
    }
    fputc('\n', page->out);
}

static void write_name(const struct page *page, const char *before, const char *name)
{
    fputs("\\fB", page->out);
    write_escaped(page->out, before, strlen(before));
    write_escaped(page->out, name, strlen(name));
    fputs("\\fR", page->out);
}

/* ---- keys of a file ---- */

static const char *type_of_text(const struct belfry_opt_row *row)
{
    if (row->value_name == NULL || strncmp(row->value_name, "URL", 3) == 0)
        return "\\fIurl\\fR";
    if (strncmp(row->value_name, "FILE", 4) == 0)
        return "file";
    return strcmp(row->value_name, "DIR") == 0 ? "folder" : "\\fItext\\fR";
}

static void write_type(const struct page *page, const struct belfry_opt_row *row)
{
    switch (row->kind) {
    case BELFRY_KIND_BARE:
    case BELFRY_KIND_BOOL:
    case BELFRY_KIND_REFUSED:
        fputs("true or false", page->out);
        return;
    case BELFRY_KIND_LIST:
        fprintf(page->out, "list of %s", type_of_text(row));
        return;
    case BELFRY_KIND_WORDS:
        fputs("list", page->out);
        return;
    case BELFRY_KIND_COUNT:
    case BELFRY_KIND_HEX:
        fputs("number", page->out);
        return;
    case BELFRY_KIND_MS:
    case BELFRY_KIND_SECONDS:
        fputs("\\fItime\\fR", page->out);
        return;
    case BELFRY_KIND_SIZE:
    case BELFRY_KIND_SIZE_DECIMAL:
        fputs("\\fIsize\\fR", page->out);
        return;
    case BELFRY_KIND_CHOICE:
        write_text(page, row->choices);
        return;
    case BELFRY_KIND_TEXT:
        break;
    }
    fputs(type_of_text(row), page->out);
}

static void write_key(const struct page *page, const struct belfry_opt_row *row)
{
    fputs(".TP\n", page->out);
    write_name(page, "", row->name);
    fputs(" (", page->out);
    write_type(page, row);
    if (fallback_of(row) != NULL) {
        fputs("; ", page->out);
        write_text(page, fallback_of(row));
    }
    fputs(")\n", page->out);
    write_body(page, row);
}

/* ---- flags ---- */

static void write_flag(const struct page *page, const struct belfry_opt_row *row)
{
    fputs(".TP\n", page->out);
    if (row->letter != 0)
        fprintf(page->out, "\\fB\\-%c\\fR, ", row->letter);
    write_name(page, "--", row->name);
    if (row->value_name != NULL)
        fprintf(page->out, " \\fI%s\\fR", row->value_name);
    fputc('\n', page->out);
    write_body(page, row);
}

static void write_part(const struct page *page, const struct belfry_opt_row *row)
{
    fputs(".TP\n", page->out);
    write_name(page, "", row->name);
    if (row->value_name != NULL)
        fprintf(page->out, "\\fB=\\fI%s\\fR", row->value_name);
    fputc('\n', page->out);
    write_body(page, row);
}

/* What may follow the value: of a flag all but the value itself, of a key all. */
static void write_parts(const struct page *page, const struct belfry_opt_row *row)
{
    for (size_t i = 0; i < page->table->n_parts; i++) {
        const struct belfry_opt_parts *parts = &page->table->parts[i];
        if (strcmp(parts->of, row->name) != 0)
            continue;
        fputs(".RS\n", page->out);
        for (size_t j = page->naming == AS_FLAGS ? 1 : 0; j < parts->n_rows; j++)
            (page->naming == AS_FLAGS ? write_part : write_key)(page, &parts->rows[j]);
        fputs(".RE\n", page->out);
    }
}

static void write_rows(const struct page *page, bool (*wanted)(const struct belfry_opt_row *row))
{
    for (size_t i = 0; i < page->table->n_rows; i++) {
        const struct belfry_opt_row *row = &page->table->rows[i];
        if (!wanted(row))
            continue;
        if (row->group != NULL)
            fprintf(page->out, ".SS %s\n", row->group);
        (page->naming == AS_FLAGS ? write_flag : write_key)(page, row);
        write_parts(page, row);
    }
}

static bool is_everywhere(const struct belfry_opt_row *row)
{
    return row->on == 0;
}

static bool is_key(const struct belfry_opt_row *row)
{
    return !row->line_only;
}

void belfry_opt_man_flags(FILE *out, const struct belfry_opt_table *table)
{
    write_rows(&(struct page){out, table, AS_FLAGS}, is_everywhere);
}

void belfry_opt_man_keys(FILE *out, const struct belfry_opt_table *table)
{
    write_rows(&(struct page){out, table, AS_KEYS}, is_key);
}

/* ---- commands ---- */

static void write_as_is(const struct page *page, const char *lines)
{
    fputs(".PP\n.nf\n.RS\n", page->out);
    write_escaped(page->out, lines, strlen(lines));
    fputs("\n.RE\n.fi\n", page->out);
}

static void write_command(const struct page *page, unsigned command)
{
    const struct belfry_opt_command *row = &page->table->commands[command];
    fprintf(page->out, ".SS %s%s%s\n", row->name, *row->arguments != '\0' ? " " : "", row->arguments);
    write_sentence(page, row->summary, NULL);
    fputc('\n', page->out);
    if (row->notes != NULL && strstr(row->notes, "   ") != NULL) /* in columns */
        write_as_is(page, row->notes);
    else if (row->notes != NULL) {
        write_text(page, row->notes);
        fputc('\n', page->out);
    }
    if (row->more != NULL) {
        fputs(".PP\n", page->out);
        write_text(page, row->more);
        fputc('\n', page->out);
    }
    for (size_t i = 0; i < page->table->n_rows; i++)
        if (page->table->rows[i].on != 0 && belfry_opt_is_on(&page->table->rows[i], command))
            write_flag(page, &page->table->rows[i]);
    if (row->example != NULL) {
        fputs(".PP\nExamples:\n", page->out);
        write_as_is(page, row->example);
    }
}

void belfry_opt_man_commands(FILE *out, const struct belfry_opt_table *table)
{
    for (unsigned i = 1; i < table->n_commands; i++)
        write_command(&(struct page){out, table, AS_FLAGS}, i);
}
