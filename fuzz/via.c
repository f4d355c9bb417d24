/* fuzz/via.c: any bytes as the value of belfry-via, and as a name. What is read is at most eight words, each of which
 * could have been written; what is written is read, and found in a circle with itself. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/check.h"
#include "serve/uplink/via.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum via_verdict judge(struct belfry_bytes value, const char *own, struct via *via)
{
    char why[VIA_WHY_BYTES];
    struct belfry_http_field field = {belfry_bytes_str(VIA_FIELD), value};
    struct exchange_head head = {.fields = &field, .n_fields = 1};
    enum via_verdict verdict = via_judge(&head, own, via, why);
    check(verdict == VIA_FINE || memchr(why, '\0', sizeof(why)) != NULL);
    return verdict;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct via via;
    char word[VIA_WORD_BYTES + 1];
    if (judge(belfry_bytes_of(data, size), "own", &via) != VIA_UNREADABLE) {
        check(via.n <= VIA_TIERS);
        for (size_t i = 0; i < via.n; i++)
            check(via.words[i].len > 0 && via.words[i].len <= VIA_WORD_BYTES);
    }
    char *name = calloc(1, size + 1);
    if (name == NULL)
        return 0;
    memcpy(name, data, size);
    size_t len = via_word(name, word);
    check(len > 0 && len <= VIA_WORD_BYTES && strlen(word) == len);
    check(judge(belfry_bytes_of(word, len), word, &via) == VIA_CIRCLE && via.n == 1);
    free(name);
    return 0;
}
