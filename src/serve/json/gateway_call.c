/* src/serve/json/gateway_call.c */
#include "serve/json/gateway_call.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "net/grpc.h"
#include "net/grpc_frame.h"
#include "net/grpc_reply.h"
#include "net/percent.h"
#include "serve/json/gateway_error.h"
#include "serve/json/json_pour.h"
#include "serve/json/json_read.h"
#include "serve/json/json_values.h"

#define H2_INTERNAL    2 /* HTTP/2's code */
#define SCRATCH_KEPT   ((size_t)64 * 1024)
#define MESSAGE_MAX    2048 /* of a grpc-message, encoded; a longer one is cut */
#define FIELDS_MAX     8
#define NO_MEMORY      "belfry: out of memory"
#define BAD_ANSWER     "belfry: upstream's answer is not what its method answers"
#define METADATA_FIELD "grpc-metadata-" /* before a field that is for the method */

struct gateway_call {
    struct exchange inner;  /* as those who serve gRPC see it */
    struct exchange *outer; /* the client's; NULL: it is gone, or had its last word */
    struct gateway_calls *calls;
    const struct gateway_path *path;
    struct belfry_list node; /* of gateway_calls.broken */
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

static struct gateway_call *call_of(struct exchange *inner)
{
    return belfry_container(inner, struct gateway_call, inner);
}

/* ---- the end of a call ---- */

static void call_free(struct gateway_call *call)
{
    assert(call->outer == NULL && call->inner.held == 0);
    belfry_list_remove(&call->node);
    json_values_fini(&call->values);
    json_pour_fini(&call->pour);
    call->calls->n--;
    free(call);
}

static void call_free_if_over(struct gateway_call *call)
{
    if (call->is_over && call->busy == 0)
        call_free(call);
}

static void count_line(struct gateway_call *call)
{
    shares_count(exchange_share(call->outer), SHARES_CALL_BYTES, call->counted, call->line.cap);
    call->counted = call->line.cap;
}

/* Lets go of the client's exchange, for its last word. */
static struct exchange *call_let_go(struct gateway_call *call)
{
    struct exchange *outer = call->outer;
    belfry_buf_fini(&call->line);
    count_line(call);
    call->outer = NULL;
    return outer;
}

/* `inner` has had its last word. */
static void call_over(struct gateway_call *call)
{
    exchange_holds(&call->inner, 0);
    call->is_over = true;
    call_free_if_over(call);
}

/* Tells those who serve it that the client is gone. */
static void call_gone(struct gateway_call *call)
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
    call_free_if_over(call);
}

/* First who serves it, while the client's connection is certainly there. */
static void call_end_broken(struct gateway_call *call)
{
    call->busy++;
    call_gone(call);
    if (call->outer != NULL)
        exchange_reset(call_let_go(call), H2_INTERNAL);
    call->busy--;
    call_free_if_over(call);
}

void gateway_calls_end_broken(struct gateway_calls *calls)
{
    for (struct belfry_list *node; (node = belfry_list_pop(&calls->broken)) != NULL;)
        call_end_broken(belfry_container(node, struct gateway_call, node));
}

static void on_timer(uv_timer_t *timer)
{
    gateway_calls_end_broken(timer->data);
}

/* The response cannot go on. Nobody is told from inside a call. */
static void call_break(struct gateway_call *call)
{
    struct gateway_calls *calls = call->calls;
    call->is_broken = true;
    belfry_list_append(&calls->broken, &call->node);
    uv_timer_start(&calls->timer, on_timer, 0, 0);
}

/* ---- errors ---- */

static void answer(struct exchange *x, int status, struct belfry_bytes body)
{
    const struct belfry_http_field type = {belfry_bytes_str("content-type"), belfry_bytes_str("application/json")};
    exchange_answer(x, status, &type, body.len > 0, body);
}

