/* src/cli/http_reply.h
 *
 * http_reply: reads one HTTP/1.x response that lies in memory, as far as it has come: its status and its body, by
 * content-length, chunked, or up to the end of the connection.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_CLI_HTTP_REPLY_H
#define BELFRY_CLI_HTTP_REPLY_H

#include <stdbool.h>
#include <stddef.h>

#define HTTP_REPLY_HEAD_MAX (64 * 1024)

enum http_reply_state { HTTP_REPLY_MORE, HTTP_REPLY_DONE, HTTP_REPLY_BAD };

struct http_reply {
    int status;
    size_t body, len; /* where the body is; a chunked one has been moved together */
};

/* `ended`: no more will come. Interim (1xx) responses are passed over. When it is HTTP_REPLY_DONE the bytes of a chunked
 * body have been moved within `data`, and *out is set. */
enum http_reply_state http_reply_read(char *data, size_t len, bool ended, struct http_reply *out);

#endif
