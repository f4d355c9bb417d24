/* src/server/h2_server.c */
#include "server/h2_server.h"

#include <assert.h>
#include <stdlib.h>

#include "net/h2_mem.h"
#include "server/h2_server_private.h"

#define DEFLATE_TABLE 256  /* bytes: what gRPC responses repeat fits; more would keep what they do not */
#define CALM_STREAMS  1000 /* streams reset early that are forgiven at once, ... */
#define CALM_RATE     200  /* ... and more of them a second */
#define CALM_WINDOWS  100  /* streams whose window is changed that cost as much as one of them, ... */
#define CALM_MOST     100  /* ... and the most that a change costs: some are forgiven with any number of streams */
#define QUEUE_READ    500  /* frames other than DATA that wait unsent while more is read */
#define QUEUE_FRAMES  1000 /* frames other than DATA that may wait unsent, ... */
#define QUEUE_EACH    4    /* ... and more for each exchange: HEADERS, trailers, WINDOW_UPDATE, RST_STREAM */
#define UNLIMITED     ((uint64_t)1 << 32)

static const uint8_t probe[8] = {'s', 'h', 'u', 't', 'd', 'o', 'w', 'n'};

/* ---- what becomes of it ---- */

static void move_to(struct h2_server *h2, enum h2_server_state state)
{
    assert(state > h2->state);
    h2->state = state;
}

/* Running out of memory while packing headers makes nghttp2 end the connection as if the peer were to blame. */
static enum belfry_err blame(const struct h2_server *h2)
{
    return h2->starved ? BELFRY_ERR_NOMEM : BELFRY_ERR_PROTOCOL;
}

void h2_server_note(struct h2_server *h2, enum belfry_err err)
{
    if (h2->failed == BELFRY_OK)
        h2->failed = err;
}

void h2_server_note_rc(struct h2_server *h2, ssize_t rc)
{
    if (rc < 0)
        h2_server_note(h2, rc == NGHTTP2_ERR_NOMEM ? BELFRY_ERR_NOMEM : blame(h2));
}

void h2_server_tell(struct h2_server *h2)
{
    if (h2->told || !h2_server_wants_write(h2))
        return;
    h2->told = true;
    h2->opts.wants_flush(h2->opts.flush_user);
}

/* What receive and pull return: a failure of nghttp2 (rc), one noted on the way, or the end of the connection. */
static enum belfry_err outcome(struct h2_server *h2, ssize_t rc)
{
    h2_server_note_rc(h2, rc);
    if (h2->failed != BELFRY_OK) {
        if (h2->state != H2_SERVER_DOWN)
            move_to(h2, H2_SERVER_DOWN);
        return h2->failed;
    }
    return h2->state == H2_SERVER_ENDING ? blame(h2) : BELFRY_OK;
}

static void end_with(struct h2_server *h2, uint32_t code)
{
    if (h2->state >= H2_SERVER_ENDING)
        return;
    move_to(h2, H2_SERVER_ENDING);
    h2_server_note_rc(h2, nghttp2_session_terminate_session(h2->session, code));
}

/* Takes what `streams` of those that end unanswered cost from the bucket. */
static void spend_calm(struct h2_server *h2, size_t streams)
{
    const uint32_t full = CALM_STREAMS * 1000;
    uint32_t cost = (uint32_t)(streams < CALM_MOST ? streams : CALM_MOST) * 1000;
    uint64_t elapsed_ms = h2->now_ms - h2->calm_at_ms;
    uint64_t gained = elapsed_ms < full / CALM_RATE ? elapsed_ms * CALM_RATE : full;
    h2->calm = gained < full - h2->calm ? h2->calm + (uint32_t)gained : full;
    h2->calm_at_ms = h2->now_ms;
    if (h2->calm < cost)
        end_with(h2, NGHTTP2_ENHANCE_YOUR_CALM);
    else
        h2->calm -= cost;
}

/* nghttp2 bounds the PINGs and SETTINGS that it has to answer, but not the resets that malformed requests call for. */
static void bound_queue(struct h2_server *h2)
{
    size_t most = QUEUE_FRAMES + QUEUE_EACH * h2->n_exchanges;
    if (nghttp2_session_get_outbound_queue_size(h2->session) > most)
        end_with(h2, NGHTTP2_ENHANCE_YOUR_CALM);
}

