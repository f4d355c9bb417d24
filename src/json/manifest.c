/* src/json/manifest.c
 *
 * A text that begins with '{' and parses as JSON is read by yyjson. Any other text is read from libyaml event by event,
 * never as a libyaml document: depth and aliases are checked before anything is built.
 */
#include "json/manifest.h"

#include <math.h>
#include <stdlib.h>

#include <yaml.h>

#include "json/json_alc.h"

#define DIRECTIVES_MAX 16 /* manifests have none; YAML defines two */

/* ---- JSON ---- */

static bool looks_like_json(struct belfry_bytes text)
{
    size_t i = 0;
    while (i < text.len && strchr(" \t\r\n", text.data[i]) != NULL)
        i++;
    return i < text.len && text.data[i] == '{';
}

/* Counts brackets, before anything is allocated. yyjson checks whether they match. */
static bool nests_too_deep(struct belfry_bytes text)
{
    size_t depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < text.len && depth <= KUBE_NESTING_MAX; i++) {
        char c = text.data[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '{' || c == '['))
            depth++;
        else if (!quoted && (c == '}' || c == ']') && depth > 0)
            depth--;
    }
    return depth > KUBE_NESTING_MAX;
}

static enum belfry_err read_json(struct belfry_bytes text, yyjson_doc **out)
{
    yyjson_read_err why = {0};
    if (nests_too_deep(text))
        return BELFRY_ERR_INVALID;
    yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)text.data, text.len, YYJSON_READ_NUMBER_AS_RAW,
                                       &belfry_json_alc, &why); /* does not write without YYJSON_READ_INSITU */
    if (doc == NULL)
        return why.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION ? BELFRY_ERR_NOMEM : BELFRY_ERR_INVALID;
    *out = doc;
    return BELFRY_OK;
}

/* ---- plain scalars: YAML 1.2.2, section 10.3.2 ---- */

#define DIGITS_MAX 64 /* of a converted number */

/* A number is written to JSON with its spelling, or by its value if JSON has no such form (0x1F, +1, 007, .5). Numbers
 * without a value in JSON (.inf, .nan, an 0x of more than 63 bits) are text. */
enum scalar_type { SCALAR_TEXT, SCALAR_NULL, SCALAR_TRUE, SCALAR_FALSE, SCALAR_JSON_NUMBER, SCALAR_INT, SCALAR_REAL };

struct scalar {
    enum scalar_type type;
    int64_t integer; /* of an INT */
    double real;     /* of a REAL */
};

static bool is_one_of(struct belfry_bytes text, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (belfry_bytes_equal(text, belfry_bytes_str(*words)))
            return true;
    }
    return false;
}

static bool is_digit(struct belfry_bytes text, size_t at)
{
    return at < text.len && text.data[at] >= '0' && text.data[at] <= '9';
}

static size_t skip_digits(struct belfry_bytes text, size_t at)
{
    while (is_digit(text, at))
        at++;
    return at;
}

static bool is_at(struct belfry_bytes text, size_t at, char a, char b)
{
    return at < text.len && (text.data[at] == a || text.data[at] == b);
}

/* "0x1F", "0o17" */
static bool scalar_based(struct belfry_bytes text, struct scalar *out)
{
    char digits[DIGITS_MAX], *end;
    if (text.len < 3 || text.len >= sizeof(digits) || text.data[0] != '0' || !is_at(text, 1, 'x', 'o'))
        return false;
    int base = text.data[1] == 'x' ? 16 : 8;
    for (size_t i = 2; i < text.len; i++) { /* strtoull takes signs and blanks */
        if (strchr("0123456789abcdefABCDEF", text.data[i]) == NULL || text.data[i] == '\0')
            return false;
    }
    memcpy(digits, text.data + 2, text.len - 2);
    digits[text.len - 2] = '\0';
    unsigned long long value = strtoull(digits, &end, base);
    *out = (struct scalar){.type = SCALAR_INT, .integer = (int64_t)value};
    return *end == '\0' && value <= INT64_MAX;
}

/* Where the parts of a decimal are: [sign] whole [. fraction] [e exponent]. */
struct decimal {
    size_t sign, n_whole, n_fraction, n_exponent;
    bool point, exponent;
};

