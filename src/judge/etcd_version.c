/* src/judge/etcd_version.c */
#include "judge/etcd_version.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct version {
    unsigned major, minor, patch;
    bool early; /* an alpha or a release candidate: before the release of that number */
};

/* A bug of etcd's watch, and the first patch release of 3.4, 3.5 and 3.6 without it. */
struct bug {
    unsigned fixed[3];
    bool hidden; /* a watch of part of the keys cannot notice it: gaps between its revisions are normal */
    const char *what;
};

/* The worst first. */
static const struct bug bugs[] = {
    {{25, 8, 0}, true, "its watch may go back in time or send events twice (etcd#15271, etcd#15274)"},
    {{31, 13, 0}, true, "a watch that is slow may skip events that were compacted (etcd#17529)"},
    {{38, 22, 2}, false, "a watch may be given what is below its start after a member was restored (etcd#20221)"},
};

static bool version_read(const char *text, struct version *out)
{
    char next = '\0';
    int n = sscanf(text, "%5u.%5u.%5u%c", &out->major, &out->minor, &out->patch, &next);
    out->early = next == '-';
    return n == 3 || (n == 4 && (next == '-' || next == '+'));
}

static bool version_has_bug(const struct version *v, const struct bug *bug)
{
    if (v->major != 3 || v->minor > 6)
        return v->major < 3;
    if (v->minor < 4)
        return true;
    unsigned fixed = bug->fixed[v->minor - 4];
    return v->early ? v->patch <= fixed : v->patch < fixed;
}

enum etcd_version etcd_version_judge(const char *version, bool whole_scope, const char **why)
{
    struct version v;
    if (!version_read(version, &v))
        return ETCD_VERSION_GOOD;
    for (size_t i = 0; i < sizeof(bugs) / sizeof(bugs[0]); i++) {
        if (!version_has_bug(&v, &bugs[i]))
            continue;
        *why = bugs[i].what;
        return bugs[i].hidden && !whole_scope ? ETCD_VERSION_REFUSED : ETCD_VERSION_OLD;
    }
    return ETCD_VERSION_GOOD;
}

bool etcd_version_upgrade(const char *version, char out[ETCD_VERSION_TEXT])
{
    struct version v;
    if (!version_read(version, &v) || v.major > 3 || (v.major == 3 && v.minor > 6))
        return false;
    unsigned line = v.major < 3 || v.minor < 4 ? 0 : v.minor - 4, patch = 0;
    for (size_t i = 0; i < sizeof(bugs) / sizeof(bugs[0]); i++)
        patch = bugs[i].fixed[line] > patch ? bugs[i].fixed[line] : patch;
    snprintf(out, ETCD_VERSION_TEXT, "3.%u.%u", line + 4, patch);
    return true;
}

enum etcd_keys_only etcd_version_keys_only(const char *version)
{
    struct version v;
    if (!version_read(version, &v))
        return ETCD_KEYS_ONLY_UNKNOWN;
    if (v.major != 3 || v.minor != 7)
        return v.major > 3 || (v.major == 3 && v.minor > 7) ? ETCD_KEYS_ONLY_BARE : ETCD_KEYS_ONLY_LEASED;
    /* The main branch was called 3.7.0-alpha.0 and 3.7.0-beta.0 before that change and after. */
    bool is_main = v.early && v.patch == 0 && strstr(version, "-rc") == NULL;
    return is_main ? ETCD_KEYS_ONLY_UNKNOWN : ETCD_KEYS_ONLY_BARE;
}
