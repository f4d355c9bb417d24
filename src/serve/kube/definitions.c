/* src/serve/kube/definitions.c */
#include "serve/kube/definitions.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "core/key_range.h"

#define MANIFEST_MAX (3 * 1024 * 1024)
#define PIECE_ROWS   128 /* read in one turn of the reader: some ten milliseconds of YAML */
#define PIECE_BYTES  (256 * 1024)
#define KEY_SHOWN    128

/* Where a resource was read from. */
struct origin {
    const struct definition_source *from;
    int64_t mod_rev; /* 0: of a file */
    char *key;       /* owned; NULL: of a file */
    size_t key_len;
};

/* Resources in the order in which they were read: by prefix, then by key. */
struct gathering {
    struct kube_resource **resources; /* references; NULL: the definition is invalid, and was logged */
    struct origin *origins;
    size_t n, cap;
    uint64_t past; /* that the revisions are of */
};

/* A reading of all prefixes that is under way. */
struct pass {
    struct gathering all;
    size_t at;                    /* the number of the prefix, in the config */
    struct belfry_buf key, end;   /* what is left of it; empty: it was not begun */
    struct belfry_buf last;       /* the key of the last row */
    size_t before_at;             /* the place in the last reading that corresponds to `key` */
    int64_t rev;                  /* 0: the first piece determines it */
    size_t bytes;                 /* of manifests so far */
    const struct belfry_log *log; /* lent for the call, as is err of a row */
    enum belfry_err err;
};

struct definitions {
    const struct definition_sources *sources; /* lent */
    struct gathering files;
    struct gathering etcd; /* as it was read last */
    struct pass pass;
    bool reading;      /* there is a pass */
    bool told_bounds;  /* that there are too many */
    uint64_t told_why; /* hash of the last log line about duplicate names */
};

static enum belfry_err gathering_grow(struct gathering *all)
{
    size_t cap = all->cap == 0 ? 16 : 2 * all->cap;
    struct kube_resource **resources = realloc(all->resources, cap * sizeof(*resources));
    if (resources == NULL)
        return BELFRY_ERR_NOMEM;
    all->resources = resources;
    struct origin *origins = realloc(all->origins, cap * sizeof(*origins));
    if (origins == NULL)
        return BELFRY_ERR_NOMEM;
    all->origins = origins;
    all->cap = cap;
    return BELFRY_OK;
}

/* Consumes the reference and the origin's key, on failure too. */
static enum belfry_err gathering_add(struct gathering *all, struct kube_resource *resource, struct origin origin)
{
    if (all->n == all->cap && gathering_grow(all) != BELFRY_OK) {
        kube_resource_unref(resource);
        free(origin.key);
        return BELFRY_ERR_NOMEM;
    }
    all->resources[all->n] = resource;
    all->origins[all->n++] = origin;
    return BELFRY_OK;
}

static void gathering_drop(struct gathering *all)
{
    for (size_t i = 0; i < all->n; i++) {
        kube_resource_unref(all->resources[i]);
        free(all->origins[i].key);
    }
    free(all->resources);
    free(all->origins);
    *all = (struct gathering){0};
}

static struct kube_resource_opts opts_of(const struct definition_source *from)
{
    return (struct kube_resource_opts){
        .prefix = from->prefix, .wrap_key = from->key, .wrap_field = from->wrap, .under = from->under};
}

/* ---- files ---- */

static enum belfry_err read_whole(FILE *file, char **out, size_t *out_len)
{
    char *text = malloc(MANIFEST_MAX + 1);
    if (text == NULL)
        return BELFRY_ERR_NOMEM;
    *out_len = fread(text, 1, MANIFEST_MAX + 1, file);
    *out = text;
    return BELFRY_OK;
}

