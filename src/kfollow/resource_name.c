/* src/kfollow/resource_name.c */
#include "kfollow/resource_name.h"

#include <stdio.h>
#include <string.h>

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A label of RFC 1123: lower case, digits, and '-' inside. */
static bool is_label(const char *text, size_t len)
{
    if (len == 0 || len > RESOURCE_LABEL_MAX || text[0] == '-' || text[len - 1] == '-')
        return false;
    for (size_t i = 0; i < len; i++)
        if (!is_lower(text[i]) && !is_digit(text[i]) && text[i] != '-')
            return false;
    return true;
}

static bool is_group(const char *text)
{
    if (strlen(text) > RESOURCE_GROUP_MAX)
        return false;
    for (const char *at = text;; at++) {
        size_t len = strcspn(at, ".");
        if (!is_label(at, len))
            return false;
        at += len;
        if (*at == '\0')
            return true;
    }
}

static size_t n_digits(const char *text, size_t len)
{
    size_t n = 0;
    while (n < len && is_digit(text[n]))
        n++;
    return n;
}

/* v1, v1alpha2, v3beta1 */
static bool is_version(const char *text, size_t len)
{
    if (len < 2 || len > RESOURCE_LABEL_MAX || text[0] != 'v')
        return false;
    size_t at = 1 + n_digits(text + 1, len - 1);
    if (at == 1)
        return false;
    if (at == len)
        return true;
    const char *stage = strncmp(text + at, "alpha", 5) == 0 ? "alpha" : "beta";
    if (strncmp(text + at, stage, strlen(stage)) != 0)
        return false;
    at += strlen(stage);
    size_t n = n_digits(text + at, len - at);
    return n > 0 && at + n == len;
}

static void keep(char *out, const char *text, size_t len)
{
    memcpy(out, text, len);
    out[len] = '\0';
}

bool resource_name_read(const char *text, struct resource_name *out)
{
    struct resource_name name = {.plural = ""};
    size_t len = strcspn(text, ".");
    if (!is_label(text, len) || is_digit(text[0]))
        return false;
    keep(name.plural, text, len);
    text += len;
    if (*text == '.') {
        len = strcspn(++text, ".");
        if (is_version(text, len) && text[len] == '.') {
            keep(name.version, text, len);
            text += len + 1;
        }
        if (!is_group(text))
            return false;
        keep(name.group, text, strlen(text));
    }
    *out = name;
    return true;
}

void resource_name_write(const struct resource_name *name, char out[RESOURCE_NAME_MAX + 1])
{
    snprintf(out, RESOURCE_NAME_MAX + 1, "%s%s%s", name->plural, name->group[0] == '\0' ? "" : ".", name->group);
}

bool resource_name_same(const struct resource_name *a, const struct resource_name *b)
{
    return strcmp(a->plural, b->plural) == 0 && strcmp(a->group, b->group) == 0;
}