/* A whole response that is an error. */
void gateway_call_answer_error(struct gateway_calls *calls, struct exchange *x, bool is_line, int status, int code,
                               const char *message)
{
    struct belfry_buf *out = &calls->scratch;
    belfry_buf_clear(out);
    if (gateway_error_write(out, is_line, code, message) != BELFRY_OK)
        belfry_buf_clear(out);
    answer(x, status, belfry_buf_bytes(out));
}

/* The last line of a response. */
static void end_with_error(struct gateway_calls *calls, struct exchange *x, int code, const char *message)
{
    struct belfry_buf *out = &calls->scratch;
    belfry_buf_clear(out);
    if (gateway_error_write(out, true, code, message) == BELFRY_OK)
        exchange_write(x, out->data + out->start, belfry_buf_len(out));
    exchange_end(x, NULL, 0);
}

/* ---- the response: what those who serve it say ---- */

static void respond(struct gateway_call *call)
{
    const struct belfry_http_field type = {belfry_bytes_str("content-type"), belfry_bytes_str("application/json")};
    if (call->is_answered)
        return;
    exchange_respond(call->outer, 200, &type, 1);
    if (call->path->answers_often)
        exchange_lasts(call->outer);
    call->is_answered = true;
}

/* Its last word is this status. */
static void call_finish(struct gateway_call *call, int code, const char *message)
{
    struct gateway_calls *calls = call->calls;
    bool is_line = call->path->answers_often;
    if (call->outer == NULL || call->is_broken) {
        if (call->outer != NULL)
            exchange_reset(call_let_go(call), H2_INTERNAL);
        call_over(call);
        return;
    }
    bool is_cut = call->in_message || call->n_prefix > 0;
    if (code == BELFRY_GRPC_OK && (is_cut || (!is_line && call->n_messages != 1))) {
        code = BELFRY_GRPC_INTERNAL;
        message = BAD_ANSWER;
    }
    struct exchange *outer = call_let_go(call);
    if (!call->is_answered && code != BELFRY_GRPC_OK) {
        gateway_call_answer_error(calls, outer, is_line, gateway_error_status(code), code, message);
    } else if (!call->is_answered) {
        answer(outer, 200, (struct belfry_bytes){0});
    } else if (code == BELFRY_GRPC_OK) {
        exchange_end(outer, NULL, 0);
    } else if (is_line && !is_cut) {
        end_with_error(calls, outer, code, message);
    } else {
        exchange_reset(outer, H2_INTERNAL);
    }
    call_over(call);
}

/* The status that gRPC's fields tell. */
static void call_finish_by(struct gateway_call *call, int http_status, const struct belfry_http_field *fields, size_t n)
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
    call_finish(call, code, message);
}

static void inner_respond(struct exchange *x, int status, const struct belfry_http_field *fields, size_t n)
{
    (void)x, (void)status, (void)fields, (void)n; /* a response that is none of gRPC's has no status at its end */
}

/* JSON is larger than protobuf; twice as large, where most is bytes. */
static size_t inner_room(struct exchange *x)
{
    struct gateway_call *call = call_of(x);
    size_t room = call->outer == NULL || call->is_broken ? 0 : exchange_room(call->outer);
    if (room < EXCHANGE_ROOM_LOW)
        return room / 2;
    return room / 2 > EXCHANGE_ROOM_LOW ? room / 2 : EXCHANGE_ROOM_LOW;
}

/* A message begins, or the bytes of its prefix. */
static enum belfry_err pass_prefix(struct gateway_call *call, uint8_t byte, struct belfry_buf *out)
{
    const uint8_t *prefix = call->prefix;
    call->prefix[call->n_prefix++] = byte;
    if (call->n_prefix < BELFRY_GRPC_PREFIX_BYTES)
        return BELFRY_OK;
    call->n_prefix = 0;
    if (prefix[0] != 0 || (call->n_messages > 0 && !call->path->answers_often))
        return BELFRY_ERR_PROTOCOL;
    uint64_t len = (uint64_t)prefix[1] << 24 | (uint64_t)prefix[2] << 16 | (uint64_t)prefix[3] << 8 | prefix[4];
    enum belfry_err err = call->path->answers_often ? belfry_buf_append(out, "{\"result\":", 10) : BELFRY_OK;
    call->in_message = true;
    return err == BELFRY_OK ? json_pour_begin(&call->pour, call->path->response, len, out) : err;
}

