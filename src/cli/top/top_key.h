/* src/cli/top/top_key.h
 *
 * top_key: which key was pressed, from the bytes that a terminal sends for it. An arrow is a sequence that begins as
 * the Escape key does: Escape alone is the one behind which nothing came.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_CLI_TOP_TOP_KEY_H
#define BELFRY_CLI_TOP_TOP_KEY_H

#include <stddef.h>

/* Keys beyond those that are their own byte. */
enum top_key {
    TOP_KEY_UP = 256,
    TOP_KEY_DOWN,
    TOP_KEY_PAGE_UP,
    TOP_KEY_PAGE_DOWN,
    TOP_KEY_HOME,
    TOP_KEY_END,
    TOP_KEY_ESCAPE,
    TOP_KEY_OTHER /* one that nothing is done for */
};

/* The first key of the bytes, as its byte (0 to 255) or an enum top_key. *used is how many bytes it took, at least 1;
 * there must be one. */
int top_key_read(const char *bytes, size_t len, size_t *used);

#endif
