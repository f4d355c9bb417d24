/* tests/storm/echo.h
 *
 * echo: an answer that says whose it is. The model of the API server writes it, and the client that asked compares it
 * with what it has asked for: an answer that is another client's, or torn, or short, is a finding.
 *
 *     WHO METHOD PATH BYTES-OF-BODY HASH-OF-BODY newline, length of the padding (8 digits), padding, "end"
 *
 * Thread: any.
 */
#ifndef BELFRY_STORM_ECHO_H
#define BELFRY_STORM_ECHO_H

#include "base/buf.h"

#define ECHO_HEAD 800

/* What is asked. `who` is a token, or the version of a document, which is the same for all clients. */
void echo_head(char head[ECHO_HEAD], const char *who, const char *method, const char *path, struct belfry_bytes body);

void echo_write(struct belfry_buf *to, const char *head, size_t padding);

/* ECHO_PART: the answer was cut, and what came must be the beginning of one. */
enum echo_extent { ECHO_WHOLE, ECHO_PART };
void echo_judge(const char *reader, const char *head, struct belfry_bytes answer, enum echo_extent extent);

#endif
