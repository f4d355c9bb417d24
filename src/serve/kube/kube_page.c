/* src/serve/kube/kube_page.c */
#include "serve/kube/kube_page.h"

#include <limits.h>
#include <stdlib.h>

#include "base/clock.h"
#include "core/key_range.h"
#include "kube/needle.h"
#include "net/zlib_mem.h"
#include "wire/scan.h"

#define NS_PER_MS 1000000
#define ROW_LOOKS 32 /* rows between two looks at the clock */

#define PACK_LEVEL     1 /* the fastest: it is the one reader thread that packs */
#define PACK_MEM_LEVEL 8 /* zlib's default */
#define PACK_STEP      (16 * 1024)

/* The result of one read; the page takes it over when everything succeeded. */
struct reading {
    struct kube_page *page;
    struct kube_render render;
    struct kube_needle needle; /* of the selector */
    enum belfry_err err;       /* of a row */
    size_t n, skipped, undecodable;
    struct belfry_buf last; /* the key of the last row */
    size_t n_rows;
    uint64_t until_ns;
    struct store_page got;
    size_t gap; /* of the first page, if the list is led: where its version belongs */
};

/* ---- the range ---- */

enum belfry_err kube_page_aim(struct kube_page *page, struct belfry_bytes namespace, struct belfry_bytes name)
{
    enum belfry_err err = kube_resource_key(page->resource, namespace, name, &page->key, &page->filter);
    if (err == BELFRY_OK)
        err = belfry_buf_append(&page->namespace, namespace.data, namespace.len);
    if (err != BELFRY_OK)
        return err;
    struct belfry_bytes key = belfry_buf_bytes(&page->key);
    bool is_relative = page->resource->is_verbatim && name.len == 0; /* as API servers' tokens are */
    page->base = is_relative ? key.len : strlen(page->resource->prefix);
    if (name.len == 0 || page->filter)
        return range_prefix_end(key, &page->end);
    err = belfry_buf_append(&page->end, key.data, key.len);
    return err != BELFRY_OK ? err : belfry_buf_append(&page->end, "", 1);
}

struct belfry_bytes kube_page_start(const struct kube_page *page)
{
    struct belfry_bytes key = belfry_buf_bytes(&page->key);
    return page->base == 0 ? key : belfry_bytes_of(key.data + page->base, key.len - page->base);
}

bool kube_page_skip_to(struct kube_page *page, struct belfry_bytes start, enum belfry_err *err)
{
    struct belfry_buf key = {0};
    struct belfry_bytes end = belfry_buf_bytes(&page->end);
    *err = belfry_buf_append(&key, belfry_buf_bytes(&page->key).data, page->base);
    if (*err == BELFRY_OK)
        *err = belfry_buf_append(&key, start.data, start.len);
    struct belfry_bytes at = belfry_buf_bytes(&key);
    bool inside = *err == BELFRY_OK && belfry_bytes_cmp(at, belfry_buf_bytes(&page->key)) >= 0 &&
                  (end.len == 0 || belfry_bytes_cmp(at, end) < 0);
    if (inside) {
        struct belfry_buf was = page->key;
        page->key = key;
        key = was;
    }
    belfry_buf_fini(&key);
    return inside;
}

/* ---- rows ---- */

static bool is_in_namespace(const struct kube_page *page, struct belfry_bytes key)
{
    struct belfry_bytes namespace, name;
    return kube_resource_parts(page->resource, key, &namespace, &name) &&
           belfry_bytes_equal(namespace, belfry_buf_bytes(&page->namespace));
}

