/* tests/support/authbed.h: what the suites about users of client certificates share: a key, a mint, and an upstream
 * that issues tokens as etcd does (support/fakeupstream). Included after support/uplinkbed.h. */
#ifndef BELFRY_TESTS_AUTHBED_H
#define BELFRY_TESTS_AUTHBED_H

#include <fcntl.h>
#include <unistd.h>

#include "base/base64.h"
#include "serve/rights/token_revision.h"
#include "serve/rights/vouch.h"
#include "wire/rpc.pb-c.h"

#define AUTH_TOKEN "e30.eyJyZXZpc2lvbiI6MTd9.c2ln" /* with the revision 17, for suites that refuse memory */

static struct authbed {
    char folder[64], key[96], password[96];
    struct mint *mint;
    struct auth_revision revision;
    /* upstream */
    bool auth_on;
    uint64_t store_revision;
    char issues[64];                          /* this token; "": one with store_revision */
    const char *log_in_code, *log_in_message; /* NULL: the log-in succeeds */
    bool is_silent;                           /* it answers no log-in */
    size_t n_log_ins, n_status;
    /* as it was asked last */
    char name[64], secret[64];
} auth;

static inline void auth_write(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static inline int auth_setup(void **state)
{
    (void)state;
    char why[MINT_WHY];
    auth = (struct authbed){.auth_on = true, .store_revision = 17};
    snprintf(auth.folder, sizeof(auth.folder), "/tmp/authbed.XXXXXX");
    assert_non_null(mkdtemp(auth.folder));
    snprintf(auth.key, sizeof(auth.key), "%s/key", auth.folder);
    snprintf(auth.password, sizeof(auth.password), "%s/password", auth.folder);
    auth_write(auth.key, "a secret of etcd and of this tier");
    auth_write(auth.password, "pass\n");
    assert_int_equal(mint_create(auth.key, "HS256", &auth.mint, why), BELFRY_OK);
    auth_revision_init(&auth.revision);
    return 0;
}

static inline void auth_fini(void)
{
    mint_destroy(auth.mint);
    auth_revision_fini(&auth.revision);
    unlink(auth.key);
    unlink(auth.password);
    rmdir(auth.folder);
}

static inline struct vouch_opts auth_vouch_opts(void)
{
    return (struct vouch_opts){.uplink = bed.uplink,
                               .loop = belfry_loop_uv(bed.loop),
                               .mint = auth.mint,
                               .revision = &auth.revision,
                               .user = "tier",
                               .password_file = auth.password};
}

static inline void auth_refuse(struct upstream *upstream, size_t i, const char *code, const char *message)
{
    upstream_head(upstream, i,
                  (const char *const[]){":status", "200", "content-type", "application/grpc", "grpc-status", code,
                                        "grpc-message", message, NULL},
                  true);
}

static inline void auth_issue(struct upstream *upstream, size_t i)
{
    Etcdserverpb__AuthenticateResponse response;
    struct mint_claims claims = {.user = belfry_bytes_str(auth.name), .revision = auth.store_revision};
    struct belfry_buf token;
    uint8_t packed[1024];
    belfry_buf_init(&token);
    etcdserverpb__authenticate_response__init(&response);
    response.token = auth.issues;
    if (auth.issues[0] == '\0') {
        assert_int_equal(mint_token(auth.mint, &claims, &token), BELFRY_OK);
        assert_int_equal(belfry_buf_append(&token, "", 1), BELFRY_OK);
        response.token = (char *)token.data + token.start;
    }
    upstream_grpc(upstream, i, packed, etcdserverpb__authenticate_response__pack(&response, packed), "0");
    belfry_buf_fini(&token);
}

/* Authenticate; without a name it is the question whether auth is on. */
static inline void auth_serve(struct upstream *upstream, size_t i)
{
    const struct upstream_request *request = upstream_request(upstream, i);
    assert_string_equal(upstream_field(upstream, i, ":path"), "/etcdserverpb.Auth/Authenticate");
    assert_null(upstream_field(upstream, i, "token"));
    assert_null(upstream_field(upstream, i, "belfry-user"));
    Etcdserverpb__AuthenticateRequest *asked =
        etcdserverpb__authenticate_request__unpack(NULL, request->body_len - 5, request->body + 5);
    assert_non_null(asked);
    bool is_log_in = asked->name[0] != '\0';
    if (is_log_in) {
        snprintf(auth.name, sizeof(auth.name), "%s", asked->name);
        snprintf(auth.secret, sizeof(auth.secret), "%s", asked->password);
    }
    etcdserverpb__authenticate_request__free_unpacked(asked, NULL);
    if (!is_log_in)
        auth.n_status++;
    else
        auth.n_log_ins++;
    if (!auth.auth_on)
        auth_refuse(upstream, i, "9", "etcdserver: authentication is not enabled");
    else if (!is_log_in)
        auth_refuse(upstream, i, "3", "etcdserver: authentication failed, invalid user ID or password");
    else if (auth.log_in_code != NULL)
        auth_refuse(upstream, i, auth.log_in_code, auth.log_in_message);
    else if (!auth.is_silent)
        auth_issue(upstream, i);
}

/* The user of a token that the tier has made, in `out`; its revision. 0: it is none. */
static inline uint64_t auth_read(const char *token, char *out, size_t size)
{
    uint64_t revision = 0;
    struct belfry_buf claims;
    if (token == NULL || token_revision_read(belfry_bytes_str(token), &revision) != BELFRY_OK)
        return 0;
    const char *from = strchr(token, '.') + 1;
    belfry_buf_init(&claims);
    assert_int_equal(
        belfry_base64_decode(BELFRY_BASE64_URL, belfry_bytes_of(from, (size_t)(strchr(from, '.') - from)), &claims),
        BELFRY_OK);
    assert_int_equal(belfry_buf_append(&claims, "", 1), BELFRY_OK);
    const char *user = strstr((const char *)claims.data + claims.start, "\"username\":\"");
    assert_non_null(user);
    user += strlen("\"username\":\"");
    snprintf(out, size, "%.*s", (int)strcspn(user, "\""), user);
    belfry_buf_fini(&claims);
    return revision;
}

#endif
