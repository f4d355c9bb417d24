/* src/wire/scan.c: one field reader does all checks; every scanner is a loop over it with a switch.
 *
 * The switch is over tag values, number and wire type together: a known number with a foreign wire type falls through
 * to `default` and is skipped like an unknown field.
 */
#include "wire/scan.h"

#include <assert.h>

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_LEN = 2, WIRE_FIXED32 = 5 }; /* 3 and 4 are groups: refused */

#define VARINT(number) ((uint32_t)(number) << 3 | WIRE_VARINT)
#define LEN(number)    ((uint32_t)(number) << 3 | WIRE_LEN)

#define VARINT_MAX_BYTES 10
#define NUMBER_MAX       ((1u << 29) - 1)

struct cursor {
    const uint8_t *at, *end;
};

/* One field. The wire type decides whether `value` or `bytes` is set. */
struct field {
    uint32_t tag;
    uint64_t value;
    struct belfry_bytes bytes;
};

static struct cursor cursor_over(struct belfry_bytes message)
{
    const uint8_t *data = (const uint8_t *)message.data;
    /* In C, NULL + 0 is undefined. */
    return (struct cursor){data, message.len > 0 ? data + message.len : data};
}

static size_t left(const struct cursor *c)
{
    return (size_t)(c->end - c->at);
}

/* A value over 64 bits is malformed, as in Go; other decoders drop the upper bits. */
static bool read_long_varint(struct cursor *c, uint64_t *out)
{
    size_t max = left(c) < VARINT_MAX_BYTES ? left(c) : VARINT_MAX_BYTES;
    uint64_t value = 0;
    for (size_t i = 0; i < max; i++) {
        uint8_t byte = c->at[i];
        value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            c->at += i + 1;
            *out = value;
            return i < VARINT_MAX_BYTES - 1 || byte <= 1;
        }
    }
    return false;
}

/* Tags, lengths and flags are nearly always one byte. */
static inline bool read_varint(struct cursor *c, uint64_t *out)
{
    if (c->at == c->end || *c->at >= 0x80)
        return read_long_varint(c, out);
    *out = *c->at++;
    return true;
}

static inline bool skip(struct cursor *c, size_t len)
{
    if (left(c) < len)
        return false;
    c->at += len;
    return true;
}

static inline bool read_len(struct cursor *c, struct belfry_bytes *out)
{
    uint64_t len;
    if (!read_varint(c, &len) || len > left(c))
        return false;
    *out = belfry_bytes_of(c->at, (size_t)len);
    c->at += len;
    return true;
}

/* Reads one field of any kind; false if it is malformed or cut off. */
static inline bool read_field(struct cursor *c, struct field *out)
{
    uint64_t tag;
    if (!read_varint(c, &tag) || tag >> 3 == 0 || tag >> 3 > NUMBER_MAX)
        return false;
    out->tag = (uint32_t)tag;
    switch (tag & 7) {
    case WIRE_VARINT:
        return read_varint(c, &out->value);
    case WIRE_LEN:
        return read_len(c, &out->bytes);
    case WIRE_FIXED64:
        return skip(c, 8);
    case WIRE_FIXED32:
        return skip(c, 4);
    default:
        return false;
    }
}

/* The readers below fill their result field by field; the public functions return only complete results. */

static bool read_kv(struct belfry_bytes message, struct belfry_wire_kv *kv)
{
    *kv = (struct belfry_wire_kv){.raw = message};
    struct cursor c = cursor_over(message);
    struct field f;
    while (c.at != c.end) {
        if (!read_field(&c, &f))
            return false;
        switch (f.tag) {
        case LEN(1):
            kv->key = f.bytes;
            break;
        case VARINT(2):
            kv->create_rev = (int64_t)f.value;
            break;
        case VARINT(3):
            kv->mod_rev = (int64_t)f.value;
            break;
        case VARINT(4):
            kv->version = (int64_t)f.value;
            break;
        case LEN(5):
            kv->value = f.bytes;
            break;
        case VARINT(6):
            kv->lease = (int64_t)f.value;
            break;
        default:
            break;
        }
    }
    return true;
}

/* Event.EventType. Any third value is malformed: if it were read as a put, a client would see a value that the key
 * does not have. */
enum event_type { EVENT_PUT = 0, EVENT_DELETE = 1 };

