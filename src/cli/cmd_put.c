/* src/cli/cmd_put.c */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/one_call.h"
#include "cli/out/out_etcd_json.h"
#include "cli/out/out_json.h"
#include "cli/out/out_simple.h"

#define VALUE_MAX ((size_t)64 << 20) /* far above what a server takes (1.5 MiB): it refuses in its own words */

static void show(const struct flags *flags, const struct session_call *call, enum form form,
                 const struct belfry_reply *reply)
{
    const struct belfry_event *prev = belfry_reply_kv(reply, NULL);
    if (form == FORM_ETCD_JSON) {
        etcd_json_put(stdout, reply);
    } else if (form == FORM_LINES) {
        printf("{\"rev\":%" PRId64 ",\"op\":\"put\"", reply->header.revision);
        json_member(stdout, "key", call->range.key);
        if (prev != NULL)
            json_member(stdout, "prev", prev->value);
        fputs("}\n", stdout);
    } else {
        puts("OK");
        if (prev != NULL)
            simple_kv(stdout, prev, flags_on(flags, FLAG_HEX) ? SIMPLE_HEX : 0);
    }
}

/* All of standard input; the caller frees *out. */
static enum exit_code read_stdin(char **out, size_t *out_len)
{
    char *data = NULL;
    for (size_t room = 0, len = 0;;) {
        if (len == room) {
            room = room == 0 ? 4096 : room * 2;
            char *larger = room > VALUE_MAX ? NULL : realloc(data, room);
            if (larger == NULL) {
                free(data);
                return report_error(BELFRY_ERR_TOO_LARGE, "the value on standard input is too large");
            }
            data = larger;
        }
        ssize_t n = read(STDIN_FILENO, data + len, room - len);
        if (n < 0) {
            free(data);
            return report_errno("standard input");
        }
        if (n == 0) {
            *out = data;
            *out_len = len;
            return EXIT_DONE;
        }
        len += (size_t)n;
    }
}

static bool wants_stdin(const struct flags *flags)
{
    if (flags_on(flags, FLAG_IGNORE_VALUE))
        return false;
    return flags->n_args == 1 || (flags->n_args_plain == 2 && strcmp(flags->args[1], "-") == 0);
}

static int start(struct belfry *b, const struct session_call *call, const struct belfry_opts *opts, belfry_reply_fn fn,
                 void *user)
{
    return belfry_put(b, call->range.key, call->value, opts, fn, user, NULL);
}

enum exit_code cmd_put(const struct flags *flags)
{
    struct session_call call = {.start = start, .show = show, .range = belfry_key(flags->args[0])};
    if (flags_on(flags, FLAG_IGNORE_VALUE) && flags->n_args == 2)
        return report_usage("--ignore-value keeps the value: leave out VALUE");
    if (flags_on(flags, FLAG_IGNORE_LEASE) && flags_given(flags, FLAG_LEASE))
        return report_usage("--ignore-lease keeps the lease: leave out --lease");
    if (call.range.key.len == 0)
        return report_usage("the key is empty: etcd has no such key");
    if (flags->n_args == 2)
        call.value = (struct belfry_bytes){flags->args[1], strlen(flags->args[1])};

    char *typed = NULL;
    enum exit_code code = EXIT_DONE;
    if (wants_stdin(flags)) {
        code = read_stdin(&typed, &call.value.len);
        call.value.data = typed;
    }
    if (code == EXIT_DONE)
        code = session_run_call(flags, &call);
    free(typed);
    return code;
}
