/* src/kube/selector.c: label selectors, field selectors, their canonical text, and matching.
 *
 *     selector    = [requirement *("," requirement)]
 *     requirement = KEY / "!" KEY / KEY ("=" / "==" / "!=" / ">" / "<") [VALUE] / KEY ("in" / "notin") set
 *     set         = "(" [VALUE] *("," [VALUE]) ")"
 *
 * "in" and "notin" are keywords only after a key. A field selector is terms between commas, one equality each; white
 * space is not skipped.
 */
#include "kube/selector.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "kube/name.h"

/* k=v and k==v become sets of one value, and k!=v a negated set, so there is one way to match and to write them. */
enum selector_op { SELECTOR_IN, SELECTOR_NOT_IN, SELECTOR_EXISTS, SELECTOR_ABSENT, SELECTOR_GREATER, SELECTOR_LESS };

/* Indexes of the fields that every version has. */
#define SELECTOR_NAME      KUBE_FIELDS_MAX
#define SELECTOR_NAMESPACE (KUBE_FIELDS_MAX + 1)

struct selector_term {
    enum selector_op op;
    unsigned place;              /* index of a field; 0 for a label */
    struct belfry_bytes key;     /* points into the selector's copy of the texts */
    struct belfry_bytes *values; /* part of the selector; sorted and distinct after reading */
    size_t n_values;
    int64_t bound; /* GREATER, LESS: the one value as a number */
};

/*     selector | terms, labels first | values of all terms | copies of the two texts
 */
struct kube_selector {
    atomic_size_t refs; /* release on unref, acquire before free */
    bool namespaced;    /* whether its resource is */
    char *text;         /* owned, canonical, text_len bytes */
    size_t text_len;
    size_t bytes;                /* of the allocation, without text */
    struct belfry_bytes *values; /* n_values of them */
    size_t n_values;
    size_t n_labels, n_terms; /* label terms are [0, n_labels), field terms [n_labels, n_terms); each sorted by key */
    struct selector_term terms[];
};

struct selector_draft {
    struct kube_selector *selector; /* has room for one term and one value per comma in the texts, up to the bounds */
    struct kube_status *status;
};

/* ---- quotes ---- */

#define QUOTE_MAX 80 /* two quotes and Kubernetes' longest sentence fit into KUBE_MESSAGE_MAX */

struct quote {
    char text[QUOTE_MAX]; /* ends in "..." if truncated */
};

/* A client's bytes in a message for people: truncated, without control characters, always valid UTF-8, because the
 * message is sent as JSON. */
static struct quote selector_quote(struct belfry_bytes bytes)
{
    static const char cut[] = "...";
    struct quote quote;
    size_t len = 0;
    for (size_t at = 0, n; at < bytes.len; at += n) {
        uint32_t ignored;
        size_t known = belfry_utf8_next(bytes.data + at, bytes.len - at, &ignored);
        n = known == 0 ? 1 : known;
        if (len + n > sizeof(quote.text) - sizeof(cut)) {
            memcpy(quote.text + len, cut, sizeof(cut));
            return quote;
        }
        memcpy(quote.text + len, bytes.data + at, n);
        char c = bytes.data[at];
        if (known == 0 || (unsigned char)c < 0x20 || c == 0x7f)
            quote.text[len] = '?';
        len += n;
    }
    quote.text[len] = '\0';
    return quote;
}

/* ---- drafts ---- */

/* An upper bound for terms and for values: the number of pieces between commas. */
static size_t count_pieces(struct belfry_bytes text)
{
    size_t n = text.len > 0 ? 1 : 0;
    for (size_t i = 0; i < text.len; i++)
        n += text.data[i] == ',';
    return n;
}

static size_t at_most(size_t n, size_t max)
{
    return n < max ? n : max;
}

