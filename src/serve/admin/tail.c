/* src/serve/admin/tail.c */
#include "serve/admin/tail.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/owner.h"
#include "serve/admin/text.h"
#include "wire/scan.h"
#include "json/json.h"

#define H2_CANCEL 8
#define RETRY     "retry: 2000\n\n"
#define ROOM      (EXCHANGE_ROOM * 3 / 4) /* a message, with the longest key and value that are escaped, is smaller */

struct tail {
    struct evlog *log;
    unsigned worker;
    struct belfry_list readers;
    size_t n;
    struct belfry_buf message; /* empty between two turns */
    BELFRY_OWNER;
};

struct tail_reader {
    struct belfry_list link;
    struct tail *tail;
    struct exchange *x;
    uint64_t past;
    int64_t next; /* the first revision that was not looked at */
    size_t prefix_len;
    char prefix[TAIL_PREFIX];
};

/* ---- life ---- */

enum belfry_err tail_create(struct evlog *log, unsigned worker, struct tail **out)
{
    struct tail *tail = calloc(1, sizeof(*tail));
    if (tail == NULL)
        return BELFRY_ERR_NOMEM;
    tail->log = log;
    tail->worker = worker;
    belfry_list_init(&tail->readers);
    BELFRY_OWNER_INIT(tail);
    *out = tail;
    return BELFRY_OK;
}

static void reader_free(struct tail_reader *reader)
{
    reader->tail->n--;
    belfry_list_remove(&reader->link);
    free(reader);
}

void tail_destroy(struct tail *tail)
{
    if (tail == NULL)
        return;
    BELFRY_OWNER_CHECK(tail);
    while (!belfry_list_empty(&tail->readers)) {
        struct tail_reader *reader = belfry_container(tail->readers.next, struct tail_reader, link);
        exchange_reset(reader->x, H2_CANCEL);
        reader_free(reader);
    }
    belfry_buf_fini(&tail->message);
    free(tail);
}

static void on_gone(struct exchange *x, void *user)
{
    (void)x;
    reader_free(user);
}

static const struct exchange_events reader_events = {
    .body = exchange_drop_body, .body_end = exchange_ignore, .writable = exchange_ignore, .gone = on_gone};

bool tail_open(struct tail *tail, struct exchange *x, struct belfry_bytes prefix)
{
    BELFRY_OWNER_CHECK(tail);
    assert(prefix.len <= TAIL_PREFIX);
    struct tail_reader *reader = tail->n < TAIL_MAX ? calloc(1, sizeof(*reader)) : NULL;
    if (reader == NULL)
        return false;
    struct evlog_view view;
    evlog_enter(tail->log, tail->worker, &view);
    *reader = (struct tail_reader){
        .tail = tail, .x = x, .past = view.cut.past, .next = view.head + 1, .prefix_len = prefix.len};
    evlog_leave(tail->log, tail->worker);
    if (prefix.len > 0)
        memcpy(reader->prefix, prefix.data, prefix.len);
    belfry_list_append(&tail->readers, &reader->link);
    tail->n++;
    struct belfry_http_field fields[] = {
        {belfry_bytes_str("content-type"), belfry_bytes_str("text/event-stream")},
        {belfry_bytes_str("cache-control"), belfry_bytes_str("no-store")},
        {belfry_bytes_str("x-content-type-options"), belfry_bytes_str("nosniff")},
    };
    exchange_handle(x, &reader_events, reader);
    exchange_respond(x, 200, fields, 3);
    exchange_lasts(x);
    exchange_write(x, RETRY, sizeof(RETRY) - 1);
    return true;
}

/* ---- a turn ---- */

/* What a turn has done so far. */
struct turn {
    struct text text;
    size_t lines, looked_at;
    uint64_t skipped;
};

/* At most TAIL_VALUE bytes, and not the half of a character. */
static struct belfry_bytes cut_value(struct belfry_bytes value)
{
    size_t len = value.len < TAIL_VALUE ? value.len : TAIL_VALUE;
    for (int i = 0; i < 3 && len < value.len && len > 0 && ((unsigned char)value.data[len] & 0xc0) == 0x80; i++)
        len--;
    return belfry_bytes_of(value.data, len);
}

