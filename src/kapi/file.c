/* src/kapi/file.c */
#include "kapi/file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Reads to the end of the file or the buffer; retries after EINTR. Stores how much, also on failure. Returns 0 or an
 * errno. */
static int read_fully(int fd, char *out, size_t cap, size_t *out_len)
{
    *out_len = 0;
    while (*out_len < cap) {
        ssize_t n = read(fd, out + *out_len, cap - *out_len);
        if (n == 0)
            break;
        if (n < 0 && errno != EINTR)
            return errno;
        *out_len += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static int read_fd(int fd, char *out, size_t cap, size_t *out_len)
{
    char more;
    size_t n_more;
    int why = read_fully(fd, out, cap, out_len);
    if (why == 0)
        why = read_fully(fd, &more, 1, &n_more);
    if (why != 0)
        return why;
    return n_more > 0 ? EFBIG : 0;
}

int belfry_file_read(const char *path, char *out, size_t cap, size_t *out_len)
{
    *out_len = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return errno;
    int why = read_fd(fd, out, cap, out_len);
    close(fd);
    return why;
}
