/* src/replica/audit.h
 *
 * audit: is a replica's file what its last commit left? To be called before LMDB opens the file.
 *
 * A child process reads the file with mdbfile.h: if the disk fails under its map, the child dies and not the tier; if
 * the disk hangs, the child's alarm ends it. The calling process must not have other threads yet.
 *
 * Thread: owner, before there are others.
 */
#ifndef BELFRY_REPLICA_AUDIT_H
#define BELFRY_REPLICA_AUDIT_H

#include <stdbool.h>
#include <stddef.h>

enum audit_depth {
    AUDIT_STATE, /* all but the rows of history: every tree's branches, the free pages, and every row of the rest */
    AUDIT_ALL
};

enum audit_place {
    AUDIT_IN_CHILD,
    AUDIT_IN_PROCESS /* for tests that have threads, or open thousands */
};

struct audit_opts {
    const char *path; /* of data.mdb */
    enum audit_depth depth;
    enum audit_place place;
    int lock_fd; /* the child lets go of it, so that the lock ends with its parent; -1: none */
};

/* False: it is damaged, or the child died; `why`, of at least AUDIT_WHY bytes, says what was found. */
#define AUDIT_WHY 128
bool audit_passes(const struct audit_opts *opts, char why[AUDIT_WHY]);

#endif
