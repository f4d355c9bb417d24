/* src/serve/kube/kube_forms.c */
#include "serve/kube/kube_forms.h"

#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"
#include "base/owner.h"
#include "wire/scan.h"

#define SCRATCH_BYTES (1024 * 1024) /* of the buffer that lines are written in; a larger one is freed */

struct kube_forms {
    struct belfry_map by_event;   /* struct form */
    struct belfry_map by_version; /* struct lens */
    struct belfry_list used;      /* forms, the last used first */
    struct belfry_hash_key hash_key;
    struct belfry_buf scratch;
    size_t max_bytes;
    uint64_t turn, lenses; /* lenses: given out, ever */
    struct kube_forms_stats stats;
    BELFRY_OWNER;
};

/* A label by which the core finds some watchers. */
struct pinned_label {
    struct pinned_label *next;
    size_t users, key_len;
    char key[];
};

struct lens {
    struct kube_lens lens;
    struct belfry_map_node node;
    uint64_t serial; /* never used again, unlike a version's address */
    size_t users;
    struct pinned_label *labels; /* owned, n_labels of them */
    size_t n_labels;
};

struct line {
    struct line *next;
    struct kube_line how;
    struct belfry_blob *text;
};

struct form_key {
    uint64_t lens; /* its serial */
    int64_t rev;
    uint64_t sub;
};

struct form {
    struct kube_change change; /* with references of its own */
    bool is_selectable;        /* its objects have attributes */
    struct belfry_map_node node;
    struct belfry_list used;
    struct form_key key;
    uint64_t print;            /* hash of the event's bytes, previous value included */
    const struct batch *batch; /* where it was found in `turn`; only compared */
    uint64_t turn;
    struct line *lines; /* owned */
    size_t bytes;       /* of all this */
};

/* ---- create and destroy ---- */

enum belfry_err kube_forms_create(size_t max_bytes, uint64_t seed, struct kube_forms **out)
{
    struct kube_forms *forms = calloc(1, sizeof(*forms));
    if (forms == NULL)
        return BELFRY_ERR_NOMEM;
    forms->max_bytes = max_bytes;
    forms->hash_key = (struct belfry_hash_key){seed, belfry_hash_int(seed)};
    belfry_map_init(&forms->by_event);
    belfry_map_init(&forms->by_version);
    belfry_list_init(&forms->used);
    belfry_buf_init(&forms->scratch);
    BELFRY_OWNER_INIT(forms);
    *out = forms;
    return BELFRY_OK;
}

static void kube_change_fini(struct kube_change *change)
{
    kube_object_unref(change->before);
    kube_object_unref(change->after);
    kube_object_unref(change->named);
}

/* Of a form that is in no map and no list. */
static void kube_form_free(struct form *form)
{
    for (struct line *line; (line = form->lines) != NULL;) {
        form->lines = line->next;
        belfry_blob_unref(line->text);
        free(line);
    }
    kube_change_fini(&form->change);
    free(form);
}

static void kube_forms_drop(struct kube_forms *forms, struct form *form)
{
    belfry_map_remove(&forms->by_event, &form->node);
    belfry_list_remove(&form->used);
    forms->stats.bytes -= form->bytes;
    forms->stats.changes--;
    kube_form_free(form);
}

void kube_forms_destroy(struct kube_forms *forms)
{
    if (forms == NULL)
        return;
    BELFRY_OWNER_CHECK(forms);
    assert(forms->by_version.count == 0);
    while (!belfry_list_empty(&forms->used))
        kube_forms_drop(forms, belfry_container(forms->used.next, struct form, used));
    belfry_map_fini(&forms->by_event);
    belfry_map_fini(&forms->by_version);
    belfry_buf_fini(&forms->scratch);
    free(forms);
}

void kube_forms_next_turn(struct kube_forms *forms)
{
    BELFRY_OWNER_CHECK(forms);
    forms->turn++;
}

/* ---- lenses ---- */

