/* src/kapi/kubeconfig_entry.c */
#include "kapi/kubeconfig_entry.h"

#include <stdlib.h>

#include "base/base64.h"
#include "base/secret.h"

/* ---- members ---- */

enum form { FORM_TEXT, FORM_PATH, FORM_PEM };

struct row {
    const char *key;
    enum form form;
    char **out;
};

enum belfry_err belfry_kubeconfig_text(const struct belfry_kube_members *members, const char *key, char **out)
{
    enum belfry_err err = belfry_kube_member_text(members, key, out);
    if (err == BELFRY_OK && *out != NULL && **out == '\0') {
        free(*out);
        *out = NULL;
    }
    return err;
}

/* Prefixes a relative path with the folder of `file`; consumes *path. */
static enum belfry_err put_folder(const char *file, char **path)
{
    const char *slash = strrchr(file, '/');
    if (**path == '/' || slash == NULL)
        return BELFRY_OK;
    size_t folder = (size_t)(slash - file) + 1, len = strlen(*path) + 1;
    char *joined = malloc(folder + len);
    if (joined != NULL) {
        memcpy(joined, file, folder);
        memcpy(joined + folder, *path, len);
    }
    free(*path);
    *path = joined;
    return joined == NULL ? BELFRY_ERR_NOMEM : BELFRY_OK;
}

/* Replaces base64 text by what it encodes. */
static enum belfry_err decode_base64(const struct belfry_kube_members *members, const char *key, char **text)
{
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    enum belfry_err err = belfry_base64_decode(BELFRY_BASE64_STANDARD, belfry_bytes_str(*text), &buf);
    belfry_secret_free(*text);
    *text = NULL;
    size_t len = belfry_buf_len(&buf);
    bool good = err == BELFRY_OK && len > 0 && memchr(buf.data, '\0', len) == NULL;
    if (good)
        err = belfry_buf_append(&buf, "", 1); /* never reallocates: base64 is longer than its content */
    if (good && err == BELFRY_OK) {
        *text = (char *)buf.data;
        return BELFRY_OK;
    }
    if (buf.data != NULL)
        explicit_bzero(buf.data, buf.cap);
    belfry_buf_fini(&buf);
    if (err == BELFRY_ERR_NOMEM)
        return err;
    return belfry_kube_member_wrong(
        members, key, err == BELFRY_OK ? "what it holds is no PEM" : "it must be base64 (RFC 4648 section 4)");
}

static enum belfry_err read_row(const struct belfry_kubeconfig_entry *entry, const struct row *row)
{
    enum belfry_err err = belfry_kubeconfig_text(&entry->members, row->key, row->out);
    if (err != BELFRY_OK || *row->out == NULL)
        return err;
    switch (row->form) {
    case FORM_TEXT:
        return BELFRY_OK;
    case FORM_PATH:
        return put_folder(entry->path, row->out);
    case FORM_PEM:
        return decode_base64(&entry->members, row->key, row->out);
    }
    return BELFRY_OK;
}

static enum belfry_err read_rows(const struct belfry_kubeconfig_entry *entry, const struct row *rows, size_t n)
{
    enum belfry_err err = BELFRY_OK;
    for (size_t i = 0; i < n && err == BELFRY_OK; i++)
        err = read_row(entry, &rows[i]);
    return err;
}

/* Whether the member exists and is not empty. */
static bool is_said(const struct belfry_kubeconfig_entry *entry, const char *key)
{
    yyjson_val *value = yyjson_obj_get(entry->members.object, key);
    bool nothing = value == NULL || yyjson_is_null(value) || yyjson_equals_str(value, "") ||
                   (yyjson_is_ctn(value) && unsafe_yyjson_get_len(value) == 0);
    return !nothing;
}

/* ---- a cluster ---- */

static enum belfry_err check_cluster(const struct belfry_kubeconfig_entry *entry,
                                     const struct belfry_kubeconfig *config)
{
    struct belfry_kube_fault *fault = entry->members.fault;
    if (is_said(entry, "proxy-url"))
        return belfry_kube_fault_say(fault,
                                     "cluster \"%.32s\" is reached through a proxy (proxy-url), which this library "
                                     "does not support: name a server that is reached directly",
                                     entry->name);
    if (config->server == NULL)
        return belfry_kube_fault_say(fault, "cluster \"%.32s\" has no server", entry->name);
    if (config->skip_verify && (config->cacert_file != NULL || config->cacert_pem != NULL))
        return belfry_kube_fault_say(fault,
                                     "cluster \"%.32s\" has both a certificate-authority and "
                                     "insecure-skip-tls-verify: remove one",
                                     entry->name);
    return BELFRY_OK;
}

