/* src/daemon/config_print.c: written by hand, since libyaml writes no comments. */
#include "daemon/config_print.h"

#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"
#include "daemon/config_listen.h"

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
        n = belfry_utf8_next(text, strlen(text), &code);
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

static const char *text_at(const struct belfry_opt_row *row, const struct config *config)
{
    return *(char *const *)(const void *)((const char *)config + row->offset);
}

static int write_scalar(FILE *out, const struct belfry_opt_row *row, const struct config *config)
{
    char text[BELFRY_VALUE_MAX];
    if (row->id == KEY_ADMIN)
        return write_text(out, config->admin.url);
    if (row->kind == BELFRY_KIND_TEXT)
        return write_text(out, text_at(row, config));
    belfry_opt_write(row, belfry_opt_load(row, config), text);
    return fprintf(out, "%s", text);
}

static void write_item(FILE *out, const char *before, const char *text)
{
    fputs(before, out);
    write_text(out, text);
    fputc('\n', out);
}

static void write_names(FILE *out, const char *setting, const struct listen_names *names)
{
    if (names->n > 0)
        fprintf(out, "    %s:\n", setting);
    for (size_t i = 0; i < names->n; i++)
        write_item(out, "      - ", names->list[i]);
}

static void write_listen(FILE *out, const struct config_listen *listen)
{
    char served[64];
    config_listen_dialects(listen->policy.dialects, ", ", served, sizeof(served));
    write_item(out, "  - url: ", listen->endpoint.url);
    fprintf(out, "    serve: [%s]\n    read-only: %s\n", served, listen->policy.read_only ? "true" : "false");
    if (listen->policy.reads == LISTEN_READS_RELAY)
        fputs("    reads: relay\n", out);
    if (listen->policy.consistency == LISTEN_CONSISTENCY_SERIALIZABLE)
        fputs("    consistency: serializable\n", out);
    if (listen->cert != NULL)
        write_item(out, "    cert: ", listen->cert);
    if (listen->key != NULL)
        write_item(out, "    key: ", listen->key);
    if (listen->client_ca != NULL)
        write_item(out, "    client-ca: ", listen->client_ca);
    if (listen->crl != NULL)
        write_item(out, "    crl: ", listen->crl);
    if (listen->user != BELFRY_TLS_NAME_CN)
        fprintf(out, "    user: %s\n", listen->user == BELFRY_TLS_NAME_URI ? "uri" : "dns");
    if (config_listen_rights(&listen->policy) != NULL)
        fprintf(out, "    rights: %s\n", config_listen_rights(&listen->policy));
    write_names(out, "tiers", &listen->policy.tiers);
    write_names(out, "users-from", &listen->policy.users_from);
    if (listen->proxy_from.n > 0)
        fputs("    proxy-from:\n", out);
    for (size_t i = 0; i < listen->proxy_from.n; i++) {
        char network[CLIENT_ADDRESS_TEXT];
        client_network_text(&listen->proxy_from.list[i], network);
        write_item(out, "      - ", network);
    }
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

static void write_list(FILE *out, const struct config *config, const struct config_draft *draft, enum config_key key)
{
    size_t n = key == KEY_UPSTREAM        ? config->n_upstream
               : key == KEY_LISTEN        ? config->n_listen
               : key == KEY_RESOURCES     ? config->resources.n
               : key == KEY_ALLOWED_HOSTS ? config->n_allowed_hosts
               : key == KEY_CORS_ORIGINS  ? config->n_cors_origins
               : key == KEY_FOLLOW        ? config->n_follow
                                          : config->n_scope;
    write_note(out, fprintf(out, "%s:%s", config_rows[key].name, n == 0 ? " []" : ""), draft, key);
    for (size_t i = 0; i < n; i++)
        if (key == KEY_LISTEN)
            write_listen(out, &config->listen[i]);
        else if (key == KEY_RESOURCES)
            write_resource(out, &config->resources.all[i]);
        else
            write_item(out, "  - ",
                       key == KEY_UPSTREAM        ? config->upstream[i].url
                       : key == KEY_ALLOWED_HOSTS ? config->allowed_hosts[i]
                       : key == KEY_CORS_ORIGINS  ? config->cors_origins[i]
                       : key == KEY_FOLLOW        ? config->follow[i]
                                                  : config->scope[i]);
}

static void write_key(FILE *out, const struct config *config, const struct config_draft *draft, enum config_key key)
{
    const struct belfry_opt_row *row = &config_rows[key];
    if (config_row_is_list(row)) {
        write_list(out, config, draft, key);
        return;
    }
    bool none = row->kind == BELFRY_KIND_TEXT && row->width > 0 && text_at(row, config) == NULL;
    int width = fprintf(out, none ? "# %s: none" : "%s: ", row->name);
    if (!none)
        width += write_scalar(out, row, config);
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

static ssize_t append_to_buf(void *buf, const char *bytes, size_t n)
{
    return belfry_buf_append(buf, bytes, n) == BELFRY_OK ? (ssize_t)n : 0;
}

enum belfry_err config_write_key(const struct config *config, enum config_key key, struct belfry_buf *out)
{
    FILE *lines = fopencookie(out, "w", (cookie_io_functions_t){.write = append_to_buf});
    if (lines == NULL)
        return BELFRY_ERR_NOMEM;
    write_key(lines, config, NULL, key);
    bool whole = ferror(lines) == 0;
    return fclose(lines) == 0 && whole ? BELFRY_OK : BELFRY_ERR_NOMEM;
}

void config_show(const struct config *config, enum config_key key, char *out, size_t out_len)
{
    const struct belfry_opt_row *row = &config_rows[key];
    char number[BELFRY_VALUE_MAX];
    size_t len = 0;
    if (row->kind == BELFRY_KIND_TEXT) {
        const char *text = text_at(row, config);
        snprintf(out, out_len, "%s", text != NULL ? text : "none");
        return;
    }
    if (key != KEY_ALLOWED_HOSTS) {
        belfry_opt_write(row, belfry_opt_load(row, config), number);
        snprintf(out, out_len, "%s", number);
        return;
    }
    snprintf(out, out_len, "none");
    for (size_t i = 0; i < config->n_allowed_hosts && len < out_len; i++)
        len += (size_t)snprintf(out + len, out_len - len, "%s%s", i > 0 ? "," : "", config->allowed_hosts[i]);
}

void config_print(const struct config *config, FILE *out)
{
    config_write(config, NULL, out);
}
