/* src/serve/uplink/via.c */
#include "serve/uplink/via.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "follow/circle.h"

static_assert(VIA_TIERS == CIRCLE_TIERS, "one bound, however it is found out");

/* ---- words ---- */

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-._~:@/+", c) != NULL);
}

size_t via_word(const char *name, char out[VIA_WORD_BYTES + 1])
{
    static const char digits[] = "0123456789ABCDEF";
    size_t len = 0;
    for (; *name != '\0' && len + (is_plain(*name) ? 1 : 3) <= VIA_WORD_BYTES; name++) {
        unsigned byte = (unsigned char)*name;
        if (is_plain(*name)) {
            out[len++] = *name;
            continue;
        }
        out[len++] = '%';
        out[len++] = digits[byte >> 4];
        out[len++] = digits[byte & 15];
    }
    if (len == 0)
        out[len++] = '-';
    out[len] = '\0';
    return len;
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Is there an escape at the beginning of `text`, and one that is needed? */
static bool is_escape(struct belfry_bytes text)
{
    if (text.len < 3 || text.data[0] != '%')
        return false;
    int high = digit_of(text.data[1]), low = digit_of(text.data[2]);
    if (high < 0 || low < 0)
        return false;
    int byte = high << 4 | low;
    return byte != 0 && !is_plain((char)byte);
}

static bool is_word(struct belfry_bytes text)
{
    if (text.len == 0 || text.len > VIA_WORD_BYTES)
        return false;
    for (size_t at = 0; at < text.len;) {
        bool plain = is_plain(text.data[at]);
        if (!plain && !is_escape(belfry_bytes_of(text.data + at, text.len - at)))
            return false;
        at += plain ? 1 : 3;
    }
    return true;
}

/* ---- lists ---- */

static struct belfry_bytes trim(struct belfry_bytes text)
{
    while (text.len > 0 && text.data[0] == ' ')
        text = belfry_bytes_of(text.data + 1, text.len - 1);
    while (text.len > 0 && text.data[text.len - 1] == ' ')
        text.len--;
    return text;
}

/* Adds the names of one field. What is above VIA_TIERS is not kept, and said. */
static enum via_verdict add_words(struct via *via, struct belfry_bytes list)
{
    for (bool more = true; more;) {
        const char *comma = list.len > 0 ? memchr(list.data, ',', list.len) : NULL;
        size_t len = comma != NULL ? (size_t)(comma - list.data) : list.len;
        struct belfry_bytes word = trim(belfry_bytes_of(list.data, len));
        more = comma != NULL;
        if (more)
            list = belfry_bytes_of(comma + 1, list.len - len - 1);
        if (!is_word(word))
            return VIA_UNREADABLE;
        if (via->n == VIA_TIERS)
            return VIA_TOO_MANY;
        via->words[via->n++] = word;
    }
    return VIA_FINE;
}

static enum via_verdict read_head(const struct exchange_head *head, struct via *via)
{
    struct belfry_bytes wanted = belfry_bytes_str(VIA_FIELD);
    enum via_verdict verdict = VIA_FINE;
    *via = (struct via){0};
    for (size_t i = 0; i < head->n_fields && verdict == VIA_FINE; i++)
        if (belfry_bytes_equal(head->fields[i].name, wanted))
            verdict = add_words(via, head->fields[i].value);
    return verdict;
}

static bool holds(const struct via *via, const char *own)
{
    for (size_t i = 0; i < via->n; i++)
        if (belfry_bytes_equal(via->words[i], belfry_bytes_str(own)))
            return true;
    return false;
}

/* "a > c > b > own" */
static void write_chain(const struct via *via, const char *own, char *text, size_t len)
{
    size_t at = 0;
    for (size_t i = 0; i < via->n && at < len; i++)
        at += (size_t)snprintf(text + at, len - at, "%.*s > ", (int)via->words[i].len, via->words[i].data);
    if (at < len)
        snprintf(text + at, len - at, "%s", own);
}

enum via_verdict via_judge(const struct exchange_head *head, const char *own, struct via *out, char why[VIA_WHY_BYTES])
{
    char chain[VIA_WHY_BYTES - 256];
    enum via_verdict verdict = read_head(head, out);
    if (verdict == VIA_UNREADABLE) {
        snprintf(why, VIA_WHY_BYTES, "belfry: the metadata " VIA_FIELD " is not a list of tiers' names");
        return verdict;
    }
    if (holds(out, own))
        verdict = VIA_CIRCLE;
    else if (out->n == VIA_TIERS)
        verdict = VIA_TOO_MANY;
    write_chain(out, own, chain, sizeof(chain));
    if (verdict == VIA_CIRCLE)
        snprintf(why, VIA_WHY_BYTES, CIRCLE_REFUSAL "%s; " CIRCLE_REMEDY, chain);
    else if (verdict == VIA_TOO_MANY)
        snprintf(why, VIA_WHY_BYTES, CIRCLE_TOO_MANY "%s; " CIRCLE_TOO_MANY_REMEDY, chain);
    return verdict;
}