static struct lens *find_lens(const struct kube_forms *forms, const struct kube_version *version)
{
    struct belfry_map_node *node = belfry_map_first(&forms->by_version, belfry_hash_int((uintptr_t)version));
    for (; node != NULL; node = belfry_map_next(node)) {
        struct lens *lens = belfry_container(node, struct lens, node);
        if (lens->lens.version == version)
            return lens;
    }
    return NULL;
}

static const struct lens *lens_of(const struct kube_lens *lens)
{
    return belfry_container_const(lens, struct lens, lens);
}

enum belfry_err kube_lens_open(struct kube_forms *forms, const struct kube_resource *resource,
                               const struct kube_version *version, const struct kube_lens **out)
{
    BELFRY_OWNER_CHECK(forms);
    struct lens *lens = find_lens(forms, version);
    if (lens == NULL) {
        lens = calloc(1, sizeof(*lens));
        if (lens == NULL)
            return BELFRY_ERR_NOMEM;
        lens->lens = (struct kube_lens){kube_resource_ref(resource), version};
        lens->serial = ++forms->lenses;
        belfry_map_add(&forms->by_version, belfry_hash_int((uintptr_t)version), &lens->node);
    }
    lens->users++;
    *out = &lens->lens;
    return BELFRY_OK;
}

void kube_lens_close(struct kube_forms *forms, const struct kube_lens *shown)
{
    struct lens *lens = shown == NULL ? NULL : find_lens(forms, shown->version);
    if (lens == NULL || --lens->users > 0)
        return;
    assert(lens->labels == NULL); /* every pin was removed */
    belfry_map_remove(&forms->by_version, &lens->node);
    kube_resource_unref(lens->lens.resource);
    free(lens);
}

/* ---- pins ---- */

/* The link to the label, or to its place. */
static struct pinned_label **place_of(struct lens *lens, struct belfry_bytes key)
{
    struct pinned_label **at = &lens->labels;
    while (*at != NULL && !belfry_bytes_equal(belfry_bytes_of((*at)->key, (*at)->key_len), key))
        at = &(*at)->next;
    return at;
}

bool kube_lens_pin(struct kube_forms *forms, const struct kube_lens *shown, const struct kube_pin *pin)
{
    BELFRY_OWNER_CHECK(forms);
    struct lens *lens = find_lens(forms, shown->version);
    if (pin->is_field)
        return true;
    struct pinned_label **at = place_of(lens, pin->label);
    if (*at == NULL) {
        struct pinned_label *label =
            lens->n_labels == KUBE_LENS_LABELS ? NULL : malloc(sizeof(*label) + pin->label.len);
        if (label == NULL)
            return false;
        *label = (struct pinned_label){.key_len = pin->label.len};
        memcpy(label->key, pin->label.data, pin->label.len);
        lens->n_labels++;
        *at = label;
    }
    (*at)->users++;
    return true;
}

void kube_lens_unpin(struct kube_forms *forms, const struct kube_lens *shown, const struct kube_pin *pin)
{
    BELFRY_OWNER_CHECK(forms);
    struct lens *lens = find_lens(forms, shown->version);
    if (pin->is_field)
        return;
    struct pinned_label **at = place_of(lens, pin->label), *label = *at;
    assert(label != NULL);
    if (--label->users > 0)
        return;
    *at = label->next;
    lens->n_labels--;
    free(label);
}

/* The front of a pin's name; a label's key follows. */
struct pin_front {
    const struct kube_version *version; /* to compare: it may be gone */
    uint64_t serial;
    uint64_t field; /* its place; NOT_A_FIELD: a label */
};
#define NOT_A_FIELD UINT64_MAX

enum belfry_err kube_lens_pin_name(const struct kube_lens *lens, const struct kube_pin *pin, struct belfry_buf *out)
{
    struct pin_front front = {lens->version, lens_of(lens)->serial, pin->is_field ? pin->field : NOT_A_FIELD};
    enum belfry_err err = belfry_buf_append(out, &front, sizeof(front));
    if (err == BELFRY_OK && !pin->is_field)
        err = belfry_buf_append(out, pin->label.data, pin->label.len);
    return err;
}

