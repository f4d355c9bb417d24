/* src/cli/cmd_doctor.c: gathers facts step by step, and prints what doctor_steps makes of them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/doctor/doctor_admin.h"
#include "cli/doctor/doctor_calls.h"
#include "cli/doctor/doctor_reach.h"
#include "cli/doctor/doctor_steps.h"
#include "cli/doctor/doctor_write.h"
#include "cli/one_call.h"
#include "cli/out/form.h"
#include "cli/out/out.h"
#include "cli/out/out_json.h"
#include "cli/out/out_table.h"
#include "cli/range_args.h"

#define TIER       "127.0.0.1:23790"
#define INDENT     22
#define TREE_LOOKS 12 /* after a write, 250 ms apart: tiers ask each other once a second */

struct doctor {
    const struct flags *flags;
    enum form form;
    char *endpoints; /* owned; as the library wants them */
    struct belfry_range range;
    struct doctor_facts facts;
    enum doctor_result results[N_STEPS];
    size_t n_failures, n_warnings;
    bool in_skips; /* the line that names skipped steps is not ended; it has `used` columns */
    size_t used;
    size_t columns; /* of the terminal; 0: there is none */
};

/* ---- gathering ---- */

static struct belfry_tls_opts tls_of(const struct flags *flags)
{
    return (struct belfry_tls_opts){.cacert = flags->value[FLAG_CACERT],
                                    .cert = flags->value[FLAG_CERT],
                                    .key = flags->value[FLAG_KEY],
                                    .server_name = flags->value[FLAG_SERVER_NAME],
                                    .skip_verify = flags_on(flags, FLAG_INSECURE_SKIP_TLS_VERIFY)};
}

static enum belfry_err gather_reach(struct doctor *d)
{
    struct belfry_tls_opts tls = tls_of(d->flags);
    enum belfry_err err = BELFRY_OK;
    for (size_t i = 0; i < d->facts.n_reach && err == BELFRY_OK; i++)
        err = doctor_reach(&tls, (uint32_t)flags_ms(d->flags, FLAG_DIAL_TIMEOUT), &d->facts.reach[i]);
    return err;
}

/* The address that --admin has by default is of this machine: it says nothing about a tier elsewhere. */
static void gather_admin(struct doctor *d)
{
    struct doctor_admin *admin = &d->facts.admin;
    admin->given = flags_given(d->flags, FLAG_ADMIN);
    if (admin->given || belfry_endpoint_is_loopback(&d->facts.reach[0].endpoint))
        doctor_admin_ask(d->flags->value[FLAG_ADMIN], (int)flags_ms(d->flags, FLAG_COMMAND_TIMEOUT), admin);
}

/* A session tries again until its time is over: whether there is a server at all is found out sooner without one. */
static enum belfry_err add_member(struct doctor *d, const struct belfry_endpoint *endpoint)
{
    struct belfry_tls_opts tls = tls_of(d->flags);
    struct doctor_reach reach = {.endpoint = *endpoint};
    if (d->facts.n_members == DOCTOR_ENDPOINTS)
        return BELFRY_OK;
    struct doctor_member *member = &d->facts.members[d->facts.n_members++];
    snprintf(member->url, sizeof(member->url), "%s", endpoint->url);
    enum belfry_err err = doctor_reach(&tls, (uint32_t)flags_ms(d->flags, FLAG_DIAL_TIMEOUT), &reach);
    member->reached = reach.name.err == BELFRY_OK && reach.connect.err == BELFRY_OK;
    if (reach.name.err != BELFRY_OK)
        member->status = reach.name;
    else if (reach.connect.err != BELFRY_OK)
        member->status = reach.connect;
    else if (reach.tls.err != BELFRY_OK)
        member->status = reach.tls;
    else if (err == BELFRY_OK)
        doctor_ask_member(d->flags, member);
    return err;
}

/* Those of --upstream, else those that the tier says it has. */
static enum belfry_err gather_members(struct doctor *d)
{
    const char *given = d->flags->value[FLAG_UPSTREAM];
    struct belfry_endpoint *list = NULL;
    size_t n = 0;
    char why[FLAGS_WHY];
    enum belfry_err err = BELFRY_OK;
    if (given == NULL) {
        for (size_t i = 0; i < d->facts.admin.n_endpoints && err == BELFRY_OK; i++)
            if (!d->facts.admin.barred[i])
                err = add_member(d, &d->facts.admin.endpoints[i]);
        return err;
    }
    err = belfry_endpoint_parse_list(given, &list, &n, why, sizeof(why)); /* read_command() has looked at it */
    for (size_t i = 0; i < n && err == BELFRY_OK; i++)
        err = add_member(d, &list[i]);
    free(list);
    return err;
}

/* The tier's other pages come after the members' revisions: see judge_lag(). */
static enum belfry_err gather_tier(struct doctor *d)
{
    gather_admin(d);
    enum belfry_err err = gather_members(d);
    if (d->facts.admin.asked && d->facts.admin.page.err == BELFRY_OK)
        doctor_admin_ask_more(d->flags->value[FLAG_ADMIN], (int)flags_ms(d->flags, FLAG_COMMAND_TIMEOUT),
                              &d->facts.admin);
    return err;
}

