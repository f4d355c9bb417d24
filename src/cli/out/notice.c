/* src/cli/out/notice.c */
#include "cli/out/notice.h"

#include <inttypes.h>
#include <string.h>

#include "cli/out/out_table.h"

static const char *after(const char *text, const char *start)
{
    size_t len = strlen(start);
    return strncmp(text, start, len) == 0 ? text + len : NULL;
}

static void keep(char kept[NOTICE_TEXT], const char *text, size_t len)
{
    snprintf(kept, NOTICE_TEXT, "%.*s", (int)(len < NOTICE_TEXT ? len : NOTICE_TEXT - 1), text);
}

static void write_duration(FILE *out, int64_t ms)
{
    if (ms < 1000)
        fprintf(out, "%" PRId64 " ms", ms);
    else if (ms < 60000)
        fprintf(out, "%" PRId64 ".%" PRId64 " s", ms / 1000, ms % 1000 / 100);
    else
        fprintf(out, "%" PRId64 " min %" PRId64 " s", ms / 60000, ms % 60000 / 1000);
}

static void connected(struct notice *notice, FILE *out, const char *endpoint, int64_t now_ms)
{
    if (notice->state == NOTICE_DOWN || notice->state == NOTICE_TOLD) {
        if (notice->state == NOTICE_DOWN)
            fprintf(out, "!! %s gone; on %s after ", notice->endpoint, endpoint);
        else
            fprintf(out, "!! on %s after ", endpoint);
        write_duration(out, now_ms - notice->since_ms);
        fputs(", nothing missed\n", out);
    }
    notice->state = NOTICE_UP;
    keep(notice->endpoint, endpoint, strlen(endpoint));
}

void notice_hear(struct notice *notice, FILE *out, const char *why, int64_t now_ms)
{
    const char *endpoint = after(why, "connected to ");
    if (endpoint != NULL) {
        connected(notice, out, endpoint, now_ms);
        return;
    }
    keep(notice->words, why, strlen(why));
    if (notice->state != NOTICE_UP)
        return;
    notice->state = NOTICE_DOWN;
    notice->since_ms = now_ms;
    const char *lost = after(why, "lost ");
    if (lost != NULL) { /* "lost URL: reason": a URL has colons, but none before a blank */
        const char *colon = strstr(lost, ": ");
        keep(notice->endpoint, lost, colon != NULL ? (size_t)(colon - lost) : strlen(lost));
    }
}

void notice_alive(struct notice *notice)
{
    if (notice->state == NOTICE_NEW)
        notice->state = NOTICE_UP;
}

void notice_tick(struct notice *notice, FILE *out, int64_t now_ms)
{
    if (notice->state != NOTICE_DOWN || now_ms - notice->since_ms < NOTICE_QUIET_MS)
        return;
    fputs("!! ", out);
    table_bytes(out, (struct belfry_bytes){notice->words, strlen(notice->words)}, false);
    fputc('\n', out);
    notice->state = NOTICE_TOLD;
}

int notice_wait_ms(const struct notice *notice, int64_t now_ms)
{
    if (notice->state != NOTICE_DOWN)
        return -1;
    int64_t left = notice->since_ms + NOTICE_QUIET_MS - now_ms;
    return left > 0 ? (int)left : 0;
}
