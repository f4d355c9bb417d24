/* tests/sim/fiber.c */
#include "sim/fiber.h"

#include <assert.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <ucontext.h>

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#include <sanitizer/common_interface_defs.h>
#define LEAVE(save, bottom, size) __sanitizer_start_switch_fiber(save, bottom, size)
#define ENTER(save, bottom, size) __sanitizer_finish_switch_fiber(save, bottom, size)
#define MAY_JUMP                  0 /* AddressSanitizer takes a jump for a return on the same stack */
#else
#define LEAVE(save, bottom, size) ((void)(save), (void)(bottom), (void)(size))
#define ENTER(save, bottom, size) ((void)(save), (void)(bottom), (void)(size))
#define MAY_JUMP                  1
#endif

#define STACK (512 * 1024)

/* Where a stack goes on. */
struct place {
    ucontext_t context;
    jmp_buf jump;
    bool begun; /* `jump` is set */
};

struct fiber {
    struct place place;
    void (*step)(void *arg);
    void *arg;
    void *stack;
    void *fake; /* the sanitizer's own part of the stack while it is not running */
    bool ended; /* the step has returned */
};

static struct fiber *current;
static struct place outside = {.begun = true};
static const void *outside_bottom;
static size_t outside_size;

/* swapcontext() sets the signal mask, two system calls per switch: a third of the simulator's time. So it jumps. */
static inline void switch_place(struct place *from, struct place *to)
{
    if (!MAY_JUMP) {
        swapcontext(&from->context, &to->context);
        return;
    }
    if (_setjmp(from->jump) != 0)
        return;
    if (to->begun)
        _longjmp(to->jump, 1);
    to->begun = true;
    setcontext(&to->context);
}

static void leave(struct fiber *fiber)
{
    LEAVE(&fiber->fake, outside_bottom, outside_size);
    switch_place(&fiber->place, &outside);
    ENTER(fiber->fake, &outside_bottom, &outside_size);
}

static void enter(void)
{
    ENTER(NULL, &outside_bottom, &outside_size);
    for (;;) {
        struct fiber *fiber = current;
        fiber->step(fiber->arg);
        fiber->ended = true;
        leave(fiber);
    }
}

struct fiber *fiber_create(void (*step)(void *arg), void *arg)
{
    struct fiber *fiber = calloc(1, sizeof(*fiber));
    if (fiber == NULL || (fiber->stack = malloc(STACK)) == NULL || getcontext(&fiber->place.context) != 0)
        abort();
    fiber->step = step;
    fiber->arg = arg;
    fiber->place.context.uc_stack.ss_sp = fiber->stack;
    fiber->place.context.uc_stack.ss_size = STACK;
    makecontext(&fiber->place.context, enter, 0);
    return fiber;
}

void fiber_destroy(struct fiber *fiber)
{
    if (fiber == NULL)
        return;
    free(fiber->stack);
    free(fiber);
}

bool fiber_run(struct fiber *fiber)
{
    void *fake = NULL;
    assert(current == NULL);
    current = fiber;
    fiber->ended = false;
    LEAVE(&fake, fiber->stack, STACK);
    switch_place(&outside, &fiber->place);
    ENTER(fake, NULL, NULL);
    current = NULL;
    return fiber->ended;
}

void fiber_pause(void)
{
    assert(current != NULL);
    leave(current);
}
