/* src/client/follow_test.c: the follow machine against a small store, over random histories and interleavings. A
 * consumer that applies all reports must have the store's state at every "synced" and after every later change. */
#include "client/follow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/rng.h"
#include "support/refuse.h"
#include "wire/rpc.pb-c.h"
#include "wire/write.h"

#define SEEDS      2000
#define KEYS       24
#define EVENTS_MAX 4096
#define STEPS      220
#define SETTLE_MAX 4000 /* steps after which a run must have settled */
#define SEED_MULT  0x9e3779b97f4a7c15u

enum plant { PLANT_NONE, PLANT_LOSE, PLANT_STALE, PLANT_KEEP_VANISHED };

struct change {
    int64_t rev;
    int key;
    bool is_delete;
};

/* The store. */
static struct world {
    struct change changes[EVENTS_MAX];
    size_t n;
    int64_t first, head, compacted; /* revisions start at `first` */
} world;

/* One run. */
static struct run {
    struct belfry_rng rng;
    struct belfry_follow *follow;
    struct belfry_inbox inbox;
    struct belfry_buf bytes;
    bool page_sent;
    char page_key[64];
    struct belfry_follow_page page;
    bool watching;
    int64_t next; /* the watch's next revision */
    /* the consumer */
    int64_t holds[KEYS]; /* revision of what it holds; 0: nothing */
    int64_t told[KEYS];  /* the newest revision told in this epoch */
    bool told_by_row[KEYS];
    bool was_synced;
    enum plant plant;
    bool planted;
    const char *wrong; /* the first rule that was broken */
    /* what was met, over all runs */
    size_t n_synced, n_compacted_pages, n_restarts, n_vanished, n_dropped, n_pages, n_after;
} run;

static bool chance(unsigned percent)
{
    return belfry_rng_below(&run.rng, 100) < percent;
}

static void broken(const char *what)
{
    if (run.wrong == NULL)
        run.wrong = what;
}

/* Keys have zeroes and high bytes in them, and one is the start of the next. */
static struct belfry_bytes key_name(int key)
{
    static char names[KEYS][8];
    size_t len = (size_t)snprintf(names[key], sizeof(names[key]), "k%02d", key / 2);
    if (key % 2 == 1)
        names[key][len++] = key % 4 == 1 ? '\0' : (char)0xff;
    return belfry_bytes_of(names[key], len);
}

static int key_of(struct belfry_bytes name)
{
    for (int key = 0; key < KEYS; key++) {
        if (belfry_bytes_equal(key_name(key), name))
            return key;
    }
    broken("a key that is not in the store");
    return 0;
}

/* ---- the store ---- */

/* The revision that wrote `key` as of `rev`; 0: it is not there. */
static int64_t holds_at(int key, int64_t rev)
{
    int64_t mod = 0;
    for (size_t i = 0; i < world.n && world.changes[i].rev <= rev; i++) {
        if (world.changes[i].key == key)
            mod = world.changes[i].is_delete ? 0 : world.changes[i].rev;
    }
    return mod;
}

static void write_one(void)
{
    if (world.n + KEYS > EVENTS_MAX)
        return;
    int64_t rev = ++world.head;
    size_t many = chance(80) ? 1 : 1 + belfry_rng_below(&run.rng, 4);
    int key = (int)belfry_rng_below(&run.rng, KEYS);
    bool again = false;
    for (size_t i = 0; i < many; i++, again = chance(20), key = again ? key : (key + 5) % KEYS) {
        bool is_there = holds_at(key, rev) != 0;
        bool is_delete = is_there && (again || chance(40)); /* no key is put twice in one revision */
        world.changes[world.n++] = (struct change){rev, key, is_delete};
    }
}

/* Another store, or a rewritten past: revisions may be lower than before. */
static void make_world(void)
{
    world.n = 0;
    world.first = world.head = 1 + (int64_t)belfry_rng_below(&run.rng, 50);
    world.compacted = world.head;
    for (size_t n = belfry_rng_below(&run.rng, 60); n > 0; n--)
        write_one();
}

/* ---- the consumer ---- */

