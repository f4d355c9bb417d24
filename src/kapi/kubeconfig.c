/* src/kapi/kubeconfig.c
 *
 * All files are read, as by kubectl: an invalid file is an error even if nothing in it is used.
 */
#include "kapi/kubeconfig.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/secret.h"
#include "json/manifest.h"
#include "json/member.h"

#define NAMES_MAX 10 /* contexts named in a sentence */
#define PATH_SEEN 60 /* bytes of a path shown in a sentence, from its end */

static const struct section {
    const char *list, *one;
} contexts = {"contexts", "context"}, clusters = {"clusters", "cluster"}, users = {"users", "user"};

struct reader {
    const struct belfry_kubeconfig_file *files;
    size_t n_files;
    yyjson_doc **docs; /* owned; one per file read so far, else NULL */
    struct belfry_kube_fault fault;
    char *why; /* the caller's */
};

/* A named context, cluster or user. */
struct entry {
    const char *path; /* lent: the file that contains it */
    const char *name; /* lent */
    struct belfry_kube_members members;
};

/* ---- members ---- */

enum form { FORM_TEXT, FORM_PATH, FORM_PEM };

struct row {
    const char *key;
    enum form form;
    char **out;
};

/* A text; *out NULL: missing or empty, which is the same in a kubeconfig. Errors: BELFRY_ERR_INVALID with a sentence,
 * without the file's name, in members->fault; BELFRY_ERR_NOMEM. */
static enum belfry_err read_text(const struct belfry_kube_members *members, const char *key, char **out)
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

static enum belfry_err read_rows(const struct entry *entry, const struct row *rows, size_t n)
{
    enum belfry_err err = BELFRY_OK;
    for (const struct row *row = rows; row < rows + n && err == BELFRY_OK; row++) {
        err = read_text(&entry->members, row->key, row->out);
        if (err != BELFRY_OK || *row->out == NULL)
            continue;
        switch (row->form) {
        case FORM_TEXT:
            break;
        case FORM_PATH:
            err = put_folder(entry->path, row->out);
            break;
        case FORM_PEM:
            err = decode_base64(&entry->members, row->key, row->out);
            break;
        }
    }
    return err;
}

/* Whether the member exists and is not empty. */
static bool is_said(const struct entry *entry, const char *key)
{
    yyjson_val *value = yyjson_obj_get(entry->members.object, key);
    bool nothing = value == NULL || yyjson_is_null(value) || yyjson_equals_str(value, "") ||
                   (yyjson_is_ctn(value) && unsafe_yyjson_get_len(value) == 0);
    return !nothing;
}

/* ---- a cluster ---- */

/* Fills its part of *out, also if it fails. Errors: as read_text. */
static enum belfry_err read_cluster(const struct entry *entry, struct belfry_kubeconfig *out)
{
    struct belfry_kube_fault *fault = entry->members.fault;
    const struct row rows[] = {
        {"server", FORM_TEXT, &out->server},
        {"tls-server-name", FORM_TEXT, &out->server_name},
        {"certificate-authority", FORM_PATH, &out->cacert_file},
        {"certificate-authority-data", FORM_PEM, &out->cacert_pem},
    };
    enum belfry_err err = read_rows(entry, rows, sizeof(rows) / sizeof(rows[0]));
    if (err == BELFRY_OK)
        err = belfry_kube_member_bool(&entry->members, "insecure-skip-tls-verify", &out->skip_verify);
    if (err != BELFRY_OK)
        return err;

    if (is_said(entry, "proxy-url"))
        return belfry_kube_fault_say(fault,
                                     "cluster \"%.32s\" is reached through a proxy (proxy-url), which this library "
                                     "does not support: name a server that is reached directly",
                                     entry->name);
    if (out->server == NULL)
        return belfry_kube_fault_say(fault, "cluster \"%.32s\" has no server", entry->name);
    if (out->skip_verify && (out->cacert_file != NULL || out->cacert_pem != NULL))
        return belfry_kube_fault_say(fault,
                                     "cluster \"%.32s\" has both a certificate-authority and "
                                     "insecure-skip-tls-verify: remove one",
                                     entry->name);
    return BELFRY_OK;
}

