/* src/serve/json/gateway.c */
#include "serve/json/gateway.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/owner.h"
#include "net/grpc.h"
#include "net/grpc_frame.h"
#include "net/grpc_reply.h"
#include "net/percent.h"
#include "serve/json/gateway_paths.h"
#include "serve/json/json_pour.h"
#include "serve/json/json_read.h"
#include "serve/json/json_values.h"
#include "json/json.h"

#define H2_INTERNAL    2 /* HTTP/2's code */
#define SCRATCH_KEPT   ((size_t)64 * 1024)
#define MESSAGE_MAX    2048 /* of a grpc-message, encoded; a longer one is cut */
#define FIELDS_MAX     8
#define NO_MEMORY      "belfry: out of memory"
#define BAD_ANSWER     "belfry: upstream's answer is not what its method answers"
#define METADATA_FIELD "grpc-metadata-" /* before a field that is for the method */

struct gateway {
    exchange_begin_fn begin; /* who serves gRPC */
    void *user;
    uv_timer_t timer;          /* runs out at once when `broken` has one */
    struct belfry_list broken; /* of gateway_call.node: their clients are gone, and those who serve them do not know */
    struct belfry_buf scratch; /* of one translation */
    struct gateway_stats stats;
    size_t n_calls;
    BELFRY_OWNER;
};

/* The exchange of its client, that of those who serve gRPC, and the translation between the two. It lives until both
 * have had their last word. When a response cannot go on, those who serve it are told from the loop, as of any client
 * that is gone, and then the client's exchange ends: until then its connection must be there. */
struct gateway_call {
    struct exchange inner;  /* as those who serve gRPC see it */
    struct exchange *outer; /* the client's; NULL: it is gone, or had its last word */
    struct gateway *gateway;
    const struct gateway_path *path;
    struct belfry_list node; /* of gateway.broken */
    unsigned busy;           /* events of `inner` under way: it is not freed before they return */
    bool is_over;            /* `inner` has had its last word */
    bool is_broken;          /* the response cannot go on: both exchanges end from the loop */
    /* the request */
    struct json_values values;
    size_t n_values;
    size_t untaken;       /* bytes given to `inner` that it has not taken */
    size_t outer_untaken; /* bytes of the client's that were not taken */
    bool ended;           /* `inner` was told that the request is complete */
    /* the response */
    bool is_answered; /* its head was sent */
    uint8_t prefix[BELFRY_GRPC_PREFIX_BYTES];
    unsigned n_prefix; /* bytes of a message's prefix that have come */
    bool in_message;   /* a message is under way: */
    struct json_pour pour;
    size_t n_messages;
    struct belfry_buf line; /* the beginning of a line that waits for the rest of it */
    size_t counted;         /* of it, to the client (SHARES_CALL_BYTES) */
    bool is_split;          /* a part of a line was sent: what comes of it is sent at once */
};

static struct gateway_call *gateway_call_of(struct exchange *inner)
{
    return belfry_container(inner, struct gateway_call, inner);
}

/* ---- the end of a call ---- */

static void gateway_call_free(struct gateway_call *call)
{
    assert(call->outer == NULL && call->inner.held == 0);
    belfry_list_remove(&call->node);
    json_values_fini(&call->values);
    json_pour_fini(&call->pour);
    call->gateway->n_calls--;
    free(call);
}

static void gateway_call_free_if_over(struct gateway_call *call)
{
    if (call->is_over && call->busy == 0)
        gateway_call_free(call);
}

static void gateway_call_count_line(struct gateway_call *call)
{
    shares_count(exchange_share(call->outer), SHARES_CALL_BYTES, call->counted, call->line.cap);
    call->counted = call->line.cap;
}

/* Lets go of the client's exchange, for its last word. */
static struct exchange *gateway_call_let_go(struct gateway_call *call)
{
    struct exchange *outer = call->outer;
    belfry_buf_fini(&call->line);
    gateway_call_count_line(call);
    call->outer = NULL;
    return outer;
}

/* `inner` has had its last word. */
static void gateway_call_over(struct gateway_call *call)
{
    exchange_holds(&call->inner, 0);
    call->is_over = true;
    gateway_call_free_if_over(call);
}

