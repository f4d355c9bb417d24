/* src/daemon/config_print.c: the effective values as YAML. Written by hand, since libyaml writes no comments. */
#include <inttypes.h>
#include <string.h>

#include "daemon/config_private.h"
#include "daemon/utf8.h"

#define NOTE_COLUMN 48

/* Plain where no reader could take it for anything else; in double quotes, with escapes, otherwise. */
static bool is_plain(const char *text)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._+-:";
    bool begins = (*text >= 'a' && *text <= 'z') || *text == '/';
    size_t len = strlen(text);
    return begins && strspn(text, safe) == len && text[len - 1] != ':';
}

static int write_text(FILE *out, const char *text)
{
    if (is_plain(text))
        return fprintf(out, "%s", text);
    int width = fprintf(out, "\"");
    for (size_t n; *text != '\0'; text += n) {
        uint32_t code;
        n = utf8_next(text, strlen(text), &code);
        if (n == 0)
            n = 1; /* config_draft_set() lets no such text in */
        else if (code == '"' || code == '\\')
            width += fprintf(out, "\\%c", (char)code);
        else if ((code >= 0x20 && code < 0x7f) || (code >= 0xa0 && code < 0xd800))
            width += fprintf(out, "%.*s", (int)n, text);
        else
            width += fprintf(out, "\\U%08" PRIX32, code);
    }
    return width + fprintf(out, "\"");
}

static void write_note(FILE *out, int width, const struct config_draft *draft, enum config_key key)
{
    static const char *const names[] = {"default", "file", "environment", "flag"};
    if (draft == NULL) {
        fputc('\n', out);
        return;
    }
    const struct config_origin *origin = &draft->origin[key];
    fprintf(out, "%*s # %s", width < NOTE_COLUMN ? NOTE_COLUMN - width : 0, "", names[origin->source]);
    if (origin->source == CONFIG_FROM_FILE)
        fprintf(out, ", line %zu", origin->line);
    fputc('\n', out);
}

static int write_scalar(FILE *out, const struct config_row *row, const void *at)
{
    char number[CONFIG_NUMBER];
    unsigned place;
    switch (row->kind) {
    case CONFIG_KIND_SIZE:
        config_write_size(*(const size_t *)at, number);
        return fprintf(out, "%s", number);
    case CONFIG_KIND_MS:
        config_write_ms(*(const uint64_t *)at, number);
        return fprintf(out, "%s", number);
    case CONFIG_KIND_SECONDS:
        config_write_ms(*(const uint64_t *)at * 1000, number);
        return fprintf(out, "%s", number);
    case CONFIG_KIND_COUNT:
        return fprintf(out, "%u", *(const unsigned *)at);
    case CONFIG_KIND_BOOL:
        return fprintf(out, "%s", *(const bool *)at ? "true" : "false");
    case CONFIG_KIND_CHOICE:
        place = *(const unsigned *)at;
        const char *choice = row->choices;
        for (; place > 0; place--)
            choice += strcspn(choice, "|") + 1;
        return fprintf(out, "%.*s", (int)strcspn(choice, "|"), choice);
    case CONFIG_KIND_ADMIN:
        return write_text(out, ((const struct belfry_endpoint *)at)->url);
    case CONFIG_KIND_TEXT:
        return write_text(out, *(char *const *)at);
    case CONFIG_KIND_UPSTREAM:
    case CONFIG_KIND_LISTEN:
    case CONFIG_KIND_HOSTS:
    case CONFIG_KIND_SCOPE:
    case CONFIG_KIND_RESOURCES:
    case CONFIG_KIND_ACTION:
        break;
    }
    return 0;
}

static void write_item(FILE *out, const char *before, const char *text)
{
    fputs(before, out);
    write_text(out, text);
    fputc('\n', out);
}

static void write_listen(FILE *out, const struct config_listen *listen)
{
    char served[64];
    config_listen_dialects(listen->policy.dialects, ", ", served, sizeof(served));
    write_item(out, "  - url: ", listen->endpoint.url);
    fprintf(out, "    serve: [%s]\n    read-only: %s\n", served, listen->policy.read_only ? "true" : "false");
    if (listen->cert != NULL)
        write_item(out, "    cert: ", listen->cert);
    if (listen->key != NULL)
        write_item(out, "    key: ", listen->key);
    if (listen->client_ca != NULL)
        write_item(out, "    client-ca: ", listen->client_ca);
}

static void write_resource(FILE *out, const struct definition_source *resource)
{
    if (resource->crd != NULL)
        write_item(out, "  - crd: ", resource->crd);
    else
        write_item(out, "  - crds-under: ", resource->under);
    if (resource->prefix != NULL)
        write_item(out, "    prefix: ", resource->prefix);
    if (resource->wrap != NULL)
        write_item(out, "    wrap: ", resource->wrap);
    if (resource->key != NULL)
        write_item(out, "    key: ", resource->key);
}

static size_t n_items(const struct config *config, const struct config_row *row)
{
    if (row->kind == CONFIG_KIND_UPSTREAM)
        return config->n_upstream;
    if (row->kind == CONFIG_KIND_RESOURCES)
        return config->resources.n;
    if (row->kind == CONFIG_KIND_HOSTS)
        return config->n_allowed_hosts;
    return row->kind == CONFIG_KIND_LISTEN ? config->n_listen : config->n_scope;
}

static void write_list(FILE *out, const struct config *config, const struct config_draft *draft, enum config_key key)
{
    const struct config_row *row = &config_rows[key];
    size_t n = n_items(config, row);
    write_note(out, fprintf(out, "%s:%s", row->name, n == 0 ? " []" : ""), draft, key);
    for (size_t i = 0; i < n; i++)
        if (row->kind == CONFIG_KIND_LISTEN)
            write_listen(out, &config->listen[i]);
        else if (row->kind == CONFIG_KIND_RESOURCES)
            write_resource(out, &config->resources.all[i]);
        else if (row->kind == CONFIG_KIND_HOSTS)
            write_item(out, "  - ", config->allowed_hosts[i]);
        else
            write_item(out, "  - ", row->kind == CONFIG_KIND_SCOPE ? config->scope[i] : config->upstream[i].url);
}

static void write_key(FILE *out, const struct config *config, const struct config_draft *draft, enum config_key key)
{
    const struct config_row *row = &config_rows[key];
    const char *at = (const char *)config + row->offset;
    if (config_row_is_list(row)) {
        write_list(out, config, draft, key);
        return;
    }
    bool none = row->kind == CONFIG_KIND_TEXT && *(char *const *)(const void *)at == NULL;
    int width = fprintf(out, none ? "# %s: none" : "%s: ", row->name);
    if (!none)
        width += write_scalar(out, row, at);
    write_note(out, width, draft, key);
}

void config_write(const struct config *config, const struct config_draft *draft, FILE *out)
{
    for (enum config_key key = 0; key < N_CONFIG_KEYS; key++) {
        if (config_rows[key].group != NULL)
            fprintf(out, "%s# %s\n", key > 0 ? "\n" : "", config_rows[key].group);
        write_key(out, config, draft, key);
    }
}

void config_print(const struct config *config, FILE *out)
{
    config_write(config, NULL, out);
}
