/* src/client/trust.c */
#include "client/trust.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "client/etcd_request.h"
#include "wire/scan.h"

#define ASK_MS         5000 /* timeout of one try */
#define RETRY_MS       500  /* the second wait */
#define RETRY_MAX_MS   10000
#define STATUS_VERSION 2 /* field of StatusResponse */

/* ---- versions ---- */

struct version {
    unsigned major, minor, patch;
    bool early; /* an alpha or a release candidate of that number */
};

/* Reads digits at *at; false if there are none or too many. */
static bool read_number(struct belfry_bytes text, size_t *at, unsigned *out)
{
    size_t start = *at;
    *out = 0;
    while (*at < text.len && text.data[*at] >= '0' && text.data[*at] <= '9' && *at - start < 6)
        *out = *out * 10 + (unsigned)(text.data[(*at)++] - '0');
    return *at > start;
}

static bool read_dot(struct belfry_bytes text, size_t *at)
{
    return *at < text.len && text.data[(*at)++] == '.';
}

/* "3.5.16", "3.6.0-rc.1", "3.5.16+build". */
static bool read_version(struct belfry_bytes text, struct version *out)
{
    size_t at = 0;
    if (!read_number(text, &at, &out->major) || !read_dot(text, &at) || !read_number(text, &at, &out->minor) ||
        !read_dot(text, &at) || !read_number(text, &at, &out->patch))
        return false;
    out->early = at < text.len && text.data[at] == '-';
    return at == text.len || out->early || text.data[at] == '+';
}

bool belfry_trust_is_good(struct belfry_bytes version)
{
    struct version v;
    if (!read_version(version, &v))
        return false;
    unsigned first; /* the first good patch of the minor version */
    if (v.major != 3)
        return v.major > 3;
    switch (v.minor) {
    case 4:
        first = 25;
        break;
    case 5:
        first = 8;
        break;
    case 6:
        first = 0; /* but main was 3.6.0-alpha.0 for years, before and after the fix */
        break;
    default:
        return v.minor > 6;
    }
    return v.early ? v.patch > first : v.patch >= first;
}

/* ---- states ---- */

static void move(struct belfry_trust *trust, enum belfry_trust_state to)
{
    static const unsigned legal[] = {[BELFRY_TRUST_UNKNOWN] = 1u << BELFRY_TRUST_ASKING,
                                     [BELFRY_TRUST_ASKING] = 1u << BELFRY_TRUST_GOOD | 1u << BELFRY_TRUST_ABOUT,
                                     [BELFRY_TRUST_ABOUT] = 1u << BELFRY_TRUST_GOOD | 1u << BELFRY_TRUST_BAD,
                                     [BELFRY_TRUST_GOOD] = 0,
                                     [BELFRY_TRUST_BAD] = 0};
    assert(to == BELFRY_TRUST_UNKNOWN || legal[trust->state] & 1u << to);
    (void)legal;
    trust->state = to;
}

void belfry_trust_init(struct belfry_trust *trust, void (*changed)(void *user), void *user, struct belfry_rng *rng)
{
    *trust = (struct belfry_trust){.changed = changed, .user = user, .rng = rng};
    belfry_backoff_init(&trust->backoff, RETRY_MS, RETRY_MAX_MS);
}

void belfry_trust_reset(struct belfry_trust *trust)
{
    if (trust->call != NULL)
        belfry_grpc_call_cancel(trust->call);
    trust->call = NULL;
    trust->retry_ms = 0;
    trust->version[0] = '\0';
    belfry_backoff_reset(&trust->backoff);
    move(trust, BELFRY_TRUST_UNKNOWN);
}

uint64_t belfry_trust_due(const struct belfry_trust *trust)
{
    return trust->state == BELFRY_TRUST_UNKNOWN ? trust->retry_ms : BELFRY_NEVER;
}

static void wait_for_retry(struct belfry_trust *trust, uint64_t now_ms)
{
    trust->retry_ms = now_ms + belfry_backoff_next(&trust->backoff, trust->rng);
    trust->version[0] = '\0';
    move(trust, BELFRY_TRUST_UNKNOWN);
}

/* ---- asking ---- */