/* *out_copy receives the address of the copied texts: labels first, then fields. */
static struct kube_selector *selector_alloc(struct belfry_bytes labels, struct belfry_bytes fields, char **out_copy)
{
    size_t n = count_pieces(labels) + count_pieces(fields);
    size_t n_terms = at_most(n, KUBE_TERMS_MAX), n_values = at_most(n, KUBE_VALUES_MAX);
    size_t size = sizeof(struct kube_selector) + n_terms * sizeof(struct selector_term) +
                  n_values * sizeof(struct belfry_bytes) + labels.len + fields.len;
    struct kube_selector *selector = malloc(size);
    if (selector == NULL)
        return NULL;
    *selector = (struct kube_selector){.values = (struct belfry_bytes *)(selector->terms + n_terms), .bytes = size};
    atomic_init(&selector->refs, 1);
    *out_copy = (char *)(selector->values + n_values);
    if (labels.len > 0)
        memcpy(*out_copy, labels.data, labels.len);
    if (fields.len > 0)
        memcpy(*out_copy + labels.len, fields.data, fields.len);
    return selector;
}

/* Adds a term without values. Errors: BELFRY_ERR_INVALID (too many). */
static enum belfry_err selector_add_term(struct selector_draft *draft, struct belfry_bytes key,
                                         struct selector_term **out)
{
    struct kube_selector *selector = draft->selector;
    if (selector->n_terms == KUBE_TERMS_MAX) {
        kube_status_set(draft->status, KUBE_BAD_REQUEST, "a selector may have no more than %d requirements",
                        KUBE_TERMS_MAX);
        return BELFRY_ERR_INVALID;
    }
    *out = &selector->terms[selector->n_terms++];
    **out = (struct selector_term){.key = key, .values = selector->values + selector->n_values};
    return BELFRY_OK;
}

/* Adds a value to the newest term. Errors: BELFRY_ERR_INVALID (too many). */
static enum belfry_err selector_add_value(struct selector_draft *draft, struct selector_term *term,
                                          struct belfry_bytes value)
{
    struct kube_selector *selector = draft->selector;
    assert(term == &selector->terms[selector->n_terms - 1]);
    if (selector->n_values == KUBE_VALUES_MAX) {
        kube_status_set(draft->status, KUBE_BAD_REQUEST, "a selector may have no more than %d values", KUBE_VALUES_MAX);
        return BELFRY_ERR_INVALID;
    }
    selector->values[selector->n_values++] = value;
    term->n_values++;
    return BELFRY_OK;
}

/* Reads a decimal int64 like Go's ParseInt: a sign, digits, nothing else. False: not a number. */
static bool read_number(struct belfry_bytes text, int64_t *out)
{
    bool negative = text.len > 0 && text.data[0] == '-';
    size_t at = negative || (text.len > 0 && text.data[0] == '+') ? 1 : 0;
    int64_t number = 0; /* built as a negative number: INT64_MIN has no positive */
    if (at == text.len)
        return false;
    for (; at < text.len; at++) {
        if (text.data[at] < '0' || text.data[at] > '9' || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_sub_overflow(number, text.data[at] - '0', &number))
            return false;
    }
    if (!negative && number == INT64_MIN)
        return false;
    *out = negative ? number : -number;
    return true;
}

/* ---- labels ---- */

#define NAME_MAX_LEN 63 /* of a key after its prefix, and of a value */

#define NAME_RULE                                                                                                      \
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character " \
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "                                      \
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
#define VALUE_RULE                                                                                                     \
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "    \
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation "  \
    "is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
#define PREFIX_RULE                                                                                                    \
    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "  \
    "must start and end with an alphanumeric character (e.g. 'example.com') and be no more than 253 characters"

enum token { END, WORD, COMMA, OPEN, CLOSE, NOT, EQUALS, NOT_EQUALS, GREATER, LESS };

struct reader {
    struct selector_draft *draft;
    struct belfry_bytes rest;
    enum token token;            /* the current token */
    struct belfry_bytes literal; /* of the token; never NULL */
};

/* ---- tokens ---- */

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_special(char c)
{
    return c == '=' || c == '!' || c == '(' || c == ')' || c == ',' || c == '>' || c == '<';
}

static void take_char(struct reader *reader, enum token token, size_t len)
{
    reader->token = token;
    reader->literal = belfry_bytes_of(reader->rest.data, len);
    reader->rest = belfry_bytes_of(reader->rest.data + len, reader->rest.len - len);
}

static size_t word_len(struct belfry_bytes text)
{
    size_t n = 0;
    while (n < text.len && !is_special(text.data[n]) && !is_space(text.data[n]))
        n++;
    return n;
}

