/* tests/storm/reader.h
 *
 * reader: follow/history_reader.h without its thread: the run decides when the next piece of work is done. The
 * functions of that header are defined here; the linker takes them instead of the real ones.
 *
 * Thread: owner.
 */
#ifndef BELFRY_STORM_READER_H
#define BELFRY_STORM_READER_H

#include <stdbool.h>

/* One piece of work of the reader that there is; false: it has none. */
bool reader_turn(void);
bool reader_is_busy(void); /* it has more */

#endif
