/* src/json/member.h
 *
 * member: a typed member of a JSON object in a manifest. Errors name the place: "spec.versions[1].name: ...". A null
 * member counts as missing, as in Kubernetes.
 *
 * Thread: any. Pure but for yyjson.
 */
#ifndef BELFRY_JSON_MEMBER_H
#define BELFRY_JSON_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include <yyjson.h>

#include "json/manifest_fault.h"

#define KUBE_WHERE_MAX 128

struct belfry_kube_members {
    yyjson_val *object;              /* lent; NULL: no members */
    char where[KUBE_WHERE_MAX];      /* "spec.names"; "": the root */
    struct belfry_kube_fault *fault; /* lent */
};

/* Describes an error as "where.key: ...". Returns BELFRY_ERR_INVALID. */
BELFRY_NODISCARD enum belfry_err belfry_kube_member_wrong(const struct belfry_kube_members *members, const char *key,
                                                          const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Errors of the functions below: BELFRY_ERR_INVALID (another type, or missing although required), BELFRY_ERR_NOMEM.
 * Texts are copies that the caller frees; they contain no zero byte. */

/* *out NULL: missing. */
BELFRY_NODISCARD enum belfry_err belfry_kube_member_text(const struct belfry_kube_members *members, const char *key,
                                                         char **out);
/* Missing or empty is an error. */
BELFRY_NODISCARD enum belfry_err belfry_kube_member_need(const struct belfry_kube_members *members, const char *key,
                                                         char **out);
/* Missing: false, 0. */
BELFRY_NODISCARD enum belfry_err belfry_kube_member_bool(const struct belfry_kube_members *members, const char *key,
                                                         bool *out);
BELFRY_NODISCARD enum belfry_err belfry_kube_member_int32(const struct belfry_kube_members *members, const char *key,
                                                          int64_t *out);
/* *out NULL: missing. */
BELFRY_NODISCARD enum belfry_err belfry_kube_member_list(const struct belfry_kube_members *members, const char *key,
                                                         size_t max, yyjson_val **out);
/* The members of an object member; no members if it is missing. */
BELFRY_NODISCARD enum belfry_err belfry_kube_member_object(const struct belfry_kube_members *members, const char *key,
                                                           struct belfry_kube_members *out);
/* The members of `element`, which is element number `i` of the list under `key`. */
BELFRY_NODISCARD enum belfry_err belfry_kube_member_element(const struct belfry_kube_members *members, const char *key,
                                                            size_t i, yyjson_val *element,
                                                            struct belfry_kube_members *out);

#endif