/* `is_row`: of a page. A revision that changes a key again tells it again. */
static void tell(int key, int64_t rev, bool is_delete, bool is_row)
{
    if (run.told[key] > rev || (run.told[key] == rev && (is_row || run.told_by_row[key])))
        broken("something stale told after something newer");
    run.told[key] = rev;
    run.told_by_row[key] = is_row;
    run.holds[key] = is_delete ? 0 : rev;
}

static void compare(void)
{
    int64_t rev = belfry_follow_rev(run.follow);
    size_t n = 0;
    for (int key = 0; key < KEYS; key++) {
        n += run.holds[key] != 0;
        if (run.holds[key] != holds_at(key, rev))
            broken("the consumer's state is not the store's");
    }
    if (n != belfry_follow_n_keys(run.follow))
        broken("the memory of keys is not the state");
}

static bool bit(const uint8_t *mask, size_t i)
{
    return mask == NULL || (mask[i / 8] >> (i % 8) & 1) != 0;
}

/* ---- pages ---- */

static struct belfry_bytes make_page(int64_t rev, size_t limit, struct change *rows, size_t *n_rows)
{
    static Mvccpb__KeyValue kvs[KEYS];
    static Mvccpb__KeyValue *list[KEYS];
    static uint8_t packed[8192];
    Etcdserverpb__ResponseHeader header = ETCDSERVERPB__RESPONSE_HEADER__INIT;
    Etcdserverpb__RangeResponse page = ETCDSERVERPB__RANGE_RESPONSE__INIT;
    header.revision = world.head;
    page.header = &header;
    page.kvs = list;
    for (int key = 0; key < KEYS; key++) {
        struct belfry_bytes name = key_name(key);
        int64_t mod = holds_at(key, rev);
        if (mod == 0 || belfry_bytes_cmp(name, run.page.key) < 0)
            continue;
        if (page.n_kvs == limit) {
            page.more = true;
            break;
        }
        Mvccpb__KeyValue *kv = &kvs[page.n_kvs];
        mvccpb__key_value__init(kv);
        kv->key.data = (uint8_t *)(uintptr_t)name.data;
        kv->key.len = name.len;
        kv->mod_revision = mod;
        rows[page.n_kvs] = (struct change){mod, key, false};
        list[page.n_kvs++] = kv;
    }
    *n_rows = page.n_kvs;
    return belfry_bytes_of(packed, etcdserverpb__range_response__pack(&page, packed));
}

static void send_page(void)
{
    struct belfry_follow_page page;
    if (run.page_sent || !belfry_follow_wants_page(run.follow, &page))
        return;
    assert_true(page.key.len <= sizeof(run.page_key) && page.limit >= 1);
    memcpy(run.page_key, page.key.data, page.key.len);
    run.page = page;
    run.page.key.data = run.page_key;
    run.page_sent = true;
}

static enum belfry_err answer_page(void)
{
    struct change rows[KEYS];
    size_t n_rows, n_kept, kept = 0;
    const uint8_t *mask;
    if (!run.page_sent)
        return BELFRY_OK;
    run.page_sent = false;
    if (run.page.rev != 0 && run.page.rev < world.compacted) {
        run.n_compacted_pages++;
        belfry_follow_on_page_compacted(run.follow);
        return BELFRY_OK;
    }
    size_t limit = 1 + belfry_rng_below(&run.rng, 7);
    struct belfry_bytes page = make_page(run.page.rev != 0 ? run.page.rev : world.head, limit, rows, &n_rows);
    enum belfry_err err = belfry_follow_on_page(run.follow, page, &mask, &n_kept);
    if (err != BELFRY_OK)
        return err;
    for (size_t i = 0; i < n_rows; i++) {
        bool keep = bit(mask, i);
        kept += keep;
        run.n_dropped += !keep;
        if (!keep && run.plant == PLANT_STALE) {
            run.planted = true;
            keep = true;
        }
        if (keep)
            tell(rows[i].key, rows[i].rev, false, true);
    }
    if (kept != n_kept)
        broken("n_kept is not what the mask says");
    run.n_pages++;
    if (belfry_follow_wants_watch(run.follow) != 0) {
        run.next = belfry_follow_wants_watch(run.follow);
        belfry_follow_watching(run.follow);
        run.watching = true;
    }
    return BELFRY_OK;
}

