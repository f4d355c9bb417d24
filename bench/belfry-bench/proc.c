/* bench/belfry-bench/proc.c */
#include "proc.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "die.h"

uint64_t proc_status_bytes(const char *text, const char *name)
{
    size_t len = strlen(name);
    for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        if (*line == '\n')
            line++;
        if (strncmp(line, name, len) == 0 && line[len] == ':')
            return strtoull(line + len + 1, NULL, 10) * 1024;
    }
    return 0;
}

uint64_t proc_stat_ticks(const char *line)
{
    const char *behind_name = strrchr(line, ')');
    unsigned long user = 0, sys = 0;
    if (behind_name == NULL ||
        sscanf(behind_name, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &sys) != 2)
        return 0;
    return (uint64_t)user + sys;
}

/* An empty text when it cannot be read. */
static bool slurp_file(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "r");
    text[0] = '\0';
    if (file == NULL)
        return false;
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
    return true;
}

static void slurp(pid_t pid, const char *name, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    if (!slurp_file(path, text, size))
        die("process %d: %s cannot be read; is it running?", (int)pid, path);
}

static double cpu_seconds(pid_t pid)
{
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(pid, &clock) == 0 && clock_gettime(clock, &t) == 0)
        return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
    char line[1024];
    slurp(pid, "stat", line, sizeof(line));
    return (double)proc_stat_ticks(line) / (double)sysconf(_SC_CLK_TCK);
}

struct proc_use proc_use(pid_t pid)
{
    if (pid == 0)
        return (struct proc_use){0};
    char status[4096];
    slurp(pid, "status", status, sizeof(status));
    return (struct proc_use){
        .cpu_s = cpu_seconds(pid),
        .anon_bytes = proc_status_bytes(status, "RssAnon"),
        .rss_bytes = proc_status_bytes(status, "VmRSS"),
        .peak_bytes = proc_status_bytes(status, "VmHWM"),
    };
}

uint64_t proc_available_bytes(void)
{
    char text[4096];
    slurp_file("/proc/meminfo", text, sizeof(text));
    return proc_status_bytes(text, "MemAvailable");
}

void proc_restart_peak(pid_t pid)
{
    if (pid == 0)
        return;
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/clear_refs", (int)pid);
    FILE *file = fopen(path, "w");
    bool done = file != NULL && fputs("5\n", file) >= 0; /* proc(5): the peak alone */
    if (file != NULL && fclose(file) != 0)
        done = false;
    if (!done)
        die("process %d: %s cannot be written", (int)pid, path);
}
