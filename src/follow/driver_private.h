/* src/follow/driver_private.h: the driver, as its own files see it.
 *
 *     driver.c          creating, the turns of the loop, destroying
 *     driver_feed.c     what comes on the streams, and what the machines want of them
 *     driver_read.c     linearizable revisions and pages
 *     driver_status.c   how it stands, for people: standing, reason, log lines
 *     driver_about.c    who is above, and how far away
 *     driver_circle.c   endpoints that lead back to us
 *     driver_version.c  what is known against a version of etcd
 *
 * Thread: owner.
 */
#ifndef BELFRY_FOLLOW_DRIVER_PRIVATE_H
#define BELFRY_FOLLOW_DRIVER_PRIVATE_H

#include "base/buf.h"
#include "client/stream.h"
#include "follow/backfill.h"
#include "follow/driver.h"
#include "follow/hop.h"

#define DRIVER_SLOTS    (BACKFILL_SLOT + BACKFILLS)
#define DRIVER_WHY      240 /* bytes of a reason, without what we put before it */
#define DRIVER_WARNED   8   /* versions that are remembered as told */
#define DRIVER_GIVEN_UP 800 /* bytes of a sentence with a chain of tiers in it */

/* A watch that a machine wants, by its slot. */
struct driver_slot {
    struct driver *driver;
    struct belfry_mux_watch *watch; /* NULL: none */
    bool paused;                    /* the machine will say when it takes more */
    bool held;                      /* we gave it nothing: its server is not known yet, or memory was short */
};

/* Where the pages of a listing come from: they are of one past only while this is what it was. */
struct driver_source {
    uint64_t listing; /* upstream_stats.listings */
    uint64_t connects, losses;
};

/* Who is above. */
enum driver_above { DRIVER_ABOVE_UNKNOWN, DRIVER_ABOVE_TIER, DRIVER_ABOVE_ETCD };

struct driver_about {
    enum driver_above known;
    uint64_t known_ms; /* when it last answered */
    struct about them; /* TIER: its answer */
    struct hop hop;
    struct stamps stamps; /* ours */
    /* asking */
    uint64_t at_ms;                /* not before */
    struct belfry_grpc_call *call; /* NULL: nothing is asked */
    bool is_etcd;                  /* this connection's server: asked for its Status */
    uint64_t connects, past;       /* of what is measured */
    bool was_live;
    uint64_t since_ms; /* of the connection */
    uint64_t asked;    /* whom: the connection's number, and its endpoint's */
    size_t asked_at;
    uint64_t sent_ns, came_ns;
    bool understood; /* what came is in `answer` */
    struct about answer;
};

/* What log lines have said. */
struct driver_said {
    enum { SAID_NOTHING, SAID_LOOKING, SAID_UNREACHABLE, SAID_CONNECTED } link;
    char endpoint[BELFRY_ENDPOINT_TEXT];
    enum upstream_state state;
    bool stale, trouble, stuck;
    bool denied; /* until it follows */
    uint64_t rewritten;
    uint64_t listing_ms; /* when the progress of a listing is told next */
};