/* ---- the watch ---- */

static enum belfry_err add_event(const struct change *change)
{
    struct belfry_wire_event event = {.is_delete = change->is_delete,
                                      .kv = {.key = key_name(change->key), .mod_rev = change->rev}};
    size_t len = belfry_write_event_size(&event);
    uint8_t *to;
    enum belfry_err err = belfry_buf_reserve(&run.bytes, BELFRY_WRITE_EVENT_FIELD_MAX + len, &to);
    if (err != BELFRY_OK)
        return err;
    uint8_t *end = belfry_write_event(&event, belfry_write_event_field(len, to));
    belfry_buf_grown(&run.bytes, (size_t)(end - to));
    return BELFRY_OK;
}

/* All events of `rev`, as a group out of an inbox. */
static enum belfry_err make_group(int64_t rev, struct belfry_inbox_group *out)
{
    struct belfry_wire_watch head = {.header = {.revision = world.head}};
    struct belfry_blob *blob;
    enum belfry_err err = BELFRY_OK;
    belfry_buf_clear(&run.bytes);
    for (size_t i = 0; i < world.n && err == BELFRY_OK; i++) {
        if (world.changes[i].rev != rev)
            continue;
        err = add_event(&world.changes[i]);
        head.n_events++;
    }
    if (err == BELFRY_OK)
        err = belfry_blob_copy(belfry_buf_bytes(&run.bytes), &blob);
    if (err != BELFRY_OK)
        return err;
    err = belfry_inbox_add(&run.inbox, blob, &head);
    belfry_blob_unref(blob);
    return err == BELFRY_OK ? belfry_inbox_next(&run.inbox, rev, false, out) : err;
}

static void tell_changes(const struct belfry_inbox_group *group, const uint8_t *mask, size_t n_kept)
{
    struct belfry_inbox_walk walk;
    struct belfry_wire_event event;
    size_t i = 0, kept = 0;
    belfry_inbox_walk(group, &walk);
    while (belfry_inbox_walk_next(&walk, &event) == BELFRY_OK) {
        if (bit(mask, i++)) {
            kept++;
            tell(key_of(event.kv.key), event.kv.mod_rev, event.is_delete, false);
        } else {
            run.n_dropped++;
        }
    }
    if (kept != n_kept)
        broken("n_kept is not what the mask says");
}

static enum belfry_err change(void)
{
    if (!run.watching || belfry_follow_sweeping(run.follow) || run.next > world.head)
        return BELFRY_OK;
    struct belfry_inbox_group group;
    const uint8_t *mask;
    size_t n_kept;
    int64_t rev = run.next++;
    bool live = belfry_follow_live(run.follow);
    if (run.plant == PLANT_LOSE && !run.planted && chance(5)) {
        run.planted = true;
        return BELFRY_OK;
    }
    enum belfry_err err = make_group(rev, &group);
    if (err == BELFRY_OK)
        err = belfry_follow_on_changes(run.follow, &group, &mask, &n_kept);
    if (err != BELFRY_OK)
        return err;
    tell_changes(&group, mask, n_kept);
    belfry_inbox_take(&run.inbox, &group);
    if (live) {
        run.n_after++;
        if (belfry_follow_rev(run.follow) != rev)
            broken("after a change the state is not of its revision");
        compare();
    }
    return BELFRY_OK;
}

static void progress(void)
{
    if (run.watching && !belfry_follow_sweeping(run.follow) && run.next > world.head)
        belfry_follow_on_progress(run.follow, world.head);
}

static void restart(void)
{
    belfry_follow_restart(run.follow);
    run.n_restarts++;
    run.watching = run.page_sent = false; /* the page under way is called off */
    memset(run.told, 0, sizeof(run.told));
}

static bool lost_history(void)
{
    return run.watching && run.next < world.compacted;
}

/* ---- sweeping ---- */

