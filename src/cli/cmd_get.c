/* src/cli/cmd_get.c */
#include <inttypes.h>

#include "cli/cmd.h"
#include "cli/one_call.h"
#include "cli/out/out_etcd_json.h"
#include "cli/out/out_json.h"
#include "cli/out/out_simple.h"
#include "cli/out/out_table.h"
#include "cli/range_args.h"

static unsigned how(const struct flags *flags)
{
    return (flags_on(flags, FLAG_HEX) ? SIMPLE_HEX : 0u) |
           (flags_on(flags, FLAG_PRINT_VALUE_ONLY) ? SIMPLE_VALUE_ONLY : 0u);
}

static void show_count(enum form form, const struct belfry_reply *reply)
{
    if (form == FORM_LINES)
        printf("{\"rev\":%" PRId64 ",\"count\":%" PRId64 "}\n", reply->header.revision, reply->count);
    else
        printf("%" PRId64 "\n", reply->count);
}

static void show_kvs(const struct flags *flags, enum form form, const struct belfry_reply *reply)
{
    struct table table = {.hex = flags_on(flags, FLAG_HEX)};
    for (const struct belfry_event *kv = NULL; (kv = belfry_reply_kv(reply, kv)) != NULL;) {
        if (form == FORM_LINES)
            json_event_line(stdout, kv->mod_rev, "state", kv);
        else if (form == FORM_TABLE)
            table_event(&table, stdout, kv->mod_rev, "=", kv, NULL);
        else
            simple_kv(stdout, kv, how(flags));
    }
    if (form == FORM_TABLE)
        printf("  -- %zu of %" PRId64 " keys at %" PRId64 " --\n", reply->n_kvs, reply->count, reply->header.revision);
}

static void show(const struct flags *flags, const struct session_call *call, enum form form,
                 const struct belfry_reply *reply)
{
    (void)call;
    if (form == FORM_ETCD_JSON)
        etcd_json_get(stdout, reply);
    else if (flags_on(flags, FLAG_COUNT_ONLY))
        show_count(form, reply);
    else
        show_kvs(flags, form, reply);
}

static int start(struct belfry *b, const struct session_call *call, const struct belfry_opts *opts, belfry_reply_fn fn,
                 void *user)
{
    return belfry_get(b, call->range, opts, fn, user, NULL);
}

enum exit_code cmd_get(const struct flags *flags)
{
    struct session_call call = {.start = start, .show = show};
    char why[FLAGS_WHY];
    if (range_of_flags(flags, &call.range, why) != BELFRY_OK)
        return report_usage(why);
    if (flags_on(flags, FLAG_KEYS_ONLY) && flags_on(flags, FLAG_COUNT_ONLY))
        return report_usage("--keys-only and --count-only exclude each other: choose one");
    return session_run_call(flags, &call);
}
