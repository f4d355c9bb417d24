/* src/cli/top/top_hour.h
 *
 * top_hour: the last hour of a belfryd, /debug/hour, as lines for people: of each number what it is now, the largest
 * that it was, and its course, the oldest sample first. A column of the course is the largest of the samples that it
 * stands for; a blank: none of them is known.
 *
 *     deliveries        1,200/s   9,400/s  ▁▁▁▂▂▂▇█▅▁▁▁▁
 *
 * Thread: owner of the stream. Memory: the parsed document, during the call.
 */
#ifndef BELFRY_CLI_TOP_TOP_HOUR_H
#define BELFRY_CLI_TOP_TOP_HOUR_H

#include <belfry/err.h>
#include <stdio.h>

#define TOP_HOUR_COURSE 60 /* columns at most */

struct top_hour_view {
    size_t columns; /* of the terminal; 0: no bound */
    size_t most;    /* lines at most */
    const char *line_end;
};

/* Errors: BELFRY_ERR_PROTOCOL (it is no such document; nothing was written), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err top_hour_write(FILE *out, const char *json, size_t len,
                                                const struct top_hour_view *view);

#endif
