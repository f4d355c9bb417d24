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

#include "replica/env.h"
#include "replica/mdbfile.h"

/* If the disk needs longer, a listing is faster: 60 s, and 1 s for each 16 MiB. */
#define ALARM_S       60
#define ALARM_S_SHIFT 24

/* What parent and child share. */
struct verdict {
    bool known, passes;
    char why[AUDIT_WHY];
};

/* ---- the audit ---- */

/* The expected sums of a table, and the sums of its rows. */
struct ledger {
    enum rowform_table table;
    bool has_salt, has_now;
    uint64_t salt;
    struct env_now now; /* as meta has it */
    struct env_tally tally;
    uint64_t newest; /* of history: the check of the row before; of all: of the last */
};

static bool on_meta(struct belfry_bytes key, struct belfry_bytes value, void *user)
{
    struct ledger *ledger = user;
    MDB_val k = rowform_val(key), v = rowform_val(value);
    uint64_t check;
    if (belfry_bytes_equal(key, belfry_bytes_str("form"))) /* the first of the three */
        return ledger->has_salt = env_salt_read(k, v, &ledger->salt);
    if (!ledger->has_salt)
        return false;
    if (belfry_bytes_equal(key, belfry_bytes_str("now")))
        return ledger->has_now = env_now_read(ledger->salt, k, v, &ledger->now);
    return rowform_open(ledger->salt, ROWFORM_META, k, &v, &check);
}

static bool on_row(struct belfry_bytes key, struct belfry_bytes value, void *user)
{
    struct ledger *ledger = user;
    MDB_val v = rowform_val(value);
    uint64_t check;
    if (!rowform_open(ledger->salt, ledger->table, rowform_val(key), &v, &check))
        return false;
    ledger->tally.rows++;
    ledger->tally.sum += check;
    if (ledger->table != ROWFORM_HISTORY)
        return true;
    struct rowform_event row;
    bool follows = key.len == ROWFORM_AT && rowform_event_read(v, &row) && row.before == ledger->newest;
    ledger->newest = check;
    return follows;
}

static const char *const names[ROWFORM_COUNTED] = {"state", "history", "marks", "extents", "counts"};

static enum belfry_err audit_table(struct mdbfile *file, struct ledger *ledger, enum rowform_table table,
                                   enum audit_depth depth)
{
    const struct mdbfile_tree *tree = mdbfile_table(file, names[table]);
    bool rows = depth == AUDIT_ALL || table != ROWFORM_HISTORY;
    if (tree == NULL)
        return BELFRY_ERR_INVALID;
    ledger->table = table;
    ledger->tally = (struct env_tally){0};
    ledger->newest = ledger->now.trimmed;
    enum belfry_err err = mdbfile_walk(file, tree, rows ? on_row : NULL, ledger);
    if (err != BELFRY_OK)
        return err;
    const struct env_tally *due = &ledger->now.tallies[table];
    bool same = tree->rows == due->rows && (!rows || ledger->tally.sum == due->sum);
    if (table == ROWFORM_HISTORY && rows)
        same = same && ledger->newest == ledger->now.newest;
    if (!same)
        file->why = "rows that are missing, or are not the newest";
    return same ? BELFRY_OK : BELFRY_ERR_INVALID;
}

static enum belfry_err audit_tables(struct mdbfile *file, enum audit_depth depth)
{
    struct ledger ledger = {0};
    const struct mdbfile_tree *meta = mdbfile_table(file, "meta"), *gone = mdbfile_table(file, "gone");
    file->why = "no meta, or that of another version";
    if (meta == NULL || gone == NULL || gone->rows != 0 || mdbfile_walk(file, meta, on_meta, &ledger) != BELFRY_OK ||
        !ledger.has_now)
        return BELFRY_ERR_INVALID;
    file->why = NULL;
    enum belfry_err err = BELFRY_OK;
    for (enum rowform_table table = ROWFORM_STATE; table < ROWFORM_COUNTED && err == BELFRY_OK; table++)
        err = audit_table(file, &ledger, table, depth);
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
        signal(number, SIG_DFL); /* the child must not run the parent's handlers */
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
