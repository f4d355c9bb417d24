/* src/serve/relay/relay_guard.c */
#include "serve/relay/relay_guard.h"

#include "net/gzip.h"
#include "wire/scan.h"

#define RANGE_PATH  "/etcdserverpb.KV/Range"
#define STREAM_PATH "/etcdserverpb.KV/RangeStream"
#define TXN_PATH    "/etcdserverpb.KV/Txn"
#define ALARM_PATH  "/etcdserverpb.Maintenance/Alarm"

#define SORT_TARGET 6 /* of a RangeRequest */
#define ACTION      1 /* of an AlarmRequest */
#define ALARM       3

#define PLAIN_BYTES                                                                                                    \
    ((size_t)1 << 30) /* that a compressed message may be: more than etcd takes, and `at` can count them */

enum alarm_action { ALARM_GET, ALARM_ACTIVATE, ALARM_DEACTIVATE };
enum alarm_type { ALARM_NONE, ALARM_NOSPACE, ALARM_CORRUPT };

enum wire_type { WIRE_VARINT, WIRE_FIXED64, WIRE_LEN, WIRE_GROUP, WIRE_GROUP_END, WIRE_FIXED32 };

bool relay_guard_is(struct belfry_bytes path, enum relay_guard_kind *out)
{
    static const struct {
        const char *path;
        enum relay_guard_kind kind;
    } guarded[] = {{RANGE_PATH, RELAY_GUARD_RANGE},
                   {STREAM_PATH, RELAY_GUARD_RANGE},
                   {TXN_PATH, RELAY_GUARD_TXN},
                   {ALARM_PATH, RELAY_GUARD_ALARM}};
    for (size_t i = 0; i < sizeof(guarded) / sizeof(guarded[0]); i++) {
        if (belfry_bytes_equal(path, belfry_bytes_str(guarded[i].path))) {
            *out = guarded[i].kind;
            return true;
        }
    }
    return false;
}

void relay_guard_fini(struct relay_guard *guard)
{
    belfry_gunzip_destroy(guard->gunzip);
    guard->gunzip = NULL;
}

/* ---- messages in messages ---- */

static uint32_t room(const struct relay_guard *guard)
{
    return guard->ends[guard->depth - 1] - guard->at;
}

static void open_message(struct relay_guard *guard, uint32_t len, bool is_judged)
{
    guard->ends[guard->depth++] = guard->at + len;
    guard->is_judged = is_judged;
    guard->sort_target = BELFRY_SORT_KEY;
}

/* A message that can do harm is complete. */
static enum relay_guard_verdict judge(const struct relay_guard *guard)
{
    if (guard->kind != RELAY_GUARD_ALARM)
        return guard->sort_target < BELFRY_SORT_KEY || guard->sort_target > BELFRY_SORT_VALUE ? RELAY_GUARD_KILLS
                                                                                              : RELAY_GUARD_HARMLESS;
    bool is_action = guard->action >= ALARM_GET && guard->action <= ALARM_DEACTIVATE;
    bool is_alarm = guard->alarm >= ALARM_NONE && guard->alarm <= ALARM_CORRUPT;
    return is_action && (guard->action != ALARM_ACTIVATE || is_alarm) ? RELAY_GUARD_HARMLESS : RELAY_GUARD_ALARMS;
}

/* A field is complete: closes the messages that end with it. */
static enum relay_guard_verdict close_messages(struct relay_guard *guard)
{
    guard->step = RELAY_GUARD_TAG;
    while (guard->depth > 0 && room(guard) == 0) {
        if (guard->groups > 0)
            break; /* it is cut off */
        enum relay_guard_verdict verdict = guard->is_judged ? judge(guard) : RELAY_GUARD_HARMLESS;
        if (verdict != RELAY_GUARD_HARMLESS)
            return verdict;
        guard->is_judged = false;
        guard->depth--;
    }
    if (guard->depth == 0 || room(guard) == 0)
        guard->step = RELAY_GUARD_DONE;
    return RELAY_GUARD_HARMLESS;
}

/* Does a field of this number, in the innermost message, have messages that are walked? Their depths say which they
 * are: those of a Txn, and of its operations, alternate. */
static bool is_walked(const struct relay_guard *guard)
{
    if (guard->groups > 0 || guard->is_judged)
        return false;
    if (guard->depth % 2 == 1)
        return guard->field == BELFRY_TXN_SUCCESS || guard->field == BELFRY_TXN_FAILURE;
    return guard->field == BELFRY_OP_RANGE || guard->field == BELFRY_OP_TXN;
}