static enum belfry_err sweep(void)
{
    const struct belfry_bytes *keys;
    size_t n;
    if (!belfry_follow_sweeping(run.follow))
        return BELFRY_OK;
    enum belfry_err err = belfry_follow_sweep(run.follow, &keys, &n);
    if (err != BELFRY_OK)
        return err;
    for (size_t i = 0; i < n; i++) {
        int key = key_of(keys[i]);
        if (run.holds[key] == 0)
            broken("a key vanished that was never told");
        if (run.told[key] != 0)
            broken("a key vanished that was told in this epoch");
        run.n_vanished++;
        if (run.plant == PLANT_KEEP_VANISHED)
            run.planted = true;
        else
            run.holds[key] = 0;
    }
    if (n == 0) {
        run.n_synced++;
        compare();
    }
    return BELFRY_OK;
}

/* ---- a run ---- */

static enum belfry_err step(bool settle)
{
    uint64_t what = belfry_rng_below(&run.rng, settle ? 60 : 100);
    if (lost_history() && chance(50)) {
        restart();
        return BELFRY_OK;
    }
    if (what < 15)
        send_page();
    else if (what < 30)
        return answer_page();
    else if (what < 45 && !lost_history())
        return change();
    else if (what < 50 && !lost_history())
        progress();
    else if (what < 60)
        return sweep();
    else if (what < 90)
        write_one();
    else if (what < 97)
        world.compacted += (int64_t)belfry_rng_below(&run.rng, (uint64_t)(world.head - world.compacted) + 1);
    else if (chance(25)) {
        make_world();
        restart();
    }
    return BELFRY_OK;
}

static bool settled(void)
{
    return belfry_follow_live(run.follow) && run.watching && run.next > world.head && !lost_history();
}

static enum belfry_err run_seed(uint64_t seed, enum plant plant)
{
    struct belfry_follow_opts opts = {
        .key = belfry_bytes_str("k"), .range_end = belfry_bytes_str("l"), .page_bytes = 100, .seed = seed};
    run.rng.state = seed * SEED_MULT + 1;
    run.plant = plant;
    run.planted = run.page_sent = run.watching = false;
    run.wrong = NULL;
    memset(run.holds, 0, sizeof(run.holds));
    memset(run.told, 0, sizeof(run.told));
    belfry_inbox_init(&run.inbox);
    belfry_buf_init(&run.bytes);
    make_world();
    enum belfry_err err = belfry_follow_create(&opts, &run.follow);
    for (int i = 0; i < STEPS && err == BELFRY_OK; i++)
        err = step(false);
    int steps = 0;
    while (err == BELFRY_OK && !settled() && steps++ < SETTLE_MAX)
        err = step(true);
    if (err == BELFRY_OK && steps >= SETTLE_MAX)
        broken("it does not come to an end");
    if (err == BELFRY_OK && run.wrong == NULL)
        compare();
    if (err == BELFRY_OK || run.follow != NULL)
        belfry_follow_destroy(run.follow);
    run.follow = NULL;
    belfry_inbox_fini(&run.inbox);
    belfry_buf_fini(&run.bytes);
    return err;
}

/* ---- tests ---- */

static void consumer_holds_the_stores_state_over_random_histories(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        assert_int_equal(run_seed(seed, PLANT_NONE), BELFRY_OK);
        if (run.wrong != NULL)
            fail_msg("seed %llu: %s", (unsigned long long)seed, run.wrong);
    }
    print_message("seeds 1 to %d: %zu pages, %zu compacted, %zu restarts, %zu vanished, %zu dropped, %zu synced, %zu "
                  "changes after\n",
                  SEEDS, run.n_pages, run.n_compacted_pages, run.n_restarts, run.n_vanished, run.n_dropped,
                  run.n_synced, run.n_after);
    assert_true(run.n_compacted_pages > SEEDS / 10 && run.n_restarts > SEEDS / 10 && run.n_vanished > SEEDS);
    assert_true(run.n_dropped > SEEDS && run.n_synced > SEEDS && run.n_after > SEEDS);
}

