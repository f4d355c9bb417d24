/* src/serve/admin/numbers_table.h
 *
 * numbers_table: every number that a tier counts, stated once. /metrics, /debug/numbers, docs/metrics.md and belfryctl
 * top are made from these rows. Metrics that are computed from several numbers are in metrics.c.
 *
 *     X(over, member, name, show, metric, kind, help, labels)
 *
 * over    where the number is, and how the values of workers combine:
 *         TIER        a member of tier_numbers
 *         KNOWN       likewise; BELFRY_NEVER means that it is not known, and it is left out
 *         SUM MAX MIN a member of worker_numbers, combined over the workers that answered
 * name    in JSON
 * show    JSON: in /debug/numbers; TOP: there, and belfryctl top reads it; HIDDEN: in /metrics only
 * metric  NULL: not in /metrics, and the row ends here. Rows of one metric are its series; the first has the help.
 * kind    COUNTER, GAUGE, or GAUGE_US (microseconds, written as seconds)
 * labels  may be left out
 *
 * A part is an object of the JSON document; NUMBERS_ROUTE and NUMBERS_GATEWAY are in /metrics only.
 *
 * This header includes nothing, so that belfryctl can use it.
 */
#ifndef BELFRY_SERVE_ADMIN_NUMBERS_TABLE_H
#define BELFRY_SERVE_ADMIN_NUMBERS_TABLE_H

/* clang-format off */
#define NUMBERS_UPSTREAM(X) \
    X(TIER, upstream.revision, revision, TOP, "belfry_revision", GAUGE, "The newest revision published to watchers.") \
    X(TIER, upstream.committed, committed, JSON, "belfry_replica_revision", GAUGE, \
      "The newest revision committed to the replica.") \
    X(TIER, upstream.upstream_revision, upstream_revision, TOP, "belfry_upstream_revision", GAUGE, \
      "The highest revision that upstream has shown.") \
    X(KNOWN, upstream.silent_ms, silent_ms, TOP, NULL) \
    X(TIER, upstream.past, past, JSON, NULL) \
    X(TIER, upstream.identity.cluster_id, cluster_id, JSON, NULL) \
    X(TIER, upstream.identity.member_id, member_id, JSON, NULL) \
    X(TIER, upstream.identity.raft_term, raft_term, JSON, NULL) \
    X(TIER, upstream.disk_trouble, disk_trouble, JSON, "belfry_replica_disk_trouble", GAUGE, \
      "1 while the replica cannot be written; watchers are served from memory.") \
    X(TIER, upstream.connects, connects, JSON, "belfry_upstream_connects_total", COUNTER, \
      "Connections made to upstream by the follower.") \
    X(TIER, upstream.losses, losses, TOP, "belfry_upstream_losses_total", COUNTER, \
      "Connections to upstream that the follower lost.") \
    X(TIER, upstream.backfills, backfills, TOP, "belfry_backfills", GAUGE, "Backfills under way.") \
    X(TIER, upstream.backfills_done, backfills_done, TOP, "belfry_upstream_fallbacks_total", COUNTER, \
      "Reads of upstream beside the one watch: history for watchers older than the window, relayed calls, " \
      "listings.", "reason=\"backfill\"") \
    X(TIER, upstream.backfill_revisions, backfill_revisions, JSON, "belfry_backfill_revisions_total", COUNTER, \
      "Revisions read from upstream by backfills.") \
    X(TIER, upstream.keys_listed, keys_listed, JSON, NULL) \
    X(TIER, upstream.points.questions, read_points, JSON, "belfry_read_points_total", COUNTER, \
      "Linearizable reads of upstream, each of which was shared by the reads that waited for it.") \
    X(TIER, upstream.points.failed, read_points_failed, JSON, "belfry_read_points_failed_total", COUNTER, \
      "Those without a good answer. They were repeated.") \
    X(TIER, upstream.lag_peak, -, HIDDEN, "belfry_upstream_lag_revisions_peak", GAUGE, \
      "The most revisions that the tier was behind upstream since its start.")

#define NUMBERS_FOLLOWER(X) \
    X(TIER, upstream.stats.revisions, revisions, JSON, "belfry_upstream_revisions_total", COUNTER, \
      "Revisions taken from upstream.") \
    X(TIER, upstream.stats.events, events, TOP, "belfry_upstream_events_total", COUNTER, \
      "Events taken from upstream.") \
    X(TIER, upstream.stats.overlaps, overlaps, JSON, NULL) \
    X(TIER, upstream.stats.listings, listings, TOP, "belfry_upstream_fallbacks_total", COUNTER, \
      NULL, "reason=\"list\"") \
    X(TIER, upstream.stats.relists_compacted, relists_compacted, JSON, "belfry_upstream_relists_total", COUNTER, \
      "Listings that replaced the replica, by reason.", "reason=\"compacted\"") \
    X(TIER, upstream.stats.relists_rewritten, relists_rewritten, JSON, "belfry_upstream_relists_total", COUNTER, \
      NULL, "reason=\"rewritten\"") \
    X(TIER, upstream.stats.relists_unproven, relists_unproven, JSON, NULL) \
    X(TIER, upstream.stats.relists_damaged, relists_damaged, JSON, "belfry_upstream_relists_total", COUNTER, \
      NULL, "reason=\"damaged\"") \
    X(TIER, upstream.stats.breaches, breaches, JSON, "belfry_upstream_breaches_total", COUNTER, \
      "Events that did not fit the state they replace. The replica had diverged, and the tier listed upstream again.") \
    X(TIER, upstream.stats.judgements, judgements, JSON, NULL) \
    X(TIER, upstream.stats.replays, replays, JSON, "belfry_upstream_replays_total", COUNTER, \
      "Times that the tier was so far behind that it replayed upstream's history in parallel windows.") \
    X(TIER, upstream.stats.windows, windows, JSON, NULL) \
    X(TIER, upstream.stats.pages, pages, JSON, NULL) \
    X(TIER, upstream.stats.pages_repeated, pages_repeated, JSON, NULL) \
    X(TIER, upstream.stats.gaps, gaps, JSON, "belfry_upstream_gaps_total", COUNTER, \
      "Gaps of the clock: the process or the machine was stopped.") \
    X(TIER, upstream.stats.stale, stale, JSON, "belfry_upstream_stale_total", COUNTER, \
      "Times that upstream fell silent and the tier became stale.")

