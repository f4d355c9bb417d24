/* tests/storm/kcurl.c */
#include "storm/kcurl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "storm/apiserver.h"
#include "storm/verdict.h"

#define AGAIN_MS 100
#define BODY_MAX 60000

/* ---- answers ---- */

struct answer {
    int status; /* 0: its head is not whole */
    bool is_whole;
    size_t used;            /* bytes of the connection, if it is whole */
    struct belfry_buf body; /* without the framing; what is there of it */
};

static const char *find(struct belfry_bytes in, const char *text)
{
    return in.len == 0 ? NULL : memmem(in.data, in.len, text, strlen(text));
}

static struct belfry_bytes rest_of(struct belfry_bytes in, size_t from)
{
    return belfry_bytes_of(in.data + from, in.len - from);
}

static void answer_add(struct answer *answer, struct belfry_bytes bytes)
{
    verdict_must(bytes.len == 0 || belfry_buf_append(&answer->body, bytes.data, bytes.len) == BELFRY_OK, "an answer");
}

static void read_by_length(struct answer *answer, struct belfry_bytes in, size_t len)
{
    answer->is_whole = in.len >= len;
    answer_add(answer, belfry_bytes_of(in.data, answer->is_whole ? len : in.len));
    answer->used += len;
}

static void read_chunks(struct answer *answer, struct belfry_bytes in)
{
    const char *line_end;
    while ((line_end = find(in, "\r\n")) != NULL) {
        size_t head = (size_t)(line_end - in.data) + 2, len = strtoul(in.data, NULL, 16);
        struct belfry_bytes chunk = rest_of(in, head);
        if (len == 0) { /* there are no trailers */
            answer->is_whole = chunk.len >= 2;
            answer->used += head + 2;
            return;
        }
        answer_add(answer, belfry_bytes_of(chunk.data, chunk.len < len ? chunk.len : len));
        if (chunk.len < len + 2)
            return;
        answer->used += head + len + 2;
        in = rest_of(chunk, len + 2);
    }
}

static void answer_read(struct answer *answer, struct belfry_bytes in)
{
    static const char length[] = "ontent-length: ", chunked[] = "ransfer-encoding: chunked\r\n";
    const char *end = find(in, "\r\n\r\n");
    *answer = (struct answer){0};
    belfry_buf_init(&answer->body);
    if (end == NULL)
        return;
    answer->used = (size_t)(end - in.data) + 4;
    struct belfry_bytes head = belfry_bytes_of(in.data, answer->used), body = rest_of(in, answer->used);
    answer->status = head.len > 12 ? atoi(head.data + 9) : 0;
    const char *said = find(head, length);
    if (said != NULL)
        read_by_length(answer, body, strtoul(said + strlen(length), NULL, 10));
    else if (find(head, chunked) != NULL)
        read_chunks(answer, body);
    else
        verdict_fail("an answer of HTTP/1.1 whose end cannot be seen: %.*s", (int)head.len, head.data);
}

static void kcurl_judge(struct kcurl *curl, const struct answer *answer)
{
    struct belfry_bytes body = belfry_buf_bytes(&answer->body);
    bool is_status = answer->status >= 400 && (body.len == 0 || body.data[0] == '{');
    bool is_refusal = answer->status == 503 && find(body, "belfry: no room for one more connection") == body.data;
    if (answer->status != 0 && curl->n_asked == 0)
        verdict_fail("%s: an answer that nothing has asked for", curl->peer);
    if (answer->status != 0 && !is_status && !is_refusal)
        echo_judge(curl->peer, curl->asked[0], body, answer->is_whole ? ECHO_WHOLE : ECHO_PART);
    bool is_fine = answer->is_whole && answer->status == 200;
    curl->answered += is_fine;
    curl->failed += !is_fine;
}

/* Judges whatever is whole, and at the end of the connection the rest. */
static void kcurl_take(struct kcurl *curl)
{
    for (bool is_whole = true; is_whole;) {
        struct answer answer;
        answer_read(&answer, belfry_buf_bytes(&curl->line.in));
        is_whole = answer.is_whole;
        if (is_whole || curl->line.is_over)
            kcurl_judge(curl, &answer);
        if (is_whole) {
            belfry_buf_take(&curl->line.in, answer.used);
            memmove(curl->asked[0], curl->asked[1], sizeof(curl->asked) - sizeof(curl->asked[0]));
            curl->n_asked--;
        }
        belfry_buf_fini(&answer.body);
    }
}

