/* src/kapi/pod.c */
#include "kapi/pod.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "kapi/file.h"

#define NAMESPACE_FILE 256 /* bytes: a name with blanks around it */

static const char *environment(const char *name)
{
    const char *text = getenv(name);
    return text == NULL || *text == '\0' ? NULL : text;
}

static const char *host(void)
{
    return environment("KUBERNETES_SERVICE_HOST");
}

static const char *port(void)
{
    return environment("KUBERNETES_SERVICE_PORT");
}

bool belfry_pod_is_here(void)
{
    return host() != NULL && port() != NULL;
}

static enum belfry_err set_server(char **out)
{
    bool bare_v6 = strchr(host(), ':') != NULL && *host() != '[';
    size_t cap = strlen("https://[]:") + strlen(host()) + strlen(port()) + 1;
    *out = malloc(cap);
    if (*out == NULL)
        return BELFRY_ERR_NOMEM;
    snprintf(*out, cap, bare_v6 ? "https://[%s]:%s" : "https://%s:%s", host(), port());
    return BELFRY_OK;
}

static char *join_path(const char *dir, const char *name)
{
    size_t cap = strlen(dir) + strlen(name) + 2;
    char *path = malloc(cap);
    if (path != NULL)
        snprintf(path, cap, "%s/%s", dir, name);
    return path;
}

static enum belfry_err cannot_read(const char *path, int problem, char *why)
{
    snprintf(why, BELFRY_KUBECONFIG_WHY, "in a pod, but %.160s cannot be read: %s", path, strerror(problem));
    return problem == ENOMEM ? BELFRY_ERR_NOMEM : BELFRY_ERR_INVALID;
}

/* Sets *out to the path of a file, after checking that it can be read. */
static enum belfry_err set_file(const char *dir, const char *name, char **out, char *why)
{
    char byte;
    size_t len;
    *out = join_path(dir, name);
    if (*out == NULL)
        return BELFRY_ERR_NOMEM;
    int problem = belfry_file_read(*out, &byte, 1, &len);
    return problem == 0 || problem == EFBIG ? BELFRY_OK : cannot_read(*out, problem, why);
}

static enum belfry_err set_namespace(const char *dir, char **out, char *why)
{
    char text[NAMESPACE_FILE];
    size_t len = 0;
    char *path = join_path(dir, "namespace");
    if (path == NULL)
        return BELFRY_ERR_NOMEM;
    int problem = belfry_file_read(path, text, sizeof(text), &len);
    enum belfry_err err = BELFRY_OK;
    if (problem != 0 && problem != ENOENT)
        err = cannot_read(path, problem, why);
    free(path);
    while (len > 0 && strchr(" \t\r\n", text[len - 1]) != NULL)
        len--;
    if (err != BELFRY_OK || len == 0)
        return err;
    *out = strndup(text, len);
    return *out == NULL ? BELFRY_ERR_NOMEM : BELFRY_OK;
}

enum belfry_err belfry_pod_read(const char *dir, enum belfry_kubeconfig_parts parts, struct belfry_kubeconfig *out,
                                char *why)
{
    enum belfry_err err = set_server(&out->server);
    if (err == BELFRY_OK)
        err = set_file(dir, "ca.crt", &out->cacert_file, why);
    if (err == BELFRY_OK && parts == BELFRY_KUBECONFIG_WHOLE)
        err = set_file(dir, "token", &out->token_file, why);
    return err == BELFRY_OK ? set_namespace(dir, &out->ns, why) : err;
}
