/* src/cli/cmd_status.c: every endpoint is asked in a session of its own, all at once. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/one_call.h"
#include "cli/out/human_size.h"
#include "cli/out/out.h"
#include "cli/out/out_etcd_json.h"
#include "cli/out/out_json.h"
#include "cli/out/out_table.h"

#define TEXT 512

/* One endpoint, and what it said: a copy, since a reply is lent. */
struct probe {
    char *endpoint; /* lent from the list of all */
    struct belfry *b;
    bool answered; /* a reply has come, good or bad */
    int err;
    char why[TEXT]; /* err set */
    struct belfry_header header;
    char version[32], errors[TEXT];
    bool is_learner;
    int64_t db_size, db_size_in_use;
    uint64_t leader, raft_index, raft_term, raft_applied_index;
};

static void copy_errors(struct probe *probe, const char *const *errors)
{
    size_t used = 0;
    for (; errors != NULL && *errors != NULL && used < TEXT; errors++)
        used += (size_t)snprintf(probe->errors + used, TEXT - used, "%s%s", used > 0 ? ", " : "", *errors);
}

static void on_reply(const struct belfry_reply *reply, void *user)
{
    struct probe *probe = user;
    probe->answered = true;
    probe->err = reply->err;
    if (reply->err != BELFRY_OK || reply->status == NULL) {
        snprintf(probe->why, TEXT, "%s", reply->why != NULL ? reply->why : belfry_strerror(reply->err));
        return;
    }
    const struct belfry_status *s = reply->status;
    probe->header = reply->header;
    snprintf(probe->version, sizeof(probe->version), "%s", s->version);
    copy_errors(probe, s->errors);
    probe->is_learner = s->is_learner != 0;
    probe->db_size = s->db_size;
    probe->db_size_in_use = s->db_size_in_use;
    probe->leader = s->leader;
    probe->raft_index = s->raft_index;
    probe->raft_term = s->raft_term;
    probe->raft_applied_index = s->raft_applied_index;
}

/* ---- asking ---- */

static enum exit_code begin(const struct flags *flags, struct probe *probe)
{
    enum exit_code code = session_open(flags, probe->endpoint, &probe->b);
    if (code != EXIT_DONE)
        return code;
    int err = belfry_status(probe->b, NULL, on_reply, probe, NULL);
    return err == BELFRY_OK ? EXIT_DONE : report_error(err, NULL);
}

static size_t collect(struct probe *probes, size_t n, struct pollfd *fds)
{
    size_t waiting = 0;
    for (size_t i = 0; i < n; i++) {
        fds[i] = (struct pollfd){.fd = probes[i].answered ? -1 : belfry_fd(probes[i].b), .events = POLLIN};
        waiting += !probes[i].answered;
    }
    return waiting;
}

/* Ends by itself: each call has its command-timeout. */
static enum exit_code wait_for_all(struct probe *probes, size_t n)
{
    struct pollfd *fds = calloc(n, sizeof(*fds));
    if (fds == NULL)
        return report_error(BELFRY_ERR_NOMEM, NULL);
    enum exit_code code = EXIT_DONE;
    while (code == EXIT_DONE && collect(probes, n, fds) > 0) {
        if (poll(fds, (nfds_t)n, -1) < 0)
            continue; /* EINTR; a handler that wants an end ends the process */
        for (size_t i = 0; i < n; i++) {
            int err = fds[i].revents != 0 ? belfry_dispatch(probes[i].b) : BELFRY_OK;
            if (err != BELFRY_OK)
                code = report_error(err, NULL);
        }
    }
    free(fds);
    return code;
}

/* ---- telling ---- */

static void show_cell(const char *text, int width)
{
    int columns = (int)table_bytes(stdout, (struct belfry_bytes){text, strlen(text)}, false);
    printf("%*s  ", columns < width ? width - columns : 0, "");
}

