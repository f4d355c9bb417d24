/* src/kapi/sentence.h
 *
 * sentence: builds one line for people in a buffer of fixed size. A peer's text is made safe for terminals and logs:
 * only UTF-8, no control characters, white space as one blank, truncated between two characters with "...".
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_KAPI_SENTENCE_H
#define BELFRY_KAPI_SENTENCE_H

#include <stdbool.h>

#include "base/bytes.h"

struct belfry_sentence {
    char *text; /* lent; always zero-ended */
    size_t cap, len;
    bool is_cut; /* truncated: nothing more is appended */
};

/* Empties text[0, cap). cap is at least 1. */
struct belfry_sentence belfry_sentence_begin(char *text, size_t cap);

/* Continues after the text in text[0, cap). */
struct belfry_sentence belfry_sentence_resume(char *text, size_t cap);

/* Appends as much as fits. */
void belfry_sentence_quote(struct belfry_sentence *sentence, struct belfry_bytes foreign);
void belfry_sentence_say(struct belfry_sentence *sentence, const char *words);

/* Removes a blank at the end. */
void belfry_sentence_trim(struct belfry_sentence *sentence);

#endif
