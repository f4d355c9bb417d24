/* src/kapi/sentence.h
 *
 * sentence: one line for a person, put together in a room of fixed size. What a peer wrote is made fit for terminals
 * and logs: UTF-8 only, no control characters, white space as one blank, cut between two characters with "...".
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
    bool is_cut; /* there was no room for all: nothing more is appended */
};

/* Empties text[0, cap). cap is at least 1. */
struct belfry_sentence belfry_sentence_begin(char *text, size_t cap);

/* Goes on behind what stands in text[0, cap). */
struct belfry_sentence belfry_sentence_resume(char *text, size_t cap);

/* Appends as much as there is room for. */
void belfry_sentence_quote(struct belfry_sentence *sentence, struct belfry_bytes foreign);
void belfry_sentence_say(struct belfry_sentence *sentence, const char *words);

/* Takes away a blank at the end. */
void belfry_sentence_trim(struct belfry_sentence *sentence);

#endif
