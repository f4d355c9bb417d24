/* bench/belfry-attack/told.h
 *
 * told: what a server has said to hostile clients, and how often: refusals and ends, each as one short text.
 *
 * Thread: owner.
 * Memory: fixed. Texts beyond TOLD_ROWS different ones are counted together.
 */
#ifndef ATTACK_TOLD_H
#define ATTACK_TOLD_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TOLD_ROWS 24
#define TOLD_TEXT 160

struct told_row {
    char text[TOLD_TEXT]; /* printable ASCII; digits that differ from client to client are '#' */
    uint64_t count;
};

struct told {
    size_t n_rows;
    struct told_row rows[TOLD_ROWS];
    uint64_t others;
};

/* Counts one more of this text. Numbers of more than two digits become '#', so that texts that differ in an address
 * or in a size only are one. */
__attribute__((format(printf, 2, 3))) void told_add(struct told *told, const char *format, ...);

/* Writes a JSON object, from text to count. */
void told_write(const struct told *told, FILE *out);

#endif