static bool is_event_type(uint64_t value)
{
    return (uint32_t)value <= EVENT_DELETE; /* an enum is 32 bits, whatever the varint held */
}

static bool read_event(struct belfry_bytes message, struct belfry_wire_event *event)
{
    *event = (struct belfry_wire_event){.raw = message};
    struct cursor c = cursor_over(message);
    struct field f;
    uint64_t type = EVENT_PUT;
    while (c.at != c.end) {
        if (!read_field(&c, &f))
            return false;
        switch (f.tag) {
        case VARINT(1):
            type = f.value;
            break;
        case LEN(2):
            if (!read_kv(f.bytes, &event->kv))
                return false;
            break;
        case LEN(3):
            if (!read_kv(f.bytes, &event->prev))
                return false;
            event->has_prev = true;
            break;
        default:
            break;
        }
    }
    event->is_delete = (uint32_t)type == EVENT_DELETE;
    return is_event_type(type);
}

static bool read_header(struct belfry_bytes message, struct belfry_wire_header *header)
{
    *header = (struct belfry_wire_header){0};
    struct cursor c = cursor_over(message);
    struct field f;
    while (c.at != c.end) {
        if (!read_field(&c, &f))
            return false;
        switch (f.tag) {
        case VARINT(1):
            header->cluster_id = f.value;
            break;
        case VARINT(2):
            header->member_id = f.value;
            break;
        case VARINT(3):
            header->revision = (int64_t)f.value;
            break;
        case VARINT(4):
            header->raft_term = f.value;
            break;
        default:
            break;
        }
    }
    return true;
}

static bool read_watch(struct belfry_bytes message, struct belfry_wire_watch *watch)
{
    *watch = (struct belfry_wire_watch){0};
    struct cursor c = cursor_over(message);
    struct field f;
    while (c.at != c.end) {
        if (!read_field(&c, &f))
            return false;
        switch (f.tag) {
        case LEN(1):
            if (!read_header(f.bytes, &watch->header))
                return false;
            break;
        case VARINT(2):
            watch->watch_id = (int64_t)f.value;
            break;
        case VARINT(3):
            watch->created = f.value != 0;
            break;
        case VARINT(4):
            watch->canceled = f.value != 0;
            break;
        case VARINT(5):
            watch->compact_revision = (int64_t)f.value;
            break;
        case LEN(6):
            watch->cancel_reason = f.bytes;
            break;
        case VARINT(7):
            watch->fragment = f.value != 0;
            break;
        case LEN(BELFRY_WATCH_EVENTS):
            watch->n_events++;
            break;
        default:
            break;
        }
    }
    return true;
}

/* ---- requests ---- */

static void add_filter(struct belfry_wire_watch_request *request, uint64_t value)
{
    request->no_put |= (uint32_t)value == 0; /* an enum is 32 bits, whatever the varint held */
    request->no_delete |= (uint32_t)value == 1;
}

static bool read_packed_filters(struct belfry_bytes packed, struct belfry_wire_watch_request *request)
{
    struct cursor c = cursor_over(packed);
    uint64_t value;
    while (c.at != c.end) {
        if (!read_varint(&c, &value))
            return false;
        add_filter(request, value);
    }
    return true;
}

#define CREATE_NUMBER_MAX 8

static bool read_create(struct belfry_bytes message, struct belfry_wire_watch_request *request)
{
    *request = (struct belfry_wire_watch_request){.kind = BELFRY_WATCH_CREATE};
    struct cursor c = cursor_over(message);
    struct field f;
    while (c.at != c.end) {
        if (!read_field(&c, &f))
            return false;
        switch (f.tag) {
        case LEN(1):
            request->key = f.bytes;
            break;
        case LEN(2):
            request->range_end = f.bytes;
            break;
        case VARINT(3):
            request->start_revision = (int64_t)f.value;
            break;
        case VARINT(4):
            request->progress_notify = f.value != 0;
            break;
        case VARINT(5):
            add_filter(request, f.value);
            break;
        case LEN(5):
            if (!read_packed_filters(f.bytes, request))
                return false;
            break;
        case VARINT(6):
            request->prev_kv = f.value != 0;
            break;
        case VARINT(7):
            request->watch_id = (int64_t)f.value;
            break;
        case VARINT(8):
            request->fragment = f.value != 0;
            break;
        default:
            if (f.tag >> 3 <= CREATE_NUMBER_MAX)
                return false;
            break;
        }
    }
    return true;
}