static enum belfry_err write_object(struct reading *reading, const struct kube_object *object, int64_t rev)
{
    struct belfry_buf *text = &reading->page->text;
    bool first = reading->n == 0;
    enum belfry_err err = BELFRY_OK;
    reading->n++;
    switch (reading->page->as) {
    case KUBE_PAGE_OBJECT:
        err = kube_render_object(&reading->render, object, rev, text);
        if (err == BELFRY_OK && reading->page->resource->is_verbatim)
            err = belfry_buf_append(text, "\n", 1); /* as API servers write it */
        return err;
    case KUBE_PAGE_EVENTS:
        return kube_render_event(&reading->render, KUBE_ADDED, object, rev, first, text);
    case KUBE_PAGE_ITEMS:
        break;
    }
    if (!first)
        err = belfry_buf_append(text, ",", 1);
    return err != BELFRY_OK ? err : kube_render_item(&reading->render, object, rev, text);
}

/* Makes an object of a row. `lent` is room for one that need not be copied: *out then points to it. */
static enum belfry_err make_object(const struct kube_page *page, const struct kube_stored *stored,
                                   struct kube_object *lent, struct kube_object **out)
{
    if (!page->resource->is_verbatim || page->selector != NULL || page->view == KUBE_VIEW_TABLE)
        return kube_object_make(page->resource, page->version, stored, out);
    *out = lent;
    *lent = (struct kube_object){.head = stored->value};
    bool is_text = page->view == KUBE_VIEW_OBJECT || kube_object_lend(stored->value, lent);
    return is_text ? BELFRY_OK : BELFRY_ERR_INVALID;
}

/* A row that is not an object of the resource, or cannot be decoded, counts as absent. */
static enum belfry_err read_row(struct reading *reading, struct belfry_bytes key, struct belfry_bytes raw)
{
    const struct kube_page *page = reading->page;
    struct belfry_wire_kv kv;
    if (page->filter && !is_in_namespace(page, key))
        return BELFRY_OK;
    enum belfry_err err = belfry_scan_kv(raw, &kv);
    if (err == BELFRY_OK && !kube_needle_may_match(&reading->needle, kv.value))
        return BELFRY_OK;
    struct kube_object *object = NULL, lent;
    if (err == BELFRY_OK) {
        struct kube_stored stored = {key, kv.value, kv.create_rev, kv.mod_rev, kv.version};
        err = make_object(page, &stored, &lent, &object);
    }
    if (err != BELFRY_OK) {
        reading->skipped += err == BELFRY_ERR_NOT_FOUND;
        reading->undecodable += err != BELFRY_ERR_NOT_FOUND && err != BELFRY_ERR_NOMEM;
        return err == BELFRY_ERR_NOMEM ? err : BELFRY_OK;
    }
    if (page->selector == NULL || kube_selector_matches(page->selector, &object->attributes))
        err = write_object(reading, object, kv.mod_rev);
    if (object != &lent)
        kube_object_unref(object);
    return err;
}

static bool on_page_row(struct belfry_bytes key, struct belfry_bytes kv, void *user)
{
    struct reading *reading = user;
    belfry_buf_clear(&reading->last);
    reading->err = belfry_buf_append(&reading->last, key.data, key.len);
    if (reading->err == BELFRY_OK)
        reading->err = read_row(reading, key, kv);
    bool late = ++reading->n_rows % ROW_LOOKS == 0 && belfry_clock_ns() > reading->until_ns;
    bool full = belfry_buf_len(&reading->page->text) >= KUBE_PAGE_BYTES;
    return reading->err == BELFRY_OK && reading->n < reading->page->limit && !late && !full;
}

/* ---- a snapshot ---- */

static enum belfry_err read_rows(struct reading *reading, struct store *store)
{
    struct kube_page *page = reading->page;
    size_t times = page->selector == NULL ? 1 : KUBE_PAGE_SELECTS; /* most rows may be skipped */
    struct store_read read = {.key = belfry_buf_bytes(&page->key),
                              .end = belfry_buf_bytes(&page->end),
                              .rev = page->rev,
                              .max_rows = times * KUBE_PAGE_ROWS,
                              .max_bytes = times * KUBE_PAGE_BYTES,
                              .max_walk = KUBE_PAGE_WALK};
    enum belfry_err err = store->api->range(store, &read, on_page_row, reading, &reading->got);
    return err != BELFRY_OK ? err : reading->err;
}

