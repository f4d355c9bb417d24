/* src/kube/crd.c */
#include "kube/crd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "kube/crd_version.h"
#include "kube/name.h"
#include "kube/version.h"
#include "json/member.h"

#define API_VERSION "apiextensions.k8s.io/v1"
#define OLD_VERSION "apiextensions.k8s.io/v1beta1"
#define KIND        "CustomResourceDefinition"
#define WORD        "names of 1 to 63 lower-case letters, digits and '-', a letter first"

static enum belfry_err check_text(const struct belfry_kube_members *m, const char *key, const char *expected)
{
    char *text = NULL;
    enum belfry_err err = belfry_kube_member_need(m, key, &text);
    if (err == BELFRY_OK && strcmp(text, expected) != 0)
        err = belfry_kube_member_wrong(m, key, "'%.128s': only %s is read", text, expected);
    free(text);
    return err;
}

static enum belfry_err read_api_version(const struct belfry_kube_members *m, bool *is_old)
{
    char *text = NULL;
    enum belfry_err err = belfry_kube_member_text(m, "apiVersion", &text);
    *is_old = err == BELFRY_OK && text != NULL && strcmp(text, OLD_VERSION) == 0;
    free(text);
    return err == BELFRY_OK && !*is_old ? check_text(m, "apiVersion", API_VERSION) : err;
}

/* ---- names ---- */

static enum belfry_err check_word(const struct belfry_kube_members *m, const char *key, const char *text)
{
    if (kube_name_is_word(belfry_bytes_str(text)))
        return BELFRY_OK;
    return belfry_kube_member_wrong(m, key, "'%.64s' is none of the " WORD, text);
}

static enum belfry_err read_words(const struct belfry_kube_members *m, const char *key, char ***words, size_t *n)
{
    yyjson_val *list, *element;
    enum belfry_err err = belfry_kube_member_list(m, key, KUBE_NAMES_MAX, &list);
    size_t i, count = yyjson_arr_size(list);
    if (err != BELFRY_OK || count == 0)
        return err;
    *words = calloc(count, sizeof(**words));
    if (*words == NULL)
        return BELFRY_ERR_NOMEM;
    yyjson_arr_foreach(list, i, count, element)
    {
        struct belfry_bytes word = belfry_bytes_of(yyjson_get_str(element), yyjson_get_len(element));
        if (!yyjson_is_str(element) || !kube_name_is_word(word))
            return belfry_kube_member_wrong(m, key, "must hold " WORD " alone");
        (*words)[*n] = strdup(word.data);
        if ((*words)[(*n)++] == NULL)
            return BELFRY_ERR_NOMEM;
    }
    return BELFRY_OK;
}

static char *to_lower(const char *text)
{
    char *copy = strdup(text);
    for (char *at = copy; at != NULL && *at != '\0'; at++) {
        if (*at >= 'A' && *at <= 'Z')
            *at = (char)(*at - 'A' + 'a');
    }
    return copy;
}

static enum belfry_err check_kind(const struct belfry_kube_members *m, const char *key, const char *kind)
{
    char *low = to_lower(kind);
    if (low == NULL)
        return BELFRY_ERR_NOMEM;
    bool ok = kube_name_is_word(belfry_bytes_str(low));
    free(low);
    return ok ? BELFRY_OK
              : belfry_kube_member_wrong(m, key, "'%.64s' is no kind: letters, digits and '-', at most %d", kind,
                                         KUBE_LABEL_MAX);
}

static enum belfry_err default_names(struct kube_resource *out)
{
    if (out->singular == NULL)
        out->singular = to_lower(out->kind);
    if (out->list_kind == NULL) {
        size_t room = strlen(out->kind) + sizeof("List");
        out->list_kind = malloc(room);
        if (out->list_kind != NULL)
            snprintf(out->list_kind, room, "%sList", out->kind);
    }
    return out->singular == NULL || out->list_kind == NULL ? BELFRY_ERR_NOMEM : BELFRY_OK;
}