static bool read_cancel(struct belfry_bytes message, struct belfry_wire_watch_request *request)
{
    *request = (struct belfry_wire_watch_request){.kind = BELFRY_WATCH_CANCEL};
    struct cursor c = cursor_over(message);
    struct field f;
    while (c.at != c.end) {
        if (!read_field(&c, &f) || (f.tag >> 3 == 1 && f.tag != VARINT(1)))
            return false;
        if (f.tag == VARINT(1))
            request->watch_id = (int64_t)f.value;
    }
    return true;
}

static bool read_progress(struct belfry_bytes message, struct belfry_wire_watch_request *request)
{
    *request = (struct belfry_wire_watch_request){.kind = BELFRY_WATCH_PROGRESS};
    struct cursor c = cursor_over(message);
    struct field f;
    while (c.at != c.end)
        if (!read_field(&c, &f))
            return false;
    return true;
}

static bool read_watch_request(struct belfry_bytes message, struct belfry_wire_watch_request *request)
{
    *request = (struct belfry_wire_watch_request){.kind = BELFRY_WATCH_NOTHING};
    struct cursor c = cursor_over(message);
    struct field f;
    while (c.at != c.end) {
        if (!read_field(&c, &f))
            return false;
        bool ok;
        switch (f.tag) {
        case LEN(1):
            ok = read_create(f.bytes, request);
            break;
        case LEN(2):
            ok = read_cancel(f.bytes, request);
            break;
        case LEN(3):
            ok = read_progress(f.bytes, request);
            break;
        default:
            ok = f.tag >> 3 > 3;
            break;
        }
        if (!ok)
            return false;
    }
    return true;
}

#define RANGE_NUMBER_MAX 13

static bool read_range_number(const struct field *f, struct belfry_wire_range_request *request)
{
    switch (f->tag) {
    case VARINT(3):
        request->limit = (int64_t)f->value;
        return true;
    case VARINT(4):
        request->revision = (int64_t)f->value;
        return true;
    case VARINT(5):
        request->sort_order = (int32_t)f->value;
        return true;
    case VARINT(6):
        request->sort_target = (int32_t)f->value;
        return true;
    case VARINT(7):
        request->serializable = f->value != 0;
        return true;
    case VARINT(8):
        request->keys_only = f->value != 0;
        return true;
    case VARINT(9):
        request->count_only = f->value != 0;
        return true;
    case VARINT(10):
        request->min_mod_rev = (int64_t)f->value;
        return true;
    case VARINT(11):
        request->max_mod_rev = (int64_t)f->value;
        return true;
    case VARINT(12):
        request->min_create_rev = (int64_t)f->value;
        return true;
    case VARINT(13):
        request->max_create_rev = (int64_t)f->value;
        return true;
    default:
        request->is_odd = true;
        return f->tag >> 3 > RANGE_NUMBER_MAX;
    }
}

static bool read_range_request(struct belfry_bytes message, struct belfry_wire_range_request *request)
{
    *request = (struct belfry_wire_range_request){0};
    struct cursor c = cursor_over(message);
    struct field f;
    bool has_end = false;
    while (c.at != c.end) {
        if (!read_field(&c, &f))
            return false;
        has_end = has_end || f.tag == LEN(2);
        if (f.tag == LEN(1))
            request->key = f.bytes;
        else if (f.tag == LEN(2))
            request->range_end = f.bytes;
        else if (!read_range_number(&f, request))
            return false;
    }
    request->is_odd = request->is_odd || (has_end && request->range_end.len == 0);
    return true;
}

#define COMPARE_UNION      4 /* the number of the first member of target_union: that of target 0, and so on */
#define COMPARE_NUMBER_MAX 8
#define COMPARE_RANGE_END  64