static struct belfry_bytes label_value(const struct kube_attributes *attributes, struct belfry_bytes key)
{
    size_t low = 0, high = attributes->n_labels;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = belfry_bytes_cmp(attributes->labels[middle].key, key);
        if (order == 0)
            return attributes->labels[middle].value;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return (struct belfry_bytes){0};
}

static struct belfry_bytes value_of(const struct kube_object *object, const struct pin_front *front,
                                    struct belfry_bytes label)
{
    if (object == NULL)
        return (struct belfry_bytes){0};
    if (front->field == NOT_A_FIELD)
        return label_value(&object->attributes, label);
    assert(front->field < KUBE_FIELDS_MAX);
    return object->attributes.fields[front->field];
}

bool kube_forms_attribute(struct kube_forms *forms, const struct batch *batch, uint32_t event, struct belfry_bytes name,
                          struct belfry_bytes *before, struct belfry_bytes *after)
{
    BELFRY_OWNER_CHECK(forms);
    struct pin_front front;
    const struct kube_change *change;
    assert(name.len >= sizeof(front));
    memcpy(&front, name.data, sizeof(front));
    struct belfry_bytes label = belfry_bytes_of(name.data + sizeof(front), name.len - sizeof(front));
    const struct lens *lens = find_lens(forms, front.version);
    *before = *after = (struct belfry_bytes){0};
    if (lens == NULL || lens->serial != front.serial)
        return true;
    if (kube_forms_change(forms, &lens->lens, batch, event, KUBE_NEED_ATTRIBUTES, &change) != BELFRY_OK)
        return false;
    *before = value_of(change->before, &front, label);
    *after = value_of(change->after, &front, label);
    return true;
}

/* ---- finding ---- */

static uint64_t hash_of(const struct kube_forms *forms, const struct form_key *key)
{
    return belfry_hash(forms->hash_key, belfry_bytes_of(key, sizeof(*key)));
}

static struct form *kube_forms_find(const struct kube_forms *forms, const struct form_key *key)
{
    struct belfry_map_node *node = belfry_map_first(&forms->by_event, hash_of(forms, key));
    for (; node != NULL; node = belfry_map_next(node)) {
        struct form *form = belfry_container(node, struct form, node);
        if (form->key.lens == key->lens && form->key.rev == key->rev && form->key.sub == key->sub)
            return form;
    }
    return NULL;
}

static uint64_t print_of(const struct kube_forms *forms, const struct batch *batch, uint32_t event)
{
    const struct batch_event *at = &batch->events[event], *put = batch_put_before(batch, at);
    uint64_t hash = belfry_hash(forms->hash_key, batch_bytes(batch, at, true));
    return put == NULL ? hash : belfry_hash_int(hash) ^ belfry_hash(forms->hash_key, batch_bytes(batch, put, false));
}

/* Is it the same event? Within a turn a batch stays where it is. */
static bool kube_form_is_of(const struct kube_forms *forms, struct form *form, const struct batch *batch,
                            uint32_t event)
{
    if (form->batch == batch && form->turn == forms->turn)
        return true;
    if (form->print != print_of(forms, batch, event))
        return false;
    form->batch = batch;
    form->turn = forms->turn;
    return true;
}

/* Drops the forms used longest ago; `in_hand` stays, whatever its size. */
static void kube_forms_shrink(struct kube_forms *forms, const struct form *in_hand)
{
    while (forms->stats.bytes > forms->max_bytes) {
        struct form *oldest = belfry_container(forms->used.prev, struct form, used);
        if (oldest == in_hand)
            return;
        kube_forms_drop(forms, oldest);
    }
}

/* ---- making ---- */

