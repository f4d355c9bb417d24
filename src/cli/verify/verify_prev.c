/* src/cli/verify/verify_prev.c */
#include "cli/verify/verify_prev.h"

#include <string.h>

void verify_prev_keep(struct verify_prev *prev, const struct verify_spec *spec, const struct verify_event *event)
{
    prev->rev = event->kv.mod_rev;
    prev->watcher = spec->watcher;
    prev->key_len = event->key.len < VERIFY_PREV_KEY ? event->key.len : VERIFY_PREV_KEY;
    if (prev->key_len > 0)
        memcpy(prev->key, event->key.data, prev->key_len);
    verify_prev_text(event, prev->expected);
    verify_spec_text(spec, prev->asked);
}

void verify_prev_blame(const struct verify_prev *prev, verify_blame_fn blame, void *user)
{
    struct verify_violation violation = {.property = VERIFY_PREV_KV,
                                         .watcher = prev->watcher,
                                         .rev = prev->rev,
                                         .key = {prev->key, prev->key_len},
                                         .expected = prev->expected,
                                         .came = "none, and no compaction explains it",
                                         .asked = prev->asked};
    blame(&violation, user);
}