/* The tree as it is when every level has the write. */
static void gather_hops(struct doctor *d)
{
    struct doctor_admin *admin = &d->facts.admin;
    int timeout_ms = (int)flags_ms(d->flags, FLAG_COMMAND_TIMEOUT);
    for (int look = 0; look < TREE_LOOKS; look++) {
        struct timespec pause = {.tv_nsec = 250 * 1000000};
        bool all = true;
        if (!doctor_admin_ask_tree(d->flags->value[FLAG_ADMIN], timeout_ms, admin))
            return;
        for (size_t i = 0; i < admin->n_levels; i++)
            all = all && admin->levels[i].revision >= d->facts.write.revision && (i == 0 || admin->levels[i].has_hop);
        if (all)
            return;
        nanosleep(&pause, NULL);
    }
}

static void gather_write(struct doctor *d)
{
    char upstream[DOCTOR_ENDPOINTS * (BELFRY_ENDPOINT_TEXT + 1)] = "";
    size_t used = 0;
    for (size_t i = 0; i < d->facts.n_members; i++)
        if (d->facts.members[i].status.err == BELFRY_OK)
            used += (size_t)snprintf(upstream + used, sizeof(upstream) - used, "%s%s", used > 0 ? "," : "",
                                     d->facts.members[i].url);
    doctor_write(d->flags, d->endpoints, used > 0 ? upstream : NULL, &d->facts.write);
    if (d->facts.write.seen_here && d->facts.admin.asked && d->facts.admin.page.err == BELFRY_OK)
        gather_hops(d);
}

/* What the step judges, and was not gathered for one before it. */
static enum belfry_err gather(struct doctor *d, enum doctor_step_id step)
{
    if (doctor_runs(step, &d->facts, d->results) != DOCTOR_RUNS)
        return BELFRY_OK;
    if (step == STEP_NAME)
        return gather_reach(d);
    if (step == STEP_TIER)
        return gather_tier(d);
    if (step == STEP_IDENTITY)
        doctor_ask_client(d->flags, d->endpoints, d->range, &d->facts.client);
    if (step == STEP_WRITE)
        gather_write(d);
    return BELFRY_OK;
}

/* ---- telling ---- */

/* How much of the text goes on this line: up to a blank, if it has more than `room` bytes. */
static size_t fitting(const char *text, size_t room)
{
    size_t len = strlen(text), at = room;
    if (len <= room)
        return len;
    while (at > 0 && text[at] != ' ')
        at--;
    return at > 0 ? at : strcspn(text, " ");
}

/* Behind the indent, in as many lines as the terminal needs for it. */
static void print_text(const struct doctor *d, const char *text)
{
    size_t room = d->columns > INDENT * 2 ? d->columns - INDENT : SIZE_MAX;
    for (;;) {
        size_t len = fitting(text, room);
        table_bytes(stdout, (struct belfry_bytes){text, len}, false); /* it may hold a server's words */
        putchar('\n');
        text += len + (text[len] == ' ');
        if (*text == '\0')
            return;
        printf("%*s", INDENT, "");
    }
}

/* Skipped steps that follow each other share a line. */
static void print_skip(struct doctor *d, const char *name, const struct doctor_verdict *v)
{
    if (!d->in_skips)
        d->used = (size_t)printf("%-5s %s", "skip", name);
    else if (d->columns > 0 && d->used + strlen(name) + 3 > d->columns)
        d->used = (size_t)printf(",\n      %s", name) - 2;
    else
        d->used += (size_t)printf(", %s", name);
    d->in_skips = v->what[0] == '\0';
    if (d->in_skips)
        return;
    printf("%*s", (int)(INDENT - 6 - strlen(name)), "");
    print_text(d, v->what);
}

static void print_line(struct doctor *d, const char *name, const struct doctor_verdict *v)
{
    bool says_why = v->what[0] != '\0';
    if (d->in_skips && (v->result != DOCTOR_SKIP || says_why)) {
        putchar('\n');
        d->in_skips = false;
    }
    if (v->result == DOCTOR_SKIP) {
        print_skip(d, name, v);
    } else {
        printf("%-5s %-*s", doctor_result_name(v->result), INDENT - 6, name);
        print_text(d, v->what);
    }
    if (v->remedy[0] != '\0') {
        printf("%*s", INDENT, "");
        print_text(d, v->remedy);
    }
}

static void print_json(const char *name, const struct doctor_verdict *v)
{
    printf("{\"step\":\"%s\",\"result\":\"%s\"", name, doctor_result_name(v->result));
    if (v->what[0] != '\0')
        json_member(stdout, "what", (struct belfry_bytes){v->what, strlen(v->what)});
    if (v->remedy[0] != '\0')
        json_member(stdout, "remedy", (struct belfry_bytes){v->remedy, strlen(v->remedy)});
    puts("}");
}