static void note_undecodable(struct kube_forms *forms, struct belfry_bytes key)
{
    char *to = forms->stats.undecodable_key;
    size_t n = key.len < sizeof(forms->stats.undecodable_key) - 1 ? key.len : sizeof(forms->stats.undecodable_key) - 1;
    forms->stats.undecodable++;
    for (size_t i = 0; i < n; i++)
        to[i] = key.data[i] > ' ' && key.data[i] < 0x7f && key.data[i] != '"' ? key.data[i] : '?';
    to[n] = '\0';
}

/* How the objects of a change are made. */
struct making {
    struct kube_forms *forms;
    const struct kube_lens *lens;
    bool is_text; /* without attributes */
};

/* One side of a change; *out stays NULL when there is no object, or it cannot be decoded. */
static enum belfry_err decode_side(const struct making *making, const struct belfry_wire_kv *kv,
                                   const struct kube_object **out)
{
    const struct kube_lens *lens = making->lens;
    struct kube_stored stored = {kv->key, kv->value, kv->create_rev, kv->mod_rev, kv->version};
    struct kube_object *object;
    enum belfry_err err = making->is_text ? kube_object_make_text(lens->resource, &stored, &object)
                                          : kube_object_make(lens->resource, lens->version, &stored, &object);
    if (err == BELFRY_OK)
        *out = object;
    else if (err == BELFRY_ERR_INVALID)
        note_undecodable(making->forms, kv->key);
    return err == BELFRY_ERR_NOMEM ? err : BELFRY_OK;
}

/* The events of a batch were scanned when it was received. *prev: what was there right before, put by this revision or
 * an earlier one; its key is empty if nothing was, or nothing is known. */
static void scan_event(const struct batch *batch, uint32_t event, struct belfry_wire_event *out,
                       struct belfry_wire_kv *prev)
{
    const struct batch_event *at = &batch->events[event], *put = batch_put_before(batch, at);
    struct belfry_wire_event earlier;
    enum belfry_err err = belfry_scan_event(batch_bytes(batch, at, false), out);
    *prev = (struct belfry_wire_kv){0};
    if (err == BELFRY_OK && put != NULL) {
        err = belfry_scan_event(batch_bytes(batch, put, false), &earlier);
        *prev = earlier.kv;
    } else if (err == BELFRY_OK && at->prev_len > 0) {
        err = belfry_scan_kv(batch_prev_kv(batch, at), prev);
    }
    assert(err == BELFRY_OK);
    belfry_ignore(err);
}

static enum belfry_err make_named(const struct kube_lens *lens, const struct belfry_wire_kv *kv,
                                  const struct kube_object **out)
{
    struct kube_stored stored = {kv->key, kv->value, kv->create_rev, kv->mod_rev, 1};
    struct kube_object *object;
    enum belfry_err err = kube_object_make_named(lens->resource, lens->version, &stored, &object);
    if (err == BELFRY_OK)
        *out = object;
    return err == BELFRY_ERR_NOMEM ? err : BELFRY_OK;
}

/* Makes the objects of a change, which has none yet. */
static enum belfry_err kube_change_fill(struct kube_change *change, const struct making *making,
                                        const struct batch *batch, uint32_t event)
{
    const struct batch_event *at = &batch->events[event];
    struct belfry_bytes namespace, name;
    struct belfry_wire_event scanned;
    struct belfry_wire_kv prev;
    enum belfry_err err = BELFRY_OK;
    if (!kube_resource_parts(making->lens->resource, batch_key(batch, at), &namespace, &name)) {
        making->forms->stats.skipped++;
        return BELFRY_OK;
    }
    scan_event(batch, event, &scanned, &prev);
    change->blind = batch_prev_lost(batch, at);
    if (!at->is_delete)
        err = decode_side(making, &scanned.kv, &change->after);
    if (err == BELFRY_OK && prev.key.len > 0)
        err = decode_side(making, &prev, &change->before);
    if (err == BELFRY_OK && change->blind)
        err = make_named(making->lens, &scanned.kv, &change->named);
    return err;
}

static size_t object_bytes(const struct kube_object *object)
{
    return object == NULL ? 0 : kube_object_bytes(object);
}

