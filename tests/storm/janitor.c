/* tests/storm/janitor.c */
#include "storm/janitor.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <unistd.h>

#define OPEN_MAX_OF_WALK 8

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *ftw)
{
    (void)info, (void)type, (void)ftw;
    remove(path);
    return 0; /* a file that stays does not keep the others */
}

void janitor_remove(const char *folder)
{
    nftw(folder, remove_one, OPEN_MAX_OF_WALK, FTW_DEPTH | FTW_PHYS);
}

/* In the child. Whoever reads the storm's output waits until all have closed it, so this process has no descriptor but
 * its end of the pipe. */
static void wait_and_remove(int pipe_end, const char *one, const char *other)
{
    char byte;
    setsid();
    dup2(pipe_end, 0);
    close_range(1, ~0U, 0);
    while (read(0, &byte, 1) > 0)
        continue;
    janitor_remove(one);
    janitor_remove(other);
    _exit(0);
}

void janitor_start(const char *one, const char *other)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    if (fork() == 0)
        wait_and_remove(ends[0], one, other);
    close(ends[0]); /* ends[1] stays open until this process ends: that is the sign */
}