static void next_token(struct reader *reader)
{
    while (reader->rest.len > 0 && is_space(reader->rest.data[0]))
        reader->rest = belfry_bytes_of(reader->rest.data + 1, reader->rest.len - 1);
    if (reader->rest.len == 0) {
        take_char(reader, END, 0);
        return;
    }
    bool equals_next = reader->rest.len > 1 && reader->rest.data[1] == '=';
    switch (reader->rest.data[0]) {
    case '=':
        take_char(reader, EQUALS, equals_next ? 2 : 1);
        return;
    case '!':
        take_char(reader, equals_next ? NOT_EQUALS : NOT, equals_next ? 2 : 1);
        return;
    case '(':
        take_char(reader, OPEN, 1);
        return;
    case ')':
        take_char(reader, CLOSE, 1);
        return;
    case ',':
        take_char(reader, COMMA, 1);
        return;
    case '>':
        take_char(reader, GREATER, 1);
        return;
    case '<':
        take_char(reader, LESS, 1);
        return;
    default:
        take_char(reader, WORD, word_len(reader->rest));
    }
}

static bool is_word(const struct reader *reader, const char *word)
{
    return reader->token == WORD && belfry_bytes_equal(reader->literal, belfry_bytes_str(word));
}

/* ---- faults ---- */

static enum belfry_err refuse_expected(struct reader *reader, const char *what)
{
    kube_status_set(reader->draft->status, KUBE_BAD_REQUEST, "found '%s', expected: %s",
                    selector_quote(reader->literal).text, what);
    return BELFRY_ERR_INVALID;
}

static enum belfry_err expected_within(struct reader *reader, const char *what)
{
    kube_status_set(reader->draft->status, KUBE_BAD_REQUEST, "unable to parse requirement: found '%s', expected: %s",
                    selector_quote(reader->literal).text, what);
    return BELFRY_ERR_INVALID;
}

static enum belfry_err bad_key(struct reader *reader, struct belfry_bytes key, const char *why)
{
    kube_status_set(reader->draft->status, KUBE_BAD_REQUEST,
                    "unable to parse requirement: <nil>: Invalid value: \"%s\": %s", selector_quote(key).text, why);
    return BELFRY_ERR_INVALID;
}

static enum belfry_err bad_value(struct reader *reader, const struct selector_term *term, struct belfry_bytes value,
                                 const char *why)
{
    kube_status_set(reader->draft->status, KUBE_BAD_REQUEST,
                    "unable to parse requirement: values[%zu][%s]: Invalid value: \"%s\": %s", term->n_values,
                    selector_quote(term->key).text, selector_quote(value).text, why);
    return BELFRY_ERR_INVALID;
}

/* ---- keys and values ---- */

static bool is_alphanumeric(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_name(struct belfry_bytes name)
{
    if (name.len == 0 || !is_alphanumeric(name.data[0]) || !is_alphanumeric(name.data[name.len - 1]))
        return false;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.data[i];
        if (!is_alphanumeric(c) && c != '-' && c != '_' && c != '.')
            return false;
    }
    return true;
}

static enum belfry_err check_key(struct reader *reader, struct belfry_bytes key)
{
    const char *slash = memchr(key.data, '/', key.len);
    struct belfry_bytes name = key;
    if (slash != NULL) {
        struct belfry_bytes prefix = belfry_bytes_of(key.data, (size_t)(slash - key.data));
        name = belfry_bytes_of(slash + 1, key.len - prefix.len - 1);
        if (name.len > 0 && memchr(name.data, '/', name.len) != NULL)
            return bad_key(reader, key, "a qualified name " NAME_RULE " with an optional DNS subdomain prefix and '/'");
        if (prefix.len == 0)
            return bad_key(reader, key, "prefix part must be non-empty");
        if (!kube_name_is_subdomain(prefix))
            return bad_key(reader, key, PREFIX_RULE);
    }
    if (name.len == 0)
        return bad_key(reader, key, "name part must be non-empty");
    if (name.len > NAME_MAX_LEN)
        return bad_key(reader, key, "name part must be no more than 63 characters");
    return is_name(name) ? BELFRY_OK : bad_key(reader, key, "name part " NAME_RULE);
}

