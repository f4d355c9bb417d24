/* src/kapi/failure.c */
#include "kapi/failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <strings.h>

#include "kapi/sentence.h"
#include "json/document.h"

#define RETRY_AFTER_MAX_S 3600
#define TEXT_MAX          256

static const char too_large_cause[] = "ResourceVersionTooLarge";
static const char too_large_text[] = "Too large resource version";

static void failure_clear(struct belfry_failure *failure)
{
    *failure = (struct belfry_failure){.retry_after_ms = -1};
}

/* ---- codes and reasons ---- */

static const struct meaning {
    int code;
    const char *phrase; /* RFC 9110 section 15 */
    const char *reason; /* Kubernetes' word, for a Status that has no code */
} meanings[] = {
    {400, "Bad Request", "BadRequest"},
    {401, "Unauthorized", "Unauthorized"},
    {403, "Forbidden", "Forbidden"},
    {404, "Not Found", "NotFound"},
    {405, "Method Not Allowed", "MethodNotAllowed"},
    {406, "Not Acceptable", "NotAcceptable"},
    {408, "Request Timeout", ""},
    {409, "Conflict", "Conflict"},
    {410, "Gone", "Gone"},
    {410, "Gone", "Expired"},
    {413, "Content Too Large", "RequestEntityTooLarge"},
    {415, "Unsupported Media Type", "UnsupportedMediaType"},
    {422, "Unprocessable Content", "Invalid"},
    {429, "Too Many Requests", "TooManyRequests"},
    {500, "Internal Server Error", "InternalError"},
    {500, "Internal Server Error", "ServerTimeout"},
    {502, "Bad Gateway", ""},
    {503, "Service Unavailable", "ServiceUnavailable"},
    {504, "Gateway Timeout", "Timeout"},
};
#define N_MEANINGS (sizeof(meanings) / sizeof(meanings[0]))

static int code_of(const char *reason)
{
    for (size_t i = 0; i < N_MEANINGS && reason[0] != '\0'; i++) {
        if (strcmp(meanings[i].reason, reason) == 0)
            return meanings[i].code;
    }
    return 0;
}

static enum belfry_err err_of(int code)
{
    switch (code) {
    case 401:
        return BELFRY_ERR_AUTH;
    case 403:
        return BELFRY_ERR_DENIED;
    case 404:
        return BELFRY_ERR_NOT_FOUND;
    case 410:
        return BELFRY_ERR_COMPACTED;
    case 429:
        return BELFRY_ERR_UNAVAILABLE;
    }
    if (code >= 500)
        return BELFRY_ERR_UNAVAILABLE;
    /* Below 400 is never Kubernetes' answer to a get; 0 means that the Status has no code. */
    return code >= 400 || code == 0 ? BELFRY_ERR_REFUSED : BELFRY_ERR_PROTOCOL;
}

/* Sets err from code, reason and too_large. */
static void failure_judge(struct belfry_failure *failure)
{
    int code = failure->code != 0 ? failure->code : code_of(failure->reason);
    failure->expired = code == 410 || code_of(failure->reason) == 410;
    failure->err = failure->expired ? BELFRY_ERR_COMPACTED : failure->too_large ? BELFRY_ERR_FUTURE : err_of(code);
}

/* ---- the text of a body ---- */

/* The offset of the next `c`, or the length. */
static size_t text_until(struct belfry_bytes text, char c)
{
    const char *at = text.len == 0 ? NULL : memchr(text.data, c, text.len);
    return at == NULL ? text.len : (size_t)(at - text.data);
}

static struct belfry_bytes text_after(struct belfry_bytes text, size_t n)
{
    return belfry_bytes_of(text.data + n, text.len - n);
}

/* The title of an HTML page; empty: none. */
static struct belfry_bytes html_title(struct belfry_bytes page)
{
    static const char tag[] = "<title>";
    size_t n = strlen(tag);
    for (size_t at = text_until(page, '<'); page.len - at >= n; at = text_until(page, '<')) {
        page = text_after(page, at);
        if (strncasecmp(page.data, tag, n) == 0) {
            page = text_after(page, n);
            return belfry_bytes_of(page.data, text_until(page, '<'));
        }
        page = text_after(page, 1);
    }
    return (struct belfry_bytes){0};
}

