/* src/serve/admin/page_query.h
 *
 * page_query: the query part of a page's URL (without its question mark), read parameter by parameter: name=value&...,
 * percent-encoded; a plus is a blank, as forms write it.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_SERVE_ADMIN_PAGE_QUERY_H
#define BELFRY_SERVE_ADMIN_PAGE_QUERY_H

#include "base/bytes.h"
#include "base/err.h"

#define PAGE_QUERY_BYTES 832 /* of one parameter, encoded, with NUL; a longer one is wrong */

/* One parameter, decoded. On failure a sentence that names it is in why. Errors: BELFRY_ERR_INVALID. */
typedef enum belfry_err (*page_query_fn)(const char *name, const char *value, void *user, char *why, size_t why_len);

/* Calls fn for each, up to the first that is wrong. Errors: BELFRY_ERR_INVALID. */
BELFRY_NODISCARD enum belfry_err page_query_each(struct belfry_bytes query, page_query_fn fn, void *user, char *why,
                                                 size_t why_len);

/* The number of `value` in a list of words that ends with NULL; -1: it is none of them. */
int page_query_word(const char *const *words, const char *value);

/* From 1 to max. Errors: BELFRY_ERR_INVALID (out of range, or no number). */
BELFRY_NODISCARD enum belfry_err page_query_limit(const char *value, size_t max, size_t *out);

#endif
