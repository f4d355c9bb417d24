/* src/follow/follow_log.c */
#include "follow/follow_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define LISTING_MS 5000                 /* between lines about a listing under way */
#define NO_USER    "user name is empty" /* etcd's words: auth is on, and the tier has no user */

static void follow_log_link(struct follow_log *said, const struct follow_facts *facts)
{
    if (facts->refused)
        return;
    if (facts->endpoint != NULL) {
        if (said->link != FOLLOW_CONNECTED || strcmp(said->endpoint, facts->endpoint) != 0)
            belfry_logf(said->log, BELFRY_LOG_INFO, "upstream_connected", "endpoint=%s", facts->endpoint);
        said->link = FOLLOW_CONNECTED;
        snprintf(said->endpoint, sizeof(said->endpoint), "%s", facts->endpoint);
        return;
    }
    if (said->link == FOLLOW_CONNECTED && facts->connected)
        return; /* only the stream is opened again */
    if (said->link == FOLLOW_NEW || said->link == FOLLOW_CONNECTED) {
        belfry_logf(said->log, BELFRY_LOG_INFO, "upstream_looking", "endpoints=%zu first=%s why=\"%s\"",
                    facts->n_endpoints, facts->first_endpoint, said->link == FOLLOW_NEW ? "start" : facts->lost_why);
        said->link = FOLLOW_LOOKING;
    }
    if (said->link == FOLLOW_LOOKING && facts->unreachable[0] != '\0') {
        belfry_logf(said->log, BELFRY_LOG_WARN, "upstream_looking", "endpoints=%zu why=\"%s\"", facts->n_endpoints,
                    facts->unreachable);
        said->link = FOLLOW_UNREACHABLE;
    }
}

static void follow_log_live(const struct follow_log *said, const struct follow_facts *facts)
{
    belfry_logf(said->log, BELFRY_LOG_INFO, "upstream_live", "endpoint=%s rev=%" PRId64 " past=%" PRIu64,
                facts->endpoint != NULL ? facts->endpoint : "", facts->head, facts->past);
}

/* After a restore the revision goes back as well: who did that knows it, and the others must. */
static void follow_log_loss(struct follow_log *said, const struct follow_facts *facts, uint64_t now_ms)
{
    bool is_less = facts->head < said->rev_from;
    if (said->is_rewritten && is_less) {
        said->loss = (struct follow_loss){now_ms, said->rev_from, facts->head, facts->keys_listed};
        belfry_logf(
            said->log, BELFRY_LOG_ERROR, "upstream_lost",
            "rev_before=%" PRId64 " rev=%" PRId64 " keys=%" PRIu64
            " why=\"upstream is another store than before, with less in it: what the tier had beyond it is gone, "
            "and clients are told\" hint=\"was etcd replaced by an empty one, or restored from a backup? If not, "
            "check --upstream and etcd's data directory\"",
            said->rev_from, facts->head, facts->keys_listed);
    }
    said->is_rewritten = false;
}

static void follow_log_state(struct follow_log *said, const struct follow_facts *facts, uint64_t now_ms)
{
    bool moved = facts->state != said->state;
    said->state = facts->state;
    if (facts->state == UPSTREAM_LISTING && (moved || now_ms >= said->listing_due_ms)) {
        if (moved)
            belfry_logf(said->log, BELFRY_LOG_INFO, "upstream_listing", "%s", facts->list_why);
        else if (facts->endpoint != NULL)
            belfry_logf(said->log, BELFRY_LOG_INFO, "upstream_listing", "keys=%" PRIu64, facts->keys_listed);
        said->listing_due_ms = now_ms + LISTING_MS;
    } else if (facts->state == UPSTREAM_REPLAYING && moved) {
        belfry_logf(said->log, BELFRY_LOG_INFO, "upstream_replaying", "rev=%" PRId64 " of=%" PRId64, facts->head,
                    facts->upstream_revision);
    } else if (facts->state == UPSTREAM_LIVE && moved) {
        said->denied = false;
        follow_log_live(said, facts);
        follow_log_loss(said, facts, now_ms);
    }
}

