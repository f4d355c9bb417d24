/* tests/programs/commands.h: commands on stdin, one a line. */
#ifndef BELFRY_TESTS_COMMANDS_H
#define BELFRY_TESTS_COMMANDS_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

struct commands {
    char *buf; /* of `size` bytes; no line is longer */
    size_t size, used;
};

/* Reads what is there and has each whole line obeyed, until *quitting, which the end of input sets as well. */
static inline void commands_read(struct commands *in, void (*obey)(char *line), bool *quitting)
{
    ssize_t got = read(STDIN_FILENO, in->buf + in->used, in->size - in->used);
    if (got <= 0) {
        *quitting = got == 0 || errno != EINTR;
        return;
    }
    in->used += (size_t)got;
    char *start = in->buf, *newline;
    while (!*quitting && (newline = memchr(start, '\n', in->used - (size_t)(start - in->buf))) != NULL) {
        *newline = 0;
        obey(start);
        start = newline + 1;
    }
    in->used -= (size_t)(start - in->buf);
    memmove(in->buf, start, in->used);
}

#endif
