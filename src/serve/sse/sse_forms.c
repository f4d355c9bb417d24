/* src/serve/sse/sse_forms.c */
#include "serve/sse/sse_forms.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/owner.h"
#include "wire/scan.h"

/* A message, and the question that it answers. */
struct form {
    struct belfry_blob *text; /* one reference; NULL: free */
    int64_t rev;
    uint32_t first_sub; /* of the slice, whose events are numbered from there */
    bool open;
    enum sse_value value;
    uint32_t tag, used;
    struct belfry_buf events; /* of the whole part */
};

struct sse_forms {
    struct form forms[SSE_FORMS];
    size_t next; /* to be used again */
    struct belfry_blob *progress;
    int64_t progress_rev;
    uint32_t progress_tag;
    struct belfry_buf changes, message;
    struct sse_forms_stats stats;
    BELFRY_OWNER;
};

enum belfry_err sse_forms_create(struct sse_forms **out)
{
    struct sse_forms *forms = calloc(1, sizeof(*forms));
    if (forms == NULL)
        return BELFRY_ERR_NOMEM;
    BELFRY_OWNER_INIT(forms);
    *out = forms;
    return BELFRY_OK;
}

void sse_forms_next_turn(struct sse_forms *forms)
{
    for (size_t i = 0; i < SSE_FORMS; i++) { /* remember() may have left one free between others */
        belfry_blob_unref(forms->forms[i].text);
        forms->forms[i].text = NULL;
    }
    forms->next = 0;
}

void sse_forms_destroy(struct sse_forms *forms)
{
    if (forms == NULL)
        return;
    sse_forms_next_turn(forms);
    belfry_blob_unref(forms->progress);
    for (size_t i = 0; i < SSE_FORMS; i++)
        belfry_buf_fini(&forms->forms[i].events);
    belfry_buf_fini(&forms->changes);
    belfry_buf_fini(&forms->message);
    free(forms);
}

static struct belfry_bytes events_of(const struct lines_part *part)
{
    return belfry_bytes_of(part->events, part->n * sizeof(part->events[0]));
}

static struct form *find(struct sse_forms *forms, const struct lines_part *part, enum sse_value value, uint32_t tag)
{
    for (size_t i = 0; i < SSE_FORMS; i++) {
        struct form *form = &forms->forms[i];
        if (form->text != NULL && form->rev == part->batch->rev && form->first_sub == part->batch->first_sub &&
            form->value == value && form->open == part->open && form->tag == tag &&
            belfry_bytes_equal(belfry_buf_bytes(&form->events), events_of(part)))
            return form;
    }
    return NULL;
}

static enum belfry_err write_change(const struct batch *batch, uint32_t event, enum sse_value value,
                                    struct belfry_buf *out)
{
    struct belfry_wire_event wire;
    const struct batch_event *at = &batch->events[event];
    struct sse_change change = {.is_delete = at->is_delete, .key = batch_key(batch, at)};
    if (!at->is_delete && belfry_scan_event(batch_bytes(batch, at, false), &wire) == BELFRY_OK) /* scanned before */
        change.value = wire.kv.value;
    enum belfry_err err = belfry_buf_len(out) == 0 ? BELFRY_OK : belfry_buf_append(out, ",", 1);
    return err != BELFRY_OK ? err : sse_text_change(&change, value, out);
}

/* Makes the message, in forms->message. */
static enum belfry_err make(struct sse_forms *forms, const struct lines_part *part, enum sse_value value, uint32_t tag,
                            uint32_t *used)
{
    struct belfry_buf *changes = &forms->changes;
    struct sse_id id = {.rev = part->batch->rev, .tagged = true, .tag = tag};
    enum belfry_err err = BELFRY_OK;
    belfry_buf_clear(changes);
    belfry_buf_clear(&forms->message);
    for (*used = 0; err == BELFRY_OK && *used < part->n && belfry_buf_len(changes) < SSE_PART_BYTES; ++*used)
        err = write_change(part->batch, part->events[*used], value, changes);
    if (err != BELFRY_OK)
        return err;
    return sse_text_revision(&id, part->open || *used < part->n, belfry_buf_bytes(changes), &forms->message);
}

/* What was large once is not kept. */
static void shrink(struct belfry_buf *buf)
{
    if (buf->cap > 4 * SSE_PART_BYTES)
        belfry_buf_fini(buf);
}

/* For the next stream; not remembered if there is no memory. */
static void remember(struct sse_forms *forms, const struct lines_part *part, const struct form *like)
{
    struct form *form = &forms->forms[forms->next];
    struct belfry_bytes events = events_of(part);
    belfry_blob_unref(form->text);
    form->text = NULL;
    shrink(&form->events);
    belfry_buf_clear(&form->events);
    if (belfry_buf_append(&form->events, events.data, events.len) != BELFRY_OK)
        return;
    struct belfry_buf kept = form->events;
    *form = *like;
    form->events = kept;
    belfry_blob_ref(form->text);
    forms->next = (forms->next + 1) % SSE_FORMS;
}

enum belfry_err sse_forms_revision(struct sse_forms *forms, const struct lines_part *part, enum sse_value value,
                                   uint32_t tag, uint32_t *used, struct belfry_blob **out)
{
    BELFRY_OWNER_CHECK(forms);
    const struct form *form = find(forms, part, value, tag);
    if (form != NULL) {
        forms->stats.shared++;
        *used = form->used;
        *out = belfry_blob_ref(form->text);
        return BELFRY_OK;
    }
    enum belfry_err err = make(forms, part, value, tag, used);
    if (err == BELFRY_OK)
        err = belfry_blob_copy(belfry_buf_bytes(&forms->message), out);
    shrink(&forms->changes);
    shrink(&forms->message);
    if (err != BELFRY_OK)
        return err;
    forms->stats.made++;
    struct form like = {.text = *out,
                        .rev = part->batch->rev,
                        .first_sub = part->batch->first_sub,
                        .open = part->open,
                        .value = value,
                        .tag = tag,
                        .used = *used};
    remember(forms, part, &like);
    return BELFRY_OK;
}

enum belfry_err sse_forms_progress(struct sse_forms *forms, int64_t rev, uint32_t tag, struct belfry_blob **out)
{
    struct sse_id id = {.rev = rev, .tagged = true, .tag = tag};
    if (forms->progress == NULL || forms->progress_rev != rev || forms->progress_tag != tag) {
        struct belfry_blob *made;
        belfry_buf_clear(&forms->message);
        enum belfry_err err = sse_text_progress(&id, &forms->message);
        if (err == BELFRY_OK)
            err = belfry_blob_copy(belfry_buf_bytes(&forms->message), &made);
        if (err != BELFRY_OK)
            return err;
        belfry_blob_unref(forms->progress);
        forms->progress = made;
        forms->progress_rev = rev;
        forms->progress_tag = tag;
    }
    *out = belfry_blob_ref(forms->progress);
    return BELFRY_OK;
}

void sse_forms_stats(const struct sse_forms *forms, struct sse_forms_stats *out)
{
    *out = forms->stats;
}