/* ---- from nghttp2: what came ---- */

static struct h2_exchange *exchange_of(struct h2_server *h2, int32_t id)
{
    return nghttp2_session_get_stream_user_data(h2->session, id);
}

static bool begins_request(const nghttp2_frame *frame)
{
    return frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
}

/* Room for one more exchange; another connection may have to end for it. */
static bool has_memory(struct h2_server *h2)
{
    struct intake_conn *own = &h2->opts.conn->intake;
    const struct exchange_memory *memory = h2->memory;
    return memory->max == 0 || intake_has_room(own->intake, own, memory->used + H2_SERVER_EXCHANGE, memory->max);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct h2_server *h2 = user;
    h2_head_clear(&h2->head);
    h2->head_since_ms = h2->now_ms;
    if (!begins_request(frame) || has_memory(h2))
        return 0;
    h2->memory->refused++;
    h2_server_note_rc(
        h2, nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_REFUSED_STREAM));
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* its head is read, for the next ones build on it, and dropped */
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
    (void)session, (void)flags;
    struct h2_server *h2 = user;
    if (!begins_request(frame)) /* trailers of a request: nobody asks for them */
        return 0;
    enum belfry_err err = h2_head_add(&h2->head, belfry_bytes_of(name, name_len), belfry_bytes_of(value, value_len));
    if (err == BELFRY_OK)
        return 0;
    h2_server_note(h2, err);
    return NGHTTP2_ERR_CALLBACK_FAILURE;
}

static void present(struct h2_server *h2, struct h2_exchange *x, const struct exchange_head *head)
{
    h2->opts.begin(&x->base, head, h2->opts.user);
    assert(x->base.events != NULL || x->said >= H2_SAID_END);
}

static enum belfry_err begin(struct h2_server *h2, int32_t id)
{
    struct h2_exchange *x = h2_exchange_create(h2, id);
    if (x == NULL)
        return BELFRY_ERR_NOMEM;
    nghttp2_session_set_stream_user_data(h2->session, id, x);
    struct exchange_head head;
    enum belfry_err err = BELFRY_OK;
    if (h2_head_too_large(&h2->head)) {
        exchange_answer(&x->base, 431, NULL, 0, (struct belfry_bytes){0});
    } else if ((err = h2_head_present(&h2->head, &head)) == BELFRY_OK) {
        x->is_head = belfry_bytes_equal(head.method, belfry_bytes_str("HEAD"));
        present(h2, x, &head);
    }
    h2_head_clear(&h2->head);
    return err;
}

static void probe_answered(struct h2_server *h2, const uint8_t opaque[8])
{
    if (h2->state != H2_SERVER_PROBED || memcmp(opaque, probe, sizeof(probe)) != 0)
        return;
    move_to(h2, H2_SERVER_SHUT);
    int32_t last = nghttp2_session_get_last_proc_stream_id(h2->session);
    h2_server_note_rc(h2, nghttp2_submit_goaway(h2->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0));
}

/* The peer's windows: the connection's is looked at by unhold. */
static void window_changed(struct h2_server *h2, int32_t id)
{
    struct h2_exchange *x = id != 0 ? exchange_of(h2, id) : NULL;
    if (x != NULL)
        h2_exchange_look_again(x);
}

static void settings_changed(struct h2_server *h2, const nghttp2_settings *settings)
{
    h2->greeted = true; /* nghttp2 takes no other frame before them */
    for (size_t i = 0; i < settings->niv; i++) {
        if (settings->iv[i].settings_id != NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE)
            continue;
        belfry_list_move_all(&h2->due, &h2->short_of_window);
        spend_calm(h2, h2->n_exchanges / CALM_WINDOWS); /* nghttp2 looks at every stream */
    }
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    (void)session;
    struct h2_server *h2 = user;
    uint8_t type = frame->hd.type, flags = frame->hd.flags;
    if (type == NGHTTP2_PING && (flags & NGHTTP2_FLAG_ACK) != 0)
        probe_answered(h2, frame->ping.opaque_data);
    else if (type == NGHTTP2_WINDOW_UPDATE)
        window_changed(h2, frame->hd.stream_id);
    else if (type == NGHTTP2_SETTINGS)
        settings_changed(h2, &frame->settings);
    if (begins_request(frame)) {
        enum belfry_err err = begin(h2, frame->hd.stream_id);
        if (err != BELFRY_OK) {
            h2_server_note(h2, err);
            return NGHTTP2_ERR_CALLBACK_FAILURE;
        }
    }
    if ((type == NGHTTP2_HEADERS || type == NGHTTP2_DATA) && (flags & NGHTTP2_FLAG_END_STREAM) != 0) {
        struct h2_exchange *x = exchange_of(h2, frame->hd.stream_id);
        if (x != NULL)
            h2_exchange_body_end(x);
    }
    return 0;
}

