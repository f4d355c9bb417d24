/* src/kapi/settings.c */
#include "kapi/settings.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/secret.h"
#include "client/opts.h"
#include "kapi/file.h"
#include "kapi/pod.h"
#include "kapi/server_url.h"
#include "json/manifest.h"

#define NAMESPACE_MAX 63 /* a label of RFC 1123 */
#define FILES_MAX     32 /* files that $KUBECONFIG may name */

/* The texts of the kubeconfig files, each of at most KUBE_MANIFEST_MAX. They hold secrets and are wiped. */
struct files {
    struct belfry_kubeconfig_file list[FILES_MAX];
    size_t n;
    char *paths[FILES_MAX], *texts[FILES_MAX]; /* owned; the list points to them */
    size_t n_there;                            /* including empty files */
};

__attribute__((format(printf, 3, 4))) static enum belfry_err say(char *why, enum belfry_err err, const char *format,
                                                                 ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, BELFRY_KUBECONFIG_WHY, format, args);
    va_end(args);
    return err;
}

/* The text of an option; NULL: not set, or empty. */
static const char *option(const struct belfry_opts *opts, enum belfry_opt opt)
{
    const char *text = belfry_opts_text(opts, opt);
    return text == NULL || *text == '\0' ? NULL : text;
}

/* ---- kubeconfig files ---- */

/* Reads the file into `text`, of KUBE_MANIFEST_MAX. Stores how many bytes were read, also on failure. Errors:
 * BELFRY_ERR_NOT_FOUND (the file does not exist), BELFRY_ERR_INVALID (unreadable, too large); BELFRY_ERR_NOMEM. */
static enum belfry_err read_file(const char *path, char *text, size_t *out_len, char *why)
{
    int problem = belfry_file_read(path, text, KUBE_MANIFEST_MAX, out_len);
    if (problem == 0)
        return BELFRY_OK;
    if (problem == ENOMEM)
        return BELFRY_ERR_NOMEM;
    return say(why, problem == ENOENT || problem == ENOTDIR ? BELFRY_ERR_NOT_FOUND : BELFRY_ERR_INVALID,
               "kubeconfig %.160s: %s", path, problem == EFBIG ? "it is larger than 3 MiB" : strerror(problem));
}

static bool is_blank(const char *text, size_t len)
{
    while (len > 0 && strchr(" \t\r\n", text[len - 1]) != NULL)
        len--;
    return len == 0;
}

/* Consumes `path`; NULL means that there was no memory for it. An empty file is skipped: KUBECONFIG=/dev/null means no
 * kubeconfig. Errors: as read_file(). */
static enum belfry_err add_file(struct files *files, char *path, char *why)
{
    size_t len = 0;
    char *text = malloc(KUBE_MANIFEST_MAX); /* pages that are not written use no memory */
    enum belfry_err err = path == NULL || text == NULL ? BELFRY_ERR_NOMEM : read_file(path, text, &len, why);
    files->n_there += err == BELFRY_OK;
    if (err != BELFRY_OK || is_blank(text, len)) {
        if (text != NULL)
            explicit_bzero(text, len); /* it may begin with a password */
        free(text);
        free(path);
        return err;
    }
    files->list[files->n] = (struct belfry_kubeconfig_file){path, belfry_bytes_of(text, len)};
    files->paths[files->n] = path;
    files->texts[files->n++] = text;
    return BELFRY_OK;
}

/* Reads the files that $KUBECONFIG names and that exist; at least one must. */
static enum belfry_err add_environment(struct files *files, const char *paths, char *why)
{
    for (const char *at = paths; *at != '\0'; at += *at == ':') {
        size_t len = strcspn(at, ":");
        if (len > 0 && files->n == FILES_MAX)
            return say(why, BELFRY_ERR_INVALID, "$KUBECONFIG names more than %d files", FILES_MAX);
        enum belfry_err err = len == 0 ? BELFRY_OK : add_file(files, strndup(at, len), why);
        if (err != BELFRY_OK && err != BELFRY_ERR_NOT_FOUND)
            return err;
        at += len;
    }
    if (files->n_there > 0)
        return BELFRY_OK;
    return say(why, BELFRY_ERR_NOT_FOUND, "$KUBECONFIG names no file that is there: %.160s", paths);
}

/* Reads the file at `path`; if NULL, the files of $KUBECONFIG; if that is not set, ~/.kube/config if it exists. n may
 * be 0 afterwards. Call files_fini() in any case. Errors: as add_file; a file at `path` that is empty is INVALID. */
