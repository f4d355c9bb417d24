/* src/kfollow/resource_find.c */
#include "kfollow/resource_find.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "opt/nearest.h"
#include "json/document.h"

#define DEFINITIONS "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
#define MINOR_MAX   1000

static void find_set_step(struct resource_find *find, enum resource_find_step step)
{
    const char *group = find->name.group, *version = find->versions[find->at];
    char *path = find->path;
    find->step = step;
    switch (step) {
    case RESOURCE_FIND_GROUP:
        snprintf(path, sizeof(find->path), "/apis/%s", group);
        break;
    case RESOURCE_FIND_RESOURCES:
        if (group[0] == '\0')
            snprintf(path, sizeof(find->path), "/api/%s", version);
        else
            snprintf(path, sizeof(find->path), "/apis/%s/%s", group, version);
        break;
    case RESOURCE_FIND_SERVER:
        snprintf(path, sizeof(find->path), "/version");
        break;
    case RESOURCE_FIND_DEFINITION:
        snprintf(path, sizeof(find->path), DEFINITIONS "/%s.%s", find->name.plural, group);
        break;
    }
}

void resource_find_init(struct resource_find *find, const struct resource_name *name, bool is_custom)
{
    *find = (struct resource_find){.name = *name, .is_custom = is_custom, .why = ""};
    const char *version = name->group[0] == '\0' ? "v1" : name->version;
    if (version[0] != '\0') {
        find->n_versions = 1;
        memcpy(find->versions[0], version, strlen(version) + 1);
    }
    find_set_step(find, version[0] != '\0' ? RESOURCE_FIND_RESOURCES : RESOURCE_FIND_GROUP);
}

void resource_find_init_selectable(struct resource_find *find, const struct resource_find *found)
{
    assert(found->state == RESOURCE_FIND_FOUND);
    *find = *found;
    find->state = RESOURCE_FIND_ASKING;
    find->is_unsure = false;
    find->facts.selectable = (struct resource_selectable){0};
    find_set_step(find, RESOURCE_FIND_SERVER);
}

static enum resource_find_state find_fail(struct resource_find *find, const char *why)
{
    find->why = why;
    find->state = RESOURCE_FIND_FAILED;
    return find->state;
}