static enum belfry_err add_value(struct reader *reader, struct selector_term *term, struct belfry_bytes value)
{
    if (value.len > NAME_MAX_LEN)
        return bad_value(reader, term, value, "must be no more than 63 characters");
    if (value.len > 0 && !is_name(value))
        return bad_value(reader, term, value, VALUE_RULE);
    return selector_add_value(reader->draft, term, value);
}

/* ---- requirements ---- */

/* A word, or nothing if the value is omitted. */
static struct belfry_bytes take_value(struct reader *reader)
{
    struct belfry_bytes value = belfry_bytes_of(reader->literal.data, 0);
    if (reader->token == WORD) {
        value = reader->literal;
        next_token(reader);
    }
    return value;
}

static enum belfry_err read_set(struct reader *reader, struct selector_term *term)
{
    if (reader->token != OPEN)
        return expected_within(reader, "'('");
    do {
        next_token(reader);
        enum belfry_err err = add_value(reader, term, take_value(reader));
        if (err != BELFRY_OK)
            return err;
    } while (reader->token == COMMA);
    if (reader->token != CLOSE)
        return expected_within(reader, "',' or ')'");
    next_token(reader);
    return BELFRY_OK;
}

static enum belfry_err read_exact(struct reader *reader, struct selector_term *term)
{
    if (reader->token != WORD && reader->token != COMMA && reader->token != END)
        return expected_within(reader, "identifier");
    struct belfry_bytes value = take_value(reader);
    bool is_number = term->op == SELECTOR_GREATER || term->op == SELECTOR_LESS;
    if (is_number && !read_number(value, &term->bound))
        return bad_value(reader, term, value, "for 'Gt', 'Lt' operators, the value must be an integer");
    return add_value(reader, term, value);
}

static enum belfry_err read_comparison(struct reader *reader, struct selector_term *term)
{
    if (is_word(reader, "in") || is_word(reader, "notin")) {
        term->op = is_word(reader, "in") ? SELECTOR_IN : SELECTOR_NOT_IN;
        next_token(reader);
        return read_set(reader, term);
    }
    if (reader->token != EQUALS && reader->token != NOT_EQUALS && reader->token != GREATER && reader->token != LESS)
        return expected_within(reader, "in, notin, =, ==, !=, gt, lt");
    term->op = reader->token == EQUALS       ? SELECTOR_IN
               : reader->token == NOT_EQUALS ? SELECTOR_NOT_IN
               : reader->token == GREATER    ? SELECTOR_GREATER
                                             : SELECTOR_LESS;
    next_token(reader);
    return read_exact(reader, term);
}

static enum belfry_err read_requirement(struct reader *reader)
{
    struct selector_term *term;
    bool negated = reader->token == NOT;
    if (negated)
        next_token(reader);
    if (reader->token != WORD)
        return expected_within(reader, "identifier");
    enum belfry_err err = check_key(reader, reader->literal);
    if (err == BELFRY_OK)
        err = selector_add_term(reader->draft, reader->literal, &term);
    if (err != BELFRY_OK)
        return err;
    next_token(reader);
    if (!negated && reader->token != COMMA && reader->token != END)
        return read_comparison(reader, term);
    term->op = negated ? SELECTOR_ABSENT : SELECTOR_EXISTS;
    return BELFRY_OK;
}

/* Terms point into `text`, which must stay valid. Errors: BELFRY_ERR_INVALID with the draft's status. */
static enum belfry_err read_labels(struct selector_draft *draft, struct belfry_bytes text)
{
    struct reader reader = {.draft = draft, .rest = text};
    const char *wanted = "!, identifier, or 'end of string'";
    next_token(&reader);
    if (reader.token == END)
        return BELFRY_OK;
    for (;; next_token(&reader)) {
        if (reader.token != WORD && reader.token != NOT)
            return refuse_expected(&reader, wanted);
        enum belfry_err err = read_requirement(&reader);
        if (err != BELFRY_OK || reader.token == END)
            return err;
        if (reader.token != COMMA)
            return refuse_expected(&reader, "',' or 'end of string'");
        wanted = "identifier after ','";
    }
}

/* ---- fields ---- */

/* The length up to the first comma that is not escaped. */
static size_t term_len(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == ',')
            return i;
        if (text[i] == '\\')
            i++;
    }
    return len;
}

