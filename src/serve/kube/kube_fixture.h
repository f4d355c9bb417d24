/* src/serve/kube/kube_fixture.h: for suites of the Kubernetes dialect: widgets, and events that change them. */
#ifndef BELFRY_SERVE_KUBE_KUBE_FIXTURE_H
#define BELFRY_SERVE_KUBE_KUBE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/batch.h"
#include "kube/resource.h"
#include "wire/write.h"

#define WIDGETS_PREFIX "/registry/demo.example.com/widgets/"

static const char widgets_manifest[] =
    "{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"CustomResourceDefinition\","
    "\"metadata\":{\"name\":\"widgets.demo.example.com\"},\"spec\":{\"group\":\"demo.example.com\",\"scope\":"
    "\"Namespaced\","
    "\"names\":{\"plural\":\"widgets\",\"singular\":\"widget\",\"kind\":\"Widget\",\"listKind\":\"WidgetList\"},"
    "\"versions\":[{\"name\":\"v1\",\"served\":true,\"storage\":true,\"selectableFields\":[{\"jsonPath\":\".spec."
    "node\"}],"
    "\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\",\"properties\":{\"spec\":{\"type\":\"object\",\"properties\":"
    "{\"node\":{\"type\":\"string\"}}}}}}}]}}";

static inline enum belfry_err widgets_read(const struct kube_resource_opts *opts, struct kube_resource **out)
{
    static const struct kube_resource_opts none;
    char *why = NULL;
    enum belfry_err err =
        kube_resource_read(belfry_bytes_str(widgets_manifest), opts == NULL ? &none : opts, out, &why);
    if (err != BELFRY_OK && err != BELFRY_ERR_NOMEM)
        fail_msg("%s", why);
    free(why);
    return err;
}

/* One change of one key. value NULL: a delete; before NULL: there was nothing. `forgotten`: there was, but what? */
struct widget_event {
    const char *key, *value, *before;
    bool forgotten;
};

static inline size_t widget_write_kv(const struct belfry_wire_kv *kv, uint8_t *to)
{
    struct belfry_wire_event event = {.kv = *kv}, scanned;
    uint8_t *end = belfry_write_event(&event, to);
    assert_int_equal(belfry_scan_event(belfry_bytes_of(to, (size_t)(end - to)), &scanned), BELFRY_OK);
    memmove(to, scanned.kv.raw.data, scanned.kv.raw.len);
    return scanned.kv.raw.len;
}

/* A batch of n such events at revision `rev`. Errors: BELFRY_ERR_NOMEM. */
static inline enum belfry_err widget_batch(int64_t rev, const struct widget_event *events, uint32_t n,
                                           struct batch **out)
{
    static uint8_t raw[8][1 << 16], prev[8][1 << 16];
    struct belfry_wire_event scanned[8];
    struct belfry_bytes before[8] = {{0}};
    size_t bytes = 0;
    assert_true(n <= 8);
    for (uint32_t i = 0; i < n; i++) {
        const struct widget_event *event = &events[i];
        bool had = event->before != NULL || event->forgotten;
        struct belfry_wire_event wire = {.is_delete = event->value == NULL};
        wire.kv = (struct belfry_wire_kv){.key = belfry_bytes_str(event->key), .mod_rev = rev};
        if (event->value != NULL) {
            wire.kv.value = belfry_bytes_str(event->value);
            wire.kv.create_rev = had ? 2 : rev;
            wire.kv.version = had ? 2 : 1;
        }
        uint8_t *end = belfry_write_event(&wire, raw[i]);
        assert_int_equal(belfry_scan_event(belfry_bytes_of(raw[i], (size_t)(end - raw[i])), &scanned[i]), BELFRY_OK);
        if (event->before != NULL) {
            struct belfry_wire_kv kv = {.key = wire.kv.key,
                                        .value = belfry_bytes_str(event->before),
                                        .create_rev = 2,
                                        .mod_rev = 2,
                                        .version = 1};
            before[i] = belfry_bytes_of(prev[i], widget_write_kv(&kv, prev[i]));
        }
        bytes += batch_event_bytes(&scanned[i], before[i]);
    }
    enum belfry_err err = batch_create(rev, BATCH_EVENTS, n, bytes, out);
    for (uint32_t i = 0; err == BELFRY_OK && i < n; i++)
        batch_add(*out, &scanned[i], before[i]);
    return err;
}

#endif