static void follow_log_stale(struct follow_log *said, const struct follow_facts *facts)
{
    if (facts->stale && !said->stale)
        belfry_logf(said->log, BELFRY_LOG_WARN, "upstream_stale", "rev=%" PRId64 " upstream_rev=%" PRId64, facts->head,
                    facts->upstream_revision);
    else if (said->stale && facts->ready)
        follow_log_live(said, facts);
    said->stale = facts->stale;
}

static void follow_log_disk_trouble(const struct follow_log *said, const struct follow_facts *facts,
                                    const char *meanwhile)
{
    belfry_logf(said->log, BELFRY_LOG_ERROR, "disk_trouble",
                "rev=%" PRId64 " committed=%" PRId64 " why=\"%s\" meanwhile=\"%s\"", facts->head, facts->committed,
                facts->disk_why, meanwhile);
}

static void follow_log_disk(struct follow_log *said, const struct follow_facts *facts)
{
    if (facts->disk_trouble && !said->disk_trouble)
        follow_log_disk_trouble(said, facts, "changes are served from memory");
    else if (!facts->disk_trouble && said->disk_trouble)
        belfry_logf(said->log, BELFRY_LOG_INFO, "disk_recovered", "rev=%" PRId64, facts->committed);
    if (facts->disk_stuck && !said->disk_stuck)
        follow_log_disk_trouble(said, facts, "memory for changes is used up, too: watchers wait");
    said->disk_trouble = facts->disk_trouble;
    said->disk_stuck = facts->disk_trouble && (facts->disk_stuck || said->disk_stuck); /* once per trouble */
}

void follow_log_changes(struct follow_log *said, const struct follow_facts *facts, uint64_t now_ms)
{
    follow_log_link(said, facts);
    if (facts->relists_rewritten > said->relists_rewritten) {
        belfry_logf(said->log, BELFRY_LOG_WARN, "upstream_diverged", "%s", facts->list_why);
        said->rev_from = said->is_rewritten && said->rev_from > facts->head ? said->rev_from : facts->head;
        said->is_rewritten = true;
    }
    said->relists_rewritten = facts->relists_rewritten;
    follow_log_state(said, facts, now_ms);
    follow_log_stale(said, facts);
    follow_log_disk(said, facts);
}

uint64_t follow_log_due(const struct follow_log *said)
{
    return said->state == UPSTREAM_LISTING ? said->listing_due_ms : BELFRY_NEVER;
}

/* ---- denials ---- */

bool follow_log_is_denial(enum belfry_err err, const char *why)
{
    return err == BELFRY_ERR_DENIED || strstr(why, NO_USER) != NULL;
}

/* Writes a word of a shell command, quoted; or `instead`, where the word cannot be shown in one line. */
static void shell_quote(struct belfry_bytes word, const char *instead, char *out, size_t len)
{
    bool plain = word.len + 3 <= len;
    for (size_t i = 0; i < word.len && plain; i++)
        plain = word.data[i] >= ' ' && word.data[i] < 0x7f && strchr("'\"\\", word.data[i]) == NULL;
    if (plain)
        snprintf(out, len, "'%.*s'", (int)word.len, word.len > 0 ? word.data : "");
    else
        snprintf(out, len, "%s", instead);
}

void follow_log_denied(struct follow_log *said, const char *why, const char *user, struct belfry_bytes scope)
{
    char user_word[128], scope_word[160];
    const char *first = "";
    if (said->denied)
        return;
    said->denied = true;
    shell_quote(belfry_bytes_str(user != NULL ? user : "\n"), "USER", user_word, sizeof(user_word));
    shell_quote(scope, "SCOPE", scope_word, sizeof(scope_word));
    if (strstr(why, NO_USER) != NULL)
        first = "set --upstream-user and --upstream-password-file (etcdctl user add USER makes one); ";
    else if (user == NULL)
        first = "USER is the CN of --upstream-cert; ";
    belfry_logf(said->log, BELFRY_LOG_ERROR, "upstream_denied",
                "why=\"%.160s\" hint=\"%sgrant the tier its rights, as root: etcdctl role add belfry; "
                "etcdctl role grant-permission belfry read %s --prefix; etcdctl user grant-role %s belfry\"",
                why, first, scope_word, user_word);
}