static void planted_errors_are_caught(void **state)
{
    static const enum plant plants[] = {PLANT_LOSE, PLANT_STALE, PLANT_KEEP_VANISHED};
    (void)state;
    for (size_t i = 0; i < sizeof(plants) / sizeof(plants[0]); i++) {
        size_t planted = 0, caught = 0;
        for (uint64_t seed = 1; seed <= 200; seed++) {
            assert_int_equal(run_seed(seed, plants[i]), BELFRY_OK);
            planted += run.planted;
            caught += run.planted && run.wrong != NULL;
        }
        print_message("plant %d: %zu planted, %zu caught\n", (int)plants[i], planted, caught);
        assert_true(planted > 20 && caught * 4 > planted);
    }
}

static struct belfry_follow *make_follow(size_t page_bytes)
{
    struct belfry_follow_opts opts = {
        .key = belfry_bytes_str("k"), .range_end = belfry_bytes_str("l"), .page_bytes = page_bytes};
    struct belfry_follow *follow;
    assert_int_equal(belfry_follow_create(&opts, &follow), BELFRY_OK);
    return follow;
}

static void empty_store_is_synced_after_one_page(void **state)
{
    const uint8_t *mask;
    const struct belfry_bytes *keys;
    struct belfry_follow_page page;
    size_t n;
    (void)state;
    struct belfry_follow *follow = make_follow(1000);
    assert_true(belfry_follow_wants_page(follow, &page));
    assert_int_equal(page.rev, 0);
    assert_true(belfry_bytes_equal(page.key, belfry_bytes_str("k")));
    assert_int_equal(belfry_follow_wants_watch(follow), 0);
    struct belfry_bytes response = belfry_bytes_of("\x0a\x02\x18\x07", 4); /* header.revision 7 */
    assert_int_equal(belfry_follow_on_page(follow, response, &mask, &n), BELFRY_OK);
    assert_int_equal(n, 0);
    assert_false(belfry_follow_wants_page(follow, &page));
    assert_int_equal(belfry_follow_wants_watch(follow), 8);
    assert_false(belfry_follow_sweeping(follow));
    belfry_follow_watching(follow);
    assert_int_equal(belfry_follow_wants_watch(follow), 0);
    assert_true(belfry_follow_sweeping(follow));
    assert_int_equal(belfry_follow_sweep(follow, &keys, &n), BELFRY_OK);
    assert_int_equal(n, 0);
    assert_true(belfry_follow_live(follow));
    assert_int_equal(belfry_follow_rev(follow), 7);
    belfry_follow_destroy(follow);
}

static void page_without_sense_is_a_protocol_error(void **state)
{
    static const struct belfry_bytes bad[] = {
        {"", 0},                                      /* no header */
        {"\x0a\x02\x18\x00", 4},                      /* revision 0 */
        {"\x0a\x02\x18\x07\x18\x01", 6},              /* more, and no rows */
        {"\x0a\x02\x18\x07\x12\x05\x0a\x09", 8},      /* a row that is cut */
        {"\x0a\x02\x18\x07\x12\x03\x0a\x09k", 9},     /* a key that is cut */
        {"\x0a\x02\x18", 3},                          /* a header that is cut */
        {"\x0a\x02\x18\x07\x12\x03\x0a\x01k\x18", 10} /* cut behind the rows */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const uint8_t *mask;
        size_t n;
        struct belfry_follow *follow = make_follow(1000);
        assert_int_equal(belfry_follow_on_page(follow, bad[i], &mask, &n), BELFRY_ERR_PROTOCOL);
        belfry_follow_destroy(follow);
    }
}

