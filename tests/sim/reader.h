/* tests/sim/reader.h
 *
 * reader: a client that reads through one tier: keys, ranges, counts, and pages at the revision of the first one;
 * linearizable and not. A few of its calls are under way at a time; now and then it leaves without waiting for them.
 * What it is answered goes to read_checker.h.
 *
 * Thread: the one thread of the simulator.
 */
#ifndef BELFRY_SIM_READER_H
#define BELFRY_SIM_READER_H

#include "sim/read_checker.h"
#include "sim/sched.h"

struct reader;

struct reader_opts {
    struct sched *sched;
    struct read_checker *checker;
    struct history *history; /* to know what is worth asking for */
    unsigned number;         /* for names */
    void *user;
    struct link *(*dial)(void *user, unsigned number, struct actor *client); /* NULL: not now */
};

struct reader *reader_create(const struct reader_opts *opts);
void reader_destroy(struct reader *reader); /* NULL is fine */

/* From now on it wants one linearizable answer, of everything, and nothing else. */
void reader_settle(struct reader *reader);
bool reader_is_done(const struct reader *reader); /* it has received that */

#endif
