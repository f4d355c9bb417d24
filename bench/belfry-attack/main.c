/* bench/belfry-attack/main.c: `belfry-attack ATTACK --target ADDR:PORT ...`: one attack of scripts.h on a server on
 * loopback, and what the server said to it, as one line of JSON. `belfry-attack sink`: the server that discards.
 * Exit 0: done; 1: it could not be done; 2: asked for wrongly. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "descriptors.h"
#include "die.h"
#include "opt/command_line.h"
#include "opt/help.h"
#include "scripts.h"
#include "sink.h"
#include "stopwatch.h"

struct plan {
    const char *attack;
    struct target target;
    bool has_target;
    size_t conns, connects; /* connects: per second */
    uint64_t rate;          /* bytes per second */
    uint64_t time_ms;
    const char *source;
    struct credentials tokens;
    bool list, help;
};

enum name { TARGET, SOURCE, TOKENS, CONNECTIONS, CONNECTS, RATE, TIME, LIST, HELP, N_NAMES };

#define AT(field) .offset = offsetof(struct plan, field), .width = sizeof(((struct plan *)0)->field)

/* clang-format off */
static const struct belfry_opt_row rows[N_NAMES] = {
    [TARGET] = {TARGET, "target", .kind = BELFRY_KIND_TEXT, .value_name = "ADDR:PORT",
        .help = "the server, on loopback; of the sink: where it listens"},
    [SOURCE] = {SOURCE, "source", .kind = BELFRY_KIND_TEXT, .value_name = "ADDR",
        .help = "the address that connections come from"},
    [TOKENS] = {TOKENS, "tokens", .kind = BELFRY_KIND_TEXT, .value_name = "FILE",
        .help = "a token per line: calls of etcd's API show them in turn"},
    [CONNECTIONS] = {CONNECTIONS, "connections", .kind = BELFRY_KIND_COUNT, .value_name = "N", AT(conns), .least = 1,
        .most = 100000, .described = "the attack's own", .help = "connections at a time"},
    [CONNECTS] = {CONNECTS, "connects", .kind = BELFRY_KIND_COUNT, .value_name = "N", AT(connects), .least = 1,
        .most = 1000000, .fallback = "1000", .help = "new connections per second, at most"},
    [RATE] = {RATE, "rate", .kind = BELFRY_KIND_SIZE, .value_name = "SIZE", AT(rate), .least = 1, .most = 1 << 30,
        .described = "the attack's own", .help = "bytes per second, at most"},
    [TIME] = {TIME, "time", .kind = BELFRY_KIND_MS, .value_name = "TIME", AT(time_ms), .least = 1, .most = 86400000,
        .fallback = "10s", .help = "how long it takes; SIGTERM ends it before"},
    [LIST] = {LIST, "list", .kind = BELFRY_KIND_BARE, .help = "print the attacks, one per line"},
    [HELP] = {HELP, "help", .letter = 'h', .kind = BELFRY_KIND_BARE, .help = "this text"},
};
/* clang-format on */

static const struct belfry_opt_table table = {
    .program = "belfry-attack",
    .ask = "belfry-attack --help",
    .rows = rows,
    .n_rows = N_NAMES,
    .about = "belfry-attack: a hostile client of etcd's API or Kubernetes', for servers on loopback.\n"
             "\nUsage: belfry-attack ATTACK|sink --target ADDR:PORT [flags]\n",
    .end = "'belfry-attack --list' prints the attacks. sink is a server that throws everything away.\n",
};

static bool wrong(const char *name, const char *why)
{
    fprintf(stderr, "belfry-attack: %s: %s\n", name, why);
    return false;
}

/* ---- the command line ---- */

static bool set(struct plan *plan, const struct belfry_opt_row *row, const char *text)
{
    uint64_t number;
    char why[BELFRY_OPT_WHY];
    if (text != NULL && belfry_opt_read(row, text, &number, why) != BELFRY_OK)
        return wrong(row->name, why);
    if (row->width > 0)
        belfry_opt_store(row, plan, number);
    switch ((int)row->id) {
    case TARGET:
        plan->has_target = true;
        return (target_parse(text, &plan->target) == BELFRY_OK && plan->target.loopback && !plan->target.is_tls) ||
               wrong(row->name, "an address of loopback and a port are needed, such as 127.0.0.1:2379");
    case SOURCE:
        plan->source = text;
        break;
    case TOKENS:
        credentials_read(&plan->tokens, text);
        break;
    case LIST:
        plan->list = true;
        break;
    case HELP:
        plan->help = true;
        break;
    default: /* the number is all */
        break;
    }
    return true;
}

static bool read_words(struct plan *plan, int argc, char *argv[])
{
    struct belfry_opt_words line = {.table = &table, .argc = argc - 1, .argv = argv + 1};
    struct belfry_opt_word word;
    char why[BELFRY_OPT_WHY];
    for (;;)
        switch (belfry_opt_words_next(&line, &word, why)) {
        case BELFRY_FOUND_FLAG:
            if (!set(plan, word.row, word.text))
                return false;
            break;
        case BELFRY_FOUND_ARGUMENT:
            if (plan->attack != NULL)
                return wrong(word.text, "one attack at a time");
            plan->attack = word.text;
            break;
        case BELFRY_FOUND_WRONG:
            return wrong("usage", why);
        case BELFRY_FOUND_END:
            return true;
        }
}

