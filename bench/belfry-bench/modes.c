/* bench/belfry-bench/modes.c */
#include "modes.h"

const struct mode modes[N_MODES] = {
    {"fanout", "puts to many watchers: deliveries, CPU of each, latency, loss", "--connections 1000 --puts 200", false,
     fanout_run},
    {"idle", "memory of connections and watchers that receive nothing", "--connections 1000", false, idle_run},
    {"million", "a great many watchers on few connections: creates, memory, puts to some of them",
     "--connections 20 --watches 50000 --distinct --puts 1000 --timeout 300s", false, million_run},
    {"replay", "one watcher that starts far behind: revisions per second", "--revisions 100000 --in-flight 64", false,
     replay_run},
    {"stall", "what one reader that hangs does to the others and to the server's memory",
     "--connections 100 --rate 500 --value-size 1KiB", false, stall_run},
    {"storm", "watchers whose server is killed and started again: how soon they have all, what it costs upstream",
     "--connections 2000 --watches 10 --rate 10", false, storm_run},
    {"resume", "a fleet whose server is killed and started again: when every watch is there and has everything",
     "--fleet --connections 1000 --watches 100 --in-flight 64 --settle 0s", false, resume_run},
    {"write-cost", "what watchers cost those who write", "--connections 1000 --puts 500 --rate 100 --in-flight 1",
     false, writecost_run},
    {"kube", "puts to many watchers of Kubernetes objects over HTTP/1.1: as fanout",
     "--kube --connections 1000 --puts 200", false, fanout_run},
    {"put", "writes many keys, or with --kube objects, each once; measures nothing else",
     "--puts 100000 --in-flight 64 --timeout 300s", false, put_run},
    {"read", "Ranges of keys that were put: CPU of each, reads per second, latency",
     "--connections 16 --streams 8 --in-flight 64", false, read_run},
    {"listwatch", "clients that list a prefix and then watch it: CPU until all of them watch, and of puts to them",
     "--connections 100 --streams 100 --keys 1000 --in-flight 32 --puts 10 --timeout 300s", false, listwatch_run},
    {"list", "one list of all Kubernetes objects: time, bytes, the server's memory", "--kube", false, list_run},
    {"healthy", "clients in good order of all kinds: what they notice until the next line of standard input",
     "--connections 100 --in-flight 64 --timeout 60s", false, healthy_run},
    {"handshake", "connections that come and go, one after the other: CPU of each", "--connections 1000", false,
     handshake_run},
    {"bare", "the limit: the same bytes to the same number of sockets with nothing in between",
     "--connections 1000 --puts 200", true, bare_run},
};

const struct belfry_opt_table *modes_table(void)
{
    static struct belfry_opt_command commands[N_MODES + 1] = {{.name = "", .arguments = ""}};
    static struct belfry_opt_table table;
    table = plan_table;
    for (size_t i = 0; i < N_MODES; i++)
        commands[i + 1] = (struct belfry_opt_command){
            .name = modes[i].name, .arguments = "", .summary = modes[i].summary, .notes = modes[i].defaults};
    table.commands = commands;
    table.n_commands = N_MODES + 1;
    table.about = "belfry-bench: load on etcd or belfryd, and what it costs them.\n"
                  "\nUsage: belfry-bench MODE [flags]\n";
    table.end = "A mode has defaults of its own, which its --help shows above the flags. A flag that a mode does not\n"
                "use is ignored by it.\n";
    return &table;
}
