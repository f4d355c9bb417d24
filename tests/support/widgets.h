/* tests/support/widgets.h: Kubernetes objects in a store, for the suites that list them. Widgets are namespaced, under
 * /registry/demo.example.com/widgets/. Included after cmocka. */
#ifndef BELFRY_TESTS_WIDGETS_H
#define BELFRY_TESTS_WIDGETS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kube/resource.h"
#include "support/storecheck.h"

#define WIDGETS "/registry/demo.example.com/widgets/"

static inline enum belfry_err widgets_read(const struct kube_resource_opts *opts, struct kube_resource **out)
{
    static const char manifest[] = "apiVersion: apiextensions.k8s.io/v1\n"
                                   "kind: CustomResourceDefinition\n"
                                   "metadata: {name: widgets.demo.example.com}\n"
                                   "spec:\n"
                                   "  group: demo.example.com\n"
                                   "  scope: Namespaced\n"
                                   "  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}\n"
                                   "  versions:\n"
                                   "  - {name: v1, served: true, storage: true,\n"
                                   "     schema: {openAPIV3Schema: {type: object}}}\n";
    char *why = NULL;
    enum belfry_err err = kube_resource_read(belfry_bytes_str(manifest), opts, out, &why);
    if (err != BELFRY_OK && err != BELFRY_ERR_NOMEM)
        fail_msg("the manifest: %s", why);
    free(why);
    return err;
}

static inline struct kube_resource *widgets_make(void)
{
    struct kube_resource *resource = NULL;
    assert_int_equal(widgets_read(&(struct kube_resource_opts){0}, &resource), BELFRY_OK);
    return resource;
}

/* An object {"metadata":{"labels":{"app":app}},"spec":{"pad":"xxx..."}}, committed at `rev`. */
static inline void widgets_put(struct store *store, int64_t rev, const char *name, const char *app, size_t pad)
{
    char key[200];
    size_t cap = pad + 200;
    char *value = malloc(cap);
    assert_non_null(value);
    int n = snprintf(value, cap, "{\"metadata\":{\"labels\":{\"app\":\"%s\"}},\"spec\":{\"pad\":\"", app);
    memset(value + n, 'x', pad);
    snprintf(value + n + pad, cap - (size_t)n - pad, "\"}}");
    snprintf(key, sizeof(key), WIDGETS "%s", name);
    storecheck_write(store, rev, key, value);
    free(value);
}

static inline void widgets_delete(struct store *store, int64_t rev, const char *name)
{
    char key[200];
    snprintf(key, sizeof(key), WIDGETS "%s", name);
    storecheck_write(store, rev, key, NULL);
}

#endif
