/* src/kapi/decoder.c */
#include "kapi/decoder.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/owner.h"
#include "kapi/frames.h"
#include "kapi/sentence.h"
#include "json/escape.h"

#define SHOWN_MAX 96 /* bytes, with the zero: enough to recognise the text, too few to leak a Secret */

enum state {
    RUNNING,
    REFUSED, /* another content type: the ERROR is still to be returned */
    OVER
};

struct belfry_decoder {
    /* fixed at creation */
    enum belfry_decoder_mode mode;
    size_t max_bytes;
    /* owner */
    enum state state;
    struct belfry_frames *frames; /* owned; NULL unless RUNNING */
    bool knows_kind;              /* of LIST: `kind` is final */
    struct belfry_buf kind;       /* `{"kind":"Pod","apiVersion":"v1",`; empty: unknown */
    struct belfry_failure failure;
    BELFRY_OWNER;
};

/* ---- failing ---- */

static void decoder_end(struct belfry_decoder *decoder)
{
    belfry_frames_destroy(decoder->frames);
    decoder->frames = NULL;
    decoder->state = OVER;
}

/* The error of client-go's StreamWatcher for a stream that cannot be decoded. It quotes the beginning of `shown`. */
static void describe_failure(struct belfry_decoder *decoder, enum belfry_err err, const char *what,
                             struct belfry_bytes shown)
{
    static const char *const subjects[] = {[BELFRY_DECODE_OBJECT] = "the object",
                                           [BELFRY_DECODE_LIST] = "the list",
                                           [BELFRY_DECODE_WATCH] = "the watch stream"};
    struct belfry_failure *failure = &decoder->failure;
    belfry_failure_set(failure, err, "%s cannot be decoded: %s", subjects[decoder->mode], what);
    if (decoder->mode == BELFRY_DECODE_WATCH) {
        failure->code = 500;
        memcpy(failure->reason, "ClientWatchDecoding", sizeof("ClientWatchDecoding"));
    }
    char quoted[SHOWN_MAX];
    struct belfry_sentence quote = belfry_sentence_begin(quoted, sizeof(quoted));
    belfry_sentence_quote(&quote, shown);
    belfry_sentence_trim(&quote);
    struct belfry_sentence why = belfry_sentence_resume(failure->why, sizeof(failure->why));
    belfry_sentence_say(&why, quoted[0] == '\0' ? "" : ": ");
    belfry_sentence_say(&why, quoted);
}

/* Returns the failure as an ERROR, the last result. */
static enum belfry_err give_error(struct belfry_decoder *decoder, struct belfry_decoded *out)
{
    *out = (struct belfry_decoded){.kind = BELFRY_DECODED_ERROR, .failure = &decoder->failure};
    decoder_end(decoder);
    return BELFRY_OK;
}

static enum belfry_err give_broken(struct belfry_decoder *decoder, struct belfry_decoded *out, const char *what,
                                   struct belfry_bytes shown)
{
    describe_failure(decoder, BELFRY_ERR_PROTOCOL, what, shown);
    return give_error(decoder, out);
}

static enum belfry_err give_too_large(struct belfry_decoder *decoder, struct belfry_decoded *out,
                                      struct belfry_bytes shown)
{
    char what[64];
    snprintf(what, sizeof(what), "more than %zu bytes in one object", decoder->max_bytes);
    describe_failure(decoder, BELFRY_ERR_TOO_LARGE, what, shown);
    return give_error(decoder, out);
}

/* ---- creating ---- */

/* RFC 9110 section 8.3.1: type and subtype in any case, then parameters. */
static bool is_json(struct belfry_bytes type)
{
    static const char json[] = "application/json";
    size_t n = strlen(json);
    if (type.len < n)
        return type.len == 0;
    return strncasecmp(type.data, json, n) == 0 && (type.len == n || memchr("; \t", type.data[n], 3) != NULL);
}

enum belfry_err belfry_decoder_create(enum belfry_decoder_mode mode, struct belfry_bytes content_type, size_t max_bytes,
                                      struct belfry_decoder **out)
{
    struct belfry_decoder *decoder = calloc(1, sizeof(*decoder));
    enum belfry_err err = decoder == NULL ? BELFRY_ERR_NOMEM : BELFRY_OK;
    if (err != BELFRY_OK)
        return err;
    decoder->mode = mode;
    decoder->max_bytes = max_bytes;
    belfry_buf_init(&decoder->kind);
    if (is_json(content_type)) {
        err = belfry_frames_create(mode == BELFRY_DECODE_LIST ? BELFRY_FRAMES_ITEMS : BELFRY_FRAMES_VALUES, max_bytes,
                                   &decoder->frames);
    } else {
        decoder->state = REFUSED;
        describe_failure(decoder, BELFRY_ERR_PROTOCOL, "its type is not application/json", content_type);
    }
    BELFRY_OWNER_INIT(decoder);
    if (err == BELFRY_OK)
        *out = decoder;
    else
        belfry_decoder_destroy(decoder);
    return err;
}

