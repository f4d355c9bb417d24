/* tests/sim/dialect.c */
#include "sim/dialect.h"

#include <assert.h>
#include <stdlib.h>

#include "base/sim.h"
#include "core/response.h"
#include "core/watcher.h"
#include "sim/history.h"

static const struct response_identity identity = {.cluster_id = HISTORY_CLUSTER_ID, .member_id = 1, .raft_term = 1};

/* ---- attributes ---- */

static const struct {
    const char *name, *value;
} pins[DIALECT_PINS + DIALECT_KEY_PINS] = {{"shade", "red"},   {"shade", "green"}, {"shade", "blue"}, {"parity", "odd"},
                                           {"parity", "even"}, {"place", "odd"},   {"place", "even"}};

struct belfry_bytes dialect_pin_name(unsigned pin)
{
    assert(pin >= 1 && pin <= DIALECT_PINS + DIALECT_KEY_PINS);
    return belfry_bytes_str(pins[pin - 1].name);
}

struct belfry_bytes dialect_pin_value(unsigned pin)
{
    assert(pin >= 1 && pin <= DIALECT_PINS + DIALECT_KEY_PINS);
    return belfry_bytes_str(pins[pin - 1].value);
}

/* What the value has of an attribute; data NULL: nothing. */
static struct belfry_bytes attribute_of_value(struct belfry_bytes value, struct belfry_bytes name)
{
    uint32_t sum = 2166136261u;
    for (size_t i = 0; i < value.len && i < DIALECT_MARK; i++)
        sum = (sum ^ (unsigned char)value.data[i]) * 16777619u;
    sum ^= sum >> 15;
    if (belfry_bytes_equal(name, dialect_pin_name(1)))
        return sum % 4 == 3 ? (struct belfry_bytes){0} : dialect_pin_value(1 + sum % 4);
    return dialect_pin_value(4 + sum / 4 % 2);
}

static struct belfry_bytes attribute_of(struct belfry_bytes kv, struct belfry_bytes name)
{
    struct belfry_wire_kv fields;
    if (kv.len == 0)
        return (struct belfry_bytes){0};
    if (belfry_scan_kv(kv, &fields) != BELFRY_OK)
        abort();
    return attribute_of_value(fields.value, name);
}

static bool is_pinned(unsigned pin, struct belfry_bytes attribute)
{
    return attribute.data != NULL && belfry_bytes_equal(attribute, dialect_pin_value(pin));
}

bool dialect_pinned(unsigned pin, struct belfry_bytes kv)
{
    return is_pinned(pin, attribute_of(kv, dialect_pin_name(pin)));
}

bool dialect_value_pinned(unsigned pin, struct belfry_bytes value)
{
    return is_pinned(pin, attribute_of_value(value, dialect_pin_name(pin)));
}

bool dialect_key_pinned(unsigned pin, struct belfry_bytes key)
{
    unsigned sum = 0;
    for (size_t i = 0; i < key.len; i++)
        sum += (unsigned char)key.data[i];
    return pin == 0 || DIALECT_PINS + 1 + sum % 2 == pin;
}

/* The KeyValue that the event leaves behind; empty: none. */
static struct belfry_bytes kv_after(const struct batch *batch, const struct batch_event *event)
{
    struct belfry_bytes raw = batch_bytes(batch, event, false), kv = {0};
    size_t at = 0;
    if (event->is_delete)
        return kv;
    if (belfry_scan_field(raw, 2, &at, &kv) != BELFRY_OK)
        abort();
    return kv;
}

void dialect_attribute(const struct batch *batch, uint32_t event, struct belfry_bytes name, struct belfry_bytes *before,
                       struct belfry_bytes *after)
{
    if (belfry_bytes_equal(name, dialect_pin_name(DIALECT_PINS + 1))) {
        bool odd = dialect_key_pinned(DIALECT_PINS + 1, batch_key(batch, &batch->events[event]));
        *before = (struct belfry_bytes){0};
        *after = dialect_pin_value(odd ? DIALECT_PINS + 1 : DIALECT_PINS + 2);
        return;
    }
    *before = attribute_of(batch_prev_kv(batch, &batch->events[event]), name);
    *after = attribute_of(kv_after(batch, &batch->events[event]), name);
}

/* ---- lines ---- */

/* Has the revision created the key that it deletes here? Of a slice that cannot be seen, but nothing is lost in it: it
 * is from the tier's own store. */
static bool is_created_before(const struct batch *batch, const struct batch_event *gone)
{
    for (const struct batch_event *event = gone; event-- > batch->events;) {
        if (belfry_bytes_equal(batch_key(batch, event), batch_key(batch, gone)))
            return !event->is_delete;
    }
    return batch->kind == BATCH_SLICE;
}