/* ---- a user ---- */

#define INSTEAD "use a token (option \"token-file\") or a client certificate"

/* The text `key` inside the member `in`, for a sentence. */
static const char *shown(const struct entry *entry, const char *in, const char *key)
{
    const char *text = yyjson_get_str(yyjson_obj_get(yyjson_obj_get(entry->members.object, in), key));
    const char *slash = text == NULL ? NULL : strrchr(text, '/');
    return text == NULL ? "?" : slash == NULL ? text : slash + 1;
}

/* Whether the member exists, even empty: kubectl does not treat that as missing. */
static bool is_there(const struct entry *entry, const char *key)
{
    yyjson_val *value = yyjson_obj_get(entry->members.object, key);
    return value != NULL && !yyjson_is_null(value);
}

static enum belfry_err check_login(const struct entry *entry)
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

/* Fills its part of *out, also if it fails. Errors: as read_text. */
static enum belfry_err read_user(const struct entry *entry, struct belfry_kubeconfig *out)
{
    const struct row rows[] = {
        {"client-certificate", FORM_PATH, &out->cert_file}, {"client-certificate-data", FORM_PEM, &out->cert_pem},
        {"client-key", FORM_PATH, &out->key_file},          {"client-key-data", FORM_PEM, &out->key_pem},
        {"tokenFile", FORM_PATH, &out->token_file},         {"token", FORM_TEXT, &out->token},
    };
    enum belfry_err err = check_login(entry);
    if (err == BELFRY_OK)
        err = read_rows(entry, rows, sizeof(rows) / sizeof(rows[0]));
    if (err != BELFRY_OK)
        return err;

    bool cert = out->cert_file != NULL || out->cert_pem != NULL, key = out->key_file != NULL || out->key_pem != NULL;
    if (cert == key)
        return BELFRY_OK;
    return belfry_kube_fault_say(entry->members.fault, "user \"%.32s\" has a %s without its %s", entry->name,
                                 cert ? "client-certificate" : "client-key",
                                 cert ? "client-key" : "client-certificate");
}

/* ---- sentences ---- */

/* Writes the fault and its place, with the end of a long path, to `why`. Returns the error. */
static enum belfry_err report_in_file(struct reader *r, const char *path, enum belfry_err err)
{
    size_t len = strlen(path);
    const char *seen = len > PATH_SEEN ? path + len - PATH_SEEN : path;
    while (seen > path && (*seen & 0xC0) == 0x80) /* start at a complete UTF-8 character */
        seen++;
    if (err == BELFRY_ERR_INVALID || err == BELFRY_ERR_NOT_FOUND)
        snprintf(r->why, BELFRY_KUBECONFIG_WHY, "%s%s: %.190s", seen > path ? "..." : "", seen, r->fault.text);
    return err;
}

static struct belfry_kube_members root_of(struct reader *r, size_t file)
{
    return (struct belfry_kube_members){.object = yyjson_doc_get_root(r->docs[file]), .fault = &r->fault};
}

struct names {
    const char *list[NAMES_MAX]; /* lent, each once */
    size_t n;
    char text[112]; /* "a, b, c"; ends in "..." if not all fit */
    size_t len;
};

/* False: no room for more. */
static bool add_name(struct names *names, const char *name)
{
    for (size_t i = 0; i < names->n; i++) {
        if (strcmp(names->list[i], name) == 0)
            return true;
    }
    bool full = names->n == NAMES_MAX || names->len + strlen(name) + sizeof(", , ...") > sizeof(names->text);
    names->len += (size_t)snprintf(names->text + names->len, sizeof(names->text) - names->len, "%s%s",
                                   names->n == 0 ? "" : ", ", full ? "..." : name);
    if (!full)
        names->list[names->n++] = name;
    return !full;
}

/* Lists the existing contexts. */
static void list_names(struct reader *r, struct names *names)
{
    *names = (struct names){.text = "none"};
    for (size_t i = 0; i < r->n_files; i++) {
        yyjson_arr_iter iter = yyjson_arr_iter_with(yyjson_obj_get(root_of(r, i).object, contexts.list));
        for (yyjson_val *val; (val = yyjson_arr_iter_next(&iter)) != NULL;) {
            const char *name = yyjson_get_str(yyjson_obj_get(val, "name"));
            if (name != NULL && !add_name(names, name))
                return;
        }
    }
}

