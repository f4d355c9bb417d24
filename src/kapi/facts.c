/* src/kapi/facts.c */
#include "kapi/facts.h"

#include <stdio.h>
#include <stdlib.h>

#include "json/document.h"
#include "json/escape.h"
#include "json/shallow.h"

#define KIND_MAX 512  /* bytes of a kind or apiVersion that is added to every item; Kubernetes allows 317 */
#define UID_MAX  1024 /* bytes; a UUID has 36 */

/* A member to find. */
struct wanted {
    const char *name;
    struct belfry_bytes value; /* raw text; empty: missing */
};

/* Stores the members of these names; of duplicates the last. null counts as missing. */
static void find_members(struct belfry_bytes object, struct wanted *wanted, size_t n)
{
    struct belfry_shallow walk = belfry_shallow_walk(object);
    for (struct belfry_shallow_member member; belfry_shallow_next(&walk, &member);) {
        for (size_t i = 0; i < n; i++) {
            if (belfry_escape_is(member.name, wanted[i].name))
                wanted[i].value = belfry_shallow_is_nothing(member.value) ? (struct belfry_bytes){0} : member.value;
        }
    }
}

static enum belfry_err facts_wrong(const char **out_why, const char *why)
{
    *out_why = why;
    return BELFRY_ERR_PROTOCOL;
}

/* yyjson checks that it is JSON; *out is the value without white space around it. */
static enum belfry_err validate(struct belfry_bytes json, struct belfry_bytes *out, const char **out_why)
{
    struct belfry_kube_document document;
    enum belfry_err err = belfry_kube_document_read(&json, 1, &document);
    if (err == BELFRY_ERR_INVALID)
        return facts_wrong(out_why, "not JSON");
    if (err != BELFRY_OK)
        return err;
    belfry_kube_document_fini(&document);
    *out = belfry_shallow_value(json);
    return BELFRY_OK;
}

static bool is_plain(struct belfry_bytes value)
{
    return belfry_shallow_is_string(value) && !belfry_escape_in(value);
}

/* The text of a member that is a plain string or missing. */
static enum belfry_err plain_text(struct belfry_bytes value, struct belfry_bytes *out, const char **out_why,
                                  const char *why)
{
    if (value.len == 0)
        return BELFRY_OK;
    if (!is_plain(value))
        return facts_wrong(out_why, why);
    *out = belfry_shallow_text(value);
    return BELFRY_OK;
}

/* ---- an object ---- */

static bool says_initial_end(struct belfry_bytes annotations)
{
    struct wanted mark = {.name = "k8s.io/initial-events-end"};
    if (!belfry_shallow_is_object(annotations))
        return false;
    find_members(annotations, &mark, 1);
    return belfry_shallow_is_string(mark.value) && belfry_escape_is(belfry_shallow_text(mark.value), "true");
}

static enum belfry_err read_metadata(struct belfry_bytes metadata, struct belfry_kube_facts *facts,
                                     const char **out_why)
{
    enum { NS, NAME, UID, VERSION, ANNOTATIONS, N };
    struct wanted wanted[N] = {[NS] = {.name = "namespace"},
                               [NAME] = {.name = "name"},
                               [UID] = {.name = "uid"},
                               [VERSION] = {.name = "resourceVersion"},
                               [ANNOTATIONS] = {.name = "annotations"}};
    find_members(metadata, wanted, N);
    if (belfry_shallow_is_string(wanted[NAME].value))
        facts->name = belfry_shallow_text(wanted[NAME].value);
    else if (wanted[NAME].value.len > 0)
        return facts_wrong(out_why, "a metadata.name that is not text");
    facts->initial_end = says_initial_end(wanted[ANNOTATIONS].value);
    enum belfry_err err =
        plain_text(wanted[NS].value, &facts->ns, out_why, "a metadata.namespace that is not plain text");
    if (err == BELFRY_OK)
        err = plain_text(wanted[UID].value, &facts->uid, out_why, "a metadata.uid that is not plain text");
    if (err == BELFRY_OK)
        err = plain_text(wanted[VERSION].value, &facts->version, out_why, "a resourceVersion that is not plain text");
    if (facts->uid.len > UID_MAX)
        return facts_wrong(out_why, "a metadata.uid that is too long");
    if (facts->version.len > BELFRY_KUBE_VERSION_MAX)
        return facts_wrong(out_why, "a resourceVersion that is too long");
    return err;
}

enum depth { KIND_ONLY, WITH_METADATA };

