/* tests/sim/fiber.c */
#include "sim/fiber.h"

#include <assert.h>
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
#else
#define LEAVE(save, bottom, size) ((void)(save), (void)(bottom), (void)(size))
#define ENTER(save, bottom, size) ((void)(save), (void)(bottom), (void)(size))
#endif

#define STACK (512 * 1024)

struct fiber {
    ucontext_t context;
    void (*step)(void *arg);
    void *arg;
    void *stack;
    void *fake; /* the sanitizer's own part of the stack while it is not running */
    bool ended; /* the step has returned */
};

static struct fiber *current;
static ucontext_t outside;
static const void *outside_bottom;
static size_t outside_size;

static void leave(struct fiber *fiber)
{
    LEAVE(&fiber->fake, outside_bottom, outside_size);
    swapcontext(&fiber->context, &outside);
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
    if (fiber == NULL || (fiber->stack = malloc(STACK)) == NULL || getcontext(&fiber->context) != 0)
        abort();
    fiber->step = step;
    fiber->arg = arg;
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = STACK;
    makecontext(&fiber->context, enter, 0);
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
    swapcontext(&outside, &fiber->context);
    ENTER(fake, NULL, NULL);
    current = NULL;
    return fiber->ended;
}

void fiber_pause(void)
{
    assert(current != NULL);
    leave(current);
}