static enum belfry_err read_manifest(struct definitions *definitions, const struct definition_source *from,
                                     const char *path, struct belfry_bytes text, char *why, size_t why_len)
{
    struct kube_resource_opts opts = opts_of(from);
    struct kube_resource *resource;
    char *reason = NULL;
    enum belfry_err err = kube_resource_read(text, &opts, &resource, &reason);
    if (err == BELFRY_ERR_INVALID)
        snprintf(why, why_len, "%s: %s", path, reason == NULL ? "it makes no sense" : reason);
    free(reason);
    return err == BELFRY_OK ? gathering_add(&definitions->files, resource, (struct origin){.from = from}) : err;
}

static enum belfry_err load_file(struct definitions *definitions, const struct definition_source *from,
                                 const char *path, char *why, size_t why_len)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t len = 0;
    if (file == NULL) {
        snprintf(why, why_len, "%s cannot be opened: %s", path, strerror(errno));
        return BELFRY_ERR_INVALID;
    }
    enum belfry_err err = read_whole(file, &text, &len);
    if (err == BELFRY_OK && (ferror(file) != 0 || len > MANIFEST_MAX)) {
        snprintf(why, why_len, "%s %s", path,
                 len > MANIFEST_MAX ? "is larger than 3 MiB: no definition is" : "cannot be read");
        err = BELFRY_ERR_INVALID;
    }
    fclose(file);
    if (err == BELFRY_OK)
        err = read_manifest(definitions, from, path, belfry_bytes_of(text, len), why, why_len);
    free(text);
    return err;
}

static enum belfry_err load_pattern(struct definitions *definitions, const struct definition_source *from, char *why,
                                    size_t why_len)
{
    glob_t found;
    enum belfry_err err = BELFRY_OK;
    int result = glob(from->crd, GLOB_BRACE | GLOB_TILDE, NULL, &found);
    if (result == GLOB_NOMATCH) {
        snprintf(why, why_len, "%s: there is no such file", from->crd);
        return BELFRY_ERR_INVALID;
    }
    if (result != 0)
        return BELFRY_ERR_NOMEM;
    for (size_t i = 0; i < found.gl_pathc && err == BELFRY_OK; i++)
        err = load_file(definitions, from, found.gl_pathv[i], why, why_len);
    globfree(&found);
    return err;
}

/* Two definitions of one name in files are a mistake. */
static enum belfry_err check_names(struct definitions *definitions, char *why, size_t why_len)
{
    struct kube_catalog *catalog = NULL;
    char *doubled = NULL;
    enum belfry_err err = kube_catalog_make(definitions->files.resources, definitions->files.n, &catalog, &doubled);
    kube_catalog_unref(catalog);
    if (err == BELFRY_OK && doubled != NULL) {
        snprintf(why, why_len, "%s", doubled);
        err = BELFRY_ERR_INVALID;
    } else if (err == BELFRY_ERR_LIMIT) {
        snprintf(why, why_len, "more than %d definitions", KUBE_RESOURCES_MAX);
        err = BELFRY_ERR_INVALID;
    }
    free(doubled);
    return err;
}

/* Definitions outside the scope would never be found. */
static enum belfry_err check_prefix(const struct definition_sources *sources, const struct definition_source *from,
                                    char *why, size_t why_len)
{
    if (sources->scope == NULL || belfry_bytes_begins(belfry_bytes_str(from->under), belfry_bytes_str(sources->scope)))
        return BELFRY_OK;
    snprintf(why, why_len, "crds-under=%s is outside of the scope, %s: nothing of it is followed", from->under,
             sources->scope);
    return BELFRY_ERR_INVALID;
}

enum belfry_err definitions_load(const struct definition_sources *sources, struct definitions **out, char *why,
                                 size_t why_len)
{
    struct definitions *definitions = calloc(1, sizeof(*definitions));
    enum belfry_err err = definitions == NULL ? BELFRY_ERR_NOMEM : BELFRY_OK;
    snprintf(why, why_len, "out of memory");
    for (size_t i = 0; i < sources->n && err == BELFRY_OK; i++) {
        const struct definition_source *from = &sources->all[i];
        err = from->crd != NULL ? load_pattern(definitions, from, why, why_len)
                                : check_prefix(sources, from, why, why_len);
    }
    if (err == BELFRY_OK)
        err = check_names(definitions, why, why_len);
    if (err != BELFRY_OK) {
        definitions_destroy(definitions);
        return err;
    }
    definitions->sources = sources;
    *out = definitions;
    return BELFRY_OK;
}

