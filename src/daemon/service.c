/* src/daemon/service.c */
#include "daemon/service.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST_FD          3
#define LISTEN_FDS_MAX    1024
#define OWN_FDS           128 /* what belfryd itself opens: loops, the replica, upstream, the relay, the log */
#define ADMIN_CONNECTIONS 128
#define ADMIN_FDS         (ADMIN_CONNECTIONS + 64) /* and those accepted in one turn, before others are closed */
#define REFUSED_PART      16                       /* of all descriptors, */
#define REFUSED_MAX       1024                     /* and at most so many, are for connections that are being refused */
#define SELF_CGROUP       "/proc/self/cgroup"
#define CGROUP_MOUNT      "/sys/fs/cgroup"
#define CGROUP_UNBOUNDED  (UINT64_C(1) << 60) /* version 1 says "no bound" by a number near 2^63 */
#define SOMAXCONN_FILE    "/proc/sys/net/core/somaxconn"

/* A number that is the whole text. */
static bool service_read_number(const char *text, uint64_t *out)
{
    if (text == NULL || *text < '0' || *text > '9')
        return false;
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0';
}

void service_notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = path == NULL ? 0 : strlen(path);
    if (len < 2 || len >= sizeof(address.sun_path) || (path[0] != '/' && path[0] != '@'))
        return;
    memcpy(address.sun_path, path, len);
    if (path[0] == '@')
        address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    /* A manager that does not listen finds out by its own timeout. */
    (void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT, (const struct sockaddr *)&address, size);
    close(fd);
}

/* Variables of another process, inherited, are not ours; without a number they are for any process. */
static bool is_ours(const char *variable, bool if_unset)
{
    const char *text = getenv(variable);
    uint64_t pid;
    if (text == NULL)
        return if_unset;
    return service_read_number(text, &pid) && pid == (uint64_t)getpid();
}

uint64_t service_watchdog_ms(void)
{
    uint64_t usec;
    if (!is_ours("WATCHDOG_PID", true) || !service_read_number(getenv("WATCHDOG_USEC"), &usec) || usec == 0)
        return 0;
    return usec / 2000 > 0 ? usec / 2000 : 1;
}

static bool keep_from_children(int fd)
{
    int flags = fcntl(fd, F_GETFD);
    return flags >= 0 && fcntl(fd, F_SETFD, flags | FD_CLOEXEC) == 0;
}

bool service_has_listen_fds(void)
{
    return is_ours("LISTEN_PID", false) && getenv("LISTEN_FDS") != NULL;
}

unsigned service_listen_fds(void)
{
    uint64_t n = 0;
    unsigned usable = 0;
    if (is_ours("LISTEN_PID", false) && service_read_number(getenv("LISTEN_FDS"), &n))
        while (usable < n && usable < LISTEN_FDS_MAX && keep_from_children(FIRST_FD + (int)usable))
            usable++;
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    return usable;
}

/* ---- control groups ---- */

static void cgroup_lower(uint64_t *bound, uint64_t value)
{
    if (value > 0 && value < CGROUP_UNBOUNDED && (*bound == 0 || value < *bound))
        *bound = value;
}

/* The first line of folder/name; false when there is none. */
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

static void cgroup_lower_by_folder(const char *folder, struct service_cgroup *out)
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
static void cgroup_lower_by_path(const char *mount, const char *group, struct service_cgroup *out)
{
    char folder[PATH_MAX];
    size_t root = strlen(mount);
    if ((size_t)snprintf(folder, sizeof(folder), "%s%s", mount, group) >= sizeof(folder))
        return;
    while (strlen(folder) > root) {
        cgroup_lower_by_folder(folder, out);
        *strrchr(folder, '/') = '\0';
    }
    cgroup_lower_by_folder(mount, out);
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

void service_read_cgroup(const char *self, const char *mount, struct service_cgroup *out)
{
    static const char *const controllers[] = {"cpu", "memory"};
    char line[PATH_MAX], folder[PATH_MAX];
    *out = (struct service_cgroup){0};
    FILE *file = fopen(self, "re");
    if (file == NULL)
        return;
    while (fgets(line, sizeof(line), file) != NULL) {
        /* "0::/user.slice/x" (version 2) or "4:cpu,cpuacct:/x" (version 1) */
        char *list = strchr(line, ':'), *group = list == NULL ? NULL : strchr(list + 1, ':');
        if (group == NULL || group[1] != '/')
            continue;
        *list++ = *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';

        if (*list == '\0')
            cgroup_lower_by_path(mount, group, out);
        for (size_t i = 0; *list != '\0' && i < sizeof(controllers) / sizeof(controllers[0]); i++)
            if (cgroup_names(list, controllers[i]) &&
                (size_t)snprintf(folder, sizeof(folder), "%s/%s", mount, controllers[i]) < sizeof(folder))
                cgroup_lower_by_path(folder, group, out);
    }
    fclose(file);
}

/* ---- limits ---- */

unsigned service_cpus(void)
{
    struct service_cgroup cgroup;
    cpu_set_t set;
    unsigned n = 1;
    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        n = (unsigned)CPU_COUNT(&set);
    else if (errno == EINVAL) /* more CPUs than cpu_set_t has room for */
        n = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    service_read_cgroup(SELF_CGROUP, CGROUP_MOUNT, &cgroup);
    uint64_t quota = (cgroup.cpu_milli + 999) / 1000; /* half a CPU more is worth a thread */
    if (quota > 0 && quota < n)
        n = (unsigned)quota;
    return n > 0 ? n : 1;
}

static uint64_t read_somaxconn(void)
{
    uint64_t value = 0;
    char text[32] = "";
    FILE *file = fopen(SOMAXCONN_FILE, "re");
    if (file == NULL)
        return 0;
    if (fgets(text, sizeof(text), file) != NULL) {
        text[strcspn(text, "\n")] = '\0';
        if (!service_read_number(text, &value))
            value = 0;
    }
    fclose(file);
    return value;
}

void service_limits(struct service_limits *out)
{
    /* the soft limit of descriptors becomes the hard one */
    struct rlimit limit, raised;
    uint64_t descriptors = 0;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        raised = (struct rlimit){.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
        descriptors = setrlimit(RLIMIT_NOFILE, &raised) == 0 ? raised.rlim_cur : limit.rlim_cur;
    }
    uint64_t refused = descriptors / REFUSED_PART < REFUSED_MAX ? descriptors / REFUSED_PART : REFUSED_MAX;
    uint64_t own = OWN_FDS + ADMIN_FDS + refused;

    /* the machine's memory, or less where the cgroup says so */
    struct service_cgroup cgroup;
    struct sysinfo machine;
    service_read_cgroup(SELF_CGROUP, CGROUP_MOUNT, &cgroup);
    uint64_t memory = sysinfo(&machine) == 0 ? (uint64_t)machine.totalram * machine.mem_unit : 0;
    if (memory == 0 || (cgroup.memory_bytes > 0 && cgroup.memory_bytes < memory))
        memory = cgroup.memory_bytes;

    *out = (struct service_limits){
        .descriptors = descriptors,
        .somaxconn = read_somaxconn(),
        .memory_bytes = memory,
        .connections = descriptors > 2 * own ? descriptors - own : descriptors / 2,
        .refused = refused,
        .admin = descriptors > 2 * own ? ADMIN_CONNECTIONS : descriptors / 8,
    };
}