#define NUMBERS_REPLICA(X) \
    X(TIER, replica.state_rows, state_rows, JSON, "belfry_replica_keys", GAUGE, "Keys in the replica.") \
    X(TIER, replica.history_rows, history_rows, JSON, "belfry_history_events", GAUGE, \
      "Events of history in the replica.") \
    X(TIER, replica.history_bytes, history_bytes, TOP, "belfry_history_bytes", GAUGE, "History in the replica.") \
    X(TIER, replica.used_bytes, used_bytes, JSON, "belfry_replica_used_bytes", GAUGE, \
      "Disk space that the replica uses.") \
    X(TIER, replica.map_bytes, map_bytes, JSON, "belfry_replica_map_bytes", GAUGE, \
      "The most that the replica could use.") \
    X(TIER, replica.commits, commits, JSON, "belfry_replica_commits_total", COUNTER, "Commits to the replica.") \
    X(TIER, replica.trimmed, trimmed, JSON, "belfry_history_trimmed_total", COUNTER, \
      "Events of history dropped for space or age.") \
    X(TIER, replica.io_errors, io_errors, JSON, "belfry_replica_io_errors_total", COUNTER, \
      "Reads and writes of the replica that failed (disk full or broken).") \
    X(TIER, replica.damages, damages, JSON, "belfry_replica_damages_total", COUNTER, \
      "Damage found in the replica, at start or in a row that was read; the tier lists upstream again each time.") \
    X(TIER, history_oldest, history_oldest, TOP, "belfry_history_oldest_revision", GAUGE, \
      "The oldest revision that can be served without asking upstream; 0: none.") \
    X(TIER, history_newest, history_newest, JSON, "belfry_history_newest_revision", GAUGE, \
      "The newest revision in history; 0: none.") \
    X(TIER, reads, reads, JSON, "belfry_history_reads_total", COUNTER, \
      "Reads of history for watchers that are behind the log.") \
    X(TIER, reads_shared, reads_shared, JSON, "belfry_history_reads_shared_total", COUNTER, \
      "Reads of history answered by a read for another watcher.") \
    X(TIER, reads_shelved, reads_shelved, JSON, "belfry_history_reads_shelved_total", COUNTER, \
      "Reads of history answered from an earlier backfill that was kept in memory.") \
    X(TIER, shelf_bytes, shelf_bytes, JSON, "belfry_history_shelf_bytes", GAUGE, \
      "Backfilled history that is kept in memory for other watchers.")

#define NUMBERS_LOG(X) \
    X(TIER, log_oldest, oldest, TOP, "belfry_log_oldest_revision", GAUGE, "The oldest revision in the log; 0: none.") \
    X(TIER, log_newest, newest, JSON, "belfry_log_newest_revision", GAUGE, "The newest revision in the log; 0: none.") \
    X(TIER, log_bytes, bytes, TOP, "belfry_log_bytes", GAUGE, "The log: the newest revisions, in memory.") \
    X(TIER, log_bytes, bytes, HIDDEN, "belfry_memory_bytes", GAUGE, \
      "Accounted memory, by use. kernel: send buffers of sockets with unsent bytes.", "pool=\"log\"")

#define NUMBERS_LISTENERS(X) \
    X(TIER, listeners.accepted, accepted, JSON, NULL) \
    X(TIER, listeners.refused, refused, JSON, "belfry_rejected_total", COUNTER, \
      "Rejected connections, streams and calls, by cause.", "reason=\"descriptors\"") \
    X(TIER, admin.connections, admin_connections, JSON, "belfry_admin_connections", GAUGE, \
      "Connections to the admin address.") \
    X(TIER, admin.refused, admin_refused, JSON, "belfry_rejected_total", COUNTER, NULL, "reason=\"admin\"") \
    X(TIER, admin.refused_pages, -, HIDDEN, "belfry_rejected_total", COUNTER, NULL, "reason=\"admin_cross_site\"")

#define NUMBERS_TIER(X) \
    X(KNOWN, listeners_left_s, listener_certificate_s, JSON, "belfry_certificate_left_seconds", GAUGE, \
      "Seconds until the first certificate of a listener, or the one for upstream, expires; left out without one.", \
      "of=\"listener\"") \
    X(KNOWN, upstream_left_s, upstream_certificate_s, JSON, "belfry_certificate_left_seconds", GAUGE, NULL, \
      "of=\"upstream\"") \
    X(TIER, clock_ms, clock_ms, JSON, NULL) \
    X(TIER, descriptors, descriptors, JSON, "belfry_descriptors_limit", GAUGE, \
      "Descriptors that the process may have open: one per connection; some are for itself (log line limits).") \
    X(KNOWN, disk_free_bytes, disk_free_bytes, JSON, "belfry_disk_free_bytes", GAUGE, \
      "Free space of the file system that holds the replica.") \
    X(TIER, memory_max, memory_max, JSON, "belfry_memory_limit_bytes", GAUGE, \
      "Above this, new streams and watchers are rejected; 0: no limit.") \
    X(TIER, n_workers, -, HIDDEN, "belfry_workers", GAUGE, "Worker threads.") \
    X(TIER, draining, -, HIDDEN, "belfry_draining", GAUGE, \
      "1 while the tier drains: it is not ready, asks its clients to leave one by one, and serves new ones until " \
      "the end.")