static bool split_decimal(struct belfry_bytes text, struct decimal *out)
{
    *out = (struct decimal){.sign = is_at(text, 0, '+', '-')};
    size_t at = skip_digits(text, out->sign);
    out->n_whole = at - out->sign;
    out->point = is_at(text, at, '.', '.');
    if (out->point) {
        size_t end = skip_digits(text, at + 1);
        out->n_fraction = end - at - 1;
        at = end;
    }
    if (out->n_whole + out->n_fraction == 0)
        return false;
    out->exponent = is_at(text, at, 'e', 'E');
    if (out->exponent) {
        size_t begin = at + 1 + is_at(text, at + 1, '+', '-');
        at = skip_digits(text, begin);
        out->n_exponent = at - begin;
    }
    return at == text.len && (!out->exponent || out->n_exponent > 0);
}

static bool scalar_decimal(struct belfry_bytes text, struct scalar *out)
{
    struct decimal parts;
    char digits[DIGITS_MAX];
    if (!split_decimal(text, &parts))
        return false;
    bool plus = text.data[0] == '+', zeros = parts.n_whole > 1 && text.data[parts.sign] == '0';
    *out = (struct scalar){.type = SCALAR_JSON_NUMBER};
    if (!plus && !zeros && parts.n_whole > 0 && (!parts.point || parts.n_fraction > 0))
        return true;
    if (text.len >= sizeof(digits))
        return false;
    memcpy(digits, text.data, text.len);
    digits[text.len] = '\0';
    out->real = strtod(digits, NULL);
    out->type = SCALAR_REAL;
    if (!parts.point && !parts.exponent && parts.n_whole <= 18) {
        out->type = SCALAR_INT;
        out->integer = strtoll(digits, NULL, 10);
    }
    return isfinite(out->real);
}

static struct scalar scalar_read(struct belfry_bytes text)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    struct scalar number;
    if (is_one_of(text, nulls))
        return (struct scalar){.type = SCALAR_NULL};
    if (is_one_of(text, trues))
        return (struct scalar){.type = SCALAR_TRUE};
    if (is_one_of(text, falses))
        return (struct scalar){.type = SCALAR_FALSE};
    return scalar_based(text, &number) || scalar_decimal(text, &number) ? number : (struct scalar){.type = SCALAR_TEXT};
}

static yyjson_mut_val *scalar_value(yyjson_mut_doc *doc, struct belfry_bytes text)
{
    struct scalar scalar = scalar_read(text);
    switch (scalar.type) {
    case SCALAR_TEXT:
        return yyjson_mut_strncpy(doc, text.data, text.len);
    case SCALAR_NULL:
        return yyjson_mut_null(doc);
    case SCALAR_TRUE:
        return yyjson_mut_true(doc);
    case SCALAR_FALSE:
        return yyjson_mut_false(doc);
    case SCALAR_JSON_NUMBER:
        return yyjson_mut_rawncpy(doc, text.data, text.len);
    case SCALAR_INT:
        return yyjson_mut_sint(doc, scalar.integer);
    case SCALAR_REAL:
        return yyjson_mut_real(doc, scalar.real);
    }
    return NULL;
}

/* ---- YAML ---- */

struct level {
    yyjson_mut_val *container;
    yyjson_mut_val *key; /* the map key whose value comes next; NULL: a key comes next */
    size_t line;         /* where the map or list begins */
};

struct builder {
    yaml_parser_t parser;
    yyjson_mut_doc *doc;
    struct level levels[KUBE_NESTING_MAX];
    size_t depth;
    size_t n_documents;
    struct belfry_kube_fault *fault;
};

static size_t line_of(const yaml_event_t *event)
{
    return event->start_mark.line + 1;
}

static enum belfry_err parser_failed(const struct builder *b)
{
    const yaml_parser_t *parser = &b->parser;
    const char *problem = parser->problem == NULL ? "not YAML" : parser->problem;
    if (parser->error == YAML_MEMORY_ERROR)
        return BELFRY_ERR_NOMEM;
    if (parser->error == YAML_READER_ERROR)
        return belfry_kube_fault_say(b->fault, "byte %zu: %s", parser->problem_offset, problem);
    return belfry_kube_fault_say(b->fault, "line %zu: %s", parser->problem_mark.line + 1, problem);
}

static int by_text(const void *a, const void *b)
{
    yyjson_mut_val *const *x = a, *const *y = b;
    return belfry_bytes_cmp(belfry_bytes_of(yyjson_mut_get_str(*x), yyjson_mut_get_len(*x)),
                            belfry_bytes_of(yyjson_mut_get_str(*y), yyjson_mut_get_len(*y)));
}

