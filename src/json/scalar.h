/* src/json/scalar.h: the type of a plain YAML scalar by the core schema (YAML 1.2.2, section 10.3.2). Thread: any.
 * Pure. */
#ifndef BELFRY_JSON_SCALAR_H
#define BELFRY_JSON_SCALAR_H

#include <stdint.h>

#include "base/bytes.h"

enum belfry_kube_scalar_type {
    KUBE_SCALAR_TEXT,
    KUBE_SCALAR_NULL,
    KUBE_SCALAR_TRUE,
    KUBE_SCALAR_FALSE,
    KUBE_SCALAR_NUMBER
};

/* How a number is written to JSON: with its spelling, or by its value if JSON has no such form (0x1F, +1, 007, .5).
 * Numbers without a value in JSON (.inf, .nan, an 0x of more than 63 bits) are strings. */
enum belfry_kube_number_form { KUBE_NUMBER_JSON, KUBE_NUMBER_INT, KUBE_NUMBER_REAL };

struct belfry_kube_scalar {
    enum belfry_kube_number_form form;
    int64_t integer;
    double real;
};

/* *out is set only for KUBE_SCALAR_NUMBER. */
enum belfry_kube_scalar_type belfry_kube_scalar_read(struct belfry_bytes text, struct belfry_kube_scalar *out);

#endif
