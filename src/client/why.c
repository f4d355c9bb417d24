/* src/client/why.c */
#include "client/why.h"

#include <stdio.h>

#include "client/session.h"

static _Thread_local char here[BELFRY_WHY_BYTES];

char *belfry_why_here(void)
{
    return here;
}

enum belfry_err belfry_why_note(struct belfry *b, enum belfry_err err, const char *why)
{
    char *room = b != NULL ? b->why : here;
    snprintf(room, BELFRY_WHY_BYTES, "%s", why != NULL && why[0] != '\0' ? why : belfry_strerror(err));
    return err;
}

enum belfry_err belfry_why_unless_ok(struct belfry *b, enum belfry_err err, const char *why)
{
    return err == BELFRY_OK ? BELFRY_OK : belfry_why_note(b, err, why);
}

const char *belfry_why(const struct belfry *b)
{
    return b != NULL ? b->why : here;
}
