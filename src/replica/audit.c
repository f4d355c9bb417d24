/* src/replica/audit.c */
#include "replica/audit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "replica/mdbfile.h"

/* A disk that needs longer is slower than a listing: 60 s, and a second for each 16 MiB. */
#define ALARM_S       60
#define ALARM_S_SHIFT 24

/* What parent and child share. */
struct verdict {
    bool known, passes;
    char why[AUDIT_WHY];
};

/* ---- the audit ---- */

static bool any_row(struct belfry_bytes key, struct belfry_bytes value, void *user)
{
    (void)key;
    (void)value;
    (void)user;
    return true;
}

static enum belfry_err audit_tables(struct mdbfile *file, enum audit_depth depth)
{
    enum belfry_err err = BELFRY_OK;
    for (size_t i = 0; i < file->n_tables && err == BELFRY_OK; i++) {
        bool rows = depth == AUDIT_ALL || strcmp(file->tables[i].name, "history") != 0;
        err = mdbfile_walk(file, &file->tables[i].tree, rows ? any_row : NULL, NULL);
    }
    return err;
}

static void audit_file(const struct audit_opts *opts, struct verdict *out)
{
    struct mdbfile file;
    enum belfry_err err = mdbfile_open(&file, opts->path);
    if (err == BELFRY_OK) {
        err = audit_tables(&file, opts->depth);
        mdbfile_close(&file);
    }
    out->passes = err == BELFRY_OK;
    snprintf(out->why, sizeof(out->why), "%s", file.why != NULL ? file.why : belfry_strerror((int)err));
    out->known = true;
}

/* ---- the child ---- */

static void set_alarm(const char *path)
{
    enum mdbfile_length length;
    struct mdbfile_meta meta = {0};
    if (mdbfile_measure(path, &length, &meta) != BELFRY_OK)
        return;
    signal(SIGALRM, SIG_DFL);
    alarm(ALARM_S + (unsigned)(meta.last_page * meta.page_bytes >> ALARM_S_SHIFT));
}

static void run_child(const struct audit_opts *opts, struct verdict *verdict)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (opts->lock_fd >= 0)
        close(opts->lock_fd);
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL); /* a handler of the parent would do its work twice */
    set_alarm(opts->path);
    audit_file(opts, verdict);
    _exit(0);
}

static void run_in_child(const struct audit_opts *opts, struct verdict *verdict)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        run_child(opts, verdict);
    if (child < 0) {
        audit_file(opts, verdict);
        return;
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (!verdict->known)
        snprintf(verdict->why, sizeof(verdict->why), "reading it ended with signal %d", WTERMSIG(status));
}

bool audit_passes(const struct audit_opts *opts, char why[AUDIT_WHY])
{
    struct verdict *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct verdict own = {0}, *verdict = shared == MAP_FAILED ? &own : shared;
    switch (shared == MAP_FAILED ? AUDIT_IN_PROCESS : opts->place) {
    case AUDIT_IN_CHILD:
        run_in_child(opts, verdict);
        break;
    case AUDIT_IN_PROCESS:
        audit_file(opts, verdict);
        break;
    }
    bool passes = verdict->known && verdict->passes;
    memcpy(why, verdict->why, AUDIT_WHY);
    if (shared != MAP_FAILED)
        munmap(shared, sizeof(*shared));
    return passes;
}
