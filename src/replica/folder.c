/* src/replica/folder.c: all names are relative to the open folder, so that a renamed path changes nothing. */
#include "replica/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sim.h"

#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"
#define UNKNOWN      "-" /* in the marker: the boot id is not known */
#define MARKER       "marker"
#define MARKER_NEW   "marker.new"
#define DEATHS       "deaths"
#define DEATHS_MAX   9
#define NAME_BYTES   32
#define FOREIGN_LINK "is a link of another user's: give the folder itself"
#define LINE_BYTES   (FOLDER_BOOT_MAX + NAME_BYTES + 16)

struct marker {
    enum folder_mark mark;
    char boot[FOLDER_BOOT_MAX];
    uint64_t number;
};

static enum belfry_err folder_explain(char **why, const char *path, const char *what)
{
    char text[512];
    snprintf(text, sizeof(text), "%s: %s%s%s", path, what, errno == 0 ? "" : ": ", errno == 0 ? "" : strerror(errno));
    *why = strdup(text); /* without memory there is no text */
    return BELFRY_ERR_IO;
}

/* Reads up to size - 1 bytes and cuts at the end of the line. False: it cannot be read. */
static bool folder_read_line(int dir_fd, const char *name, char *line, size_t size)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, line, size - 1);
    close(fd);
    if (n < 0)
        return false;
    line[n] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return true;
}

/* A word that can stand in the marker. */
static bool is_boot_id(const char *boot)
{
    return boot[0] != '\0' && strlen(boot) < FOLDER_BOOT_MAX && strchr(boot, ' ') == NULL && strcmp(boot, UNKNOWN) != 0;
}

static void learn_boot(struct folder *folder, const char *boot_id)
{
    char line[FOLDER_BOOT_MAX];
    if (boot_id == NULL && folder_read_line(AT_FDCWD, BOOT_ID_FILE, line, sizeof(line)))
        boot_id = line;
    if (boot_id != NULL && is_boot_id(boot_id))
        memcpy(folder->boot, boot_id, strlen(boot_id) + 1);
}

