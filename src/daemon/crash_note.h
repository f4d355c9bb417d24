/* src/daemon/crash_note.h
 *
 * crash_note: a process that ends with SIGSEGV, SIGBUS or the like notes it in its replica first. LMDB trusts what is
 * in its file, so the file may be the cause, and the next start with the same file would crash again. After the note
 * the signal takes its usual course (a core dump, a sanitizer's report). A signal that another process sent leaves no
 * note.
 *
 * Thread: the front's; one store at a time.
 */
#ifndef BELFRY_DAEMON_CRASH_NOTE_H
#define BELFRY_DAEMON_CRASH_NOTE_H

struct store;

void crash_note_watch(const struct store *store); /* NULL: stop */

#endif