/* Reads what may be there once. *member: the number of the last member of target_union. */
static bool read_compare_field(const struct field *f, struct belfry_wire_compare *compare, uint32_t *member)
{
    switch (f->tag) {
    case VARINT(1):
        compare->result = (int32_t)f->value;
        return true;
    case VARINT(2):
        compare->target = (int32_t)f->value;
        return true;
    case LEN(3):
        compare->key = f->bytes;
        return true;
    case VARINT(COMPARE_UNION + BELFRY_COMPARE_VERSION):
    case VARINT(COMPARE_UNION + BELFRY_COMPARE_CREATE):
    case VARINT(COMPARE_UNION + BELFRY_COMPARE_MOD):
    case VARINT(COMPARE_UNION + BELFRY_COMPARE_LEASE):
        compare->number = (int64_t)f->value;
        *member = f->tag >> 3;
        return true;
    case LEN(COMPARE_UNION + BELFRY_COMPARE_VALUE):
        compare->value = f->bytes;
        *member = f->tag >> 3;
        return true;
    case LEN(COMPARE_RANGE_END):
        compare->range_end = f->bytes;
        return true;
    default:
        compare->is_odd = true;
        return f->tag >> 3 > COMPARE_NUMBER_MAX && f->tag >> 3 != COMPARE_RANGE_END;
    }
}

static bool read_compare(struct belfry_bytes message, struct belfry_wire_compare *compare)
{
    *compare = (struct belfry_wire_compare){0};
    struct cursor c = cursor_over(message);
    struct field f;
    uint32_t member = 0;
    bool has_end = false;
    while (c.at != c.end) {
        if (!read_field(&c, &f) || !read_compare_field(&f, compare, &member))
            return false;
        has_end = has_end || f.tag == LEN(COMPARE_RANGE_END);
    }
    bool is_of_target = (int64_t)member == (int64_t)compare->target + COMPARE_UNION;
    if (!is_of_target || compare->target == BELFRY_COMPARE_VALUE)
        compare->number = 0;
    if (!is_of_target || compare->target != BELFRY_COMPARE_VALUE)
        compare->value = (struct belfry_bytes){0};
    compare->is_odd = compare->is_odd || (has_end && compare->range_end.len == 0);
    return true;
}

static bool read_op(struct belfry_bytes message, struct belfry_wire_op *op)
{
    *op = (struct belfry_wire_op){.kind = BELFRY_OP_NONE};
    struct cursor c = cursor_over(message);
    struct field f;
    while (c.at != c.end) {
        if (!read_field(&c, &f))
            return false;
        bool is_known = f.tag >> 3 <= BELFRY_OP_TXN;
        if (is_known && f.tag != LEN(f.tag >> 3))
            return false;
        op->is_odd = op->is_odd || !is_known || op->kind != BELFRY_OP_NONE;
        if (!is_known)
            continue;
        op->kind = (enum belfry_wire_op_kind)(f.tag >> 3);
        op->request = f.bytes;
    }
    return true;
}

static bool read_txn_request(struct belfry_bytes message, struct belfry_wire_txn_request *request)
{
    *request = (struct belfry_wire_txn_request){0};
    struct cursor c = cursor_over(message);
    struct field f;
    while (c.at != c.end) {
        if (!read_field(&c, &f))
            return false;
        switch (f.tag) {
        case LEN(BELFRY_TXN_COMPARES):
            request->n_compares++;
            break;
        case LEN(BELFRY_TXN_SUCCESS):
            request->n_success++;
            break;
        case LEN(BELFRY_TXN_FAILURE):
            request->n_failure++;
            break;
        default:
            if (f.tag >> 3 <= BELFRY_TXN_FAILURE)
                return false;
            request->is_odd = true;
            break;
        }
    }
    return true;
}

/* ---- public functions ---- */

enum belfry_err belfry_scan_txn_request(struct belfry_bytes message, struct belfry_wire_txn_request *out)
{
    struct belfry_wire_txn_request request;
    if (!read_txn_request(message, &request))
        return BELFRY_ERR_PROTOCOL;
    *out = request;
    return BELFRY_OK;
}

enum belfry_err belfry_scan_compare(struct belfry_bytes message, struct belfry_wire_compare *out)
{
    struct belfry_wire_compare compare;
    if (!read_compare(message, &compare))
        return BELFRY_ERR_PROTOCOL;
    *out = compare;
    return BELFRY_OK;
}

enum belfry_err belfry_scan_op(struct belfry_bytes message, struct belfry_wire_op *out)
{
    struct belfry_wire_op op;
    if (!read_op(message, &op))
        return BELFRY_ERR_PROTOCOL;
    *out = op;
    return BELFRY_OK;
}

