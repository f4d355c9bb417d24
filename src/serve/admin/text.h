/* src/serve/admin/text.h
 *
 * text: lines for people and for Prometheus, written into a buffer. After the first failure nothing more is written.
 *
 * Thread: owner.
 */
#ifndef BELFRY_SERVE_ADMIN_TEXT_H
#define BELFRY_SERVE_ADMIN_TEXT_H

#include "base/buf.h"

#define TEXT_LINE 2048 /* the most that one call writes; longer text is cut */

/* err is BELFRY_OK to begin with. */
struct text {
    struct belfry_buf *buf;
    enum belfry_err err;
};

__attribute__((format(printf, 2, 3))) void text_say(struct text *text, const char *format, ...);

#endif