/* The rows are one snapshot; the bounds are read before and after it. They are valid for the rows if the past is the
 * same before and after, because within one past revisions only grow. */
static enum belfry_err read_snapshot(struct reading *reading, struct store *store)
{
    struct kube_page *page = reading->page;
    struct store_meta before, after;
    store->api->snapshot(store, &before);
    page->at = before.revision;
    if (before.revision == 0 || (page->rev == 0 && before.revision < page->floor))
        return BELFRY_ERR_AGAIN;
    if (page->rev != 0 && page->origin.past != 0 && before.past != page->origin.past) {
        page->at = before.oldest - 1;
        return BELFRY_ERR_COMPACTED;
    }
    enum belfry_err err = read_rows(reading, store);
    store->api->snapshot(store, &after);
    bool rewritten = after.past != before.past || (page->begun && after.past != page->past);
    page->at = err == BELFRY_ERR_AGAIN ? after.revision : reading->got.at;
    if (err == BELFRY_ERR_COMPACTED || (rewritten && page->begun)) {
        page->at = after.oldest - 1;
        return BELFRY_ERR_COMPACTED;
    }
    page->past = after.past;
    return rewritten ? BELFRY_ERR_AGAIN : err;
}

/* ---- around the rows ---- */

static enum belfry_err write_begin(struct reading *reading)
{
    struct kube_page *page = reading->page;
    if (page->begun || page->as != KUBE_PAGE_ITEMS)
        return BELFRY_OK;
    page->is_led = page->limit == SIZE_MAX && kube_render_may_lead(&reading->render);
    return page->is_led ? kube_render_led_begin(&reading->render, &page->text, &reading->gap)
                        : kube_render_list_begin(&reading->render, &page->text);
}

/* `cut`: the limit was reached, and rows are left. With a selector, or a namespace to compare, rows are not items. */
static enum belfry_err write_end(struct reading *reading, struct store *store, bool cut)
{
    struct kube_page *page = reading->page;
    struct belfry_buf token = {0};
    if (page->is_led)
        return kube_render_led_end(&page->text);
    bool plain = !page->filter && (page->selector == NULL || kube_selector_is_everything(page->selector));
    int64_t rest = cut && plain ? kube_page_count_rest(page, store) : -1;
    struct kube_token_origin origin = {page->origin.process, page->past};
    enum belfry_err err = cut ? kube_token_write(page->rev, origin, kube_page_start(page), &token) : BELFRY_OK;
    if (err == BELFRY_OK)
        err = kube_render_list_end(&reading->render, page->rev, belfry_buf_bytes(&token), rest, &page->text);
    belfry_buf_fini(&token);
    return err;
}

/* The texts of all pages are one gzip member, if the first is large enough. Some of a text may be held back until the
 * next; the last flushes everything. Errors: BELFRY_ERR_NOMEM: the member cannot be continued. */
static enum belfry_err kube_page_pack(struct kube_page *page)
{
    if (!page->begun && page->gzip && belfry_buf_len(&page->text) > KUBE_PACK_BYTES) {
        z_stream *made = calloc(1, sizeof(*made));
        if (made == NULL)
            return BELFRY_ERR_NOMEM;
        belfry_zlib_mem(made);
        if (deflateInit2(made, PACK_LEVEL, Z_DEFLATED, BELFRY_ZLIB_GZIP, PACK_MEM_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK) {
            free(made);
            return BELFRY_ERR_NOMEM;
        }
        page->gzip_stream = made;
        page->packed = true;
    }
    if (!page->packed)
        return BELFRY_OK;
    z_stream *z = page->gzip_stream;
    struct belfry_buf packed = {0};
    enum belfry_err err = belfry_buf_len(&page->text) > UINT_MAX ? BELFRY_ERR_NOMEM : BELFRY_OK;
    z->next_in = (const Bytef *)belfry_buf_bytes(&page->text).data;
    z->avail_in = (uInt)belfry_buf_len(&page->text);
    z->avail_out = 0;
    while (err == BELFRY_OK && z->avail_out == 0) { /* until it leaves room: then it has nothing more to give */
        uint8_t *to;
        err = belfry_buf_reserve(&packed, PACK_STEP, &to);
        if (err != BELFRY_OK)
            break;
        z->next_out = to;
        z->avail_out = PACK_STEP;
        deflate(z, page->more ? Z_NO_FLUSH : Z_FINISH);
        belfry_buf_grown(&packed, PACK_STEP - z->avail_out);
    }
    belfry_buf_fini(&page->text);
    page->text = packed;
    return err;
}

static enum belfry_err kube_page_read_once(struct reading *reading, struct store *store)
{
    struct kube_page *page = reading->page;
    enum belfry_err err = write_begin(reading);
    if (err == BELFRY_OK)
        err = read_snapshot(reading, store);

