/* src/daemon/cgroup.c */
#include "daemon/cgroup.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define UNBOUNDED (UINT64_C(1) << 60) /* version 1 says "no bound" by a number near 2^63 */

static void cgroup_lower(uint64_t *bound, uint64_t value)
{
    if (value > 0 && value < UNBOUNDED && (*bound == 0 || value < *bound))
        *bound = value;
}

/* The first line of mount/controller/group/name; false when there is none. */
static bool cgroup_read_line(const char *folder, const char *name, char *out, int size)
{
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) >= sizeof(path))
        return false;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    bool read = fgets(out, size, file) != NULL;
    fclose(file);
    return read;
}

static void lower_by_folder(const char *folder, struct cgroup_limits *out)
{
    char text[128];
    uint64_t quota, period, bytes;
    if (cgroup_read_line(folder, "cpu.max", text, sizeof(text)) &&
        sscanf(text, "%" SCNu64 " %" SCNu64, &quota, &period) == 2 && period > 0)
        cgroup_lower(&out->cpu_milli, quota * 1000 / period);
    if (cgroup_read_line(folder, "memory.max", text, sizeof(text)) && sscanf(text, "%" SCNu64, &bytes) == 1)
        cgroup_lower(&out->memory_bytes, bytes);
    /* version 1; a quota of -1 is none */
    if (cgroup_read_line(folder, "cpu.cfs_quota_us", text, sizeof(text)) && text[0] != '-' &&
        sscanf(text, "%" SCNu64, &quota) == 1 && cgroup_read_line(folder, "cpu.cfs_period_us", text, sizeof(text)) &&
        sscanf(text, "%" SCNu64, &period) == 1 && period > 0)
        cgroup_lower(&out->cpu_milli, quota * 1000 / period);
    if (cgroup_read_line(folder, "memory.limit_in_bytes", text, sizeof(text)) && sscanf(text, "%" SCNu64, &bytes) == 1)
        cgroup_lower(&out->memory_bytes, bytes);
}

/* From the group up to the mount itself. In a container the group may be hidden and only the mount is there. */
static void lower_by_path(const char *mount, const char *group, struct cgroup_limits *out)
{
    char folder[PATH_MAX];
    size_t root = strlen(mount);
    if ((size_t)snprintf(folder, sizeof(folder), "%s%s", mount, group) >= sizeof(folder))
        return;
    while (strlen(folder) > root) {
        lower_by_folder(folder, out);
        *strrchr(folder, '/') = '\0';
    }
    lower_by_folder(mount, out);
}

static bool cgroup_names(const char *controllers, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = controllers; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, len) == 0 && (at[len] == ',' || at[len] == '\0'))
            return true;
    }
    return false;
}

/* "0::/user.slice/x" (version 2) or "4:cpu,cpuacct:/x" (version 1). */
static void lower_by_line(char *line, const char *mount, struct cgroup_limits *out)
{
    static const char *const controllers[] = {"cpu", "memory"};
    char *list = strchr(line, ':'), *group = list == NULL ? NULL : strchr(list + 1, ':');
    if (group == NULL || group[1] != '/')
        return;
    *list++ = *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    if (*list == '\0')
        lower_by_path(mount, group, out);
    for (size_t i = 0; *list != '\0' && i < sizeof(controllers) / sizeof(controllers[0]); i++) {
        char folder[PATH_MAX];
        if (cgroup_names(list, controllers[i]) &&
            (size_t)snprintf(folder, sizeof(folder), "%s/%s", mount, controllers[i]) < sizeof(folder))
            lower_by_path(folder, group, out);
    }
}

void cgroup_read(const char *self, const char *mount, struct cgroup_limits *out)
{
    char line[PATH_MAX];
    *out = (struct cgroup_limits){0};
    FILE *file = fopen(self, "re");
    if (file == NULL)
        return;
    while (fgets(line, sizeof(line), file) != NULL)
        lower_by_line(line, mount, out);
    fclose(file);
}
