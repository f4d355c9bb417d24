/* src/serve/rights/vouch.c */
#include "serve/rights/vouch.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/owner.h"
#include "base/password_file.h"
#include "net/grpc.h"
#include "serve/rights/identity.h"
#include "serve/rights/token_revision.h"
#include "serve/uplink/unary.h"
#include "wire/rpc.pb-c.h"

#define AUTH_PATH "/etcdserverpb.Auth/Authenticate"
#define NO_MEMORY "belfry: out of memory"

/* A token that was made for a user. */
struct vouch_entry {
    struct belfry_map_node by_user;
    struct belfry_list node; /* of vouch.kept */
    struct belfry_buf token;
    uint64_t revision;
    int64_t expires_s;
    size_t user_len;
    char user[];
};

struct vouch {
    /* fixed at creation */
    struct vouch_opts opts;
    struct belfry_hash_key hash_key;
    char *user; /* a copy of the tier's own, because protobuf-c wants no const; NULL: no key */
    /* owner */
    struct belfry_map entries;
    struct belfry_list kept;  /* the same, first the one that was not used for longest */
    struct belfry_list waits; /* of vouch_wait.node */
    struct unary *log_in;     /* under way; NULL: none of this worker's */
    uint64_t pass_ms;         /* pass_users: calls wait until then */
    uv_timer_t timer;
    char text[IDENTITY_FIELD_BYTES]; /* the value of belfry-user */
    struct auth_revision_view view;  /* its `why` is lent */
    struct vouch_stats stats;
    BELFRY_OWNER;
};

static void on_vouch_timer(uv_timer_t *timer);

/* ---- waits ---- */

static void vouch_arm_timer(struct vouch *vouch, uint64_t due_ms, uint64_t now)
{
    uv_update_time(vouch->timer.loop);
    uv_timer_start(&vouch->timer, on_vouch_timer, due_ms > now ? due_ms - now : 0, 0);
}

static enum vouch_verdict vouch_wait(struct vouch *vouch, struct vouch_wait *wait)
{
    if (belfry_list_empty(&wait->node))
        belfry_list_append(&vouch->waits, &wait->node);
    return VOUCH_LATER;
}

/* Each asks again, and may wait again. */
static void vouch_end_waits(struct vouch *vouch)
{
    struct belfry_list waits;
    belfry_list_init(&waits);
    belfry_list_move_all(&waits, &vouch->waits);
    for (struct belfry_list *node; (node = belfry_list_pop(&waits)) != NULL;) {
        struct vouch_wait *wait = belfry_container(node, struct vouch_wait, node);
        wait->fn(wait);
    }
}

/* ---- logging in ---- */

static void vouch_fail(struct vouch *vouch, enum auth_revision_failure failure, const char *why)
{
    vouch->stats.failed_log_ins++;
    if (auth_revision_fail(vouch->opts.revision, failure, why, belfry_clock_ms()))
        belfry_logf(vouch->opts.log, BELFRY_LOG_WARN, "no_certificate_users", "user=\"%s\" why=\"%s\"",
                    vouch->opts.user, why);
}

static void vouch_take_token(struct vouch *vouch, struct belfry_bytes token)
{
    uint64_t revision;
    switch (token_revision_read(token, &revision)) {
    case BELFRY_OK:
        auth_revision_learn(vouch->opts.revision, revision, belfry_clock_ms());
        belfry_logf(vouch->opts.log, BELFRY_LOG_DEBUG, "auth_revision", "is=%llu", (unsigned long long)revision);
        break;
    case BELFRY_ERR_NOMEM:
        vouch_fail(vouch, AUTH_REVISION_NOT_LOGGED_IN, NO_MEMORY);
        break;
    default:
        vouch_fail(vouch, AUTH_REVISION_NO_JWT, "etcd's tokens are no JWTs (its --auth-token)");
        break;
    }
}