/* Finds the first of "!=", "==" and "=", and its length. False: there is none. */
static bool find_operator(const char *term, size_t len, size_t *at, size_t *op_len)
{
    const char *equals = memchr(term, '=', len);
    if (equals == NULL)
        return false;
    *at = (size_t)(equals - term);
    *op_len = 1;
    if (*at > 0 && equals[-1] == '!') {
        --*at;
        *op_len = 2;
    } else if (*at + 1 < len && equals[1] == '=') {
        *op_len = 2;
    }
    return true;
}

/* Removes the escapes of value[0, *len) in place. */
static enum belfry_err unescape(struct selector_draft *draft, char *value, size_t *len)
{
    size_t n = 0;
    for (size_t i = 0; i < *len; i++) {
        if (value[i] == '=') { /* a comma cannot appear here */
            kube_status_set(draft->status, KUBE_BAD_REQUEST, "invalid field selector: unescaped character in value: %c",
                            value[i]);
            return BELFRY_ERR_INVALID;
        }
        if (value[i] == '\\' && (++i == *len || memchr("\\,=", value[i], 3) == NULL)) {
            size_t shown = i == *len ? 1 : 2;
            kube_status_set(draft->status, KUBE_BAD_REQUEST, "invalid field selector: invalid escape sequence: %s",
                            selector_quote(belfry_bytes_of(value + i - 1, shown)).text);
            return BELFRY_ERR_INVALID;
        }
        value[n++] = value[i];
    }
    *len = n;
    return BELFRY_OK;
}

/* Appends ", a, b" to list[0, size); a name that does not fit is omitted. */
static void list_name(char *list, size_t size, const char *name)
{
    size_t len = strlen(list);
    if (len + strlen(name) + sizeof(", ") <= size)
        snprintf(list + len, size - len, ", %s", name);
}

static enum belfry_err refuse_field(struct selector_draft *draft, struct belfry_bytes name,
                                    const struct kube_version *version)
{
    char list[320] = "metadata.name";
    if (!version->no_namespace)
        list_name(list, sizeof(list), "metadata.namespace");
    for (size_t i = 0; i < version->n_fields; i++)
        list_name(list, sizeof(list), version->fields[i].name);
    kube_status_set(draft->status, KUBE_BAD_REQUEST, "field label not supported: %s (supported: %s)",
                    selector_quote(name).text, list);
    return BELFRY_ERR_INVALID;
}

static bool find_field(const struct kube_version *version, struct belfry_bytes name, unsigned *place)
{
    for (size_t i = 0; i < version->n_fields; i++) {
        if (belfry_bytes_equal(name, belfry_bytes_str(version->fields[i].name))) {
            *place = (unsigned)i;
            return true;
        }
    }
    *place = belfry_bytes_equal(name, belfry_bytes_str("metadata.name")) ? SELECTOR_NAME : SELECTOR_NAMESPACE;
    if (*place == SELECTOR_NAME)
        return true;
    return !version->no_namespace && belfry_bytes_equal(name, belfry_bytes_str("metadata.namespace"));
}

static enum belfry_err read_term(struct selector_draft *draft, char *text, size_t len,
                                 const struct kube_version *version)
{
    size_t at, op_len;
    unsigned place;
    struct selector_term *term;
    if (!find_operator(text, len, &at, &op_len)) {
        kube_status_set(draft->status, KUBE_BAD_REQUEST, "invalid field selector: can't understand '%s'",
                        selector_quote(belfry_bytes_of(text, len)).text);
        return BELFRY_ERR_INVALID;
    }
    struct belfry_bytes key = belfry_bytes_of(text, at);
    enum selector_op op = text[at] == '!' ? SELECTOR_NOT_IN : SELECTOR_IN;
    char *value = text + at + op_len;
    size_t value_len = len - at - op_len;
    enum belfry_err err = unescape(draft, value, &value_len);
    if (err == BELFRY_OK && !find_field(version, key, &place))
        err = refuse_field(draft, key, version);
    if (err == BELFRY_OK)
        err = selector_add_term(draft, key, &term);
    if (err != BELFRY_OK)
        return err;
    term->op = op;
    term->place = place;
    return selector_add_value(draft, term, belfry_bytes_of(value, value_len));
}

