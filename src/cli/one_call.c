/* src/cli/one_call.c */
#include "cli/one_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/opts.h"
#include "cli/out/out.h"
#include "cli/out/out_table.h"

#define WHY_MAX 1024

static bool wants_tls(const struct flags *flags)
{
    return flags->value[FLAG_CACERT] != NULL || flags->value[FLAG_CERT] != NULL ||
           flags_on(flags, FLAG_INSECURE_SKIP_TLS_VERIFY) ||
           (flags->value[FLAG_INSECURE_TRANSPORT] != NULL && !flags_on(flags, FLAG_INSECURE_TRANSPORT));
}

static bool has_scheme(const char *text, size_t len)
{
    return memmem(text, len, "://", 3) != NULL || (len >= 5 && memcmp(text, "unix:", 5) == 0);
}

enum belfry_err session_endpoints(const struct flags *flags, char **out)
{
    return session_endpoints_of(flags, flags->value[FLAG_ENDPOINTS], out);
}

enum belfry_err session_endpoints_of(const struct flags *flags, const char *text, char **out)
{
    bool tls = wants_tls(flags);
    size_t commas = 0;
    for (const char *at = text; *at != '\0'; at++)
        commas += *at == ',';
    char *list = malloc(strlen(text) + (commas + 1) * strlen("https://") + 1);
    if (list == NULL)
        return BELFRY_ERR_NOMEM;

    char *end = list;
    for (;;) {
        text += strspn(text, " ");
        size_t len = strcspn(text, ",");
        if (tls && len > 0 && !has_scheme(text, len))
            end = stpcpy(end, "https://");
        memcpy(end, text, len);
        end += len;
        text += len;
        if (*text == '\0')
            break;
        *end++ = *text++;
    }
    *end = '\0';
    *out = list;
    return BELFRY_OK;
}

void session_write_log(enum belfry_level level, const char *event, const char *text, void *user)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    (void)user;
    fprintf(stderr, "belfryctl: level=%s event=%s ", level <= BELFRY_DEBUG ? names[level] : "debug", event);
    table_bytes(stderr, (struct belfry_bytes){text, strlen(text)}, false);
    fputc('\n', stderr);
}

/* A mistake of the user where `why` says so, a failure otherwise. */
static enum exit_code tell(enum belfry_err err, const char *why)
{
    return err == BELFRY_ERR_INVALID ? report_usage(why) : report_error(err, why);
}

enum exit_code session_open(const struct flags *flags, const char *endpoints, struct belfry **out)
{
    struct belfry_opts *opts = NULL;
    char *list = NULL, why[WHY_MAX] = "";
    enum exit_code code = EXIT_DONE;

    enum belfry_err err = opts_fill(flags, TAKER_OPEN, &opts, why);
    if (err == BELFRY_OK && endpoints == NULL)
        err = session_endpoints(flags, &list);
    if (err == BELFRY_OK)
        err = (enum belfry_err)belfry_open_why(list != NULL ? list : endpoints, opts, out, why, sizeof(why));
    if (err != BELFRY_OK)
        code = tell(err, why[0] != '\0' ? why : belfry_strerror(err));
    else if (flags_on(flags, FLAG_DEBUG))
        belfry_set_log(*out, BELFRY_DEBUG, session_write_log, NULL);
    free(list);
    belfry_opts_free(opts);
    return code;
}

/* ---- one call ---- */

struct waiting {
    const struct flags *flags;
    const struct session_call *call;
    enum form form;
    struct belfry *b;
    enum exit_code code;
};

static void on_reply(const struct belfry_reply *reply, void *user)
{
    struct waiting *w = user;
    belfry_stop(w->b);
    if (reply->err != BELFRY_OK) {
        w->code = report_error(reply->err, reply->why);
        return;
    }
    w->call->show(w->flags, w->call, w->form, reply);
    w->code = out_flush() == OUT_BROKEN ? EXIT_FAILED : EXIT_DONE;
}

static enum exit_code run(struct waiting *w, const struct belfry_opts *opts)
{
    enum exit_code code = session_open(w->flags, NULL, &w->b);
    if (code != EXIT_DONE)
        return code;
    w->code = EXIT_FAILED;
    int err = w->call->start(w->b, w->call, opts, on_reply, w);
    if (err == BELFRY_OK)
        err = belfry_run(w->b, -1); /* the call has its own deadline: command-timeout */
    if (err != BELFRY_OK)
        w->code = report_error(err, belfry_strerror(err));
    code = w->code;
    belfry_close(w->b); /* after the code is read: a call that is still there is told CANCELED now */
    return code;
}

enum exit_code session_run_call(const struct flags *flags, const struct session_call *call)
{
    struct waiting w = {.flags = flags, .call = call};
    struct belfry_opts *opts = NULL;
    char why[FLAGS_WHY] = "";
    enum belfry_err err = form_choose(flags, isatty(STDOUT_FILENO) == 1, &w.form, why);
    if (err == BELFRY_OK)
        err = opts_fill(flags, TAKER_CALL, &opts, why);
    enum exit_code code = err == BELFRY_OK ? run(&w, opts) : tell(err, why);
    belfry_opts_free(opts);
    return code;
}
