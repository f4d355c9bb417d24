/* bench/belfry-bench/credentials.c */
#include "credentials.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "die.h"
#include "wire/rpc.pb-c.h"
#include "wire/scan.h"

#define FILE_MAX    ((size_t)64 << 20)
#define FIELD_MAX   128 /* bytes of a name or a password with its zero */
#define TOKEN_FIELD 2   /* of AuthenticateResponse */

static char *read_file(const char *path, size_t *len)
{
    FILE *file = fopen(path, "r");
    char *text = must_have(malloc(FILE_MAX));
    if (file == NULL)
        die("%s: cannot be opened", path);
    *len = fread(text, 1, FILE_MAX, file);
    if (ferror(file) || *len == FILE_MAX)
        die("%s: cannot be read, or is larger than 64 MiB", path);
    fclose(file);
    return text;
}

void credentials_read(struct credentials *credentials, const char *path)
{
    size_t len, n = 0;
    char *text = read_file(path, &len);
    for (size_t i = 0; i < len; i++)
        n += text[i] == '\n';
    *credentials = (struct credentials){.text = text, .lines = must_have(calloc(n + 1, sizeof(*credentials->lines)))};
    for (char *at = text, *end; (end = memchr(at, '\n', len - (size_t)(at - text))) != NULL; at = end + 1)
        if (end > at)
            credentials->lines[credentials->n++] = belfry_bytes_of(at, (size_t)(end - at));
    if (credentials->n == 0)
        die("%s: has no whole line", path);
}

void credentials_fini(struct credentials *credentials)
{
    free(credentials->lines);
    free(credentials->text);
    *credentials = (struct credentials){0};
}

struct belfry_bytes credentials_of(const struct credentials *credentials, size_t number)
{
    return credentials->n == 0 ? (struct belfry_bytes){0} : credentials->lines[number % credentials->n];
}

void credentials_write_login(struct belfry_bytes line, struct belfry_buf *to)
{
    char name[FIELD_MAX], password[FIELD_MAX];
    const char *colon = memchr(line.data, ':', line.len);
    if (colon == NULL || line.len >= FIELD_MAX)
        die("a login must be NAME:PASSWORD, shorter than %d bytes", FIELD_MAX);
    snprintf(name, sizeof(name), "%.*s", (int)(colon - line.data), line.data);
    snprintf(password, sizeof(password), "%.*s", (int)(line.data + line.len - colon - 1), colon + 1);
    Etcdserverpb__AuthenticateRequest request;
    uint8_t *out;
    etcdserverpb__authenticate_request__init(&request);
    request.name = name;
    request.password = password;
    must(belfry_buf_reserve(to, etcdserverpb__authenticate_request__get_packed_size(&request), &out), "login");
    belfry_buf_grown(to, etcdserverpb__authenticate_request__pack(&request, out));
}

struct belfry_bytes credentials_read_login(struct belfry_bytes response)
{
    struct belfry_bytes token;
    size_t at = 0;
    if (belfry_scan_field(response, TOKEN_FIELD, &at, &token) != BELFRY_OK)
        return (struct belfry_bytes){0};
    return token;
}
