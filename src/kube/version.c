/* src/kube/version.c */
#include "kube/version.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define DIGITS_MAX 9

enum stability { OTHER, ALPHA, BETA, STABLE };

struct parsed {
    enum stability stability;
    long major, minor;
};

static const char *read_number(const char *at, long *out)
{
    const char *begin = at;
    *out = 0;
    for (; *at >= '0' && *at <= '9' && at - begin < DIGITS_MAX; at++)
        *out = *out * 10 + (*at - '0');
    return at > begin ? at : NULL;
}

/* v1, v1beta2, v1alpha1 */
static struct parsed version_parse(const char *name)
{
    struct parsed it = {.stability = STABLE}, other = {.stability = OTHER};
    const char *at = name[0] == 'v' ? read_number(name + 1, &it.major) : NULL;
    if (at == NULL)
        return other;
    if (*at == '\0')
        return it;
    it.stability = strncmp(at, "alpha", 5) == 0 ? ALPHA : strncmp(at, "beta", 4) == 0 ? BETA : OTHER;
    if (it.stability == OTHER)
        return other;
    at = read_number(at + (it.stability == ALPHA ? 5 : 4), &it.minor);
    return at != NULL && *at == '\0' ? it : other;
}

static int descending(long a, long b)
{
    return (a < b) - (a > b);
}

int kube_version_order(const char *a, const char *b)
{
    struct parsed x = version_parse(a), y = version_parse(b);
    if (x.stability != y.stability)
        return descending(x.stability, y.stability);
    if (x.stability == OTHER)
        return strcmp(a, b);
    return x.major != y.major ? descending(x.major, y.major) : descending(x.minor, y.minor);
}
