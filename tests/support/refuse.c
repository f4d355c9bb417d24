/* tests/support/refuse.c */
#include "support/refuse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SWEEP_MAX 100000 /* a scenario is small; this is a loop that does not end */

static atomic_size_t held;
static atomic_long countdown = -1; /* < 0: not armed; 0: refuse the next one */
static atomic_bool reached;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *ptr, size_t size);
void __real_free(void *ptr);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *ptr, size_t size);
void __wrap_free(void *ptr);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t len);

static bool refused(void)
{
    if (atomic_load(&countdown) < 0 || atomic_fetch_sub(&countdown, 1) != 0)
        return false;
    atomic_store(&reached, true);
    return true;
}

static void *counted(void *ptr)
{
    if (ptr != NULL)
        atomic_fetch_add(&held, 1);
    return ptr;
}

void *__wrap_malloc(size_t size)
{
    return refused() ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t n, size_t size)
{
    return refused() ? NULL : counted(__real_calloc(n, size));
}

void *__wrap_realloc(void *ptr, size_t size)
{
    if (refused())
        return NULL;
    void *moved = __real_realloc(ptr, size);
    return ptr == NULL ? counted(moved) : moved;
}

void __wrap_free(void *ptr)
{
    if (ptr != NULL)
        atomic_fetch_sub(&held, 1);
    __real_free(ptr);
}

char *__wrap_strndup(const char *text, size_t len)
{
    size_t n = strnlen(text, len);
    char *copy = __wrap_malloc(n + 1);
    if (copy != NULL) {
        memcpy(copy, text, n);
        copy[n] = '\0';
    }
    return copy;
}

char *__wrap_strdup(const char *text)
{
    return __wrap_strndup(text, SIZE_MAX);
}

void refuse_begin(size_t n)
{
    atomic_store(&reached, false);
    atomic_store(&countdown, (long)n);
}

bool refuse_end(void)
{
    atomic_store(&countdown, -1);
    return atomic_load(&reached);
}

size_t refuse_held(void)
{
    return atomic_load(&held);
}

size_t refuse_sweep(refuse_scenario_fn scenario)
{
    for (size_t n = 0; n < SWEEP_MAX; n++) {
        size_t before = refuse_held();
        refuse_begin(n);
        enum belfry_err err = scenario();
        bool hit = refuse_end();
        if (err != BELFRY_OK && (!hit || err != BELFRY_ERR_NOMEM))
            fail_msg("allocation %zu refused (%s): scenario returned %s", n, hit ? "reached" : "not reached",
                     belfry_errname(err));
        if (refuse_held() != before)
            fail_msg("allocation %zu refused: %zd blocks leaked", n, (ssize_t)(refuse_held() - before));
        if (!hit)
            return n;
    }
    fail_msg("still allocating after %d refusals", SWEEP_MAX);
    return 0;
}