/* More vanish than one slice holds; a restart between slices forgets none and tells none twice. */
static void vanished_keys_come_in_slices_each_once(void **state)
{
    enum { MANY = BELFRY_FOLLOW_SLICE * 2 + 10 };
    static uint8_t page[MANY * 16];
    static bool gone[MANY];
    const uint8_t *mask;
    const struct belfry_bytes *keys;
    size_t n, len = 4, told = 0;
    (void)state;
    memcpy(page, "\x0a\x02\x18\x07", 4);
    for (int i = 0; i < MANY; i++) {
        char text[24];
        snprintf(text, sizeof(text), "\x12\x08\x0a\x04k%03d\x18\x05", i);
        memcpy(page + len, text, 10);
        len += 10;
    }
    memset(gone, 0, sizeof(gone));
    struct belfry_follow *follow = make_follow(1000);
    struct belfry_bytes full = belfry_bytes_of(page, len), empty = belfry_bytes_of("\x0a\x02\x18\x03", 4);
    assert_int_equal(belfry_follow_on_page(follow, full, &mask, &n), BELFRY_OK);
    assert_int_equal(n, MANY);
    for (int round = 0; round < 2; round++) {
        belfry_follow_watching(follow);
        belfry_follow_restart(follow); /* the second time between two slices */
        assert_int_equal(belfry_follow_on_page(follow, empty, &mask, &n), BELFRY_OK);
        belfry_follow_watching(follow);
        while (belfry_follow_sweeping(follow)) {
            assert_int_equal(belfry_follow_sweep(follow, &keys, &n), BELFRY_OK);
            assert_true(n <= BELFRY_FOLLOW_SLICE);
            for (size_t i = 0; i < n; i++) {
                char digits[4] = {keys[i].data[1], keys[i].data[2], keys[i].data[3], '\0'};
                int key = atoi(digits);
                assert_false(gone[key]);
                gone[key] = true;
            }
            told += n;
            if (round == 0 && n > 0)
                break;
        }
    }
    assert_int_equal(told, MANY);
    assert_int_equal(belfry_follow_n_keys(follow), 0);
    belfry_follow_destroy(follow);
}

static void page_limit_follows_the_size_of_rows(void **state)
{
    static char big[4096];
    static const struct {
        size_t page_bytes, row_bytes;
        int64_t limit;
    } table[] = {{1024 * 1024, 10, 10000}, {100000, 1000, 97}, {100, 2000, 1}, {0, 10, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        Etcdserverpb__ResponseHeader header = ETCDSERVERPB__RESPONSE_HEADER__INIT;
        Etcdserverpb__RangeResponse response = ETCDSERVERPB__RANGE_RESPONSE__INIT;
        Mvccpb__KeyValue kv = MVCCPB__KEY_VALUE__INIT, *kvs[] = {&kv};
        struct belfry_follow_page page;
        const uint8_t *mask;
        uint8_t packed[8192];
        size_t n;
        header.revision = 9;
        kv.key = (ProtobufCBinaryData){1, (uint8_t *)big};
        kv.value = (ProtobufCBinaryData){table[i].row_bytes, (uint8_t *)big};
        kv.mod_revision = 5;
        response.header = &header;
        response.n_kvs = 1;
        response.kvs = kvs;
        response.more = true;
        struct belfry_bytes bytes = belfry_bytes_of(packed, etcdserverpb__range_response__pack(&response, packed));
        struct belfry_follow *follow = make_follow(table[i].page_bytes);
        assert_int_equal(belfry_follow_on_page(follow, bytes, &mask, &n), BELFRY_OK);
        assert_true(belfry_follow_wants_page(follow, &page));
        assert_in_range(page.limit, (table[i].limit * 9 + 9) / 10, table[i].limit * 11 / 10 + 1);
        assert_int_equal(page.rev, 9);
        belfry_follow_destroy(follow);
    }
}

static uint64_t refused_seed;

static enum belfry_err scenario(void)
{
    return run_seed(refused_seed, PLANT_NONE);
}

static void refused_memory_leaks_nothing(void **state)
{
    (void)state;
    for (refused_seed = 3; refused_seed < 5; refused_seed++)
        assert_true(refuse_sweep(scenario) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(consumer_holds_the_stores_state_over_random_histories),
        cmocka_unit_test(planted_errors_are_caught),
        cmocka_unit_test(empty_store_is_synced_after_one_page),
        cmocka_unit_test(page_without_sense_is_a_protocol_error),
        cmocka_unit_test(vanished_keys_come_in_slices_each_once),
        cmocka_unit_test(page_limit_follows_the_size_of_rows),
        cmocka_unit_test(refused_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
