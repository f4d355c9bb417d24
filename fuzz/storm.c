/* fuzz/storm.c: the whole serving side against hostile clients and faults (tests/storm/run.h).
 *
 * The input is the choices: which client does what, which part takes the next turn, when time passes, what fails.
 * belfry-storm draws the same choices from seeds. */
#include <stdint.h>
#include <stdlib.h>

#include "storm/chance.h"
#include "storm/house.h"
#include "storm/run.h"
#include "storm/verdict.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define STEPS 2000

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    chance_begin(0);
    house_prepare();
    atexit(house_clear);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run_tally tally = {0};
    struct choices choices = choices_of_bytes(data, size);
    run_storm(&choices, 1, STEPS, &tally);
    return 0;
}
