/* src/kapi/bearer.c
 *
 * The file is read without looking at its timestamp first: Kubernetes rotates tokens by replacing a symbolic link, two
 * tokens may be written within one tick of the file system's clock, and reading a kilobyte costs no more than stat.
 */
#include "kapi/bearer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/secret.h"
#include "kapi/file.h"

#define LOOK_MS   1000
#define TOKEN_MAX (64 * 1024)
#define FILE_MAX  (TOKEN_MAX + 256) /* with blanks around it */

static const char no_token[] = "a token is one line of at most 64 KiB of printable ASCII, without blanks";
static const char no_file[] = "the token file cannot be read";
static const char no_file_token[] =
    "the token file holds no token: one line of at most 64 KiB of printable ASCII, without blanks";

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static struct belfry_bytes trim_blanks(struct belfry_bytes text)
{
    while (text.len > 0 && is_blank(text.data[text.len - 1]))
        text.len--;
    while (text.len > 0 && is_blank(text.data[0])) {
        text.data++;
        text.len--;
    }
    return text;
}

/* The token goes into a header field, where a blank or a newline would change its meaning. */
static bool is_token(struct belfry_bytes text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] <= ' ' || text.data[i] > '~')
            return false;
    }
    return text.len > 0 && text.len <= TOKEN_MAX;
}

/* Stores `text` as the token. */
static enum belfry_err store_token(struct belfry_bearer *bearer, struct belfry_bytes text)
{
    static const char scheme[] = "Bearer ";
    struct belfry_bytes token = trim_blanks(text);
    if (!is_token(token))
        return BELFRY_ERR_INVALID;
    if (bearer->field != NULL && belfry_bytes_equal(token, belfry_bytes_str(bearer->field + sizeof(scheme) - 1)))
        return BELFRY_OK;
    char *field = malloc(sizeof(scheme) + token.len);
    if (field == NULL)
        return BELFRY_ERR_NOMEM;
    memcpy(field, scheme, sizeof(scheme) - 1);
    memcpy(field + sizeof(scheme) - 1, token.data, token.len);
    field[sizeof(scheme) - 1 + token.len] = '\0';
    belfry_secret_free(bearer->field);
    bearer->field = field;
    if (bearer->file != NULL)
        bearer->reads++;
    return BELFRY_OK;
}

static enum belfry_err read_token_file(struct belfry_bearer *bearer, char *text)
{
    size_t len;
    switch (belfry_file_read(bearer->file, text, FILE_MAX, &len)) {
    case 0:
        return store_token(bearer, belfry_bytes_of(text, len));
    case EFBIG:
        return BELFRY_ERR_INVALID;
    default:
        return BELFRY_ERR_IO;
    }
}

static enum belfry_err look(struct belfry_bearer *bearer, uint64_t now_ms, const char **out_why)
{
    char *text = malloc(FILE_MAX);
    if (text == NULL)
        return BELFRY_ERR_NOMEM;
    bearer->read_ms = now_ms;
    enum belfry_err err = read_token_file(bearer, text);
    explicit_bzero(text, FILE_MAX);
    free(text);
    if (err == BELFRY_OK || err == BELFRY_ERR_NOMEM)
        return err;
    *out_why = err == BELFRY_ERR_INVALID ? no_file_token : no_file;
    return BELFRY_ERR_AUTH;
}

enum belfry_err belfry_bearer_init(struct belfry_bearer *bearer, const char *token, const char *file, uint64_t now_ms,
                                   const char **out_why)
{
    enum belfry_err err = BELFRY_OK;
    *bearer = (struct belfry_bearer){0};
    if (file != NULL) {
        bearer->file = strdup(file);
        err = bearer->file == NULL ? BELFRY_ERR_NOMEM : look(bearer, now_ms, out_why);
    } else if (token != NULL) {
        *out_why = no_token;
        err = store_token(bearer, belfry_bytes_str(token));
    }
    if (err != BELFRY_OK)
        belfry_bearer_fini(bearer);
    return err;
}

void belfry_bearer_fini(struct belfry_bearer *bearer)
{
    free(bearer->file);
    belfry_secret_free(bearer->field);
    *bearer = (struct belfry_bearer){0};
}

/* After a second, and also if the clock went backwards. */
static bool is_due(const struct belfry_bearer *bearer, uint64_t now_ms)
{
    return bearer->file != NULL && (bearer->read_ms == 0 || now_ms - bearer->read_ms >= LOOK_MS);
}

const char *belfry_bearer_field(struct belfry_bearer *bearer, uint64_t now_ms, const struct belfry_log *log)
{
    const char *why = belfry_strerror(BELFRY_ERR_NOMEM);
    if (!is_due(bearer, now_ms))
        return bearer->field;
    bool failed = look(bearer, now_ms, &why) != BELFRY_OK;
    if (failed && !bearer->failing)
        belfry_logf(log, BELFRY_LOG_WARN, "token_kept", "file=\"%.300s\" why=\"%s\"", bearer->file, why);
    bearer->failing = failed;
    return bearer->field;
}

void belfry_bearer_refused(struct belfry_bearer *bearer)
{
    bearer->read_ms = 0;
}