static enum belfry_err files_read(struct files *files, const char *path, char *why)
{
    const char *paths = getenv("KUBECONFIG"), *home = getenv("HOME");
    *files = (struct files){0};
    if (path != NULL) {
        enum belfry_err err = add_file(files, strdup(path), why);
        if (err != BELFRY_OK || files->n > 0)
            return err;
        return say(why, BELFRY_ERR_INVALID, "kubeconfig %.160s: the file is empty", path);
    }
    if (paths != NULL && *paths != '\0')
        return add_environment(files, paths, why);
    if (home == NULL || *home == '\0')
        return BELFRY_OK;

    static const char name[] = "/.kube/config";
    size_t cap = strlen(home) + sizeof(name);
    char *in_home = malloc(cap);
    if (in_home != NULL)
        snprintf(in_home, cap, "%s%s", home, name);
    enum belfry_err err = add_file(files, in_home, why);
    return err == BELFRY_ERR_NOT_FOUND ? BELFRY_OK : err;
}

static void files_fini(struct files *files)
{
    for (size_t i = 0; i < files->n; i++) {
        explicit_bzero(files->texts[i], files->list[i].text.len);
        free(files->texts[i]);
        free(files->paths[i]);
    }
    files->n = 0;
}

/* ---- sources ---- */

static enum belfry_kubeconfig_parts parts_of(const struct belfry_opts *opts)
{
    static const enum belfry_opt credentials[] = {BELFRY_OPT_TOKEN, BELFRY_OPT_TOKEN_FILE, BELFRY_OPT_CERT,
                                                  BELFRY_OPT_KEY};
    for (size_t i = 0; i < sizeof(credentials) / sizeof(credentials[0]); i++) {
        if (option(opts, credentials[i]) != NULL)
            return BELFRY_KUBECONFIG_NO_USER;
    }
    return BELFRY_KUBECONFIG_WHOLE;
}

static enum belfry_err take_server(const struct belfry_opts *opts, struct belfry_kubeconfig *out, char *why)
{
    bool file = option(opts, BELFRY_OPT_KUBECONFIG) != NULL;
    if (file || option(opts, BELFRY_OPT_CONTEXT) != NULL)
        return say(why, BELFRY_ERR_INVALID,
                   "the options server and %s exclude each other: a server given by option takes nothing from a file",
                   file ? "kubeconfig" : "context");
    out->server = strdup(option(opts, BELFRY_OPT_SERVER));
    return out->server == NULL ? BELFRY_ERR_NOMEM : BELFRY_OK;
}

static enum belfry_err take_nothing(const char *context, char *why)
{
    const char *paths = getenv("KUBECONFIG"), *home = getenv("HOME");
    if (context != NULL)
        return say(why, BELFRY_ERR_NOT_FOUND, "there is no kubeconfig to look for the context \"%.64s\" in", context);
    if (paths != NULL && *paths != '\0')
        return say(
            why, BELFRY_ERR_NOT_FOUND,
            "no server is named: not by the options server and kubeconfig, $KUBECONFIG is empty (%.60s), and this "
            "is no pod ($KUBERNETES_SERVICE_HOST, _PORT)",
            paths);
    return say(why, BELFRY_ERR_NOT_FOUND,
               "no server is named: not by the options server and kubeconfig, $KUBECONFIG is not set, "
               "%.60s/.kube/config is missing or empty, and this is no pod ($KUBERNETES_SERVICE_HOST, _PORT)",
               home == NULL ? "$HOME" : home);
}

static enum belfry_err take_files(const struct belfry_opts *opts, const char *dir, struct belfry_kubeconfig *out,
                                  char *why)
{
    const char *context = option(opts, BELFRY_OPT_CONTEXT);
    struct files files;
    enum belfry_err err = files_read(&files, option(opts, BELFRY_OPT_KUBECONFIG), why);
    if (err == BELFRY_OK && files.n > 0)
        err = belfry_kubeconfig_read(files.list, files.n, context, parts_of(opts), out, why);
    else if (err == BELFRY_OK && context == NULL && belfry_pod_is_here())
        err = belfry_pod_read(dir, parts_of(opts), out, why);
    else if (err == BELFRY_OK)
        err = take_nothing(context, why);
    files_fini(&files);
    return err;
}

/* ---- options replace values ---- */

/* Replaces *text by a copy of `to`, which may be NULL. */
static enum belfry_err set_text(char **text, const char *to)
{
    char *copy = to == NULL ? NULL : strdup(to);
    if (to != NULL && copy == NULL)
        return BELFRY_ERR_NOMEM;
    belfry_secret_free(*text);
    *text = copy;
    return BELFRY_OK;
}