/* ---- fields ---- */

static enum relay_guard_verdict skip_bytes(struct relay_guard *guard, uint64_t n)
{
    if (n > room(guard)) {
        guard->step = RELAY_GUARD_DONE;
        return RELAY_GUARD_HARMLESS;
    }
    guard->skip = (uint32_t)n;
    guard->step = RELAY_GUARD_SKIP;
    return n == 0 ? close_messages(guard) : RELAY_GUARD_HARMLESS;
}

static enum relay_guard_verdict on_length(struct relay_guard *guard)
{
    if (guard->varint > room(guard) || !is_walked(guard))
        return skip_bytes(guard, guard->varint);
    if (guard->depth == RELAY_GUARD_DEPTH)
        return RELAY_GUARD_TOO_DEEP;
    bool is_range = guard->depth % 2 == 0 && guard->field == BELFRY_OP_RANGE;
    open_message(guard, (uint32_t)guard->varint, is_range);
    return close_messages(guard);
}

/* The last one counts. */
static void note_number(struct relay_guard *guard, int32_t number)
{
    bool is_alarm = guard->kind == RELAY_GUARD_ALARM;
    if (!is_alarm && guard->field == SORT_TARGET)
        guard->sort_target = number;
    else if (is_alarm && guard->field == ACTION)
        guard->action = number;
    else if (is_alarm && guard->field == ALARM)
        guard->alarm = number;
}

static enum relay_guard_verdict on_number(struct relay_guard *guard)
{
    if (guard->is_judged && guard->groups == 0)
        note_number(guard, (int32_t)guard->varint);
    return close_messages(guard);
}

static enum relay_guard_verdict on_tag(struct relay_guard *guard)
{
    guard->field = (uint32_t)(guard->varint >> 3);
    switch ((enum wire_type)(guard->varint & 7)) {
    case WIRE_VARINT:
        guard->step = room(guard) > 0 ? RELAY_GUARD_NUMBER : RELAY_GUARD_DONE;
        return RELAY_GUARD_HARMLESS;
    case WIRE_LEN:
        guard->step = room(guard) > 0 ? RELAY_GUARD_LENGTH : RELAY_GUARD_DONE;
        return RELAY_GUARD_HARMLESS;
    case WIRE_FIXED64:
        return skip_bytes(guard, 8);
    case WIRE_FIXED32:
        return skip_bytes(guard, 4);
    case WIRE_GROUP:
        guard->groups++;
        return close_messages(guard);
    case WIRE_GROUP_END:
        if (guard->groups == 0)
            break;
        guard->groups--;
        return close_messages(guard);
    }
    guard->step = RELAY_GUARD_DONE;
    return RELAY_GUARD_HARMLESS;
}

/* ---- bytes ---- */

/* Of a tag, a number or a length. */
static enum relay_guard_verdict pass_varint(struct relay_guard *guard, uint8_t byte)
{
    guard->at++;
    guard->varint |= (uint64_t)(byte & 0x7f) << guard->shift;
    guard->shift += 7;
    if (byte >= 0x80) {
        if (guard->shift >= 64 || room(guard) == 0)
            guard->step = RELAY_GUARD_DONE;
        return RELAY_GUARD_HARMLESS;
    }
    enum relay_guard_verdict verdict;
    if (guard->step == RELAY_GUARD_TAG)
        verdict = on_tag(guard);
    else
        verdict = guard->step == RELAY_GUARD_LENGTH ? on_length(guard) : on_number(guard);
    guard->varint = 0;
    guard->shift = 0;
    return verdict;
}

static enum relay_guard_verdict verdict_of(enum belfry_err err)
{
    return err == BELFRY_ERR_PROTOCOL    ? RELAY_GUARD_UNREADABLE
           : err == BELFRY_ERR_TOO_LARGE ? RELAY_GUARD_TOO_LARGE
                                         : RELAY_GUARD_NO_MEMORY;
}

/* Where the message ends is not known before all of it has come. */
static enum relay_guard_verdict open_packed(struct relay_guard *guard, uint32_t len)
{
    size_t most = belfry_gzip_allowance(len);
    if (len == 0)
        return RELAY_GUARD_UNREADABLE;
    enum belfry_err err = belfry_gunzip_create(most < PLAIN_BYTES ? most : PLAIN_BYTES, &guard->gunzip);
    if (err != BELFRY_OK)
        return verdict_of(err);
    guard->packed = len;
    guard->step = RELAY_GUARD_TAG;
    open_message(guard, UINT32_MAX, guard->kind != RELAY_GUARD_TXN);
    return RELAY_GUARD_HARMLESS;
}

