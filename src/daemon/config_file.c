/* src/daemon/config_file.c
 *
 * libyaml reads the file into a document. Nothing in it is nested deeper than wrap, so nothing here recurses, and an
 * alias that refers to itself is a wrong type like any.
 */
#include "daemon/config_file.h"

#include <string.h>

#include <yaml.h>

#include "daemon/config_listen.h"
#include "daemon/config_resource.h"

struct reader {
    struct config_draft *draft;
    yaml_document_t *document;
};

struct input {
    FILE *file;
    size_t taken;
    bool too_large;
};

static int take_input(void *user, unsigned char *room, size_t size, size_t *out_len)
{
    struct input *input = user;
    *out_len = fread(room, 1, size, input->file);
    input->taken += *out_len;
    input->too_large = input->taken > CONFIG_FILE_MAX;
    return !input->too_large && ferror(input->file) == 0;
}

static struct config_origin origin_of(const yaml_node_t *node)
{
    return (struct config_origin){CONFIG_FROM_FILE, node->start_mark.line + 1};
}

static const char *scalar_text(const yaml_node_t *node)
{
    return (const char *)node->data.scalar.value;
}

/* A scalar that is there, and without a zero byte in it: "key:" alone is a value forgotten, not an empty one. */
static enum belfry_err check_scalar(const struct reader *r, const struct belfry_opt_row *row, const yaml_node_t *node)
{
    struct config_origin origin = origin_of(node);
    if (node->type != YAML_SCALAR_NODE)
        return config_draft_wrong(r->draft, row, origin, "this is a %s: write one value",
                                  node->type == YAML_MAPPING_NODE ? "map" : "list");
    if (node->data.scalar.length == 0 && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        return config_draft_wrong(r->draft, row, origin, "the value is missing: write one, or leave the key out");
    if (strlen(scalar_text(node)) != node->data.scalar.length)
        return config_draft_wrong(r->draft, row, origin, "the value holds a zero byte");
    if (node->data.scalar.length >= CONFIG_TEXT_MAX)
        return config_draft_wrong(r->draft, row, origin, "the value is longer than %d bytes", CONFIG_TEXT_MAX - 1);
    return BELFRY_OK;
}

/* ---- listeners ---- */

/* serve: grpc, grpc+json or a list of names, as one text; tiers, users-from and proxy-from likewise. */
static enum belfry_err join_list(const struct reader *r, const yaml_node_t *list, char out[CONFIG_TEXT_MAX])
{
    const struct belfry_opt_row *row = &config_rows[KEY_LISTEN];
    size_t n = 0;
    out[0] = '\0';
    for (yaml_node_item_t *at = list->data.sequence.items.start; at < list->data.sequence.items.top; at++) {
        const yaml_node_t *node = yaml_document_get_node(r->document, *at);
        enum belfry_err err = check_scalar(r, row, node);
        if (err != BELFRY_OK)
            return err;
        n += (size_t)snprintf(out + n, CONFIG_TEXT_MAX - n, "%s%s", n > 0 ? "+" : "", scalar_text(node));
        if (n >= CONFIG_TEXT_MAX)
            return config_draft_wrong(r->draft, row, origin_of(node), "the list is too long");
    }
    return BELFRY_OK;
}

static bool may_be_list(const char *name)
{
    return strcmp(name, "serve") == 0 || strcmp(name, "tiers") == 0 || strcmp(name, "users-from") == 0 ||
           strcmp(name, "proxy-from") == 0;
}

static enum belfry_err read_setting(const struct reader *r, const yaml_node_pair_t *pair, struct config_listen *listen,
                                    unsigned *seen)
{
    const struct belfry_opt_row *row = &config_rows[KEY_LISTEN];
    const yaml_node_t *name = yaml_document_get_node(r->document, pair->key);
    const yaml_node_t *value = yaml_document_get_node(r->document, pair->value);
    char joined[CONFIG_TEXT_MAX], why[CONFIG_WHY];
    enum belfry_err err = check_scalar(r, row, name);
    if (err != BELFRY_OK)
        return err;
    bool is_list = value->type == YAML_SEQUENCE_NODE && may_be_list(scalar_text(name));
    err = is_list ? join_list(r, value, joined) : check_scalar(r, row, value);
    if (err != BELFRY_OK)
        return err;
    err = config_listen_set(listen, seen, scalar_text(name), is_list ? joined : scalar_text(value), why);
    return err == BELFRY_ERR_INVALID ? config_draft_wrong(r->draft, row, origin_of(name), "%s", why) : err;
}

static enum belfry_err read_listener(const struct reader *r, const yaml_node_t *map)
{
    struct config_listen listen = {.policy.dialects = CONFIG_DIALECTS};
    unsigned seen = 0;
    enum belfry_err err = BELFRY_OK;
    for (yaml_node_pair_t *at = map->data.mapping.pairs.start; at < map->data.mapping.pairs.top && err == BELFRY_OK;
         at++)
        err = read_setting(r, at, &listen, &seen);
    if (err == BELFRY_OK && listen.endpoint.url[0] == '\0')
        err = config_draft_wrong(r->draft, &config_rows[KEY_LISTEN], origin_of(map),
                                 "a listener without url: add url: http://127.0.0.1:23790");
    if (err == BELFRY_OK)
        return config_draft_listen(r->draft, origin_of(map), &listen);
    config_listen_fini(&listen);
    return err;
}

/* ---- resources ---- */

/* wrap: FIELD, or {field: FIELD, key: TEMPLATE}. */
static enum belfry_err read_wrap(const struct reader *r, const yaml_node_t *map, struct definition_source *resource)
{
    const struct belfry_opt_row *row = &config_rows[KEY_RESOURCES];
    enum belfry_err err = BELFRY_OK;
    char why[CONFIG_WHY];
    for (yaml_node_pair_t *at = map->data.mapping.pairs.start; at < map->data.mapping.pairs.top && err == BELFRY_OK;
         at++) {
        const yaml_node_t *name = yaml_document_get_node(r->document, at->key);
        const yaml_node_t *value = yaml_document_get_node(r->document, at->value);
        err = check_scalar(r, row, name);
        if (err == BELFRY_OK)
            err = check_scalar(r, row, value);
        if (err != BELFRY_OK)
            return err;
        bool is_field = strcmp(scalar_text(name), "field") == 0;
        if (!is_field && strcmp(scalar_text(name), "key") != 0)
            return config_draft_wrong(r->draft, row, origin_of(name), "wrap has field and key, and no '%.48s'",
                                      scalar_text(name));
        err = config_resource_set(resource, is_field ? "wrap" : "key", scalar_text(value), why);
        if (err == BELFRY_ERR_INVALID)
            return config_draft_wrong(r->draft, row, origin_of(name), "%s", why);
    }
    return err;
}

static enum belfry_err read_resource_setting(const struct reader *r, const yaml_node_pair_t *pair,
                                             struct definition_source *resource)
{
    const struct belfry_opt_row *row = &config_rows[KEY_RESOURCES];
    const yaml_node_t *name = yaml_document_get_node(r->document, pair->key);
    const yaml_node_t *value = yaml_document_get_node(r->document, pair->value);
    char why[CONFIG_WHY];
    enum belfry_err err = check_scalar(r, row, name);
    if (err != BELFRY_OK)
        return err;
    if (value->type == YAML_MAPPING_NODE && strcmp(scalar_text(name), "wrap") == 0)
        return read_wrap(r, value, resource);
    err = check_scalar(r, row, value);
    if (err != BELFRY_OK)
        return err;
    err = config_resource_set(resource, scalar_text(name), scalar_text(value), why);
    return err == BELFRY_ERR_INVALID ? config_draft_wrong(r->draft, row, origin_of(name), "%s", why) : err;
}

static enum belfry_err read_resource(const struct reader *r, const yaml_node_t *map)
{
    struct definition_source resource = {0};
    enum belfry_err err = BELFRY_OK;
    char why[CONFIG_WHY];
    for (yaml_node_pair_t *at = map->data.mapping.pairs.start; at < map->data.mapping.pairs.top && err == BELFRY_OK;
         at++)
        err = read_resource_setting(r, at, &resource);
    if (err == BELFRY_OK && config_resource_check(&resource, why) != BELFRY_OK)
        err = config_draft_wrong(r->draft, &config_rows[KEY_RESOURCES], origin_of(map), "%s", why);
    if (err == BELFRY_OK)
        return config_draft_resource(r->draft, origin_of(map), &resource);
    config_resource_fini(&resource);
    return err;
}

/* ---- keys ---- */

static enum belfry_err read_item(const struct reader *r, const struct belfry_opt_row *row, const yaml_node_t *node)
{
    if (row->id == KEY_LISTEN && node->type == YAML_MAPPING_NODE)
        return read_listener(r, node);
    if (row->id == KEY_RESOURCES && node->type == YAML_MAPPING_NODE)
        return read_resource(r, node);
    enum belfry_err err = check_scalar(r, row, node);
    return err == BELFRY_OK ? config_draft_set(r->draft, row, origin_of(node), scalar_text(node)) : err;
}

static enum belfry_err read_value(const struct reader *r, const struct belfry_opt_row *row, const yaml_node_t *value)
{
    if (!config_row_is_list(row) || value->type != YAML_SEQUENCE_NODE)
        return read_item(r, row, value);
    enum belfry_err err = BELFRY_OK;
    config_draft_begin(r->draft, row, origin_of(value));
    for (yaml_node_item_t *at = value->data.sequence.items.start;
         at < value->data.sequence.items.top && err == BELFRY_OK; at++)
        err = read_item(r, row, yaml_document_get_node(r->document, *at));
    return err;
}

static enum belfry_err unknown_key(const struct reader *r, const yaml_node_t *name, const char *nearest)
{
    if (nearest != NULL)
        return config_draft_wrong(r->draft, NULL, origin_of(name), "unknown key '%.64s': did you mean %s?",
                                  scalar_text(name), nearest);
    return config_draft_wrong(r->draft, NULL, origin_of(name), "unknown key '%.64s': 'belfryd --help' lists them",
                              scalar_text(name));
}

static enum belfry_err read_pair(const struct reader *r, const yaml_node_pair_t *pair, uint64_t *seen)
{
    const yaml_node_t *name = yaml_document_get_node(r->document, pair->key);
    const char *nearest;
    enum belfry_err err = check_scalar(r, NULL, name);
    if (err != BELFRY_OK)
        return err;
    const struct belfry_opt_row *row =
        belfry_opt_find(config_rows, N_CONFIG_ROWS, scalar_text(name), name->data.scalar.length, &nearest);
    if (row == NULL)
        return unknown_key(r, name, nearest);
    if (row->line_only)
        return config_draft_wrong(r->draft, row, origin_of(name), "this is a flag alone: take it out of the file");
    if ((*seen & UINT64_C(1) << row->id) != 0)
        return config_draft_wrong(r->draft, row, origin_of(name), "the key is there twice: keep one");
    *seen |= UINT64_C(1) << row->id;
    return read_value(r, row, yaml_document_get_node(r->document, pair->value));
}

static enum belfry_err read_document(const struct reader *r)
{
    const yaml_node_t *root = yaml_document_get_root_node(r->document);
    uint64_t seen = 0;
    enum belfry_err err = BELFRY_OK;
    if (root == NULL || (root->type == YAML_SCALAR_NODE && root->data.scalar.length == 0))
        return BELFRY_OK; /* nothing but comments */
    if (root->type != YAML_MAPPING_NODE)
        return config_draft_wrong(r->draft, NULL, origin_of(root),
                                  "the file must hold keys and values, as in 'name: edge-7'");
    for (yaml_node_pair_t *at = root->data.mapping.pairs.start; at < root->data.mapping.pairs.top && err == BELFRY_OK;
         at++)
        err = config_draft_go_on(r->draft, read_pair(r, at, &seen));
    return err;
}

/* ---- the parser ---- */

static enum belfry_err parser_failed(const struct config_draft *draft, const yaml_parser_t *parser,
                                     const struct input *input)
{
    struct config_origin origin = {CONFIG_FROM_FILE, parser->problem_mark.line + 1};
    const char *problem = parser->problem == NULL ? "not YAML" : parser->problem;
    if (parser->error == YAML_MEMORY_ERROR)
        return BELFRY_ERR_NOMEM;
    if (input->too_large)
        return config_draft_wrong(draft, NULL, origin, "the file is larger than %d bytes", CONFIG_FILE_MAX);
    if (ferror(input->file) != 0)
        return config_draft_wrong(draft, NULL, origin, "the file cannot be read");
    if (parser->error == YAML_READER_ERROR)
        return config_draft_wrong(draft, NULL, origin, "%s, at byte %zu of the file", problem, parser->problem_offset);
    if (parser->context != NULL)
        return config_draft_wrong(draft, NULL, origin, "%s, %s", parser->context, problem);
    return config_draft_wrong(draft, NULL, origin, "%s", problem);
}

static enum belfry_err refuse_second(const struct config_draft *draft, yaml_parser_t *parser, const struct input *input)
{
    yaml_document_t document;
    if (yaml_parser_load(parser, &document) == 0)
        return parser_failed(draft, parser, input);
    const yaml_node_t *root = yaml_document_get_root_node(&document);
    enum belfry_err err = BELFRY_OK;
    if (root != NULL)
        err = config_draft_wrong(draft, NULL, origin_of(root), "a second document: put all keys into the first");
    yaml_document_delete(&document);
    return err;
}

enum belfry_err config_file_read(struct config_draft *draft, FILE *file)
{
    yaml_parser_t parser;
    yaml_document_t document;
    struct input input = {.file = file};
    if (yaml_parser_initialize(&parser) == 0)
        return BELFRY_ERR_NOMEM;
    yaml_parser_set_input(&parser, take_input, &input);
    enum belfry_err err;
    if (yaml_parser_load(&parser, &document) == 0)
        err = parser_failed(draft, &parser, &input);
    else {
        err = read_document(&(struct reader){draft, &document});
        bool ended = yaml_document_get_root_node(&document) == NULL;
        yaml_document_delete(&document);
        if (err == BELFRY_OK && !ended)
            err = refuse_second(draft, &parser, &input);
    }
    yaml_parser_delete(&parser);
    return err;
}