/* A malformed request is reset by nghttp2: nothing more of its head is waited for. And the last stream that a GOAWAY names is
 * to be one of the receiver's, which is never more than 0 here; Go's clients name one of their own. */
static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int why, void *user)
{
    (void)session, (void)why;
    struct h2_server *h2 = user;
    if (frame->hd.type == NGHTTP2_HEADERS)
        h2_head_clear(&h2->head);
    if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code == NGHTTP2_NO_ERROR)
        h2->fault = H2_SERVER_GOODBYE;
    return 0;
}

static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t len,
                         void *user)
{
    (void)flags;
    struct h2_server *h2 = user;
    /* At once, whoever they are for, so that no exchange can stall another. */
    h2_server_note_rc(h2, nghttp2_session_consume_connection(session, len));
    struct h2_exchange *x = exchange_of(h2, id);
    if (x != NULL)
        h2_exchange_body(x, belfry_bytes_of(data, len));
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    (void)session, (void)code;
    struct h2_server *h2 = user;
    struct h2_exchange *x = exchange_of(h2, id);
    if (x == NULL)
        return 0;
    if (!x->head_sent && x->said != H2_SAID_RESET)
        spend_calm(h2, 1); /* its peer reset it unanswered, or made us reset it */
    h2_exchange_gone(x);
    h2_exchange_destroy(x);
    return 0;
}

/* ---- from nghttp2: what is sent ---- */

static ssize_t on_send(nghttp2_session *session, const uint8_t *data, size_t len, int flags, void *user)
{
    (void)session, (void)flags;
    struct h2_server *h2 = user;
    if (belfry_buf_len(h2->out) >= h2->enough)
        return NGHTTP2_ERR_WOULDBLOCK;
    enum belfry_err err = belfry_buf_append(h2->out, data, len);
    if (err == BELFRY_OK)
        return (ssize_t)len;
    h2_server_note(h2, err);
    return NGHTTP2_ERR_CALLBACK_FAILURE;
}

static void goaway_sent(struct h2_server *h2, uint32_t code)
{
    if (code != NGHTTP2_NO_ERROR) {
        if (h2->state < H2_SERVER_ENDING)
            move_to(h2, H2_SERVER_ENDING); /* one that nghttp2 decided on */
    } else if (h2->state == H2_SERVER_NOTICED) {
        /* not before: nghttp2 sends a PING ahead of everything that waits */
        move_to(h2, H2_SERVER_PROBED);
        h2_server_note_rc(h2, nghttp2_submit_ping(h2->session, NGHTTP2_FLAG_NONE, probe));
    }
}

/* The response is complete. A request that is not will not be read: RFC 9113, 8.1, and gRPC servers do the same. */
static void stop_request(struct h2_server *h2, int32_t id)
{
    if (nghttp2_session_get_stream_remote_close(h2->session, id) == 0)
        h2_server_note_rc(h2, nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR));
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    (void)session;
    struct h2_server *h2 = user;
    uint8_t type = frame->hd.type;
    if (type == NGHTTP2_GOAWAY)
        goaway_sent(h2, frame->goaway.error_code);
    if (type == NGHTTP2_HEADERS) {
        struct h2_exchange *x = exchange_of(h2, frame->hd.stream_id);
        if (x != NULL)
            x->head_sent = true;
    }
    if ((type == NGHTTP2_HEADERS || type == NGHTTP2_DATA) && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
        stop_request(h2, frame->hd.stream_id);
    return 0;
}