/* Tells those who serve it that the client is gone. */
static void gateway_call_gone(struct gateway_call *call)
{
    call->busy++;
    if (!call->is_over) {
        const struct exchange_events *events = call->inner.events;
        call->inner.events = NULL;
        exchange_holds(&call->inner, 0);
        call->is_over = true;
        events->gone(&call->inner, call->inner.user);
    }
    call->busy--;
    gateway_call_free_if_over(call);
}

/* First who serves a call, while the client's connection is certainly there. */
static void gateway_end_broken(struct gateway *gateway)
{
    for (struct belfry_list *node; (node = belfry_list_pop(&gateway->broken)) != NULL;) {
        struct gateway_call *call = belfry_container(node, struct gateway_call, node);
        call->busy++;
        gateway_call_gone(call);
        if (call->outer != NULL)
            exchange_reset(gateway_call_let_go(call), H2_INTERNAL);
        call->busy--;
        gateway_call_free_if_over(call);
    }
}

static void on_gateway_timer(uv_timer_t *timer)
{
    gateway_end_broken(timer->data);
}

/* The response cannot go on. Nobody is told from inside a call. */
static void gateway_call_break(struct gateway_call *call)
{
    struct gateway *gateway = call->gateway;
    call->is_broken = true;
    belfry_list_append(&gateway->broken, &call->node);
    uv_timer_start(&gateway->timer, on_gateway_timer, 0, 0);
}

/* ---- errors ---- */

/* Of HTTP, for a code of gRPC. */
static int gateway_http_status(int code)
{
    static const int statuses[] = {[BELFRY_GRPC_OK] = 200,
                                   [BELFRY_GRPC_CANCELLED] = 499,
                                   [BELFRY_GRPC_UNKNOWN] = 500,
                                   [BELFRY_GRPC_INVALID_ARGUMENT] = 400,
                                   [BELFRY_GRPC_DEADLINE_EXCEEDED] = 504,
                                   [BELFRY_GRPC_NOT_FOUND] = 404,
                                   [BELFRY_GRPC_ALREADY_EXISTS] = 409,
                                   [BELFRY_GRPC_PERMISSION_DENIED] = 403,
                                   [BELFRY_GRPC_RESOURCE_EXHAUSTED] = 429,
                                   [BELFRY_GRPC_FAILED_PRECONDITION] = 400,
                                   [BELFRY_GRPC_ABORTED] = 409,
                                   [BELFRY_GRPC_OUT_OF_RANGE] = 400,
                                   [BELFRY_GRPC_UNIMPLEMENTED] = 501,
                                   [BELFRY_GRPC_INTERNAL] = 500,
                                   [BELFRY_GRPC_UNAVAILABLE] = 503,
                                   [BELFRY_GRPC_DATA_LOSS] = 500,
                                   [BELFRY_GRPC_UNAUTHENTICATED] = 401};
    return code >= 0 && code < (int)(sizeof(statuses) / sizeof(statuses[0])) ? statuses[code] : 500;
}

static const char *http_status_text(int status)
{
    switch (status) {
    case 400:
        return "Bad Request";
    case 401:
        return "Unauthorized";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 409:
        return "Conflict";
    case 429:
        return "Too Many Requests";
    case 501:
        return "Not Implemented";
    case 503:
        return "Service Unavailable";
    case 504:
        return "Gateway Timeout";
    default:
        return "Internal Server Error";
    }
}

/* Appends an error: as a line of a response that goes on, or as all of one that does not. Builds of etcd have two forms
 * of it; this is both. Errors: BELFRY_ERR_NOMEM. */
static enum belfry_err gateway_write_error(struct belfry_buf *out, bool is_line, int code, const char *message)
{
    struct belfry_json json = belfry_json_begin(out);
    belfry_json_open(&json, NULL, '{');
    if (is_line)
        belfry_json_open(&json, "error", '{');
    else
        belfry_json_str(&json, "error", message);
    belfry_json_str(&json, "message", message);
    belfry_json_int(&json, "code", code);
    belfry_json_int(&json, "grpc_code", code);
    if (is_line) {
        belfry_json_int(&json, "http_code", gateway_http_status(code));
        belfry_json_str(&json, "http_status", http_status_text(gateway_http_status(code)));
        belfry_json_close(&json, '}');
    }
    belfry_json_close(&json, '}');
    enum belfry_err err = belfry_json_finish(&json);
    return err == BELFRY_OK && is_line ? belfry_buf_append(out, "\n", 1) : err;
}

