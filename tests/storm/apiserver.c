/* tests/storm/apiserver.c */
#include "storm/apiserver.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "serve/rights/review_text.h"
#include "storm/echo.h"
#include "storm/origin.h"
#include "storm/verdict.h"

#define COUNT(array)   (sizeof(array) / sizeof((array)[0]))
#define LONG_MAX_BYTES 180000 /* of padding */
#define PIECE          3000
#define LINES          40
#define CODES          14

static struct {
    struct choices *choices;
    bool is_calm;
    uint64_t lost_ms;               /* BELFRY_NEVER: the right is there */
    uint64_t version;               /* of documents */
    bool done[2][APISERVER_WRITES]; /* of root and part: this write was carried out */
    char last[ECHO_HEAD];           /* what was asked before; for APISERVER_SWAPS */
} api;

static enum apiserver_wrong wrong; /* of the process */

static const struct origin_field json[] = {{"content-type", "application/json"}};

/* ---- who asks ---- */

enum api_user { API_TIER, API_ROOT, API_PART, API_NOBODY };

static const char *const tokens[] = {APISERVER_TIER, APISERVER_ROOT, APISERVER_PART};

static enum api_user user_of_token(const char *token)
{
    for (size_t i = 0; i < COUNT(tokens); i++)
        if (strcmp(token, tokens[i]) == 0)
            return (enum api_user)i;
    return API_NOBODY;
}

static const char *call_token(const struct origin_call *call)
{
    return strncmp(call->token, "Bearer ", 7) == 0 ? call->token + 7 : "";
}

/* ---- writes ---- */

static void fail_twice(const struct origin_call *call)
{
    verdict_fail("a write is carried out twice: %s of %s", call->path, call->token);
}

/* The request has an effect from now on, whatever becomes of its answer. */
static void call_carry_out(struct origin_call *call)
{
    enum api_user user = user_of_token(call_token(call));
    call->is_processed = true;
    if (strncmp(call->path, APISERVER_WRITE, strlen(APISERVER_WRITE)) != 0 || strcmp(call->method, "GET") == 0)
        return;
    size_t number = strtoul(call->path + strlen(APISERVER_WRITE), NULL, 10);
    if (number >= APISERVER_WRITES || user == API_NOBODY || user == API_TIER)
        return;
    bool *done = &api.done[user == API_PART][number];
    if (*done)
        fail_twice(call);
    *done = true;
}

/* ---- answers ---- */

/* Takes the rest of the text from the body, where it waits. */
static void call_write_piece(struct origin_call *call, size_t most)
{
    struct belfry_bytes left = belfry_buf_bytes(&call->body);
    size_t n = left.len < most ? left.len : most;
    origin_write(call, left.data, n);
    belfry_buf_take(&call->body, n);
}

static void call_write_later(struct origin_call *call, uint32_t most_ms)
{
    call->due_ms = belfry_clock_ms() + 1 + choose(api.choices, most_ms);
}

/* Puts the answer where the body was. */
static void call_prepare(struct origin_call *call, const char *who, size_t padding)
{
    char head[ECHO_HEAD];
    echo_head(head, who, call->method, call->path, belfry_buf_bytes(&call->body));
    belfry_buf_clear(&call->body);
    echo_write(&call->body, wrong == APISERVER_SWAPS && api.last[0] != '\0' ? api.last : head, padding);
    memcpy(api.last, head, sizeof(head));
}

static size_t choose_padding(void)
{
    return choose(api.choices, choose_rarely(api.choices, 6) ? LONG_MAX_BYTES : 300);
}

static void call_answer(struct origin_call *call, const char *status)
{
    call_prepare(call, call_token(call), choose_padding());
    origin_respond(call, status, json, COUNT(json));
    call_write_piece(call, wrong == APISERVER_SHORT ? belfry_buf_len(&call->body) / 2 : SIZE_MAX);
    origin_end(call, NULL, 0);
}

static bool call_is_document(const struct origin_call *call)
{
    return strncmp(call->path, "/openapi/", 9) == 0 && strcmp(call->method, "GET") == 0;
}

/* One of three times it is another one than before. */
static void call_answer_document(struct origin_call *call)
{
    static char etags[APISERVER_WRITES][16]; /* fields must stay */
    char who[24];
    if (api.version + 1 < APISERVER_WRITES && choose_rarely(api.choices, 3))
        api.version++;
    char *etag = etags[api.version];
    snprintf(etag, sizeof(etags[0]), "\"%llu\"", (unsigned long long)api.version);
    const struct origin_field head[] = {{"content-type", "application/json"}, {"etag", etag}};
    bool is_same = strcmp(call->if_none_match, etag) == 0;
    origin_respond(call, is_same ? "304" : "200", head, COUNT(head));
    if (!is_same) {
        snprintf(who, sizeof(who), "v%llu", (unsigned long long)api.version);
        call_prepare(call, who, choose_padding());
        call_write_piece(call, SIZE_MAX);
    }
    origin_end(call, NULL, 0);
}

