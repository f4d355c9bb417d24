/* src/serve/relay/relay_guard.c */
#include "serve/relay/relay_guard.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "net/gzip.h"
#include "wire/scan.h"

#define RANGE_PATH  "/etcdserverpb.KV/Range"
#define STREAM_PATH "/etcdserverpb.KV/RangeStream"
#define TXN_PATH    "/etcdserverpb.KV/Txn"
#define ALARM_PATH  "/etcdserverpb.Maintenance/Alarm"
#define USER_PATH   "/etcdserverpb.Auth/UserAdd"
#define ROLE_PATH   "/etcdserverpb.Auth/RoleAdd"

#define SORT_TARGET  6 /* of a RangeRequest */
#define ACTION       1 /* of an AlarmRequest */
#define ALARM        3
#define KEY          1 /* of a PutRequest and a DeleteRangeRequest */
#define RANGE_END    2 /* of the latter */
#define IGNORE_VALUE 5 /* of the former */
#define IGNORE_LEASE 6
#define NAME         1 /* of an AuthUserAddRequest and an AuthRoleAddRequest */

#define NAME_BYTES 32768 /* that bbolt takes as a key */

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
    } guarded[] = {{RANGE_PATH, RELAY_GUARD_RANGE}, {STREAM_PATH, RELAY_GUARD_RANGE}, {TXN_PATH, RELAY_GUARD_TXN},
                   {ALARM_PATH, RELAY_GUARD_ALARM}, {USER_PATH, RELAY_GUARD_NAME},    {ROLE_PATH, RELAY_GUARD_NAME}};
    for (size_t i = 0; i < sizeof(guarded) / sizeof(guarded[0]); i++) {
        if (belfry_bytes_equal(path, belfry_bytes_str(guarded[i].path))) {
            *out = guarded[i].kind;
            return true;
        }
    }
    return false;
}

static void drop_gunzip(struct relay_guard *guard)
{
    belfry_gunzip_destroy(guard->gunzip);
    guard->gunzip = NULL;
}

static void drop_writes(struct relay_guard *guard)
{
    for (unsigned i = 0; guard->writes != NULL && i < RELAY_GUARD_LEVELS; i++) {
        free(guard->writes->lowest[i][0]);
        free(guard->writes->lowest[i][1]);
    }
    free(guard->writes);
    guard->writes = NULL;
}

void relay_guard_fini(struct relay_guard *guard)
{
    drop_gunzip(guard);
    drop_writes(guard);
}

/* ---- what a Txn has deleted ---- */

static int key_compare(const struct relay_guard_key *a, const struct relay_guard_key *b)
{
    return belfry_bytes_cmp(belfry_bytes_of(a->bytes, a->len), belfry_bytes_of(b->bytes, b->len));
}

/* The lowest key of the branch that is being read in the Txn of this level. */
static struct relay_guard_key **lowest_at(const struct relay_guard *guard, unsigned of_level)
{
    assert(of_level < RELAY_GUARD_LEVELS);
    return &guard->writes->lowest[of_level][guard->branches >> of_level & 1];
}

/* The Txn of this level is complete, and is not the outermost: what its branches delete, the outer Txn does. */
static void writes_close(struct relay_guard *guard, unsigned of_level)
{
    struct relay_guard_writes *writes = guard->writes;
    struct relay_guard_key **outer = lowest_at(guard, of_level - 1);
    for (int branch = 0; branch < 2; branch++) {
        struct relay_guard_key *higher = writes->lowest[of_level][branch];
        writes->lowest[of_level][branch] = NULL;
        if (higher == NULL)
            continue;
        if (*outer == NULL || key_compare(higher, *outer) < 0) {
            struct relay_guard_key *lower = higher;
            higher = *outer;
            *outer = lower;
        }
        writes->n_keys -= higher != NULL;
        free(higher);
    }
}

/* ---- messages in messages ---- */

static uint32_t room(const struct relay_guard *guard)
{
    return guard->ends[guard->depth - 1] - guard->at;
}

/* Of the innermost Txn. Messages alternate: a Txn, an operation, a Txn... */
static unsigned level(const struct relay_guard *guard)
{
    return (guard->depth - 1) / 2;
}