#define NUMBERS_WORKER(X) \
    X(MIN, position, position, JSON, "belfry_position_revision", GAUGE, \
      "The revision that every worker has sent to all its synced watchers.") \
    X(SUM, turns, turns, JSON, "belfry_worker_turns_total", COUNTER, "Turns of the workers' loops.") \
    X(MAX, longest_turn_us, longest_turn_us, JSON, "belfry_worker_longest_turn_seconds", GAUGE_US, \
      "The longest turn of a worker's loop, reads of sockets included, in the last 60 to 70 seconds.")

#define NUMBERS_CORE(X) \
    X(SUM, core.streams, streams, TOP, NULL) \
    X(SUM, core.watchers, watchers, JSON, NULL) \
    X(SUM, core.nodes, nodes, JSON, "belfry_ranges", GAUGE, \
      "Different ranges that are watched, added up over workers.") \
    X(SUM, core.riding, riding, TOP, NULL) \
    X(SUM, core.waiting, waiting, TOP, NULL) \
    X(SUM, core.boarded, boarded, TOP, NULL) \
    X(SUM, core.stalled, stalled, TOP, NULL) \
    X(SUM, core.solo, solo, TOP, NULL) \
    X(SUM, core.parked, parked, TOP, "belfry_streams_parked", GAUGE, \
      "Streams with something to send whose socket accepts no bytes.") \
    X(SUM, core.riding_parked, riding_parked, TOP, NULL) \
    X(SUM, core.bytes, bytes, JSON, "belfry_memory_bytes", GAUGE, NULL, "pool=\"watchers\"") \
    X(SUM, core.batches, batches, JSON, "belfry_batches_total", COUNTER, \
      "Revisions handed out, counted by each worker.") \
    X(SUM, core.deliveries, deliveries, TOP, "belfry_deliveries_total", COUNTER, \
      "Responses with events sent to watchers.") \
    X(SUM, core.written, written, JSON, "belfry_delivered_bytes_total", COUNTER, \
      "Bytes of responses sent on streams.") \
    X(SUM, core.fetches, fetches, JSON, NULL) \
    X(SUM, core.rows_swept, rows_swept, JSON, "belfry_catch_up_events_total", COUNTER, \
      "Events read for watchers that catch up.") \
    X(SUM, core.handovers, handovers, JSON, "belfry_catch_ups_total", COUNTER, \
      "Watchers that caught up and became synced.") \
    X(SUM, core.parks, parks, JSON, "belfry_parks_total", COUNTER, "Times that a stream was parked.") \
    X(SUM, core.unparks, unparks, JSON, "belfry_unparks_total", COUNTER, "Times that a parked stream resumed.") \
    X(SUM, core.overslept, overslept, JSON, "belfry_overslept_total", COUNTER, \
      "Times that a worker fell behind the log and continued from history.") \
    X(SUM, core.cuts, cuts, JSON, NULL) \
    X(SUM, core.extents, extents, JSON, NULL) \
    X(SUM, core.fragments, fragments, JSON, NULL) \
    X(SUM, core.packed, packed, JSON, NULL) \
    X(SUM, core.compacted, compacted, TOP, "belfry_compacted_total", COUNTER, \
      "Watchers canceled because the revision they need is compacted.") \
    X(SUM, core.progress, progress, JSON, "belfry_progress_total", COUNTER, \
      "Progress notifications sent to watchers.") \
    X(SUM, core.parked_peak, -, HIDDEN, "belfry_streams_parked_peak", GAUGE, \
      "The most streams that were parked at one time since the start: the sum of each worker's peak.") \
    X(SUM, core.rest_bytes_peak, -, HIDDEN, "belfry_memory_peak_bytes", GAUGE, \
      "The most accounted memory at one time since the start: the sum of each worker's peak. pinned: half-sent " \
      "messages; requests, relay: unfinished requests of clients.", "pool=\"pinned\"")

