/* src/serve/uplink/own_token.c */
#include "serve/uplink/own_token.h"

#include <stdlib.h>

#include "base/owner.h"
#include "kapi/bearer.h"

struct own_token {
    struct belfry_bearer bearer;
    const struct belfry_log *log;
    BELFRY_OWNER;
};

enum belfry_err own_token_create(const struct own_token_opts *opts, uint64_t now_ms, struct own_token **out,
                                 const char **out_why)
{
    struct own_token *token = calloc(1, sizeof(*token));
    if (token == NULL)
        return BELFRY_ERR_NOMEM;
    enum belfry_err err = belfry_bearer_init(&token->bearer, opts->token, opts->file, now_ms, out_why);
    if (err != BELFRY_OK) {
        free(token);
        return err;
    }
    token->log = opts->log;
    BELFRY_OWNER_INIT(token);
    *out = token;
    return BELFRY_OK;
}

void own_token_destroy(struct own_token *token)
{
    if (token == NULL)
        return;
    belfry_bearer_fini(&token->bearer);
    free(token);
}

struct belfry_bytes own_token_field(struct own_token *token, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(token);
    const char *field = belfry_bearer_field(&token->bearer, now_ms, token->log);
    return field != NULL ? belfry_bytes_str(field) : (struct belfry_bytes){0};
}

void own_token_refused(struct own_token *token)
{
    BELFRY_OWNER_CHECK(token);
    belfry_bearer_refused(&token->bearer);
}