static enum relay_guard_verdict open_message(struct relay_guard *guard, uint32_t len, enum relay_guard_message message)
{
    if (message == RELAY_GUARD_OF_DELETE && guard->writes == NULL) {
        guard->writes = calloc(1, sizeof(*guard->writes));
        if (guard->writes == NULL)
            return RELAY_GUARD_NO_MEMORY;
    }
    if (guard->writes != NULL) {
        guard->writes->key.len = 0;
        guard->writes->is_from_key = guard->writes->ignores_value = guard->writes->ignores_lease = false;
    }
    guard->ends[guard->depth++] = guard->at + len;
    guard->message = message;
    guard->sort_target = BELFRY_SORT_KEY;
    return RELAY_GUARD_HARMLESS;
}

/* The innermost message is complete. */
static enum relay_guard_verdict judge(struct relay_guard *guard)
{
    struct relay_guard_writes *writes = guard->writes;
    switch (guard->message) {
    case RELAY_GUARD_OF_RANGE: {
        bool is_target = guard->sort_target >= BELFRY_SORT_KEY && guard->sort_target <= BELFRY_SORT_VALUE;
        return is_target ? RELAY_GUARD_HARMLESS : RELAY_GUARD_KILLS;
    }
    case RELAY_GUARD_OF_ALARM: {
        bool is_action = guard->action >= ALARM_GET && guard->action <= ALARM_DEACTIVATE;
        bool is_alarm = guard->alarm >= ALARM_NONE && guard->alarm <= ALARM_CORRUPT;
        return is_action && (guard->action != ALARM_ACTIVATE || is_alarm) ? RELAY_GUARD_HARMLESS : RELAY_GUARD_ALARMS;
    }
    case RELAY_GUARD_OF_PUT: /* is its key deleted, in the Txn that it is in or in an outer one? */
        for (unsigned i = 0; (writes->ignores_value || writes->ignores_lease) && i < level(guard); i++) {
            const struct relay_guard_key *lowest = *lowest_at(guard, i);
            if (lowest != NULL && key_compare(lowest, &writes->key) <= 0)
                return RELAY_GUARD_DELETED;
        }
        return RELAY_GUARD_HARMLESS;
    case RELAY_GUARD_OF_DELETE: {
        struct relay_guard_key **lowest = lowest_at(guard, level(guard) - 1);
        if (!writes->is_from_key || (*lowest != NULL && key_compare(*lowest, &writes->key) <= 0))
            return RELAY_GUARD_HARMLESS;
        if (*lowest == NULL) {
            *lowest = malloc(sizeof(**lowest));
            if (*lowest == NULL)
                return RELAY_GUARD_NO_MEMORY;
            writes->n_keys++;
        }
        **lowest = writes->key;
        return RELAY_GUARD_HARMLESS;
    }
    case RELAY_GUARD_OF_NAME: /* judged before it comes */
        return RELAY_GUARD_HARMLESS;
    case RELAY_GUARD_OUTER:
        break;
    }
    if (writes != NULL && guard->depth % 2 == 1 && guard->depth > 1)
        writes_close(guard, level(guard));
    return RELAY_GUARD_HARMLESS;
}

/* A field is complete: closes the messages that end with it. */
static enum relay_guard_verdict close_messages(struct relay_guard *guard)
{
    guard->step = RELAY_GUARD_TAG;
    while (guard->depth > 0 && room(guard) == 0) {
        if (guard->groups > 0)
            break; /* it is cut off */
        enum relay_guard_verdict verdict = judge(guard);
        if (verdict != RELAY_GUARD_HARMLESS)
            return verdict;
        guard->message = RELAY_GUARD_OUTER;
        guard->depth--;
    }
    if (guard->depth == 0)
        drop_writes(guard);
    if (guard->depth == 0 || room(guard) == 0)
        guard->step = RELAY_GUARD_DONE;
    return RELAY_GUARD_HARMLESS;
}

/* The message that a field of this number is, in the innermost message. False: it is passed over. Their depths say
 * which they are: those of a Txn, and of its operations, alternate. */
