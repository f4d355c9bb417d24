/* fuzz/kube_crd.c: any bytes as the manifest of a CustomResourceDefinition.
 *
 * What is refused says why, in one line that a terminal can show. What is accepted keeps what its header promises, a
 * key that is made is read again as what it was made of, and every document of a catalog with it is JSON.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

#include "fuzz/check.h"
#include "kube/catalog.h"
#include "json/path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_line(const char *text)
{
    check(text != NULL && text[0] != '\0');
    for (; *text != '\0'; text++)
        check(*text >= ' ' && *text <= '~');
}

static void check_version(const struct kube_version *version)
{
    check(version->name != NULL && version->api_version != NULL);
    check(version->n_columns <= KUBE_COLUMNS_MAX && version->n_fields <= KUBE_CRD_FIELDS);
    for (size_t i = 0; i < version->n_columns; i++)
        check(version->columns[i].name != NULL && version->columns[i].path != NULL);
    for (size_t i = 0; i < version->n_fields; i++)
        check(version->fields[i].name[0] != '\0' && belfry_kube_path_is_simple(version->fields[i].path));
}

static void check_resource(const struct kube_resource *resource)
{
    size_t n_storage = 0;
    check(resource->n_versions <= KUBE_VERSIONS_MAX && resource->n_served > 0);
    for (size_t i = 0; i < resource->n_versions; i++) {
        check_version(&resource->versions[i]);
        check(resource->versions[i].served == (i < resource->n_served));
        n_storage += resource->versions[i].storage;
    }
    check(n_storage == 1);
    check(resource->prefix[strlen(resource->prefix) - 1] == '/');
}

static void check_key(const struct kube_resource *resource)
{
    struct belfry_bytes space = belfry_bytes_str(resource->namespaced ? "ns" : ""), name = belfry_bytes_str("a.b");
    struct belfry_bytes found_space, found_name;
    struct belfry_buf key;
    bool filter = true;
    belfry_buf_init(&key);
    check(kube_resource_key(resource, space, name, &key, &filter) == BELFRY_OK && !filter);
    check(kube_resource_parts(resource, belfry_buf_bytes(&key), &found_space, &found_name));
    check(belfry_bytes_equal(found_space, space) && belfry_bytes_equal(found_name, name));
    belfry_buf_fini(&key);
}

static void check_document(const struct kube_catalog *catalog, const char *path, bool aggregated)
{
    struct belfry_buf body;
    belfry_buf_init(&body);
    check(kube_catalog_document(catalog, belfry_bytes_str(path), aggregated, &body) == BELFRY_OK);
    yyjson_doc *doc = yyjson_read(belfry_buf_bytes(&body).data, belfry_buf_len(&body), YYJSON_READ_NUMBER_AS_RAW);
    check(doc != NULL);
    yyjson_doc_free(doc);
    belfry_buf_fini(&body);
}

static void check_catalog(struct kube_resource *resource)
{
    static const char *const heads[] = {"", "/openapi/v3"};
    struct kube_catalog *catalog = NULL;
    char *why = NULL;
    check(kube_catalog_make(&resource, 1, &catalog, &why) == BELFRY_OK && why == NULL);
    check_document(catalog, "/api", false);
    check_document(catalog, "/api", true);
    check_document(catalog, "/apis", false);
    check_document(catalog, "/apis", true);
    check_document(catalog, "/openapi/v3", false);
    for (size_t i = 0; i < resource->n_served; i++) {
        for (size_t k = 0; k < 2; k++) {
            char path[512];
            snprintf(path, sizeof(path), "%s/%s/%s", heads[k], resource->group[0] == '\0' ? "api" : "apis",
                     resource->versions[i].api_version);
            check_document(catalog, path, false);
        }
    }
    kube_catalog_unref(catalog);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct kube_resource_opts all[] = {
        {0}, {.wrap_field = "spec"}, {.wrap_key = "x/{namespace}/y-{name}.z", .prefix = "/a/{plural}"}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct kube_resource *resource = NULL;
        char *why = NULL;
        if (kube_resource_read(belfry_bytes_of(data, size), &all[i], &resource, &why) != BELFRY_OK) {
            check_line(why);
            free(why);
            return 0;
        }
        check(why == NULL);
        check_resource(resource);
        check_key(resource);
        if (i == 0)
            check_catalog(resource);
        kube_resource_unref(resource);
    }
    return 0;
}