struct driver {
    /* fixed at creation */
    uv_loop_t *loop;
    struct driver_events events;
    void *user;
    const struct belfry_log *log;
    struct belfry_log parts_log, machine_log; /* of what we are made of: in our own words, or as debug lines */
    struct belfry_endpoint *endpoints;        /* owned */
    size_t n_endpoints, first_endpoint;       /* the first is that one of those given, and so on, round */
    bool *barred;                             /* owned; one for each endpoint: it leads back to us, or too far */
    char *scope;                              /* owned; key and range_end lie in it */
    struct belfry_bytes key, range_end;
    bool whole_scope;
    const char *name; /* of the tier; "": none */
    uint32_t dial_timeout_ms, command_timeout_ms;
    struct store *store;
    /* the machines */
    struct ingest *ingest;
    struct upstream *upstream;
    struct backfill *backfill;
    /* libbelfry's parts */
    struct belfry_rng rng;
    struct belfry_dns *dns;
    struct belfry_auth auth;
    struct belfry_identity identity;
    struct belfry_calls *calls;
    struct belfry_stream *live, *back;
    /* the loop */
    uv_timer_t timer;
    uv_prepare_t prepare;
    uv_check_t check;
    unsigned n_handles; /* that are not closed */
    bool polled;        /* the sockets were read since the last turn */
    bool poked;         /* there is more to do than timers know of */
    bool closing;
    /* watches and reads */
    struct driver_slot slots[DRIVER_SLOTS];
    struct belfry_wire_event *events_room; /* owned; of one revision */
    size_t events_cap;
    uint64_t unhold_ms;
    struct belfry_buf scratch; /* one request */
    struct driver_source source;
    bool asking_head;
    int64_t page_limit; /* pages were too large, or too slow, above this */
    /* backfills */
    struct belfry_buf refusals; /* of struct driver_refusal, not answered yet */
    size_t backfills;
    uint64_t backfills_done, backfill_revisions;
    /* what workers were told */
    int64_t told_head;
    uint64_t told_past;
    enum driver_standing told_standing;
    uint64_t told_barred;
    char told_reason[256], told_version[32];
    uint64_t cut_past; /* backfill was told */
    /* how it stands */
    enum driver_standing standing;
    bool been_ready; /* since the start */
    bool deaf;       /* upstream is not listened to, because nothing more can be held; or was not a moment ago */
    uint64_t hear_until_ms;
    int64_t upstream_revision;
    uint64_t lag_peak;
    uint64_t shown_past; /* of which it is */
    uint64_t heard_ms;   /* BELFRY_NEVER: never */
    uint64_t keys_listed, keys_listing;
    bool judged;                    /* the server of the live stream is good enough for our scope */
    char refusal[DRIVER_WHY];       /* it is not; "": it is, or is not known */
    char auth_why[DRIVER_WHY];      /* logging in failed; "": it did not */
    char watch_why[DRIVER_WHY];     /* the live watch was refused; "": it was not */
    char link_why[DRIVER_WHY];      /* the last connection of the live stream was lost */
    char list_why[DRIVER_WHY];      /* what upstream said when it listed */
    char given_up[DRIVER_GIVEN_UP]; /* following is pointless; "": it is not */
    struct driver_about about;
    char warned[DRIVER_WARNED][32]; /* versions */
    unsigned n_warned;
    struct driver_said said;
};

struct driver_refusal {
    uint64_t token;
    enum belfry_err err;
};

/* ---- driver_feed.c ---- */

enum belfry_mux_verdict driver_deliver(const struct belfry_mux_action *action, void *user);
void driver_created(struct belfry_mux_watch *watch, const struct belfry_wire_header *header, void *user);

/* Does what the machines want, until they want nothing. */
void driver_act(struct driver *driver, uint64_t now_ms);

/* Looks at the version of the live stream's server: what was held goes on, or its watches end. */
void driver_mind_server(struct driver *driver, uint64_t now_ms);

/* Upstream has shown this. */
void driver_saw(struct driver *driver, const struct belfry_wire_header *header);

/* ---- driver_read.c ---- */

void driver_read(struct driver *driver, const struct upstream_action *action, uint64_t now_ms);

/* In place of a progress that cannot be asked for: upstream's revision, which is as good if it is our head. Of the whole
 * scope only, where a head says that nothing below it is missing. */
void driver_ask_head(struct driver *driver, uint64_t now_ms);

/* ---- driver_status.c ---- */

void driver_note_standing(struct driver *driver);
bool driver_words_moved(struct driver *driver); /* reason or version, since it was last asked */
void driver_log_changes(struct driver *driver, uint64_t now_ms);
uint64_t driver_log_due(const struct driver *driver);
/* Upstream does not let the tier's own user read its scope, or wants a user; which commands mend that, once until it follows. */
bool driver_is_denied(enum belfry_err err, const char *why);
void driver_log_denied(struct driver *driver, const char *why);
void driver_log_machine(enum belfry_log_level level, const char *event, const char *text, void *user);
void driver_log_part(enum belfry_log_level level, const char *event, const char *text, void *user);

/* ---- driver_about.c ---- */

void driver_pump_about(struct driver *driver, uint64_t now_ms);
void driver_stamp(struct driver *driver, int64_t head); /* the head has moved and is about to be told */

/* The live stream was lost, or cannot be opened: is it because those above are stale? */
void driver_mind_silence(struct driver *driver, const char *why);

/* ---- driver_circle.c ---- */

/* Upstream refused something: is it because tiers are in a circle? `endpoint` begins with the URL of who did. */
void driver_mind_refusal(struct driver *driver, const char *endpoint, const char *why);

/* The tier above has told who is above it: are we among them, or below too many? */
void driver_look_for_circle(struct driver *driver);

/* Goes away from endpoints that were barred. Not from a callback of a stream or link. */
void driver_leave_barred(struct driver *driver);
uint64_t driver_barred(const struct driver *driver); /* as in driver_status */

/* ---- driver_version.c ---- */

enum driver_version { DRIVER_VERSION_GOOD, DRIVER_VERSION_OLD, DRIVER_VERSION_REFUSED };

/* What a version is worth. *why says what is wrong with it, when it is not GOOD. One that cannot be read is not known to
 * be wrong. Pure. */
enum driver_version driver_judge_version(const char *version, bool whole_scope, const char **why);

#endif