static size_t change_bytes(const struct kube_change *change)
{
    return object_bytes(change->before) + object_bytes(change->after) + object_bytes(change->named);
}

static struct making making_of(struct kube_forms *forms, const struct kube_lens *lens, enum kube_forms_need need)
{
    return (struct making){forms, lens, lens->resource->is_verbatim && need == KUBE_NEED_TEXT};
}

static enum belfry_err kube_form_make(const struct making *making, const struct form_key *key,
                                      const struct batch *batch, uint32_t event, struct form **out)
{
    struct kube_forms *forms = making->forms;
    struct form *form = calloc(1, sizeof(*form));
    if (form == NULL)
        return BELFRY_ERR_NOMEM;
    enum belfry_err err = kube_change_fill(&form->change, making, batch, event);
    if (err != BELFRY_OK) {
        kube_form_free(form);
        return err;
    }
    form->change.rev = batch->rev;
    form->is_selectable = !making->is_text;
    form->key = *key;
    form->print = print_of(forms, batch, event);
    form->batch = batch;
    form->turn = forms->turn;
    form->bytes = sizeof(*form) + change_bytes(&form->change);
    belfry_map_add(&forms->by_event, hash_of(forms, key), &form->node);
    belfry_list_prepend(&forms->used, &form->used);
    forms->stats.bytes += form->bytes;
    forms->stats.changes++;
    forms->stats.made++;
    forms->stats.parsed += form->is_selectable && making->lens->resource->is_verbatim;
    kube_forms_shrink(forms, form);
    *out = form;
    return BELFRY_OK;
}

/* Gives its objects attributes. Its lines stay: their text is the same. */
static enum belfry_err kube_form_parse(const struct making *making, struct form *form, const struct batch *batch,
                                       uint32_t event)
{
    struct kube_forms *forms = making->forms;
    struct kube_change change = {.rev = form->change.rev};
    enum belfry_err err = kube_change_fill(&change, making, batch, event);
    if (err != BELFRY_OK) {
        kube_change_fini(&change);
        return err;
    }
    size_t before = change_bytes(&form->change), after = change_bytes(&change);
    kube_change_fini(&form->change);
    form->change = change;
    form->is_selectable = true;
    form->bytes = form->bytes - before + after;
    forms->stats.bytes = forms->stats.bytes - before + after;
    forms->stats.parsed++;
    kube_forms_shrink(forms, form);
    return BELFRY_OK;
}

enum belfry_err kube_forms_change(struct kube_forms *forms, const struct kube_lens *lens, const struct batch *batch,
                                  uint32_t event, enum kube_forms_need need, const struct kube_change **out)
{
    BELFRY_OWNER_CHECK(forms);
    struct making making = making_of(forms, lens, need);
    struct form_key key = {lens_of(lens)->serial, batch->rev, (uint64_t)batch->first_sub + event};
    struct form *form = kube_forms_find(forms, &key);
    enum belfry_err err = BELFRY_OK;
    if (form != NULL && !kube_form_is_of(forms, form, batch, event)) {
        kube_forms_drop(forms, form);
        form = NULL;
    }
    if (form == NULL) {
        err = kube_form_make(&making, &key, batch, event, &form);
    } else {
        forms->stats.shared++;
        belfry_list_remove(&form->used);
        belfry_list_prepend(&forms->used, &form->used);
        if (!form->is_selectable && !making.is_text)
            err = kube_form_parse(&making, form, batch, event);
    }
    if (err == BELFRY_OK)
        *out = &form->change;
    return err;
}

/* ---- what a watcher is told ---- */

static bool selects_everything(const struct kube_selector *selector)
{
    return selector == NULL || kube_selector_is_everything(selector);
}

static bool object_passes(const struct kube_object *object, const struct kube_selector *selector)
{
    if (object == NULL)
        return false;
    return selects_everything(selector) || kube_selector_matches(selector, &object->attributes);
}

