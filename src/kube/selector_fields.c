/* src/kube/selector_fields.c: field selectors: terms between commas, one equality each, no white space skipped. */
#include <stdio.h>
#include <string.h>

#include "kube/quote.h"
#include "kube/selector_private.h"

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
                            kube_quote(belfry_bytes_of(value + i - 1, shown)).text);
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
    char list[320] = "metadata.name, metadata.namespace";
    for (size_t i = 0; i < version->n_fields; i++)
        list_name(list, sizeof(list), version->fields[i].name);
    kube_status_set(draft->status, KUBE_BAD_REQUEST, "field label not supported: %s (supported: %s)",
                    kube_quote(name).text, list);
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
    return *place == SELECTOR_NAME || belfry_bytes_equal(name, belfry_bytes_str("metadata.namespace"));
}

static enum belfry_err read_term(struct selector_draft *draft, char *text, size_t len,
                                 const struct kube_version *version)
{
    size_t at, op_len;
    unsigned place;
    struct selector_term *term;
    if (!find_operator(text, len, &at, &op_len)) {
        kube_status_set(draft->status, KUBE_BAD_REQUEST, "invalid field selector: can't understand '%s'",
                        kube_quote(belfry_bytes_of(text, len)).text);
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
        err = kube_selector_add_term(draft, key, &term);
    if (err != BELFRY_OK)
        return err;
    term->op = op;
    term->place = place;
    return kube_selector_add_value(draft, term, belfry_bytes_of(value, value_len));
}

enum belfry_err kube_selector_read_fields(struct selector_draft *draft, char *text, size_t len,
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
