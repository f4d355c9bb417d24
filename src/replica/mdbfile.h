/* src/replica/mdbfile.h
 *
 * mdbfile: LMDB's data file, read without LMDB and without trust.
 *
 * LMDB maps its file and trusts every byte of it: a truncated file is SIGBUS, a flipped bit in a page number is SIGSEGV
 * or rows of another place. This module reads the same file and trusts nothing: it checks every page number, length and
 * order before using it, and lets every page be used once.
 *
 *     page 0, 1   | page head | meta: magic, version, page size, free tree, main tree, last page, transaction |
 *     free tree   transaction -> | n | page numbers |     pages that LMDB may write to
 *     main tree   name -> tree, one per table
 *     branch      | page head | offsets | nodes: key, page number |
 *     leaf        | page head | offsets | nodes: key, value or the page number of a value that has its own pages |
 *
 * The format is that of LMDB 0.9 (data version 1), which has not changed since 2011; another version is refused.
 *
 * Thread: owner. The file is mapped: a disk that fails while it is read is SIGBUS, so this is called in a process that
 *         may die (audit.h), mdbfile_measure() excepted.
 */
#ifndef BELFRY_REPLICA_MDBFILE_H
#define BELFRY_REPLICA_MDBFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

/* LMDB's own record of a tree, byte for byte. */
struct mdbfile_tree {
    uint32_t pad; /* of the free tree: the page size */
    uint16_t flags, depth;
    size_t branches, leaves, overflows; /* pages */
    size_t rows;
    size_t root; /* SIZE_MAX: no rows */
};

/* What the newer of the two meta pages says. */
struct mdbfile_meta {
    size_t page_bytes, last_page, txn;
    struct mdbfile_tree free, main;
};

enum mdbfile_length {
    MDBFILE_NONE,   /* there is no file, or LMDB has not written anything to it */
    MDBFILE_WHOLE,  /* as long as its last page */
    MDBFILE_SHORT,  /* shorter. LMDB leaves it so when its last pages were allocated and given up unwritten: whether
                      that is the reason, mdbfile_open() and the trees tell */
    MDBFILE_FOREIGN /* no meta page that LMDB would take */
};

/* Reads both meta pages and compares the length. Never maps, so it is safe on any file.
 * Errors: BELFRY_ERR_IO (the file cannot be read). */
BELFRY_NODISCARD enum belfry_err mdbfile_measure(const char *path, enum mdbfile_length *out, struct mdbfile_meta *meta);

#define MDBFILE_TABLES 8
#define MDBFILE_NAME   16 /* bytes of a table's name, with its terminator */

struct mdbfile_table {
    char name[MDBFILE_NAME];
    struct mdbfile_tree tree;
};

struct mdbfile {
    struct mdbfile_meta meta;
    struct mdbfile_table tables[MDBFILE_TABLES];
    size_t n_tables;
    const char *why; /* what was found to be wrong; NULL: nothing yet */
    uint8_t *map;
    size_t bytes;
    uint8_t *used, *free; /* a bit for each page */
    size_t bits_bytes;    /* of each of the two */
};

/* Maps the file and reads its free pages and its tables. A file that is not MDBFILE_WHOLE or _SHORT is
 * BELFRY_ERR_INVALID.
 * Errors: BELFRY_ERR_IO, BELFRY_ERR_NOMEM, BELFRY_ERR_INVALID (damaged: `why` says where). After an error there is
 * nothing to close, but `why` can be read. */
BELFRY_NODISCARD enum belfry_err mdbfile_open(struct mdbfile *file, const char *path);
void mdbfile_close(struct mdbfile *file);

/* A row, lent. False: the row is wrong, and the walk ends. */
typedef bool (*mdbfile_row_fn)(struct belfry_bytes key, struct belfry_bytes value, void *user);

/* Walks a tree in key order and checks all its pages. With `row` NULL only its branches: the leaves are counted as used
 * and not looked at. BELFRY_ERR_INVALID: damaged. */
BELFRY_NODISCARD enum belfry_err mdbfile_walk(struct mdbfile *file, const struct mdbfile_tree *tree, mdbfile_row_fn row,
                                              void *user);

/* NULL: there is no table of that name. */
const struct mdbfile_tree *mdbfile_table(const struct mdbfile *file, const char *name);

#endif