static void on_message(struct belfry_grpc_call *call, struct belfry_blob *message, void *user)
{
    struct belfry_trust *trust = user;
    struct belfry_bytes bytes = belfry_blob_bytes(message), version = {NULL, 0};
    struct belfry_wire_header header;
    size_t at = 0;
    (void)call;
    trust->answered = true;
    trust->other_member = trust->state == BELFRY_TRUST_ASKING &&
                          belfry_scan_response_header(bytes, &header) == BELFRY_OK && header.member_id != 0 &&
                          trust->member_id != 0 && header.member_id != trust->member_id;
    if (belfry_scan_field(bytes, STATUS_VERSION, &at, &version) != BELFRY_OK)
        version.len = 0;
    snprintf(trust->version, sizeof(trust->version), "%.*s",
             (int)(version.len < sizeof(trust->version) ? version.len : sizeof(trust->version) - 1),
             version.len > 0 ? version.data : "");
}

/* The server has a version but does not tell us. Among etcds that know progress requests, only those from 3.5.28 and
 * 3.6.0 on protect Status; so no token is sent, which might have expired since the stream was opened. */
static bool is_guarded(const struct belfry_grpc_status *status)
{
    return status->from_server && ((status->code == BELFRY_GRPC_PERMISSION_DENIED &&
                                    strstr(status->message, "etcdserver: permission denied") != NULL) ||
                                   (status->code == BELFRY_GRPC_INVALID_ARGUMENT &&
                                    strstr(status->message, "etcdserver: user name is empty") != NULL));
}

/* Asking again will not help: the server, or a proxy, supports only a part of the protocol. */
static bool is_final(const struct belfry_grpc_status *status)
{
    return status->from_server &&
           (status->code == BELFRY_GRPC_UNIMPLEMENTED || status->code == BELFRY_GRPC_PERMISSION_DENIED);
}

static void on_closed(struct belfry_grpc_call *call, const struct belfry_grpc_status *status, void *user);
static const struct belfry_grpc_events grpc_events = {.message = on_message, .closed = on_closed};

static void submit(struct belfry_trust *trust, const char *path, uint64_t now_ms)
{
    struct belfry_grpc_call_opts opts = {.path = path, .deadline_ms = now_ms + ASK_MS};
    trust->answered = trust->other_member = false;
    enum belfry_err err =
        belfry_grpc_call_open(belfry_carrier_http(trust->conn), &opts, &grpc_events, trust, &trust->call);
    if (err == BELFRY_OK) {
        err = belfry_grpc_call_send(trust->call, (struct belfry_bytes){NULL, 0});
        if (err != BELFRY_OK)
            belfry_grpc_call_cancel(trust->call);
        else
            belfry_grpc_call_half_close(trust->call);
    }
    if (err != BELFRY_OK) {
        trust->call = NULL;
        wait_for_retry(trust, now_ms);
    }
}

static void on_status(struct belfry_trust *trust, const struct belfry_grpc_status *status)
{
    bool mine = status->code == BELFRY_GRPC_OK && trust->answered && !trust->other_member;
    if ((mine && belfry_trust_is_good(belfry_bytes_str(trust->version))) || is_guarded(status)) {
        move(trust, BELFRY_TRUST_GOOD);
        return;
    }
    trust->hopeless = mine || is_final(status);
    move(trust, BELFRY_TRUST_ABOUT);
    submit(trust, BELFRY_PATH_ABOUT, belfry_clock_ms());
    belfry_carrier_flush(trust->conn);
}

static void on_about(struct belfry_trust *trust, const struct belfry_grpc_status *status)
{
    if (status->code == BELFRY_GRPC_OK && trust->answered)
        move(trust, BELFRY_TRUST_GOOD);
    else if (trust->hopeless && status->from_server)
        move(trust, BELFRY_TRUST_BAD);
    else
        wait_for_retry(trust, belfry_clock_ms());
}

static void on_closed(struct belfry_grpc_call *call, const struct belfry_grpc_status *status, void *user)
{
    struct belfry_trust *trust = user;
    (void)call;
    trust->call = NULL;
    if (trust->state == BELFRY_TRUST_ASKING)
        on_status(trust, status);
    else
        on_about(trust, status);
    trust->changed(trust->user);
}

void belfry_trust_ask(struct belfry_trust *trust, struct belfry_carrier *conn, uint64_t member_id, uint64_t now_ms)
{
    move(trust, BELFRY_TRUST_ASKING);
    trust->member_id = member_id;
    trust->conn = conn;
    submit(trust, BELFRY_PATH_STATUS, now_ms);
}
