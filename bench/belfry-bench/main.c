/* bench/belfry-bench/main.c: `belfry-bench MODE --target ADDR:PORT ...`. Exit 0: measured; 1: an event was lost or
 * doubled, or it could not be measured; 2: asked for wrongly. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "modes.h"

static const struct mode modes[] = {
    {"fanout", "puts to many watchers: deliveries, CPU of each, latency, loss", "--connections 1000 --puts 200", false,
     fanout_run},
    {"idle", "memory of connections and watchers that receive nothing", "--connections 1000", false, idle_run},
    {"million", "a great many watchers on few connections: creates, memory, puts to some of them",
     "--connections 20 --watches 50000 --distinct --puts 1000 --timeout 300s", false, million_run},
    {"replay", "one watcher that starts far behind: revisions a second", "--revisions 100000 --in-flight 64", false,
     replay_run},
    {"stall", "what one reader that hangs does to the others and to the server's memory",
     "--connections 100 --rate 500 --value-size 1KiB", false, stall_run},
    {"storm", "watchers whose server is killed and started again: how soon they have all, what it costs upstream",
     "--connections 2000 --watches 10 --rate 10", false, storm_run},
    {"write-cost", "what watchers cost those who write", "--connections 1000 --puts 500 --rate 100 --in-flight 1",
     false, writecost_run},
    {"kube", "puts to many watchers of Kubernetes objects over HTTP/1.1: as fanout",
     "--kube --connections 1000 --puts 200", false, fanout_run},
    {"put", "writes many keys, or with --kube objects, each once; measures nothing else",
     "--puts 100000 --in-flight 64 --timeout 300s", false, put_run},
    {"list", "one list of all Kubernetes objects: time, bytes, the server's memory", "--kube", false, list_run},
    {"bare", "the limit: the same bytes to the same number of sockets with nothing in between",
     "--connections 1000 --puts 200", true, bare_run},
};

#define N_MODES (sizeof(modes) / sizeof(modes[0]))

static void usage(FILE *out)
{
    fputs("usage: belfry-bench MODE [OPTION...]\n\n", out);
    for (size_t i = 0; i < N_MODES; i++)
        fprintf(out, "  %-12s %s\n", modes[i].name, modes[i].summary);
    fputs("\nAn option that a mode does not use is ignored by it.\n", out);
    plan_print_options(out);
}

/* A connection is a descriptor; the soft limit is for programs that use select(). */
static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char *argv[])
{
    if (argc < 2 || strcmp(argv[1], "--help") == 0) {
        usage(argc < 2 ? stderr : stdout);
        return argc < 2 ? 2 : 0;
    }
    for (size_t i = 0; i < N_MODES; i++) {
        if (strcmp(argv[1], modes[i].name) != 0)
            continue;
        struct plan plan;
        enum plan_do what;
        if (plan_read(&modes[i], argc, argv, stdout, stderr, &plan, &what) != BELFRY_OK)
            return 2;
        raise_descriptors();
        return what == PLAN_EXIT ? 0 : modes[i].run(&plan);
    }
    fprintf(stderr, "belfry-bench: %s is not a mode; --help lists them\n", argv[1]);
    return 2;
}
