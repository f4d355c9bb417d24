/* tests/storm/reading.c */
#include "storm/reading.h"

#include "storm/verdict.h"

/* The event that is due now has this key and revision. */
static void reading_expect(struct reading *reading, int64_t rev, struct belfry_bytes key, bool is_delete)
{
    char due[64];
    const struct feed_entry *entry = feed_next(&reading->at, reading->next_rev, reading->keys);
    if (entry == NULL)
        verdict_fail("%s: an event of revision %lld that is not due", reading->who, (long long)rev);
    feed_key(entry->key, due, sizeof(due));
    if (rev != entry->rev || is_delete != entry->is_delete || !belfry_bytes_equal(key, belfry_bytes_str(due)))
        verdict_fail("%s: received revision %lld of %.*s, and %lld of %s was due", reading->who, (long long)rev,
                     (int)key.len, key.data, (long long)entry->rev, due);
    reading->at++;
    reading->events++;
}

static void reading_check_progress(struct reading *reading, int64_t rev, const char *what)
{
    const struct feed_entry *entry = feed_next(&reading->at, reading->next_rev, reading->keys);
    if (entry != NULL && entry->rev <= rev)
        verdict_fail("%s: %s %lld, but %lld was not received", reading->who, what, (long long)rev,
                     (long long)entry->rev);
}

void reading_move(struct reading *reading, int64_t next_rev, const char *what)
{
    reading_check_progress(reading, next_rev - 1, what);
    reading->next_rev = next_rev;
}

static void reading_take_events(struct reading *reading, struct belfry_bytes message)
{
    struct belfry_bytes raw;
    struct belfry_wire_event event = {0};
    for (size_t at = 0; belfry_scan_field(message, BELFRY_WATCH_EVENTS, &at, &raw) == BELFRY_OK;) {
        if (belfry_scan_event(raw, &event) != BELFRY_OK)
            verdict_fail("%s: an event that cannot be read", reading->who);
        reading_expect(reading, event.kv.mod_rev, event.kv.key, event.is_delete);
    }
    reading_move(reading, event.kv.mod_rev + 1, "a response ends inside revision");
}

void reading_take(struct reading *reading, struct belfry_bytes message, struct belfry_wire_watch *out)
{
    if (belfry_scan_watch(message, out) != BELFRY_OK)
        verdict_fail("%s: a response that cannot be read", reading->who);
    if (out->created && !out->canceled) {
        reading->is_created = true;
        reading->next_rev = reading->next_rev != 0 ? reading->next_rev : out->header.revision + 1;
    } else if (!reading->is_created && !out->canceled) {
        verdict_fail("%s: a response before created", reading->who);
    }
    if (out->n_events > 0)
        reading_take_events(reading, message);
    else if (!out->created && !out->canceled)
        reading_check_progress(reading, out->header.revision, "progress at");
}

void reading_take_object(struct reading *reading, int64_t rev, struct belfry_bytes name, bool is_delete)
{
    char key[96];
    feed_object_key(name, key, sizeof(key));
    reading_expect(reading, rev, belfry_bytes_str(key), is_delete);
}

void reading_take_key(struct reading *reading, int64_t rev, struct belfry_bytes key, bool is_delete)
{
    reading_expect(reading, rev, key, is_delete);
}

bool reading_is_whole(const struct reading *reading, int64_t to_rev)
{
    size_t at = reading->at;
    const struct feed_entry *entry = feed_next(&at, reading->next_rev, reading->keys);
    return entry == NULL || entry->rev > to_rev;
}