/* A message is complete. */
static enum belfry_err end_message(struct gateway_call *call, struct belfry_buf *out)
{
    call->in_message = false;
    call->n_messages++;
    return call->path->answers_often ? belfry_buf_append(out, "}\n", 2) : BELFRY_OK;
}

static enum belfry_err translate(struct gateway_call *call, struct belfry_bytes bytes, struct belfry_buf *out)
{
    enum belfry_err err = BELFRY_OK;
    while (err == BELFRY_OK && (bytes.len > 0 || (call->in_message && json_pour_is_done(&call->pour)))) {
        size_t n = 0;
        if (!call->in_message) {
            err = pass_prefix(call, (uint8_t)bytes.data[0], out);
            n = 1;
        } else if (json_pour_is_done(&call->pour)) {
            err = end_message(call, out);
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
static enum belfry_err write_part(struct gateway_call *call, struct belfry_bytes part, bool is_end)
{
    struct belfry_buf *line = &call->line;
    bool is_kept = !is_end && !call->is_split && belfry_buf_len(line) + part.len <= GATEWAY_LINE_BYTES &&
                   shares_has(exchange_share(call->outer), SHARES_CALL_BYTES, part.len);
    if (is_kept || belfry_buf_len(line) > 0) {
        enum belfry_err err = belfry_buf_append(line, part.data, part.len);
        count_line(call);
        if (err != BELFRY_OK || is_kept)
            return err;
        part = belfry_buf_bytes(line);
    }
    exchange_write(call->outer, part.data, part.len);
    belfry_buf_fini(line);
    count_line(call);
    call->is_split = !is_end;
    return BELFRY_OK;
}

/* One write for each line: over HTTP/1.1 it is a chunk, and some clients (etcd3gw) take a chunk for a line. */
static enum belfry_err write_lines(struct gateway_call *call, struct belfry_bytes bytes)
{
    enum belfry_err err = BELFRY_OK;
    while (err == BELFRY_OK && bytes.len > 0) {
        const char *end = memchr(bytes.data, '\n', bytes.len); /* in a string it is escaped */
        size_t n = end != NULL ? (size_t)(end - bytes.data) + 1 : bytes.len;
        err = write_part(call, belfry_bytes_of(bytes.data, n), end != NULL);
        bytes = belfry_bytes_of(bytes.data + n, bytes.len - n);
    }
    return err;
}

static enum belfry_err write_body(struct gateway_call *call, struct belfry_bytes bytes)
{
    if (call->path->answers_often)
        return write_lines(call, bytes);
    exchange_write(call->outer, bytes.data, bytes.len);
    return BELFRY_OK;
}

static void inner_write(struct exchange *x, const void *data, size_t len)
{
    struct gateway_call *call = call_of(x);
    struct belfry_buf *out = &call->calls->scratch;
    if (call->outer == NULL || call->is_broken)
        return;
    belfry_buf_clear(out);
    if (translate(call, belfry_bytes_of(data, len), out) != BELFRY_OK) {
        call_break(call);
        return;
    }
    if (belfry_buf_len(out) > 0) {
        respond(call);
        if (write_body(call, belfry_buf_bytes(out)) != BELFRY_OK)
            call_break(call);
    }
    if (out->cap > SCRATCH_KEPT)
        belfry_buf_fini(out);
}

static void inner_end(struct exchange *x, const struct belfry_http_field *trailers, size_t n)
{
    call_finish_by(call_of(x), 200, trailers, n);
}

static void inner_answer(struct exchange *x, int status, const struct belfry_http_field *fields, size_t n,
                         struct belfry_bytes body)
{
    (void)body; /* of gRPC's answers only a status comes whole */
    call_finish_by(call_of(x), status, fields, n);
}

static void inner_reset(struct exchange *x, uint32_t h2_code)
{
    struct gateway_call *call = call_of(x);
    if (call->outer != NULL && !call->is_answered)
        call_finish(call, belfry_grpc_code_of_h2(h2_code), "belfry: the call was ended");
    else {
        if (call->outer != NULL)
            exchange_reset(call_let_go(call), h2_code);
        call_over(call);
    }
}

/* ---- the request ---- */

/* What those who serve it have taken, the client may send again. */
static void take_outer(struct gateway_call *call)
{
    size_t n = call->outer_untaken;
    if (call->outer == NULL || call->untaken > 0 || n == 0)
        return;
    call->outer_untaken = 0;
    exchange_taken(call->outer, n);
}

static void inner_taken(struct exchange *x, size_t n)
{
    struct gateway_call *call = call_of(x);
    assert(n <= call->untaken);
    call->untaken -= n;
    take_outer(call);
}

static const struct exchange_ops inner_ops = {.taken = inner_taken,
                                              .respond = inner_respond,
                                              .room = inner_room,
                                              .write = inner_write,
                                              .end = inner_end,
                                              .answer = inner_answer,
                                              .reset = inner_reset};

/* What is wrong with the request is told the client, and those who serve it that the client is gone. */
static void call_refuse(struct gateway_call *call, int code, const char *message)
{
    struct gateway_calls *calls = call->calls;
    bool is_line = call->path->answers_often;
    if (call->is_broken)
        return;
    calls->stats.refused++;
    struct exchange *outer = call_let_go(call);
    if (!call->is_answered)
        gateway_call_answer_error(calls, outer, is_line, gateway_error_status(code), code, message);
    else if (call->is_split) /* a line was begun */
        exchange_reset(outer, H2_INTERNAL);
    else
        end_with_error(calls, outer, code, message);
    call_gone(call);
}

static void give_message(struct gateway_call *call, struct belfry_bytes message)
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
static bool give_value(struct gateway_call *call, struct belfry_bytes value)
{
    char why[JSON_READ_WHY];
    struct belfry_buf message;
    belfry_buf_init(&message);
    enum belfry_err err = json_read(call->path->request, value, &message, why);
    json_values_take(&call->values);
    if (err == BELFRY_OK)
        give_message(call, belfry_buf_bytes(&message));
    belfry_buf_fini(&message);
    if (err == BELFRY_OK)
        return true;
    call_refuse(call, err == BELFRY_ERR_NOMEM ? BELFRY_GRPC_RESOURCE_EXHAUSTED : BELFRY_GRPC_INVALID_ARGUMENT,
                err == BELFRY_ERR_NOMEM ? NO_MEMORY : why);
    return false;
}

/* Does the method take no more? What follows its one request is not looked at, as in etcd. */
static bool has_all(const struct gateway_call *call)
{
    return !call->path->asks_often && call->n_values > 0;
}

static void end_request(struct gateway_call *call)
{
    if (call->ended)
        return;
    call->ended = true;
    call->inner.events->body_end(&call->inner, call->inner.user);
}

/* Passes on what has come of the request. The call may be over when this returns. */
static void give_values(struct gateway_call *call)
{
    struct belfry_bytes value;
    while (!call->is_over && !has_all(call) && json_values_first(&call->values, &value))
        if (!give_value(call, value))
            return;
    if (!call->is_over && !call->path->asks_often && call->values.ended && call->n_values == 0)
        give_message(call, (struct belfry_bytes){0}); /* of nothing: an empty request */
    if (!call->is_over && (has_all(call) || call->values.ended))
        end_request(call);
    if (!call->is_over && belfry_buf_len(&call->values.bytes) > GATEWAY_VALUE_BYTES && !has_all(call))
        call_refuse(call, BELFRY_GRPC_RESOURCE_EXHAUSTED, "belfry: a request is larger than etcd's largest");
}

/* With the call kept until all is done. */
static void call_go_on(struct gateway_call *call)
{
    call->busy++;
    give_values(call);
    if (call->outer != NULL) {
        bool is_whole = call->ended || (call->path->asks_often && belfry_buf_len(&call->values.bytes) == 0);
        exchange_holds(call->outer, is_whole ? 0 : EXCHANGE_COST + call->values.bytes.cap);
        take_outer(call);
    }
    call->busy--;
    call_free_if_over(call);
}

static void on_body(struct exchange *x, struct belfry_bytes bytes, void *user)
{
    struct gateway_call *call = user;
    (void)x;
    if (call->is_broken)
        return;
    call->outer_untaken += bytes.len;
    if (!has_all(call) && json_values_add(&call->values, bytes) != BELFRY_OK) {
        call_refuse(call, BELFRY_GRPC_RESOURCE_EXHAUSTED, NO_MEMORY);
        return;
    }
    call_go_on(call);
}

static void on_body_end(struct exchange *x, void *user)
{
    struct gateway_call *call = user;
    (void)x;
    json_values_end(&call->values);
    if (!call->is_broken)
        call_go_on(call);
}

static void on_writable(struct exchange *x, void *user)
{
    struct gateway_call *call = user;
    (void)x;
    call->busy++;
    if (!call->is_over && !call->is_broken)
        call->inner.events->writable(&call->inner, call->inner.user);
    call->busy--;
    call_free_if_over(call);
}

static void on_gone(struct exchange *x, void *user)
{
    struct gateway_call *call = user;
    (void)x;
    (void)call_let_go(call);
    call_gone(call);
}

static const struct exchange_events outer_events = {
    .body = on_body, .body_end = on_body_end, .writable = on_writable, .gone = on_gone};

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

static struct gateway_call *call_create(struct gateway_calls *calls, struct exchange *x,
                                        const struct gateway_path *path)
{
    struct gateway_call *call = calloc(1, sizeof(*call));
    if (call == NULL)
        return NULL;
    call->inner = (struct exchange){.ops = &inner_ops, .conn = x->conn};
    call->outer = x;
    call->calls = calls;
    call->path = path;
    belfry_list_init(&call->node);
    json_values_init(&call->values);
    json_pour_init(&call->pour);
    belfry_buf_init(&call->line);
    calls->n++;
    return call;
}

static void call_begin(struct gateway_call *call, const struct exchange_head *head)
{
    struct belfry_http_field fields[FIELDS_MAX];
    struct exchange_head inner = {.method = belfry_bytes_str("POST"),
                                  .scheme = head->scheme,
                                  .path = belfry_bytes_str(call->path->method),
                                  .authority = head->authority,
                                  .fields = fields,
                                  .n_fields = fields_for_method(head, fields)};
    exchange_handle(call->outer, &outer_events, call);
    call->busy++;
    call->calls->begin(&call->inner, &inner, call->calls->user);
    call->busy--;
    call_free_if_over(call);
}

void gateway_call_begin(struct gateway_calls *calls, const struct gateway_path *path, struct exchange *x,
                        const struct exchange_head *head)
{
    struct gateway_call *call = call_create(calls, x, path);
    if (call == NULL) {
        gateway_call_answer_error(calls, x, path->answers_often, 429, BELFRY_GRPC_RESOURCE_EXHAUSTED, NO_MEMORY);
        return;
    }
    calls->stats.calls++;
    call_begin(call, head);
}

void gateway_calls_init(struct gateway_calls *calls, uv_loop_t *loop)
{
    *calls = (struct gateway_calls){.n = 0};
    belfry_list_init(&calls->broken);
    belfry_buf_init(&calls->scratch);
    uv_timer_init(loop, &calls->timer);
    calls->timer.data = calls;
}
