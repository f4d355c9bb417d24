/* src/cli/cmd_kube.c: belfryctl kube config. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/kubeconfig_text.h"
#include "cli/out/out.h"

#define FILE_MAX ((size_t)1 << 20) /* of a bundle of certificates; a system's whole one has 200 KiB */

enum { FILE_TOKEN, FILE_AUTHORITY, FILE_CERTIFICATE, FILE_KEY, N_FILES };

static const enum flag file_flags[N_FILES] = {
    [FILE_TOKEN] = FLAG_TOKEN_FILE,
    [FILE_AUTHORITY] = FLAG_CERTIFICATE_AUTHORITY,
    [FILE_CERTIFICATE] = FLAG_CLIENT_CERTIFICATE,
    [FILE_KEY] = FLAG_CLIENT_KEY,
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

static enum exit_code read_files(const struct flags *flags, struct file files[N_FILES])
{
    enum exit_code code = EXIT_DONE;
    for (int i = 0; i < N_FILES && code == EXIT_DONE; i++) {
        const char *path = flags->value[file_flags[i]];
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
    if (strcmp(flags->args[0], "config") != 0)
        return report_usage("kube knows one word: belfryctl kube config");
    if (flags->value[FLAG_TOKEN] != NULL && flags->value[FLAG_TOKEN_FILE] != NULL)
        return report_usage("--token and --token-file exclude each other: choose one");
    enum exit_code code = read_files(flags, files);
    if (code == EXIT_DONE) {
        struct kubeconfig config = {
            .server = flags->value[FLAG_SERVER],
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
    return code;
}
