/* src/base/err.c */
#include "base/err.h"

static const struct {
    const char *name, *sentence;
} table[] = {
#define ROW(name, value, sentence) [value] = {#name, sentence},
    BELFRY_ERR_TABLE(ROW)
#undef ROW
};

const char *belfry_strerror(int err)
{
    return err >= 0 && err < BELFRY_ERR_END_ ? table[err].sentence : "unknown error";
}

const char *belfry_errname(int err)
{
    return err >= 0 && err < BELFRY_ERR_END_ ? table[err].name : "BELFRY_ERR_?";
}
