/* src/daemon/fault.c */
#include "daemon/fault.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#include "replica/replica.h"

static const int numbers[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE};
#define N_NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

static _Atomic(const struct store *) watched; /* read by the handler, on whichever thread faults */
static struct sigaction before[N_NUMBERS];    /* what was to be done with each; written before the handler can run */

/* Returning from it makes the same fault again, and then nothing stands in its way. */
static void on_fault(int number)
{
    const struct store *store = atomic_load(&watched);
    if (store != NULL)
        replica_faulted(store);
    for (size_t i = 0; i < N_NUMBERS; i++) {
        if (numbers[i] == number)
            sigaction(number, &before[i], NULL);
    }
}

void fault_watch(const struct store *store)
{
    static bool installed;
    struct sigaction action = {.sa_handler = on_fault};
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