/* The text of a member, if it is a label that fits and can be in a path. */
static bool member_label(yyjson_val *object, const char *key, char out[RESOURCE_LABEL_MAX + 1])
{
    yyjson_val *val = yyjson_obj_get(object, key);
    if (!yyjson_is_str(val) || yyjson_get_len(val) > RESOURCE_LABEL_MAX)
        return false;
    const char *text = yyjson_get_str(val);
    for (size_t i = 0; i < yyjson_get_len(val); i++) {
        char c = text[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-'))
            return false;
    }
    memcpy(out, text, yyjson_get_len(val));
    out[yyjson_get_len(val)] = '\0';
    return true;
}

/* ---- the versions of a group ---- */

static void find_add_version(struct resource_find *find, yyjson_val *version)
{
    char label[RESOURCE_LABEL_MAX + 1];
    if (find->n_versions == RESOURCE_FIND_VERSIONS || !member_label(version, "version", label) || label[0] == '\0')
        return;
    for (size_t i = 0; i < find->n_versions; i++)
        if (strcmp(find->versions[i], label) == 0)
            return;
    memcpy(find->versions[find->n_versions++], label, sizeof(label));
}

static enum resource_find_state find_take_group(struct resource_find *find, yyjson_val *root)
{
    yyjson_val *versions = yyjson_obj_get(root, "versions"), *version;
    size_t i, n;
    find_add_version(find, yyjson_obj_get(root, "preferredVersion"));
    yyjson_arr_foreach(versions, i, n, version) find_add_version(find, version);
    if (find->n_versions == 0)
        return find_fail(find, "the group has no versions");
    find_set_step(find, RESOURCE_FIND_RESOURCES);
    return find->state;
}

/* ---- the resources of a version ---- */

static bool has_verb(yyjson_val *resource, const char *verb)
{
    yyjson_val *verbs = yyjson_obj_get(resource, "verbs"), *one;
    size_t i, n;
    yyjson_arr_foreach(verbs, i, n, one)
    {
        if (yyjson_is_str(one) && strcmp(yyjson_get_str(one), verb) == 0)
            return true;
    }
    return false;
}

/* "pod" is probably meant to be "pods": kubectl takes the singular and short names, and so people write them. */
static void find_nearest(struct resource_find *find, yyjson_val *root)
{
    yyjson_val *resources = yyjson_obj_get(root, "resources"), *one, *alias;
    const char *best = find->nearest[0] != '\0' ? find->nearest : NULL;
    char nearest[RESOURCE_LABEL_MAX + 1];
    size_t i, n, k, m;
    yyjson_arr_foreach(resources, i, n, one)
    {
        char plural[RESOURCE_LABEL_MAX + 1], singular[RESOURCE_LABEL_MAX + 1];
        if (!member_label(one, "name", plural)) /* a subresource, pods/log */
            continue;
        bool is_meant = member_label(one, "singularName", singular) && strcmp(singular, find->name.plural) == 0;
        is_meant = is_meant || (member_label(one, "kind", singular) && strcasecmp(singular, find->name.plural) == 0);
        yyjson_arr_foreach(yyjson_obj_get(one, "shortNames"), k, m, alias)
        {
            is_meant = is_meant || (yyjson_is_str(alias) && yyjson_equals_str(alias, find->name.plural));
        }
        const char *before = best;
        if (is_meant)
            best = plural;
        else
            belfry_nearest_consider(find->name.plural, plural, &best);
        if (best != before) {
            memcpy(nearest, best, strlen(best) + 1);
            best = nearest;
        }
        if (is_meant)
            break;
    }
    if (best == nearest)
        memcpy(find->nearest, nearest, sizeof(nearest));
}

static yyjson_val *find_in_list(const struct resource_find *find, yyjson_val *root)
{
    yyjson_val *resources = yyjson_obj_get(root, "resources"), *one;
    size_t i, n;
    yyjson_arr_foreach(resources, i, n, one)
    {
        yyjson_val *name = yyjson_obj_get(one, "name");
        if (yyjson_is_str(name) && yyjson_equals_str(name, find->name.plural))
            return one;
    }
    return NULL;
}

static enum resource_find_state find_next_version(struct resource_find *find)
{
    if (++find->at == find->n_versions)
        find->state = RESOURCE_FIND_ABSENT;
    else
        find_set_step(find, RESOURCE_FIND_RESOURCES);
    return find->state;
}

static enum resource_find_state find_take_resources(struct resource_find *find, yyjson_val *root)
{
    struct resource_facts *facts = &find->facts;
    yyjson_val *one = find_in_list(find, root);
    if (one == NULL) {
        find_nearest(find, root);
        return find_next_version(find);
    }
    if (!has_verb(one, "list") || !has_verb(one, "watch"))
        return find_fail(find, "the resource cannot be listed and watched");
    if (!member_label(one, "kind", facts->kind) || facts->kind[0] == '\0' ||
        !yyjson_is_bool(yyjson_obj_get(one, "namespaced")))
        return find_fail(find, "the resource has no kind, or no scope");
    if (!member_label(one, "singularName", facts->singular))
        facts->singular[0] = '\0';
    facts->is_namespaced = yyjson_get_bool(yyjson_obj_get(one, "namespaced"));
    memcpy(facts->version, find->versions[find->at], sizeof(facts->version));
    snprintf(facts->group_version, sizeof(facts->group_version), "%s%s%s", find->name.group,
             find->name.group[0] == '\0' ? "" : "/", facts->version);
    find_set_step(find, RESOURCE_FIND_SERVER);
    return find->state;
}

/* ---- by which fields it can be selected ---- */

static enum resource_find_state find_end(struct resource_find *find)
{
    find->state = RESOURCE_FIND_FOUND;
    return find->state;
}

/* "minor" is "31", or "31+" of some vendors. */
static enum resource_find_state find_take_server(struct resource_find *find, yyjson_val *root)
{
    const char *major = yyjson_get_str(yyjson_obj_get(root, "major"));
    const char *minor = yyjson_get_str(yyjson_obj_get(root, "minor"));
    unsigned number = 0;
    if (major != NULL && strcmp(major, "1") == 0 && minor != NULL)
        for (; *minor >= '0' && *minor <= '9' && number < MINOR_MAX; minor++)
            number = 10 * number + (unsigned)(*minor - '0');
    find->facts.selectable.minor = number;
    if (!find->is_custom)
        return find_end(find);
    find_set_step(find, RESOURCE_FIND_DEFINITION);
    return find->state;
}

static void find_add_field(struct resource_find *find, yyjson_val *field)
{
    struct resource_selectable *selectable = &find->facts.selectable;
    yyjson_val *path = yyjson_obj_get(field, "jsonPath");
    size_t len = yyjson_get_len(path);
    if (!yyjson_is_str(path) || len >= RESOURCE_FIND_FIELD || selectable->n_fields == RESOURCE_FIND_FIELDS)
        return;
    memcpy(selectable->fields[selectable->n_fields++], yyjson_get_str(path), len + 1);
}

/* Those of the version that is followed. */
static enum resource_find_state find_take_definition(struct resource_find *find, yyjson_val *root)
{
    yyjson_val *versions = yyjson_obj_get(yyjson_obj_get(root, "spec"), "versions"), *version, *field;
    size_t i, n, k, m;
    yyjson_arr_foreach(versions, i, n, version)
    {
        yyjson_val *name = yyjson_obj_get(version, "name");
        if (!yyjson_is_str(name) || !yyjson_equals_str(name, find->facts.version))
            continue;
        yyjson_arr_foreach(yyjson_obj_get(version, "selectableFields"), k, m, field) find_add_field(find, field);
    }
    return find_end(find);
}

static enum resource_find_state find_take_document(struct resource_find *find, yyjson_val *root)
{
    switch (find->step) {
    case RESOURCE_FIND_GROUP:
        return find_take_group(find, root);
    case RESOURCE_FIND_RESOURCES:
        return find_take_resources(find, root);
    case RESOURCE_FIND_SERVER:
        return find_take_server(find, root);
    case RESOURCE_FIND_DEFINITION:
        break;
    }
    return find_take_definition(find, root);
}

/* The server does not give it. Selectors of fields that are not known are left to the server. */
static enum resource_find_state find_refused(struct resource_find *find, int status)
{
    if (find->step >= RESOURCE_FIND_SERVER) {
        find->is_unsure = find->is_unsure || (status != 401 && status != 403 && status != 404);
        return find_take_document(find, NULL);
    }
    if (status != 404)
        return find_fail(find, status == 401 || status == 403 ? "the tier may not read the server's discovery"
                                                              : "the server does not answer its discovery");
    if (find->step == RESOURCE_FIND_RESOURCES)
        return find_next_version(find);
    find->state = RESOURCE_FIND_ABSENT;
    return find->state;
}

enum resource_find_state resource_find_take(struct resource_find *find, int status, struct belfry_bytes body)
{
    struct belfry_kube_document document;
    assert(find->state == RESOURCE_FIND_ASKING);
    if (status != 200)
        return find_refused(find, status);
    enum belfry_err err = belfry_kube_document_read(&body, 1, &document);
    if (err == BELFRY_ERR_NOMEM)
        return find_fail(find, "out of memory");
    if (err != BELFRY_OK && find->step >= RESOURCE_FIND_SERVER)
        return find_refused(find, 0);
    if (err != BELFRY_OK)
        return find_fail(find, "the server's discovery is not JSON");
    find_take_document(find, document.root);
    belfry_kube_document_fini(&document);
    return find->state;
}
