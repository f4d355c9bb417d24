/* tests/sim/cover.h
 *
 * cover: which paths a run has taken, and how often. One never taken in a long run means that nothing was proven of it.
 *
 * Thread: the one thread of the simulator.
 */
#ifndef BELFRY_SIM_COVER_H
#define BELFRY_SIM_COVER_H

#include <stdint.h>
#include <stdio.h>

#define COVER_TABLE(X)                                                                                                 \
    X(resume_log, "resume from the log")                                                                               \
    X(resume_history, "resume from history")                                                                           \
    X(resume_backfill, "resume from a backfill")                                                                       \
    X(resume_elsewhere, "resume on another tier or member")                                                            \
    X(resync_compacted, "resync: compacted over a tier's head")                                                        \
    X(rewind, "resync: the past was rewritten")                                                                        \
    X(breach, "an event did not fit the state it replaces")                                                            \
    X(repeat, "key changed again in its revision")                                                                     \
    X(lag, "behind, judged to be lag")                                                                                 \
    X(overlap, "overlap compared")                                                                                     \
    X(replay, "staggered replay")                                                                                      \
    X(listing, "listing")                                                                                              \
    X(page_again, "page asked for again")                                                                              \
    X(stale, "tier stale")                                                                                             \
    X(gap, "gap of the clock noticed")                                                                                 \
    X(cut, "cut seen by a worker")                                                                                     \
    X(park, "stream parked")                                                                                           \
    X(unpark, "stream unparked")                                                                                       \
    X(handover, "hand-over to riding")                                                                                 \
    X(fragment, "fragments")                                                                                           \
    X(extent, "huge revision")                                                                                         \
    X(solo, "watcher alone with a huge revision")                                                                      \
    X(stalled, "watcher stalled on a bus")                                                                             \
    X(broken, "stream ended inside a revision that is gone")                                                           \
    X(overslept, "worker out of the log")                                                                              \
    X(packed, "several revisions in one response")                                                                     \
    X(compacted, "compacted told")                                                                                     \
    X(future, "start in the future")                                                                                   \
    X(rest_finished, "rest of a half-sent response finished after cancel")                                             \
    X(progress_manual, "manual progress")                                                                              \
    X(progress_periodic, "periodic progress")                                                                          \
    X(start_warm, "warm start")                                                                                        \
    X(start_cold, "cold start")                                                                                        \
    X(start_lost, "start after a lost page cache")                                                                     \
    X(lines, "line given")                                                                                             \
    X(lines_pinned, "line given to one who has pinned a value")                                                        \
    X(lines_unwanted, "event without the pinned value asked for, in a huge revision")                                  \
    X(lines_lost, "line that lacks what was before")                                                                   \
    X(lines_resumed, "stream of lines resumed from a revision it was shown")                                           \
    X(lines_resumed_inside, "stream of lines resumed from a revision it has a part of")                                \
    X(gateway, "bytes of a stream through the JSON gateway")                                                           \
    X(pages, "message for a revision")                                                                                 \
    X(pages_several, "watcher of several ranges")                                                                      \
    X(pages_open, "message that is not the last of its revision")                                                      \
    X(pages_last_empty, "last message of a revision without an event")                                                 \
    X(lines_ended, "stream of lines ended behind its last line")                                                       \
    X(refused, "create refused")                                                                                       \
    X(preempted, "thread preempted inside a turn")                                                                     \
    X(backfill_canceled, "backfill given up, to be asked for again")                                                   \
    X(backfill_compacted, "backfill that upstream has compacted")                                                      \
    X(rights_granted, "right granted")                                                                                 \
    X(rights_refused, "create refused for want of a right")                                                            \
    X(rights_silent, "create refused: its token was not answered")                                                     \
    X(rights_unknown, "create that upstream could not be asked about")                                                 \
    X(rights_paused, "stream paused: its right is in doubt")                                                           \
    X(rights_resumed, "stream resumed: its right is renewed")                                                          \
    X(rights_expelled, "watch canceled: its right was revoked")                                                        \
    X(rights_expelled_inside, "stream ended: a right was revoked inside a message, or of lines")                       \
    X(rights_forgotten, "stream ended: its token is forgotten")                                                        \
    X(rights_old, "stream ended: its token is old")                                                                    \
    X(rights_claimed, "watch claimed that ran before auth was on")                                                     \
    X(rights_halved, "forbidden question to be halved")                                                                \
    X(rights_aged, "answer of a tier above, with its age")                                                             \
    X(rights_elsewhere, "another member asked about rights")                                                           \
    X(read_linearizable, "linearizable read answered by a replica")                                                    \
    X(read_serializable, "serializable read answered by a replica")                                                    \
    X(read_stale, "serializable read answered while stale")                                                            \
    X(read_relayed, "read relayed")                                                                                    \
    X(read_failed, "read that a tier refused")                                                                         \
    X(read_pinned, "page at a pinned revision")                                                                        \
    X(read_counted, "count of a range")                                                                                \
    X(read_of_new_past, "linearizable read while the cluster was restored")                                            \
    X(point_asked, "upstream asked how far it is")                                                                     \
    X(point_failed, "upstream not told how far it is")                                                                 \
    X(auth_grant, "auth: right granted")                                                                               \
    X(auth_revoke, "auth: right revoked")                                                                              \
    X(auth_change_another, "auth: somebody else's role changed")                                                       \
    X(auth_delete_user, "auth: user deleted")                                                                          \
    X(auth_forget_token, "auth: token forgotten")                                                                      \
    X(auth_turn, "auth: turned on or off")                                                                             \
    X(auth_on, "auth: turned on")                                                                                      \
    X(auth_off, "auth: turned off")                                                                                    \
    X(auth_go_away, "auth: upstream cannot be asked")                                                                  \
    X(auth_slow_down, "auth: answers are late")                                                                        \
    X(auth_revoke_and_go_away, "auth: right revoked, and upstream cannot be asked")                                    \
    X(auth_revoke_behind_answer, "auth: right revoked behind a late answer")                                           \
    X(auth_turn_and_go_away, "auth: turned, and upstream cannot be asked")                                             \
    X(fault_break_links, "fault: links break")                                                                         \
    X(fault_silence_links, "fault: links fall silent")                                                                 \
    X(fault_stop_member, "fault: member stops")                                                                        \
    X(fault_cut_off_member, "fault: member cut off")                                                                   \
    X(fault_lose_quorum, "fault: no quorum")                                                                           \
    X(fault_go_to_one_behind, "fault: all go to a member that is behind")                                              \
    X(fault_compact_behind, "fault: compaction of old revisions")                                                      \
    X(fault_compact_all, "fault: compaction near the head")                                                            \
    X(fault_restore, "fault: restored from a backup")                                                                  \
    X(fault_kill_tier, "fault: tier killed")                                                                           \
    X(fault_power_off_tier, "fault: tier loses power")                                                                 \
    X(restore_behind_proxy, "connection kept by a proxy while the cluster behind it was restored")                     \
    X(fault_restore_behind_tier, "fault: restored while a tier is down")                                               \
    X(fault_discard_tier, "fault: tier loses its folder")                                                              \
    X(fault_oversleep, "fault: worker oversleeps")                                                                     \
    X(fault_pause_tier, "fault: tier stopped by a signal")                                                             \
    X(fault_fail_disk, "fault: writes fail")                                                                           \
    X(fault_damage_replica, "fault: replica damaged")                                                                  \
    X(kube_listing, "kube: listed")                                                                                    \
    X(kube_burst, "kube: more changes than a cache keeps")                                                             \
    X(kube_debt, "kube: objects deleted since an audit")                                                               \
    X(kube_cache_gone, "kube: list of a cache whose past is gone")                                                     \
    X(kube_overlap, "kube: past proven by an overlap")                                                                 \
    X(kube_audit, "kube: past proven by an audit")                                                                     \
    X(kube_link, "kube: past proven by the link")                                                                      \
    X(kube_judged, "kube: etcd asked whether the caches lag")                                                          \
    X(kube_probe, "kube: consistent version asked for")                                                                \
    X(kube_move, "kube: another server asked")                                                                         \
    X(kube_expired, "kube: listed anew after 410")                                                                     \
    X(kube_rewritten, "kube: listed anew, another past")                                                               \
    X(kube_stale, "kube: stale")                                                                                       \
    X(kube_restored, "kube: etcd restored from a backup")                                                              \
    X(kube_server_restarted, "kube: server restarted")                                                                 \
    X(kube_server_read_anew, "kube: server read its etcd anew without a restart")                                      \
    X(kube_server_flaps, "kube: server ended a watch soon after it had opened")                                        \
    X(kube_version_lost, "kube: etcd restored during a list, and its version moved past the follower's")               \
    X(kube_http1, "kube: connections had one request at a time")                                                       \
    X(kube_slow, "kube: lists took seconds")                                                                           \
    X(kube_together, "kube: one version deleted several objects")                                                      \
    X(kube_torn, "kube: a watch broke between deletions of one version")                                               \
    X(kube_link_left, "kube: server asked its clients to leave their connections")                                     \
    X(kube_listed_beside, "kube: one server was in a new past before the others")                                      \
    X(kube_restored_behind_changes, "kube: etcd restored behind the newest object of the follower")                    \
    X(kube_balanced, "kube: follower knew one address of several servers")                                             \
    X(kube_server_stopped, "kube: server stopped by a signal")                                                         \
    X(kube_cache_lags, "kube: cache of a server lags")                                                                 \
    X(kube_follower_killed, "kube: follower killed")                                                                   \
    X(kube_store_damaged, "kube: store damaged")                                                                       \
    X(kube_caches_apart, "kube: servers began at different versions of a quiet resource")                              \
    X(kube_older, "kube: past proven by an older list")                                                                \
    X(kube_pulse, "kube: another follower heard of a server")                                                          \
    X(kube_stream, "kube: listed by initial events")                                                                   \
    X(kube_fresh, "kube: shown to have what etcd has")                                                                 \
    X(kube_fresh_list, "kube: shown by a list of versions")                                                            \
    X(kube_unproven, "kube: not shown to have what etcd has")

#define COVER_ENUM(name, what) COVER_##name,
enum cover { COVER_TABLE(COVER_ENUM) COVER_END_ };

extern uint64_t cover_counts[COVER_END_];

#define COVER(name)       (cover_counts[COVER_##name]++)
#define COVER_BY(name, n) (cover_counts[COVER_##name] += (n))

const char *cover_what(enum cover path);

#endif