#define NUMBERS_WATCH(X) \
    X(SUM, watch.streams, streams, JSON, "belfry_streams", GAUGE, "Streams that carry watchers.", "dialect=\"grpc\"") \
    X(SUM, watch.asking, asking, JSON, "belfry_streams_asking", GAUGE, \
      "Streams that wait for upstream to say whether they may watch.") \
    X(SUM, watch.opened, opened, JSON, "belfry_streams_opened_total", COUNTER, "Streams opened.", "dialect=\"grpc\"") \
    X(SUM, watch.requests, requests, JSON, "belfry_watch_requests_total", COUNTER, \
      "Requests on watch streams.", "dialect=\"grpc\"") \
    X(SUM, watch.creates, creates, JSON, "belfry_watch_creates_total", COUNTER, \
      "Requests to create a watcher.", "dialect=\"grpc\"") \
    X(SUM, watch.cancels, cancels, JSON, "belfry_watch_cancels_total", COUNTER, \
      "Requests to cancel a watcher.", "dialect=\"grpc\"") \
    X(SUM, watch.progress, progress, JSON, "belfry_watch_progress_requests_total", COUNTER, \
      "Requests for progress.", "dialect=\"grpc\"") \
    X(SUM, watch.refused, refused, JSON, "belfry_rejected_total", COUNTER, NULL, "reason=\"permission\"") \
    X(SUM, watch.refused_share, -, HIDDEN, "belfry_rejected_total", COUNTER, NULL, "reason=\"watch_share\"") \
    X(SUM, watch.refused_scope, -, HIDDEN, "belfry_rejected_total", COUNTER, NULL, "reason=\"watch_scope\"") \
    X(SUM, watch.refused_id, -, HIDDEN, "belfry_rejected_total", COUNTER, NULL, "reason=\"watch_id\"") \
    X(SUM, watch.expelled, expelled, JSON, "belfry_watches_expelled_total", COUNTER, \
      "Running watches that ended because upstream revoked their right.", "dialect=\"grpc\"") \
    X(SUM, watch.closed[WATCH_CLOSE_LATE], -, HIDDEN, "belfry_rejected_total", COUNTER, \
      NULL, "reason=\"unfinished_watch\"") \
    X(SUM, watch.held_bytes, -, HIDDEN, "belfry_memory_bytes", GAUGE, NULL, "pool=\"requests\"") \
    X(SUM, watch.held_peak, -, HIDDEN, "belfry_memory_peak_bytes", GAUGE, NULL, "pool=\"requests\"")

#define NUMBERS_INBOUND(X) \
    X(SUM, inbound.connections, connections, TOP, "belfry_connections", GAUGE, "Connections of clients.") \
    X(SUM, inbound.http1, http1, JSON, NULL) \
    X(SUM, inbound.http2, http2, JSON, "belfry_connections_http2", GAUGE, "Connections of clients that use HTTP/2.") \
    X(SUM, inbound.tls, tls, JSON, "belfry_connections_tls", GAUGE, "Connections of clients that use TLS.") \
    X(SUM, inbound.bytes, bytes, JSON, "belfry_memory_bytes", GAUGE, NULL, "pool=\"connections\"") \
    X(SUM, inbound.kernel_bytes, kernel_bytes, JSON, "belfry_memory_bytes", GAUGE, NULL, "pool=\"kernel\"") \
    X(SUM, inbound.accepted, accepted, JSON, "belfry_connections_accepted_total", COUNTER, "Connections accepted.") \
    X(SUM, inbound.closed, closed, JSON, "belfry_connections_closed_total", COUNTER, "Connections closed.") \
    X(SUM, inbound.dead, dead, JSON, "belfry_connections_dead_total", COUNTER, \
      "Connections ended because the peer's machine stopped acknowledging.") \
    X(SUM, inbound.ended_certificates, ended_certificates, JSON, "belfry_connections_certificate_ended_total", \
      COUNTER, "Connections ended because their client certificate expired, was revoked, or lost its authority.") \
    X(SUM, inbound.refused_handshakes, refused_handshakes, JSON, "belfry_rejected_total", COUNTER, \
      NULL, "reason=\"handshake\"") \
    X(SUM, inbound.refused_heads, refused_heads, JSON, "belfry_rejected_total", COUNTER, \
      NULL, "reason=\"proxy_head\"") \
    X(SUM, inbound.full_handshakes, full_handshakes, JSON, "belfry_tls_handshakes_total", COUNTER, \
      "TLS handshakes that succeeded: full ones, and those that went on with a session ticket.", "kind=\"full\"") \
    X(SUM, inbound.resumed_handshakes, resumed_handshakes, JSON, "belfry_tls_handshakes_total", COUNTER, \
      NULL, "kind=\"resumed\"") \
    X(SUM, inbound.refused_floods, refused_floods, JSON, "belfry_rejected_total", COUNTER, NULL, "reason=\"flood\"") \
    X(SUM, inbound.bytes_in, bytes_in, JSON, "belfry_received_bytes_total", COUNTER, "Bytes read from clients.") \
    X(SUM, inbound.bytes_out, bytes_out, TOP, "belfry_sent_bytes_total", COUNTER, "Bytes written to clients.") \
    X(SUM, inbound.writes, writes, JSON, "belfry_writes_total", COUNTER, "Writes to sockets of clients.") \
    X(SUM, inbound.refused_streams, -, HIDDEN, "belfry_rejected_total", COUNTER, NULL, "reason=\"stream_memory\"") \
    X(SUM, inbound.refused_connections, -, HIDDEN, "belfry_rejected_total", COUNTER, \
      NULL, "reason=\"connection_memory\"") \
    X(SUM, inbound.ended_largest, -, HIDDEN, "belfry_rejected_total", COUNTER, NULL, "reason=\"unfinished_largest\"") \
    X(SUM, inbound.ended_greetings, -, HIDDEN, "belfry_rejected_total", COUNTER, \
      NULL, "reason=\"unfinished_greeting\"") \
    X(SUM, inbound.ended_handshakes, -, HIDDEN, "belfry_rejected_total", COUNTER, \
      NULL, "reason=\"unfinished_handshake\"") \
    X(SUM, inbound.ended_heads, -, HIDDEN, "belfry_rejected_total", COUNTER, NULL, "reason=\"unfinished_head\"") \
    X(SUM, inbound.ended_unread, -, HIDDEN, "belfry_rejected_total", COUNTER, NULL, "reason=\"unread\"") \
    X(SUM, inbound.ended_idle, -, HIDDEN, "belfry_connections_idle_ended_total", COUNTER, \
      "Connections ended because they were idle: HTTP/1.1, and HTTP/2 while there were many connections.")