static void end_pass(struct definitions *definitions)
{
    struct pass *pass = &definitions->pass;
    if (!definitions->reading)
        return;
    gathering_drop(&pass->all);
    belfry_buf_fini(&pass->key);
    belfry_buf_fini(&pass->end);
    belfry_buf_fini(&pass->last);
    definitions->reading = false;
}

void definitions_destroy(struct definitions *definitions)
{
    if (definitions == NULL)
        return;
    end_pass(definitions);
    gathering_drop(&definitions->files);
    gathering_drop(&definitions->etcd);
    free(definitions);
}

/* ---- etcd: a row ---- */

/* The key may hold any bytes, so it is made printable for the log. */
static void log_left_out(const struct pass *pass, struct belfry_bytes key, const char *why)
{
    char shown[KEY_SHOWN + 1];
    size_t n = key.len < KEY_SHOWN ? key.len : KEY_SHOWN;
    for (size_t i = 0; i < n; i++)
        shown[i] = key.data[i] < ' ' || key.data[i] > '~' || key.data[i] == '"' ? '?' : key.data[i];
    shown[n] = '\0';
    belfry_logf(pass->log, BELFRY_LOG_WARN, "definition_left_out", "key=\"%s\" why=\"%s\"", shown, why);
}

/* The origin of this key in the last reading, which is in the same order; NULL: it was not there. */
static const struct origin *seek_before(struct definitions *definitions, const struct definition_source *from,
                                        struct belfry_bytes key)
{
    const struct gathering *before = &definitions->etcd;
    struct pass *pass = &definitions->pass;
    for (; pass->before_at < before->n; pass->before_at++) {
        const struct origin *origin = &before->origins[pass->before_at];
        if (origin->from < from)
            continue;
        int order = origin->from > from ? 1 : belfry_bytes_cmp(belfry_bytes_of(origin->key, origin->key_len), key);
        if (order >= 0)
            return order == 0 ? origin : NULL;
    }
    return NULL;
}

static struct kube_resource *ref_or_null(struct kube_resource *resource)
{
    return resource == NULL ? NULL : kube_resource_ref(resource);
}

/* *out NULL: the value is invalid. `before`: the key's last resource, which stays if its content is the same. */
static enum belfry_err read_value(const struct pass *pass, const struct definition_source *from,
                                  const struct belfry_wire_kv *kv, struct kube_resource *before,
                                  struct kube_resource **out)
{
    struct kube_resource_opts opts = opts_of(from);
    struct kube_resource *resource = NULL;
    char *reason = NULL;
    enum belfry_err err = kube_resource_read(kv->value, &opts, &resource, &reason);
    if (err == BELFRY_ERR_INVALID)
        log_left_out(pass, kv->key, reason == NULL ? "it makes no sense" : reason);
    free(reason);
    if (err != BELFRY_OK && err != BELFRY_ERR_INVALID)
        return err;
    *out = resource;
    if (resource != NULL && before != NULL && before->hash == resource->hash) {
        kube_resource_unref(resource);
        *out = kube_resource_ref(before);
    }
    return BELFRY_OK;
}

