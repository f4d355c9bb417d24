/* src/serve/kfront/krelay_docs.c */
#include "serve/kfront/krelay_docs.h"

#include <stdlib.h>
#include <string.h>

struct krelay_doc {
    struct krelay_docs *docs;
    struct belfry_list node; /* in known or drafts; in none: it is only read */
    size_t refs;             /* readers, and the place in `known` or `drafts` */
    size_t counted;          /* in docs->bytes */
    struct fields fields;
    struct belfry_buf body;
    size_t key_len;
    char key[];
};

static struct krelay_doc *doc_of(struct belfry_list *node)
{
    return belfry_container(node, struct krelay_doc, node);
}

/* ---- lives ---- */

static size_t doc_bytes(const struct krelay_doc *doc)
{
    return sizeof(*doc) + doc->key_len + fields_bytes(&doc->fields) + doc->body.cap;
}

static void doc_count(struct krelay_doc *doc, size_t bytes)
{
    doc->docs->bytes = doc->docs->bytes - doc->counted + bytes;
    doc->counted = bytes;
}

void krelay_doc_unref(struct krelay_doc *doc)
{
    if (doc == NULL || --doc->refs > 0)
        return;
    doc_count(doc, 0);
    fields_fini(&doc->fields);
    belfry_buf_fini(&doc->body);
    free(doc);
}

static void docs_forget(struct krelay_docs *docs, struct krelay_doc *doc)
{
    belfry_list_remove(&doc->node);
    docs->n--;
    krelay_doc_unref(doc);
}

void krelay_docs_init(struct krelay_docs *docs)
{
    *docs = (struct krelay_docs){0};
    belfry_list_init(&docs->known);
    belfry_list_init(&docs->drafts);
}

void krelay_docs_fini(struct krelay_docs *docs)
{
    while (!belfry_list_empty(&docs->known))
        docs_forget(docs, doc_of(docs->known.next));
}

/* Makes room for `n` more bytes: the copies that were used least recently go. */
static bool docs_make_room(struct krelay_docs *docs, size_t n)
{
    while (docs->bytes + n > KRELAY_DOCS_BYTES && !belfry_list_empty(&docs->known))
        docs_forget(docs, doc_of(docs->known.prev));
    return docs->bytes + n <= KRELAY_DOCS_BYTES;
}

/* ---- keys ---- */

enum belfry_err krelay_docs_key(const struct exchange_head *head, struct belfry_buf *out)
{
    const struct belfry_bytes parts[] = {head->path, exchange_field(head, "accept"),
                                         exchange_field(head, "accept-encoding")};
    enum belfry_err err = BELFRY_OK;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && err == BELFRY_OK; i++) {
        err = belfry_buf_append(out, parts[i].data, parts[i].len);
        if (err == BELFRY_OK)
            err = belfry_buf_append(out, "\n", 1);
    }
    return err == BELFRY_OK && belfry_buf_len(out) > KRELAY_KEY_BYTES ? BELFRY_ERR_TOO_LARGE : err;
}

static struct krelay_doc *find_in(struct belfry_list *list, struct belfry_bytes key)
{
    belfry_list_each (node, list) {
        struct krelay_doc *doc = doc_of(node);
        if (belfry_bytes_equal(belfry_bytes_of(doc->key, doc->key_len), key))
            return doc;
    }
    return NULL;
}

struct krelay_doc *krelay_docs_find(struct krelay_docs *docs, struct belfry_bytes key)
{
    struct krelay_doc *doc = find_in(&docs->known, key);
    if (doc == NULL)
        return NULL;
    belfry_list_remove(&doc->node);
    belfry_list_prepend(&docs->known, &doc->node);
    doc->refs++;
    return doc;
}

/* ---- drafts ---- */

