/* src/follow/upstream_list.c: listing. */
#include <inttypes.h>

#include "follow/upstream_private.h"

void upstream_relist(struct upstream *up, enum evlog_cut_why why, int64_t compact_rev, const char *because)
{
    bool again = up->state == UPSTREAM_LISTING;
    belfry_logf(up->log, BELFRY_LOG_WARN, again ? "list_again" : "list", "rev=%" PRId64 " why=\"%s\"",
                ingest_head(up->ingest), because);
    up->why = again && up->why > why ? up->why : why; /* who was cut off from everything stays so */
    up->compact_rev = again && up->compact_rev > compact_rev ? up->compact_rev : compact_rev;
    if (!again) {
        up->stats.relists_compacted += why == EVLOG_CUT_COMPACTED;
        up->stats.relists_rewritten += why == EVLOG_CUT_REWRITTEN;
        up->stats.relists_damaged += why == EVLOG_CUT_DAMAGED;
        ingest_drained(up->ingest, up->now);
    }
    upstream_move(up, UPSTREAM_LISTING);
    replay_close_all(&up->replay);
    question_forget(&up->read);
    question_forget(&up->pages);
    question_forget(&up->witness);
    up->vouching = false;
    up->begun = false;
    question_ask(&up->read, again ? upstream_retry_at(up) : up->now);
}

void upstream_list_again(struct upstream *up, const char *because)
{
    upstream_relist(up, up->why, up->compact_rev, because);
}

/* The past is not ours, or (BELFRY_ERR_NOT_FOUND) cannot be shown to be: then to be safe, too, all cursors are lost. */
static void give_up_past(struct upstream *up, enum belfry_err err)
{
    up->compare_at = 0;
    up->why = EVLOG_CUT_REWRITTEN;
    up->stats.relists_rewritten++;
    up->stats.relists_unproven += err != BELFRY_ERR_REWOUND;
}

/* What made us list is our own damage: cursors go on, if upstream's past is still the one that they are in. The newest
 * revision that we hold events of shows it, so the watch begins there. */
static int64_t watch_from(struct upstream *up, const struct belfry_wire_header *header)
{
    int64_t overlap = ingest_overlap(up->ingest);
    up->compare_at = up->why == EVLOG_CUT_DAMAGED ? overlap : 0;
    return up->compare_at != 0 ? overlap : header->revision;
}

static void compare_overlap(struct upstream *up, const struct ingest_revision *revision)
{
    if (up->compare_at == 0 || revision->rev < up->compare_at)
        return;
    enum belfry_err err = ingest_compare(up->ingest, revision, up->now);
    if (err == BELFRY_OK)
        up->compare_at = 0;
    else
        give_up_past(up, err);
}

void upstream_list_from(struct upstream *up, const struct belfry_wire_header *header)
{
    if (header->revision < ingest_head(up->ingest))
        up->why = EVLOG_CUT_REWRITTEN; /* whatever made us list, this is worse */
    listing_first(&up->listing, header);
    replay_open(&up->replay, 0, watch_from(up, header), REPLAY_NO_END, up->now);
    question_ask(&up->pages, up->now);
}

void upstream_list_ended(struct upstream *up, enum belfry_err err)
{
    /* Shown already or not: a watch that begins at our newest revision would end like this each time. */
    if (err == BELFRY_ERR_COMPACTED && up->why == EVLOG_CUT_DAMAGED)
        give_up_past(up, BELFRY_ERR_NOT_FOUND);
    upstream_list_again(up, belfry_strerror((int)err));
}

void upstream_adopt_if_whole(struct upstream *up)
{
    int64_t rev;
    if (up->state != UPSTREAM_LISTING || !up->begun || !listing_whole(&up->listing, &rev) || up->now < up->adopt_at)
        return;
    if (!listing_agrees(&up->listing)) {
        upstream_list_again(up, "the watch is of another past than the pages");
        up->read.at = up->now + UPSTREAM_PROGRESS_MS; /* until a tier above has found out too */
        return;
    }
    if (up->compare_at != 0)
        give_up_past(up, BELFRY_ERR_REWOUND); /* the watch has passed it, and did not show it */
    struct belfry_wire_header header = up->listing.header;
    header.revision = rev;
    int64_t compact_rev = up->why == EVLOG_CUT_REWRITTEN ? rev : up->compact_rev;
    if (ingest_adopt(up->ingest, rev, &header, up->why, compact_rev) != BELFRY_OK) {
        up->adopt_at = upstream_retry_at(up);
        return;
    }
    if (up->listing.digest_rev != 0)
        ingest_set_overlap(up->ingest, up->listing.digest_rev, up->listing.digest);
    up->cluster_id = header.cluster_id;
    up->compact_rev = 0;
    question_forget(&up->pages);
    question_forget(&up->read); /* if one is under way, it was asked of the past that is no more */
    upstream_heard(up);
    upstream_move(up, UPSTREAM_JOINING);
    upstream_joined(up, &up->replay.lanes[0]);
}

void upstream_list_revision(struct upstream *up, const struct ingest_revision *revision)
{
    compare_overlap(up, revision);
    if (listing_revision(&up->listing, revision) != BELFRY_OK)
        upstream_list_again(up, "the replica does not take it");
    else
        upstream_adopt_if_whole(up);
    up->progress_at = up->now + UPSTREAM_PROGRESS_MS;
}

void upstream_on_page(struct upstream *up, uint64_t token, struct belfry_bytes response, uint64_t now_ms)
{
    up->now = now_ms;
    if (token != 0 && token == up->witness.token)
        upstream_hear_witness(up, response);
    if (token == 0 || token != up->pages.token)
        return;
    question_forget(&up->pages);
    enum belfry_err err = listing_page(&up->listing, response);
    if (err != BELFRY_OK) {
        upstream_list_again(up, belfry_strerror((int)err));
        return;
    }
    up->stats.pages++;
    belfry_backoff_reset(&up->backoff);
    if (up->listing.all)
        up->progress_at = up->now; /* an idle watch would say nothing for a while: all that is missing is its word */
    else
        question_ask(&up->pages, up->now);
    upstream_adopt_if_whole(up);
}

void upstream_page_failed(struct upstream *up, enum belfry_err err)
{
    question_forget(&up->pages);
    if (err == BELFRY_ERR_COMPACTED && listing_unpin(&up->listing)) {
        up->stats.pages_repeated++;
        question_ask(&up->pages, up->now);
    } else if (err == BELFRY_ERR_UNAVAILABLE || err == BELFRY_ERR_FUTURE || err == BELFRY_ERR_REWOUND ||
               err == BELFRY_ERR_CLUSTER) { /* the pages before may be of another past: a restore breaks connections */
        upstream_list_again(up, belfry_strerror((int)err));
    } else {
        question_ask(&up->pages, upstream_retry_at(up));
    }
}

bool upstream_ask_page(struct upstream *up, struct upstream_action *out)
{
    if (!question_is_due(&up->pages, up->now) || !up->replay.lanes[0].created)
        return false;
    up->pages.token = ++up->last_token;
    *out = (struct upstream_action){.want = UPSTREAM_WANT_PAGE,
                                    .rev = up->listing.pin,
                                    .limit = up->page,
                                    .token = up->pages.token,
                                    .key = belfry_buf_bytes(&up->listing.cursor)};
    return true;
}
