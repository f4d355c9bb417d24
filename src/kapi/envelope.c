/* src/kapi/envelope.c */
#include "kapi/envelope.h"

#include "json/escape.h"

static bool opens(char c)
{
    return c == '"' || c == '{' || c == '[';
}

/* Handles a byte of the object itself, outside of its members' names and values. */
static void walk_byte(struct belfry_envelope_walk *walk, char c, size_t at)
{
    if (c == '"' && !walk->is_value) {
        walk->name = at + 1;
    } else if (c == ':') {
        walk->is_value = true;
    } else if (c == ',') {
        walk->is_value = false;
        walk->name = 0;
        walk->passed = at;
    }
}

/* Walks until a member's value opens an array (possibly the items), or the object or the piece ends. `at` is the
 * piece's offset in the text. */
static size_t walk_on(struct belfry_envelope_walk *walk, struct belfry_bytes piece, size_t at,
                      enum belfry_envelope_at *out_at)
{
    size_t n = 0;
    if (at == 0 && piece.len > 0) { /* the object's own bracket */
        walk->nest.depth = 1;
        walk->passed = n = 1;
    }
    while (n < piece.len) {
        char c = piece.data[n];
        if (belfry_nest_back(&walk->nest, 1)) {
            bool ends = c == '}' || c == ']', array = c == '[' && walk->is_value;
            walk_byte(walk, c, at + n);
            if (ends || array) {
                walk->nest.depth = ends ? 0 : 2;
                *out_at = ends ? BELFRY_ENVELOPE_ENDED : BELFRY_ENVELOPE_ITEMS;
                return n + 1;
            }
            if (!opens(c)) {
                n++;
                continue;
            }
        }
        n += belfry_nest_skip(&walk->nest, 1, belfry_bytes_of(piece.data + n, piece.len - n));
        walk->behind = at + n;
    }
    *out_at = BELFRY_ENVELOPE_MORE;
    return n;
}

static bool is_items(const struct belfry_envelope *envelope)
{
    const struct belfry_envelope_walk *walk = &envelope->walk;
    if (walk->name == 0 || walk->behind <= walk->name)
        return false;
    struct belfry_bytes text = belfry_buf_bytes(&envelope->text);
    return belfry_escape_is(belfry_bytes_of(text.data + walk->name, walk->behind - 1 - walk->name), "items");
}

enum belfry_err belfry_envelope_take(struct belfry_envelope *envelope, struct belfry_bytes piece, size_t *out_len,
                                     enum belfry_envelope_at *out_at)
{
    struct belfry_envelope_walk before = envelope->walk;
    size_t had = belfry_buf_len(&envelope->text);
    enum belfry_envelope_at at;
    size_t n = walk_on(&envelope->walk, piece, had, &at);
    if (n > envelope->max_bytes - had)
        return BELFRY_ERR_TOO_LARGE;
    if (belfry_buf_append(&envelope->text, piece.data, n) != BELFRY_OK) {
        envelope->walk = before;
        return BELFRY_ERR_NOMEM;
    }
    *out_len = n;
    *out_at = at == BELFRY_ENVELOPE_ITEMS && !is_items(envelope) ? BELFRY_ENVELOPE_MORE : at;
    return BELFRY_OK;
}
