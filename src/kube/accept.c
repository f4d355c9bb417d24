/* src/kube/accept.c */
#include "kube/accept.h"

#include <strings.h>

/* One clause, such as "application/json;as=Table;v=v1;g=meta.k8s.io;q=0.9". */
struct clause {
    struct belfry_bytes type; /* media type or coding */
    struct belfry_bytes as, group, version;
    unsigned q; /* in thousandths */
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static struct belfry_bytes trim_spaces(struct belfry_bytes text)
{
    while (text.len > 0 && is_space(text.data[text.len - 1]))
        text.len--;
    while (text.len > 0 && is_space(text.data[0]))
        text = belfry_bytes_of(text.data + 1, text.len - 1);
    return text;
}

static bool is_token(struct belfry_bytes text, const char *other)
{
    return text.len == strlen(other) && (text.len == 0 || strncasecmp(text.data, other, text.len) == 0);
}

static bool is_exactly(struct belfry_bytes text, const char *other)
{
    return belfry_bytes_equal(text, belfry_bytes_str(other));
}

/* Cuts *rest after the first `end` outside of a quoted string, and returns the part before it, trimmed. */
static struct belfry_bytes cut_clause(struct belfry_bytes *rest, char end)
{
    bool quoted = false;
    size_t n = 0;
    for (; n < rest->len && (quoted || rest->data[n] != end); n++) {
        if (rest->data[n] == '"')
            quoted = !quoted;
        else if (quoted && rest->data[n] == '\\' && n + 1 < rest->len)
            n++;
    }
    struct belfry_bytes piece = belfry_bytes_of(rest->data, n);
    *rest = n == rest->len ? (struct belfry_bytes){0} : belfry_bytes_of(rest->data + n + 1, rest->len - n - 1);
    return trim_spaces(piece);
}

static struct belfry_bytes unquote(struct belfry_bytes value)
{
    bool quoted = value.len >= 2 && value.data[0] == '"' && value.data[value.len - 1] == '"';
    return quoted ? belfry_bytes_of(value.data + 1, value.len - 2) : value;
}

/* "0", "0.5", "1.000" in thousandths; anything else counts as 1. */
static unsigned read_q(struct belfry_bytes text)
{
    unsigned q = 0, weight = 100;
    if (text.len == 0 || text.len > 5 || text.data[0] != '0' || (text.len > 1 && text.data[1] != '.'))
        return 1000;
    for (size_t i = 2; i < text.len; i++, weight /= 10) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return 1000;
        q += weight * (unsigned)(text.data[i] - '0');
    }
    return q;
}

static struct clause read_clause(struct belfry_bytes text)
{
    struct clause clause = {.type = cut_clause(&text, ';'), .q = 1000};
    while (text.len > 0) {
        struct belfry_bytes value = cut_clause(&text, ';');
        if (value.len == 0)
            continue;
        struct belfry_bytes name = cut_clause(&value, '=');
        value = unquote(trim_spaces(value));
        if (is_token(name, "as"))
            clause.as = value;
        else if (is_token(name, "g"))
            clause.group = value;
        else if (is_token(name, "v"))
            clause.version = value;
        else if (is_token(name, "q"))
            clause.q = read_q(value);
    }
    return clause;
}

static enum kube_form form_of(const struct clause *clause)
{
    if (!is_token(clause->type, "application/json") && !is_token(clause->type, "application/*") &&
        !is_token(clause->type, "*/*"))
        return KUBE_FORM_NONE;
    if (clause->as.len == 0 && clause->group.len == 0 && clause->version.len == 0)
        return KUBE_FORM_JSON;
    if (is_exactly(clause->group, "apidiscovery.k8s.io") && is_exactly(clause->as, "APIGroupDiscoveryList"))
        return is_exactly(clause->version, "v2") ? KUBE_FORM_DISCOVERY : KUBE_FORM_NONE;
    if (!is_exactly(clause->group, "meta.k8s.io"))
        return KUBE_FORM_NONE;
    if (is_exactly(clause->as, "Table"))
        return is_exactly(clause->version, "v1") || is_exactly(clause->version, "v1beta1") ? KUBE_FORM_TABLE
                                                                                           : KUBE_FORM_NONE;
    if (!is_exactly(clause->version, "v1"))
        return KUBE_FORM_NONE;
    if (is_exactly(clause->as, "PartialObjectMetadata"))
        return KUBE_FORM_METADATA;
    return is_exactly(clause->as, "PartialObjectMetadataList") ? KUBE_FORM_METADATA_LIST : KUBE_FORM_NONE;
}

enum kube_form kube_accept(struct belfry_bytes header, unsigned forms)
{
    enum kube_form best = KUBE_FORM_NONE;
    unsigned best_q = 0;
    if (trim_spaces(header).len == 0)
        return (forms & 1u << KUBE_FORM_JSON) != 0 ? KUBE_FORM_JSON : KUBE_FORM_NONE;
    while (header.len > 0) {
        struct clause clause = read_clause(cut_clause(&header, ','));
        enum kube_form form = form_of(&clause);
        if (form == KUBE_FORM_METADATA_LIST && (forms & 1u << form) == 0)
            form = KUBE_FORM_METADATA;
        if (form != KUBE_FORM_NONE && (forms & 1u << form) != 0 && clause.q > best_q) {
            best = form;
            best_q = clause.q;
        }
    }
    return best;
}

bool kube_accepts_gzip(struct belfry_bytes header)
{
    bool named = false, any = false;
    while (header.len > 0) {
        struct clause clause = read_clause(cut_clause(&header, ','));
        if (is_token(clause.type, "gzip") || is_token(clause.type, "x-gzip")) {
            if (clause.q > 0)
                return true;
            named = true; /* rejected, whatever "*" says */
        } else if (is_token(clause.type, "*")) {
            any = clause.q > 0;
        }
    }
    return any && !named;
}
