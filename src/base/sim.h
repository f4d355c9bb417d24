/* src/base/sim.h
 *
 * sim: the simulator's hooks in the machines. In other builds both macros do nothing.
 *
 * BELFRY_POINT(name) marks a place where another thread of the real program could run: every atomic of the log, and
 * the loops of a fan-out. The simulator, which has one thread, switches to another actor there.
 * BELFRY_MUTANT(name) is false, except for the one seeded bug that a run of the simulator has enabled, to prove that
 * the simulator finds it; the body of a larger one is in tests/sim. Only objects built for the simulator (BELFRY_SIM)
 * contain mutants; installed programs do not.
 *
 * Thread: any.
 */
#ifndef BELFRY_BASE_SIM_H
#define BELFRY_BASE_SIM_H

/* name, description of the bug */
#define BELFRY_MUTANT_TABLE(X)                                                                                         \
    X(handover_by_head, "hand-over compares with the shared head")                                                     \
    X(created_by_head, "created reports P, but a start of 0 means the shared head")                                    \
    X(oldest_from_earlier, "oldest is checked in an earlier snapshot than the rows")                                   \
    X(oldest_not_moved, "oldest is not moved in the transaction that trims")                                           \
    X(backfill_by_header, "backfill is done by header.revision of an event response")                                  \
    X(backfill_by_created, "backfill is done by the revision of created")                                              \
    X(behind_by_serializable, "behind is judged by a serializable header")                                             \
    X(no_overlap_check, "events at the resumed revision are not compared")                                             \
    X(no_version_check, "events are not checked against the state they replace")                                       \
    X(progress_from_p, "progress reports the worker's position instead of the stream's")                               \
    X(progress_in_fragment, "progress may come between the fragments of a response")                                   \
    X(stale_progress, "a stale tier answers progress")                                                                 \
    X(free_early, "batches are freed before every worker has ended its turn")                                          \
    X(overslept_jumps, "a worker that fell out of the log continues at its first batch")                               \
    X(uncommitted_evicted, "a batch leaves the log before it is committed")                                            \
    X(rest_dropped, "the rest of a half-sent response is dropped when its watcher is cancelled")                       \
    X(fragments_kept, "partial fragments are applied after a reconnect")                                               \
    X(timer_first, "after a pause timers are judged before sockets are read")                                          \
    X(prev_from_state, "the previous value is taken from the current state")                                           \
    X(long_key_cut, "a long key is cut to what fits")                                                                  \
    X(event_after_cancel, "an event follows canceled")                                                                 \
    X(event_before_created, "an event precedes created")                                                               \
    X(revision_split, "a response ends inside a revision")                                                             \
    X(stalled_moves_on, "a stalled watcher continues after the revision that it did not receive")                      \
    X(mid_revision_lost, "a stream that parks inside a revision continues after it")                                   \
    X(future_ignored, "a watcher with a start in the future receives earlier events")                                  \
    X(cut_spares_riders, "a rewritten past cancels only watchers that are catching up")                                \
    X(snapshot_at_head, "a listing counts as at the newest page's revision before the watch has passed it")            \
    X(marker_ignored, "a replica from before a power loss is opened warm")                                             \
    X(compacted_guessed, "compacted is sent for revisions that only the window has lost")                              \
    X(pin_by_new_value, "a watcher that pins a value is not found by the previous value")                              \
    X(line_restarts, "the rest of a line begins at its start")                                                         \
    X(line_again, "a stream of lines parked inside a revision begins it again")                                        \
    X(line_without_prev, "a line that cannot be written is omitted, and its watcher continues")                        \
    X(gateway_carry_lost, "bytes that do not fill a group of base64 are lost where a piece of a message ends")         \
    X(gateway_number_restarts, "a number that comes in two pieces begins with the second")                             \
    X(several_found_twice, "a key that two ranges of a watcher have is found for each of them")                        \
    X(several_last_lost, "of several ranges the last one is not watched")                                              \
    X(page_closed_early, "a row of a revision in slices counts as its last")                                           \
    X(page_left_open, "the end of a revision in slices is not told if its last row is not wanted")                     \
    X(page_all_used, "events of a revision that did not fit into a message are passed")                                \
    X(page_place_lost, "the place inside a revision is that of the first event of the last message")                   \
    X(repeat_prev, "a key that is deleted in the revision that put it has that value as its previous one")             \
    X(line_shown_before, "lines of a transaction, but for the last, carry the revision before")                        \
    X(resumed_behind, "a stream of lines that resumes from a revision begins after it")                                \
    X(resumed_by_slice, "a client that resumes from a huge revision counts as having it if a slice has one event")     \
    X(resumed_given_one, "a client that resumes from a revision of one event receives it again")                       \
    X(resumed_told_below, "a client that resumes from a revision above P receives progress below it")                  \
    X(reads_point_reused, "a read uses the revision that an earlier read has asked for")                               \
    X(reads_joins_sent, "a read joins a question that was already sent")                                               \
    X(reads_sent_untold, "a question is sent and those who ask are not told")                                          \
    X(reads_behind, "a read is answered although the replica is behind the revision that upstream told")               \
    X(reads_by_head, "a read is answered when the log has the revision, and the replica does not")                     \
    X(reads_below_accepted, "an answer from below what the tier had when it asked is good")                            \
    X(reads_before_overlap, "upstream is asked before it has shown that our past is its own")                          \
    X(reads_failed_accepted, "a question that failed has the answer of the one before")                                \
    X(reads_lost_waited_for, "a revision that was told on a lost connection is waited for")                            \
    X(reads_stale_unasked, "a stale tier answers a linearizable read without asking")                                  \
    X(reads_pinned_unasked, "a linearizable read at a revision is answered without asking")                            \
    X(reads_term_of_store, "an answer has the term of the newest revision in the replica")                             \
    X(reads_page_at_head, "a page at a revision has the rows of now")                                                  \
    X(reads_page_cut, "a page that is full lacks its last row")                                                        \
    X(reads_count_of_page, "the count is that of the rows in the page")                                                \
    X(reads_more_untold, "a page that leaves rows does not say so")                                                    \
    X(rights_from_answer, "a right ends a period after its answer instead of its question")                            \
    X(rights_age_ignored, "the age of an answer of a tier above is ignored")                                           \
    X(rights_not_compared, "the end of a right is not compared with the time before a stream is written to")           \
    X(rights_batch_denied, "a forbidden question denies all of its ranges")                                            \
    X(rights_denied_untold, "watches of a range that is denied are not told")                                          \
    X(rights_old_denies, "an old token counts as denied")                                                              \
    X(rights_old_granted, "an old token counts as allowed")                                                            \
    X(rights_silence_granted, "a question without an answer counts as allowed")                                        \
    X(rights_unreachable_ends, "streams end when upstream cannot be asked")                                            \
    X(rights_resumed_untold, "a stream is not told that its right is renewed")                                         \
    X(rights_kind_ignored, "a token has the rights of a user whose name it spells")                                    \
    X(rights_renewed_early, "rights are renewed after a fifth of a period, time and again")                            \
    X(auth_on_for_new_alone, "auth that is found on does not pause watches that run")                                  \
    X(auth_off_for_ever, "the answer that auth is off is used for ever")                                               \
    X(kube_no_overlap, "a resource is followed again from its version, without a proof of its past")                   \
    X(kube_overlap_unchecked, "the overlap of a resource is not compared")                                             \
    X(kube_audit_unchecked, "items of an audit that contradict the state are accepted")                                \
    X(kube_missing_ignored, "objects that an audit does not find need not be deleted")                                 \
    X(kube_uid_ignored, "an object with another uid is the same object")                                               \
    X(kube_behind_ignored, "a consistent list behind our version is ignored")                                          \
    X(kube_lag_is_another_past, "a bookmark behind our version is another past")                                       \
    X(kube_link_ignored, "a watch continues a list or an audit of another connection")                                 \
    X(kube_gap_ignored, "the newest object of a list proves the versions after it, too")                               \
    X(kube_same_version_spares, "a list at our version that lacks an object of ours cuts no watcher")                  \
    X(kube_end_proves, "a watch that the server ended is continued without a proof")                                   \
    X(kube_ends_unpaced, "a server that ends every watch is asked again immediately")                                  \
    X(kube_expired_lists_at_once, "410 of one server lists anew, without asking the others")                           \
    X(kube_another_past_spares, "after another past only watchers that are behind are told")                           \
    X(kube_cache_unchecked, "a list is adopted from a cache whose past is gone")                                       \
    X(kube_bookmark_unproven, "a bookmark is taken while its past is not proven")                                      \
    X(kube_watch_behind_list, "the watch begins one version after the list")                                           \
    X(kube_never_stale, "a resource is never stale")                                                                   \
    X(kube_waits_forever, "a silent server is waited for")                                                             \
    X(kube_listing_waits, "a list of our version is waited for, although no cache may ever have it")                   \
    X(kube_deletes_apart, "deletions of one version are published one by one")                                         \
    X(kube_repeats_count, "deletions that a tier shows again are taken for new ones")                                  \
    X(kube_deletes_hasty, "deletions of one version are published before the sockets are read")                        \
    X(kube_stays_on_left_link, "a watch stays on a connection that takes no requests any more")                        \
    X(kube_older_unequal, "a cache that is behind us is used although it has other objects")                           \
    X(kube_older_from_head, "the watch of a cache that is behind us begins at our version")                            \
    X(kube_pulse_of_any, "what is heard of any server shows that the server of a watch is there")                      \
    X(kube_life_on_any_link, "an answer on another connection than the watch's counts as a sign of life")              \
    X(kube_initial_unheld, "events after the initial ones are lost before these are adopted")                          \
    X(kube_initial_unchecked, "initial events are adopted before etcd is asked")                                       \
    X(kube_fresh_joins_sent, "a question whether a resource is fresh joins a proof that was already sent")             \
    X(kube_fresh_by_probe, "a resource is fresh as soon as the version of etcd is known")                              \
    X(kube_fresh_by_count, "a resource is fresh if it has as many objects as etcd")                                    \
    X(kube_fresh_old_kept, "the version that a change replaces still counts when states are compared")                 \
    X(kube_fresh_list_added, "a list of versions adds to the one before")

#ifdef BELFRY_SIM
#define BELFRY_MUTANT_ENUM(name, what) BELFRY_MUTANT_##name,
enum belfry_mutant { BELFRY_MUTANT_none, BELFRY_MUTANT_TABLE(BELFRY_MUTANT_ENUM) BELFRY_MUTANT_END_ };
extern enum belfry_mutant belfry_mutant; /* enabled in this run */
void belfry_sim_point(const char *name); /* may switch to another actor and come back */
#define BELFRY_MUTANT(name) (belfry_mutant == BELFRY_MUTANT_##name)
#define BELFRY_POINT(name)  belfry_sim_point(name)
#else
#define BELFRY_MUTANT(name) 0
#define BELFRY_POINT(name)  ((void)0)
#endif

#endif