static const struct belfry_http_field json_type = {{"content-type", 12}, {"application/json", 16}};

static void gateway_answer(struct exchange *x, int status, struct belfry_bytes body)
{
    exchange_answer(x, status, &json_type, body.len > 0, body);
}

/* A whole response that is an error. */
static void gateway_answer_error(struct gateway *gateway, struct exchange *x, bool is_line, int status, int code,
                                 const char *message)
{
    struct belfry_buf *out = &gateway->scratch;
    belfry_buf_clear(out);
    if (gateway_write_error(out, is_line, code, message) != BELFRY_OK)
        belfry_buf_clear(out);
    gateway_answer(x, status, belfry_buf_bytes(out));
}

/* The last line of a response. */
static void gateway_end_with_error(struct gateway *gateway, struct exchange *x, int code, const char *message)
{
    struct belfry_buf *out = &gateway->scratch;
    belfry_buf_clear(out);
    if (gateway_write_error(out, true, code, message) == BELFRY_OK)
        exchange_write(x, out->data + out->start, belfry_buf_len(out));
    exchange_end(x, NULL, 0);
}

/* ---- the response: what those who serve it say ---- */

/* Its last word is this status. */
static void gateway_call_finish(struct gateway_call *call, int code, const char *message)
{
    struct gateway *gateway = call->gateway;
    bool is_line = call->path->answers_often;
    if (call->outer == NULL || call->is_broken) {
        if (call->outer != NULL)
            exchange_reset(gateway_call_let_go(call), H2_INTERNAL);
        gateway_call_over(call);
        return;
    }
    bool is_cut = call->in_message || call->n_prefix > 0;
    if (code == BELFRY_GRPC_OK && (is_cut || (!is_line && call->n_messages != 1))) {
        code = BELFRY_GRPC_INTERNAL;
        message = BAD_ANSWER;
    }
    struct exchange *outer = gateway_call_let_go(call);
    if (!call->is_answered && code != BELFRY_GRPC_OK) {
        gateway_answer_error(gateway, outer, is_line, gateway_http_status(code), code, message);
    } else if (!call->is_answered) {
        gateway_answer(outer, 200, (struct belfry_bytes){0});
    } else if (code == BELFRY_GRPC_OK) {
        exchange_end(outer, NULL, 0);
    } else if (is_line && !is_cut) {
        gateway_end_with_error(gateway, outer, code, message);
    } else {
        exchange_reset(outer, H2_INTERNAL);
    }
    gateway_call_over(call);
}

/* The status that gRPC's fields tell. */
static void gateway_call_finish_by(struct gateway_call *call, int http_status, const struct belfry_http_field *fields,
                                   size_t n)
{
    char message[MESSAGE_MAX + 1] = "";
    int code = http_status == 200 ? BELFRY_GRPC_UNKNOWN : BELFRY_GRPC_UNAVAILABLE;
    for (size_t i = 0; i < n; i++) {
        struct belfry_bytes value = fields[i].value;
        if (belfry_bytes_equal(fields[i].name, belfry_bytes_str("grpc-status"))) {
            code = 0;
            for (size_t k = 0; k < value.len && k < 3; k++)
                code = code * 10 + (value.data[k] - '0');
        } else if (belfry_bytes_equal(fields[i].name, belfry_bytes_str("grpc-message"))) {
            belfry_percent_decode(belfry_bytes_of(value.data, value.len < MESSAGE_MAX ? value.len : MESSAGE_MAX),
                                  message);
        }
    }
    if (http_status == 400) /* a field of the request's head: 13 of gRPC's servers, 3 of etcd's gateway */
        code = BELFRY_GRPC_INVALID_ARGUMENT;
    gateway_call_finish(call, code, message);
}

static void inner_respond(struct exchange *x, int status, const struct belfry_http_field *fields, size_t n)
{
    (void)x, (void)status, (void)fields, (void)n; /* a response that is none of gRPC's has no status at its end */
}

