/* src/json/manifest.h
 *
 * manifest: the text of a Kubernetes manifest, YAML or JSON, as a JSON document.
 *
 * YAML is read by its core schema (1.2): plain true, 3, 0x1F, ~ have their types, everything quoted is a string, and
 * so are yes, on and dates. Numbers are kept as they are written (yyjson's raw), so that none is rounded. Aliases
 * are refused, so that nothing can grow beyond its text; so are tags other than the core schema's own for text, maps
 * and lists, a key that is there twice, and more directives than anybody needs.
 *
 * Thread: any. Pure but for yyjson and libyaml.
 * Memory: belfry_json_alc's; at most some 40 bytes for each byte of text.
 */
#ifndef BELFRY_JSON_MANIFEST_H
#define BELFRY_JSON_MANIFEST_H

#include <yyjson.h>

#include "base/bytes.h"
#include "base/err.h"
#include "json/manifest_fault.h"

#define KUBE_MANIFEST_MAX (3 * 1024 * 1024) /* bytes, as in Kubernetes */
#define KUBE_NESTING_MAX  128               /* maps and lists inside each other */

/* The caller frees *out with yyjson_doc_free(). Its root is an object.
 * Errors: BELFRY_ERR_INVALID with *fault, which names a line where there is one. BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_kube_manifest_read(struct belfry_bytes text, yyjson_doc **out,
                                                           struct belfry_kube_fault *fault);

#endif