struct belfry_bytes kube_selector_unknown_field(struct belfry_bytes fields, const struct kube_version *version)
{
    for (size_t at = 0, n; at < fields.len; at += n + 1) {
        size_t op, op_len;
        unsigned place;
        const char *text = fields.data + at;
        n = term_len(text, fields.len - at);
        if (n == 0)
            continue;
        if (!find_operator(text, n, &op, &op_len))
            break;
        if (!find_field(version, belfry_bytes_of(text, op), &place))
            return belfry_bytes_of(text, op);
    }
    return (struct belfry_bytes){0};
}

/* The same; escapes are removed in place. */
static enum belfry_err read_fields(struct selector_draft *draft, char *text, size_t len,
                                   const struct kube_version *version)
{
    for (size_t at = 0, n; at < len; at += n + 1) {
        n = term_len(text + at, len - at);
        enum belfry_err err = n == 0 ? BELFRY_OK : read_term(draft, text + at, n, version);
        if (err != BELFRY_OK)
            return err;
    }
    return BELFRY_OK;
}

/* ---- order ---- */

static int compare_values(const void *a, const void *b)
{
    return belfry_bytes_cmp(*(const struct belfry_bytes *)a, *(const struct belfry_bytes *)b);
}

/* Orders terms with the same key by their position in the text. */
static int compare_terms(const void *a, const void *b)
{
    const struct selector_term *left = a, *right = b;
    int order = belfry_bytes_cmp(left->key, right->key);
    return order != 0 ? order : (left->key.data > right->key.data) - (left->key.data < right->key.data);
}

static void sort_values(struct selector_term *term)
{
    if (term->n_values < 2)
        return;
    qsort(term->values, term->n_values, sizeof(*term->values), compare_values);
    size_t n = 1;
    for (size_t i = 1; i < term->n_values; i++) {
        if (!belfry_bytes_equal(term->values[i], term->values[n - 1]))
            term->values[n++] = term->values[i];
    }
    term->n_values = n;
}

static void sort_terms(struct kube_selector *selector)
{
    for (size_t i = 0; i < selector->n_terms; i++)
        sort_values(&selector->terms[i]);
    qsort(selector->terms, selector->n_labels, sizeof(*selector->terms), compare_terms);
    qsort(selector->terms + selector->n_labels, selector->n_terms - selector->n_labels, sizeof(*selector->terms),
          compare_terms);
}

/* ---- its text ---- */

struct pen {
    char *to; /* NULL: only measure */
    size_t len;
};

static void pen_put(struct pen *pen, struct belfry_bytes bytes)
{
    if (pen->to != NULL && bytes.len > 0)
        memcpy(pen->to + pen->len, bytes.data, bytes.len);
    pen->len += bytes.len;
}

static void pen_put_str(struct pen *pen, const char *text)
{
    pen_put(pen, belfry_bytes_str(text));
}

static void pen_put_set(struct pen *pen, const struct selector_term *term)
{
    pen_put_str(pen, term->op == SELECTOR_IN ? " in (" : " notin (");
    for (size_t i = 0; i < term->n_values; i++) {
        pen_put_str(pen, i == 0 ? "" : ",");
        pen_put(pen, term->values[i]);
    }
    pen_put_str(pen, ")");
}

static void put_label(struct pen *pen, const struct selector_term *term)
{
    static const char *const operators[] = {
        [SELECTOR_IN] = "=", [SELECTOR_NOT_IN] = "!=", [SELECTOR_GREATER] = ">", [SELECTOR_LESS] = "<"};
    if (term->op == SELECTOR_ABSENT)
        pen_put_str(pen, "!");
    pen_put(pen, term->key);
    if (term->n_values > 1) {
        pen_put_set(pen, term);
    } else if (term->n_values == 1) {
        pen_put_str(pen, operators[term->op]);
        pen_put(pen, term->values[0]);
    }
}

static void pen_put_field(struct pen *pen, const struct selector_term *term)
{
    struct belfry_bytes value = term->values[0];
    pen_put(pen, term->key);
    pen_put_str(pen, term->op == SELECTOR_IN ? "=" : "!=");
    for (size_t i = 0; i < value.len; i++) {
        if (memchr("\\,=", value.data[i], 3) != NULL)
            pen_put_str(pen, "\\");
        pen_put(pen, belfry_bytes_of(value.data + i, 1));
    }
}