/* JSON is larger than protobuf; twice as large, where most is bytes. */
static size_t inner_room(struct exchange *x)
{
    struct gateway_call *call = gateway_call_of(x);
    size_t room = call->outer == NULL || call->is_broken ? 0 : exchange_room(call->outer);
    if (room < EXCHANGE_ROOM_LOW)
        return room / 2;
    return room / 2 > EXCHANGE_ROOM_LOW ? room / 2 : EXCHANGE_ROOM_LOW;
}

/* What is JSON of the bytes of gRPC's messages, however they are cut. Errors: BELFRY_ERR_PROTOCOL, BELFRY_ERR_NOMEM. */
static enum belfry_err gateway_call_translate(struct gateway_call *call, struct belfry_bytes bytes,
                                              struct belfry_buf *out)
{
    bool is_line = call->path->answers_often;
    enum belfry_err err = BELFRY_OK;
    while (err == BELFRY_OK && (bytes.len > 0 || (call->in_message && json_pour_is_done(&call->pour)))) {
        size_t n = 0;
        if (!call->in_message) {
            /* the prefix of a message */
            uint8_t *prefix = call->prefix;
            prefix[call->n_prefix++] = (uint8_t)bytes.data[0];
            n = 1;
            if (call->n_prefix == BELFRY_GRPC_PREFIX_BYTES) {
                call->n_prefix = 0;
                if (prefix[0] != 0 || (call->n_messages > 0 && !is_line))
                    return BELFRY_ERR_PROTOCOL;
                uint64_t len =
                    (uint64_t)prefix[1] << 24 | (uint64_t)prefix[2] << 16 | (uint64_t)prefix[3] << 8 | prefix[4];
                call->in_message = true;
                if (is_line)
                    err = belfry_buf_append(out, "{\"result\":", 10);
                if (err == BELFRY_OK)
                    err = json_pour_begin(&call->pour, call->path->response, len, out);
            }
        } else if (json_pour_is_done(&call->pour)) {
            /* its end */
            call->in_message = false;
            call->n_messages++;
            if (is_line)
                err = belfry_buf_append(out, "}\n", 2);
        } else {
            uint64_t left = json_pour_left(&call->pour);
            n = bytes.len < left ? bytes.len : (size_t)left;
            err = json_pour_pass(&call->pour, belfry_bytes_of(bytes.data, n), out);
        }
        bytes = belfry_bytes_of(bytes.data + n, bytes.len - n);
    }
    return err;
}

/* Sends a part of a line, or keeps it until the rest has come. */
static enum belfry_err gateway_call_write_part(struct gateway_call *call, struct belfry_bytes part, bool is_end)
{
    struct belfry_buf *line = &call->line;
    bool is_kept = !is_end && !call->is_split && belfry_buf_len(line) + part.len <= GATEWAY_LINE_BYTES &&
                   shares_has(exchange_share(call->outer), SHARES_CALL_BYTES, part.len);
    if (is_kept || belfry_buf_len(line) > 0) {
        enum belfry_err err = belfry_buf_append(line, part.data, part.len);
        gateway_call_count_line(call);
        if (err != BELFRY_OK || is_kept)
            return err;
        part = belfry_buf_bytes(line);
    }
    exchange_write(call->outer, part.data, part.len);
    belfry_buf_fini(line);
    gateway_call_count_line(call);
    call->is_split = !is_end;
    return BELFRY_OK;
}

static void inner_write(struct exchange *x, const void *data, size_t len)
{
    struct gateway_call *call = gateway_call_of(x);
    struct belfry_buf *out = &call->gateway->scratch;
    if (call->outer == NULL || call->is_broken)
        return;
    belfry_buf_clear(out);
    enum belfry_err err = gateway_call_translate(call, belfry_bytes_of(data, len), out);
    if (err != BELFRY_OK) {
        gateway_call_break(call);
        return;
    }

    /* the head, before the first bytes */
    struct belfry_bytes bytes = belfry_buf_bytes(out);
    if (bytes.len > 0 && !call->is_answered) {
        exchange_respond(call->outer, 200, &json_type, 1);
        if (call->path->answers_often)
            exchange_lasts(call->outer);
        call->is_answered = true;
    }

    /* one write for each line: over HTTP/1.1 it is a chunk, and some clients (etcd3gw) take a chunk for a line */
    while (call->path->answers_often && err == BELFRY_OK && bytes.len > 0) {
        const char *end = memchr(bytes.data, '\n', bytes.len); /* in a string it is escaped */
        size_t n = end != NULL ? (size_t)(end - bytes.data) + 1 : bytes.len;
        err = gateway_call_write_part(call, belfry_bytes_of(bytes.data, n), end != NULL);
        bytes = belfry_bytes_of(bytes.data + n, bytes.len - n);
    }
    if (err != BELFRY_OK)
        gateway_call_break(call);
    else if (bytes.len > 0)
        exchange_write(call->outer, bytes.data, bytes.len);
    if (out->cap > SCRATCH_KEPT)
        belfry_buf_fini(out);
}