enum belfry_err kube_change_told(const struct kube_change *change, const struct kube_selector *selector, bool resumes,
                                 bool *told, enum kube_event *event)
{
    bool after = object_passes(change->after, selector), before = object_passes(change->before, selector);
    if (!change->blind) {
        *told = after || before;
        *event = !after ? KUBE_DELETED : before ? KUBE_MODIFIED : KUBE_ADDED;
        return BELFRY_OK;
    }
    bool is_sure = change->after == NULL ? before : selects_everything(selector);
    if (!is_sure && (!resumes || change->named == NULL))
        return BELFRY_ERR_COMPACTED;
    *told = true;
    *event = after ? KUBE_MODIFIED : KUBE_DELETED;
    return BELFRY_OK;
}

/* ---- lines ---- */

static bool is_line(const struct line *line, const struct kube_line *how)
{
    return line->how.view == how->view && line->how.event == how->event && line->how.include == how->include &&
           line->how.first == how->first;
}

/* `first` and `include` matter only for tables. */
static struct kube_line plainly(const struct kube_line *how)
{
    struct kube_line plain = *how;
    if (how->view != KUBE_VIEW_TABLE) {
        plain.include = KUBE_INCLUDE_METADATA;
        plain.first = false;
    }
    return plain;
}

static enum belfry_err kube_form_write_line(struct kube_forms *forms, const struct kube_lens *lens,
                                            const struct kube_change *change, const struct kube_line *how,
                                            struct belfry_blob **out)
{
    struct kube_render render = {
        .resource = lens->resource, .version = lens->version, .view = how->view, .include = how->include};
    const struct kube_object *was = change->before != NULL ? change->before : change->named;
    const struct kube_object *object = how->event == KUBE_DELETED ? was : change->after;
    belfry_buf_clear(&forms->scratch);
    enum belfry_err err = kube_render_event(&render, how->event, object, change->rev, how->first, &forms->scratch);
    if (err == BELFRY_OK)
        err = belfry_blob_copy(belfry_buf_bytes(&forms->scratch), out);
    if (forms->scratch.cap > SCRATCH_BYTES)
        belfry_buf_fini(&forms->scratch);
    return err;
}

static enum belfry_err kube_form_add_line(struct kube_forms *forms, const struct kube_lens *lens, struct form *form,
                                          const struct kube_line *how, struct line **out)
{
    struct line *line = calloc(1, sizeof(*line));
    if (line == NULL)
        return BELFRY_ERR_NOMEM;
    enum belfry_err err = kube_form_write_line(forms, lens, &form->change, how, &line->text);
    if (err != BELFRY_OK) {
        free(line);
        return err;
    }
    line->how = *how;
    line->next = form->lines;
    form->lines = line;
    size_t bytes = sizeof(*line) + belfry_blob_len(line->text);
    form->bytes += bytes;
    forms->stats.bytes += bytes;
    forms->stats.lines++;
    kube_forms_shrink(forms, form);
    *out = line;
    return BELFRY_OK;
}

enum belfry_err kube_forms_line(struct kube_forms *forms, const struct kube_lens *lens,
                                const struct kube_change *change, const struct kube_line *how, struct belfry_blob **out)
{
    BELFRY_OWNER_CHECK(forms);
    /* `change` was lent from here, and forms are not const */
    struct form *form = belfry_container(forms->used.next, struct form, used);
    assert(!belfry_list_empty(&forms->used) && &form->change == change);
    (void)change;
    struct kube_line plain = plainly(how);
    struct line *line = form->lines;
    while (line != NULL && !is_line(line, &plain))
        line = line->next;
    if (line == NULL) {
        enum belfry_err err = kube_form_add_line(forms, lens, form, &plain, &line);
        if (err != BELFRY_OK)
            return err;
    }
    *out = belfry_blob_ref(line->text);
    return BELFRY_OK;
}

void kube_forms_stats(const struct kube_forms *forms, struct kube_forms_stats *out)
{
    *out = forms->stats;
}