enum belfry_err belfry_scan_range_request(struct belfry_bytes message, struct belfry_wire_range_request *out)
{
    struct belfry_wire_range_request request;
    if (!read_range_request(message, &request))
        return BELFRY_ERR_PROTOCOL;
    *out = request;
    return BELFRY_OK;
}

enum belfry_err belfry_scan_watch_request(struct belfry_bytes message, struct belfry_wire_watch_request *out)
{
    struct belfry_wire_watch_request request;
    if (!read_watch_request(message, &request))
        return BELFRY_ERR_PROTOCOL;
    *out = request;
    return BELFRY_OK;
}

enum belfry_err belfry_scan_kv(struct belfry_bytes message, struct belfry_wire_kv *out)
{
    struct belfry_wire_kv kv;
    if (!read_kv(message, &kv))
        return BELFRY_ERR_PROTOCOL;
    *out = kv;
    return BELFRY_OK;
}

enum belfry_err belfry_scan_event(struct belfry_bytes message, struct belfry_wire_event *out)
{
    struct belfry_wire_event event;
    if (!read_event(message, &event))
        return BELFRY_ERR_PROTOCOL;
    *out = event;
    return BELFRY_OK;
}

enum belfry_err belfry_scan_header(struct belfry_bytes message, struct belfry_wire_header *out)
{
    struct belfry_wire_header header;
    if (!read_header(message, &header))
        return BELFRY_ERR_PROTOCOL;
    *out = header;
    return BELFRY_OK;
}

enum belfry_err belfry_scan_watch(struct belfry_bytes message, struct belfry_wire_watch *out)
{
    struct belfry_wire_watch watch;
    if (!read_watch(message, &watch))
        return BELFRY_ERR_PROTOCOL;
    *out = watch;
    return BELFRY_OK;
}

enum belfry_err belfry_scan_field(struct belfry_bytes message, uint32_t number, size_t *at, struct belfry_bytes *out)
{
    assert(*at <= message.len && number >= 1 && number <= NUMBER_MAX);
    if (*at == message.len)
        return BELFRY_ERR_AGAIN;
    struct cursor c = cursor_over(message);
    c.at += *at;
    struct field f;
    while (c.at != c.end) {
        if (!read_field(&c, &f))
            return BELFRY_ERR_PROTOCOL;
        if (f.tag != LEN(number))
            continue;
        *at = message.len - left(&c);
        *out = f.bytes;
        return BELFRY_OK;
    }
    *at = message.len;
    return BELFRY_ERR_AGAIN;
}

enum belfry_err belfry_scan_event_rev(struct belfry_bytes event, int64_t *out)
{
    struct belfry_bytes kv = {0};
    struct cursor c = cursor_over(event);
    struct field f;
    uint64_t type = EVENT_PUT;
    while (c.at != c.end) {
        if (!read_field(&c, &f))
            return BELFRY_ERR_PROTOCOL;
        if (f.tag == LEN(2))
            kv = f.bytes;
        else if (f.tag == VARINT(1))
            type = f.value;
    }
    if (!is_event_type(type))
        return BELFRY_ERR_PROTOCOL;
    int64_t rev = 0;
    c = cursor_over(kv);
    while (c.at != c.end) {
        if (!read_field(&c, &f))
            return BELFRY_ERR_PROTOCOL;
        if (f.tag == VARINT(3))
            rev = (int64_t)f.value;
    }
    *out = rev;
    return BELFRY_OK;
}

enum belfry_err belfry_scan_number(struct belfry_bytes message, uint32_t number, uint64_t *out)
{
    struct cursor c = cursor_over(message);
    struct field f;
    uint64_t value = 0;
    while (c.at != c.end) {
        if (!read_field(&c, &f))
            return BELFRY_ERR_PROTOCOL;
        if (f.tag == VARINT(number))
            value = f.value;
    }
    *out = value;
    return BELFRY_OK;
}

enum belfry_err belfry_scan_response_header(struct belfry_bytes message, struct belfry_wire_header *out)
{
    size_t at = 0;
    struct belfry_bytes field;
    enum belfry_err err = belfry_scan_field(message, 1, &at, &field);
    if (err == BELFRY_OK)
        return belfry_scan_header(field, out);
    if (err == BELFRY_ERR_AGAIN)
        *out = (struct belfry_wire_header){0};
    return err == BELFRY_ERR_AGAIN ? BELFRY_OK : err;
}
