/* fuzz/kapi_stream.c: any bytes as the body of an answer to a get, a list or a watch.
 *
 * The first byte says which it is and how large an object may be; the rest is the body. However it is cut, whole, into
 * single bytes or where its own bytes say, the same things come of it. Objects are JSON with the name they are given;
 * a list that comes to its end is JSON as a whole, and has the items that were given.
 */
#include <stdint.h>

#include "base/buf.h"
#include "fuzz/check.h"
#include "kapi/decoder.h"
#include "json/document.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum cutting { WHOLE, BYTES, BY_ITSELF };

/* What came of a body. */
struct record {
    struct belfry_buf text;
    size_t n_items;
    bool page, over, complete;
};

static void put(struct record *record, const void *data, size_t len)
{
    check(belfry_buf_append(&record->text, &len, sizeof(len)) == BELFRY_OK);
    check(belfry_buf_append(&record->text, data, len) == BELFRY_OK);
}

static void put_bytes(struct record *record, struct belfry_bytes bytes)
{
    put(record, bytes.data, bytes.len);
}

/* ---- what must be so ---- */

static yyjson_val *last(yyjson_val *object, const char *name)
{
    yyjson_val *found = NULL;
    yyjson_obj_iter members = yyjson_obj_iter_with(object);
    for (yyjson_val *key; (key = yyjson_obj_iter_next(&members)) != NULL;) {
        if (yyjson_equals_str(key, name))
            found = yyjson_obj_iter_get_val(key);
    }
    return found;
}

static void check_text(yyjson_val *value, struct belfry_bytes text)
{
    if (yyjson_is_str(value))
        check(belfry_bytes_equal(belfry_kube_document_bytes(value), text));
    else
        check(text.len == 0);
}

static void check_object(const struct belfry_object *object)
{
    struct belfry_kube_document document;
    struct belfry_bytes value = belfry_object_value(object);
    check(belfry_kube_document_read(&value, 1, &document) == BELFRY_OK);
    yyjson_val *metadata = last(document.root, "metadata");
    check(belfry_object_name(object).len > 0);
    check_text(last(metadata, "name"), belfry_object_name(object));
    check_text(last(metadata, "namespace"), belfry_object_ns(object));
    check_text(last(metadata, "uid"), belfry_object_uid(object));
    check_text(last(metadata, "resourceVersion"), belfry_object_version(object));
    belfry_kube_document_fini(&document);
}

static void check_failure(const struct belfry_failure *failure)
{
    check(failure->err != BELFRY_OK && failure->err != BELFRY_ERR_NOMEM && failure->why[0] != '\0');
    check(memchr(failure->why, '\0', sizeof(failure->why)) != NULL);
    for (const char *at = failure->why; *at != '\0'; at++)
        check((unsigned char)*at >= ' ' && *at != 0x7f);
}

/* Behind the page may be anything. */
static void check_list(struct belfry_bytes body, size_t n_items)
{
    yyjson_doc *doc = yyjson_read(body.data, body.len, YYJSON_READ_NUMBER_AS_RAW | YYJSON_READ_STOP_WHEN_DONE);
    check(doc != NULL);
    check(yyjson_arr_size(last(yyjson_doc_get_root(doc), "items")) == n_items);
    yyjson_doc_free(doc);
}

/* ---- running ---- */

static void put_decoded(struct record *record, struct belfry_decoded *decoded)
{
    put(record, &decoded->kind, sizeof(decoded->kind));
    check(!record->over);
    if (decoded->object != NULL) {
        check_object(decoded->object);
        put_bytes(record, belfry_object_key(decoded->object));
        put_bytes(record, belfry_object_value(decoded->object));
        belfry_object_unref(decoded->object);
        record->n_items++;
    } else if (decoded->kind == BELFRY_DECODED_BOOKMARK) {
        check(decoded->version[0] != '\0');
        put_bytes(record, belfry_bytes_str(decoded->version));
        put(record, &decoded->initial_end, sizeof(decoded->initial_end));
    } else if (decoded->kind == BELFRY_DECODED_PAGE) {
        const char *next = decoded->page.continue_with;
        put_bytes(record, belfry_bytes_str(decoded->page.version));
        put_bytes(record, belfry_bytes_str(next == NULL ? "" : next));
        belfry_kube_page_fini(&decoded->page);
        record->page = true;
    } else { /* the sentence shows what was there, and that is not always the same */
        check_failure(decoded->failure);
        put(record, &decoded->failure->err, sizeof(decoded->failure->err));
        put(record, &decoded->failure->code, sizeof(decoded->failure->code));
        put_bytes(record, belfry_bytes_str(decoded->failure->reason));
        record->n_items += decoded->kind == BELFRY_DECODED_UNREADABLE;
    }
}

static void drain(struct belfry_decoder *decoder, struct record *record)
{
    struct belfry_decoded decoded;
    enum belfry_err err;
    while ((err = belfry_decoder_next(decoder, &decoded)) == BELFRY_OK) {
        put_decoded(record, &decoded);
        record->over = belfry_decoder_over(decoder);
    }
    check(err == BELFRY_ERR_AGAIN);
}

static size_t piece_of(struct belfry_bytes rest, enum cutting cutting)
{
    size_t n = cutting == WHOLE ? rest.len : cutting == BYTES ? 1 : 1 + ((unsigned char)rest.data[0] & 31);
    return n < rest.len ? n : rest.len;
}

static struct record run(enum belfry_decoder_mode mode, struct belfry_bytes body, size_t max_bytes,
                         enum cutting cutting)
{
    struct belfry_decoder *decoder;
    struct record record = {.page = false};
    check(belfry_decoder_create(mode, belfry_bytes_str("application/json"), max_bytes, &decoder) == BELFRY_OK);
    for (size_t n; body.len > 0; body = belfry_bytes_of(body.data + n, body.len - n)) {
        n = piece_of(body, cutting);
        check(belfry_decoder_feed(decoder, belfry_bytes_of(body.data, n)) == BELFRY_OK);
        drain(decoder, &record);
    }
    drain(decoder, &record);
    record.complete = belfry_decoder_complete(decoder);
    check(record.over == belfry_decoder_over(decoder) && (!record.over || record.complete));
    belfry_decoder_destroy(decoder);
    return record;
}

static void check_same(const struct record *a, const struct record *b)
{
    check(belfry_bytes_equal(belfry_buf_bytes(&a->text), belfry_buf_bytes(&b->text)));
    check(a->over == b->over && a->complete == b->complete);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum belfry_decoder_mode modes[] = {BELFRY_DECODE_OBJECT, BELFRY_DECODE_LIST, BELFRY_DECODE_WATCH};
    if (size < 1)
        return 0;
    enum belfry_decoder_mode mode = modes[data[0] % 3];
    size_t max_bytes = (size_t)32 << data[0] / 3 % 12;
    struct belfry_bytes body = belfry_bytes_of(data + 1, size - 1);
    struct record whole = run(mode, body, max_bytes, WHOLE);
    for (enum cutting cutting = BYTES; cutting <= BY_ITSELF; cutting++) {
        struct record cut = run(mode, body, max_bytes, cutting);
        check_same(&whole, &cut);
        belfry_buf_fini(&cut.text);
    }
    if (whole.page)
        check_list(body, whole.n_items);
    belfry_buf_fini(&whole.text);
    return 0;
}
