/* src/base/secret_file.c */
#include "base/secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct told {
    const char *path;
    char *why;
    size_t why_len;
};

__attribute__((format(printf, 2, 3))) static enum belfry_err secret_file_fail(const struct told *told,
                                                                              const char *format, ...)
{
    va_list args;
    int n = snprintf(told->why, told->why_len, "%.200s ", told->path);
    if (n < 0 || (size_t)n >= told->why_len)
        return BELFRY_ERR_INVALID;
    va_start(args, format);
    vsnprintf(told->why + n, told->why_len - (size_t)n, format, args);
    va_end(args);
    return BELFRY_ERR_INVALID;
}

static enum belfry_err read_open_file(int fd, size_t max_bytes, struct belfry_buf *out, const struct told *told)
{
    struct stat about;
    uint8_t *to;
    size_t len = 0;
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode))
        return secret_file_fail(told, "is no file that can be read");
    if ((about.st_mode & (S_IROTH | S_IWOTH)) != 0)
        return secret_file_fail(told, "can be %s by every user of this machine: run chmod o-rwx on it",
                                (about.st_mode & S_IROTH) != 0 ? "read" : "written");
    if (belfry_buf_reserve(out, max_bytes + 1, &to) != BELFRY_OK) /* once: growth would leave copies behind */
        return BELFRY_ERR_NOMEM;
    for (ssize_t n; len <= max_bytes; len += (size_t)n) {
        n = read(fd, to + len, max_bytes + 1 - len);
        if (n < 0)
            return secret_file_fail(told, "cannot be read: %s", strerror(errno));
        if (n == 0) {
            belfry_buf_grown(out, len);
            return BELFRY_OK;
        }
    }
    return secret_file_fail(told, "is too long for a key");
}

enum belfry_err belfry_secret_file_read(const char *path, size_t max_bytes, struct belfry_buf *out, char *why,
                                        size_t why_len)
{
    const struct told told = {path, why, why_len};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not stop the start */
    if (fd < 0)
        return secret_file_fail(&told, "cannot be read: %s", strerror(errno));
    enum belfry_err err = read_open_file(fd, max_bytes, out, &told);
    close(fd);
    return err;
}

void belfry_secret_buf_fini(struct belfry_buf *buf)
{
    if (buf->data != NULL)
        explicit_bzero(buf->data, buf->cap);
    belfry_buf_fini(buf);
}
