/* src/daemon/crash_note.c */
#include "daemon/crash_note.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#include "replica/replica.h"

static const int numbers[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE};
#define N_NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

static _Atomic(const struct store *) watched; /* read by the handler, on whichever thread faults */
static struct sigaction before[N_NUMBERS];    /* what was to be done with each; written before the handler can run */

/* Returning from it makes the same fault again, and then nothing stands in its way. A signal that was sent does not
 * come again by itself: it is raised, and waits until this returns. One of another process, a watchdog's say, is no
 * fault. */
static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    const struct store *store = atomic_load(&watched);
    bool sent = info->si_code <= 0;
    if (store != NULL && (!sent || info->si_pid == getpid()))
        replica_faulted(store);
    for (size_t i = 0; i < N_NUMBERS; i++) {
        if (numbers[i] == number)
            sigaction(number, &before[i], NULL);
    }
    if (sent)
        raise(number);
}

void crash_note_watch(const struct store *store)
{
    static bool installed;
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    atomic_store(&watched, store);
    if (installed || store == NULL)
        return;
    installed = true;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < N_NUMBERS; i++)
        sigaction(numbers[i], NULL, &before[i]);
    for (size_t i = 0; i < N_NUMBERS; i++)
        sigaction(numbers[i], &action, NULL);
}
