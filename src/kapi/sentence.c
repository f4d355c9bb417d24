/* src/kapi/sentence.c */
#include "kapi/sentence.h"

#include "json/json.h"

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

/* What a character of n bytes becomes: itself, a blank, or '?' for what is no UTF-8 (n is 0) or a control character:
 * ESC and what ISO 6429 has beyond ASCII, U+0080 to U+009F, change how a terminal shows the rest. */
static struct belfry_bytes shown(const char *at, size_t n)
{
    unsigned char c = (unsigned char)at[0];
    if (n == 1 && (c == ' ' || (c >= '\t' && c <= '\r')))
        return belfry_bytes_of(" ", 1);
    if (n == 0 || c < ' ' || c == 0x7f || (n == 2 && c == 0xC2 && (unsigned char)at[1] < 0xA0))
        return belfry_bytes_of("?", 1);
    return belfry_bytes_of(at, n);
}

/* Room for the mark of a cut is always kept. */
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
        n = belfry_json_utf8(belfry_bytes_of(foreign.data + at, foreign.len - at));
        struct belfry_bytes piece = shown(foreign.data + at, n);
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
