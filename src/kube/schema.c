/* src/kube/schema.c */
#include "kube/schema.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

#include "kube/name.h"
#include "json/json_alc.h"

static_assert(KUBE_SCHEMA_NAME_MAX > KUBE_SUBDOMAIN_MAX + 3 * (KUBE_LABEL_MAX + 1), "every name fits");

/* clang-format off */
const char kube_schema_object_meta[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"name\":{\"type\":\"string\","
    "\"description\":\"The name: one object of a kind has it in a namespace, or in all where there are none.\"},"
    "\"generateName\":{\"type\":\"string\","
    "\"description\":\"What a name that was made for the object begins with.\"},"
    "\"namespace\":{\"type\":\"string\","
    "\"description\":\"The namespace. Objects of cluster-scoped kinds have none.\"},"
    "\"uid\":{\"type\":\"string\","
    "\"description\":\"Tells objects apart that had the same name at different times.\"},"
    "\"resourceVersion\":{\"type\":\"string\",\"description\":\"The revision of etcd at which the object was last"
    " changed.\"},"
    "\"generation\":{\"type\":\"integer\",\"format\":\"int64\",\"description\":\"Grows with every change of what is"
    " wanted.\"},"
    "\"creationTimestamp\":{\"type\":\"string\",\"format\":\"date-time\","
    "\"description\":\"When the object was made.\"},"
    "\"deletionTimestamp\":{\"type\":\"string\",\"format\":\"date-time\","
    "\"description\":\"When its deletion was asked for.\"},"
    "\"deletionGracePeriodSeconds\":{\"type\":\"integer\",\"format\":\"int64\","
    "\"description\":\"How long it may take to end.\"},"
    "\"labels\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"},"
    "\"description\":\"Keys and values by which objects are selected.\"},"
    "\"annotations\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"},"
    "\"description\":\"Keys and values that are kept with the object and select nothing.\"},"
    "\"finalizers\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},"
    "\"description\":\"Who must agree before the object is gone.\"},"
    "\"ownerReferences\":{\"type\":\"array\",\"description\":\"The objects that this one belongs to.\",\"items\":{"
    "\"type\":\"object\",\"required\":[\"apiVersion\",\"kind\",\"name\",\"uid\"],\"properties\":{"
    "\"apiVersion\":{\"type\":\"string\",\"description\":\"The owner's API version.\"},"
    "\"kind\":{\"type\":\"string\",\"description\":\"The owner's kind.\"},"
    "\"name\":{\"type\":\"string\",\"description\":\"The owner's name.\"},"
    "\"uid\":{\"type\":\"string\",\"description\":\"The owner's uid.\"},"
    "\"controller\":{\"type\":\"boolean\",\"description\":\"Whether the owner is the one that manages it.\"},"
    "\"blockOwnerDeletion\":{\"type\":\"boolean\",\"description\":\"Whether the owner waits for this object to go"
    " first.\"}}}},"
    "\"managedFields\":{\"type\":\"array\",\"items\":{\"type\":\"object\"},"
    "\"description\":\"Who set which fields.\"}}}";

const char kube_schema_list_meta[] =
    "{\"type\":\"object\",\"description\":\"What every list has.\",\"properties\":{"
    "\"resourceVersion\":{\"type\":\"string\",\"description\":\"The revision of etcd that the list shows.\"},"
    "\"continue\":{\"type\":\"string\",\"description\":\"Asks for the next page.\"},"
    "\"remainingItemCount\":{\"type\":\"integer\",\"format\":\"int64\",\"description\":\"How many objects follow.\"}}}";
/* clang-format on */

/* "demo.example.com" -> "com.example.demo" */
static void reverse_group(const char *group, char out[KUBE_SUBDOMAIN_MAX + 1])
{
    size_t end = strlen(group), n = 0;
    while (end > 0) {
        size_t begin = end;
        while (begin > 0 && group[begin - 1] != '.')
            begin--;
        memcpy(out + n, group + begin, end - begin);
        n += end - begin;
        end = begin > 0 ? begin - 1 : 0;
        if (end > 0)
            out[n++] = '.';
    }
    out[n] = '\0';
}

void kube_schema_name(const struct kube_resource *resource, const struct kube_version *version, const char *kind,
                      char out[KUBE_SCHEMA_NAME_MAX])
{
    char group[KUBE_SUBDOMAIN_MAX + 1] = "core";
    if (resource->group[0] != '\0')
        reverse_group(resource->group, group);
    snprintf(out, KUBE_SCHEMA_NAME_MAX, "%s.%s.%s", group, version->name, kind);
}