/* ---- requests ---- */

static void append(struct kcurl *curl, const void *data, size_t len)
{
    verdict_must(belfry_buf_append(&curl->line.out, data, len) == BELFRY_OK, "output");
}

static void kcurl_send_body(struct kcurl *curl, struct belfry_bytes body)
{
    char text[64];
    bool is_chunked = choose(curl->choices, 2) == 1;
    int n =
        snprintf(text, sizeof(text),
                 is_chunked ? "Transfer-Encoding: chunked\r\n\r\n%zx\r\n" : "Content-Length: %zu\r\n\r\n", body.len);
    append(curl, text, (size_t)n);
    append(curl, body.data, body.len);
    if (is_chunked)
        append(curl, "\r\n0\r\n\r\n", 7);
}

static void kcurl_send(struct kcurl *curl)
{
    static char body[BODY_MAX];
    char path[100], text[300];
    bool is_write = choose(curl->choices, 2) == 1;
    const char *method = is_write ? "PUT" : "GET";
    size_t len = is_write ? 1 + choose(curl->choices, choose_rarely(curl->choices, 4) ? BODY_MAX : 500) : 0;
    unsigned long long number = APISERVER_WRITES / 2 + ++curl->number;
    snprintf(path, sizeof(path), "%s%llu", is_write ? APISERVER_WRITE : "/api/v1/namespaces/ns/secrets/r-", number);
    memset(body, 'A' + (int)(number % 26), len);
    echo_head(curl->asked[curl->n_asked++], APISERVER_ROOT, method, path, belfry_bytes_of(body, len));
    int n = snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n%s", method,
                     path, APISERVER_ROOT, is_write ? "" : "\r\n");
    append(curl, text, (size_t)n);
    if (is_write)
        kcurl_send_body(curl, belfry_bytes_of(body, len));
    curl->next_ms = belfry_clock_ms() + (choose_rarely(curl->choices, 3) ? 0 : AGAIN_MS);
}

/* ---- the connection ---- */

static void kcurl_disconnect(struct kcurl *curl)
{
    line_close(&curl->line);
    curl->n_asked = 0;
    curl->next_ms = belfry_clock_ms() + AGAIN_MS;
}

void kcurl_turn(struct kcurl *curl)
{
    struct line_opts opts = {.door = curl->door, .client = curl->address, .with_cert = true};
    if (belfry_clock_ms() >= curl->next_ms) {
        if (curl->line.fd < 0)
            line_open(&curl->line, &opts);
        bool may_go_ahead = curl->n_asked < KCURL_AHEAD && choose_rarely(curl->choices, 4);
        if (curl->n_asked == 0 || may_go_ahead)
            kcurl_send(curl);
    }
    if (curl->line.fd < 0)
        return;
    line_push(&curl->line, SIZE_MAX);
    line_pull(&curl->line, curl->reads);
    kcurl_take(curl);
    if (curl->line.is_over)
        kcurl_disconnect(curl);
}

void kcurl_init(struct kcurl *curl, size_t door, unsigned number, struct choices *choices)
{
    static const size_t reads[] = {SIZE_MAX, SIZE_MAX, 20000, 4000};
    *curl = (struct kcurl){.line = {.fd = -1}, .choices = choices, .door = door};
    curl->reads = reads[choose(choices, 4)];
    curl->address = client_address_ipv4((const uint8_t[]){10, 0, 0, (uint8_t)number}, 1);
    client_address_text(&curl->address, curl->peer);
}

void kcurl_fini(struct kcurl *curl)
{
    line_close(&curl->line);
}

void kcurl_ask(struct kcurl *curl)
{
    curl->before = curl->answered;
}

bool kcurl_is_served(const struct kcurl *curl)
{
    return curl->answered > curl->before;
}

void kcurl_tell(const struct kcurl *curl)
{
    verdict_note("%s, door %zu, HTTP/1.1: answered %llu, since then %llu, failed %llu; %zu under way, %zu bytes came",
                 curl->peer, curl->door, (unsigned long long)curl->answered,
                 (unsigned long long)(curl->answered - curl->before), (unsigned long long)curl->failed, curl->n_asked,
                 belfry_buf_len(&curl->line.in));
}