static enum belfry_err check_names(const struct belfry_kube_members *m, const struct kube_resource *out)
{
    enum belfry_err err = check_word(m, "plural", out->plural);
    if (err == BELFRY_OK)
        err = check_kind(m, "kind", out->kind);
    if (err == BELFRY_OK)
        err = check_kind(m, "listKind", out->list_kind);
    if (err == BELFRY_OK)
        err = check_word(m, "singular", out->singular);
    if (err == BELFRY_OK && strcmp(out->kind, out->list_kind) == 0)
        err = belfry_kube_member_wrong(m, "listKind", "the same as kind");
    return err;
}

static enum belfry_err read_names(const struct belfry_kube_members *spec, struct kube_resource *out)
{
    struct belfry_kube_members names;
    enum belfry_err err = belfry_kube_member_object(spec, "names", &names);
    if (err == BELFRY_OK)
        err = belfry_kube_member_need(&names, "plural", &out->plural);
    if (err == BELFRY_OK)
        err = belfry_kube_member_need(&names, "kind", &out->kind);
    if (err == BELFRY_OK)
        err = belfry_kube_member_text(&names, "singular", &out->singular);
    if (err == BELFRY_OK)
        err = belfry_kube_member_text(&names, "listKind", &out->list_kind);
    if (err == BELFRY_OK)
        err = default_names(out);
    if (err == BELFRY_OK)
        err = check_names(&names, out);
    if (err == BELFRY_OK)
        err = read_words(&names, "shortNames", &out->short_names, &out->n_short_names);
    if (err == BELFRY_OK)
        err = read_words(&names, "categories", &out->categories, &out->n_categories);
    return err;
}

/* ---- versions ---- */

/* Served versions first; within each group the preferred version first. */
static int version_cmp(const void *a, const void *b)
{
    const struct kube_version *x = a, *y = b;
    if (x->served != y->served)
        return x->served ? -1 : 1;
    return kube_version_order(x->name, y->name);
}

static enum belfry_err check_versions(const struct belfry_kube_members *spec, struct kube_resource *out)
{
    size_t n_storage = 0;
    for (size_t i = 0; i < out->n_versions; i++) {
        n_storage += out->versions[i].storage;
        out->n_served += out->versions[i].served;
        for (size_t k = 0; k < i; k++) {
            if (strcmp(out->versions[i].name, out->versions[k].name) == 0)
                return belfry_kube_member_wrong(spec, "versions", "%s is there twice", out->versions[i].name);
        }
    }
    if (n_storage != 1)
        return belfry_kube_member_wrong(spec, "versions", "%zu have storage: true: one must have it", n_storage);
    return out->n_served > 0 ? BELFRY_OK : belfry_kube_member_wrong(spec, "versions", "none of them can be served");
}

static enum belfry_err read_versions(const struct belfry_kube_members *spec, bool is_old, struct kube_resource *out)
{
    static const char key[] = "versions";
    yyjson_val *list;
    enum belfry_err err = belfry_kube_member_list(spec, key, KUBE_VERSIONS_MAX, &list);
    size_t n = yyjson_arr_size(list);
    if (err == BELFRY_OK && n == 0)
        err = belfry_kube_member_wrong(spec, key, "missing");
    if (err != BELFRY_OK)
        return err;
    out->versions = calloc(n, sizeof(*out->versions));
    if (out->versions == NULL)
        return BELFRY_ERR_NOMEM;
    yyjson_arr_iter iter = yyjson_arr_iter_with(list);
    for (size_t i = 0; i < n && err == BELFRY_OK; i++) {
        struct belfry_kube_members version;
        err = belfry_kube_member_element(spec, key, i, yyjson_arr_iter_next(&iter), &version);
        out->n_versions = i + 1;
        if (err == BELFRY_OK)
            err = kube_crd_version_read(&version, is_old ? spec : NULL, out->group, &out->versions[i]);
    }
    return err;
}

