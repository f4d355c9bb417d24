/* src/cli/cmd_kube.c: belfryctl kube config. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/kubeconfig_text.h"
#include "cli/one_call.h"
#include "cli/out/out.h"

#define FILE_MAX ((size_t)1 << 20) /* of a bundle of certificates; a system's whole one has 200 KiB */

enum { FILE_TOKEN, FILE_AUTHORITY, FILE_CERTIFICATE, FILE_KEY, N_FILES };

/* kubectl's word for a file, and the word that the other commands have for it. */
static const struct {
    enum flag ours, general;
} file_flags[N_FILES] = {
    [FILE_TOKEN] = {FLAG_TOKEN_FILE, FLAG_TOKEN_FILE},
    [FILE_AUTHORITY] = {FLAG_CERTIFICATE_AUTHORITY, FLAG_CACERT},
    [FILE_CERTIFICATE] = {FLAG_CLIENT_CERTIFICATE, FLAG_CERT},
    [FILE_KEY] = {FLAG_CLIENT_KEY, FLAG_KEY},
};

/* What was read, ended by a zero byte that does not count. */
struct file {
    char *data; /* owned; NULL: none was named */
    size_t len;
};

static void forget(struct file *file)
{
    if (file->data != NULL)
        explicit_bzero(file->data, FILE_MAX + 1);
    free(file->data);
    *file = (struct file){0};
}

static enum exit_code refuse(const char *path, const char *what)
{
    fprintf(stderr, "belfryctl: %s: %s\n", path, what);
    return EXIT_FAILED;
}

static enum exit_code fill(FILE *in, const char *path, struct file *file)
{
    setvbuf(in, NULL, _IONBF, 0); /* no second copy of a key */
    file->len = fread(file->data, 1, FILE_MAX + 1, in);
    if (ferror(in))
        return report_errno(path);
    if (file->len > FILE_MAX)
        return refuse(path, "is larger than 1 MiB");
    file->data[file->len] = '\0';
    return EXIT_DONE;
}

static enum exit_code read_file(const char *path, struct file *file)
{
    FILE *in = fopen(path, "re");
    if (in == NULL)
        return report_errno(path);
    file->data = malloc(FILE_MAX + 1);
    enum exit_code code = file->data == NULL ? report_error(BELFRY_ERR_NOMEM, NULL) : fill(in, path, file);
    fclose(in);
    return code;
}

/* A token's is its first line, as in --password-file. */
static enum exit_code understand(int which, const char *path, struct file *file)
{
    if (which == FILE_TOKEN)
        file->data[strcspn(file->data, "\r\n")] = '\0';
    else if (memmem(file->data, file->len, "-----BEGIN ", 11) == NULL)
        return refuse(path, "there is nothing in it in the form of PEM (-----BEGIN ...)");
    return EXIT_DONE;
}

/* ---- flags that mean the same ---- */

static bool on_command_line(const struct flags *flags, enum flag id)
{
    return flags->source[id] == FROM_COMMAND_LINE;
}

/* Only the command line counts for the general flag: in the environment it is usually etcd's (ETCDCTL_CACERT). */
static enum flag chosen(const struct flags *flags, enum flag ours, enum flag general)
{
    return !flags_given(flags, ours) && on_command_line(flags, general) ? general : ours;
}

static enum exit_code check_pair(const struct flags *flags, enum flag ours, enum flag general)
{
    char why[FLAGS_WHY];
    if (ours == general || !on_command_line(flags, ours) || !on_command_line(flags, general))
        return EXIT_DONE;
    snprintf(why, sizeof(why), "--%s and --%s mean the same: give one of them", flags_row(ours, CMD_KUBE)->name,
             flags_row(general, CMD_KUBE)->name);
    return report_usage(why);
}

