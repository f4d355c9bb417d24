/* fuzz/kube_selector.c: any bytes as a label selector and, behind the first '&', a field selector.
 *
 * What is refused says why, in text. What is accepted has a text that is read again as a selector with the same text
 * that matches the same objects, and what it says that every match has, every match has.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"
#include "fuzz/check.h"
#include "kube/selector.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char color[] = "spec.color", node[] = "spec.nodeName";
static struct kube_field fields[] = {{.name = color}, {.name = node}};
static const struct kube_version version = {.fields = fields, .n_fields = 2};
static const struct kube_resource resource = {.namespaced = true};

#define LABEL(key_text, value_text)                                                                                    \
    {                                                                                                                  \
        .key = {(key_text), sizeof(key_text) - 1}, .value = {(value_text), sizeof(value_text) - 1 }                    \
    }
#define BYTES(text)                                                                                                    \
    {                                                                                                                  \
        (text), sizeof(text) - 1                                                                                       \
    }

static const struct kube_label few[] = {LABEL("a", "1"), LABEL("b", "")};
static const struct kube_label more[] = {LABEL("a", "b"), LABEL("c/d", "7"), LABEL("in", "in")};
static const struct kube_attributes objects[] = {
    {.name = BYTES("n"), .namespace = BYTES("ns"), .fields = {BYTES(""), BYTES("n1")}},
    {.name = BYTES("a"), .namespace = BYTES("b"), .labels = few, .n_labels = 2, .fields = {BYTES("blue"), BYTES("")}},
    {.name = BYTES("b"), .namespace = BYTES("a"), .labels = more, .n_labels = 3, .fields = {BYTES(","), BYTES("=\\")}},
};

static void check_text(struct belfry_bytes text)
{
    check(belfry_utf8_valid(text.data, text.len));
}

static void check_pins(const struct kube_selector *selector, const struct kube_attributes *object)
{
    bool nothing;
    struct kube_pin pin;
    struct belfry_bytes name = kube_selector_name(selector, &nothing);
    check(!nothing && (name.data == NULL || belfry_bytes_equal(name, object->name)));
    struct belfry_bytes namespace = kube_selector_namespace(selector, &nothing);
    check(!nothing && (namespace.data == NULL || belfry_bytes_equal(namespace, object->namespace)));
    if (!kube_selector_pin(selector, &pin))
        return;
    bool found = pin.is_field && belfry_bytes_equal(object->fields[pin.field], pin.value);
    for (size_t i = 0; i < object->n_labels && !pin.is_field; i++)
        found = found || (belfry_bytes_equal(object->labels[i].key, pin.label) &&
                          belfry_bytes_equal(object->labels[i].value, pin.value));
    check(found);
}

/* Splits "labelSelector=...&fieldSelector=...", either of which may be missing. */
static void split_text(struct belfry_bytes text, struct belfry_bytes *labels, struct belfry_bytes *others)
{
    static const char label_lead[] = "labelSelector=", field_lead[] = "fieldSelector=";
    const char *end = text.data + text.len, *at = text.data;
    *labels = *others = (struct belfry_bytes){0};
    if (belfry_bytes_begins(text, belfry_bytes_str(label_lead))) {
        at += sizeof(label_lead) - 1;
        const char *mark = memchr(at, '&', (size_t)(end - at));
        mark = mark == NULL ? end : mark;
        *labels = belfry_bytes_of(at, (size_t)(mark - at));
        at = mark == end ? end : mark + 1;
    }
    if (at == end)
        return;
    check(belfry_bytes_begins(belfry_bytes_of(at, (size_t)(end - at)), belfry_bytes_str(field_lead)));
    at += sizeof(field_lead) - 1;
    *others = belfry_bytes_of(at, (size_t)(end - at));
}

static void check_again(const struct kube_selector *selector)
{
    struct belfry_bytes labels, others, text = kube_selector_text(selector);
    struct kube_selector *again;
    struct kube_status status;
    check((text.len == 0) == kube_selector_is_everything(selector));
    split_text(text, &labels, &others);
    if (labels.len > KUBE_SELECTOR_MAX || others.len > KUBE_SELECTOR_MAX)
        return; /* "a in(" takes a blank more when it is written */
    check(kube_selector_read(labels, others, &resource, &version, &again, &status) == BELFRY_OK);
    check(belfry_bytes_equal(kube_selector_text(again), text));
    for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++) {
        bool does = kube_selector_matches(selector, &objects[i]);
        check(does == kube_selector_matches(again, &objects[i]));
        if (does)
            check_pins(selector, &objects[i]);
    }
    kube_selector_unref(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *mark = size == 0 ? NULL : memchr(data, '&', size);
    size_t len = mark == NULL ? size : (size_t)(mark - data);
    struct belfry_bytes labels = belfry_bytes_of(data, len), others = {0};
    if (mark != NULL)
        others = belfry_bytes_of(mark + 1, size - len - 1);
    struct kube_selector *selector;
    struct kube_status status;
    enum belfry_err err = kube_selector_read(labels, others, &resource, &version, &selector, &status);
    if (err == BELFRY_ERR_INVALID) {
        check(status.reason == KUBE_BAD_REQUEST && status.message[0] != '\0');
        check_text(belfry_bytes_str(status.message));
    }
    if (err != BELFRY_OK)
        return 0;
    check_again(selector);
    kube_selector_unref(selector);
    return 0;
}