static bool read_plan(struct plan *plan, int argc, char *argv[])
{
    for (int i = 0; i < N_NAMES; i++)
        if (rows[i].fallback != NULL && !set(plan, &rows[i], rows[i].fallback))
            abort(); /* the table is wrong */
    if (!read_words(plan, argc, argv))
        return false;
    if (plan->list || plan->help)
        return true;
    if (plan->attack == NULL)
        return wrong("usage", "which attack? 'belfry-attack --list' prints them");
    if (!plan->has_target)
        return wrong("target", "is needed");
    if (plan->source != NULL && target_set_source(&plan->target, plan->source) != BELFRY_OK)
        return wrong("source", "an IPv4 address is needed");
    return true;
}

/* ---- the attack ---- */

/* How much may still be spent: `rate` per second, at most `most` at a time. */
struct purse {
    double left, most;
    uint64_t rate, filled_ns;
};

static void purse_fill(struct purse *purse, uint64_t now_ns)
{
    purse->left += (double)(now_ns - purse->filled_ns) * (double)purse->rate / NS_PER_S;
    purse->left = purse->left < purse->most ? purse->left : purse->most;
    purse->filled_ns = now_ns;
}

static struct purse purse_of(uint64_t rate, double least)
{
    double tenth = (double)rate / 10;
    return (struct purse){.rate = rate, .most = tenth > least ? tenth : least, .filled_ns = stopwatch_ns()};
}

/* Everybody in turn, from `first` on, so that none is always the last. Returns whether anything was sent. */
static bool attack_turn(struct hostile *clients, size_t n, size_t first, struct purse *bytes, struct purse *connects)
{
    uint64_t now = stopwatch_ns();
    bool busy = false;
    purse_fill(bytes, now);
    purse_fill(connects, now);
    for (size_t i = 0; i < n; i++) {
        struct hostile *client = &clients[(first + i) % n];
        if (client->state == HOSTILE_AWAY && connects->left >= 1 && now >= client->due_ns) {
            connects->left--;
            hostile_connect(client);
        }
        if (bytes->left <= 0)
            continue;
        size_t made = hostile_turn(client, now);
        bytes->left -= (double)made;
        busy = busy || made > 0;
    }
    return busy;
}

static volatile sig_atomic_t is_told_to_end; /* by SIGTERM */

static void on_signal(int signal)
{
    (void)signal;
    is_told_to_end = 1;
}

static void attack_run(const struct plan *plan, struct hostile_gang *gang)
{
    size_t n = plan->conns > 0 ? plan->conns : gang->script->conns;
    struct hostile *clients = must_have(calloc(n, sizeof(*clients)));
    struct purse bytes = purse_of(plan->rate > 0 ? plan->rate : gang->script->rate, 1);
    struct purse connects = purse_of(plan->connects, 1);
    uint64_t until = stopwatch_ns() + plan->time_ms * NS_PER_MS;
    for (size_t i = 0; i < n; i++)
        hostile_init(&clients[i], gang, i);
    for (size_t turn = 0; stopwatch_ns() < until && !is_told_to_end; turn++) {
        bool busy = attack_turn(clients, n, turn % n, &bytes, &connects);
        poller_turn(gang->poll, busy ? 0 : 1);
    }
    for (size_t i = 0; i < n; i++)
        hostile_fini(&clients[i]);
    free(clients);
}

static void print_report(const struct hostile_gang *gang)
{
    printf("{\"attack\": \"%s\", \"connects\": %llu, \"ended\": %llu, \"streams\": %llu, \"bytes_out\": %llu, "
           "\"bytes_in\": %llu, \"told\": ",
           gang->script->name, (unsigned long long)gang->connects, (unsigned long long)gang->ended,
           (unsigned long long)gang->streams, (unsigned long long)gang->bytes_out, (unsigned long long)gang->bytes_in);
    told_write(&gang->told, stdout);
    puts("}");
}

static void print_list(void)
{
    const struct script *script;
    for (size_t i = 0; (script = scripts_at(i)) != NULL; i++)
        printf("%-18s %s\n", script->name, script->summary);
}

int main(int argc, char *argv[])
{
    static struct hostile_gang gang; /* too large for a stack */
    struct plan plan = {0};
    if (!read_plan(&plan, argc, argv))
        return 2;
    if (plan.help || plan.list) {
        if (plan.help)
            belfry_opt_help(stdout, &table, 0);
        else
            print_list();
        return 0;
    }
    descriptors_raise();
    if (strcmp(plan.attack, "sink") == 0)
        sink_run(&plan.target);
    gang = (struct hostile_gang){
        .poll = poller_create(), .target = plan.target, .script = scripts_find(plan.attack), .tokens = &plan.tokens};
    if (gang.script == NULL) {
        wrong(plan.attack, "no such attack: 'belfry-attack --list' prints them");
        return 2;
    }
    if (gang.script->spread != NULL) {
        if (target_set_source(&gang.target, gang.script->spread) != BELFRY_OK)
            abort();
        gang.target.n_sources = 60000;
    }
    signal(SIGTERM, on_signal);
    attack_run(&plan, &gang);
    print_report(&gang);
    return 0;
}