static void inner_end(struct exchange *x, const struct belfry_http_field *trailers, size_t n)
{
    gateway_call_finish_by(gateway_call_of(x), 200, trailers, n);
}

static void inner_answer(struct exchange *x, int status, const struct belfry_http_field *fields, size_t n,
                         struct belfry_bytes body)
{
    (void)body; /* of gRPC's answers only a status comes whole */
    gateway_call_finish_by(gateway_call_of(x), status, fields, n);
}

static void inner_reset(struct exchange *x, uint32_t h2_code)
{
    struct gateway_call *call = gateway_call_of(x);
    if (call->outer != NULL && !call->is_answered)
        gateway_call_finish(call, belfry_grpc_code_of_h2(h2_code), "belfry: the call was ended");
    else {
        if (call->outer != NULL)
            exchange_reset(gateway_call_let_go(call), h2_code);
        gateway_call_over(call);
    }
}

/* ---- the request ---- */

/* What those who serve it have taken, the client may send again. */
static void gateway_call_take_outer(struct gateway_call *call)
{
    size_t n = call->outer_untaken;
    if (call->outer == NULL || call->untaken > 0 || n == 0)
        return;
    call->outer_untaken = 0;
    exchange_taken(call->outer, n);
}

static void inner_taken(struct exchange *x, size_t n)
{
    struct gateway_call *call = gateway_call_of(x);
    assert(n <= call->untaken);
    call->untaken -= n;
    gateway_call_take_outer(call);
}

static const struct exchange_ops inner_ops = {.taken = inner_taken,
                                              .respond = inner_respond,
                                              .room = inner_room,
                                              .write = inner_write,
                                              .end = inner_end,
                                              .answer = inner_answer,
                                              .reset = inner_reset};

/* What is wrong with the request is told the client, and those who serve it that the client is gone. */
static void gateway_call_refuse(struct gateway_call *call, int code, const char *message)
{
    struct gateway *gateway = call->gateway;
    bool is_line = call->path->answers_often;
    if (call->is_broken)
        return;
    gateway->stats.refused++;
    struct exchange *outer = gateway_call_let_go(call);
    if (!call->is_answered)
        gateway_answer_error(gateway, outer, is_line, gateway_http_status(code), code, message);
    else if (call->is_split) /* a line was begun */
        exchange_reset(outer, H2_INTERNAL);
    else
        gateway_end_with_error(gateway, outer, code, message);
    gateway_call_gone(call);
}

static void gateway_call_give_message(struct gateway_call *call, struct belfry_bytes message)
{
    uint8_t prefix[BELFRY_GRPC_PREFIX_BYTES];
    struct exchange *inner = &call->inner;
    belfry_grpc_frame_prefix(prefix, message.len);
    call->untaken += sizeof(prefix) + message.len;
    call->n_values++;
    inner->events->body(inner, belfry_bytes_of(prefix, sizeof(prefix)), inner->user);
    if (!call->is_over && message.len > 0)
        inner->events->body(inner, message, inner->user);
}

/* False: it was refused. */
static bool gateway_call_give_value(struct gateway_call *call, struct belfry_bytes value)
{
    char why[JSON_READ_WHY];
    struct belfry_buf message;
    belfry_buf_init(&message);
    enum belfry_err err = json_read(call->path->request, value, &message, why);
    json_values_take(&call->values);
    if (err == BELFRY_OK)
        gateway_call_give_message(call, belfry_buf_bytes(&message));
    belfry_buf_fini(&message);
    if (err == BELFRY_OK)
        return true;
    gateway_call_refuse(call, err == BELFRY_ERR_NOMEM ? BELFRY_GRPC_RESOURCE_EXHAUSTED : BELFRY_GRPC_INVALID_ARGUMENT,
                        err == BELFRY_ERR_NOMEM ? NO_MEMORY : why);
    return false;
}

