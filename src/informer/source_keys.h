/* src/informer/source_keys.h
 *
 * source_keys: an informer source on a range of etcd keys: a follow whose state and changes become objects.
 *
 * Thread: owner.
 */
#ifndef BELFRY_INFORMER_SOURCE_KEYS_H
#define BELFRY_INFORMER_SOURCE_KEYS_H

#include <belfry/belfry.h>

#include "informer/source.h"

/* `opts` are those of belfry_informer_keys(). Errors: as belfry_follow_open(). */
BELFRY_NODISCARD enum belfry_err belfry_source_keys_open(struct belfry *b, struct belfry_range range,
                                                         const struct belfry_opts *opts,
                                                         const struct belfry_source_events *events, void *user,
                                                         struct belfry_source *out);

#endif
