/* src/cli/out/out.c */
#include "cli/out/out.h"

#include <errno.h>
#include <stdio.h>

#include "cli/out/report.h"

enum out_state out_flush(void)
{
    static enum out_state state = OUT_OPEN;
    if (state != OUT_OPEN)
        return state;
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return OUT_OPEN;
    /* A write that failed before this flush, when the buffer was full, has left its errno long ago; what cannot be
     * written once more fails again, and for the same reason. */
    if (errno == 0 && fputc('\n', stdout) != EOF)
        (void)fflush(stdout);
    state = errno == EPIPE ? OUT_CLOSED : OUT_BROKEN;
    if (state == OUT_BROKEN)
        report_errno("standard output");
    return state;
}