static enum belfry_err no_context(struct reader *r, const char *name)
{
    struct names names;
    char where[32];
    list_names(r, &names);
    if (name == NULL)
        belfry_ignore(belfry_kube_fault_say(
            &r->fault, "no current-context is set: choose one by the option \"context\"; there are: %s", names.text));
    else
        belfry_ignore(
            belfry_kube_fault_say(&r->fault, "there is no context \"%.32s\"; there are: %s", name, names.text));
    snprintf(where, sizeof(where), "%zu files", r->n_files);
    return report_in_file(r, r->n_files == 1 ? r->files[0].path : where, BELFRY_ERR_NOT_FOUND);
}

/* ---- files ---- */

static enum belfry_err check_word(const struct belfry_kube_members *root, const char *key, const char *word)
{
    yyjson_val *value = yyjson_obj_get(root->object, key);
    if (value == NULL || yyjson_is_null(value) || yyjson_equals_str(value, word) || yyjson_equals_str(value, ""))
        return BELFRY_OK;
    return belfry_kube_member_wrong(root, key, "this is not a kubeconfig: it must be \"%s\"", word);
}

static enum belfry_err read_kubeconfig(struct reader *r, size_t file)
{
    enum belfry_err err = belfry_kube_manifest_read(r->files[file].text, &r->docs[file], &r->fault);
    if (err != BELFRY_OK)
        return err;
    struct belfry_kube_members root = root_of(r, file);
    err = check_word(&root, "apiVersion", "v1");
    return err == BELFRY_OK ? check_word(&root, "kind", "Config") : err;
}

/* ---- entries ---- */

/* *out_found: the file has an entry of that name. */
static enum belfry_err find_entry_in(struct reader *r, size_t file, const struct section *section, const char *name,
                                     struct entry *out, bool *out_found)
{
    struct belfry_kube_members root = root_of(r, file), element;
    yyjson_val *list, *val;
    size_t i = 0;
    enum belfry_err err = belfry_kube_member_list(&root, section->list, SIZE_MAX, &list);
    *out_found = false;
    yyjson_arr_iter iter = yyjson_arr_iter_with(list);
    for (; err == BELFRY_OK && (val = yyjson_arr_iter_next(&iter)) != NULL; i++) {
        err = belfry_kube_member_element(&root, section->list, i, val, &element);
        if (err != BELFRY_OK || !yyjson_equals_str(yyjson_obj_get(val, "name"), name))
            continue;
        if (*out_found)
            return belfry_kube_member_wrong(&element, "name", "the %s \"%.32s\" is there twice: keep one", section->one,
                                            name);
        *out_found = true;
        *out = (struct entry){.path = r->files[file].path, .name = name};
        err = belfry_kube_member_object(&element, section->one, &out->members);
    }
    return err;
}

/* Errors: BELFRY_ERR_NOT_FOUND, which the caller reports; other errors are already reported. */
static enum belfry_err find_entry(struct reader *r, const struct section *section, const char *name, struct entry *out)
{
    for (size_t i = 0; i < r->n_files; i++) {
        bool found;
        enum belfry_err err = find_entry_in(r, i, section, name, out, &found);
        if (err != BELFRY_OK || found)
            return report_in_file(r, r->files[i].path, err);
    }
    return BELFRY_ERR_NOT_FOUND;
}

typedef enum belfry_err (*fill_fn)(const struct entry *entry, struct belfry_kubeconfig *out);

