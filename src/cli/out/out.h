/* src/cli/out/out.h: standard output that may be closed under us: the reader has seen enough, which is no failure.
 * Thread: owner. */
#ifndef BELFRY_CLI_OUT_OUT_H
#define BELFRY_CLI_OUT_OUT_H

#include <stdbool.h>

enum out_state { OUT_OPEN, OUT_CLOSED, OUT_BROKEN };

/* Hands what was printed to the system. A failure other than a closed pipe is reported, once: OUT_BROKEN. */
enum out_state out_flush(void);

#endif
