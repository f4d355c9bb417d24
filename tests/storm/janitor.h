/* tests/storm/janitor.h
 *
 * janitor: removes folders when this process has ended, however it ends. A storm that finds something ends with abort()
 * or with a sanitizer's report, and a storm that takes too long is killed: neither removes its own files.
 *
 * The janitor is a child process that waits until no process has the other end of its pipe. It has a session of its
 * own, so that signals to the group of the storm do not reach it.
 *
 * Thread: owner, before there are other threads.
 * Memory: none.
 */
#ifndef BELFRY_STORM_JANITOR_H
#define BELFRY_STORM_JANITOR_H

/* Removes both folders, with all that is in them, after this process has ended. A folder that is gone by then is fine.
 * Without room for a pipe or a process the folders stay. */
void janitor_start(const char *one, const char *other);

/* Removes a folder and all that is in it, now. */
void janitor_remove(const char *folder);

#endif
