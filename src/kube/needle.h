/* src/kube/needle.h
 *
 * needle: a text that the JSON of an object contains if it matches a selector. Most objects of a list are told from
 * those that match by a search for it, which is much cheaper than parsing them.
 *
 * The selector requires one field or label to equal a value (kube_selector_pin()). An object that has it has the value
 * in quotes, unless its writer used escapes where none are needed; a text with such escapes is not judged.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_KUBE_NEEDLE_H
#define BELFRY_KUBE_NEEDLE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "kube/resource.h"
#include "kube/selector.h"

#define KUBE_NEEDLE_MAX 256

struct kube_needle {
    char text[KUBE_NEEDLE_MAX]; /* in quotes */
    size_t len;                 /* 0: there is none, and every object may match */
};

/* There is none for a value that may be written in another way: an empty one, a number or a boolean, the value of a
 * field that is missing, one that needs escapes, a long one. `selector` may be NULL. */
struct kube_needle kube_needle_of(const struct kube_selector *selector, const struct kube_version *version);

/* False: the object does not match. `json` is the object, or any text. */
bool kube_needle_may_match(const struct kube_needle *needle, struct belfry_bytes json);

#endif
