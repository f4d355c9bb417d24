/* src/cli/doctor/doctor_facts.h
 *
 * doctor_facts: all that belfryctl doctor finds out, as plain data. The files beside it gather (doctor_reach,
 * doctor_admin, doctor_calls, doctor_write); doctor_steps judges, and sees nothing but this.
 *
 * Thread: owner. Memory: no pointers; some 40 KB.
 */
#ifndef BELFRY_CLI_DOCTOR_DOCTOR_FACTS_H
#define BELFRY_CLI_DOCTOR_DOCTOR_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "net/endpoint.h"
#include "net/tls_peer.h"

#define DOCTOR_TEXT      400
#define DOCTOR_NAME      80
#define DOCTOR_ENDPOINTS 16 /* further ones are not looked at */
#define DOCTOR_LEVELS    16
#define DOCTOR_POOLS     16

/* How one attempt went. */
struct doctor_try {
    enum belfry_err err;
    char why[DOCTOR_TEXT]; /* err set */
    uint64_t took_us;
};

/* One of --endpoints, as it is reached from here. Each part counts only if the one before it was good. */
struct doctor_reach {
    struct belfry_endpoint endpoint;
    struct doctor_try name; /* unix sockets have none */
    char address[64];       /* the first that the name has */
    struct doctor_try connect;
    struct doctor_try tls;       /* https:// only */
    bool has_peer;               /* the server has shown a certificate, good or bad */
    struct belfry_tls_peer peer; /* then */
    bool wants_tls;              /* http:// was written, and the server speaks TLS */
    bool is_plain;               /* https:// was written, and the server answers without TLS */
};

/* A level of the tree: a tier, or etcd. */
struct doctor_level {
    char name[DOCTOR_NAME], version[DOCTOR_NAME], standing[DOCTOR_NAME]; /* "": not known */
    uint64_t lag;                                                        /* revisions */
    int64_t revision;
    bool has_hop, is_guess; /* guess: half a round trip, because the level above does not tell */
    uint64_t hop_us;
};

/* What the tier says of itself. */
struct doctor_admin {
    bool given; /* --admin was */
    bool asked; /* else the tier is on another machine, and --admin was not given */
    struct doctor_try page;
    char name[DOCTOR_NAME], version[DOCTOR_NAME];
    uint64_t up_ms;
    /* upstream */
    bool answered; /* the thread that follows upstream */
    char standing[DOCTOR_NAME], reason[DOCTOR_TEXT], endpoint[BELFRY_ENDPOINT_TEXT];
    char upstream_hint[DOCTOR_TEXT]; /* what to do about the reason; "": an older tier does not tell */
    int64_t revision, committed, upstream_revision;
    uint64_t silent_ms;                                 /* since it knew that it was up to date; UINT64_MAX: not told */
    struct belfry_endpoint endpoints[DOCTOR_ENDPOINTS]; /* of upstream, as configured */
    bool barred[DOCTOR_ENDPOINTS];
    size_t n_endpoints;
    uint64_t certificate_left_s; /* of the tier's own certificate for upstream; UINT64_MAX: it has none */
    /* resources of an API server that the tier follows, instead of etcd */
    bool is_kube;
    size_t n_resources, n_ready;
    char resource[DOCTOR_NAME]; /* the first that is not ready; "": all are. Why, and what to do */
    char resource_why[DOCTOR_TEXT], resource_hint[DOCTOR_TEXT];
    /* the machine */
    bool has_clock; /* an older tier does not tell */
    int64_t clock_ahead_ms;
    uint64_t clock_error_ms;
    uint64_t descriptors, connections, refused; /* descriptors 0: not told */
    bool disk_trouble;
    char disk_why[DOCTOR_TEXT];
    uint64_t disk_free_bytes; /* UINT64_MAX: not told */
    uint64_t io_errors, damages;
    /* clients */
    char troubles[DOCTOR_POOLS][DOCTOR_TEXT]; /* of pools, a sentence each */
    size_t n_troubles;
    size_t n_clients;
    char client[DOCTOR_NAME]; /* the one that costs most; "": there is none */
    double client_percent;
    /* configuration */
    bool has_settings; /* advertise and scope are told */
    char advertise[BELFRY_ENDPOINT_TEXT];
    char scope[DOCTOR_NAME]; /* "": everything */
    /* the tree: etcd first, this tier last */
    struct doctor_level levels[DOCTOR_LEVELS];
    size_t n_levels;
    /* the highest level that reports now and is in trouble */
    bool has_broken;
    size_t broken_level; /* 0: this tier */
    char broken_name[DOCTOR_NAME], broken_what[DOCTOR_TEXT];
    uint64_t broken_ms; /* 0: not told */
    /* the verdict, as /readyz, the page and top have it: "ready", "not ready", "draining"; "": an older tier */
    char verdict[DOCTOR_NAME], ready_why[DOCTOR_TEXT], ready_hint[DOCTOR_TEXT];
    /* what single checks have against it; "": nothing */
    char lag_why[DOCTOR_TEXT], rights_why[DOCTOR_TEXT], rights_hint[DOCTOR_TEXT];
    char lost_why[DOCTOR_TEXT], lost_hint[DOCTOR_TEXT]; /* of data that upstream has lost */
};

/* What a client with these credentials is answered. */
struct doctor_client {
    bool asks_range;         /* KEY was given */
    char range[DOCTOR_TEXT]; /* for people */
    bool prefix;
    char user[DOCTOR_NAME]; /* --user without the password; "": none */
    bool has_certificate;
    struct doctor_try answer; /* any answer: Status, or a Range of KEY */
    struct doctor_try read, watch;
    int64_t count; /* keys in the range */
};

struct doctor_member {
    char url[BELFRY_ENDPOINT_TEXT];
    bool reached;             /* a connection to it was made */
    struct doctor_try status; /* the quickest of several */
    char version[DOCTOR_NAME], errors[DOCTOR_TEXT];
    uint64_t leader;
    int64_t revision;
};

/* One write on its way down. */
struct doctor_write {
    bool wanted;
    char key[DOCTOR_TEXT];
    bool exists; /* the key was there before, so nothing was written */
    struct doctor_try put;
    int64_t revision;
    bool seen_upstream, seen_here;
    uint64_t upstream_us, here_us; /* from sending the write to the event */
    struct doctor_try removed;
};

struct doctor_facts {
    struct doctor_reach reach[DOCTOR_ENDPOINTS];
    size_t n_reach;
    struct doctor_admin admin;
    struct doctor_client client;
    struct doctor_member members[DOCTOR_ENDPOINTS];
    size_t n_members;
    struct doctor_write write;
    int64_t now_s; /* Unix time, by the clock here */
};

#endif
