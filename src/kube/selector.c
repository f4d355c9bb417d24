/* src/kube/selector.c */
#include "kube/selector.h"

#include <assert.h>
#include <stdlib.h>

#include "kube/selector_private.h"

/* ---- made ---- */

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

enum belfry_err kube_selector_add_term(struct selector_draft *draft, struct belfry_bytes key,
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

enum belfry_err kube_selector_add_value(struct selector_draft *draft, struct selector_term *term,
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

bool kube_selector_number(struct belfry_bytes text, int64_t *out)
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
    enum belfry_err err = kube_selector_read_labels(&draft, belfry_bytes_of(copy, labels.len));
    selector->n_labels = selector->n_terms;
    if (err == BELFRY_OK)
        err = kube_selector_read_fields(&draft, copy + labels.len, fields.len, version);
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
        return present && kube_selector_number(label->value, &number) && number > term->bound;
    case SELECTOR_LESS:
        return present && kube_selector_number(label->value, &number) && number < term->bound;
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