static void put_all(struct pen *pen, const struct kube_selector *selector)
{
    pen_put_str(pen, selector->n_labels > 0 ? "labelSelector=" : "");
    for (size_t i = 0; i < selector->n_labels; i++) {
        pen_put_str(pen, i == 0 ? "" : ",");
        put_label(pen, &selector->terms[i]);
    }
    pen_put_str(pen, selector->n_labels > 0 && selector->n_terms > selector->n_labels ? "&" : "");
    pen_put_str(pen, selector->n_terms > selector->n_labels ? "fieldSelector=" : "");
    for (size_t i = selector->n_labels; i < selector->n_terms; i++) {
        pen_put_str(pen, i == selector->n_labels ? "" : ",");
        pen_put_field(pen, &selector->terms[i]);
    }
}

static enum belfry_err write_text(struct kube_selector *selector)
{
    struct pen pen = {0};
    put_all(&pen, selector);
    if (pen.len == 0)
        return BELFRY_OK;
    selector->text = malloc(pen.len);
    if (selector->text == NULL)
        return BELFRY_ERR_NOMEM;
    selector->text_len = pen.len;
    pen = (struct pen){.to = selector->text};
    put_all(&pen, selector);
    return BELFRY_OK;
}

struct belfry_bytes kube_selector_text(const struct kube_selector *selector)
{
    return selector->text_len > 0 ? belfry_bytes_of(selector->text, selector->text_len) : belfry_bytes_str("");
}

size_t kube_selector_bytes(const struct kube_selector *selector)
{
    return selector->bytes + selector->text_len;
}

/* ---- read ---- */

enum belfry_err kube_selector_read(struct belfry_bytes labels, struct belfry_bytes fields,
                                   const struct kube_resource *resource, const struct kube_version *version,
                                   struct kube_selector **out, struct kube_status *status)
{
    if (labels.len > KUBE_SELECTOR_MAX || fields.len > KUBE_SELECTOR_MAX) {
        kube_status_set(status, KUBE_BAD_REQUEST, "a selector may be no longer than %d bytes", KUBE_SELECTOR_MAX);
        return BELFRY_ERR_INVALID;
    }
    char *copy;
    struct kube_selector *selector = selector_alloc(labels, fields, &copy);
    if (selector == NULL)
        return BELFRY_ERR_NOMEM;
    selector->namespaced = resource->namespaced;

    struct selector_draft draft = {.selector = selector, .status = status};
    enum belfry_err err = read_labels(&draft, belfry_bytes_of(copy, labels.len));
    selector->n_labels = selector->n_terms;
    if (err == BELFRY_OK)
        err = read_fields(&draft, copy + labels.len, fields.len, version);
    if (err == BELFRY_OK) {
        sort_terms(selector);
        err = write_text(selector);
    }
    if (err != BELFRY_OK) {
        kube_selector_unref(selector);
        return err;
    }
    *out = selector;
    return BELFRY_OK;
}

static struct kube_selector *counted(const struct kube_selector *selector)
{
    return (struct kube_selector *)(uintptr_t)selector; /* only the reference count changes */
}

struct kube_selector *kube_selector_ref(const struct kube_selector *selector)
{
    size_t before = atomic_fetch_add_explicit(&counted(selector)->refs, 1, memory_order_relaxed);
    assert(before > 0);
    (void)before;
    return counted(selector);
}

void kube_selector_unref(const struct kube_selector *selector)
{
    if (selector == NULL || atomic_fetch_sub_explicit(&counted(selector)->refs, 1, memory_order_acq_rel) != 1)
        return;
    free(selector->text);
    free(counted(selector));
}

/* ---- matched ---- */

static bool has_value(const struct selector_term *term, struct belfry_bytes value)
{
    size_t low = 0, high = term->n_values;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = belfry_bytes_cmp(value, term->values[middle]);
        if (order == 0)
            return true;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return false;
}

static bool label_matches(const struct selector_term *term, const struct kube_label *label)
{
    bool present = label != NULL && label->value.data != NULL;
    int64_t number;
    switch (term->op) {
    case SELECTOR_IN:
        return present && has_value(term, label->value);
    case SELECTOR_NOT_IN:
        return !present || !has_value(term, label->value);
    case SELECTOR_EXISTS:
        return present;
    case SELECTOR_ABSENT:
        return !present;
    case SELECTOR_GREATER:
        return present && read_number(label->value, &number) && number > term->bound;
    case SELECTOR_LESS:
        return present && read_number(label->value, &number) && number < term->bound;
    }
    return false;
}