static void show_row(const struct probe *p, int width)
{
    char size[HUMAN_SIZE], id[24], leader[24];
    show_cell(p->endpoint, width);
    if (p->err != BELFRY_OK) {
        table_bytes(stdout, (struct belfry_bytes){p->why, strlen(p->why)}, false);
        putchar('\n');
        return;
    }
    human_size(p->db_size, size);
    snprintf(id, sizeof(id), "%" PRIx64, p->header.member_id);
    snprintf(leader, sizeof(leader), "%" PRIx64, p->leader);
    bool leads = p->leader == p->header.member_id;
    printf("%-16s  ", id);
    show_cell(p->version, 8);
    printf("%-8s  %-16s  %-10" PRId64 "  %-9" PRIu64 "  %s", size,
           leads           ? "itself"
           : p->leader > 0 ? leader
                           : "none",
           p->header.revision, p->raft_term, p->is_learner ? "yes" : "no");
    if (p->errors[0] != '\0') {
        fputs(p->is_learner ? "      " : "       ", stdout);
        table_bytes(stdout, (struct belfry_bytes){p->errors, strlen(p->errors)}, false);
    }
    putchar('\n');
}

static void show_table(const struct probe *probes, size_t n)
{
    size_t width = strlen("ENDPOINT");
    for (size_t i = 0; i < n; i++)
        if (strlen(probes[i].endpoint) > width && strlen(probes[i].endpoint) < 64)
            width = strlen(probes[i].endpoint);
    printf("%-*s  %-16s  %-8s  %-8s  %-16s  %-10s  %-9s  %-7s  %s\n", (int)width, "ENDPOINT", "ID", "VERSION",
           "DB SIZE", "LEADER", "REVISION", "RAFT TERM", "LEARNER", "ERRORS");
    for (size_t i = 0; i < n; i++)
        show_row(&probes[i], (int)width);
}

static void show_text(const char *name, const char *text)
{
    json_member(stdout, name, (struct belfry_bytes){text, strlen(text)});
}

static void show_line(const struct probe *p)
{
    struct belfry_bytes endpoint = {p->endpoint, strlen(p->endpoint)};
    fputs("{\"endpoint\":", stdout);
    json_string(stdout, endpoint);
    if (p->err != BELFRY_OK) {
        show_text("error", p->why);
    } else {
        printf(",\"id\":\"%" PRIx64 "\",\"cluster\":\"%" PRIx64 "\"", p->header.member_id, p->header.cluster_id);
        show_text("version", p->version);
        printf(",\"db_size\":%" PRId64 ",\"db_size_in_use\":%" PRId64 ",\"leader\":\"%" PRIx64 "\",\"rev\":%" PRId64
               ",\"raft_term\":%" PRIu64 ",\"raft_index\":%" PRIu64 ",\"raft_applied_index\":%" PRIu64
               ",\"learner\":%s",
               p->db_size, p->db_size_in_use, p->leader, p->header.revision, p->raft_term, p->raft_index,
               p->raft_applied_index, p->is_learner ? "true" : "false");
        if (p->errors[0] != '\0')
            show_text("errors", p->errors);
    }
    fputs("}\n", stdout);
}

/* As etcdctl does, endpoints that failed are told on standard error only. */
static void show_failed(const struct probe *p)
{
    fputs("belfryctl: ", stderr);
    table_bytes(stderr, (struct belfry_bytes){p->why, strlen(p->why)}, false);
    fputc('\n', stderr);
}

static void show_simple(const struct probe *p)
{
    char size[HUMAN_SIZE];
    human_size(p->db_size, size);
    printf("%s, %" PRIx64 ", %s, %s, %s, %s, %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %s\n", p->endpoint,
           p->header.member_id, p->version, size, p->leader == p->header.member_id ? "true" : "false",
           p->is_learner ? "true" : "false", p->raft_term, p->raft_index, p->raft_applied_index, p->errors);
}

static void show_number(const char *name, uint64_t number)
{
    if (number != 0)
        printf(",\"%s\":%" PRIu64, name, number);
}

