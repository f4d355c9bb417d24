/* A lock that works across machines. It is compatible with `etcdctl lock`: each excludes the other.
 *
 *     lock [-e ENDPOINTS] [-t TTL_S] NAME [COMMAND [ARG ...]]
 *
 * Waits until no other process holds NAME. With COMMAND: runs it with ETCD_LOCK_KEY and ETCD_LOCK_REV in its
 * environment, releases the lock when it ends, and exits with its exit code. Without: prints the key that holds the
 * lock, until Ctrl-C.
 *
 * If the lock is lost (etcd cannot be reached for the TTL, or the key was deleted), the command is killed before
 * another process can hold the lock, and the exit code is 1.
 */
#define _POSIX_C_SOURCE 200809L /* for programs that are built as plain C99 */

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recipes/queue.h"

struct lock {
    const char *name;
    char **command;  /* ends with NULL; [0] NULL: none */
    pid_t child;     /* the running command; 0: none */
    int over, code;  /* what to exit with */
    sigset_t before; /* the signals that were blocked at the start */
};

static void end(struct lock *lock, int code)
{
    if (!lock->over)
        lock->code = code;
    lock->over = 1;
}

/* The command gets its own process group, so that all of it can be killed together, and does not outlive us. */
static void become_command(const struct lock *lock, const struct place_event *place)
{
    char rev[24];
    snprintf(rev, sizeof(rev), "%" PRId64, place->rev);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigprocmask(SIG_SETMASK, &lock->before, NULL);
    setenv("ETCD_LOCK_KEY", place->key, 1);
    setenv("ETCD_LOCK_REV", rev, 1);
    execvp(lock->command[0], lock->command);
    fprintf(stderr, "lock: %s: %s\n", lock->command[0], strerror(errno));
    _exit(127);
}

static void on_place(const struct place_event *event, void *user)
{
    struct lock *lock = user;
    if (event->kind == PLACE_LOST) {
        if (lock->child > 0)
            kill(-lock->child, SIGKILL);
        fprintf(stderr, "lock: %s is not ours%s: %s\n", lock->name,
                lock->child > 0 ? " any more, the command is killed" : "", event->why);
        end(lock, 1);
    } else if (lock->command[0] == NULL) {
        printf("%s\n", event->key);
        fflush(stdout);
    } else if ((lock->child = fork()) == 0) {
        become_command(lock, event);
    } else if (lock->child < 0) {
        perror("lock: fork");
        end(lock, 1);
    } else {
        setpgid(lock->child, lock->child); /* in parent and child: either may run first */
    }
}

static void on_child(struct lock *lock)
{
    int status;
    if (lock->child <= 0 || waitpid(lock->child, &status, WNOHANG) != lock->child)
        return;
    lock->child = 0;
    end(lock, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

/* Ctrl-C goes to the command, which keeps the lock until it ends. */
static void on_signal(struct lock *lock, int signals)
{
    struct signalfd_siginfo got;
    if (read(signals, &got, sizeof(got)) != (ssize_t)sizeof(got))
        return;
    if (got.ssi_signo == SIGCHLD)
        on_child(lock);
    else if (lock->child > 0)
        kill(-lock->child, (int)got.ssi_signo);
    else
        end(lock, 128 + (int)got.ssi_signo);
}

static int run(struct belfry *b, struct lock *lock, int signals)
{
    int err = BELFRY_OK;
    while (err == BELFRY_OK && !lock->over) {
        struct pollfd fds[2] = {{belfry_fd(b), POLLIN, 0}, {signals, POLLIN, 0}};
        if (poll(fds, 2, -1) < 0)
            continue;
        if (fds[0].revents != 0)
            err = belfry_dispatch(b);
        if (fds[1].revents != 0)
            on_signal(lock, signals);
    }
    if (lock->child > 0) { /* the lock is lost, or the loop failed and the lease is not renewed */
        kill(-lock->child, SIGKILL);
        waitpid(lock->child, NULL, 0);
    }
    return err;
}

static int signals_of_interest(sigset_t *before)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, before);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int main(int argc, char **argv)
{
    const char *endpoints = getenv("ETCDCTL_ENDPOINTS");
    int64_t ttl_s = 10;
    int option;
    while ((option = getopt(argc, argv, "+e:t:")) != -1) {
        if (option == 'e')
            endpoints = optarg;
        else if (option == 't')
            ttl_s = strtoll(optarg, NULL, 10);
        else
            optind = argc;
    }
    if (optind >= argc || ttl_s < 1) {
        fprintf(stderr, "usage: lock [-e ENDPOINTS] [-t TTL_S] NAME [COMMAND [ARG ...]]\n");
        return 2;
    }
    struct lock lock = {.name = argv[optind], .command = argv + optind + 1};
    struct belfry *b = NULL;
    struct place *place = NULL;
    int signals = signals_of_interest(&lock.before);
    int err = belfry_open(endpoints != NULL ? endpoints : "http://127.0.0.1:2379", NULL, &b);
    if (err == BELFRY_OK)
        err = place_open(b, lock.name, "", ttl_s, on_place, &lock, &place);
    if (err == BELFRY_OK)
        err = run(b, &lock, signals);
    place_close(place);
    if (err == BELFRY_OK)
        err = belfry_run(b, 5000); /* until the lock is released */
    if (err != BELFRY_OK)
        fprintf(stderr, "lock: %s\n", belfry_why(b));
    belfry_close(b);
    return lock.over ? lock.code : 1;
}