static enum belfry_err read_conversion(const struct belfry_kube_members *spec, struct kube_resource *out)
{
    struct belfry_kube_members conversion;
    char *strategy = NULL;
    enum belfry_err err = belfry_kube_member_object(spec, "conversion", &conversion);
    if (err == BELFRY_OK)
        err = belfry_kube_member_text(&conversion, "strategy", &strategy);
    if (err != BELFRY_OK || strategy == NULL || strcmp(strategy, "None") == 0) {
        free(strategy);
        return err;
    }
    free(strategy);
    for (size_t i = 0; i < out->n_versions; i++)
        out->versions[i].served = out->versions[i].served && out->versions[i].storage;
    return BELFRY_OK;
}

/* ---- the whole ---- */

static enum belfry_err read_group(const struct belfry_kube_members *spec, struct kube_resource *out)
{
    enum belfry_err err = belfry_kube_member_text(spec, "group", &out->group);
    if (err != BELFRY_OK)
        return err;
    if (out->group == NULL)
        return belfry_kube_member_wrong(spec, "group", "missing");
    if (out->group[0] != '\0' && !kube_name_is_subdomain(belfry_bytes_str(out->group)))
        return belfry_kube_member_wrong(spec, "group", "'%.128s' is not a lower-case domain name", out->group);
    return BELFRY_OK;
}

static enum belfry_err read_scope(const struct belfry_kube_members *spec, struct kube_resource *out)
{
    char *scope = NULL;
    enum belfry_err err = belfry_kube_member_need(spec, "scope", &scope);
    if (err != BELFRY_OK)
        return err;
    out->namespaced = strcmp(scope, "Namespaced") == 0;
    if (!out->namespaced && strcmp(scope, "Cluster") != 0)
        err = belfry_kube_member_wrong(spec, "scope", "'%.64s' is neither Namespaced nor Cluster", scope);
    free(scope);
    return err;
}

/* Kubernetes' own rule. It finds manifests whose names were changed in one place only. */
static enum belfry_err check_own_name(const struct belfry_kube_members *root, const struct kube_resource *out)
{
    struct belfry_kube_members metadata;
    char *name = NULL;
    enum belfry_err err = belfry_kube_member_object(root, "metadata", &metadata);
    if (err == BELFRY_OK)
        err = belfry_kube_member_need(&metadata, "name", &name);
    if (err != BELFRY_OK)
        return err;
    size_t len = strlen(out->plural);
    const char *rest = strncmp(name, out->plural, len) == 0 ? name + len : NULL;
    bool same =
        rest != NULL && (out->group[0] == '\0' ? rest[0] == '\0' : rest[0] == '.' && strcmp(rest + 1, out->group) == 0);
    if (!same)
        err = belfry_kube_member_wrong(&metadata, "name", "'%.128s' must be spec.names.plural.spec.group: %s%s%s", name,
                                       out->plural, out->group[0] == '\0' ? "" : ".", out->group);
    free(name);
    return err;
}

enum belfry_err kube_crd_read(yyjson_val *manifest, struct kube_resource *out, struct belfry_kube_fault *fault)
{
    struct belfry_kube_members root = {.object = manifest, .fault = fault}, spec;
    bool is_old = false;
    enum belfry_err err = check_text(&root, "kind", KIND);
    if (err == BELFRY_OK)
        err = read_api_version(&root, &is_old);
    if (err == BELFRY_OK)
        err = belfry_kube_member_object(&root, "spec", &spec);
    if (err == BELFRY_OK)
        err = read_group(&spec, out);
    if (err == BELFRY_OK)
        err = read_scope(&spec, out);
    if (err == BELFRY_OK)
        err = read_names(&spec, out);
    if (err == BELFRY_OK)
        err = check_own_name(&root, out);
    if (err == BELFRY_OK)
        err = read_versions(&spec, is_old, out);
    if (err == BELFRY_OK)
        err = read_conversion(&spec, out);
    if (err == BELFRY_OK)
        err = check_versions(&spec, out);
    if (err == BELFRY_OK)
        qsort(out->versions, out->n_versions, sizeof(*out->versions), version_cmp);
    return err;
}
