/* src/replica/folder.h
 *
 * folder: the cache folder: the lock that keeps other processes out, the marker, and the numbered data folders.
 *
 * The marker is one line, replaced as a whole:
 *
 *     dirty BOOT-ID data-N      writes that are not synced may be under way, since this boot
 *     clean data-N              everything was synced
 *
 * A dirty marker of another boot, or of an unknown one, means that the page cache was lost: some pages of the LMDB file
 * are newer than others. It must not be opened.
 *
 * Beside it is `deaths`, one digit: how many processes in a row died with this replica. A process is counted when it
 * begins, and taken off when it serves; if it crashes after that, its signal handler counts it again.
 *
 * Thread: owner (the writer); folder_remove() from any.
 */
#ifndef BELFRY_REPLICA_FOLDER_H
#define BELFRY_REPLICA_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define FOLDER_BOOT_MAX 64 /* a boot id, with its terminator; longer ones are unknown */

enum folder_mark { FOLDER_NONE, FOLDER_CLEAN, FOLDER_DIRTY };

struct folder {
    char *path;
    int dir_fd, lock_fd, deaths_fd;
    unsigned deaths;            /* lives in a row that died, this one counted */
    char boot[FOLDER_BOOT_MAX]; /* "": unknown */
};

/* Makes the folder, and those above it, if they are missing (0700 each), and locks it. A folder of another user's, or
 * one that others may write to, is refused: its files could be anybody's. `boot_id` NULL: the kernel's.
 * Errors: BELFRY_ERR_IO (*why says what to do), BELFRY_ERR_LIMIT (another process has it), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err folder_open(struct folder *folder, const char *path, const char *boot_id, char **why);
/* Would folder_open() get as far as the lock? Nothing is made or changed; a sentence for people is stored in why.
 * Errors: BELFRY_ERR_IO, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err folder_try(const char *path, char *why, size_t why_len);
void folder_close(struct folder *folder); /* also one that was never opened: zeroes */

/* The number of the data folder that may be opened warm; 0: none. *mark says how its last user left it. */
uint64_t folder_warm(const struct folder *folder, enum folder_mark *mark);

/* A life begins: returns how many in a row died before it. */
unsigned folder_life_begin(struct folder *folder);
void folder_life_serves(struct folder *folder);
void folder_life_faulted(const struct folder *folder); /* safe in a signal handler */

/* Replaces the marker, synced. Errors: BELFRY_ERR_IO, the old one is still there (or, when only syncing failed,
 * either). */
BELFRY_NODISCARD enum belfry_err folder_mark(struct folder *folder, enum folder_mark mark, uint64_t number);

/* Removes every data folder but `keep` and returns the highest number seen. */
uint64_t folder_sweep(struct folder *folder, uint64_t keep);

/* Makes the data folder; one that is there is emptied. Errors: BELFRY_ERR_IO. */
BELFRY_NODISCARD enum belfry_err folder_make(struct folder *folder, uint64_t number);
void folder_remove(const struct folder *folder, uint64_t number); /* as far as it goes: the next open sweeps */

/* PATH/data-N, to be freed; NULL: out of memory. */
char *folder_data_path(const struct folder *folder, uint64_t number);

#endif