/* Proxies send errors as HTML: appends the page's title or, if it has none, its text without tags. Other text is
 * appended unchanged. */
static void quote_words(struct belfry_sentence *quote, struct belfry_bytes words)
{
    size_t blanks = 0;
    while (blanks < words.len && memchr(" \t\r\n", words.data[blanks], 4) != NULL)
        blanks++;
    bool is_html = blanks < words.len && words.data[blanks] == '<';
    struct belfry_bytes whole = is_html ? html_title(words) : words;
    if (!is_html || whole.len > 0) {
        belfry_sentence_quote(quote, whole);
        return;
    }

    while (words.len > 0 && !quote->is_cut) {
        size_t text = text_until(words, '<');
        belfry_sentence_quote(quote, belfry_bytes_of(words.data, text));
        belfry_sentence_say(quote, " ");
        words = text_after(words, text);
        size_t tag = text_until(words, '>');
        words = text_after(words, tag < words.len ? tag + 1 : tag);
    }
}

/* ---- the sentence ---- */

/* Skips the code or reason that a server often repeats at the beginning: "Unauthorized", "Timeout: Too large ...". */
static const char *skip_repeated(const char *text, const char *said)
{
    size_t n = strlen(said);
    if (n == 0 || strncmp(text, said, n) != 0 || (text[n] != '\0' && text[n] != ':'))
        return text;
    text += n + (text[n] == ':');
    return text + strspn(text, " ");
}

/* "403 Forbidden: pods is forbidden ..." */
static void failure_say(struct belfry_failure *failure, struct belfry_bytes words)
{
    char head[64], text[TEXT_MAX];
    const char *name = failure->reason;
    for (size_t i = 0; i < N_MEANINGS && name[0] == '\0'; i++) {
        if (meanings[i].code == failure->code)
            name = meanings[i].phrase;
    }
    if (failure->code != 0)
        snprintf(head, sizeof(head), "%d%s%s", failure->code, name[0] == '\0' ? "" : " ", name);
    else
        snprintf(head, sizeof(head), "%s", name[0] == '\0' ? "an error that the server gave no code" : name);

    struct belfry_sentence quote = belfry_sentence_begin(text, sizeof(text));
    quote_words(&quote, words);
    belfry_sentence_trim(&quote);
    const char *rest = skip_repeated(skip_repeated(text, head), name);

    struct belfry_sentence why = belfry_sentence_begin(failure->why, BELFRY_FAILURE_WHY);
    belfry_sentence_say(&why, head);
    if (rest[0] != '\0') {
        belfry_sentence_say(&why, ": ");
        belfry_sentence_say(&why, rest);
    }
}

/* ---- a Status ---- */

static struct belfry_bytes text_of(yyjson_val *value)
{
    return yyjson_is_str(value) ? belfry_kube_document_bytes(value) : (struct belfry_bytes){0};
}

/* Whole seconds in milliseconds, at most an hour; -1: not such a number. */
static int64_t milliseconds(struct belfry_bytes digits)
{
    int64_t seconds = 0;
    if (digits.len == 0)
        return -1;
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.data[i] < '0' || digits.data[i] > '9')
            return -1;
        seconds = seconds * 10 + (digits.data[i] - '0');
        seconds = seconds > RETRY_AFTER_MAX_S ? RETRY_AFTER_MAX_S : seconds;
    }
    return seconds * 1000;
}

/* Three digits; 0: not a code. */
static int code_in(yyjson_val *value)
{
    struct belfry_bytes digits =
        belfry_kube_document_is_integer(value) ? belfry_kube_document_bytes(value) : (struct belfry_bytes){0};
    int code = 0;
    for (size_t i = 0; digits.len == 3 && i < digits.len; i++) {
        if (digits.data[i] < '0')
            return 0;
        code = code * 10 + (digits.data[i] - '0');
    }
    return code;
}

