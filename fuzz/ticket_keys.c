/* fuzz/ticket_keys.c: any bytes as a file of keys. What is read has 1 to 4 keys, and reads back from its hex digits.
 * What is refused comes with a reason. */
#include <stdint.h>
#include <stdio.h>

#include "fuzz/check.h"
#include "serve/sse/ticket_keys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ticket_keys keys, again;
    char why[TICKET_KEYS_WHY] = "", text[TICKET_KEYS_MAX * (2 * TICKET_KEY_BYTES + 1) + 1];
    size_t len = 0;
    if (ticket_keys_read(belfry_bytes_of(data, size), &keys, why) != BELFRY_OK) {
        check(why[0] != '\0');
        return 0;
    }
    check(keys.n >= 1 && keys.n <= TICKET_KEYS_MAX);
    for (size_t i = 0; i < keys.n; i++) {
        for (size_t j = 0; j < TICKET_KEY_BYTES; j++)
            len += (size_t)snprintf(text + len, sizeof(text) - len, "%02x", keys.key[i][j]);
        text[len++] = '\n';
    }
    check(ticket_keys_read(belfry_bytes_of(text, len), &again, why) == BELFRY_OK && ticket_keys_equal(&keys, &again));
    return 0;
}