/* Reads validated JSON. */
static enum belfry_err read_object(struct belfry_bytes object, enum depth depth, struct belfry_kube_facts *out,
                                   const char **out_why)
{
    enum { KIND, API_VERSION, METADATA, N };
    struct wanted wanted[N] = {
        [KIND] = {.name = "kind"}, [API_VERSION] = {.name = "apiVersion"}, [METADATA] = {.name = "metadata"}};
    struct belfry_kube_facts facts = {0};
    if (!belfry_shallow_is_object(object))
        return facts_wrong(out_why, "no object");
    find_members(object, wanted, N);
    enum belfry_err err = plain_text(wanted[KIND].value, &facts.kind, out_why, "a kind that is not plain text");
    if (err == BELFRY_OK)
        err =
            plain_text(wanted[API_VERSION].value, &facts.api_version, out_why, "an apiVersion that is not plain text");
    if (err == BELFRY_OK && depth == WITH_METADATA) {
        if (!belfry_shallow_is_object(wanted[METADATA].value))
            return facts_wrong(out_why, "an object without metadata");
        err = read_metadata(wanted[METADATA].value, &facts, out_why);
    }
    if (err == BELFRY_OK)
        *out = facts;
    return err;
}

enum belfry_err belfry_kube_facts_read(struct belfry_bytes json, struct belfry_kube_facts *out, const char **out_why)
{
    struct belfry_bytes object;
    enum belfry_err err = validate(json, &object, out_why);
    return err != BELFRY_OK ? err : read_object(object, WITH_METADATA, out, out_why);
}

/* ---- a watch event ---- */

static enum belfry_kube_type type_of(struct belfry_bytes text)
{
    static const struct {
        const char *name;
        enum belfry_kube_type type;
    } types[] = {{"ADDED", BELFRY_TYPE_ADDED},
                 {"MODIFIED", BELFRY_TYPE_MODIFIED},
                 {"DELETED", BELFRY_TYPE_DELETED},
                 {"BOOKMARK", BELFRY_TYPE_BOOKMARK},
                 {"ERROR", BELFRY_TYPE_ERROR}};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (belfry_escape_is(text, types[i].name))
            return types[i].type;
    }
    return 0;
}

static enum belfry_err read_event(struct belfry_bytes event, struct belfry_kube_read *read, const char **out_why)
{
    enum { TYPE, OBJECT, N };
    struct wanted wanted[N] = {[TYPE] = {.name = "type"}, [OBJECT] = {.name = "object"}};
    if (!belfry_shallow_is_object(event))
        return facts_wrong(out_why, "no event");
    find_members(event, wanted, N);
    if (!belfry_shallow_is_string(wanted[TYPE].value))
        return facts_wrong(out_why, "an event without a type");
    read->type = type_of(belfry_shallow_text(wanted[TYPE].value));
    if (read->type == 0)
        return facts_wrong(out_why, "an event of an unknown type");
    if (!belfry_shallow_is_object(wanted[OBJECT].value))
        return facts_wrong(out_why, "an event without an object");
    read->object = wanted[OBJECT].value;
    return BELFRY_OK;
}

enum belfry_err belfry_kube_event_read(struct belfry_bytes json, struct belfry_kube_read *out, const char **out_why)
{
    struct belfry_bytes event;
    struct belfry_kube_read read = {0};
    enum belfry_err err = validate(json, &event, out_why);
    if (err == BELFRY_OK)
        err = read_event(event, &read, out_why);
    if (err == BELFRY_OK)
        err =
            read_object(read.object, read.type == BELFRY_TYPE_ERROR ? KIND_ONLY : WITH_METADATA, &read.facts, out_why);
    if (err != BELFRY_OK)
        return err;
    if (read.facts.kind.len == 0)
        return facts_wrong(out_why, "an object without a kind");
    if (read.facts.api_version.len == 0)
        return facts_wrong(out_why, "an object without an apiVersion");
    *out = read;
    return BELFRY_OK;
}

/* ---- a list ---- */

/* The items were removed earlier. What makes this a list is exactly one "items", an array or null. */
static enum belfry_err check_items(struct belfry_bytes list, const char **out_why)
{
    struct belfry_shallow walk = belfry_shallow_walk(list);
    size_t n = 0;
    for (struct belfry_shallow_member member; belfry_shallow_next(&walk, &member);) {
        if (!belfry_escape_is(member.name, "items"))
            continue;
        if (!belfry_shallow_is_array(member.value) && !belfry_shallow_is_nothing(member.value))
            return facts_wrong(out_why, "a list whose items are not an array");
        n++;
    }
    if (n != 1)
        return facts_wrong(out_why,
                           n == 0 ? "an object without items, which is not a list" : "a list with items twice");
    return BELFRY_OK;
}

