/* src/serve/sse/ticket_keys.h
 *
 * ticket_keys: the keys that seal tickets (ticket.h), as a file lists them.
 *
 *     # November
 *     q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=      one key per line: 32 bytes as base64, or as 64 hex digits
 *     0f1e...                                           1 to 4 keys; empty lines and lines with # are skipped
 *
 * The first key seals, and every key opens. To rotate keys without refusing a ticket, add the new key as the second
 * line on every tier, then make it the first line on every tier, then remove the old one when its tickets have expired.
 *
 * Thread: any. Plain data, which holds secrets: the owner wipes it.
 */
#ifndef BELFRY_SERVE_SSE_TICKET_KEYS_H
#define BELFRY_SERVE_SSE_TICKET_KEYS_H

#include "base/bytes.h"
#include "base/err.h"

#define TICKET_KEY_BYTES       32 /* AES-256 */
#define TICKET_KEYS_MAX        4
#define TICKET_KEYS_FILE_BYTES 4096
#define TICKET_KEYS_WHY        512

struct ticket_keys {
    unsigned char key[TICKET_KEYS_MAX][TICKET_KEY_BYTES];
    size_t n; /* 0: tickets are not used */
};

/* Reads the text of a file. On failure a sentence without the file's name and without a part of a key is in why.
 * Errors: BELFRY_ERR_INVALID, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err ticket_keys_read(struct belfry_bytes text, struct ticket_keys *out,
                                                  char why[TICKET_KEYS_WHY]);

/* Reads the file. On failure a sentence that names it and what to do is in why.
 * Errors: BELFRY_ERR_INVALID (unreadable, readable by every user of the machine, or without such keys),
 *         BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err ticket_keys_load(const char *file, struct ticket_keys *out, char why[TICKET_KEYS_WHY]);

void ticket_keys_wipe(struct ticket_keys *keys);
bool ticket_keys_equal(const struct ticket_keys *a, const struct ticket_keys *b);

#endif
