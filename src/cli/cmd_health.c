/* src/cli/cmd_health.c: one line and an exit code, for probes that have no shell and no curl. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cmd.h"
#include "cli/http_get.h"
#include "cli/out/form.h"
#include "cli/out/out.h"
#include "cli/out/out_json.h"
#include "cli/out/out_table.h"

#define REASON   512
#define RETRY_MS 100 /* between two questions of --wait */

/* Joins the lines "[-]name: why" of /readyz with "; ". The last line repeats the verdict, so it is left out. */
static void join_reasons(const struct http_page *page, char out[REASON])
{
    size_t used = 0;
    out[0] = '\0';
    for (const char *line = page->body, *end; (end = strchr(line, '\n')) != NULL && used < REASON; line = end + 1) {
        int len = (int)(end - line) - 3;
        if (strncmp(line, "[-]", 3) == 0)
            used += (size_t)snprintf(out + used, REASON - used, "%s%.*s", used > 0 ? "; " : "", len, line + 3);
    }
}

static void print_verdict(enum form form, const char *word, const char *reason, bool good)
{
    struct belfry_bytes text = {reason, strlen(reason)};
    if (form == FORM_LINES) {
        printf("{\"ok\":%s,\"verdict\":\"%s\"", good ? "true" : "false", word);
        if (text.len > 0)
            json_member(stdout, "why", text);
        puts("}");
        return;
    }
    printf("%s%s", word, text.len > 0 ? ": " : "");
    table_bytes(stdout, text, false); /* it may hold a server's words */
    putchar('\n');
}

/* A probe knows two answers: every failure but wrong usage is 1. */
static enum exit_code judge(const struct flags *flags, const struct http_page *page, enum form form)
{
    char reason[REASON] = "";
    bool ready = flags_on(flags, FLAG_READY), good = page->status == 200;
    if (page->status == 503)
        join_reasons(page, reason);
    else if (!good)
        snprintf(reason, sizeof(reason), "%s answered %d: is that the admin address of a belfryd?",
                 flags->value[FLAG_ADMIN], page->status);
    if (ready)
        print_verdict(form, good ? "ready" : "not ready", reason, good);
    else
        print_verdict(form, good ? "alive" : "not alive", reason, good);
    return out_flush() != OUT_BROKEN && good ? EXIT_DONE : EXIT_FAILED;
}

/* Asks until the answer is good, or the time of --wait is over; what is there is then the last answer. */
static enum belfry_err ask(const struct flags *flags, struct http_page *page, char *why)
{
    const char *path = flags_on(flags, FLAG_READY) ? "/readyz" : "/livez";
    uint64_t wait_ms = (uint64_t)flags_ms(flags, FLAG_WAIT), began_ms = belfry_clock_ms();
    int64_t timeout_ms = flags_ms(flags, FLAG_COMMAND_TIMEOUT);
    for (;;) {
        struct timespec pause = {.tv_nsec = RETRY_MS * 1000000};
        enum belfry_err err = http_get(flags->value[FLAG_ADMIN], path, (int)timeout_ms, page, why);
        uint64_t spent_ms = belfry_clock_ms() - began_ms + RETRY_MS;
        if ((err == BELFRY_OK && page->status == 200) || err == BELFRY_ERR_INVALID || spent_ms >= wait_ms)
            return err;
        if ((uint64_t)timeout_ms > wait_ms - spent_ms)
            timeout_ms = (int64_t)(wait_ms - spent_ms);
        if (err == BELFRY_OK)
            http_page_fini(page);
        nanosleep(&pause, NULL);
    }
}

enum exit_code cmd_health(const struct flags *flags)
{
    char why[FLAGS_WHY > HTTP_GET_WHY ? FLAGS_WHY : HTTP_GET_WHY];
    struct http_page page = {0};
    enum form form;
    if (form_choose(flags, isatty(STDOUT_FILENO) == 1, &form, why) != BELFRY_OK ||
        form_refuse_etcds(form, "health", why) != BELFRY_OK)
        return report_usage(why);
    enum belfry_err err = ask(flags, &page, why);
    if (err != BELFRY_OK)
        return report_admin(err, why) == EXIT_USAGE ? EXIT_USAGE : EXIT_FAILED;
    enum exit_code code = judge(flags, &page, form);
    http_page_fini(&page);
    return code;
}
