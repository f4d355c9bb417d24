/* src/client/library_version.c */
#include <belfry/belfry.h>

const char *belfry_version(void)
{
    return BELFRY_VERSION;
}