static void vouch_take_answer(struct vouch *vouch, struct belfry_bytes body)
{
    Etcdserverpb__AuthenticateResponse *response = NULL;
    if (body.data != NULL)
        response = etcdserverpb__authenticate_response__unpack(NULL, body.len, (const uint8_t *)body.data);
    if (response == NULL) {
        vouch_fail(vouch, AUTH_REVISION_NOT_LOGGED_IN, "upstream's answer to the tier's log-in cannot be read");
        return;
    }
    vouch_take_token(vouch, belfry_bytes_str(response->token));
    explicit_bzero(response->token, strlen(response->token));
    etcdserverpb__authenticate_response__free_unpacked(response, NULL);
}

static void on_log_in(const struct unary_answer *with, void *user)
{
    struct vouch *vouch = user;
    char why[AUTH_REVISION_WHY];
    vouch->log_in = NULL;
    if (with->code == BELFRY_GRPC_OK) {
        vouch_take_answer(vouch, with->body);
    } else {
        snprintf(why, sizeof(why), "belfry: this tier cannot log in to upstream: %s", with->message);
        vouch_fail(vouch, AUTH_REVISION_NOT_LOGGED_IN, why);
    }
    vouch_end_waits(vouch);
}

static enum belfry_err vouch_send_log_in(struct vouch *vouch, char *password)
{
    Etcdserverpb__AuthenticateRequest request;
    etcdserverpb__authenticate_request__init(&request);
    request.name = vouch->user;
    request.password = password;
    size_t len = etcdserverpb__authenticate_request__get_packed_size(&request);
    uint8_t *message = malloc(len + 1);
    if (message == NULL)
        return BELFRY_ERR_NOMEM;
    struct unary_opts opts = {.uplink = vouch->opts.uplink,
                              .path = AUTH_PATH,
                              .timeout_ms = VOUCH_TIMEOUT_MS,
                              .message =
                                  belfry_bytes_of(message, etcdserverpb__authenticate_request__pack(&request, message)),
                              .caller = UPLINK_CALLER_ANYONE,
                              .fn = on_log_in,
                              .user = vouch};
    enum belfry_err err = unary_open(&opts, &vouch->log_in);
    explicit_bzero(message, len);
    free(message);
    return err;
}

/* False: it has failed. */
static bool vouch_log_in(struct vouch *vouch)
{
    char password[BELFRY_PASSWORD_MAX], why[AUTH_REVISION_WHY];
    assert(vouch->log_in == NULL);
    vouch->stats.log_ins++;
    enum belfry_err err = belfry_password_file_read(vouch->opts.password_file, password, why, sizeof(why));
    if (err == BELFRY_OK) {
        err = vouch_send_log_in(vouch, password);
        explicit_bzero(password, sizeof(password));
        snprintf(why, sizeof(why), "belfry: this tier cannot log in to upstream: %s", belfry_strerror((int)err));
    }
    if (err != BELFRY_OK)
        vouch_fail(vouch, AUTH_REVISION_NOT_LOGGED_IN, why);
    return err == BELFRY_OK;
}

/* Is the revision known? If not, does what it takes to know it. */
static enum auth_revision_answer vouch_find_revision(struct vouch *vouch)
{
    uint64_t now = belfry_clock_ms();
    enum auth_revision_answer answer = auth_revision_ask(vouch->opts.revision, now, &vouch->view);
    if (answer == AUTH_REVISION_WAIT)
        vouch_arm_timer(vouch, vouch->view.due_ms, now);
    if (answer != AUTH_REVISION_LOG_IN)
        return answer;
    if (vouch_log_in(vouch))
        return AUTH_REVISION_WAIT;
    return auth_revision_ask(vouch->opts.revision, now, &vouch->view);
}

static void on_vouch_timer(uv_timer_t *timer)
{
    struct vouch *vouch = timer->data;
    if (belfry_list_empty(&vouch->waits))
        return;
    if (vouch->opts.pass_users || vouch_find_revision(vouch) != AUTH_REVISION_WAIT)
        vouch_end_waits(vouch);
}

/* ---- tokens ---- */

static int64_t vouch_now_s(const struct vouch *vouch)
{
    return vouch->opts.now_s != NULL ? vouch->opts.now_s() : (int64_t)time(NULL);
}

