/* src/client/auth.c */
#include "client/auth.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/password_file.h"
#include "base/secret.h"
#include "client/etcd_request.h"
#include "wire/rpc.pb-c.h"

static char *copy_or_null(const char *text, size_t len)
{
    return text == NULL ? NULL : strndup(text, len);
}

enum belfry_err belfry_auth_init(struct belfry_auth *auth, const char *user, const char *password,
                                 const char *password_file)
{
    *auth = (struct belfry_auth){.state = BELFRY_AUTH_NONE};
    if (user == NULL)
        return BELFRY_OK;
    const char *colon = password == NULL && password_file == NULL ? strchr(user, ':') : NULL;
    if (password == NULL && password_file == NULL && colon == NULL)
        return BELFRY_ERR_INVALID;
    const char *secret = colon != NULL ? colon + 1 : password;
    auth->user = copy_or_null(user, colon != NULL ? (size_t)(colon - user) : SIZE_MAX);
    auth->password = copy_or_null(secret, SIZE_MAX);
    auth->password_file = copy_or_null(password_file, SIZE_MAX);
    auth->state = BELFRY_AUTH_STALE;
    if (auth->user == NULL || (secret != NULL && auth->password == NULL) ||
        (password_file != NULL && auth->password_file == NULL)) {
        belfry_auth_fini(auth);
        return BELFRY_ERR_NOMEM;
    }
    return BELFRY_OK;
}

void belfry_auth_fini(struct belfry_auth *auth)
{
    free(auth->user);
    belfry_secret_free(auth->password);
    free(auth->password_file);
    belfry_secret_free(auth->token);
    *auth = (struct belfry_auth){.state = BELFRY_AUTH_NONE};
}

bool belfry_auth_ready(const struct belfry_auth *auth)
{
    return auth->state == BELFRY_AUTH_NONE || auth->state == BELFRY_AUTH_FRESH;
}

bool belfry_auth_is_new(const struct belfry_auth *auth, uint64_t now_ms)
{
    return auth->state == BELFRY_AUTH_NONE ||
           (auth->state == BELFRY_AUTH_FRESH && now_ms < auth->since_ms + BELFRY_AUTH_NEW_MS);
}

const char *belfry_auth_token(const struct belfry_auth *auth)
{
    return auth->state == BELFRY_AUTH_FRESH && auth->token[0] != '\0' ? auth->token : NULL;
}

void belfry_auth_drop(struct belfry_auth *auth)
{
    if (auth->state != BELFRY_AUTH_FRESH)
        return;
    belfry_secret_free(auth->token);
    auth->token = NULL;
    auth->state = BELFRY_AUTH_STALE;
}

enum belfry_err belfry_auth_begin(struct belfry_auth *auth, struct belfry_buf *out)
{
    assert(auth->state == BELFRY_AUTH_STALE);
    char from_file[BELFRY_PASSWORD_MAX];
    enum belfry_err err = BELFRY_OK;
    if (auth->password_file != NULL)
        err = belfry_password_file_read(auth->password_file, from_file, NULL, 0);
    if (err != BELFRY_OK)
        return err;
    err = belfry_request_authenticate(out, auth->user, auth->password_file != NULL ? from_file : auth->password);
    if (err == BELFRY_OK)
        auth->state = BELFRY_AUTH_ASKING;
    if (auth->password_file != NULL)
        explicit_bzero(from_file, sizeof(from_file));
    return err;
}

static enum belfry_err keep(struct belfry_auth *auth, const char *token, uint64_t now_ms)
{
    char *copy = strdup(token);
    if (copy == NULL) {
        auth->state = BELFRY_AUTH_STALE;
        return BELFRY_ERR_NOMEM;
    }
    belfry_secret_free(auth->token);
    auth->token = copy;
    auth->since_ms = now_ms;
    auth->log_ins++;
    auth->state = BELFRY_AUTH_FRESH;
    return BELFRY_OK;
}

enum belfry_err belfry_auth_done(struct belfry_auth *auth, struct belfry_bytes response, uint64_t now_ms)
{
    Etcdserverpb__AuthenticateResponse *message =
        etcdserverpb__authenticate_response__unpack(NULL, response.len, (const uint8_t *)response.data);
    if (message == NULL) {
        auth->state = BELFRY_AUTH_STALE;
        return BELFRY_ERR_PROTOCOL;
    }
    enum belfry_err err = keep(auth, message->token, now_ms);
    etcdserverpb__authenticate_response__free_unpacked(message, NULL);
    return err;
}

enum belfry_err belfry_auth_not_enabled(struct belfry_auth *auth, uint64_t now_ms)
{
    return keep(auth, "", now_ms);
}

void belfry_auth_failed(struct belfry_auth *auth)
{
    if (auth->state == BELFRY_AUTH_ASKING)
        auth->state = BELFRY_AUTH_STALE;
}