/* The first label in [*low, end) whose key is not below `key`; NULL if that is another key. *low moves there, because
 * the next term's key is larger: terms and labels are sorted alike. */
static const struct kube_label *find_label(const struct kube_label **low, const struct kube_label *end,
                                           struct belfry_bytes key)
{
    const struct kube_label *high = end;
    while (*low < high) {
        const struct kube_label *middle = *low + (high - *low) / 2;
        if (belfry_bytes_cmp(middle->key, key) < 0)
            *low = middle + 1;
        else
            high = middle;
    }
    return *low < end && belfry_bytes_equal((*low)->key, key) ? *low : NULL;
}

static bool labels_match(const struct kube_selector *selector, const struct kube_attributes *attributes)
{
    const struct kube_label *low = attributes->labels;
    const struct kube_label *end = attributes->n_labels > 0 ? low + attributes->n_labels : low;
    for (size_t i = 0; i < selector->n_labels; i++) {
        const struct selector_term *term = &selector->terms[i];
        if (!label_matches(term, find_label(&low, end, term->key)))
            return false;
    }
    return true;
}

static struct belfry_bytes field_of(const struct kube_attributes *attributes, unsigned place)
{
    return place == SELECTOR_NAME        ? attributes->name
           : place == SELECTOR_NAMESPACE ? attributes->namespace
                                         : attributes->fields[place];
}

static bool fields_match(const struct kube_selector *selector, const struct kube_attributes *attributes)
{
    for (size_t i = selector->n_labels; i < selector->n_terms; i++) {
        const struct selector_term *term = &selector->terms[i];
        bool equal = belfry_bytes_equal(field_of(attributes, term->place), term->values[0]);
        if (equal != (term->op == SELECTOR_IN))
            return false;
    }
    return true;
}

bool kube_selector_is_everything(const struct kube_selector *selector)
{
    return selector->n_terms == 0;
}

bool kube_selector_matches(const struct kube_selector *selector, const struct kube_attributes *attributes)
{
    return fields_match(selector, attributes) && labels_match(selector, attributes);
}

/* ---- what every match has ---- */

static struct belfry_bytes pinned_value(const struct kube_selector *selector, unsigned place, bool *nothing)
{
    struct belfry_bytes value = {0};
    *nothing = false;
    for (size_t i = selector->n_labels; i < selector->n_terms; i++) {
        const struct selector_term *term = &selector->terms[i];
        if (term->place != place || term->op != SELECTOR_IN)
            continue;
        *nothing = *nothing || (value.data != NULL && !belfry_bytes_equal(value, term->values[0]));
        value = term->values[0];
    }
    return value;
}

struct belfry_bytes kube_selector_name(const struct kube_selector *selector, bool *nothing)
{
    struct belfry_bytes name = pinned_value(selector, SELECTOR_NAME, nothing);
    *nothing = *nothing || (name.data != NULL && name.len == 0);
    return name;
}

struct belfry_bytes kube_selector_namespace(const struct kube_selector *selector, bool *nothing)
{
    struct belfry_bytes namespace = pinned_value(selector, SELECTOR_NAMESPACE, nothing);
    *nothing = *nothing || (namespace.data != NULL && (namespace.len > 0) != selector->namespaced);
    return namespace;
}

bool kube_selector_pin(const struct kube_selector *selector, struct kube_pin *out)
{
    for (size_t i = selector->n_labels; i < selector->n_terms; i++) {
        const struct selector_term *term = &selector->terms[i];
        if (term->op == SELECTOR_IN && term->place < KUBE_FIELDS_MAX) {
            *out = (struct kube_pin){.is_field = true, .field = term->place, .value = term->values[0]};
            return true;
        }
    }
    for (size_t i = 0; i < selector->n_labels; i++) {
        const struct selector_term *term = &selector->terms[i];
        if (term->op == SELECTOR_IN && term->n_values == 1) {
            *out = (struct kube_pin){.label = term->key, .value = term->values[0]};
            return true;
        }
    }
    return false;
}