static bool call_is_stream(const struct origin_call *call)
{
    return strstr(call->path, "watch=1") != NULL && strcmp(call->method, "GET") == 0;
}

static void call_write_line(struct origin_call *call)
{
    char head[ECHO_HEAD], line[ECHO_HEAD + 24];
    echo_head(head, call_token(call), call->method, call->path, (struct belfry_bytes){0});
    int n = snprintf(line, sizeof(line), "%zu %s", call->n_written++, head);
    origin_write(call, line, (size_t)n);
    call_write_later(call, 500);
    if (call->n_written == LINES)
        origin_end(call, NULL, 0);
}

static void call_answer_well(struct origin_call *call)
{
    call_carry_out(call);
    if (call_is_document(call)) {
        call_answer_document(call);
    } else if (call_is_stream(call)) {
        origin_respond(call, "200", json, COUNT(json));
        call_write_line(call);
    } else {
        call_answer(call, "200");
    }
}

static void call_refuse(struct origin_call *call)
{
    static const char *const statuses[] = {"401", "403", "404", "409", "410", "429", "500", "503", "504"};
    call_answer(call, statuses[choose(api.choices, COUNT(statuses))]);
}

/* Its answer begins, and then the stream is reset. */
static void call_cut(struct origin_call *call)
{
    call_carry_out(call);
    call_prepare(call, call_token(call), choose_padding());
    origin_respond(call, "200", json, COUNT(json));
    call_write_piece(call, choose(api.choices, (uint32_t)belfry_buf_len(&call->body)));
    call_write_later(call, 3000);
}

/* Without an answer. Only REFUSED_STREAM says that nothing was done. */
static void call_reset(struct origin_call *call)
{
    uint32_t code = choose(api.choices, CODES);
    if (code != NGHTTP2_REFUSED_STREAM)
        call_carry_out(call);
    origin_reset(call, code);
}

/* For APISERVER_TWICE. */
static void call_deny(struct origin_call *call)
{
    call_carry_out(call);
    origin_reset(call, NGHTTP2_REFUSED_STREAM);
}

/* ---- late answers ---- */

enum api_lateness { API_ON_TIME, API_HEAD_LATER, API_PIECES, API_CUT };

static void on_due(struct origin_call *call)
{
    switch ((enum api_lateness)call->state) {
    case API_ON_TIME: /* a stream */
        call_write_line(call);
        break;
    case API_HEAD_LATER:
        call->state = API_ON_TIME;
        call_answer_well(call);
        break;
    case API_PIECES:
        call_write_piece(call, PIECE);
        call_write_later(call, 300);
        if (belfry_buf_len(&call->body) == 0)
            origin_end(call, NULL, 0);
        break;
    case API_CUT:
        origin_reset(call, choose(api.choices, CODES));
        break;
    }
}

static void call_answer_in_pieces(struct origin_call *call)
{
    call_carry_out(call);
    call_prepare(call, call_token(call), choose_padding());
    origin_respond(call, "200", json, COUNT(json));
    call->state = API_PIECES;
    call_write_later(call, 300);
}

/* A request that is passed on: whatever the run likes. */
static void call_answer_any(struct origin_call *call)
{
    bool is_plain = !call_is_document(call) && !call_is_stream(call);
    switch (choose(api.choices, 16)) {
    default:
        call_answer_well(call);
        break;
    case 10:
        call_refuse(call);
        break;
    case 11:
        if (is_plain) {
            call->state = API_CUT;
            call_cut(call);
        } else {
            call_refuse(call);
        }
        break;
    case 12:
        call_reset(call);
        break;
    case 13: /* it never is */
        call_carry_out(call);
        break;
    case 14:
        call->state = API_HEAD_LATER;
        call_write_later(call, choose_rarely(api.choices, 4) ? 120000 : 2000);
        break;
    case 15:
        if (is_plain)
            call_answer_in_pieces(call);
        else
            call_answer_well(call);
        break;
    }
}

/* ---- reviews ---- */

static bool call_says(const struct origin_call *call, const char *text)
{
    struct belfry_bytes body = belfry_buf_bytes(&call->body);
    return body.len > 0 && memmem(body.data, body.len, text, strlen(text)) != NULL;
}

#define TOKEN_REVIEW(status)  "{\"kind\":\"TokenReview\",\"status\":{" status "}}"
#define ACCESS_REVIEW(status) "{\"kind\":\"SubjectAccessReview\",\"status\":{" status "}}"
#define USER(name, more)      "\"authenticated\":true,\"user\":{\"username\":\"" name "\"," more "}"