static enum belfry_err is_for(const struct dialect_watch *watch, const struct batch *batch, uint32_t event, bool *yes)
{
    const struct batch_event *at = &batch->events[event];
    bool lost = batch_prev_lost(batch, at) && !(at->is_delete && is_created_before(batch, at));
    *yes = watch->pin == 0 || dialect_pinned(watch->pin, kv_after(batch, at));
    if (lost && (watch->prev_kv || !*yes))
        return BELFRY_ERR_COMPACTED;
    *yes = *yes || dialect_pinned(watch->pin, batch_prev_kv(batch, at));
    return BELFRY_OK;
}

/* As belfryd 0.1.0 did. */
static bool is_shown_before(const struct batch *batch, uint32_t event)
{
    return BELFRY_MUTANT(line_shown_before) && (batch->more || event + 1 < batch->n_events);
}

enum belfry_err dialect_event(const struct dialect_watch *watch, const struct batch *batch, uint32_t event,
                              struct belfry_blob **out)
{
    struct response_opts opts = {.header_rev = is_shown_before(batch, event) ? batch->rev - 1 : batch->rev,
                                 .flags = watch->prev_kv ? WATCHER_PREV_KV : 0};
    struct response_pick pick = {.batch = batch, .events = &event, .n = 1};
    bool cut, yes;
    enum belfry_err err = is_for(watch, batch, event, &yes);
    *out = NULL;
    if (err != BELFRY_OK || !yes)
        return err;
    size_t size = response_size(&identity, &opts, &pick, &cut);
    err = belfry_blob_alloc(size, out);
    if (err == BELFRY_OK)
        response_write(&identity, &opts, &pick, size, belfry_blob_edit(*out));
    return err;
}

/* Up to `most` of the part's events that are pinned; the array is the caller's, with room for so many. Returns their
 * number; *used: how many of the part's events lie before the next one. */
static uint32_t pick_page(const struct dialect_watch *watch, const struct lines_part *part, uint32_t most,
                          uint32_t *events, uint32_t *used)
{
    uint32_t n = 0, i = 0;
    for (; i < part->n; i++) {
        bool pinned = dialect_key_pinned(watch->pin, batch_key(part->batch, &part->batch->events[part->events[i]]));
        if (pinned && n == most)
            break;
        if (pinned)
            events[n++] = part->events[i];
    }
    *used = i;
    return n;
}

static enum belfry_err control(const struct belfry_wire_watch *watch, struct belfry_blob **out)
{
    enum belfry_err err = belfry_blob_alloc(response_control_size(watch), out);
    if (err == BELFRY_OK)
        response_control(watch, belfry_blob_edit(*out));
    return err;
}

/* Its last field says whether it is open. */
static enum belfry_err page_of(const struct response_pick *pick, bool open, struct belfry_blob **out)
{
    static const uint8_t fragment[] = {7 << 3, 1};
    struct response_opts opts = {.header_rev = pick->batch->rev};
    bool cut;
    size_t size = response_size(&identity, &opts, pick, &cut), more = open ? sizeof(fragment) : 0;
    enum belfry_err err = belfry_blob_alloc(size + more, out);
    if (err != BELFRY_OK)
        return err;
    uint8_t *to = belfry_blob_edit(*out);
    response_write(&identity, &opts, pick, size, to);
    memcpy(to + size, fragment, more);
    response_prefix(to, (uint32_t)(size + more - RESPONSE_PREFIX));
    return BELFRY_OK;
}

static enum belfry_err last_page(int64_t rev, struct belfry_blob **out)
{
    struct belfry_wire_watch watch = {.header = {.cluster_id = identity.cluster_id,
                                                 .member_id = identity.member_id,
                                                 .revision = rev,
                                                 .raft_term = identity.raft_term}};
    return control(&watch, out);
}

enum belfry_err dialect_revision(const struct dialect_watch *watch, const struct lines_part *part, uint32_t most,
                                 int64_t *part_rev, uint32_t *used, struct belfry_blob **out)
{
    uint32_t *events = calloc(part->n + 1, sizeof(*events));
    if (events == NULL)
        abort();
    uint32_t n = pick_page(watch, part, most, events, used);
    bool open = part->open || *used < part->n;
    struct response_pick pick = {.batch = part->batch, .events = events, .n = n};
    enum belfry_err err = BELFRY_OK;
    *out = NULL;
    if (n > 0)
        err = page_of(&pick, open, out);
    else if (!open && *part_rev == part->batch->rev)
        err = last_page(part->batch->rev, out);
    if (err == BELFRY_OK && n > 0 && open)
        *part_rev = part->batch->rev;
    free(events);
    return err;
}

/* It names no member. */
enum belfry_err dialect_progress(int64_t rev, struct belfry_blob **out)
{
    struct belfry_wire_watch watch = {.header = {.cluster_id = HISTORY_CLUSTER_ID, .revision = rev}};
    return control(&watch, out);
}

bool dialect_is_progress(const struct belfry_wire_watch *watch)
{
    return watch->header.member_id == 0;
}

enum belfry_err dialect_lost(int64_t compact_rev, struct belfry_blob **out)
{
    struct belfry_wire_watch watch = {.canceled = true, .compact_revision = compact_rev};
    return control(&watch, out);
}