void belfry_decoder_destroy(struct belfry_decoder *decoder)
{
    if (decoder == NULL)
        return;
    BELFRY_OWNER_CHECK(decoder);
    belfry_frames_destroy(decoder->frames);
    belfry_buf_fini(&decoder->kind);
    free(decoder);
}

enum belfry_err belfry_decoder_feed(struct belfry_decoder *decoder, struct belfry_bytes bytes)
{
    BELFRY_OWNER_CHECK(decoder);
    return decoder->state == RUNNING ? belfry_frames_feed(decoder->frames, bytes) : BELFRY_OK;
}

/* ---- objects ---- */

/* The object whose JSON is `head` and `tail`. Errors: BELFRY_ERR_NOMEM. */
static enum belfry_err give_object(struct belfry_decoder *decoder, enum belfry_decoded_kind kind,
                                   const struct belfry_kube_facts *facts, struct belfry_bytes head,
                                   struct belfry_bytes tail, struct belfry_decoded *out)
{
    /* An object without a name is reported; the other objects are still decoded. */
    if (facts->name.len == 0) {
        describe_failure(decoder, BELFRY_ERR_PROTOCOL, "an object without metadata.name", tail);
        if (decoder->mode == BELFRY_DECODE_OBJECT)
            return give_error(decoder, out);
        *out = (struct belfry_decoded){.kind = BELFRY_DECODED_UNREADABLE, .failure = &decoder->failure};
        return BELFRY_OK;
    }

    struct belfry_object_parts parts = {
        .ns = facts->ns, .name = facts->name, .head = head, .tail = tail, .uid = facts->uid, .version = facts->version};
    struct belfry_object *object;
    struct belfry_buf name; /* without escapes: Go escapes '&', '<' and '>' */
    belfry_buf_init(&name);
    enum belfry_err err = BELFRY_OK;
    if (belfry_escape_in(parts.name)) {
        err = belfry_escape_undo(parts.name, &name);
        parts.name = belfry_buf_bytes(&name);
    }
    if (err == BELFRY_OK)
        err = belfry_object_of_kube(&parts, &object);
    belfry_buf_fini(&name);
    if (err == BELFRY_ERR_TOO_LARGE)
        return give_too_large(decoder, out, tail);
    if (err == BELFRY_OK)
        *out = (struct belfry_decoded){.kind = kind, .object = object};
    return err;
}

static enum belfry_err decode_object(struct belfry_decoder *decoder, struct belfry_bytes frame,
                                     struct belfry_decoded *out)
{
    struct belfry_kube_facts facts;
    const char *why;
    enum belfry_err err = belfry_kube_facts_read(frame, &facts, &why);
    if (err == BELFRY_ERR_PROTOCOL)
        return give_broken(decoder, out, why, frame);
    if (err == BELFRY_OK)
        err = give_object(decoder, BELFRY_DECODED_ITEM, &facts, (struct belfry_bytes){0}, frame, out);
    if (err == BELFRY_OK && decoder->state == RUNNING)
        decoder_end(decoder);
    return err;
}

/* ---- lists ---- */

/* Finds, once, the kind that the items lack, from the members before them. */
static enum belfry_err learn_kind(struct belfry_decoder *decoder)
{
    if (decoder->knows_kind)
        return BELFRY_OK;
    belfry_buf_clear(&decoder->kind);
    enum belfry_err err = belfry_buf_append(&decoder->kind, "{", 1);
    if (err == BELFRY_OK)
        err = belfry_kube_item_kind(belfry_frames_passed(decoder->frames), &decoder->kind);
    if (err != BELFRY_OK)
        return err;
    if (belfry_buf_len(&decoder->kind) == 1)
        belfry_buf_clear(&decoder->kind);
    decoder->knows_kind = true;
    return BELFRY_OK;
}