/* Sets `name` of `object` to `value`. NULL for `object` or `value` means that memory ran out earlier. */
static bool schema_put(yyjson_mut_doc *doc, yyjson_mut_val *object, const char *name, yyjson_mut_val *value)
{
    yyjson_mut_val *key = yyjson_mut_strcpy(doc, name);
    return object != NULL && key != NULL && value != NULL && yyjson_mut_obj_put(object, key, value);
}

static bool schema_put_text(yyjson_mut_doc *doc, yyjson_mut_val *object, const char *name, const char *text)
{
    return schema_put(doc, object, name, yyjson_mut_strcpy(doc, text));
}

static bool schema_describe(yyjson_mut_doc *doc, yyjson_mut_val *properties, const char *name, const char *text)
{
    yyjson_mut_val *property = yyjson_mut_obj(doc);
    if (yyjson_mut_obj_get(properties, name) != NULL)
        return true;
    return schema_put_text(doc, property, "type", "string") && schema_put_text(doc, property, "description", text) &&
           schema_put(doc, properties, name, property);
}

/* A reference cannot have a description; allOf around it can. */
static bool put_metadata(yyjson_mut_doc *doc, yyjson_mut_val *properties)
{
    yyjson_mut_val *metadata = yyjson_mut_obj(doc), *all = yyjson_mut_arr(doc), *ref = yyjson_mut_obj(doc);
    return schema_put_text(doc, ref, "$ref", KUBE_SCHEMA_REF KUBE_SCHEMA_OBJECT_META) && all != NULL &&
           yyjson_mut_arr_append(all, ref) &&
           schema_put_text(doc, metadata, "description", "The object's name, and what was noted about it.") &&
           schema_put(doc, metadata, "allOf", all) && schema_put(doc, properties, "metadata", metadata);
}

static bool put_kind(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct kube_resource *resource,
                     const struct kube_version *version)
{
    yyjson_mut_val *kind = yyjson_mut_obj(doc), *kinds = yyjson_mut_arr(doc);
    return schema_put_text(doc, kind, "group", resource->group) && schema_put_text(doc, kind, "kind", resource->kind) &&
           schema_put_text(doc, kind, "version", version->name) && kinds != NULL &&
           yyjson_mut_arr_append(kinds, kind) && schema_put(doc, root, "x-kubernetes-group-version-kind", kinds);
}

static bool schema_complete(yyjson_mut_doc *doc, const struct kube_resource *resource,
                            const struct kube_version *version)
{
    yyjson_mut_val *root = yyjson_mut_doc_get_root(doc);
    yyjson_mut_val *properties = yyjson_mut_obj_get(root, "properties");
    if (!yyjson_mut_is_obj(properties)) {
        properties = yyjson_mut_obj(doc);
        if (!schema_put(doc, root, "properties", properties))
            return false;
    }
    return schema_describe(doc, properties, "apiVersion", "The group and version of this form of the object.") &&
           schema_describe(doc, properties, "kind", "The kind of the object.") && put_metadata(doc, properties) &&
           put_kind(doc, root, resource, version);
}

/* A mutable copy of the schema; without a schema, one that allows anything. NULL: no memory (the text is known to be
 * valid). */
static yyjson_mut_doc *open_schema(const struct kube_version *version)
{
    static const char anything[] = "{\"type\":\"object\",\"x-kubernetes-preserve-unknown-fields\":true}";
    const char *text = version->schema == NULL ? anything : version->schema;
    yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)text, strlen(text), YYJSON_READ_NUMBER_AS_RAW,
                                       &belfry_json_alc, NULL); /* does not write without YYJSON_READ_INSITU */
    yyjson_mut_doc *copy = doc == NULL ? NULL : yyjson_doc_mut_copy(doc, &belfry_json_alc);
    yyjson_doc_free(doc);
    return copy;
}

enum belfry_err kube_schema_write(const struct kube_resource *resource, const struct kube_version *version,
                                  struct belfry_buf *out)
{
    enum belfry_err err = BELFRY_ERR_NOMEM;
    size_t len;
    char *text = NULL;
    yyjson_mut_doc *doc = open_schema(version);
    if (doc != NULL && schema_complete(doc, resource, version))
        text = yyjson_mut_write_opts(doc, YYJSON_WRITE_NOFLAG, &belfry_json_alc, &len, NULL);
    if (text != NULL)
        err = belfry_buf_append(out, text, len);
    free(text);
    yyjson_mut_doc_free(doc);
    return err;
}