enum belfry_err belfry_kubeconfig_cluster(const struct belfry_kubeconfig_entry *entry, struct belfry_kubeconfig *out)
{
    const struct row rows[] = {
        {"server", FORM_TEXT, &out->server},
        {"tls-server-name", FORM_TEXT, &out->server_name},
        {"certificate-authority", FORM_PATH, &out->cacert_file},
        {"certificate-authority-data", FORM_PEM, &out->cacert_pem},
    };
    enum belfry_err err = read_rows(entry, rows, sizeof(rows) / sizeof(rows[0]));
    if (err == BELFRY_OK)
        err = belfry_kube_member_bool(&entry->members, "insecure-skip-tls-verify", &out->skip_verify);
    return err == BELFRY_OK ? check_cluster(entry, out) : err;
}

/* ---- a user ---- */

#define INSTEAD "use a token (option \"token-file\") or a client certificate"

/* The text `key` inside the member `in`, for a sentence. */
static const char *shown(const struct belfry_kubeconfig_entry *entry, const char *in, const char *key)
{
    const char *text = yyjson_get_str(yyjson_obj_get(yyjson_obj_get(entry->members.object, in), key));
    const char *slash = text == NULL ? NULL : strrchr(text, '/');
    return text == NULL ? "?" : slash == NULL ? text : slash + 1;
}

/* Whether the member exists, even empty: kubectl does not treat that as missing. */
static bool is_there(const struct belfry_kubeconfig_entry *entry, const char *key)
{
    yyjson_val *value = yyjson_obj_get(entry->members.object, key);
    return value != NULL && !yyjson_is_null(value);
}

static enum belfry_err check_login(const struct belfry_kubeconfig_entry *entry)
{
    static const char *const impersonation[] = {"as", "as-uid", "as-groups", "as-user-extra"};
    struct belfry_kube_fault *fault = entry->members.fault;
    if (is_there(entry, "exec"))
        return belfry_kube_fault_say(
            fault, "user \"%.32s\" logs in by the program %.24s (exec), which this library does not run: " INSTEAD,
            entry->name, shown(entry, "exec", "command"));
    if (is_there(entry, "auth-provider"))
        return belfry_kube_fault_say(
            fault, "user \"%.32s\" logs in by %.24s (auth-provider), which this library does not know: " INSTEAD,
            entry->name, shown(entry, "auth-provider", "name"));
    if (is_said(entry, "username") || is_said(entry, "password"))
        return belfry_kube_fault_say(
            fault, "user \"%.32s\" logs in by name and password, which Kubernetes no longer accepts: " INSTEAD,
            entry->name);
    for (size_t i = 0; i < sizeof(impersonation) / sizeof(impersonation[0]); i++) {
        if (is_said(entry, impersonation[i]))
            return belfry_kube_fault_say(
                fault,
                "user \"%.32s\" impersonates another user (%s), which this library does not support: "
                "use the credentials of that user",
                entry->name, impersonation[i]);
    }
    return BELFRY_OK;
}

static enum belfry_err check_pair(const struct belfry_kubeconfig_entry *entry, const struct belfry_kubeconfig *config)
{
    bool cert = config->cert_file != NULL || config->cert_pem != NULL;
    bool key = config->key_file != NULL || config->key_pem != NULL;
    if (cert == key)
        return BELFRY_OK;
    return belfry_kube_fault_say(entry->members.fault, "user \"%.32s\" has a %s without its %s", entry->name,
                                 cert ? "client-certificate" : "client-key",
                                 cert ? "client-key" : "client-certificate");
}

enum belfry_err belfry_kubeconfig_user(const struct belfry_kubeconfig_entry *entry, struct belfry_kubeconfig *out)
{
    const struct row rows[] = {
        {"client-certificate", FORM_PATH, &out->cert_file}, {"client-certificate-data", FORM_PEM, &out->cert_pem},
        {"client-key", FORM_PATH, &out->key_file},          {"client-key-data", FORM_PEM, &out->key_pem},
        {"tokenFile", FORM_PATH, &out->token_file},         {"token", FORM_TEXT, &out->token},
    };
    enum belfry_err err = check_login(entry);
    if (err == BELFRY_OK)
        err = read_rows(entry, rows, sizeof(rows) / sizeof(rows[0]));
    return err == BELFRY_OK ? check_pair(entry, out) : err;
}
