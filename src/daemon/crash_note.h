/* src/daemon/crash_note.h
 *
 * fault: a process that ends with SIGSEGV, SIGBUS or the like says so to its replica first: LMDB believes what is in its
 * file, so the fault may be the file's, and a start that meets the same file again would meet the same fault. After the
 * note the signal takes its usual way (a core dump, a sanitizer's report). So does one that another process sent, without
 * the note.
 *
 * Thread: the front's; one store at a time.
 */
#ifndef BELFRY_DAEMON_CRASH_NOTE_H
#define BELFRY_DAEMON_CRASH_NOTE_H

struct store;

void fault_watch(const struct store *store); /* NULL: no more */

#endif
