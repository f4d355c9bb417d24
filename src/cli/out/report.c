/* src/cli/out/report.c */
#include "cli/out/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <belfry/belfry.h>

#include "cli/out/out_table.h"

enum exit_code report_code(int err)
{
    switch (err) {
    case BELFRY_OK:
        return EXIT_DONE;
    case BELFRY_ERR_UNAVAILABLE:
    case BELFRY_ERR_TIMEOUT:
    case BELFRY_ERR_RESOLVE:
        return EXIT_NO_ANSWER;
    case BELFRY_ERR_DENIED:
    case BELFRY_ERR_AUTH:
        return EXIT_NOT_ALLOWED;
    case BELFRY_ERR_COMPACTED:
        return EXIT_COMPACTED;
    default: /* an int from a library that may know more errors than this program */
        return EXIT_FAILED;
    }
}

const char *report_remedy(int err)
{
    switch (err) {
    case BELFRY_ERR_UNAVAILABLE:
    case BELFRY_ERR_TIMEOUT:
    case BELFRY_ERR_RESOLVE:
        return "is a server running there? It is named with --endpoints or BELFRYCTL_ENDPOINTS; use "
               "https:// for TLS";
    case BELFRY_ERR_DENIED:
        return "this user lacks the right: log in as another with --user, or extend its role "
               "(etcdctl role grant-permission)";
    case BELFRY_ERR_AUTH:
        return "log in with --user NAME and --password, --password-file or BELFRYCTL_PASSWORD";
    case BELFRY_ERR_COMPACTED:
        return "leave out --rev to read what is there now";
    case BELFRY_ERR_UNCERTAIN:
        return "read the key before writing again";
    case BELFRY_ERR_TLS:
        return "see --cacert, --cert, --key and --server-name";
    case BELFRY_ERR_TOO_LARGE:
        return "a server accepts writes of up to 1.5 MiB; to read more at once, raise --max-message or use --limit";
    case BELFRY_ERR_CLUSTER:
        return "check --endpoints";
    case BELFRY_ERR_UNSUPPORTED:
        return "is that etcd 3.4 or newer, or a belfryd?";
    default:
        return "";
    }
}

enum exit_code report_error(int err, const char *why)
{
    return report_with_remedy(err, why, report_remedy(err));
}

enum exit_code report_with_remedy(int err, const char *why, const char *remedy)
{
    const char *text = why != NULL && *why != '\0' ? why : belfry_strerror(err);
    fputs("belfryctl: ", stderr);
    table_bytes(stderr, (struct belfry_bytes){text, strlen(text)}, false); /* it may hold a server's words */
    fprintf(stderr, "%s%s\n", *remedy != '\0' ? "\n  " : "", remedy);
    return report_code(err);
}

enum exit_code report_admin(int err, const char *why)
{
    if (err == BELFRY_ERR_INVALID)
        return report_usage(why);
    if (report_code(err) != EXIT_NO_ANSWER)
        return report_error(err, err == BELFRY_ERR_NOMEM ? NULL : why);
    fputs("belfryctl: ", stderr);
    table_bytes(stderr, (struct belfry_bytes){why, strlen(why)}, false);
    fputs(": is a belfryd running? Name its admin address with --admin or BELFRYCTL_ADMIN\n", stderr);
    return EXIT_NO_ANSWER;
}

enum exit_code report_compacted(int64_t compact_rev)
{
    fprintf(stderr,
            "belfryctl: history before revision %" PRId64 " has been compacted away\n"
            "  watch from there with --rev %" PRId64 ", or use 'belfryctl follow', which starts with the state\n",
            compact_rev, compact_rev);
    return EXIT_COMPACTED;
}

enum exit_code report_usage(const char *why)
{
    fprintf(stderr, "belfryctl: %s\n", why);
    return EXIT_USAGE;
}

enum exit_code report_errno(const char *what)
{
    fprintf(stderr, "belfryctl: %s: %s\n", what, strerror(errno));
    return EXIT_FAILED;
}
