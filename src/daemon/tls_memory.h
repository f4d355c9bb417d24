/* src/daemon/tls_memory.h
 *
 * tls_memory: where OpenSSL's large buffers lie.
 *
 * OpenSSL takes buffers of 16 to 22 KiB for the time of a record or of a handshake, and some it wipes to their end. In
 * the common heap such memory is used next for the buffers of HTTP/2 sessions, of which an idle connection touches the
 * first page only: each idle TLS connection then had 12 KB more in memory than it uses. So these buffers have a place
 * of their own: blocks of 24 KiB in one range of addresses. Each thread keeps a few free blocks, for the next record;
 * the pages of others are given back to the kernel. When the range is used up, and for other sizes, the heap serves.
 *
 * Thread: any. What one thread took another may free. A thread that ends loses the blocks it keeps, so it is for
 * threads that live as long as the process.
 */
#ifndef BELFRY_DAEMON_TLS_MEMORY_H
#define BELFRY_DAEMON_TLS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#define TLS_MEMORY_LEAST  16000 /* smaller ones are the heap's */
#define TLS_MEMORY_BLOCK  24576
#define TLS_MEMORY_BLOCKS 2048 /* 48 MiB: so many handshakes at a time */
#define TLS_MEMORY_KEPT   8    /* free ones, per thread */

/* Lets OpenSSL use it. Once, before anything uses OpenSSL and before there are threads; when it is too late, or the
 * range cannot be had, all stays with the heap. Builds with a sanitizer leave it out: its checks are worth more. */
void tls_memory_begin(void);

/* Its parts, for OpenSSL and for tests. tls_memory_reserve(): takes the range, once. The others are as malloc() and its
 * like, but 0 bytes are NULL. */
void tls_memory_reserve(void);
void *tls_memory_alloc(size_t size, const char *file, int line);
void *tls_memory_realloc(void *block, size_t size, const char *file, int line);
void tls_memory_free(void *block, const char *file, int line);

/* Does it lie in the range? */
bool tls_memory_has(const void *block);

#endif