    /* the store needs more time to find the first row; the first page with rows decides the form of the list */
    if (err == BELFRY_OK && reading->n_rows == 0 && reading->got.more) {
        belfry_buf_clear(&page->text);
        page->more = true;
        return BELFRY_OK;
    }

    /* the range continues after the last key */
    if (err == BELFRY_OK && belfry_buf_len(&reading->last) > 0) {
        err = belfry_buf_append(&reading->last, "", 1);
        struct belfry_buf was = page->key;
        if (err == BELFRY_OK) {
            page->key = reading->last;
            reading->last = was;
        }
    }
    if (err != BELFRY_OK)
        return err;

    /* what was read is the page's now */
    bool cut = reading->got.more && reading->n >= page->limit;
    page->rev = reading->got.at;
    page->n = reading->n;
    page->skipped = reading->skipped;
    page->undecodable = reading->undecodable;
    page->more = reading->got.more && !cut;

    /* what stands around the rows, and gzip */
    if (page->as == KUBE_PAGE_ITEMS && page->is_led && !page->begun)
        kube_render_led_version(&page->text, reading->gap, page->rev);
    if (page->as == KUBE_PAGE_ITEMS && !page->more)
        err = write_end(reading, store, cut);
    if (err == BELFRY_OK)
        err = kube_page_pack(page);
    page->begun = true;
    return err;
}

void kube_page_read(struct kube_page *page, struct store *store)
{
    struct reading reading = {
        .page = page, .n = page->n, .until_ns = belfry_clock_ns() + (uint64_t)KUBE_PAGE_MS * NS_PER_MS};
    reading.render = (struct kube_render){
        .resource = page->resource, .version = page->version, .view = page->view, .include = page->include};
    reading.needle = kube_needle_of(page->selector, page->version);
    page->skipped = page->undecodable = 0;
    page->err = kube_page_read_once(&reading, store);
    if (page->err != BELFRY_OK)
        belfry_buf_clear(&page->text);
    belfry_buf_fini(&reading.last);
}

/* ---- what is left ---- */

int64_t kube_page_count_rest(const struct kube_page *page, struct store *store)
{
    struct store_read read = {.key = belfry_buf_bytes(&page->key),
                              .end = belfry_buf_bytes(&page->end),
                              .rev = page->rev,
                              .max_walk = KUBE_PAGE_WALK,
                              .counted = true};
    struct store_page got;
    if (store->api->range(store, &read, NULL, NULL, &got) != BELFRY_OK || got.more)
        return -1;
    return (int64_t)got.count;
}

void kube_page_fini(struct kube_page *page)
{
    kube_selector_unref(page->selector);
    kube_resource_unref(page->resource);
    if (page->gzip_stream != NULL)
        deflateEnd(page->gzip_stream);
    free(page->gzip_stream);
    belfry_buf_fini(&page->key);
    belfry_buf_fini(&page->end);
    belfry_buf_fini(&page->namespace);
    belfry_buf_fini(&page->text);
    *page = (struct kube_page){0};
}
