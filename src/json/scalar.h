/* src/json/scalar.h: what a plain scalar of YAML is by the core schema (YAML 1.2.2, section 10.3.2). Thread: any.
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

/* How a number goes into JSON: as it is written, or, where JSON has no such form (0x1F, +1, 007, .5), by its value.
 * What has no value in JSON (.inf, .nan, an 0x of more than 63 bits) is a text. */
enum belfry_kube_number_form { KUBE_NUMBER_JSON, KUBE_NUMBER_INT, KUBE_NUMBER_REAL };

struct belfry_kube_scalar {
    enum belfry_kube_number_form form;
    int64_t integer;
    double real;
};

/* *out is set for KUBE_SCALAR_NUMBER alone. */
enum belfry_kube_scalar_type belfry_kube_scalar_read(struct belfry_bytes text, struct belfry_kube_scalar *out);

#endif
