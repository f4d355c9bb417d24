/* src/cli/txn_script.h
 *
 * txn_script: the lines that `etcdctl txn` reads, made into a transaction: conditions, a blank line, what to do if they
 * hold, a blank line, what to do if not, a blank line.
 *
 *     mod("key") > "0"            ver, version; c, create; m, mod: a number. val, value. lease: hexadecimal digits
 *                                 = != < >
 *     put key "a value"
 *
 *     get key                     get, put and del with the flags that they have as commands
 *
 * Words are cut at blanks; 'one' and "one\ttoo" are one word each, as is what only has a quote inside.
 *
 * Thread: owner.
 */
#ifndef BELFRY_CLI_TXN_SCRIPT_H
#define BELFRY_CLI_TXN_SCRIPT_H

#include <belfry/belfry.h>

#include "cli/flags.h"

#define TXN_SCRIPT_STEPS 10000 /* of one branch; etcd's own limit is 128 unless it is raised */

enum txn_stage { TXN_CONDITIONS, TXN_THEN, TXN_ELSE, TXN_DONE };

/* What a step was, for whoever prints its answer. */
struct txn_step {
    enum command command; /* CMD_GET, CMD_PUT or CMD_DEL */
    char *key;            /* owned */
};

/* Zeroed to begin with. */
struct txn_script {
    enum txn_stage stage;
    struct belfry_txn *txn; /* owned; NULL before the first line */
    struct {
        struct txn_step *list; /* owned */
        size_t n;
    } steps[2]; /* by enum belfry_branch */
};

/* Takes one line, which is spoilt by it; blank ones move to the next stage.
 * Errors: BELFRY_ERR_INVALID (one line for the user in why[0, FLAGS_WHY)), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err txn_script_line(struct txn_script *script, char *line, char *why);

void txn_script_fini(struct txn_script *script);

#endif
