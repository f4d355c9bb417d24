/* src/server/roster.h
 *
 * roster: the long-lived streams of one owner. Each has a number, in the order of joining, and may have a time at which
 * something is due.
 *
 * No turn of the owner visits all streams. It visits those with work: those that were written to, and those whose time
 * has come. A change that concerns every stream is a round: it visits them by number, some in each turn.
 *
 * Thread: owner. Pure.
 * Memory: none of its own: streams embed their entry.
 */
#ifndef BELFRY_SERVER_ROSTER_H
#define BELFRY_SERVER_ROSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/treap.h"

struct roster_entry {
    struct belfry_treap_node by_number, by_due;
    struct belfry_list written;
    uint64_t number; /* never used again */
    uint64_t due_ms; /* BELFRY_NEVER: nothing is due */
};

struct roster {
    struct belfry_treap_node *by_number;
    struct belfry_treap_node *by_due; /* entries with a time */
    uint64_t numbers;                 /* given out */
    struct belfry_list written;       /* entries that were written to */
    bool rounding;
    uint64_t round_at; /* the number that the round visited last */
};

void roster_init(struct roster *roster);

void roster_join(struct roster *roster, struct roster_entry *entry);
void roster_leave(struct roster *roster, struct roster_entry *entry);

/* The first entry with a number above `after`; NULL: there is none. */
struct roster_entry *roster_after(const struct roster *roster, uint64_t after);

/* Something is due then; BELFRY_NEVER: nothing. */
void roster_set_due(struct roster *roster, struct roster_entry *entry, uint64_t due_ms);

/* The entry that is due first; NULL: nothing is due. */
struct roster_entry *roster_first_due(const struct roster *roster);

/* The entry was written to: roster_pop_written() returns it, once. */
static inline void roster_note_write(struct roster *roster, struct roster_entry *entry)
{
    if (belfry_list_empty(&entry->written))
        belfry_list_append(&roster->written, &entry->written);
}

static inline struct roster_entry *roster_pop_written(struct roster *roster)
{
    struct belfry_list *node = belfry_list_pop(&roster->written);
    return node == NULL ? NULL : belfry_container(node, struct roster_entry, written);
}

/* A round visits every entry once. Beginning one ends the round that is under way. NULL: the round is over. */
void roster_begin_round(struct roster *roster);
struct roster_entry *roster_next_in_round(struct roster *roster);

/* When the owner must run again: 0 while a round is under way or entries were written to, otherwise the first due
 * time. */
uint64_t roster_due(const struct roster *roster);

#endif
