/* fuzz/kfront_judge.c: any bytes as a request: a method, a path and values of accept and upgrade, one on each line.
 * What is answered here is a plain GET of the followed resource, and judging twice gives the same. */
#include <stdint.h>
#include <stdlib.h>

#include "fuzz/check.h"
#include "serve/kfront/kfront_judge.h"

#define MANIFEST                                                                                                       \
    "{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":{\"name\":"        \
    "\"widgets.demo.io\"},\"spec\":{\"group\":\"demo.io\",\"scope\":\"Namespaced\",\"names\":{\"plural\":"             \
    "\"widgets\",\"kind\":\"Widget\"},\"versions\":[{\"name\":\"v1\",\"served\":true,\"storage\":true,\"schema\":"     \
    "{\"openAPIV3Schema\":{\"type\":\"object\"}}}]}}"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct belfry_bytes next_line(struct belfry_bytes *text)
{
    const char *end = text->len == 0 ? NULL : memchr(text->data, '\n', text->len);
    size_t len = end == NULL ? text->len : (size_t)(end - text->data);
    struct belfry_bytes line = belfry_bytes_of(text->data, len);
    size_t taken = end == NULL ? len : len + 1;
    *text = belfry_bytes_of(text->data + taken, text->len - taken);
    return line;
}

static const struct kube_resource *widgets(void)
{
    static struct kube_resource *resource;
    char *why = NULL;
    if (resource == NULL)
        check(kube_resource_read(belfry_bytes_str(MANIFEST), &(struct kube_resource_opts){0}, &resource, &why) ==
              BELFRY_OK);
    return resource;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct belfry_bytes text = belfry_bytes_of(data, size);
    struct exchange_head head = {.method = next_line(&text)};
    head.path = next_line(&text);
    struct belfry_http_field fields[] = {{belfry_bytes_str("accept"), next_line(&text)},
                                         {belfry_bytes_str("upgrade"), next_line(&text)}};
    head.fields = fields;
    head.n_fields = fields[1].value.len > 0 ? 2 : 1;
    struct kfront_followed followed = {.resource = widgets()};
    struct kfront_judgement is, again;
    kfront_judge(&head, &followed, 1, &is);
    kfront_judge(&head, &followed, 1, &again);
    check(is.way == again.way && is.kind == again.kind && is.lasts == again.lasts);
    check(is.way != KFRONT_PASS || is.kind < KFRONT_KINDS);
    check(is.way != KFRONT_IMPERSONATES);
    if (is.way != KFRONT_ANSWER)
        return 0;
    struct belfry_bytes query, path = exchange_path(&head, &query);
    check(is.followed == &followed && belfry_bytes_equal(head.method, belfry_bytes_str("GET")));
    check(memchr(path.data, '%', path.len) == NULL);
    return 0;
}