#define NUMBERS_RELAY(X) \
    X(SUM, relay.running, running, JSON, "belfry_relays", GAUGE, "Relayed calls under way.") \
    X(SUM, relay.relayed, relayed, TOP, "belfry_upstream_fallbacks_total", COUNTER, NULL, "reason=\"relay\"") \
    X(SUM, relay.refused, refused, JSON, "belfry_rejected_total", COUNTER, NULL, "reason=\"relay\"") \
    X(SUM, relay.failed, failed, JSON, "belfry_relays_failed_total", COUNTER, \
      "Relayed calls that upstream did not answer.") \
    X(SUM, relay.bytes_up, bytes_up, JSON, "belfry_relayed_up_bytes_total", COUNTER, "Bytes relayed to upstream.") \
    X(SUM, relay.bytes_down, bytes_down, JSON, "belfry_relayed_down_bytes_total", COUNTER, \
      "Bytes relayed from upstream.") \
    X(SUM, relay.inquiries, inquiries, JSON, "belfry_rights_inquiries_total", COUNTER, \
      "Questions of tiers below what a client of theirs may read, by where they were answered.", "answered=\"here\"") \
    X(SUM, relay.inquiries_relayed, inquiries_relayed, JSON, "belfry_rights_inquiries_total", COUNTER, NULL, \
      "answered=\"upstream\"") \
    X(SUM, relay.over_memory, -, HIDDEN, "belfry_rejected_total", COUNTER, NULL, "reason=\"relay_memory\"") \
    X(SUM, relay.late, -, HIDDEN, "belfry_rejected_total", COUNTER, NULL, "reason=\"unfinished_call\"") \
    X(SUM, relay.held_bytes, -, HIDDEN, "belfry_memory_bytes", GAUGE, NULL, "pool=\"relay\"") \
    X(SUM, relay.held_peak, -, HIDDEN, "belfry_memory_peak_bytes", GAUGE, NULL, "pool=\"relay\"")

#define NUMBERS_READS(X) \
    X(SUM, reads.replica[0], replica_linearizable, TOP, "belfry_reads_total", COUNTER, \
      "Reads (Range, and Txns that only read) by where they were answered, and by what they asked for.", \
      "source=\"replica\",consistency=\"linearizable\"") \
    X(SUM, reads.replica[1], replica_serializable, TOP, "belfry_reads_total", COUNTER, NULL, \
      "source=\"replica\",consistency=\"serializable\"") \
    X(SUM, reads.upstream[0], upstream_linearizable, TOP, "belfry_reads_total", COUNTER, NULL, \
      "source=\"upstream\",consistency=\"linearizable\"") \
    X(SUM, reads.upstream[1], upstream_serializable, TOP, "belfry_reads_total", COUNTER, NULL, \
      "source=\"upstream\",consistency=\"serializable\"") \
    X(SUM, reads.stale, stale, JSON, "belfry_reads_stale_total", COUNTER, \
      "Reads answered by the replica while the tier was stale: serializable ones.") \
    X(SUM, reads.failed, failed, JSON, "belfry_reads_failed_total", COUNTER, \
      "Range requests that the tier answered with an error: no right, no upstream, a revision of the future.") \
    X(SUM, reads.parts, parts, JSON, "belfry_reads_parts_total", COUNTER, \
      "Parts of answers that were too large for one, and of streamed ones.")

#define NUMBERS_PERMIT(X) \
    X(SUM, permit.asked, asked, JSON, "belfry_permissions_asked_total", COUNTER, \
      "Questions to upstream what a client may read, each about many ranges.") \
    X(SUM, permit.shared, shared, JSON, "belfry_permissions_shared_total", COUNTER, \
      "Questions that were not sent to upstream, because another worker had the answer.") \
    X(SUM, permit.granted, granted, JSON, NULL) \
    X(SUM, permit.refused, refused, JSON, NULL) \
    X(SUM, permit.unavailable, unavailable, JSON, "belfry_permissions_unavailable_total", COUNTER, \
      "Questions about permissions that upstream did not answer.") \
    X(SUM, permit.status_calls, status_calls, JSON, "belfry_auth_asked_total", COUNTER, \
      "Questions to upstream whether auth is on.") \
    X(SUM, permit.rights.bearers, tokens, JSON, "belfry_rights_tokens", GAUGE, \
      "Tokens for which answers of upstream are kept, added up over workers.") \
    X(SUM, permit.rights.warrants, ranges, JSON, "belfry_rights_ranges", GAUGE, \
      "Ranges of these tokens for which answers are kept.") \
    X(SUM, permit.rights.paused, paused, JSON, "belfry_rights_paused", GAUGE, \
      "Tokens whose streams are paused, because upstream has not confirmed their rights in time.") \
    X(SUM, permit.rights.pauses, pauses, JSON, "belfry_rights_pauses_total", COUNTER, "How often that happened.") \
    X(SUM, permit.rights.bytes, -, HIDDEN, "belfry_memory_bytes", GAUGE, NULL, "pool=\"rights\"") \
    X(SUM, permit.rights.allowed, -, HIDDEN, "belfry_rights_answers_total", COUNTER, \
      "Answers of upstream to questions what a client may read.", "answer=\"allowed\"") \
    X(SUM, permit.rights.forbidden, -, HIDDEN, "belfry_rights_answers_total", COUNTER, NULL, "answer=\"forbidden\"") \
    X(SUM, permit.rights.bad_tokens, -, HIDDEN, "belfry_rights_answers_total", COUNTER, NULL, "answer=\"bad_token\"") \
    X(SUM, permit.rights.old_tokens, -, HIDDEN, "belfry_rights_answers_total", COUNTER, NULL, "answer=\"old_token\"") \
    X(SUM, permit.rights.silent, -, HIDDEN, "belfry_rights_answers_total", COUNTER, NULL, "answer=\"silence\"") \
    X(SUM, permit.rights.unreachable, -, HIDDEN, "belfry_rights_answers_total", COUNTER, NULL, "answer=\"none\"")