static void show_etcd_json(const struct probe *p)
{
    fputs("{\"Endpoint\":", stdout);
    json_string(stdout, (struct belfry_bytes){p->endpoint, strlen(p->endpoint)});
    fputs(",\"Status\":{", stdout);
    etcd_json_header(stdout, "header", &p->header);
    show_text("version", p->version);
    show_number("dbSize", (uint64_t)p->db_size);
    show_number("leader", p->leader);
    show_number("raftIndex", p->raft_index);
    show_number("raftTerm", p->raft_term);
    show_number("raftAppliedIndex", p->raft_applied_index);
    if (p->errors[0] != '\0') {
        fputs(",\"errors\":[", stdout);
        json_string(stdout, (struct belfry_bytes){p->errors, strlen(p->errors)});
        fputc(']', stdout);
    }
    show_number("dbSizeInUse", (uint64_t)p->db_size_in_use);
    fputs(p->is_learner ? ",\"isLearner\":true}}" : "}}", stdout);
}

static void show_all_etcd_json(const struct probe *probes, size_t n)
{
    const char *comma = "";
    fputc('[', stdout);
    for (size_t i = 0; i < n; i++) {
        if (probes[i].err != BELFRY_OK) {
            show_failed(&probes[i]);
            continue;
        }
        fputs(comma, stdout);
        show_etcd_json(&probes[i]);
        comma = ",";
    }
    fputs("]\n", stdout);
}

static void show(enum form form, const struct probe *probes, size_t n)
{
    if (form == FORM_TABLE) {
        show_table(probes, n);
    } else if (form == FORM_ETCD_JSON) {
        show_all_etcd_json(probes, n);
    } else {
        for (size_t i = 0; i < n; i++)
            if (form == FORM_LINES)
                show_line(&probes[i]);
            else if (probes[i].err != BELFRY_OK)
                show_failed(&probes[i]);
            else
                show_simple(&probes[i]);
    }
}

/* ---- the command ---- */

static enum exit_code verdict(const struct probe *probes, size_t n)
{
    size_t failed = 0;
    for (size_t i = 0; i < n; i++)
        failed += probes[i].err != BELFRY_OK;
    if (failed == 0)
        return EXIT_DONE;
    if (failed < n)
        return EXIT_FAILED;
    fprintf(stderr, "belfryctl: no endpoint answered: %s\n", report_remedy(probes[0].err));
    return report_code(probes[0].err) == EXIT_FAILED ? EXIT_NO_ANSWER : report_code(probes[0].err);
}

static enum exit_code ask_and_tell(const struct flags *flags, enum form form, struct probe *probes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        enum exit_code code = begin(flags, &probes[i]);
        if (code != EXIT_DONE)
            return code;
    }
    enum exit_code code = wait_for_all(probes, n);
    if (code != EXIT_DONE)
        return code;
    show(form, probes, n);
    return out_flush() == OUT_BROKEN ? EXIT_FAILED : verdict(probes, n);
}

/* Cuts `list` at its commas; empty pieces are left out. Returns how many. */
static size_t cut(char *list, struct probe *probes)
{
    size_t n = 0;
    char *rest = list;
    for (char *piece; (piece = strsep(&rest, ",")) != NULL;) {
        piece += strspn(piece, " ");
        if (*piece != '\0')
            probes[n++].endpoint = piece;
    }
    return n;
}

enum exit_code cmd_status(const struct flags *flags)
{
    enum form form;
    char *list = NULL, why[FLAGS_WHY];
    if (form_choose(flags, isatty(STDOUT_FILENO) == 1, &form, why) != BELFRY_OK)
        return report_usage(why);
    if (session_endpoints(flags, &list) != BELFRY_OK)
        return report_error(BELFRY_ERR_NOMEM, NULL);

    struct probe *probes = calloc(strlen(list) + 1, sizeof(*probes));
    size_t n = probes == NULL ? 0 : cut(list, probes);
    enum exit_code code = probes == NULL ? report_error(BELFRY_ERR_NOMEM, NULL)
                          : n == 0       ? report_usage("--endpoints names none")
                                         : ask_and_tell(flags, form, probes, n);
    for (size_t i = 0; i < n; i++)
        belfry_close(probes[i].b);
    free(probes);
    free(list);
    return code;
}