/* Reads the context's cluster or user. A context needs no user. */
static enum belfry_err read_entry_of(struct reader *r, const struct entry *context, const struct section *section,
                                     fill_fn fill, struct belfry_kubeconfig *out)
{
    struct entry entry;
    char *name;
    enum belfry_err err = read_text(&context->members, section->one, &name);
    if (err != BELFRY_OK || (name == NULL && section == &users))
        return report_in_file(r, context->path, err);
    err = name == NULL ? BELFRY_ERR_NOT_FOUND : find_entry(r, section, name, &entry);
    if (err == BELFRY_OK) {
        err = report_in_file(r, entry.path, fill(&entry, out));
    } else if (err == BELFRY_ERR_NOT_FOUND) {
        if (name == NULL)
            belfry_ignore(
                belfry_kube_fault_say(&r->fault, "context \"%.32s\" names no %s", context->name, section->one));
        else
            belfry_ignore(belfry_kube_fault_say(&r->fault, "context \"%.32s\" names the %s \"%.32s\", which is nowhere",
                                                context->name, section->one, name));
        err = report_in_file(r, context->path, BELFRY_ERR_NOT_FOUND);
    }
    free(name);
    return err;
}

/* ---- the whole ---- */

/* The first current-context that a file sets; NULL: none. The caller frees it. */
static enum belfry_err find_current(struct reader *r, char **out)
{
    *out = NULL;
    for (size_t i = 0; i < r->n_files && *out == NULL; i++) {
        struct belfry_kube_members root = root_of(r, i);
        enum belfry_err err = read_text(&root, "current-context", out);
        if (err != BELFRY_OK)
            return report_in_file(r, r->files[i].path, err);
    }
    return BELFRY_OK;
}

static enum belfry_err read_context(struct reader *r, const char *name, enum belfry_kubeconfig_parts parts,
                                    struct belfry_kubeconfig *out)
{
    struct entry entry;
    enum belfry_err err = name == NULL ? BELFRY_ERR_NOT_FOUND : find_entry(r, &contexts, name, &entry);
    if (err == BELFRY_ERR_NOT_FOUND)
        return no_context(r, name);
    if (err == BELFRY_OK)
        err = report_in_file(r, entry.path, read_text(&entry.members, "namespace", &out->ns));
    if (err == BELFRY_OK)
        err = read_entry_of(r, &entry, &clusters, read_cluster, out);
    if (err == BELFRY_OK && parts == BELFRY_KUBECONFIG_WHOLE)
        err = read_entry_of(r, &entry, &users, read_user, out);
    return err;
}

static enum belfry_err read_files(struct reader *r, const char *context, enum belfry_kubeconfig_parts parts,
                                  struct belfry_kubeconfig *out)
{
    char *current = NULL;
    enum belfry_err err = BELFRY_OK;
    for (size_t i = 0; i < r->n_files && err == BELFRY_OK; i++)
        err = report_in_file(r, r->files[i].path, read_kubeconfig(r, i));
    if (err == BELFRY_OK)
        err = find_current(r, &current);
    if (err == BELFRY_OK)
        err = read_context(r, context != NULL && *context != '\0' ? context : current, parts, out);
    free(current);
    return err;
}

enum belfry_err belfry_kubeconfig_read(const struct belfry_kubeconfig_file *files, size_t n_files, const char *context,
                                       enum belfry_kubeconfig_parts parts, struct belfry_kubeconfig *out, char *why)
{
    struct reader r = {.files = files, .n_files = n_files, .why = why};
    struct belfry_kubeconfig config = {0};
    r.docs = calloc(n_files + 1, sizeof(*r.docs)); /* + 1: never zero */
    enum belfry_err err = r.docs == NULL ? BELFRY_ERR_NOMEM : read_files(&r, context, parts, &config);
    for (size_t i = 0; r.docs != NULL && i < n_files; i++)
        yyjson_doc_free(r.docs[i]);
    free(r.docs);
    if (err == BELFRY_OK)
        *out = config;
    else
        belfry_kubeconfig_fini(&config);
    if (err == BELFRY_ERR_NOMEM)
        snprintf(why, BELFRY_KUBECONFIG_WHY, "%s", belfry_strerror(err));
    return err;
}

void belfry_kubeconfig_fini(struct belfry_kubeconfig *config)
{
    char *texts[] = {config->server,   config->server_name, config->cacert_file, config->cert_file,
                     config->key_file, config->token_file,  config->cacert_pem,  config->cert_pem,
                     config->key_pem,  config->token,       config->ns};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        belfry_secret_free(texts[i]);
    *config = (struct belfry_kubeconfig){0};
}
