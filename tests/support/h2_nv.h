/* tests/support/h2_nv.h
 *
 * h2_nv: a header field for nghttp2, which wants pointers that are not const and does not write through them.
 *
 * Thread: any. The texts are lent.
 */
#ifndef BELFRY_SUPPORT_H2_NV_H
#define BELFRY_SUPPORT_H2_NV_H

#include <nghttp2/nghttp2.h>
#include <string.h>

static inline nghttp2_nv h2_nv(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value), 0};
}

#endif