/* All of it has come. */
static enum relay_guard_verdict close_packed(struct relay_guard *guard)
{
    bool is_whole = belfry_gunzip_is_whole(guard->gunzip);
    relay_guard_fini(guard);
    if (!is_whole)
        return RELAY_GUARD_UNREADABLE;
    if (guard->step != RELAY_GUARD_TAG || guard->shift != 0 || guard->depth != 1)
        return RELAY_GUARD_HARMLESS; /* it is cut off, or nothing was looked at any more */
    guard->ends[0] = guard->at;
    return close_messages(guard);
}

/* Of the five before the message: a flag, and its length. */
static enum relay_guard_verdict pass_prefix(struct relay_guard *guard, uint8_t byte)
{
    if (guard->at == 0 && byte > guard->is_gzip) {
        guard->step = RELAY_GUARD_DONE; /* it is compressed by something else, or gRPC has no such flag */
        return RELAY_GUARD_HARMLESS;
    }
    if (guard->at == 0)
        guard->is_packed = byte == 1;
    else
        guard->varint = guard->varint << 8 | byte;
    if (++guard->at < BELFRY_GRPC_PREFIX_BYTES)
        return RELAY_GUARD_HARMLESS;
    uint32_t len = (uint32_t)guard->varint;
    guard->at = 0;
    guard->varint = 0;
    if (guard->is_packed)
        return open_packed(guard, len);
    open_message(guard, len, guard->kind != RELAY_GUARD_TXN);
    return close_messages(guard);
}

static enum relay_guard_verdict pass_skipped(struct relay_guard *guard, size_t n)
{
    guard->at += (uint32_t)n;
    guard->skip -= (uint32_t)n;
    return guard->skip == 0 ? close_messages(guard) : RELAY_GUARD_HARMLESS;
}

/* Bytes of a message that is not compressed, or not any more. */
static enum relay_guard_verdict pass_plain(struct relay_guard *guard, struct belfry_bytes bytes)
{
    enum relay_guard_verdict verdict = RELAY_GUARD_HARMLESS;
    const uint8_t *data = (const uint8_t *)bytes.data;
    size_t i = 0;
    while (i < bytes.len && verdict == RELAY_GUARD_HARMLESS && guard->step != RELAY_GUARD_DONE) {
        if (guard->step == RELAY_GUARD_SKIP) {
            size_t n = bytes.len - i < guard->skip ? bytes.len - i : guard->skip;
            verdict = pass_skipped(guard, n);
            i += n;
        } else {
            verdict = pass_varint(guard, data[i++]);
        }
    }
    return verdict;
}

/* Bytes of a compressed one, and no others. It is read to its end also when nothing more is looked at: then it is known
 * whether it can be read. */
static enum relay_guard_verdict pass_packed(struct relay_guard *guard, struct belfry_bytes bytes)
{
    struct belfry_bytes plain;
    guard->packed -= (uint32_t)bytes.len;
    do {
        enum belfry_err err = belfry_gunzip_next(guard->gunzip, &bytes, &plain);
        enum relay_guard_verdict verdict = err == BELFRY_OK ? pass_plain(guard, plain) : verdict_of(err);
        if (verdict != RELAY_GUARD_HARMLESS)
            return verdict;
    } while (plain.len > 0);
    return guard->packed == 0 ? close_packed(guard) : RELAY_GUARD_HARMLESS;
}

enum relay_guard_verdict relay_guard_pass(struct relay_guard *guard, struct belfry_bytes bytes)
{
    enum relay_guard_verdict verdict = RELAY_GUARD_HARMLESS;
    const uint8_t *data = (const uint8_t *)bytes.data;
    size_t i = 0;
    while (i < bytes.len && guard->step == RELAY_GUARD_PREFIX && verdict == RELAY_GUARD_HARMLESS)
        verdict = pass_prefix(guard, data[i++]);
    if (verdict != RELAY_GUARD_HARMLESS)
        return verdict;
    if (!guard->is_packed)
        return pass_plain(guard, belfry_bytes_of(data + i, bytes.len - i));
    size_t n = bytes.len - i < guard->packed ? bytes.len - i : guard->packed;
    return n > 0 ? pass_packed(guard, belfry_bytes_of(data + i, n)) : RELAY_GUARD_HARMLESS;
}
