/* src/base/password_file.c */
#include "base/password_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static enum belfry_err password_fail(enum belfry_err err, const char *path, const char *what, char *why, size_t why_len)
{
    if (why != NULL)
        snprintf(why, why_len, "%s %s", path, what);
    return err;
}

static enum belfry_err password_fail_errno(const char *path, char *why, size_t why_len)
{
    char what[128];
    int code = errno;
    snprintf(what, sizeof(what), "cannot be read: %s", strerror(code));
    enum belfry_err err = code == ENOMEM                     ? BELFRY_ERR_NOMEM
                          : code == EMFILE || code == ENFILE ? BELFRY_ERR_LIMIT
                                                             : BELFRY_ERR_AUTH;
    return password_fail(err, path, what, why, why_len);
}

enum belfry_err belfry_password_file_read(const char *path, char out[BELFRY_PASSWORD_MAX], char *why, size_t why_len)
{
    enum belfry_err err = BELFRY_OK;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return password_fail_errno(path, why, why_len);
    if (fgets(out, BELFRY_PASSWORD_MAX, file) == NULL)
        err = ferror(file)
                  ? password_fail_errno(path, why, why_len)
                  : password_fail(BELFRY_ERR_AUTH, path, "is empty: its first line is the password", why, why_len);
    else if (strlen(out) == BELFRY_PASSWORD_MAX - 1) /* the line was cut */
        err = password_fail(BELFRY_ERR_AUTH, path, "has a first line that is too long for a password", why, why_len);
    fclose(file);
    if (err == BELFRY_OK)
        out[strcspn(out, "\r\n")] = '\0';
    else
        explicit_bzero(out, BELFRY_PASSWORD_MAX);
    return err;
}