static const char *token_answer(const struct origin_call *call)
{
    if (call_says(call, "\"token\":\"" APISERVER_ROOT "\""))
        return TOKEN_REVIEW(USER("root", "\"uid\":\"1\",\"groups\":[\"all\"]"));
    if (call_says(call, "\"token\":\"" APISERVER_PART "\""))
        return TOKEN_REVIEW(USER("part", "\"extra\":{\"a/b\":[\"c\"]}"));
    return TOKEN_REVIEW("\"error\":\"no such token\"");
}

static const char *access_answer(const struct origin_call *call)
{
    bool is_allowed = call_says(call, "\"user\":\"root\"") ||
                      (call_says(call, "\"user\":\"part\"") && apiserver_has_right()) || wrong == APISERVER_LENIENT;
    return is_allowed ? ACCESS_REVIEW("\"allowed\":true")
                      : ACCESS_REVIEW("\"allowed\":false,\"reason\":\"no \\\"right\\\"\"");
}

static void review_write(struct origin_call *call, const char *status, const char *text)
{
    origin_respond(call, status, json, COUNT(json));
    origin_write(call, text, strlen(text));
}

/* An answer that says nothing, late or odd: it must allow nothing. */
static void review_answer_oddly(struct origin_call *call, const char *text)
{
    static const char *const odd[] = {"",
                                      "[]",
                                      "{\"status\":{\"allowed\":true}}",
                                      ACCESS_REVIEW("\"allowed\":\"true\""),
                                      ACCESS_REVIEW("\"allowed\":true,\"denied\":true"),
                                      "{\"kind\":\"SubjectAccessReview\",\"status\":{\"allowed\":true",
                                      TOKEN_REVIEW(USER("", "\"uid\":\"1\"")),
                                      TOKEN_REVIEW("\"authenticated\":true")};
    static const char *const statuses[] = {"401", "403", "404", "410", "429", "500", "503"};
    static char endless[60000];
    switch (choose(api.choices, 6)) {
    case 0:
        review_write(call, statuses[choose(api.choices, COUNT(statuses))], text);
        break;
    case 1:
        review_write(call, "201", odd[choose(api.choices, COUNT(odd))]);
        break;
    case 2: /* over-long */
        memset(endless, ' ', sizeof(endless) - 1);
        origin_respond(call, "201", json, COUNT(json));
        for (uint32_t n = choose(api.choices, 40); n > 0; n--)
            origin_write(call, endless, sizeof(endless) - 1);
        break;
    case 3: /* decided now, and said later */
        belfry_buf_clear(&call->body);
        verdict_must(belfry_buf_append(&call->body, text, strlen(text)) == BELFRY_OK, "a review");
        origin_respond(call, "201", json, COUNT(json));
        call->state = API_PIECES;
        call_write_later(call, 12000);
        return;
    case 4:
        origin_reset(call, choose(api.choices, CODES));
        return;
    case 5: /* it never is */
        return;
    }
    origin_end(call, NULL, 0);
}

static void call_review(struct origin_call *call)
{
    const char *text = strcmp(call->path, REVIEW_TOKEN_PATH) == 0 ? token_answer(call) : access_answer(call);
    if (!api.is_calm && choose_rarely(api.choices, 4)) {
        review_answer_oddly(call, text);
        return;
    }
    review_write(call, "201", text);
    origin_end(call, NULL, 0);
}

/* ---- what is asked ---- */

static bool call_is_review(const struct origin_call *call)
{
    return strcmp(call->path, REVIEW_TOKEN_PATH) == 0 || strcmp(call->path, REVIEW_ACCESS_PATH) == 0;
}

static void call_serve(struct origin_call *call)
{
    enum api_user user = user_of_token(call_token(call));
    if (user == API_TIER && !call_is_review(call))
        verdict_fail("a request carries the tier's own token: %s %s", call->method, call->path);
    if (user == API_TIER)
        call_review(call);
    else if (user == API_NOBODY)
        call_answer(call, "401");
    else if (wrong == APISERVER_TWICE && strcmp(call->method, "PUT") == 0)
        call_deny(call);
    else if (api.is_calm)
        call_answer_well(call);
    else
        call_answer_any(call);
}

/* ---- the run's ---- */

void apiserver_open(const char *path, struct choices *choices)
{
    static const struct origin_dialect dialect = {call_serve, NULL, on_due};
    memset(&api, 0, sizeof(api));
    api.choices = choices;
    api.lost_ms = BELFRY_NEVER;
    origin_open(&dialect, path, choices);
}

void apiserver_set_calm(void)
{
    api.is_calm = true;
}

void apiserver_set_right(bool has)
{
    if (has)
        api.lost_ms = BELFRY_NEVER;
    else if (api.lost_ms == BELFRY_NEVER)
        api.lost_ms = belfry_clock_ms();
}

bool apiserver_has_right(void)
{
    return api.lost_ms == BELFRY_NEVER;
}

uint64_t apiserver_lost_ms(void)
{
    return api.lost_ms;
}

uint64_t apiserver_version(void)
{
    return api.version;
}

void apiserver_set_wrong(enum apiserver_wrong what)
{
    wrong = what;
}