/* Does the method take no more? What follows its one request is not looked at, as in etcd. */
static bool gateway_call_has_all(const struct gateway_call *call)
{
    return !call->path->asks_often && call->n_values > 0;
}

/* Passes on what has come of the request. The call may be over when this returns. */
static void gateway_call_give_values(struct gateway_call *call)
{
    struct belfry_bytes value;
    while (!call->is_over && !gateway_call_has_all(call) && json_values_first(&call->values, &value))
        if (!gateway_call_give_value(call, value))
            return;
    if (!call->is_over && !call->path->asks_often && call->values.ended && call->n_values == 0)
        gateway_call_give_message(call, (struct belfry_bytes){0}); /* of nothing: an empty request */
    if (!call->is_over && !call->ended && (gateway_call_has_all(call) || call->values.ended)) {
        call->ended = true;
        call->inner.events->body_end(&call->inner, call->inner.user);
    }
    if (!call->is_over && belfry_buf_len(&call->values.bytes) > GATEWAY_VALUE_BYTES && !gateway_call_has_all(call))
        gateway_call_refuse(call, BELFRY_GRPC_RESOURCE_EXHAUSTED, "belfry: a request is larger than etcd's largest");
}

/* With the call kept until all is done. */
static void gateway_call_go_on(struct gateway_call *call)
{
    call->busy++;
    gateway_call_give_values(call);
    if (call->outer != NULL) {
        bool is_whole = call->ended || (call->path->asks_often && belfry_buf_len(&call->values.bytes) == 0);
        exchange_holds(call->outer, is_whole ? 0 : EXCHANGE_COST + call->values.bytes.cap);
        gateway_call_take_outer(call);
    }
    call->busy--;
    gateway_call_free_if_over(call);
}

static void on_outer_body(struct exchange *x, struct belfry_bytes bytes, void *user)
{
    struct gateway_call *call = user;
    (void)x;
    if (call->is_broken)
        return;
    call->outer_untaken += bytes.len;
    if (!gateway_call_has_all(call) && json_values_add(&call->values, bytes) != BELFRY_OK) {
        gateway_call_refuse(call, BELFRY_GRPC_RESOURCE_EXHAUSTED, NO_MEMORY);
        return;
    }
    gateway_call_go_on(call);
}

static void on_outer_body_end(struct exchange *x, void *user)
{
    struct gateway_call *call = user;
    (void)x;
    json_values_end(&call->values);
    if (!call->is_broken)
        gateway_call_go_on(call);
}

static void on_outer_writable(struct exchange *x, void *user)
{
    struct gateway_call *call = user;
    (void)x;
    call->busy++;
    if (!call->is_over && !call->is_broken)
        call->inner.events->writable(&call->inner, call->inner.user);
    call->busy--;
    gateway_call_free_if_over(call);
}

static void on_outer_gone(struct exchange *x, void *user)
{
    struct gateway_call *call = user;
    (void)x;
    (void)gateway_call_let_go(call);
    gateway_call_gone(call);
}

static const struct exchange_events outer_events = {
    .body = on_outer_body, .body_end = on_outer_body_end, .writable = on_outer_writable, .gone = on_outer_gone};

/* ---- beginning ---- */

/* The name under which a field is for the method; empty: it is not. */
static struct belfry_bytes name_for_method(struct belfry_bytes name)
{
    static const char *const passed[] = {"authorization", "grpc-timeout", "user-agent"};
    struct belfry_bytes prefix = belfry_bytes_str(METADATA_FIELD);
    for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
        if (belfry_bytes_equal(name, belfry_bytes_str(passed[i])))
            return name;
    struct belfry_bytes rest = belfry_bytes_begins(name, prefix)
                                   ? belfry_bytes_of(name.data + prefix.len, name.len - prefix.len)
                                   : (struct belfry_bytes){0};
    bool is_known =
        belfry_bytes_equal(rest, belfry_bytes_str("hasleader")) || belfry_bytes_equal(rest, belfry_bytes_str("token"));
    return is_known ? rest : (struct belfry_bytes){0};
}