static enum exit_code check_flags(const struct flags *flags)
{
    static const enum flag logins[] = {FLAG_USER, FLAG_PASSWORD, FLAG_PASSWORD_FILE};
    char why[FLAGS_WHY];
    if (flags->value[FLAG_TOKEN] != NULL && flags->value[FLAG_TOKEN_FILE] != NULL)
        return report_usage("--token and --token-file exclude each other: choose one");
    for (size_t i = 0; i < sizeof(logins) / sizeof(logins[0]); i++)
        if (on_command_line(flags, logins[i])) {
            snprintf(why, sizeof(why),
                     "--%s: Kubernetes clients have no passwords: give --token-file, or --cert and "
                     "--key",
                     flags_row(logins[i], CMD_KUBE)->name);
            return report_usage(why);
        }
    enum exit_code code = check_pair(flags, FLAG_SERVER, FLAG_ENDPOINTS);
    for (int i = 0; i < N_FILES && code == EXIT_DONE; i++)
        code = check_pair(flags, file_flags[i].ours, file_flags[i].general);
    return code;
}

/* --server, or the one endpoint of --endpoints with its scheme; the caller frees *out. */
static enum exit_code find_server(const struct flags *flags, char **out)
{
    char *server = NULL;
    if (chosen(flags, FLAG_SERVER, FLAG_ENDPOINTS) == FLAG_SERVER) {
        server = strdup(flags->value[FLAG_SERVER]);
    } else if (strchr(flags->value[FLAG_ENDPOINTS], ',') != NULL) {
        return report_usage("--endpoints: a kubeconfig names one server: give one endpoint");
    } else {
        char *text;
        if (session_endpoints(flags, &text) != BELFRY_OK)
            return report_error(BELFRY_ERR_NOMEM, NULL);
        size_t size = strlen("http://") + strlen(text) + 1;
        server = malloc(size);
        if (server != NULL)
            snprintf(server, size, "%s%s", strstr(text, "://") == NULL ? "http://" : "", text);
        free(text);
    }
    *out = server;
    return server != NULL ? EXIT_DONE : report_error(BELFRY_ERR_NOMEM, NULL);
}

static enum exit_code read_files(const struct flags *flags, struct file files[N_FILES])
{
    enum exit_code code = EXIT_DONE;
    for (int i = 0; i < N_FILES && code == EXIT_DONE; i++) {
        const char *path = flags->value[chosen(flags, file_flags[i].ours, file_flags[i].general)];
        if (path == NULL)
            continue;
        code = read_file(path, &files[i]);
        if (code == EXIT_DONE)
            code = understand(i, path, &files[i]);
    }
    return code;
}

static enum exit_code print(const struct kubeconfig *config)
{
    char why[FLAGS_WHY];
    if (kubeconfig_check(config, why) != BELFRY_OK)
        return report_usage(why);
    if (kubeconfig_warning(config) != NULL)
        fprintf(stderr, "belfryctl: %s\n", kubeconfig_warning(config));
    kubeconfig_write(stdout, config);
    return out_flush() == OUT_BROKEN ? EXIT_FAILED : EXIT_DONE;
}

static struct belfry_bytes bytes_of(const struct file *file)
{
    return (struct belfry_bytes){file->data, file->len};
}

enum exit_code cmd_kube(const struct flags *flags)
{
    struct file files[N_FILES] = {0};
    char *server = NULL;
    if (strcmp(flags->args[0], "config") != 0)
        return report_usage("kube knows one word: belfryctl kube config");
    enum exit_code code = check_flags(flags);
    if (code == EXIT_DONE)
        code = find_server(flags, &server);
    if (code == EXIT_DONE)
        code = read_files(flags, files);
    if (code == EXIT_DONE) {
        struct kubeconfig config = {
            .server = server,
            .name = flags->value[FLAG_NAME],
            .namespace = flags->value[FLAG_NAMESPACE],
            .token = flags->value[FLAG_TOKEN] != NULL ? flags->value[FLAG_TOKEN] : files[FILE_TOKEN].data,
            .server_name = flags->value[FLAG_SERVER_NAME],
            .skip_verify = flags_on(flags, FLAG_INSECURE_SKIP_TLS_VERIFY),
            .authority = bytes_of(&files[FILE_AUTHORITY]),
            .certificate = bytes_of(&files[FILE_CERTIFICATE]),
            .key = bytes_of(&files[FILE_KEY]),
        };
        code = print(&config);
    }
    for (int i = 0; i < N_FILES; i++)
        forget(&files[i]);
    free(server);
    return code;
}
