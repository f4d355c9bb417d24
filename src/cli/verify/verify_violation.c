/* src/cli/verify/verify_violation.c */
#include "cli/verify/verify_violation.h"

#define WORD(name, word, sentence)     word,
#define SENTENCE(name, word, sentence) sentence,

const char *verify_property_word(enum verify_property property)
{
    static const char *const words[] = {VERIFY_PROPERTIES(WORD)};
    return words[property];
}

const char *verify_property_sentence(enum verify_property property)
{
    static const char *const sentences[] = {VERIFY_PROPERTIES(SENTENCE)};
    return sentences[property];
}