/* HEADERS that cannot be packed, for nghttp2 sends blocks up to 64 KiB: without them the stream would never end. */
static int on_frame_not_send(nghttp2_session *session, const nghttp2_frame *frame, int why, void *user)
{
    struct h2_server *h2 = user;
    int32_t id = frame->hd.stream_id;
    bool closing = why == NGHTTP2_ERR_STREAM_CLOSING || why == NGHTTP2_ERR_STREAM_CLOSED ||
                   why == NGHTTP2_ERR_STREAM_SHUT_WR || why == NGHTTP2_ERR_SESSION_CLOSING;
    if (frame->hd.type == NGHTTP2_HEADERS && !closing && exchange_of(h2, id) != NULL)
        h2_server_note_rc(h2, nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_INTERNAL_ERROR));
    return 0;
}

/* ---- create and destroy ---- */

static void set_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_send_callback(callbacks, on_send);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, h2_exchange_send_data);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_frame_not_send);
}

static void set_options(nghttp2_option *option)
{
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_deflate_dynamic_table_size(option, DEFLATE_TABLE);
    /* Its own bucket counts every reset, also of a watch that was served and is cancelled: 33 a second. */
    nghttp2_option_set_stream_reset_rate_limit(option, UNLIMITED, UNLIMITED);
}

static enum belfry_err session_create(struct h2_server *h2)
{
    nghttp2_mem mem = belfry_h2_mem(&h2->starved);
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    int rc = nghttp2_session_callbacks_new(&callbacks);
    if (rc == 0)
        rc = nghttp2_option_new(&option);
    if (rc == 0) {
        set_callbacks(callbacks);
        set_options(option);
        rc = nghttp2_session_server_new3(&h2->session, callbacks, h2, option, &mem);
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return rc == 0 ? BELFRY_OK : BELFRY_ERR_NOMEM;
}

/* HEADER_TABLE_SIZE stays as it is: 0 would save 1.5 KiB a connection, and end those of clients that do not heed it. */
static enum belfry_err greet(struct h2_server *h2)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, H2_SERVER_HEADER_BYTES},
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, h2->opts.max_streams},
    };
    size_t n = h2->opts.max_streams > 0 ? 2 : 1;
    int rc = nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, settings, n);
    return rc == 0 ? BELFRY_OK : BELFRY_ERR_NOMEM;
}

enum belfry_err h2_server_create(const struct h2_server_opts *opts, struct h2_server **out)
{
    struct h2_server *h2 = calloc(1, sizeof(*h2));
    if (h2 == NULL)
        return BELFRY_ERR_NOMEM;
    h2->opts = *opts;
    h2->calm = CALM_STREAMS * 1000;
    belfry_list_init(&h2->exchanges);
    belfry_list_init(&h2->short_of_window);
    belfry_list_init(&h2->short_of_share);
    belfry_list_init(&h2->due);
    h2->memory = opts->memory != NULL ? opts->memory : &h2->own_memory;
    exchange_memory_count(h2->memory, 0, H2_SERVER_CONN);
    enum belfry_err err = session_create(h2);
    if (err == BELFRY_OK)
        err = greet(h2);
    if (err != BELFRY_OK) {
        h2_server_destroy(h2);
        return err;
    }
    *out = h2;
    return BELFRY_OK;
}

/* Nothing of it is the owner's any more: not even the count. */
static void let_go_memory(struct h2_server *h2)
{
    if (h2->memory != &h2->own_memory)
        exchange_memory_count(h2->memory, H2_SERVER_CONN + h2->head_bytes, 0);
    h2->memory = &h2->own_memory;
}

bool h2_server_let_go(struct h2_server *h2, size_t most)
{
    h2->told = true; /* nobody will pull */
    if (h2->state != H2_SERVER_DOWN)
        move_to(h2, H2_SERVER_DOWN);
    /* A handler that is told may have its last word on another, which stays in the list. */
    for (; most > 0 && !belfry_list_empty(&h2->exchanges); most--) {
        struct h2_exchange *x = belfry_container(h2->exchanges.next, struct h2_exchange, of_all);
        h2_exchange_gone(x);
        h2_exchange_destroy(x);
    }
    if (!belfry_list_empty(&h2->exchanges))
        return false;
    let_go_memory(h2);
    return true;
}

void h2_server_destroy(struct h2_server *h2)
{
    if (h2 == NULL)
        return;
    h2_server_let_go(h2, SIZE_MAX);
    nghttp2_session_del(h2->session);
    h2_head_clear(&h2->head);
    free(h2);
}

