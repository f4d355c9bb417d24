/* tests/storm/curl.c */
#include "storm/curl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "storm/verdict.h"

#define WIDGETS   "/apis/demo.example.com/v1/widgets"
#define ANSWER_MS 5000
#define EVERY_MS  120000
#define WATCH_MS  600000 /* that somebody looks at a watch, at most */

static const char *const paths[] = {"/health", WIDGETS, "/apis/demo.example.com/v1", "/version"};

void curl_init(struct curl *curl, size_t door, unsigned host, const char *token, struct choices *choices,
               struct user_tally *tally)
{
    const uint8_t address[4] = {10, 0, 0, (uint8_t)host};
    *curl = (struct curl){.line = {.fd = -1}, .door = door, .token = token, .choices = choices, .tally = tally};
    curl->address = client_address_ipv4(address, 900);
    curl->next_ms = belfry_clock_ms() + choose(choices, EVERY_MS);
}

void curl_fini(struct curl *curl)
{
    line_close(&curl->line);
}

static void curl_begin(struct curl *curl)
{
    struct line_opts opts = {.door = curl->door, .client = curl->address};
    char text[400];
    curl->is_watch = choose_rarely(curl->choices, 10);
    const char *path = curl->is_watch ? WIDGETS "?watch=1" : paths[choose(curl->choices, 4)];
    int len = snprintf(text, sizeof(text),
                       "GET %s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n%s%s%s\r\n",
                       path, curl->token != NULL ? "Authorization: Bearer " : "",
                       curl->token != NULL ? curl->token : "", curl->token != NULL ? "\r\n" : "");
    line_open(&curl->line, &opts);
    verdict_must(belfry_buf_append(&curl->line.out, text, (size_t)len) == BELFRY_OK, "output");
    curl->next_ms = belfry_clock_ms() + (curl->is_watch ? 1 + choose(curl->choices, WATCH_MS) : ANSWER_MS);
}

static void curl_end(struct curl *curl)
{
    line_close(&curl->line);
    curl->tally->curls++;
    curl->tally->interrupted += curl->is_watch;
    curl->next_ms = belfry_clock_ms() + EVERY_MS / 2 + choose(curl->choices, EVERY_MS);
}

/* By its length, or its last chunk. */
static bool response_is_whole(struct belfry_bytes in)
{
    static const char length[] = "ontent-length: ", last[] = "\r\n0\r\n\r\n";
    const char *body = in.len == 0 ? NULL : memmem(in.data, in.len, "\r\n\r\n", 4);
    if (body == NULL)
        return false;
    size_t head = (size_t)(body - (const char *)in.data) + 4;
    const char *at = memmem(in.data, head, length, sizeof(length) - 1);
    if (at != NULL)
        return in.len - head >= (size_t)atol(at + sizeof(length) - 1);
    size_t n = sizeof(last) - 1;
    return in.len >= head + n - 2 && memcmp(in.data + in.len - n, last, n) == 0;
}

static void curl_look(struct curl *curl)
{
    static const char fine[] = "HTTP/1.1 200 ";
    struct belfry_bytes in = belfry_buf_bytes(&curl->line.in);
    if (in.len >= sizeof(fine) - 1 && memcmp(in.data, fine, sizeof(fine) - 1) != 0)
        verdict_fail("curl: %.*s", (int)(in.len < 300 ? in.len : 300), in.data);
    if (!curl->is_watch && response_is_whole(in))
        curl_end(curl);
    else if (curl->line.is_over)
        verdict_fail("curl: the server has closed the connection after %zu bytes", in.len);
    else if (belfry_clock_ms() >= curl->next_ms && (!curl->is_watch || in.len == 0))
        verdict_fail("curl: no whole answer after %d ms, but %zu bytes", ANSWER_MS, in.len);
    else if (belfry_clock_ms() >= curl->next_ms)
        curl_end(curl);
}

bool curl_turn(struct curl *curl, bool is_night)
{
    if (curl->line.fd < 0) {
        if (belfry_clock_ms() >= curl->next_ms && is_night)
            curl->next_ms += EVERY_MS;
        else if (belfry_clock_ms() >= curl->next_ms)
            curl_begin(curl);
    }
    if (curl->line.fd < 0)
        return false;
    size_t before = belfry_buf_len(&curl->line.in);
    bool did = belfry_buf_len(&curl->line.out) > 0;
    line_push(&curl->line, SIZE_MAX);
    line_pull(&curl->line, SIZE_MAX);
    did = did || belfry_buf_len(&curl->line.in) != before;
    curl_look(curl);
    return did;
}
