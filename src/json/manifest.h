/* src/json/manifest.h
 *
 * manifest: the text of a Kubernetes manifest, YAML or JSON, as a JSON document.
 *
 * YAML is read by its core schema (1.2): plain true, 3, 0x1F and ~ have their types. Quoted scalars are strings, and so
 * are yes, on and dates. Numbers keep their spelling (yyjson's raw), so that none is rounded. Rejected are: aliases, so
 * that the document cannot be larger than its text allows; tags except the core schema's for strings, maps and lists;
 * duplicate keys; and more than a few directives.
 *
 * Thread: any. Pure but for yyjson and libyaml.
 * Memory: belfry_json_alc's; at most about 40 bytes per byte of text.
 */
#ifndef BELFRY_JSON_MANIFEST_H
#define BELFRY_JSON_MANIFEST_H

#include <yyjson.h>

#include "base/bytes.h"
#include "base/err.h"
#include "json/manifest_fault.h"

#define KUBE_MANIFEST_MAX (3 * 1024 * 1024) /* bytes, as in Kubernetes */
#define KUBE_NESTING_MAX  128               /* nested maps and lists */

/* The caller frees *out with yyjson_doc_free(). Its root is an object.
 * Errors: BELFRY_ERR_INVALID with *fault, which names the line if there is one. BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_kube_manifest_read(struct belfry_bytes text, yyjson_doc **out,
                                                           struct belfry_kube_fault *fault);

#endif