/* *out NULL: missing or empty. The token is opaque, so it may be any text without a zero byte. */
static enum belfry_err read_continue(struct belfry_bytes value, char **out, const char **out_why)
{
    struct belfry_buf text;
    *out = NULL;
    if (value.len == 0)
        return BELFRY_OK;
    if (!belfry_shallow_is_string(value))
        return facts_wrong(out_why, "a continue that is not text");
    belfry_buf_init(&text);
    enum belfry_err err = belfry_escape_undo(belfry_shallow_text(value), &text);
    struct belfry_bytes token = belfry_buf_bytes(&text);
    if (err == BELFRY_OK && token.len > BELFRY_KUBE_CONTINUE_MAX)
        err = facts_wrong(out_why, "a continue that is too long");
    else if (err == BELFRY_ERR_INVALID || (token.len > 0 && memchr(token.data, '\0', token.len) != NULL))
        err = facts_wrong(out_why, "a continue that cannot be sent back");
    if (err == BELFRY_OK && token.len > 0) {
        *out = strndup(token.data, token.len);
        err = *out == NULL ? BELFRY_ERR_NOMEM : BELFRY_OK;
    }
    belfry_buf_fini(&text);
    return err;
}

static enum belfry_err read_page(struct belfry_bytes metadata, struct belfry_kube_page *out, const char **out_why)
{
    enum { VERSION, CONTINUE, N };
    struct wanted wanted[N] = {[VERSION] = {.name = "resourceVersion"}, [CONTINUE] = {.name = "continue"}};
    struct belfry_bytes version = {0};
    char *continue_with;
    find_members(metadata, wanted, N);
    enum belfry_err err =
        plain_text(wanted[VERSION].value, &version, out_why, "a resourceVersion that is not plain text");
    if (err != BELFRY_OK)
        return err;
    if (version.len > BELFRY_KUBE_VERSION_MAX)
        return facts_wrong(out_why, "a resourceVersion that is too long");
    err = read_continue(wanted[CONTINUE].value, &continue_with, out_why);
    if (err != BELFRY_OK)
        return err;
    *out = (struct belfry_kube_page){.continue_with = continue_with};
    if (version.len > 0)
        memcpy(out->version, version.data, version.len);
    return BELFRY_OK;
}

enum belfry_err belfry_kube_page_read(struct belfry_bytes json, struct belfry_kube_page *out, const char **out_why)
{
    struct belfry_bytes list;
    struct wanted metadata = {.name = "metadata"};
    enum belfry_err err = validate(json, &list, out_why);
    if (err != BELFRY_OK)
        return err;
    if (!belfry_shallow_is_object(list))
        return facts_wrong(out_why, "no object, and no list");
    err = check_items(list, out_why);
    if (err != BELFRY_OK)
        return err;
    find_members(list, &metadata, 1);
    if (!belfry_shallow_is_object(metadata.value))
        return facts_wrong(out_why, "a list without metadata");
    return read_page(metadata.value, out, out_why);
}

void belfry_kube_page_fini(struct belfry_kube_page *page)
{
    free(page->continue_with);
    page->continue_with = NULL;
}

/* Derives the items' kind from the plain strings `kind` and `api_version` of a list; false: unknown. */
static bool kind_of_items(struct belfry_bytes *kind, struct belfry_bytes *api_version)
{
    static const char suffix[] = "List";
    size_t n = strlen(suffix);
    if (!is_plain(*kind) || !is_plain(*api_version))
        return false;
    *kind = belfry_shallow_text(*kind);
    *api_version = belfry_shallow_text(*api_version);
    if (kind->len <= n || kind->len > KIND_MAX || api_version->len == 0 || api_version->len > KIND_MAX)
        return false;
    kind->len -= n;
    return memcmp(kind->data + kind->len, suffix, n) == 0;
}

enum belfry_err belfry_kube_item_kind(struct belfry_bytes passed, struct belfry_buf *out)
{
    enum { KIND, API_VERSION, N };
    struct wanted wanted[N] = {[KIND] = {.name = "kind"}, [API_VERSION] = {.name = "apiVersion"}};
    struct belfry_bytes closed[] = {passed, belfry_bytes_str("}")};
    struct belfry_kube_document document;
    enum belfry_err err = belfry_kube_document_read(closed, 2, &document);
    if (err != BELFRY_OK)
        return err == BELFRY_ERR_NOMEM ? err : BELFRY_OK;
    belfry_kube_document_fini(&document);
    find_members(passed, wanted, N);
    struct belfry_bytes kind = wanted[KIND].value, api_version = wanted[API_VERSION].value;
    if (!kind_of_items(&kind, &api_version))
        return BELFRY_OK;
    char members[2 * KIND_MAX + 64];
    int n = snprintf(members, sizeof(members), "\"kind\":\"%.*s\",\"apiVersion\":\"%.*s\",", (int)kind.len, kind.data,
                     (int)api_version.len, api_version.data);
    return belfry_buf_append(out, members, (size_t)n);
}
