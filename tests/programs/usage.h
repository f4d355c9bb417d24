/* tests/programs/usage.h: what this process uses: memory, CPU, threads, descriptors, as one line of JSON. Included by
 * the one program that needs it. */
#ifndef BELFRY_TESTS_USAGE_H
#define BELFRY_TESTS_USAGE_H

#include <dirent.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "lines.h"

/* A number of /proc/self/status. */
static inline uint64_t status_number(const char *name)
{
    char line[256];
    uint64_t found = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            found = strtoull(line + strlen(name), NULL, 10);
    if (file != NULL)
        fclose(file);
    return found;
}

static inline uint64_t count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    uint64_t n = 0;
    while (dir != NULL && readdir(dir) != NULL)
        n++;
    if (dir != NULL)
        closedir(dir);
    return n > 3 ? n - 3 : 0; /* ".", ".." and the folder itself */
}

static inline void print_usage(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    fputs("{\"kind\":\"usage\"", stdout);
    put_number("rss_anon_bytes", status_number("RssAnon:") * 1024);
    put_number("rss_bytes", status_number("VmRSS:") * 1024);
    put_number("threads", status_number("Threads:"));
    put_number("descriptors", count_descriptors());
    put_number("cpu_us", (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 +
                             (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec));
    put_number("wakeups", (uint64_t)used.ru_nvcsw);
    puts("}");
}

#endif
