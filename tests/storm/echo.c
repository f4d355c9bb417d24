/* tests/storm/echo.c */
#include "storm/echo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xxh64.h"
#include "storm/verdict.h"

#define DIGITS 8
#define END    "end"

void echo_head(char head[ECHO_HEAD], const char *who, const char *method, const char *path, struct belfry_bytes body)
{
    snprintf(head, ECHO_HEAD, "%s %s %s %zu %016llx\n", who, method, path, body.len,
             (unsigned long long)belfry_xxh64(0, body));
}

void echo_write(struct belfry_buf *to, const char *head, size_t padding)
{
    uint8_t *room;
    size_t head_len = strlen(head), len = head_len + DIGITS + padding + strlen(END);
    verdict_must(belfry_buf_reserve(to, len + 1, &room) == BELFRY_OK, "an echo"); /* + 1: snprintf() ends with NUL */
    memcpy(room, head, head_len);
    snprintf((char *)room + head_len, DIGITS + 1, "%0*zu", DIGITS, padding);
    memset(room + head_len + DIGITS, 'e', padding);
    memcpy(room + len - strlen(END), END, strlen(END));
    belfry_buf_grown(to, len);
}

/* The length that an answer with this beginning has; 0: too little of it is there. */
static size_t echo_length(size_t head_len, struct belfry_bytes answer)
{
    char digits[DIGITS + 1] = "";
    if (answer.len < head_len + DIGITS)
        return 0;
    memcpy(digits, answer.data + head_len, DIGITS);
    return head_len + DIGITS + strtoul(digits, NULL, 10) + strlen(END);
}

static bool is_padding(const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (at[i] != 'e')
            return false;
    return true;
}

void echo_judge(const char *reader, const char *head, struct belfry_bytes answer, enum echo_extent extent)
{
    size_t head_len = strlen(head), known = answer.len < head_len ? answer.len : head_len;
    if (known > 0 && memcmp(answer.data, head, known) != 0)
        verdict_fail("%s: an answer that is not its own: %.*s instead of %s", reader, (int)known, answer.data, head);
    size_t len = echo_length(head_len, answer);
    if (extent == ECHO_WHOLE ? len != answer.len : len != 0 && answer.len > len)
        verdict_fail("%s: an answer of %zu bytes has %zu: %s", reader, len, answer.len, head);
    size_t from = head_len + DIGITS, to = len != 0 && answer.len > len - strlen(END) ? len - strlen(END) : answer.len;
    if (len != 0 && (!is_padding(answer.data + from, to - from) || memcmp(answer.data + to, END, answer.len - to) != 0))
        verdict_fail("%s: an answer that is torn: %s", reader, head);
}