#define NUMBERS_VOUCH(X) \
    X(SUM, vouch.users, users, JSON, "belfry_certificate_users", GAUGE, \
      "Users of client certificates for whom a signed token is kept, added up over workers.") \
    X(SUM, vouch.signed_tokens, signed_tokens, JSON, "belfry_tokens_signed_total", COUNTER, \
      "Tokens signed for users of client certificates.") \
    X(SUM, vouch.log_ins, log_ins, JSON, "belfry_tier_log_ins_total", COUNTER, \
      "Log-ins of the tier that were to tell the revision of upstream's auth store.") \
    X(SUM, vouch.failed_log_ins, failed_log_ins, JSON, "belfry_tier_log_ins_failed_total", COUNTER, \
      "Log-ins of these that failed, or whose token was no JWT.")

#define NUMBERS_UPLINK(X) \
    X(SUM, uplink.calls, calls, JSON, NULL) \
    X(SUM, uplink.connections, connections, JSON, "belfry_uplink_connections", GAUGE, \
      "Connections to upstream for relayed calls.") \
    X(SUM, uplink.opened, opened, JSON, NULL) \
    X(SUM, uplink.connects, connects, JSON, "belfry_uplink_connects_total", COUNTER, \
      "Connections made to upstream for relayed calls.") \
    X(SUM, uplink.losses, losses, JSON, "belfry_uplink_losses_total", COUNTER, \
      "Connections to upstream for relayed calls that were lost.") \
    X(SUM, uplink.unavailable, unavailable, JSON, NULL)

#define NUMBERS_KUBE(X) \
    X(SUM, kube.watches, watches, JSON, "belfry_streams", GAUGE, NULL, "dialect=\"kube\"") \
    X(SUM, kube.held, held, JSON, "belfry_kube_held", GAUGE, \
      "Requests for objects that wait for the tier to become ready.") \
    X(SUM, kube.opened, opened, JSON, "belfry_streams_opened_total", COUNTER, NULL, "dialect=\"kube\"") \
    X(SUM, kube.lines, lines, JSON, "belfry_kube_lines_total", COUNTER, \
      "Lines with changes sent to watches of objects.") \
    X(SUM, kube.bookmarks, bookmarks, JSON, "belfry_kube_bookmarks_total", COUNTER, \
      "Bookmarks sent to watches of objects.") \
    X(SUM, kube.expired, expired, JSON, "belfry_kube_expired_total", COUNTER, \
      "Watches and lists that were told that their resource version is too old.", "verb=\"watch\"") \
    X(SUM, kube.refused, refused, JSON, "belfry_kube_refused_total", COUNTER, \
      "Requests for objects that were refused, by cause.", "reason=\"permission\"") \
    X(SUM, kube.too_many, too_many, JSON, "belfry_kube_refused_total", COUNTER, NULL, "reason=\"busy\"") \
    X(SUM, kube.undecodable, undecodable, JSON, "belfry_kube_undecodable_total", COUNTER, \
      "Values that are not objects; they are treated as absent.", "verb=\"watch\"") \
    X(SUM, kube.skipped, skipped, JSON, "belfry_kube_skipped_total", COUNTER, \
      "Keys under a resource's prefix that do not name an object.", "verb=\"watch\"") \
    X(SUM, kube.forms_made, forms_made, JSON, "belfry_kube_decoded_total", COUNTER, \
      "Changes of objects that were decoded for watches.") \
    X(SUM, kube.forms_shared, forms_shared, JSON, "belfry_kube_shared_total", COUNTER, \
      "Times that a watch used a change that was already decoded.") \
    X(SUM, kube.forms_bytes, forms_bytes, JSON, "belfry_memory_bytes", GAUGE, NULL, "pool=\"kube_forms\"") \
    X(SUM, kube.bytes, bytes, JSON, "belfry_memory_bytes", GAUGE, NULL, "pool=\"kube_watches\"") \
    X(SUM, kube.slow, slow, JSON, "belfry_kube_slow_total", COUNTER, \
      "Watches ended in the middle of a line that the client did not read, while memory was over the limit.") \
    X(SUM, kube.expelled, expelled, JSON, "belfry_watches_expelled_total", COUNTER, NULL, "dialect=\"kube\"")

