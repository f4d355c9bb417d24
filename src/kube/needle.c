/* src/kube/needle.c */
#include "kube/needle.h"

#include <string.h>

/* Is it written as it is, without escapes? */
static bool is_plain(struct belfry_bytes value)
{
    for (size_t i = 0; i < value.len; i++) {
        char c = value.data[i];
        if (c < ' ' || c > '~' || c == '"' || c == '\\')
            return false;
    }
    return value.len > 0 && value.len <= KUBE_NEEDLE_MAX - 2;
}

/* A field's value may be an integer or a boolean of the object: without quotes. */
static bool is_string_alone(struct belfry_bytes value)
{
    size_t n = value.data[0] == '-' ? 1 : 0;
    while (n < value.len && value.data[n] >= '0' && value.data[n] <= '9')
        n++;
    return n < value.len && !belfry_bytes_equal(value, belfry_bytes_str("true")) &&
           !belfry_bytes_equal(value, belfry_bytes_str("false"));
}

static bool is_missing_value(const struct kube_field *field, struct belfry_bytes value)
{
    return field->missing != NULL && belfry_bytes_equal(value, belfry_bytes_str(field->missing));
}

struct kube_needle kube_needle_of(const struct kube_selector *selector, const struct kube_version *version)
{
    struct kube_needle needle = {.len = 0};
    struct kube_pin pin;
    if (selector == NULL || !kube_selector_pin(selector, &pin) || !is_plain(pin.value))
        return needle;
    if (pin.is_field && (!is_string_alone(pin.value) || is_missing_value(&version->fields[pin.field], pin.value)))
        return needle;
    needle.text[0] = '"';
    memcpy(needle.text + 1, pin.value.data, pin.value.len);
    needle.text[pin.value.len + 1] = '"';
    needle.len = pin.value.len + 2;
    return needle;
}

/* Escapes that a writer may use for plain characters: \uXXXX and \/ */
static bool has_free_escapes(struct belfry_bytes json)
{
    const char *end = json.data + json.len;
    for (const char *at = json.data; (at = memchr(at, '\\', (size_t)(end - at))) != NULL; at += 2) {
        if (end - at < 2 || at[1] == 'u' || at[1] == '/')
            return true;
        if (end - at == 2)
            break;
    }
    return false;
}

bool kube_needle_may_match(const struct kube_needle *needle, struct belfry_bytes json)
{
    if (needle->len == 0 || json.len == 0)
        return true;
    return memmem(json.data, json.len, needle->text, needle->len) != NULL || has_free_escapes(json);
}
