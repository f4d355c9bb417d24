/* src/kapi/warning.c */
#include "kapi/warning.h"

#include "base/hash.h"
#include "kapi/sentence.h"

static bool take_byte(struct belfry_bytes *bytes, char c)
{
    if (bytes->len == 0 || bytes->data[0] != c)
        return false;
    bytes->data++;
    bytes->len--;
    return true;
}

static void skip_bytes(struct belfry_bytes *bytes, const char *any)
{
    while (bytes->len > 0 && strchr(any, bytes->data[0]) != NULL && bytes->data[0] != '\0')
        take_byte(bytes, bytes->data[0]);
}

/* Three digits and a blank. */
static bool take_code(struct belfry_bytes *field, int *out)
{
    int code = 0;
    for (int i = 0; i < 3; i++) {
        if (field->len == 0 || field->data[0] < '0' || field->data[0] > '9')
            return false;
        code = code * 10 + (field->data[0] - '0');
        take_byte(field, field->data[0]);
    }
    *out = code;
    return take_byte(field, ' ');
}

/* A host or a name, and a blank. */
static bool take_agent(struct belfry_bytes *field)
{
    size_t n = 0;
    while (n < field->len && field->data[n] != ' ')
        n++;
    if (n == 0)
        return false;
    field->data += n;
    field->len -= n;
    return take_byte(field, ' ');
}

/* A quoted string: out[0, cap) receives its content, made printable. */
static bool take_quoted(struct belfry_bytes *field, char *out, size_t cap)
{
    struct belfry_sentence text = belfry_sentence_begin(out, cap);
    if (!take_byte(field, '"'))
        return false;
    while (field->len > 0) {
        size_t n = 0; /* up to a quote or an escape */
        while (n < field->len && field->data[n] != '"' && field->data[n] != '\\')
            n++;
        belfry_sentence_quote(&text, belfry_bytes_of(field->data, n));
        field->data += n;
        field->len -= n;
        if (take_byte(field, '"'))
            return true;
        if (!take_byte(field, '\\') || field->len == 0)
            return false;
        belfry_sentence_quote(&text, belfry_bytes_of(field->data, 1));
        take_byte(field, field->data[0]);
    }
    return false;
}

bool belfry_warning_next(struct belfry_bytes *field, struct belfry_warning *out)
{
    char date[64];
    skip_bytes(field, " \t,");
    if (!take_code(field, &out->code) || !take_agent(field) || !take_quoted(field, out->text, sizeof(out->text)))
        return false;
    skip_bytes(field, " \t");
    return field->len == 0 || field->data[0] != '"' || take_quoted(field, date, sizeof(date));
}

bool belfry_warnings_add(struct belfry_warnings *warnings, const char *text)
{
    static const struct belfry_hash_key key = {0x77617268, 0x6e696e67}; /* a collision hides one log line */
    uint64_t hash = belfry_hash(key, belfry_bytes_str(text));
    for (size_t i = 0; i < warnings->n; i++) {
        if (warnings->told[i] == hash)
            return false;
    }
    if (warnings->n == BELFRY_WARNINGS_MAX)
        return false;
    warnings->told[warnings->n++] = hash;
    return true;
}
