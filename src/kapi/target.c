/* src/kapi/target.c */
#include "kapi/target.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OF_PATH ":"               /* not encoded in a segment; Kubernetes' names often have it */
#define OF_BASE "/%:@!$&'()*+,;=" /* the base comes from a URL: encode only bytes that no URL contains */

/* ---- writing ---- */

/* The first error is kept; nothing is written after it. */
struct writer {
    struct belfry_buf *buf; /* lent */
    char mark;              /* before the next parameter: '?', then '&' */
    enum belfry_err err;
};

static void writer_put(struct writer *writer, const char *text, size_t len)
{
    if (writer->err == BELFRY_OK)
        writer->err = belfry_buf_append(writer->buf, text, len);
}

static void put_str(struct writer *writer, const char *text)
{
    writer_put(writer, text, strlen(text));
}

/* RFC 3986 section 2.3. */
static bool is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_' || c == '~';
}

/* Writes bytes that are neither unreserved nor in `keep` as %XX. */
static void put_encoded(struct writer *writer, const char *text, const char *keep)
{
    static const char digits[] = "0123456789ABCDEF";
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        char escape[] = {'%', digits[byte >> 4], digits[byte & 15]};
        if (is_unreserved(*text) || strchr(keep, *text) != NULL)
            writer_put(writer, text, 1);
        else
            writer_put(writer, escape, sizeof(escape));
    }
}

static void put_segment(struct writer *writer, const char *segment)
{
    writer_put(writer, "/", 1);
    put_encoded(writer, segment, OF_PATH);
}

/* Omits NULL and "". */
static void put_text(struct writer *writer, const char *name, const char *value)
{
    if (value == NULL || value[0] == '\0')
        return;
    writer_put(writer, &writer->mark, 1);
    writer->mark = '&';
    put_str(writer, name);
    writer_put(writer, "=", 1);
    put_encoded(writer, value, "");
}

static void put_number(struct writer *writer, const char *name, int64_t number)
{
    char digits[24];
    snprintf(digits, sizeof(digits), "%" PRId64, number);
    put_text(writer, name, number == 0 ? NULL : digits);
}

static void put_flag(struct writer *writer, const char *name, bool set)
{
    put_text(writer, name, set ? "true" : NULL);
}

/* ---- checks ---- */

/* Whether text[0, len) is a valid segment. */
static bool is_segment(const char *text, size_t len)
{
    if (len == 0 || (text[0] == '.' && (len == 1 || (len == 2 && text[1] == '.'))))
        return false;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < ' ' || c == 0x7f || c == '/' || c == '%')
            return false;
    }
    return true;
}

static bool is_name(const char *text)
{
    return text != NULL && is_segment(text, strlen(text));
}

static bool is_group_version(const char *text)
{
    size_t group = text == NULL ? 0 : strcspn(text, "/");
    if (group == 0)
        return false;
    return is_segment(text, group) && (text[group] == '\0' || is_name(text + group + 1));
}

static bool is_valid(const struct belfry_target *target)
{
    return is_group_version(target->group_version) && is_name(target->plural) &&
           (target->ns == NULL || is_name(target->ns)) && (target->name == NULL || is_name(target->name));
}

/* ---- path and query ---- */

static void put_path(struct writer *writer, const struct belfry_target *target)
{
    put_encoded(writer, target->base, OF_BASE);
    put_str(writer, strchr(target->group_version, '/') == NULL ? "/api/" : "/apis/");
    put_encoded(writer, target->group_version, OF_PATH "/");
    if (target->ns != NULL) {
        put_str(writer, "/namespaces");
        put_segment(writer, target->ns);
    }
    put_segment(writer, target->plural);
    if (target->name != NULL)
        put_segment(writer, target->name);
}

/* In alphabetical order, as in client-go. */
static void put_query(struct writer *writer, const struct belfry_target *target)
{
    put_flag(writer, "allowWatchBookmarks", target->bookmarks);
    put_text(writer, "continue", target->continue_with);
    put_text(writer, "fieldSelector", target->field_selector);
    put_text(writer, "labelSelector", target->selector);
    put_number(writer, "limit", target->limit);
    put_text(writer, "resourceVersion", target->version);
    put_text(writer, "resourceVersionMatch", target->version_match);
    put_flag(writer, "sendInitialEvents", target->send_initial);
    put_number(writer, "timeoutSeconds", target->timeout_s);
    put_flag(writer, "watch", target->watch);
}

enum belfry_err belfry_target_write(const struct belfry_target *target, struct belfry_buf *out)
{
    struct writer writer = {.buf = out, .mark = '?'};
    uint8_t *zero;
    if (!is_valid(target))
        return BELFRY_ERR_INVALID;
    put_path(&writer, target);
    put_query(&writer, target);
    if (writer.err == BELFRY_OK)
        writer.err = belfry_buf_reserve(out, 1, &zero);
    if (writer.err == BELFRY_OK)
        *zero = '\0'; /* stays until something is appended */
    return writer.err;
}

enum belfry_err belfry_target_keep(struct belfry_target *target, char **out_texts)
{
    const char **texts[] = {&target->base,          &target->group_version, &target->plural,         &target->ns,
                            &target->name,          &target->selector,      &target->field_selector, &target->version,
                            &target->version_match, &target->continue_with};
    size_t len = 1;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        len += *texts[i] != NULL ? strlen(*texts[i]) + 1 : 0;
    char *at = malloc(len);
    if (at == NULL)
        return BELFRY_ERR_NOMEM;
    *out_texts = at;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (*texts[i] == NULL)
            continue;
        size_t size = strlen(*texts[i]) + 1;
        *texts[i] = memcpy(at, *texts[i], size);
        at += size;
    }
    return BELFRY_OK;
}
