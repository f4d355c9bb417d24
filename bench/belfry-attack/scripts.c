/* bench/belfry-attack/scripts.c */
#include "scripts.h"

#include <string.h>

static const struct script *const all[] = {script_calls, script_floods, script_waits,
                                           script_http1, script_admin,  script_rights};

const struct script *scripts_at(size_t i)
{
    for (size_t group = 0; group < sizeof(all) / sizeof(all[0]); group++)
        for (const struct script *script = all[group]; script->name != NULL; script++)
            if (i-- == 0)
                return script;
    return NULL;
}

const struct script *scripts_find(const char *name)
{
    const struct script *script;
    for (size_t i = 0; (script = scripts_at(i)) != NULL; i++)
        if (strcmp(script->name, name) == 0)
            return script;
    return NULL;
}