static void tell_change(struct turn *turn, const struct batch *batch, const struct batch_event *event)
{
    struct belfry_wire_event change = {0};
    if (belfry_scan_event(batch_bytes(batch, event, false), &change) != BELFRY_OK)
        return; /* it was scanned when it came, and is not published otherwise */
    text_say(&turn->text, "event: change\ndata: ");
    struct belfry_json json = belfry_json_begin(turn->text.buf);
    belfry_json_open(&json, NULL, '{');
    belfry_json_int(&json, "revision", batch->rev);
    belfry_json_str(&json, "type", event->is_delete ? "delete" : "put");
    belfry_json_text(&json, "key", cut_value(batch_key(batch, event)));
    if (!event->is_delete) {
        belfry_json_text(&json, "value", cut_value(change.kv.value));
        belfry_json_uint(&json, "bytes", change.kv.value.len);
    }
    belfry_json_close(&json, '}');
    if (turn->text.err == BELFRY_OK)
        turn->text.err = belfry_json_finish(&json);
    text_say(&turn->text, "\n\n");
    turn->lines++;
}

static bool has_prefix(const struct tail_reader *reader, struct belfry_bytes key)
{
    return key.len >= reader->prefix_len &&
           (reader->prefix_len == 0 || memcmp(key.data, reader->prefix, reader->prefix_len) == 0);
}

static void look_at_batch(struct turn *turn, const struct tail_reader *reader, const struct batch *batch)
{
    turn->looked_at += 1 + batch->n_events;
    if (batch->kind == BATCH_EXTENT) /* too large for memory, so its keys are not known here */
        turn->skipped += batch->extent_events;
    for (uint32_t i = 0; i < batch->n_events; i++) {
        const struct batch_event *event = &batch->events[i];
        if (!has_prefix(reader, batch_key(batch, event)))
            continue;
        if (turn->lines < TAIL_LINES && belfry_buf_len(turn->text.buf) < TAIL_BYTES)
            tell_change(turn, batch, event);
        else
            turn->skipped++;
    }
}

static void reader_turn(struct tail_reader *reader, const struct evlog_view *view)
{
    struct belfry_buf *message = &reader->tail->message;
    struct turn turn = {.text = {.buf = message}};
    if (reader->past != view->cut.past || !evlog_covers(view, reader->next)) {
        text_say(&turn.text, "event: lost\ndata: {}\n\n");
        reader->past = view->cut.past;
        reader->next = view->head + 1;
    }
    for (uint64_t at = evlog_find(view, reader->next); at < view->next && turn.looked_at < TAIL_EVENTS; at++) {
        const struct batch *batch = evlog_at(view, at);
        look_at_batch(&turn, reader, batch);
        reader->next = batch->rev + 1;
    }
    if (turn.skipped > 0)
        text_say(&turn.text, "event: skipped\ndata: {\"changes\":%" PRIu64 "}\n\n", turn.skipped);
    struct belfry_bytes bytes = belfry_buf_bytes(message);
    if (turn.text.err != BELFRY_OK) /* part of it is missing, and the reader must know */
        bytes = belfry_bytes_str("event: lost\ndata: {}\n\n");
    if (bytes.len > 0)
        exchange_write(reader->x, bytes.data, bytes.len);
    belfry_buf_fini(message);
}

void tail_tick(struct tail *tail)
{
    BELFRY_OWNER_CHECK(tail);
    if (tail->n == 0)
        return;
    struct evlog_view view;
    evlog_enter(tail->log, tail->worker, &view);
    belfry_list_each (node, &tail->readers) {
        struct tail_reader *reader = belfry_container(node, struct tail_reader, link);
        if (view.cut.past > 0 && exchange_room(reader->x) >= ROOM) /* without room it falls behind, and is told */
            reader_turn(reader, &view);
    }
    evlog_leave(tail->log, tail->worker);
}