static void vouch_entry_free(struct vouch *vouch, struct vouch_entry *entry)
{
    belfry_map_remove(&vouch->entries, &entry->by_user);
    belfry_list_remove(&entry->node);
    struct belfry_bytes token = belfry_buf_bytes(&entry->token);
    if (token.len > 0)
        explicit_bzero(entry->token.data + entry->token.start, token.len);
    belfry_buf_fini(&entry->token);
    vouch->stats.users--;
    free(entry);
}

static struct vouch_entry *vouch_entry_find(const struct vouch *vouch, struct belfry_bytes user)
{
    struct belfry_map_node *node = belfry_map_first(&vouch->entries, belfry_hash(vouch->hash_key, user));
    for (; node != NULL; node = belfry_map_next(node)) {
        struct vouch_entry *entry = belfry_container(node, struct vouch_entry, by_user);
        if (belfry_bytes_equal(belfry_bytes_of(entry->user, entry->user_len), user))
            return entry;
    }
    return NULL;
}

static struct vouch_entry *vouch_entry_create(struct vouch *vouch, struct belfry_bytes user)
{
    if (vouch->stats.users >= VOUCH_USERS)
        vouch_entry_free(vouch, belfry_container(vouch->kept.next, struct vouch_entry, node));
    struct vouch_entry *entry = calloc(1, sizeof(*entry) + user.len);
    if (entry == NULL)
        return NULL;
    memcpy(entry->user, user.data, user.len);
    entry->user_len = user.len;
    belfry_list_init(&entry->node);
    belfry_map_add(&vouch->entries, belfry_hash(vouch->hash_key, user), &entry->by_user);
    vouch->stats.users++;
    return entry;
}

/* The clock may have been set: what counts is how long the token is still good by it. */
static bool vouch_entry_is_good(const struct vouch_entry *entry, uint64_t revision, int64_t now_s)
{
    int64_t left_s = entry->expires_s - now_s;
    return entry->revision == revision && left_s > VOUCH_LIFE_S / 2 && left_s <= VOUCH_LIFE_S;
}

static enum belfry_err vouch_entry_renew(struct vouch *vouch, struct vouch_entry *entry, uint64_t revision)
{
    struct mint_claims claims = {.user = belfry_bytes_of(entry->user, entry->user_len),
                                 .revision = revision,
                                 .expires_s = vouch_now_s(vouch) + VOUCH_LIFE_S};
    entry->revision = 0;
    belfry_buf_clear(&entry->token);
    enum belfry_err err = mint_token(vouch->opts.mint, &claims, &entry->token);
    if (err != BELFRY_OK)
        return err;
    entry->revision = revision;
    entry->expires_s = claims.expires_s;
    vouch->stats.signed_tokens++;
    return BELFRY_OK;
}

static enum vouch_verdict vouch_give_token(struct vouch *vouch, struct belfry_bytes user, uint64_t revision,
                                           struct voucher *out)
{
    struct vouch_entry *entry = vouch_entry_find(vouch, user);
    if (entry == NULL)
        entry = vouch_entry_create(vouch, user);
    enum belfry_err err = entry == NULL ? BELFRY_ERR_NOMEM : BELFRY_OK;
    if (entry != NULL && !vouch_entry_is_good(entry, revision, vouch_now_s(vouch)))
        err = vouch_entry_renew(vouch, entry, revision);
    if (entry != NULL) {
        belfry_list_remove(&entry->node);
        belfry_list_append(&vouch->kept, &entry->node);
    }
    if (err != BELFRY_OK) {
        out->reason = NO_MEMORY;
        return VOUCH_UNAVAILABLE;
    }
    out->field = (struct belfry_http_field){belfry_bytes_str("token"), belfry_buf_bytes(&entry->token)};
    out->revision = revision;
    return VOUCH_GIVEN;
}

/* ---- asking ---- */

static enum vouch_verdict vouch_pass(struct vouch *vouch, struct belfry_bytes user, struct vouch_wait *wait,
                                     struct voucher *out)
{
    uint64_t now = belfry_clock_ms();
    if (now < vouch->pass_ms) {
        vouch_arm_timer(vouch, vouch->pass_ms, now);
        return vouch_wait(vouch, wait);
    }
    out->field = identity_field_of_user(user, vouch->text);
    out->revision = 1;
    return VOUCH_GIVEN;
}

