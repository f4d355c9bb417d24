/* src/cli/cmd_txn.c */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/one_call.h"
#include "cli/out/out.h"
#include "cli/out/out_etcd_json.h"
#include "cli/out/out_json.h"
#include "cli/out/out_simple.h"
#include "cli/out/out_table.h"
#include "cli/txn_script.h"

#define LINE_BYTES ((ssize_t)64 << 20) /* far above what a server takes (1.5 MiB): it refuses in its own words */

/* ---- telling ---- */

static void show_simple(const struct flags *flags, const struct txn_step *step, const struct belfry_reply *reply)
{
    putchar('\n');
    if (step->command == CMD_PUT)
        puts("OK");
    else if (step->command == CMD_DEL)
        printf("%" PRId64 "\n", reply->deleted);
    for (const struct belfry_event *kv = NULL; (kv = belfry_reply_kv(reply, kv)) != NULL;)
        simple_kv(stdout, kv, flags_on(flags, FLAG_HEX) ? SIMPLE_HEX : 0);
}

static void show_lines(const struct txn_step *step, const struct belfry_reply *reply)
{
    const struct belfry_event *kv = NULL;
    if (step->command == CMD_GET) {
        while ((kv = belfry_reply_kv(reply, kv)) != NULL)
            json_event_line(stdout, kv->mod_rev, "state", kv);
        return;
    }
    kv = belfry_reply_kv(reply, NULL);
    printf("{\"rev\":%" PRId64 ",\"op\":\"%s\"", reply->header.revision, step->command == CMD_PUT ? "put" : "del");
    json_member(stdout, "key", (struct belfry_bytes){step->key, strlen(step->key)});
    if (step->command == CMD_PUT && kv != NULL)
        json_member(stdout, "prev", kv->value);
    if (step->command == CMD_DEL)
        printf(",\"deleted\":%" PRId64, reply->deleted);
    fputs("}\n", stdout);
}

static void show_table(struct table *table, const struct txn_step *step, const struct belfry_reply *reply)
{
    struct belfry_event written = {.op = BELFRY_PUT, .key = {step->key, strlen(step->key)}};
    const struct belfry_event *kv = NULL;
    if (step->command == CMD_PUT)
        table_event(table, stdout, reply->header.revision, "put", &written, NULL);
    else if (step->command == CMD_DEL)
        printf("  -- %" PRId64 " deleted --\n", reply->deleted);
    else
        while ((kv = belfry_reply_kv(reply, kv)) != NULL)
            table_event(table, stdout, kv->mod_rev, "=", kv, NULL);
}

static void show_verdict(enum form form, const struct belfry_reply *reply)
{
    if (form == FORM_LINES)
        printf("{\"rev\":%" PRId64 ",\"succeeded\":%s}\n", reply->header.revision, reply->succeeded ? "true" : "false");
    else if (form == FORM_TABLE)
        printf("  -- the conditions %s, at %" PRId64 " --\n", reply->succeeded ? "hold" : "do not hold",
               reply->header.revision);
    else
        puts(reply->succeeded ? "SUCCESS" : "FAILURE");
}

static void show(const struct flags *flags, const struct session_call *call, enum form form,
                 const struct belfry_reply *reply)
{
    enum belfry_branch branch = reply->succeeded ? BELFRY_THEN : BELFRY_ELSE;
    const struct txn_step *steps = call->script->steps[branch].list;
    struct table table = {.hex = flags_on(flags, FLAG_HEX)};
    const struct belfry_reply *op = NULL;
    if (form == FORM_ETCD_JSON) {
        etcd_json_txn(stdout, call->script, reply);
        return;
    }
    show_verdict(form, reply);
    for (size_t i = 0; i < call->script->steps[branch].n && (op = belfry_reply_op(reply, op)) != NULL; i++) {
        if (form == FORM_LINES)
            show_lines(&steps[i], op);
        else if (form == FORM_TABLE)
            show_table(&table, &steps[i], op);
        else
            show_simple(flags, &steps[i], op);
    }
}

/* ---- reading ---- */

static void prompt(enum txn_stage stage)
{
    static const char *const texts[] = {[TXN_CONDITIONS] = "compares:",
                                        [TXN_THEN] = "success requests (get, put, del):",
                                        [TXN_ELSE] = "failure requests (get, put, del):"};
    if (stage == TXN_DONE)
        return;
    puts(texts[stage]);
    (void)out_flush();
}

static enum exit_code take_line(struct txn_script *script, char *line, ssize_t len)
{
    char why[FLAGS_WHY] = "";
    if (len > LINE_BYTES)
        return report_error(BELFRY_ERR_TOO_LARGE, "a line on standard input is too large");
    if (strlen(line) != (size_t)len)
        return report_usage("there is a zero byte on standard input, which no line can hold");
    enum belfry_err err = txn_script_line(script, line, why);
    if (err == BELFRY_OK)
        return EXIT_DONE;
    return err == BELFRY_ERR_INVALID ? report_usage(why) : report_error(err, NULL);
}

/* To the blank line that ends it: what comes after is nobody's business. */
static enum exit_code read_script(const struct flags *flags, struct txn_script *script)
{
    bool prompts = flags_on(flags, FLAG_INTERACTIVE);
    enum exit_code code = EXIT_DONE;
    char *line = NULL;
    size_t room = 0;
    if (prompts)
        prompt(script->stage);
    while (code == EXIT_DONE && script->stage != TXN_DONE) {
        enum txn_stage before = script->stage;
        ssize_t len = getline(&line, &room, stdin);
        if (len < 0)
            code = ferror(stdin)
                       ? report_errno("standard input")
                       : report_usage("standard input ended too early: conditions, requests if they hold, and "
                                      "requests if not, each end with a blank line");
        else
            code = take_line(script, line, len);
        if (prompts && script->stage != before)
            prompt(script->stage);
    }
    free(line);
    return code;
}

static int start(struct belfry *b, const struct session_call *call, const struct belfry_opts *opts, belfry_reply_fn fn,
                 void *user)
{
    return belfry_txn_commit(b, call->script->txn, opts, fn, user, NULL);
}

enum exit_code cmd_txn(const struct flags *flags)
{
    struct txn_script script = {.stage = TXN_CONDITIONS};
    struct session_call call = {.start = start, .show = show, .script = &script};
    enum exit_code code = read_script(flags, &script);
    if (code == EXIT_DONE)
        code = session_run_call(flags, &call);
    txn_script_fini(&script);
    return code;
}