static bool is_walked(const struct relay_guard *guard, enum relay_guard_message *out)
{
    *out = RELAY_GUARD_OUTER;
    if (guard->groups > 0 || guard->message != RELAY_GUARD_OUTER)
        return false;
    if (guard->depth % 2 == 1)
        return guard->field == BELFRY_TXN_SUCCESS || guard->field == BELFRY_TXN_FAILURE;
    switch (guard->field) {
    case BELFRY_OP_RANGE:
        *out = RELAY_GUARD_OF_RANGE;
        return true;
    case BELFRY_OP_PUT: /* it needs nothing that was deleted, if nothing was */
        *out = RELAY_GUARD_OF_PUT;
        return guard->writes != NULL && guard->writes->n_keys > 0;
    case BELFRY_OP_DELETE:
        *out = RELAY_GUARD_OF_DELETE;
        return true;
    default:
        return guard->field == BELFRY_OP_TXN;
    }
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

/* Is the field, whose bytes come, one of these messages? */
static bool is_field(const struct relay_guard *guard, enum relay_guard_message message, uint32_t field)
{
    return guard->message == message && guard->field == field && guard->groups == 0;
}

static bool is_key(const struct relay_guard *guard)
{
    return is_field(guard, RELAY_GUARD_OF_PUT, KEY) || is_field(guard, RELAY_GUARD_OF_DELETE, KEY);
}

static enum relay_guard_verdict on_length(struct relay_guard *guard)
{
    enum relay_guard_message message;
    if (is_field(guard, RELAY_GUARD_OF_NAME, NAME) && guard->varint > NAME_BYTES)
        return RELAY_GUARD_LONG_NAME;
    if (guard->varint > room(guard) || !is_walked(guard, &message)) {
        if (is_key(guard)) /* the last field of a number counts */
            guard->writes->key.len = 0;
        else if (is_field(guard, RELAY_GUARD_OF_DELETE, RANGE_END))
            guard->writes->is_from_key = guard->varint == 1;
        return skip_bytes(guard, guard->varint);
    }
    if (guard->depth == RELAY_GUARD_DEPTH)
        return RELAY_GUARD_TOO_DEEP;
    uint64_t bit = UINT64_C(1) << level(guard);
    if (guard->depth % 2 == 1)
        guard->branches = guard->field == BELFRY_TXN_FAILURE ? guard->branches | bit : guard->branches & ~bit;
    enum relay_guard_verdict verdict = open_message(guard, (uint32_t)guard->varint, message);
    return verdict == RELAY_GUARD_HARMLESS ? close_messages(guard) : verdict;
}

static void note_number(struct relay_guard *guard, uint64_t number)
{
    if (is_field(guard, RELAY_GUARD_OF_RANGE, SORT_TARGET))
        guard->sort_target = (int32_t)number;
    else if (is_field(guard, RELAY_GUARD_OF_ALARM, ACTION))
        guard->action = (int32_t)number;
    else if (is_field(guard, RELAY_GUARD_OF_ALARM, ALARM))
        guard->alarm = (int32_t)number;
    else if (is_field(guard, RELAY_GUARD_OF_PUT, IGNORE_VALUE))
        guard->writes->ignores_value = number != 0;
    else if (is_field(guard, RELAY_GUARD_OF_PUT, IGNORE_LEASE))
        guard->writes->ignores_lease = number != 0;
}

static enum relay_guard_verdict on_number(struct relay_guard *guard)
{
    note_number(guard, guard->varint);
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

static enum relay_guard_message outermost(const struct relay_guard *guard)
{
    static const enum relay_guard_message messages[] = {[RELAY_GUARD_RANGE] = RELAY_GUARD_OF_RANGE,
                                                        [RELAY_GUARD_TXN] = RELAY_GUARD_OUTER,
                                                        [RELAY_GUARD_ALARM] = RELAY_GUARD_OF_ALARM,
                                                        [RELAY_GUARD_NAME] = RELAY_GUARD_OF_NAME};
    return messages[guard->kind];
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
    return open_message(guard, UINT32_MAX, outermost(guard));
}

/* All of it has come. */
static enum relay_guard_verdict close_packed(struct relay_guard *guard)
{
    bool is_whole = belfry_gunzip_is_whole(guard->gunzip);
    drop_gunzip(guard);
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
    enum relay_guard_verdict verdict = open_message(guard, len, outermost(guard));
    return verdict == RELAY_GUARD_HARMLESS ? close_messages(guard) : verdict;
}

static enum relay_guard_verdict pass_skipped(struct relay_guard *guard, const uint8_t *bytes, size_t n)
{
    if (is_key(guard)) {
        struct relay_guard_key *key = &guard->writes->key;
        size_t left = sizeof(key->bytes) - key->len;
        size_t kept = n < left ? n : left;
        memcpy(key->bytes + key->len, bytes, kept);
        key->len += kept;
    } else if (is_field(guard, RELAY_GUARD_OF_DELETE, RANGE_END) && guard->writes->is_from_key) {
        guard->writes->is_from_key = bytes[0] == 0;
    }
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
            verdict = pass_skipped(guard, data + i, n);
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
