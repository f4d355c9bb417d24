/* src/follow/driver_version.c: what is known against a version of etcd. */
#include <stdio.h>

#include "follow/driver_private.h"

struct version {
    unsigned major, minor, patch;
    bool early; /* an alpha, a release candidate: before the release of that number */
};

/* A mistake of etcd's watch, and the first release of each minor version without it: 3.4, 3.5, 3.6. */
struct mistake {
    unsigned mended[3];
    bool part; /* who watches a part of the keys cannot find it out: revisions that are missing say nothing there */
    const char *what;
};

/* The worst first. */
static const struct mistake mistakes[] = {
    {{25, 8, 0}, true, "its watch may go back in time or send events twice (etcd#15271, etcd#15274)"},
    {{31, 13, 0}, true, "a watch that is slow may skip events that were compacted (etcd#17529)"},
    {{38, 22, 2}, false, "a watch may be given what is below its start after a member was restored (etcd#20221)"},
};

static bool read_version(const char *text, struct version *out)
{
    char behind = '\0';
    int n = sscanf(text, "%5u.%5u.%5u%c", &out->major, &out->minor, &out->patch, &behind);
    out->early = behind == '-';
    return n == 3 || (n == 4 && (behind == '-' || behind == '+'));
}

static bool is_affected(const struct version *v, const struct mistake *mistake)
{
    if (v->major != 3 || v->minor > 6)
        return v->major < 3;
    if (v->minor < 4)
        return true;
    unsigned mended = mistake->mended[v->minor - 4];
    return v->early ? v->patch <= mended : v->patch < mended;
}

enum driver_version driver_judge_version(const char *version, bool whole_scope, const char **why)
{
    struct version v;
    if (!read_version(version, &v))
        return DRIVER_VERSION_GOOD;
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        if (!is_affected(&v, &mistakes[i]))
            continue;
        *why = mistakes[i].what;
        return mistakes[i].part && !whole_scope ? DRIVER_VERSION_REFUSED : DRIVER_VERSION_OLD;
    }
    return DRIVER_VERSION_GOOD;
}
