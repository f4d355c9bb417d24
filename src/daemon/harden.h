/* src/daemon/harden.h
 *
 * harden: what the process gives up before it reads a byte of a client's, so that a fault in it is worth less.
 *
 * - It and its children gain no rights by executing a file (no_new_privs).
 * - Its memory is read by no other process of its user, and is written to no core file (not dumpable).
 * - No memory that was writable becomes executable, where the kernel knows how to refuse it.
 * - The kernel refuses, with EPERM, system calls that belfryd never makes and an intruder wants: to execute a file, to
 *   look into other processes, to mount, to load code into the kernel, and sockets that are not IP, unix or netlink
 *   (harden_is_refused() knows all of them). A call by another ABI than the program's own ends the process.
 *
 * None of it can be taken back. A service manager may have done the same: twice is fine. What the kernel does not offer
 * is left out, and the report says so. Sanitizers need what is given up here: builds with one leave it all out.
 *
 * Thread: the first, before there are others: they inherit it.
 */
#ifndef BELFRY_DAEMON_HARDEN_H
#define BELFRY_DAEMON_HARDEN_H

#include <stdbool.h>

struct harden_report {
    bool no_new_privs, not_dumpable, no_exec_gain, filter;
};

/* False: this build has a sanitizer. */
bool harden_is_possible(void);
void harden_self(struct harden_report *out);

/* Does the filter refuse this system call, whatever its arguments? */
bool harden_is_refused(long number);

#endif
