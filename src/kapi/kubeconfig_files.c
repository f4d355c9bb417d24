/* src/kapi/kubeconfig_files.c */
#include "kapi/kubeconfig_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "kapi/file.h"
#include "json/manifest.h"

static bool is_blank(struct belfry_bytes text)
{
    while (text.len > 0 && strchr(" \t\r\n", text.data[text.len - 1]) != NULL)
        text.len--;
    return text.len == 0;
}

static enum belfry_err cannot_read(const char *path, int problem, char *why)
{
    if (problem == ENOMEM)
        return BELFRY_ERR_NOMEM;
    snprintf(why, BELFRY_KUBECONFIG_WHY, "kubeconfig %.160s: %s", path,
             problem == EFBIG ? "it is larger than 3 MiB" : strerror(problem));
    return problem == ENOENT || problem == ENOTDIR ? BELFRY_ERR_NOT_FOUND : BELFRY_ERR_INVALID;
}

/* Consumes `path`; NULL means that there was no memory for it. */
static enum belfry_err add_file(struct belfry_kubeconfig_files *files, char *path, char *why)
{
    size_t len = 0;
    char *text = malloc(KUBE_MANIFEST_MAX); /* pages that are not written use no memory */
    int problem = path == NULL || text == NULL ? ENOMEM : belfry_file_read(path, text, KUBE_MANIFEST_MAX, &len);
    struct belfry_bytes bytes = belfry_bytes_of(text, len);
    if (problem == 0)
        files->n_there++;
    if (problem == 0 && !is_blank(bytes)) {
        files->list[files->n] = (struct belfry_kubeconfig_file){path, bytes};
        files->paths[files->n] = path;
        files->texts[files->n++] = text;
        return BELFRY_OK;
    }
    enum belfry_err err = problem == 0 ? BELFRY_OK : cannot_read(path, problem, why);
    free(text);
    free(path);
    return err;
}

static enum belfry_err add_option(struct belfry_kubeconfig_files *files, const char *path, char *why)
{
    enum belfry_err err = add_file(files, strdup(path), why);
    if (err != BELFRY_OK || files->n > 0)
        return err;
    snprintf(why, BELFRY_KUBECONFIG_WHY, "kubeconfig %.160s: the file is empty", path);
    return BELFRY_ERR_INVALID;
}

static enum belfry_err add_environment(struct belfry_kubeconfig_files *files, const char *paths, char *why)
{
    for (const char *at = paths; *at != '\0'; at += *at == ':') {
        size_t len = strcspn(at, ":");
        if (len > 0 && files->n == BELFRY_KUBECONFIG_FILES) {
            snprintf(why, BELFRY_KUBECONFIG_WHY, "$KUBECONFIG names more than %d files", BELFRY_KUBECONFIG_FILES);
            return BELFRY_ERR_INVALID;
        }
        enum belfry_err err = len == 0 ? BELFRY_OK : add_file(files, strndup(at, len), why);
        if (err != BELFRY_OK && err != BELFRY_ERR_NOT_FOUND)
            return err;
        at += len;
    }
    if (files->n_there > 0)
        return BELFRY_OK;
    snprintf(why, BELFRY_KUBECONFIG_WHY, "$KUBECONFIG names no file that is there: %.160s", paths);
    return BELFRY_ERR_NOT_FOUND;
}

static enum belfry_err add_home(struct belfry_kubeconfig_files *files, const char *home, char *why)
{
    static const char name[] = "/.kube/config";
    size_t cap = strlen(home) + sizeof(name);
    char *path = malloc(cap);
    if (path != NULL)
        snprintf(path, cap, "%s%s", home, name);
    enum belfry_err err = add_file(files, path, why);
    return err == BELFRY_ERR_NOT_FOUND ? BELFRY_OK : err;
}

enum belfry_err belfry_kubeconfig_files_read(struct belfry_kubeconfig_files *files, const char *path, char *why)
{
    const char *paths = getenv("KUBECONFIG"), *home = getenv("HOME");
    *files = (struct belfry_kubeconfig_files){0};
    if (path != NULL)
        return add_option(files, path, why);
    if (paths != NULL && *paths != '\0')
        return add_environment(files, paths, why);
    return home != NULL && *home != '\0' ? add_home(files, home, why) : BELFRY_OK;
}

void belfry_kubeconfig_files_fini(struct belfry_kubeconfig_files *files)
{
    for (size_t i = 0; i < files->n; i++) {
        explicit_bzero(files->texts[i], files->list[i].text.len);
        free(files->texts[i]);
        free(files->paths[i]);
    }
    files->n = 0;
}