static enum belfry_err definitions_take(struct definitions *definitions, const struct belfry_wire_kv *kv)
{
    struct pass *pass = &definitions->pass;
    const struct definition_source *from = &definitions->sources->all[pass->at];
    const struct origin *before = seek_before(definitions, from, kv->key);
    struct kube_resource *was = before == NULL ? NULL : definitions->etcd.resources[pass->before_at], *resource = NULL;
    struct origin origin = {.from = from, .mod_rev = kv->mod_rev, .key_len = kv->key.len};
    /* revisions compare only within one past */
    bool unwritten = before != NULL && before->mod_rev == kv->mod_rev && definitions->etcd.past == pass->all.past;
    enum belfry_err err = BELFRY_OK;
    if (unwritten)
        resource = ref_or_null(was);
    else
        err = read_value(pass, from, kv, was, &resource);
    if (err == BELFRY_OK && (origin.key = malloc(kv->key.len + 1)) == NULL)
        err = BELFRY_ERR_NOMEM;
    if (err != BELFRY_OK) {
        kube_resource_unref(resource);
        return err;
    }
    memcpy(origin.key, kv->key.data, kv->key.len);
    return gathering_add(&pass->all, resource, origin);
}

/* BELFRY_ERR_LIMIT: there is no room for this row and later ones. */
static enum belfry_err definitions_count(struct definitions *definitions, const struct belfry_wire_kv *kv)
{
    struct pass *pass = &definitions->pass;
    pass->bytes += kv->value.len;
    if (pass->bytes <= DEFINITIONS_BYTES && definitions->files.n + pass->all.n < KUBE_RESOURCES_MAX)
        return BELFRY_OK;
    if (!definitions->told_bounds)
        log_left_out(pass, kv->key, "there are too many definitions; those behind it are left out, too");
    definitions->told_bounds = true;
    return BELFRY_ERR_LIMIT;
}

static bool on_definition_row(struct belfry_bytes key, struct belfry_bytes kv, void *user)
{
    struct definitions *definitions = user;
    struct pass *pass = &definitions->pass;
    struct belfry_wire_kv scanned;
    belfry_buf_clear(&pass->last);
    pass->err = belfry_buf_append(&pass->last, key.data, key.len);
    if (pass->err == BELFRY_OK)
        pass->err = belfry_scan_kv(kv, &scanned);
    if (pass->err == BELFRY_OK)
        pass->err = definitions_count(definitions, &scanned);
    if (pass->err == BELFRY_OK)
        pass->err = definitions_take(definitions, &scanned);
    return pass->err == BELFRY_OK;
}

/* ---- etcd: all rows ---- */

/* Goes to the next prefix, if there is one. False: all have been read. */
static bool next_prefix(struct definitions *definitions)
{
    struct pass *pass = &definitions->pass;
    const struct definition_sources *sources = definitions->sources;
    while (pass->at < sources->n && sources->all[pass->at].under == NULL)
        pass->at++;
    return pass->at < sources->n;
}

static enum belfry_err definitions_aim(struct definitions *definitions)
{
    struct pass *pass = &definitions->pass;
    if (belfry_buf_len(&pass->key) > 0)
        return BELFRY_OK;
    struct belfry_bytes prefix = belfry_bytes_str(definitions->sources->all[pass->at].under);
    enum belfry_err err = belfry_buf_append(&pass->key, prefix.data, prefix.len);
    return err == BELFRY_OK ? range_prefix_end(prefix, &pass->end) : err;
}

/* The next piece begins at the last key's successor; or in the next prefix. */
static enum belfry_err pass_step(struct pass *pass, bool more)
{
    belfry_buf_clear(&pass->key);
    if (more) {
        struct belfry_bytes last = belfry_buf_bytes(&pass->last);
        enum belfry_err err = belfry_buf_append(&pass->key, last.data, last.len);
        return err == BELFRY_OK ? belfry_buf_append(&pass->key, "", 1) : err;
    }
    belfry_buf_clear(&pass->end);
    pass->at++;
    return BELFRY_OK;
}