#define NUMBERS_LISTS(X) \
    X(SUM, kube_lists.active, active, JSON, "belfry_kube_lists", GAUGE, \
      "Lists and initial states of watches under way.", "state=\"active\"") \
    X(SUM, kube_lists.waiting, waiting, JSON, "belfry_kube_lists", GAUGE, NULL, "state=\"waiting\"") \
    X(SUM, kube_lists.lists, lists, JSON, "belfry_kube_reads_total", COUNTER, \
      "Reads of objects answered; the initial state of a watch counts as a list.", "verb=\"list\"") \
    X(SUM, kube_lists.gets, gets, JSON, "belfry_kube_reads_total", COUNTER, NULL, "verb=\"get\"") \
    X(SUM, kube_lists.objects, objects, JSON, "belfry_kube_objects_total", COUNTER, \
      "Objects in the answers to reads.") \
    X(SUM, kube_lists.bytes, bytes, JSON, "belfry_kube_read_bytes_total", COUNTER, \
      "Bytes of the answers to reads of objects.") \
    X(SUM, kube_lists.expired, expired, JSON, "belfry_kube_expired_total", COUNTER, NULL, "verb=\"list\"") \
    X(SUM, kube_lists.timeouts, timeouts, JSON, "belfry_kube_timeouts_total", COUNTER, \
      "Reads that waited too long for a revision that the tier did not have.") \
    X(SUM, kube_lists.undecodable, undecodable, JSON, "belfry_kube_undecodable_total", COUNTER, NULL, "verb=\"list\"") \
    X(SUM, kube_lists.skipped, skipped, JSON, "belfry_kube_skipped_total", COUNTER, NULL, "verb=\"list\"")

#define NUMBERS_FENCE(X) \
    X(SUM, fence.asked, asked, JSON, "belfry_fence_asked_total", COUNTER, \
      "Reads that needed upstream's current revision.") \
    X(SUM, fence.questions, questions, JSON, "belfry_fence_questions_total", COUNTER, \
      "Requests to upstream for its current revision.") \
    X(SUM, fence.failed, failed, JSON, "belfry_fence_failed_total", COUNTER, \
      "Reads that did not learn upstream's current revision.")

#define NUMBERS_ROUTE(X) \
    X(SUM, route.refused_hosts, -, HIDDEN, "belfry_rejected_total", COUNTER, NULL, "reason=\"host\"") \
    X(SUM, route.refused_pages, -, HIDDEN, "belfry_rejected_total", COUNTER, NULL, "reason=\"cross_site\"") \
    X(SUM, route.refused_http1, -, HIDDEN, "belfry_rejected_total", COUNTER, NULL, "reason=\"grpc_over_http1\"") \
    X(SUM, route.late, -, HIDDEN, "belfry_rejected_total", COUNTER, NULL, "reason=\"unfinished_health\"") \
    X(SUM, route.refused_users, -, HIDDEN, "belfry_rejected_total", COUNTER, NULL, "reason=\"belfry_user\"")

#define NUMBERS_GATEWAY(X) \
    X(SUM, gateway.calls, -, HIDDEN, "belfry_gateway_calls_total", COUNTER, "Calls of the JSON gateway.") \
    X(SUM, gateway.refused, -, HIDDEN, "belfry_rejected_total", COUNTER, NULL, "reason=\"malformed_json\"")

#define NUMBERS_SSE(X) \
    X(SUM, sse.streams, streams, JSON, "belfry_streams", GAUGE, NULL, "dialect=\"sse\"") \
    X(SUM, sse.opened, opened, JSON, "belfry_streams_opened_total", COUNTER, NULL, "dialect=\"sse\"") \
    X(SUM, sse.messages, messages, JSON, "belfry_sse_messages_total", COUNTER, \
      "Messages with changes sent as Server-Sent Events.") \
    X(SUM, sse.snapshots, snapshots, JSON, "belfry_sse_snapshots_total", COUNTER, \
      "States sent to streams of Server-Sent Events.") \
    X(SUM, sse.resets, resets, JSON, "belfry_sse_resets_total", COUNTER, \
      "Streams of Server-Sent Events that were told that their place is lost.") \
    X(SUM, sse.later, later, JSON, "belfry_sse_later_total", COUNTER, \
      "Streams of Server-Sent Events that were told to come again: not ready, draining, or no room.") \
    X(SUM, sse.refused, refused, JSON, "belfry_sse_refused_total", COUNTER, \
      "Streams of Server-Sent Events that were refused for lack of rights.") \
    X(SUM, sse.expelled, expelled, JSON, "belfry_watches_expelled_total", COUNTER, NULL, "dialect=\"sse\"") \
    X(SUM, sse.slow, slow, JSON, "belfry_sse_slow_total", COUNTER, \
      "Streams ended inside a message that the client did not read, while memory was over the limit.") \
    X(SUM, sse.forms_made, forms_made, JSON, "belfry_sse_made_total", COUNTER, \
      "Messages of changes that were made.") \
    X(SUM, sse.forms_shared, forms_shared, JSON, "belfry_sse_shared_total", COUNTER, \
      "Times that a stream used a message that was already made.") \
    X(SUM, sse.bytes, bytes, JSON, "belfry_memory_bytes", GAUGE, NULL, "pool=\"sse_streams\"")

/* In front of Kubernetes' API. The places of kfront.relay.passed are those of enum kfront_kind. */
#define NUMBERS_REVIEWS(X) \
    X(SUM, reviews.token_reviews, token_reviews, JSON, "belfry_reviews_total", COUNTER, \
      "Questions to the API server about clients, by kind.", "kind=\"token\"") \
    X(SUM, reviews.access_reviews, access_reviews, JSON, "belfry_reviews_total", COUNTER, NULL, "kind=\"access\"") \
    X(SUM, reviews.bad_tokens, bad_tokens, JSON, "belfry_reviews_refused_total", COUNTER, \
      "Reviews that refused a client, by why.", "why=\"token\"") \
    X(SUM, reviews.forbidden, forbidden, JSON, "belfry_reviews_refused_total", COUNTER, NULL, "why=\"forbidden\"") \
    X(SUM, reviews.failed, failed, JSON, "belfry_reviews_failed_total", COUNTER, \
      "Reviews without an answer that says anything.") \
    X(SUM, reviews.under_way, under_way, JSON, "belfry_reviews_under_way", GAUGE, "Reviews under way.") \
    X(SUM, reviews.users, users, JSON, "belfry_reviews_users", GAUGE, "Users that are known by their tokens.")