/* They are the same for everybody who asks. */
bool krelay_doc_describes(struct belfry_bytes name)
{
    static const char *const names[] = {"content-type",  "content-encoding", "etag",           "vary",
                                        "last-modified", "cache-control",    "x-varied-accept"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (belfry_bytes_equal(name, belfry_bytes_str(names[i])))
            return true;
    return false;
}

static enum belfry_err take_fields(struct krelay_doc *doc, const struct belfry_http_field *fields, size_t n)
{
    enum belfry_err err = BELFRY_OK;
    for (size_t i = 0; i < n && err == BELFRY_OK; i++)
        if (krelay_doc_describes(fields[i].name))
            err = fields_add(&doc->fields, fields[i].name, fields[i].value);
    return err;
}

struct krelay_doc *krelay_docs_draft(struct krelay_docs *docs, struct belfry_bytes key,
                                     const struct belfry_http_field *fields, size_t n_fields)
{
    struct exchange_head head = {.fields = fields, .n_fields = n_fields};
    if (exchange_field(&head, "etag").len == 0 || find_in(&docs->drafts, key) != NULL ||
        !docs_make_room(docs, sizeof(struct krelay_doc) + key.len))
        return NULL;
    struct krelay_doc *doc = calloc(1, sizeof(*doc) + key.len);
    if (doc == NULL)
        return NULL;
    doc->docs = docs;
    doc->refs = 1;
    doc->key_len = key.len;
    memcpy(doc->key, key.data, key.len);
    belfry_list_init(&doc->node);
    enum belfry_err err = take_fields(doc, fields, n_fields);
    doc_count(doc, doc_bytes(doc));
    if (err != BELFRY_OK) {
        krelay_doc_unref(doc);
        return NULL;
    }
    belfry_list_append(&docs->drafts, &doc->node);
    return doc;
}

bool krelay_doc_add(struct krelay_doc *draft, struct belfry_bytes bytes)
{
    size_t len = belfry_buf_len(&draft->body) + bytes.len;
    bool grows = len > draft->body.cap; /* by doubling */
    if (len > KRELAY_DOC_BYTES || (grows && !docs_make_room(draft->docs, 2 * len - draft->body.cap)) ||
        belfry_buf_append(&draft->body, bytes.data, bytes.len) != BELFRY_OK)
        return false;
    doc_count(draft, doc_bytes(draft));
    return true;
}

void krelay_doc_keep(struct krelay_doc *draft)
{
    struct krelay_docs *docs = draft->docs;
    struct krelay_doc *before = find_in(&docs->known, belfry_bytes_of(draft->key, draft->key_len));
    if (before != NULL)
        docs_forget(docs, before);
    while (docs->n >= KRELAY_DOCS)
        docs_forget(docs, doc_of(docs->known.prev));
    belfry_list_remove(&draft->node);
    belfry_list_prepend(&docs->known, &draft->node);
    docs->n++;
}

void krelay_doc_drop(struct krelay_doc *draft)
{
    if (draft == NULL)
        return;
    belfry_list_remove(&draft->node);
    krelay_doc_unref(draft);
}

/* ---- what it says ---- */

const struct belfry_http_field *krelay_doc_fields(struct krelay_doc *doc, size_t *out_n)
{
    *out_n = doc->fields.n;
    return fields_list(&doc->fields);
}

struct belfry_bytes krelay_doc_etag(struct krelay_doc *doc)
{
    struct exchange_head head = {.fields = fields_list(&doc->fields), .n_fields = doc->fields.n};
    return exchange_field(&head, "etag");
}

struct belfry_bytes krelay_doc_body(const struct krelay_doc *doc)
{
    return belfry_buf_bytes(&doc->body);
}

/* Weak and strong are the same here (RFC 9110, 13.1.2). A tag that is part of another one does not match: tags end with
 * a quote. */
bool krelay_doc_matches(struct belfry_bytes if_none_match, struct belfry_bytes etag)
{
    if (belfry_bytes_equal(if_none_match, belfry_bytes_str("*")))
        return true;
    if (etag.len > 2 && memcmp(etag.data, "W/", 2) == 0)
        etag = belfry_bytes_of(etag.data + 2, etag.len - 2);
    if (etag.len < 2 || etag.data[0] != '"')
        return false;
    return if_none_match.len >= etag.len && memmem(if_none_match.data, if_none_match.len, etag.data, etag.len) != NULL;
}
