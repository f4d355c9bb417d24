/* src/cli/verify/verify_kube_watcher.h
 *
 * verify_kube_watcher: one client of a tier in front of an API server. It watches a resource from a version on, is
 * judged, leaves, and comes back from another version. The first one of a run stays from beginning to end.
 *
 *   RESTING --due--> WATCHING --leaves, 410, or is given up--> RESTING
 *
 * An event that comes before the reference has it pauses the watch.
 *
 * Thread: owner. Memory: its watch and its case.
 */
#ifndef BELFRY_CLI_VERIFY_VERIFY_KUBE_WATCHER_H
#define BELFRY_CLI_VERIFY_VERIFY_KUBE_WATCHER_H

#include "cli/verify/verify_env.h"
#include "cli/verify/verify_kube_side.h"

enum verify_kube_role { VERIFY_KUBE_STAYS, VERIFY_KUBE_FROM_NOW, VERIFY_KUBE_FROM_OLD };

struct verify_kube_watcher {
    struct verify_env *env;
    enum verify_kube_role role;
    struct verify_kube_side side;
    struct verify_spec spec;
    struct verify_case *judged; /* NULL: it rests */
    int64_t due_us;             /* comes, or leaves */
};

/* Zeroed before; `kube` and `resource` are lent. */
void verify_kube_watcher_init(struct verify_kube_watcher *watcher, struct verify_env *env, unsigned number,
                              struct belfry_kube *kube, struct belfry_resource resource);

/* Does what is due. `stays`: watchers neither come nor leave any more. */
void verify_kube_watcher_turn(struct verify_kube_watcher *watcher, int64_t now_us, bool stays);

/* Has been told all up to `version` that the reference has told, or rests. */
bool verify_kube_watcher_done(struct verify_kube_watcher *watcher, int64_t version);
bool verify_kube_watcher_cut(const struct verify_kube_watcher *watcher);
void verify_kube_watcher_fini(struct verify_kube_watcher *watcher);

#endif