static void read_status(struct belfry_failure *failure, yyjson_val *status)
{
    yyjson_val *details = yyjson_obj_get(status, "details"), *after = yyjson_obj_get(details, "retryAfterSeconds");
    struct belfry_sentence reason = belfry_sentence_begin(failure->reason, sizeof(failure->reason));
    belfry_sentence_quote(&reason, text_of(yyjson_obj_get(status, "reason")));
    if (yyjson_is_raw(after) && milliseconds(belfry_kube_document_bytes(after)) > 0)
        failure->retry_after_ms = milliseconds(belfry_kube_document_bytes(after));

    /* Servers name the cause of a version that is too large; old ones only say so in the message of a timeout. */
    yyjson_arr_iter causes = yyjson_arr_iter_with(yyjson_obj_get(details, "causes"));
    for (yyjson_val *cause; (cause = yyjson_arr_iter_next(&causes)) != NULL;) {
        if (yyjson_equals_str(yyjson_obj_get(cause, "reason"), too_large_cause))
            failure->too_large = true;
    }
    bool timeout = failure->code == 504 || strcmp(failure->reason, "Timeout") == 0;
    struct belfry_bytes message = text_of(yyjson_obj_get(status, "message"));
    if (timeout && message.len > 0 && memmem(message.data, message.len, too_large_text, strlen(too_large_text)) != NULL)
        failure->too_large = true;
}

static bool is_status(yyjson_val *root)
{
    return yyjson_equals_str(yyjson_obj_get(root, "kind"), "Status");
}

void belfry_failure_of_answer(struct belfry_failure *failure, int status, struct belfry_bytes retry_after,
                              struct belfry_bytes body)
{
    struct belfry_kube_document document = {0};
    struct belfry_bytes words = body;
    if (body.len > BELFRY_FAILURE_BODY)
        words = body = belfry_bytes_of(body.data, BELFRY_FAILURE_BODY);
    failure_clear(failure);
    failure->code = status;
    if (belfry_kube_document_read(&body, 1, &document) == BELFRY_OK && is_status(document.root)) {
        read_status(failure, document.root);
        words = text_of(yyjson_obj_get(document.root, "message"));
    }
    if (milliseconds(retry_after) >= 0) /* client-go uses the header */
        failure->retry_after_ms = milliseconds(retry_after);
    failure_judge(failure);
    failure_say(failure, words);
    belfry_kube_document_fini(&document);
}

void belfry_failure_of_status(struct belfry_failure *failure, struct belfry_bytes json)
{
    struct belfry_kube_document document = {0};
    enum belfry_err err = belfry_kube_document_read(&json, 1, &document);
    failure_clear(failure);
    if (err == BELFRY_ERR_NOMEM) {
        belfry_failure_set(failure, err, "%s", belfry_strerror(err));
    } else if (err != BELFRY_OK || !is_status(document.root)) {
        belfry_failure_set(failure, BELFRY_ERR_PROTOCOL, "an ERROR that is not a Status: ");
        struct belfry_sentence why = belfry_sentence_resume(failure->why, BELFRY_FAILURE_WHY);
        belfry_sentence_quote(&why, json);
    } else {
        failure->code = code_in(yyjson_obj_get(document.root, "code"));
        read_status(failure, document.root);
        failure_judge(failure);
        failure_say(failure, text_of(yyjson_obj_get(document.root, "message")));
    }
    belfry_kube_document_fini(&document);
}

void belfry_failure_set(struct belfry_failure *failure, enum belfry_err err, const char *format, ...)
{
    char words[2 * BELFRY_FAILURE_WHY];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof(words), format, args);
    va_end(args);
    failure_clear(failure);
    failure->err = err;
    struct belfry_sentence why = belfry_sentence_begin(failure->why, BELFRY_FAILURE_WHY);
    belfry_sentence_say(&why, words);
}

void belfry_failure_add_first(struct belfry_failure *failure, const char *first, unsigned tries)
{
    char words[BELFRY_FAILURE_WHY + 64];
    if (first[0] == '\0' || strcmp(first, failure->why) == 0)
        return;
    snprintf(words, sizeof(words), "; the first of %u tries failed with: %.*s", tries, BELFRY_FAILURE_WHY - 1, first);
    struct belfry_sentence why = belfry_sentence_resume(failure->why, sizeof(failure->why));
    belfry_sentence_say(&why, words);
}
