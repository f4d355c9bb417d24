/* src/cli/cmd_del.c */
#include <inttypes.h>

#include "cli/cmd.h"
#include "cli/one_call.h"
#include "cli/out/out_etcd_json.h"
#include "cli/out/out_json.h"
#include "cli/out/out_simple.h"
#include "cli/range_args.h"

static void show_lines(const struct belfry_reply *reply)
{
    for (const struct belfry_event *kv = NULL; (kv = belfry_reply_kv(reply, kv)) != NULL;) {
        printf("{\"rev\":%" PRId64 ",\"op\":\"del\"", reply->header.revision);
        json_member(stdout, "key", kv->key);
        json_member(stdout, "prev", kv->value);
        fputs("}\n", stdout);
    }
    printf("{\"rev\":%" PRId64 ",\"deleted\":%" PRId64 "}\n", reply->header.revision, reply->deleted);
}

static void show(const struct flags *flags, const struct session_call *call, enum form form,
                 const struct belfry_reply *reply)
{
    (void)call;
    if (form == FORM_ETCD_JSON) {
        etcd_json_del(stdout, reply);
    } else if (form == FORM_LINES) {
        show_lines(reply);
    } else {
        printf("%" PRId64 "\n", reply->deleted);
        for (const struct belfry_event *kv = NULL; (kv = belfry_reply_kv(reply, kv)) != NULL;)
            simple_kv(stdout, kv, flags_on(flags, FLAG_HEX) ? SIMPLE_HEX : 0);
    }
}

static int start(struct belfry *b, const struct session_call *call, const struct belfry_opts *opts, belfry_reply_fn fn,
                 void *user)
{
    return belfry_del(b, call->range, opts, fn, user, NULL);
}

enum exit_code cmd_del(const struct flags *flags)
{
    struct session_call call = {.start = start, .show = show};
    char why[FLAGS_WHY];
    if (range_of_flags(flags, &call.range, why) != BELFRY_OK)
        return report_usage(why);
    return session_run_call(flags, &call);
}
