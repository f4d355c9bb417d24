/* src/cli/http_reply.c */
#include "cli/http_reply.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

/* What the head says. */
struct head {
    int status;
    size_t end; /* behind its empty line */
    bool chunked;
    bool has_length;
    size_t length;
};

/* The line at `from`: its length, and where the next begins; false: it has not come whole. */
static bool line_at(const char *data, size_t len, size_t from, size_t *line_len, size_t *next)
{
    const char *feed = from < len ? memchr(data + from, '\n', len - from) : NULL;
    if (feed == NULL)
        return false;
    size_t end = (size_t)(feed - data);
    *next = end + 1;
    *line_len = end - from - (end > from && data[end - 1] == '\r');
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool read_status(const char *line, size_t len, int *out)
{
    if (len < 12 || memcmp(line, "HTTP/1.", 7) != 0 || !is_digit(line[7]) || line[8] != ' ')
        return false;
    for (int i = 9; i < 12; i++) {
        if (!is_digit(line[i]))
            return false;
    }
    *out = (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
    return *out >= 100 && (len == 12 || line[12] == ' ');
}

static int digit_of(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 16;
}

/* The digits that text begins with; false: none, or too large a number. */
static bool read_number(const char *text, size_t len, size_t base, size_t *out, size_t *used)
{
    size_t n = 0, i = 0;
    for (; i < len && (size_t)digit_of(text[i]) < base; i++) {
        if (n > (SIZE_MAX >> 8))
            return false;
        n = n * base + (size_t)digit_of(text[i]);
    }
    *out = n;
    *used = i;
    return i > 0;
}

/* The value of a field line if its name is `name`; NULL when it is another. */
static const char *value_of(const char *line, size_t len, const char *name, size_t *value_len)
{
    size_t n = strlen(name);
    if (len <= n || line[n] != ':' || strncasecmp(line, name, n) != 0)
        return NULL;
    size_t from = n + 1;
    while (from < len && (line[from] == ' ' || line[from] == '\t'))
        from++;
    while (len > from && (line[len - 1] == ' ' || line[len - 1] == '\t'))
        len--;
    *value_len = len - from;
    return line + from;
}

static bool read_field(struct head *head, const char *line, size_t len)
{
    size_t n, used, length;
    const char *value = value_of(line, len, "content-length", &n);
    if (value != NULL) {
        if (!read_number(value, n, 10, &length, &used) || used != n || (head->has_length && head->length != length))
            return false;
        head->has_length = true;
        head->length = length;
    }
    value = value_of(line, len, "transfer-encoding", &n);
    if (value != NULL) {
        if (n != strlen("chunked") || strncasecmp(value, "chunked", n) != 0)
            return false;
        head->chunked = true;
    }
    return true;
}

static enum http_reply_state read_head(const char *data, size_t len, size_t from, struct head *out)
{
    size_t n, next;
    *out = (struct head){0};
    if (!line_at(data, len, from, &n, &next))
        return len - from > HTTP_REPLY_HEAD_MAX ? HTTP_REPLY_BAD : HTTP_REPLY_MORE;
    if (!read_status(data + from, n, &out->status))
        return HTTP_REPLY_BAD;
    for (size_t at = next; line_at(data, len, at, &n, &next); at = next) {
        if (n == 0) {
            out->end = next;
            return HTTP_REPLY_DONE;
        }
        if (!read_field(out, data + at, n))
            return HTTP_REPLY_BAD;
    }
    return len - from > HTTP_REPLY_HEAD_MAX ? HTTP_REPLY_BAD : HTTP_REPLY_MORE;
}

/* Goes through the chunks from `from`; with `to` their bytes are moved there. DONE: the last one is there. */
static enum http_reply_state walk_chunks(char *data, size_t len, size_t from, char *to, size_t *total)
{
    *total = 0;
    for (size_t n, next; line_at(data, len, from, &n, &next);) {
        size_t size, used;
        if (!read_number(data + from, n, 16, &size, &used))
            return HTTP_REPLY_BAD;
        if (size == 0)
            return HTTP_REPLY_DONE; /* trailers say nothing that is wanted here */
        if (size > len - next || len - next - size < 2)
            return HTTP_REPLY_MORE;
        if (memcmp(data + next + size, "\r\n", 2) != 0)
            return HTTP_REPLY_BAD;
        if (to != NULL)
            memmove(to + *total, data + next, size);
        *total += size;
        from = next + size + 2;
    }
    return HTTP_REPLY_MORE;
}

static enum http_reply_state read_body(char *data, size_t len, bool ended, const struct head *head,
                                       struct http_reply *out)
{
    size_t have = len - head->end;
    *out = (struct http_reply){.status = head->status, .body = head->end};
    if (head->chunked) {
        enum http_reply_state state = walk_chunks(data, len, head->end, NULL, &out->len);
        return state == HTTP_REPLY_DONE ? walk_chunks(data, len, head->end, data + head->end, &out->len) : state;
    }
    out->len = head->has_length ? head->length : have;
    if (head->has_length)
        return have >= head->length ? HTTP_REPLY_DONE : HTTP_REPLY_MORE;
    return ended ? HTTP_REPLY_DONE : HTTP_REPLY_MORE;
}

enum http_reply_state http_reply_read(char *data, size_t len, bool ended, struct http_reply *out)
{
    struct head head = {0};
    struct http_reply reply;
    enum http_reply_state state = HTTP_REPLY_DONE;
    do
        state = read_head(data, len, head.end, &head);
    while (state == HTTP_REPLY_DONE && head.status < 200);
    if (state == HTTP_REPLY_DONE)
        state = read_body(data, len, ended, &head, &reply);
    if (state == HTTP_REPLY_DONE)
        *out = reply;
    return state == HTTP_REPLY_MORE && ended ? HTTP_REPLY_BAD : state;
}
