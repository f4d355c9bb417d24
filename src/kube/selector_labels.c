/* src/kube/selector_labels.c: label selectors.
 *
 *     selector    = [requirement *("," requirement)]
 *     requirement = KEY / "!" KEY / KEY ("=" / "==" / "!=" / ">" / "<") [VALUE] / KEY ("in" / "notin") set
 *     set         = "(" [VALUE] *("," [VALUE]) ")"
 *
 * "in" and "notin" are keywords only after a key.
 */
#include "kube/name.h"
#include "kube/quote.h"
#include "kube/selector_private.h"

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
                    kube_quote(reader->literal).text, what);
    return BELFRY_ERR_INVALID;
}

static enum belfry_err expected_within(struct reader *reader, const char *what)
{
    kube_status_set(reader->draft->status, KUBE_BAD_REQUEST, "unable to parse requirement: found '%s', expected: %s",
                    kube_quote(reader->literal).text, what);
    return BELFRY_ERR_INVALID;
}

static enum belfry_err bad_key(struct reader *reader, struct belfry_bytes key, const char *why)
{
    kube_status_set(reader->draft->status, KUBE_BAD_REQUEST,
                    "unable to parse requirement: <nil>: Invalid value: \"%s\": %s", kube_quote(key).text, why);
    return BELFRY_ERR_INVALID;
}

static enum belfry_err bad_value(struct reader *reader, const struct selector_term *term, struct belfry_bytes value,
                                 const char *why)
{
    kube_status_set(reader->draft->status, KUBE_BAD_REQUEST,
                    "unable to parse requirement: values[%zu][%s]: Invalid value: \"%s\": %s", term->n_values,
                    kube_quote(term->key).text, kube_quote(value).text, why);
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
    return kube_selector_add_value(reader->draft, term, value);
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
    if (is_number && !kube_selector_number(value, &term->bound))
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
        err = kube_selector_add_term(reader->draft, reader->literal, &term);
    if (err != BELFRY_OK)
        return err;
    next_token(reader);
    if (!negated && reader->token != COMMA && reader->token != END)
        return read_comparison(reader, term);
    term->op = negated ? SELECTOR_ABSENT : SELECTOR_EXISTS;
    return BELFRY_OK;
}

enum belfry_err kube_selector_read_labels(struct selector_draft *draft, struct belfry_bytes text)
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