static void print_count(size_t n, const char *one)
{
    printf("%zu %s%s", n, one, n == 1 ? "" : "s");
}

static void print_end(struct doctor *d)
{
    if (d->form == FORM_LINES) {
        printf("{\"failures\":%zu,\"warnings\":%zu}\n", d->n_failures, d->n_warnings);
        return;
    }
    if (d->in_skips)
        putchar('\n');
    print_count(d->n_failures, "failure");
    fputs(", ", stdout);
    print_count(d->n_warnings, "warning");
    putchar('\n');
}

/* ---- the command ---- */

static enum exit_code run_steps(struct doctor *d)
{
    struct doctor_verdict verdict;
    for (enum doctor_step_id step = 0; step < N_STEPS; step++) {
        enum belfry_err err = gather(d, step);
        if (err != BELFRY_OK)
            return report_error(err, NULL);
        doctor_judge(step, &d->facts, d->results, &verdict);
        d->results[step] = verdict.result;
        d->n_failures += verdict.result == DOCTOR_FAIL;
        d->n_warnings += verdict.result == DOCTOR_WARN;
        if (verdict.result == DOCTOR_NONE)
            continue;
        if (d->form == FORM_LINES)
            print_json(doctor_steps[step].name, &verdict);
        else
            print_line(d, doctor_steps[step].name, &verdict);
        if (out_flush() != OUT_OPEN)
            return EXIT_FAILED;
    }
    print_end(d);
    return out_flush() == OUT_BROKEN || d->n_failures > 0 ? EXIT_FAILED : EXIT_DONE;
}

static void describe_client(const struct flags *flags, struct doctor_facts *facts)
{
    const char *user = flags->value[FLAG_USER];
    struct doctor_client *client = &facts->client;
    client->asks_range = flags->n_args > 0;
    client->prefix = flags_on(flags, FLAG_PREFIX);
    client->has_certificate = flags->value[FLAG_CERT] != NULL;
    if (client->asks_range)
        snprintf(client->range, sizeof(client->range), "%s", flags->args[0]);
    if (user != NULL)
        snprintf(client->user, sizeof(client->user), "%.*s", (int)strcspn(user, ":"), user);
    facts->write.wanted = flags->value[FLAG_WRITE_KEY] != NULL;
    if (facts->write.wanted)
        snprintf(facts->write.key, sizeof(facts->write.key), "%s", flags->value[FLAG_WRITE_KEY]);
    facts->now_s = time(NULL);
}

static bool is_list(const char *text, char *why)
{
    struct belfry_endpoint *list;
    size_t n;
    if (belfry_endpoint_parse_list(text, &list, &n, why, FLAGS_WHY) != BELFRY_OK)
        return false;
    free(list);
    return true;
}

/* False: the sentence in why says what is wrong with the command. */
static bool read_command(struct doctor *d, char *why)
{
    const struct flags *flags = d->flags;
    struct belfry_endpoint *list;
    size_t n;
    const char *upstream = flags->value[FLAG_UPSTREAM], *key = flags->value[FLAG_WRITE_KEY];
    if (form_choose(flags, isatty(STDOUT_FILENO) == 1, &d->form, why) != BELFRY_OK ||
        form_refuse_etcds(d->form, "doctor", why) != BELFRY_OK)
        return false;
    snprintf(why, FLAGS_WHY, "--write-key: name a key that does not exist, of 1 to %d bytes", DOCTOR_TEXT - 1);
    if (key != NULL && (key[0] == '\0' || strlen(key) >= DOCTOR_TEXT))
        return false;
    if (upstream != NULL && !is_list(upstream, why))
        return false;
    if (flags->n_args > 0 && range_of_flags(flags, &d->range, why) != BELFRY_OK)
        return false;
    if (belfry_endpoint_parse_list(d->endpoints, &list, &n, why, FLAGS_WHY) != BELFRY_OK)
        return false;
    for (size_t i = 0; i < n && i < DOCTOR_ENDPOINTS; i++)
        d->facts.reach[d->facts.n_reach++].endpoint = list[i];
    free(list);
    describe_client(flags, &d->facts);
    return true;
}

enum exit_code cmd_doctor(const struct flags *flags)
{
    char why[FLAGS_WHY];
    const char *text = flags_given(flags, FLAG_ENDPOINTS) ? flags->value[FLAG_ENDPOINTS] : TIER;
    enum exit_code code = EXIT_USAGE;
    struct doctor *d = calloc(1, sizeof(*d));
    if (d == NULL)
        return report_error(BELFRY_ERR_NOMEM, NULL);
    d->flags = flags;
    struct winsize size;
    if (isatty(STDOUT_FILENO) == 1 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        d->columns = size.ws_col;
    if (session_endpoints_of(flags, text, &d->endpoints) != BELFRY_OK)
        code = report_error(BELFRY_ERR_NOMEM, NULL);
    else if (read_command(d, why))
        code = run_steps(d);
    else
        report_usage(why);
    free(d->endpoints);
    free(d);
    return code;
}