/* Finds duplicate keys by sorting, because a map may have as many keys as fit into the text. */
static enum belfry_err check_keys(const struct builder *b, const struct level *level)
{
    yyjson_mut_val *map = level->container;
    size_t n = yyjson_mut_obj_size(map), i = 0;
    enum belfry_err err = BELFRY_OK;
    if (n < 2)
        return BELFRY_OK;
    yyjson_mut_val **keys = malloc(n * sizeof(*keys));
    if (keys == NULL)
        return BELFRY_ERR_NOMEM;
    yyjson_mut_obj_iter iter = yyjson_mut_obj_iter_with(map);
    for (yyjson_mut_val *key; i < n && (key = yyjson_mut_obj_iter_next(&iter)) != NULL; i++)
        keys[i] = key;
    qsort(keys, n, sizeof(*keys), by_text);
    for (i = 1; i < n && err == BELFRY_OK; i++) {
        if (by_text(&keys[i - 1], &keys[i]) == 0)
            err = belfry_kube_fault_say(b->fault,
                                        "line %zu: the map that begins here has the key '%.64s' twice: keep one",
                                        level->line, yyjson_mut_get_str(keys[i]));
    }
    free(keys);
    return err;
}

/* Adds a value where the current level expects one: as root, list element, map key or map value. */
static enum belfry_err place_value(struct builder *b, yyjson_mut_val *value)
{
    if (value == NULL)
        return BELFRY_ERR_NOMEM;
    if (b->depth == 0) {
        yyjson_mut_doc_set_root(b->doc, value);
        return BELFRY_OK;
    }
    struct level *top = &b->levels[b->depth - 1];
    if (yyjson_mut_is_arr(top->container))
        return yyjson_mut_arr_append(top->container, value) ? BELFRY_OK : BELFRY_ERR_NOMEM;
    if (top->key == NULL) {
        top->key = value;
        return BELFRY_OK;
    }
    bool added = yyjson_mut_obj_add(top->container, top->key, value);
    top->key = NULL;
    return added ? BELFRY_OK : BELFRY_ERR_NOMEM;
}

static bool key_is_due(const struct builder *b)
{
    if (b->depth == 0)
        return false;
    const struct level *top = &b->levels[b->depth - 1];
    return yyjson_mut_is_obj(top->container) && top->key == NULL;
}

static enum belfry_err check_tag(const struct builder *b, const yaml_event_t *event, const yaml_char_t *tag,
                                 const char *only)
{
    if (tag == NULL || strcmp((const char *)tag, "!") == 0 || strcmp((const char *)tag, only) == 0)
        return BELFRY_OK;
    return belfry_kube_fault_say(b->fault, "line %zu: the tag '%.64s' is not supported: remove it", line_of(event),
                                 (const char *)tag);
}

static enum belfry_err take_scalar(struct builder *b, const yaml_event_t *event)
{
    struct belfry_bytes text = belfry_bytes_of(event->data.scalar.value, event->data.scalar.length);
    enum belfry_err err = check_tag(b, event, event->data.scalar.tag, YAML_STR_TAG);
    if (err != BELFRY_OK)
        return err;
    bool plain = event->data.scalar.plain_implicit != 0 && event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (!plain || key_is_due(b)) /* JSON keys are strings, even 1, on and ~ */
        return place_value(b, yyjson_mut_strncpy(b->doc, text.data, text.len));
    return place_value(b, scalar_value(b->doc, text));
}

static enum belfry_err open_container(struct builder *b, const yaml_event_t *event, yyjson_mut_val *container)
{
    if (key_is_due(b))
        return belfry_kube_fault_say(b->fault, "line %zu: the key of a map must be a text", line_of(event));
    if (b->depth == KUBE_NESTING_MAX)
        return belfry_kube_fault_say(b->fault, "line %zu: nested deeper than %d", line_of(event), KUBE_NESTING_MAX);
    enum belfry_err err = place_value(b, container);
    if (err == BELFRY_OK)
        b->levels[b->depth++] = (struct level){.container = container, .line = line_of(event)};
    return err;
}