const char *vouch_refuses(const struct vouch *vouch, struct belfry_bytes user)
{
    if (vouch == NULL || (vouch->opts.mint == NULL && !vouch->opts.pass_users))
        return VOUCH_NO_KEY;
    bool is_root = belfry_bytes_equal(user, belfry_bytes_str("root"));
    return is_root && !vouch->opts.pass_users && !vouch->opts.allow_root ? VOUCH_NO_ROOT : NULL;
}

enum vouch_verdict vouch_ask(struct vouch *vouch, struct belfry_bytes user, struct vouch_wait *wait,
                             struct voucher *out)
{
    out->reason = vouch_refuses(vouch, user);
    if (out->reason != NULL)
        return VOUCH_REFUSED;
    BELFRY_OWNER_CHECK(vouch);
    if (vouch->opts.pass_users)
        return vouch_pass(vouch, user, wait, out);
    switch (vouch_find_revision(vouch)) {
    case AUTH_REVISION_HERE:
        return vouch_give_token(vouch, user, vouch->view.revision, out);
    case AUTH_REVISION_LOG_IN:
    case AUTH_REVISION_WAIT:
        return vouch_wait(vouch, wait);
    case AUTH_REVISION_REFUSED:
        break;
    }
    bool is_jwt = vouch->view.failure != AUTH_REVISION_NO_JWT;
    out->reason = is_jwt ? vouch->view.why : VOUCH_NO_JWT;
    return is_jwt ? VOUCH_UNAVAILABLE : VOUCH_REFUSED;
}

void vouch_outdate(struct vouch *vouch, uint64_t revision)
{
    BELFRY_OWNER_CHECK(vouch);
    if (vouch->opts.pass_users)
        vouch->pass_ms = belfry_clock_ms() + VOUCH_PASS_MS;
    else if (vouch->opts.mint != NULL)
        auth_revision_outdate(vouch->opts.revision, revision);
}

bool vouch_passes(const struct vouch *vouch)
{
    return vouch != NULL && vouch->opts.pass_users;
}

/* ---- create and destroy ---- */

enum belfry_err vouch_create(const struct vouch_opts *opts, struct vouch **out)
{
    struct vouch *vouch = calloc(1, sizeof(*vouch));
    if (vouch == NULL)
        return BELFRY_ERR_NOMEM;
    vouch->opts = *opts;
    vouch->user = opts->mint != NULL ? strdup(opts->user) : NULL;
    if (opts->mint != NULL && vouch->user == NULL) {
        free(vouch);
        return BELFRY_ERR_NOMEM;
    }
    vouch->hash_key = belfry_hash_key_draw();
    belfry_map_init(&vouch->entries);
    belfry_list_init(&vouch->kept);
    belfry_list_init(&vouch->waits);
    uv_timer_init(opts->loop, &vouch->timer);
    vouch->timer.data = vouch;
    BELFRY_OWNER_INIT(vouch);
    *out = vouch;
    return BELFRY_OK;
}

static void on_vouch_timer_closed(uv_handle_t *timer)
{
    struct vouch *vouch = timer->data;
    free(vouch->user);
    free(vouch);
}

void vouch_destroy(struct vouch *vouch)
{
    if (vouch == NULL)
        return;
    BELFRY_OWNER_CHECK(vouch);
    if (vouch->log_in != NULL) {
        unary_cancel(vouch->log_in);
        (void)auth_revision_fail(vouch->opts.revision, AUTH_REVISION_NOT_LOGGED_IN, "belfry: stopping",
                                 belfry_clock_ms());
    }
    while (belfry_list_pop(&vouch->waits) != NULL)
        ;
    while (!belfry_list_empty(&vouch->kept))
        vouch_entry_free(vouch, belfry_container(vouch->kept.next, struct vouch_entry, node));
    belfry_map_fini(&vouch->entries);
    uv_close((uv_handle_t *)&vouch->timer, on_vouch_timer_closed);
}

void vouch_stats(const struct vouch *vouch, struct vouch_stats *out)
{
    *out = vouch != NULL ? vouch->stats : (struct vouch_stats){0};
}