static size_t fields_for_method(const struct exchange_head *head, struct belfry_http_field out[FIELDS_MAX])
{
    size_t n = 0;
    out[n++] = (struct belfry_http_field){belfry_bytes_str("content-type"), belfry_bytes_str("application/grpc")};
    out[n++] = (struct belfry_http_field){belfry_bytes_str("te"), belfry_bytes_str("trailers")};
    for (size_t i = 0; i < head->n_fields && n < FIELDS_MAX; i++) {
        struct belfry_bytes name = name_for_method(head->fields[i].name);
        if (name.len > 0)
            out[n++] = (struct belfry_http_field){name, head->fields[i].value};
    }
    return n;
}

bool gateway_is(struct belfry_bytes path)
{
    const struct gateway_path *found;
    return gateway_paths_is(path, &found);
}

void gateway_begin(struct gateway *gateway, struct exchange *x, const struct exchange_head *head)
{
    BELFRY_OWNER_CHECK(gateway);
    const struct gateway_path *path;
    struct belfry_bytes query;
    (void)gateway_paths_is(exchange_path(head, &query), &path);
    if (path == NULL) {
        gateway_answer_error(gateway, x, false, 404, BELFRY_GRPC_NOT_FOUND, "Not Found");
        return;
    }
    if (!belfry_bytes_equal(head->method, belfry_bytes_str("POST"))) {
        gateway_answer_error(gateway, x, false, 501, BELFRY_GRPC_UNIMPLEMENTED, "Method Not Allowed");
        return;
    }
    struct gateway_call *call = calloc(1, sizeof(*call));
    if (call == NULL) {
        gateway_answer_error(gateway, x, path->answers_often, 429, BELFRY_GRPC_RESOURCE_EXHAUSTED, NO_MEMORY);
        return;
    }
    call->inner = (struct exchange){.ops = &inner_ops, .conn = x->conn};
    call->outer = x;
    call->gateway = gateway;
    call->path = path;
    belfry_list_init(&call->node);
    json_values_init(&call->values);
    json_pour_init(&call->pour);
    belfry_buf_init(&call->line);
    gateway->n_calls++;
    gateway->stats.calls++;

    /* those who serve gRPC may end it from inside this */
    struct belfry_http_field fields[FIELDS_MAX];
    struct exchange_head inner = {.method = belfry_bytes_str("POST"),
                                  .scheme = head->scheme,
                                  .path = belfry_bytes_str(path->method),
                                  .authority = head->authority,
                                  .fields = fields,
                                  .n_fields = fields_for_method(head, fields)};
    exchange_handle(x, &outer_events, call);
    call->busy++;
    gateway->begin(&call->inner, &inner, gateway->user);
    call->busy--;
    gateway_call_free_if_over(call);
}

/* ---- the whole ---- */

enum belfry_err gateway_create(uv_loop_t *loop, struct gateway **out)
{
    struct gateway *gateway = calloc(1, sizeof(*gateway));
    if (gateway == NULL)
        return BELFRY_ERR_NOMEM;
    belfry_list_init(&gateway->broken);
    belfry_buf_init(&gateway->scratch);
    uv_timer_init(loop, &gateway->timer);
    gateway->timer.data = gateway;
    BELFRY_OWNER_INIT(gateway);
    *out = gateway;
    return BELFRY_OK;
}

void gateway_set_methods(struct gateway *gateway, exchange_begin_fn begin, void *user)
{
    BELFRY_OWNER_CHECK(gateway);
    gateway->begin = begin;
    gateway->user = user;
}

static void on_gateway_timer_closed(uv_handle_t *timer)
{
    struct gateway *gateway = timer->data;
    belfry_buf_fini(&gateway->scratch);
    free(gateway);
}

void gateway_destroy(struct gateway *gateway)
{
    if (gateway == NULL)
        return;
    BELFRY_OWNER_CHECK(gateway);
    gateway_end_broken(gateway);
    assert(gateway->n_calls == 0);
    uv_close((uv_handle_t *)&gateway->timer, on_gateway_timer_closed);
}

void gateway_stats(const struct gateway *gateway, struct gateway_stats *out)
{
    *out = gateway->stats;
}