#define NUMBERS_KFRONT(X) \
    X(SUM, kfront.answered, answered, JSON, "belfry_kube_answered_total", COUNTER, \
      "Requests of Kubernetes' API that were answered from what the tier follows.") \
    X(SUM, kfront.relay.running, running, JSON, "belfry_kube_relays", GAUGE, \
      "Requests under way that the API server answers.") \
    X(SUM, kfront.relay.passed[0], write, JSON, "belfry_kube_relayed_total", COUNTER, \
      "Requests that were passed on to the API server, by kind.", "kind=\"write\"") \
    X(SUM, kfront.relay.passed[1], consistent, JSON, "belfry_kube_relayed_total", COUNTER, NULL, \
      "kind=\"consistent\"") \
    X(SUM, kfront.relay.passed[2], form, JSON, "belfry_kube_relayed_total", COUNTER, NULL, "kind=\"form\"") \
    X(SUM, kfront.relay.passed[3], document, JSON, "belfry_kube_relayed_total", COUNTER, NULL, \
      "kind=\"document\"") \
    X(SUM, kfront.relay.passed[4], other, JSON, "belfry_kube_relayed_total", COUNTER, NULL, "kind=\"other\"") \
    X(SUM, kfront.relay.passed[5], watch, JSON, "belfry_kube_relayed_total", COUNTER, NULL, "kind=\"watch\"") \
    X(SUM, kfront.relay.copies_sent, copies_sent, JSON, "belfry_kube_copies_sent_total", COUNTER, \
      "Documents of discovery and OpenAPI that were sent as copies, after the API server had answered 304.") \
    X(SUM, kfront.relay.documents, documents, JSON, "belfry_kube_documents", GAUGE, \
      "Documents of discovery and OpenAPI of which there is a copy.") \
    X(SUM, kfront.relay.document_bytes, -, HIDDEN, "belfry_memory_bytes", GAUGE, NULL, "pool=\"kube_documents\"") \
    X(SUM, kfront.relay.held_bytes, -, HIDDEN, "belfry_memory_bytes", GAUGE, NULL, "pool=\"kube_relays\"") \
    X(SUM, kfront.relay.held_peak, -, HIDDEN, "belfry_memory_peak_bytes", GAUGE, NULL, "pool=\"kube_relays\"") \
    X(SUM, kfront.relay.repeated, repeated, JSON, "belfry_kube_relays_repeated_total", COUNTER, \
      "Requests that were sent again because an API server had certainly not processed them.") \
    X(SUM, kfront.relay.failed, failed, JSON, "belfry_kube_relays_failed_total", COUNTER, \
      "Requests that the API server did not answer, by what became of them.", "end=\"status\"") \
    X(SUM, kfront.relay.cut, cut, JSON, "belfry_kube_relays_failed_total", COUNTER, NULL, "end=\"cut\"") \
    X(SUM, kfront.relay.bytes_up, bytes_up, JSON, "belfry_kube_relayed_up_bytes_total", COUNTER, \
      "Bytes of bodies passed on to the API server.") \
    X(SUM, kfront.relay.bytes_down, bytes_down, JSON, "belfry_kube_relayed_down_bytes_total", COUNTER, \
      "Bytes of bodies passed on to clients.") \
    X(SUM, kfront.refused_upgrades, refused_upgrades, JSON, "belfry_rejected_total", COUNTER, NULL, \
      "reason=\"kube_upgrade\"") \
    X(SUM, kfront.refused_certificates, -, HIDDEN, "belfry_rejected_total", COUNTER, NULL, \
      "reason=\"kube_certificate\"") \
    X(SUM, kfront.refused_impersonations, -, HIDDEN, "belfry_rejected_total", COUNTER, NULL, \
      "reason=\"kube_impersonation\"") \
    X(SUM, kfront.refused_circles, -, HIDDEN, "belfry_rejected_total", COUNTER, NULL, "reason=\"kube_circle\"") \
    X(SUM, kfront.refused, -, HIDDEN, "belfry_rejected_total", COUNTER, NULL, "reason=\"kube_front\"") \
    X(SUM, kfront.relay.refused, -, HIDDEN, "belfry_rejected_total", COUNTER, NULL, "reason=\"kube_relay\"") \
    X(SUM, kfront.relay.over_memory, -, HIDDEN, "belfry_rejected_total", COUNTER, NULL, \
      "reason=\"kube_relay_memory\"") \
    X(SUM, kfront.relay.late, -, HIDDEN, "belfry_rejected_total", COUNTER, NULL, "reason=\"kube_unfinished\"") \
    X(SUM, kfront.relay.unread, -, HIDDEN, "belfry_rejected_total", COUNTER, NULL, "reason=\"kube_unread\"")

#define NUMBERS_PARTS(P) \
    P(UPSTREAM) P(FOLLOWER) P(REPLICA) P(LOG) P(LISTENERS) P(TIER) P(WORKER) P(CORE) P(WATCH) \
    P(INBOUND) P(RELAY) P(READS) P(PERMIT) P(VOUCH) P(UPLINK) P(KUBE) P(LISTS) P(FENCE) P(ROUTE) P(GATEWAY) P(SSE) \
    P(KFRONT) P(REVIEWS)
/* clang-format on */

#endif
