/* src/json/manifest_fault.h: a one-line description of an error in a manifest. Thread: any. Pure. */
#ifndef BELFRY_JSON_MANIFEST_FAULT_H
#define BELFRY_JSON_MANIFEST_FAULT_H

#include "base/err.h"

#define KUBE_FAULT_MAX 512

struct belfry_kube_fault {
    char text[KUBE_FAULT_MAX]; /* truncated if too long; bytes other than printable ASCII become '?' */
};

/* Stores the description and returns BELFRY_ERR_INVALID, for the caller to pass on. */
BELFRY_NODISCARD enum belfry_err belfry_kube_fault_say(struct belfry_kube_fault *fault, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