static enum belfry_err decode_item(struct belfry_decoder *decoder, struct belfry_bytes frame,
                                   struct belfry_decoded *out)
{
    struct belfry_kube_facts facts;
    const char *why;
    enum belfry_err err = learn_kind(decoder);
    if (err != BELFRY_OK)
        return err;
    err = belfry_kube_facts_read(frame, &facts, &why);
    if (err == BELFRY_ERR_PROTOCOL)
        return give_broken(decoder, out, why, frame);
    if (err != BELFRY_OK)
        return err;
    struct belfry_bytes head = belfry_buf_bytes(&decoder->kind);
    if (facts.kind.len > 0 || facts.api_version.len > 0 || head.len == 0)
        return give_object(decoder, BELFRY_DECODED_ITEM, &facts, (struct belfry_bytes){0}, frame, out);
    assert(frame.data[0] == '{'); /* a frame has no white space around it; the head has a bracket of its own */
    return give_object(decoder, BELFRY_DECODED_ITEM, &facts, head, belfry_bytes_of(frame.data + 1, frame.len - 1), out);
}

static enum belfry_err decode_envelope(struct belfry_decoder *decoder, struct belfry_bytes frame,
                                       struct belfry_decoded *out)
{
    struct belfry_kube_page page;
    const char *why;
    enum belfry_err err = belfry_kube_page_read(frame, &page, &why);
    if (err == BELFRY_ERR_PROTOCOL)
        return give_broken(decoder, out, why, frame);
    if (err != BELFRY_OK)
        return err;
    *out = (struct belfry_decoded){.kind = BELFRY_DECODED_PAGE, .page = page};
    decoder_end(decoder);
    return BELFRY_OK;
}

/* ---- watches ---- */

static enum belfry_err decode_event(struct belfry_decoder *decoder, struct belfry_bytes frame,
                                    struct belfry_decoded *out)
{
    struct belfry_kube_read read;
    const char *why;
    enum belfry_decoded_kind kind = BELFRY_DECODED_ADDED;
    enum belfry_err err = belfry_kube_event_read(frame, &read, &why);
    if (err == BELFRY_ERR_PROTOCOL)
        return give_broken(decoder, out, why, frame);
    if (err != BELFRY_OK)
        return err;
    switch (read.type) {
    case BELFRY_TYPE_ADDED:
        break;
    case BELFRY_TYPE_MODIFIED:
        kind = BELFRY_DECODED_MODIFIED;
        break;
    case BELFRY_TYPE_DELETED:
        kind = BELFRY_DECODED_DELETED;
        break;
    case BELFRY_TYPE_BOOKMARK:
        if (read.facts.version.len == 0)
            return give_broken(decoder, out, "a bookmark without metadata.resourceVersion", read.object);
        *out = (struct belfry_decoded){.kind = BELFRY_DECODED_BOOKMARK, .initial_end = read.facts.initial_end};
        /* facts rejects longer ones; out->version is zeroed */
        memcpy(out->version, read.facts.version.data, read.facts.version.len);
        return BELFRY_OK;
    case BELFRY_TYPE_ERROR:
        belfry_failure_of_status(&decoder->failure, read.object);
        return decoder->failure.err == BELFRY_ERR_NOMEM ? BELFRY_ERR_NOMEM : give_error(decoder, out);
    }
    return give_object(decoder, kind, &read.facts, (struct belfry_bytes){0}, read.object, out);
}

/* ---- the loop ---- */

enum belfry_err belfry_decoder_next(struct belfry_decoder *decoder, struct belfry_decoded *out)
{
    BELFRY_OWNER_CHECK(decoder);
    struct belfry_bytes frame;
    bool envelope;
    if (decoder->state == REFUSED)
        return give_error(decoder, out);
    if (decoder->state == OVER)
        return BELFRY_ERR_AGAIN;
    enum belfry_err err = belfry_frames_next(decoder->frames, &frame, &envelope);
    if (err == BELFRY_ERR_TOO_LARGE)
        return give_too_large(decoder, out, belfry_frames_rest(decoder->frames));
    if (err == BELFRY_ERR_PROTOCOL)
        return give_broken(decoder, out, "not JSON", belfry_frames_rest(decoder->frames));
    if (err != BELFRY_OK)
        return err;

    switch (decoder->mode) {
    case BELFRY_DECODE_OBJECT:
        err = decode_object(decoder, frame, out);
        break;
    case BELFRY_DECODE_LIST:
        err = envelope ? decode_envelope(decoder, frame, out) : decode_item(decoder, frame, out);
        break;
    case BELFRY_DECODE_WATCH:
        err = decode_event(decoder, frame, out);
        break;
    }
    if (err == BELFRY_ERR_NOMEM)
        belfry_frames_again(decoder->frames);
    return err;
}

bool belfry_decoder_complete(const struct belfry_decoder *decoder)
{
    if (decoder->state != RUNNING)
        return decoder->state == OVER;
    return decoder->mode == BELFRY_DECODE_WATCH && belfry_frames_clean(decoder->frames);
}

bool belfry_decoder_over(const struct belfry_decoder *decoder)
{
    return decoder->state == OVER;
}
