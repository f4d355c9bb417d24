/* src/informer/index_path.h: an index by the values at a JSON path of the objects. Thread: owner. */
#ifndef BELFRY_INFORMER_INDEX_PATH_H
#define BELFRY_INFORMER_INDEX_PATH_H

#include "informer/object_store.h"

/* Errors: as belfry_informer_index_path(). */
BELFRY_NODISCARD enum belfry_err belfry_index_path_add(struct belfry_store *store, const char *name, const char *path);

#endif