static enum belfry_err read_piece(struct definitions *definitions, struct store *store)
{
    struct pass *pass = &definitions->pass;
    struct store_page page;
    enum belfry_err err = definitions_aim(definitions);
    if (err != BELFRY_OK)
        return err;
    struct store_read read = {.key = belfry_buf_bytes(&pass->key),
                              .end = belfry_buf_bytes(&pass->end),
                              .rev = pass->rev,
                              .max_rows = PIECE_ROWS,
                              .max_bytes = PIECE_BYTES};
    pass->err = BELFRY_OK;
    err = store->api->range(store, &read, on_definition_row, definitions, &page);
    if (err == BELFRY_OK) {
        pass->rev = page.at;
        err = pass->err;
    }
    if (err == BELFRY_ERR_LIMIT) { /* there is no room for the rest: the reading ends here */
        pass->at = definitions->sources->n;
        return BELFRY_OK;
    }
    return err == BELFRY_OK ? pass_step(pass, page.more) : err;
}

static enum belfry_err begin_pass(struct definitions *definitions, const struct store_meta *meta, int64_t floor)
{
    if (meta->revision == 0 || meta->revision < floor)
        return BELFRY_ERR_AGAIN;
    definitions->pass = (struct pass){.all.past = meta->past};
    definitions->reading = true;
    return BELFRY_OK;
}

/* The reading becomes the current state, unless the past has changed: then its revision may name another state. */
static enum belfry_err end_reading(struct definitions *definitions, struct store *store)
{
    struct pass *pass = &definitions->pass;
    struct store_meta meta;
    store->api->snapshot(store, &meta);
    if (meta.past != pass->all.past)
        return BELFRY_ERR_COMPACTED;
    gathering_drop(&definitions->etcd);
    definitions->etcd = pass->all;
    pass->all = (struct gathering){0};
    if (pass->bytes <= DEFINITIONS_BYTES && definitions->files.n + definitions->etcd.n < KUBE_RESOURCES_MAX)
        definitions->told_bounds = false;
    end_pass(definitions);
    return BELFRY_OK;
}

enum belfry_err definitions_read(struct definitions *definitions, struct store *store, int64_t floor,
                                 const struct belfry_log *log, bool *done)
{
    struct store_meta meta;
    enum belfry_err err = BELFRY_OK;
    store->api->snapshot(store, &meta);
    if (!definitions->reading)
        err = begin_pass(definitions, &meta, floor);
    definitions->pass.log = log;
    if (err == BELFRY_OK && next_prefix(definitions))
        err = read_piece(definitions, store);
    *done = err == BELFRY_OK && !next_prefix(definitions);
    if (*done)
        err = end_reading(definitions, store);
    if (err != BELFRY_OK) {
        end_pass(definitions);
        *done = false;
    }
    return err;
}

/* ---- the catalog ---- */

/* Logs the same text only once. */
static void definitions_log_left_out(struct definitions *definitions, const struct belfry_log *log,
                                     const char *left_out)
{
    static const struct belfry_hash_key key = {0, 0};
    uint64_t hash = left_out == NULL ? 0 : belfry_hash(key, belfry_bytes_str(left_out));
    if (left_out != NULL && hash != definitions->told_why)
        belfry_logf(log, BELFRY_LOG_WARN, "definition_left_out", "why=\"%s\"", left_out);
    definitions->told_why = hash;
}

/* Files come first and take precedence. */
enum belfry_err definitions_catalog(struct definitions *definitions, const struct belfry_log *log,
                                    struct kube_catalog **out)
{
    const struct gathering *files = &definitions->files, *etcd = &definitions->etcd;
    struct kube_resource **all = calloc(files->n + etcd->n + 1, sizeof(struct kube_resource *));
    size_t n = 0;
    char *left_out = NULL;
    if (all == NULL)
        return BELFRY_ERR_NOMEM;
    for (size_t i = 0; i < files->n; i++)
        all[n++] = files->resources[i];
    for (size_t i = 0; i < etcd->n; i++) {
        if (etcd->resources[i] != NULL)
            all[n++] = etcd->resources[i];
    }
    enum belfry_err err = kube_catalog_make(all, n, out, &left_out);
    if (err == BELFRY_OK)
        definitions_log_left_out(definitions, log, left_out);
    free(left_out);
    free(all);
    return err;
}