/* An authority and insecure-skip-tls-verify exclude each other: the option replaces both. */
static enum belfry_err replace_authority(const struct belfry_opts *opts, struct belfry_kubeconfig *config, char *why)
{
    const char *cacert = option(opts, BELFRY_OPT_CACERT);
    bool said = belfry_opts_is_set(opts, BELFRY_OPT_SKIP_VERIFY);
    bool skip = said && belfry_opts_number(opts, BELFRY_OPT_SKIP_VERIFY) != 0;
    if (skip && cacert != NULL)
        return say(why, BELFRY_ERR_INVALID,
                   "the options cacert and insecure-skip-tls-verify exclude each other: choose one");
    if (said || cacert != NULL)
        config->skip_verify = skip;
    if (!skip && cacert == NULL)
        return BELFRY_OK;
    belfry_ignore(set_text(&config->cacert_pem, NULL)); /* NULL needs no memory */
    return set_text(&config->cacert_file, cacert);
}

static enum belfry_err replace_texts(const struct belfry_opts *opts, struct belfry_kubeconfig *config)
{
    const struct {
        enum belfry_opt opt;
        char **text;
    } rows[] = {{BELFRY_OPT_SERVER_NAME, &config->server_name},
                {BELFRY_OPT_NAMESPACE, &config->ns},
                {BELFRY_OPT_TOKEN, &config->token},
                {BELFRY_OPT_TOKEN_FILE, &config->token_file},
                {BELFRY_OPT_CERT, &config->cert_file},
                {BELFRY_OPT_KEY, &config->key_file}};
    enum belfry_err err = BELFRY_OK;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && err == BELFRY_OK; i++) {
        if (option(opts, rows[i].opt) != NULL)
            err = set_text(rows[i].text, option(opts, rows[i].opt));
    }
    return err;
}

/* ---- checks ---- */

static enum belfry_err check_namespace(struct belfry_kubeconfig *config, char *why)
{
    if (config->ns == NULL)
        return set_text(&config->ns, "default");
    const char *ns = config->ns;
    size_t len = strlen(ns);
    bool inside = strspn(ns, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
    if (!inside || len == 0 || len > NAMESPACE_MAX || ns[0] == '-' || ns[len - 1] == '-')
        return say(why, BELFRY_ERR_INVALID,
                   "the namespace is not valid: it must have 1 to 63 lower-case letters, digits and '-', which is "
                   "neither first "
                   "nor last");
    return BELFRY_OK;
}

static enum belfry_err check_token(const struct belfry_kube_settings *settings, char *why)
{
    const struct belfry_kubeconfig *config = &settings->config;
    bool token = config->token != NULL || config->token_file != NULL;
    if (token && !settings->endpoint.tls && !belfry_endpoint_is_loopback(&settings->endpoint))
        return say(why, BELFRY_ERR_INVALID,
                   "a token is not sent over plain http: write https://, or remove the token (server %.80s)",
                   settings->endpoint.url);
    char byte;
    size_t len;
    int problem = config->token_file == NULL ? 0 : belfry_file_read(config->token_file, &byte, 1, &len);
    if (problem != 0 && problem != EFBIG)
        return say(why, problem == ENOMEM ? BELFRY_ERR_NOMEM : BELFRY_ERR_INVALID, "token file %.160s: %s",
                   config->token_file, strerror(problem));
    return BELFRY_OK;
}

static enum belfry_err read_settings(const struct belfry_opts *opts, const char *dir,
                                     struct belfry_kube_settings *settings, char *why)
{
    struct belfry_kubeconfig *config = &settings->config;
    enum belfry_err err =
        option(opts, BELFRY_OPT_SERVER) != NULL ? take_server(opts, config, why) : take_files(opts, dir, config, why);
    bool cert = option(opts, BELFRY_OPT_CERT) != NULL, key = option(opts, BELFRY_OPT_KEY) != NULL;
    if (err == BELFRY_OK && cert != key)
        err = say(why, BELFRY_ERR_INVALID, "the option %s needs %s, too", cert ? "cert" : "key", cert ? "key" : "cert");
    if (err == BELFRY_OK)
        err = replace_authority(opts, config, why);
    if (err == BELFRY_OK)
        err = replace_texts(opts, config);
    if (err == BELFRY_OK)
        err = check_namespace(config, why);
    if (err == BELFRY_OK)
        err = belfry_server_url_parse(config->server, &settings->endpoint, &settings->base, why, BELFRY_KUBECONFIG_WHY);
    return err == BELFRY_OK ? check_token(settings, why) : err;
}

enum belfry_err belfry_kube_settings_read(const struct belfry_opts *opts, const char *dir,
                                          struct belfry_kube_settings *out, char *why)
{
    struct belfry_kube_settings settings = {0};
    enum belfry_err err = read_settings(opts, dir, &settings, why);
    if (err == BELFRY_OK)
        *out = settings;
    else
        belfry_kube_settings_fini(&settings);
    if (err == BELFRY_ERR_NOMEM)
        say(why, err, "%s", belfry_strerror(err));
    return err;
}

void belfry_kube_settings_fini(struct belfry_kube_settings *settings)
{
    belfry_kubeconfig_fini(&settings->config);
    free(settings->base);
    *settings = (struct belfry_kube_settings){0};
}
