/* src/kapi/sentence.c */
#include "kapi/sentence.h"

#include "base/utf8.h"

static const char cut[] = "...";

struct belfry_sentence belfry_sentence_begin(char *text, size_t cap)
{
    text[0] = '\0';
    return (struct belfry_sentence){.text = text, .cap = cap};
}

struct belfry_sentence belfry_sentence_resume(char *text, size_t cap)
{
    return (struct belfry_sentence){.text = text, .cap = cap, .len = strlen(text)};
}

static void put(struct belfry_sentence *sentence, const char *text, size_t len)
{
    memcpy(sentence->text + sentence->len, text, len);
    sentence->len += len;
    sentence->text[sentence->len] = '\0';
}

static bool ends_blank(const struct belfry_sentence *sentence)
{
    return sentence->len == 0 || sentence->text[sentence->len - 1] == ' ';
}

/* The printable form of a character of n bytes: itself, a blank, or '?' for invalid UTF-8 (n is 0) and for control
 * characters. */
static struct belfry_bytes shown(const char *at, size_t n, uint32_t code)
{
    if (n == 1 && (code == ' ' || (code >= '\t' && code <= '\r')))
        return belfry_bytes_of(" ", 1);
    return n == 0 || belfry_utf8_is_control(code) ? belfry_bytes_of("?", 1) : belfry_bytes_of(at, n);
}

/* Always keeps room for the "..." of a truncated sentence. */
static void put_or_cut(struct belfry_sentence *sentence, struct belfry_bytes piece)
{
    size_t room = sentence->cap - 1 - sentence->len;
    if (piece.len + strlen(cut) <= room) {
        put(sentence, piece.data, piece.len);
        return;
    }
    sentence->is_cut = true;
    if (room >= strlen(cut))
        put(sentence, cut, strlen(cut));
}

void belfry_sentence_quote(struct belfry_sentence *sentence, struct belfry_bytes foreign)
{
    for (size_t at = 0, n; at < foreign.len && !sentence->is_cut; at += n == 0 ? 1 : n) {
        uint32_t code = 0;
        n = belfry_utf8_next(foreign.data + at, foreign.len - at, &code);
        struct belfry_bytes piece = shown(foreign.data + at, n, code);
        if (piece.data[0] != ' ' || !ends_blank(sentence))
            put_or_cut(sentence, piece);
    }
}

void belfry_sentence_say(struct belfry_sentence *sentence, const char *words)
{
    belfry_sentence_quote(sentence, belfry_bytes_str(words));
}

void belfry_sentence_trim(struct belfry_sentence *sentence)
{
    if (sentence->len > 0 && ends_blank(sentence))
        sentence->text[--sentence->len] = '\0';
}
