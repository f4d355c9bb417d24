/* src/kapi/file.c */
#include "kapi/file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Reads to the end of the file or the buffer; retries after EINTR. */
static ssize_t read_fully(int fd, char *out, size_t cap)
{
    size_t len = 0;
    while (len < cap) {
        ssize_t n = read(fd, out + len, cap - len);
        if (n == 0)
            break;
        if (n < 0 && errno != EINTR)
            return -1;
        len += n > 0 ? (size_t)n : 0;
    }
    return (ssize_t)len;
}

static int read_fd(int fd, char *out, size_t cap, size_t *out_len)
{
    char more;
    ssize_t len = read_fully(fd, out, cap), rest = len < 0 ? -1 : read_fully(fd, &more, 1);
    if (rest < 0)
        return errno;
    *out_len = (size_t)len;
    return rest > 0 ? EFBIG : 0;
}

int belfry_file_read(const char *path, char *out, size_t cap, size_t *out_len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return errno;
    int why = read_fd(fd, out, cap, out_len);
    close(fd);
    return why;
}
