/* fuzz/kube_accept.c: any bytes as an Accept header, and as an Accept-Encoding header. No form is answered that was not
 * offered, and a clause more, refused, changes nothing. */
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "fuzz/check.h"
#include "kube/accept.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char refused[] = "application/json;q=0, ";
    struct belfry_bytes header = belfry_bytes_of(data, size);
    struct belfry_buf longer;
    belfry_buf_init(&longer);
    if (belfry_buf_append(&longer, refused, sizeof(refused) - 1) != BELFRY_OK ||
        belfry_buf_append(&longer, data, size) != BELFRY_OK)
        abort();
    for (unsigned forms = 0; forms < 1u << (KUBE_FORM_DISCOVERY + 1); forms += 2) {
        enum kube_form form = kube_accept(header, forms);
        check(form == KUBE_FORM_NONE || (forms & (1u << form)) != 0);
        enum kube_form again = kube_accept(belfry_buf_bytes(&longer), forms);
        check(again == form || (again == KUBE_FORM_NONE && form == KUBE_FORM_JSON)); /* an empty header is JSON */
    }
    kube_accepts_gzip(header);
    belfry_buf_fini(&longer);
    return 0;
}