static enum belfry_err take_event(struct builder *b, const yaml_event_t *event)
{
    enum belfry_err err;
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (b->n_documents++ > 0)
            return belfry_kube_fault_say(
                b->fault, "line %zu: a second document begins here: one file holds one manifest", line_of(event));
        return BELFRY_OK;
    case YAML_SCALAR_EVENT:
        return take_scalar(b, event);
    case YAML_MAPPING_START_EVENT:
        err = check_tag(b, event, event->data.mapping_start.tag, YAML_MAP_TAG);
        return err == BELFRY_OK ? open_container(b, event, yyjson_mut_obj(b->doc)) : err;
    case YAML_SEQUENCE_START_EVENT:
        err = check_tag(b, event, event->data.sequence_start.tag, YAML_SEQ_TAG);
        return err == BELFRY_OK ? open_container(b, event, yyjson_mut_arr(b->doc)) : err;
    case YAML_MAPPING_END_EVENT:
        b->depth--;
        return check_keys(b, &b->levels[b->depth]);
    case YAML_SEQUENCE_END_EVENT:
        b->depth--;
        return BELFRY_OK;
    case YAML_ALIAS_EVENT:
        return belfry_kube_fault_say(b->fault, "line %zu: an alias ('*%.64s'): write out what it stands for",
                                     line_of(event), (const char *)event->data.alias.anchor);
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        break;
    }
    return BELFRY_OK;
}

static enum belfry_err manifest_build(struct builder *b)
{
    enum belfry_err err = BELFRY_OK;
    bool ended = false;
    while (err == BELFRY_OK && !ended) {
        yaml_event_t event;
        if (yaml_parser_parse(&b->parser, &event) == 0)
            return parser_failed(b);
        ended = event.type == YAML_STREAM_END_EVENT;
        err = take_event(b, &event);
        yaml_event_delete(&event);
    }
    return err;
}

static enum belfry_err manifest_finish(struct builder *b, yyjson_doc **out)
{
    if (b->n_documents == 0 || yyjson_mut_is_null(yyjson_mut_doc_get_root(b->doc)))
        return belfry_kube_fault_say(b->fault, "the file is empty");
    if (!yyjson_mut_is_obj(yyjson_mut_doc_get_root(b->doc)))
        return belfry_kube_fault_say(b->fault, "a manifest is a map that begins with apiVersion and kind");
    *out = yyjson_mut_doc_imut_copy(b->doc, &belfry_json_alc);
    return *out == NULL ? BELFRY_ERR_NOMEM : BELFRY_OK;
}

/* libyaml compares each %TAG with all earlier ones, so a megabyte of them takes minutes. Count them anywhere in the
 * text: libyaml accepts more line ends than '\n'. */
static bool has_many_directives(struct belfry_bytes text)
{
    static const char tag[] = "%TAG";
    size_t n = 0;
    const char *end = text.data + text.len, *at = text.data;
    while (n <= DIRECTIVES_MAX && (at = memmem(at, (size_t)(end - at), tag, sizeof(tag) - 1)) != NULL) {
        at += sizeof(tag) - 1;
        n++;
    }
    return n > DIRECTIVES_MAX;
}

static enum belfry_err read_yaml(struct belfry_bytes text, yyjson_doc **out, struct belfry_kube_fault *fault)
{
    if (has_many_directives(text))
        return belfry_kube_fault_say(fault, "more than %d directives (%%TAG)", DIRECTIVES_MAX);
    struct builder b = {.fault = fault, .doc = yyjson_mut_doc_new(&belfry_json_alc)};
    if (b.doc == NULL)
        return BELFRY_ERR_NOMEM;
    enum belfry_err err = BELFRY_ERR_NOMEM;
    if (yaml_parser_initialize(&b.parser) != 0) {
        yaml_parser_set_input_string(&b.parser, (const unsigned char *)text.data, text.len);
        err = manifest_build(&b);
        if (err == BELFRY_OK)
            err = manifest_finish(&b, out);
        yaml_parser_delete(&b.parser);
    }
    yyjson_mut_doc_free(b.doc);
    return err;
}

enum belfry_err belfry_kube_manifest_read(struct belfry_bytes text, yyjson_doc **out, struct belfry_kube_fault *fault)
{
    if (text.len > KUBE_MANIFEST_MAX)
        return belfry_kube_fault_say(fault, "%zu bytes: a manifest has at most %d", text.len, KUBE_MANIFEST_MAX);
    if (text.len == 0)
        return belfry_kube_fault_say(fault, "the file is empty");
    if (looks_like_json(text)) {
        enum belfry_err err = read_json(text, out);
        if (err != BELFRY_ERR_INVALID)
            return err; /* otherwise try YAML, which may also begin with '{'; libyaml names the bad line */
    }
    return read_yaml(text, out, fault);
}