/* ---- bytes in, bytes out ---- */

enum belfry_err h2_server_receive(struct h2_server *h2, struct belfry_bytes bytes, uint64_t now_ms)
{
    ssize_t rc = 0;
    h2->now_ms = now_ms;
    if (h2->state < H2_SERVER_ENDING) {
        rc = nghttp2_session_mem_recv(h2->session, (const uint8_t *)bytes.data, bytes.len);
        bound_queue(h2);
    }
    exchange_memory_count(h2->memory, h2->head_bytes, h2->head.buf.cap);
    h2->head_bytes = h2->head.buf.cap;
    enum belfry_err err = outcome(h2, rc);
    h2_server_tell(h2);
    return err;
}

enum belfry_err h2_server_pull(struct h2_server *h2, size_t enough, struct belfry_buf *out)
{
    int rc = 0;
    if (h2->failed == BELFRY_OK && belfry_buf_len(out) < enough) {
        h2->told = true; /* the caller asks h2_server_wants_write() afterwards */
        h2->out = out;
        h2->enough = enough;
        rc = nghttp2_session_send(h2->session);
        h2->out = NULL;
    }
    h2->told = false;
    enum belfry_err err = outcome(h2, rc);
    h2->reported = err != BELFRY_OK;
    return err;
}

bool h2_server_wants_write(const struct h2_server *h2)
{
    if (h2->failed != BELFRY_OK)
        return !h2->reported;
    return nghttp2_session_want_write(h2->session) != 0;
}

bool h2_server_wants_read(const struct h2_server *h2)
{
    return h2->state == H2_SERVER_DOWN || nghttp2_session_get_outbound_queue_size(h2->session) <= QUEUE_READ;
}

bool h2_server_greeted(const struct h2_server *h2)
{
    return h2->greeted;
}

uint64_t h2_server_head_since(const struct h2_server *h2)
{
    return h2->head.list_bytes > 0 ? h2->head_since_ms : 0;
}

/* Two GOAWAYs: the first has the text, which that of nghttp2's end cannot have. */
void h2_server_expel(struct h2_server *h2, const char *why)
{
    if (h2->state >= H2_SERVER_ENDING)
        return;
    int32_t last = nghttp2_session_get_last_proc_stream_id(h2->session);
    h2_server_note_rc(h2, nghttp2_submit_goaway(h2->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_ENHANCE_YOUR_CALM,
                                                (const uint8_t *)why, strlen(why)));
    end_with(h2, NGHTTP2_ENHANCE_YOUR_CALM);
    h2->fault = H2_SERVER_EXPELLED;
    h2_server_tell(h2);
}

enum h2_server_fault h2_server_fault(const struct h2_server *h2)
{
    return h2->fault;
}

size_t h2_server_open(const struct h2_server *h2)
{
    return h2->n_exchanges;
}

size_t h2_server_bytes(const struct h2_server *h2)
{
    return h2->bytes;
}

void h2_server_hold(struct h2_server *h2)
{
    h2->held = true;
}

/* A share that only shrinks changes nothing for those who wait for a larger one. */
static void look_at_share(struct h2_server *h2)
{
    size_t share = h2->n_exchanges > 0 ? h2_server_share(h2) : 0;
    if (h2->held || share > h2->share)
        belfry_list_move_all(&h2->due, &h2->short_of_share);
    h2->held = false;
    h2->share = share;
}

bool h2_server_unhold(struct h2_server *h2)
{
    look_at_share(h2);
    /* Whoever finds little room again from inside `writable` is not due before something changes. */
    struct belfry_list *node;
    for (int n = 0; n < H2_SERVER_OFFERS && (node = belfry_list_pop(&h2->due)) != NULL; n++)
        h2_exchange_offer_room(belfry_container(node, struct h2_exchange, of_waiting));
    return !belfry_list_empty(&h2->due);
}

void h2_server_shut(struct h2_server *h2)
{
    if (h2->state != H2_SERVER_UP)
        return;
    move_to(h2, H2_SERVER_NOTICED);
    h2_server_note_rc(h2, nghttp2_submit_shutdown_notice(h2->session));
    h2_server_tell(h2);
}