static enum belfry_err folder_lock(struct folder *folder, char **why)
{
    folder->lock_fd = openat(folder->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (folder->lock_fd < 0)
        return folder_explain(why, folder->path, "cannot make the file `lock` in it");
    if (flock(folder->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return BELFRY_OK;
    if (errno != EWOULDBLOCK)
        return folder_explain(why, folder->path, "cannot be locked");
    errno = 0;
    belfry_ignore(folder_explain(why, folder->path, "in use by another process: give each a folder of its own"));
    return BELFRY_ERR_LIMIT;
}

/* Why nothing in such a folder can be trusted: LMDB takes what is in its file for its own. NULL: it can. */
static const char *distrust_of(const struct stat *st)
{
    if (st->st_uid != geteuid())
        return "belongs to another user: give a folder of this user's, or one that does not exist yet";
    if ((st->st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return "others may write to it: chmod go-w it, or give a folder in it that does not exist yet";
    return NULL;
}

/* With them a path leads through a link at its end, and lstat() does not see that. */
static void cut_slashes(char *path)
{
    for (size_t len = strlen(path); len > 1 && path[len - 1] == '/'; len--)
        path[len - 1] = '\0';
}

/* The path may be another user's link, which could lead elsewhere tomorrow. Root may have set one. */
static bool is_foreign_link(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && st.st_uid != geteuid() && st.st_uid != 0;
}

static bool make_folder(const char *path)
{
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

/* Creates the folder at `path`, and its missing parents. On failure `path` may end after the folder that could not be
 * created. */
static bool make_folders(char *path)
{
    if (make_folder(path))
        return true;
    if (errno != ENOENT)
        return false;
    for (char *end = path; (end = strchr(end + 1, '/')) != NULL; *end = '/') {
        *end = '\0';
        if (!make_folder(path))
            return false;
    }
    return make_folder(path);
}

static enum belfry_err folder_distrust(const struct folder *folder, char **why)
{
    struct stat st;
    if (fstat(folder->dir_fd, &st) != 0)
        return folder_explain(why, folder->path, "cannot look at the folder");
    const char *distrust = distrust_of(&st);
    if (distrust == NULL)
        return BELFRY_OK;
    errno = 0;
    return folder_explain(why, folder->path, distrust);
}

enum belfry_err folder_open(struct folder *folder, const char *path, const char *boot_id, char **why)
{
    enum belfry_err err = BELFRY_ERR_NOMEM;
    *folder = (struct folder){.dir_fd = -1, .lock_fd = -1, .deaths_fd = -1, .path = strdup(path)};
    if (folder->path == NULL)
        goto fail;
    cut_slashes(folder->path);
    if (path[0] != '\0' && !make_folders(folder->path)) {
        err = folder_explain(why, folder->path, "cannot make the folder");
        goto fail;
    }
    if (is_foreign_link(folder->path)) {
        errno = 0;
        err = folder_explain(why, folder->path, FOREIGN_LINK);
        goto fail;
    }
    folder->dir_fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->dir_fd < 0) {
        err = folder_explain(why, folder->path, "cannot open the folder");
        goto fail;
    }
    err = folder_distrust(folder, why);
    if (err == BELFRY_OK)
        err = folder_lock(folder, why);
    if (err != BELFRY_OK)
        goto fail;
    learn_boot(folder, boot_id);
    return BELFRY_OK;

fail:
    folder_close(folder);
    return err;
}

/* Cuts the last folder off the path: "/a/b" is "/a", "/a" is "/", and "a" is ".". */
static void cut_to_parent(char *path)
{
    size_t len = strlen(path);
    while (len > 0 && path[len - 1] == '/')
        len--;
    while (len > 0 && path[len - 1] != '/')
        len--;
    if (len == 0)
        memcpy(path, ".", 2);
    else
        path[len > 1 ? len - 1 : 1] = '\0';
}

/* 0 when it is a folder that can be written to, else an errno. */
static int folder_unusable(const char *path, struct stat *st)
{
    if (stat(path, st) != 0)
        return errno;
    if (!S_ISDIR(st->st_mode))
        return ENOTDIR;
    return faccessat(AT_FDCWD, path, R_OK | W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

enum belfry_err folder_try(const char *path, char *why, size_t why_len)
{
    int code;
    struct stat st;
    char *at = strdup(path);
    if (at == NULL)
        return BELFRY_ERR_NOMEM;
    bool is_there = true;
    cut_slashes(at);
    for (; (code = folder_unusable(at, &st)) == ENOENT && strcmp(at, ".") != 0; is_there = false)
        cut_to_parent(at); /* folder_open() would make this one */
    const char *distrust = code == 0 && is_there ? distrust_of(&st) : NULL;
    if (code == 0 && is_there && is_foreign_link(at))
        distrust = FOREIGN_LINK;
    if (code != 0)
        snprintf(why, why_len, "%s: %s: %s", at, is_there ? "cannot use the folder" : "cannot make a folder in it",
                 strerror(code));
    else if (distrust != NULL)
        snprintf(why, why_len, "%s: %s", at, distrust);
    free(at);
    return code == 0 && distrust == NULL ? BELFRY_OK : BELFRY_ERR_IO;
}

void folder_close(struct folder *folder)
{
    if (folder->path == NULL)
        return;
    if (folder->lock_fd >= 0)
        close(folder->lock_fd);
    folder_life_serves(folder); /* a process that gets here did not crash */
    if (folder->deaths_fd >= 0)
        close(folder->deaths_fd);
    if (folder->dir_fd >= 0)
        close(folder->dir_fd);
    free(folder->path);
    *folder = (struct folder){0};
}

static struct marker read_marker(const struct folder *folder)
{
    struct marker marker = {.mark = FOLDER_NONE};
    char line[LINE_BYTES];
    if (!folder_read_line(folder->dir_fd, MARKER, line, sizeof(line)))
        return marker;
    if (sscanf(line, "clean data-%" SCNu64, &marker.number) == 1)
        marker.mark = FOLDER_CLEAN;
    else if (sscanf(line, "dirty %63s data-%" SCNu64, marker.boot, &marker.number) == 2)
        marker.mark = FOLDER_DIRTY;
    return marker;
}

uint64_t folder_warm(const struct folder *folder, enum folder_mark *mark)
{
    struct marker marker = read_marker(folder);
    *mark = marker.mark;
    bool same_boot = folder->boot[0] != '\0' && strcmp(folder->boot, marker.boot) == 0;
    if (BELFRY_MUTANT(marker_ignored))
        same_boot = true;
    switch (marker.mark) {
    case FOLDER_NONE:
        return 0;
    case FOLDER_CLEAN:
        return marker.number;
    case FOLDER_DIRTY:
        return same_boot ? marker.number : 0;
    }
    return 0;
}

/* Overwrites one byte in place, which works on a full disk. Without the file there is no count. */
static void write_deaths(const struct folder *folder, unsigned deaths)
{
    char digit = (char)('0' + deaths);
    if (folder->deaths_fd >= 0 && pwrite(folder->deaths_fd, &digit, 1, 0) != 1)
        return; /* the count stays what it was */
}

unsigned folder_life_begin(struct folder *folder)
{
    char digit = '0';
    folder->deaths_fd = openat(folder->dir_fd, DEATHS, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (folder->deaths_fd >= 0 && pread(folder->deaths_fd, &digit, 1, 0) != 1)
        digit = '0';
    unsigned before = digit > '0' && digit < '0' + DEATHS_MAX ? (unsigned)(digit - '0') : 0;
    folder->deaths = before + 1;
    write_deaths(folder, folder->deaths);
    return before;
}

void folder_life_serves(struct folder *folder)
{
    write_deaths(folder, 0);
}

void folder_life_faulted(const struct folder *folder)
{
    write_deaths(folder, folder->deaths);
}

static bool write_synced(int fd, const char *text, size_t len)
{
    bool written = write(fd, text, len) == (ssize_t)len && fsync(fd) == 0;
    return close(fd) == 0 && written;
}

enum belfry_err folder_mark(struct folder *folder, enum folder_mark mark, uint64_t number)
{
    char line[LINE_BYTES], now[LINE_BYTES];
    const char *boot = folder->boot[0] != '\0' ? folder->boot : UNKNOWN;
    int len = mark == FOLDER_CLEAN ? snprintf(line, sizeof(line), "clean data-%" PRIu64 "\n", number)
                                   : snprintf(line, sizeof(line), "dirty %s data-%" PRIu64 "\n", boot, number);
    if (folder_read_line(folder->dir_fd, MARKER, now, sizeof(now)) && strlen(now) + 1 == (size_t)len &&
        memcmp(now, line, strlen(now)) == 0)
        return BELFRY_OK; /* it was synced when it was written, so it needs no new space on a full disk */
    int fd = openat(folder->dir_fd, MARKER_NEW, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || !write_synced(fd, line, (size_t)len))
        return BELFRY_ERR_IO;
    if (renameat(folder->dir_fd, MARKER_NEW, folder->dir_fd, MARKER) != 0)
        return BELFRY_ERR_IO;
    return fsync(folder->dir_fd) == 0 ? BELFRY_OK : BELFRY_ERR_IO;
}

static void data_name(char *name, uint64_t number)
{
    snprintf(name, NAME_BYTES, "data-%" PRIu64, number);
}

static void folder_empty(int dir_fd, const char *name)
{
    char path[NAME_BYTES + 16];
    snprintf(path, sizeof(path), "%s/data.mdb", name);
    unlinkat(dir_fd, path, 0);
    snprintf(path, sizeof(path), "%s/lock.mdb", name);
    unlinkat(dir_fd, path, 0);
}

uint64_t folder_sweep(struct folder *folder, uint64_t keep)
{
    uint64_t highest = 0;
    int fd = openat(folder->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        if (fd >= 0)
            close(fd);
        return highest;
    }
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        uint64_t number;
        if (sscanf(entry->d_name, "data-%" SCNu64, &number) != 1)
            continue;
        highest = number > highest ? number : highest;
        if (number != keep)
            folder_remove(folder, number);
    }
    closedir(dir);
    return highest;
}

enum belfry_err folder_make(struct folder *folder, uint64_t number)
{
    char name[NAME_BYTES];
    data_name(name, number);
    folder_empty(folder->dir_fd, name);
    return mkdirat(folder->dir_fd, name, 0700) == 0 || errno == EEXIST ? BELFRY_OK : BELFRY_ERR_IO;
}

void folder_remove(const struct folder *folder, uint64_t number)
{
    char name[NAME_BYTES];
    data_name(name, number);
    folder_empty(folder->dir_fd, name);
    unlinkat(folder->dir_fd, name, AT_REMOVEDIR);
}

char *folder_data_path(const struct folder *folder, uint64_t number)
{
    char name[NAME_BYTES];
    data_name(name, number);
    size_t len = strlen(folder->path) + strlen(name) + 2;
    char *path = malloc(len);
    if (path != NULL)
        snprintf(path, len, "%s/%s", folder->path, name);
    return path;
}
