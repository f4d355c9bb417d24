/* src/kube/request_plan.c: what the options mean together (docs/spec/kubernetes-watch.md 2.2, 3.1). */
#include <stdio.h>

#include "kube/request.h"

/* Errors that Kubernetes reports, in its order. */
enum fault {
    MATCH_NEEDS_VERSION,
    INITIAL_NEEDS_MATCH,
    MATCH_NEEDS_INITIAL,
    MATCH_NOT_FOR_WATCH,
    MATCH_WITH_CONTINUE,
    MATCH_UNKNOWN,
    EXACT_AT_ZERO,
    INITIAL_IN_LIST,
    VERSION_UNREADABLE,
    N_FAULTS
};

static const struct fault_row {
    struct kube_cause cause;
    const char *what, *why; /* the message before and after the value */
} fault_rows[N_FAULTS] = {
#define FAULT(field, reason, what, why)                                                                                \
    {                                                                                                                  \
        {reason, what ": " why, field}, what, why                                                                      \
    }
#define FORBIDDEN(field, why)   FAULT(field, "FieldValueForbidden", "Forbidden", why)
#define UNSUPPORTED(field, why) FAULT(field, "FieldValueNotSupported", "Unsupported value", why)
    [MATCH_NEEDS_VERSION] =
        FORBIDDEN("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"),
    [INITIAL_NEEDS_MATCH] =
        FORBIDDEN("resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
    [MATCH_NEEDS_INITIAL] = FORBIDDEN(
        "resourceVersionMatch", "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"),
    [MATCH_NOT_FOR_WATCH] = UNSUPPORTED("resourceVersionMatch", "supported values: \"NotOlderThan\""),
    [MATCH_WITH_CONTINUE] =
        FORBIDDEN("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided"),
    [MATCH_UNKNOWN] = UNSUPPORTED("resourceVersionMatch", "supported values: \"Exact\", \"NotOlderThan\", \"\""),
    [EXACT_AT_ZERO] =
        FORBIDDEN("resourceVersionMatch", "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""),
    [INITIAL_IN_LIST] = FORBIDDEN("sendInitialEvents", "sendInitialEvents is forbidden for list"),
    [VERSION_UNREADABLE] =
        FAULT("resourceVersion", "FieldValueInvalid", "Invalid value", "must be a decimal number of 64 bits"),
};

#define QUOTED 68 /* bytes of a client's value that a message shows */

/* In quotes, with unprintable bytes replaced. */
static void quote_value(struct belfry_bytes value, char out[QUOTED])
{
    size_t n = 0;
    out[n++] = '"';
    for (size_t i = 0; i < value.len && n < QUOTED - 2; i++) {
        char c = value.data[i];
        out[n++] = c >= ' ' && c <= '~' && c != '"' ? c : '?';
    }
    out[n++] = '"';
    out[n] = '\0';
}

/* ---- the resource version ---- */

enum version_kind { VERSION_UNSET, VERSION_ZERO, VERSION_NUMBER, VERSION_BAD };

struct version {
    enum version_kind kind;
    int64_t rev; /* VERSION_NUMBER */
};

/* Kubernetes' versions are unsigned 64-bit numbers, etcd's have 63 bits: larger numbers are all equally far ahead. */
static struct version version_of(struct belfry_bytes text)
{
    uint64_t number = 0;
    if (text.len == 0)
        return (struct version){.kind = VERSION_UNSET};
    for (size_t i = 0; i < text.len; i++) {
        unsigned digit = (unsigned)(text.data[i] - '0');
        if (digit > 9 || __builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, digit, &number))
            return (struct version){.kind = VERSION_BAD};
    }
    if (number == 0)
        return (struct version){.kind = VERSION_ZERO};
    return (struct version){VERSION_NUMBER, number > INT64_MAX ? INT64_MAX : (int64_t)number};
}

static enum belfry_err refuse_version(const struct kube_options *options, struct kube_status *status)
{
    const struct fault_row *row = &fault_rows[VERSION_UNREADABLE];
    char quoted[QUOTED];
    quote_value(options->resource_version, quoted);
    kube_status_set(status, KUBE_BAD_REQUEST, "invalid resource version: %s: %s: %s: %s", row->cause.field, row->what,
                    quoted, row->why);
    return BELFRY_ERR_INVALID;
}

/* ---- 422 ---- */

static unsigned if_so(bool condition, enum fault fault)
{
    return condition ? 1u << fault : 0;
}

static unsigned list_faults(const struct kube_options *options, struct version version)
{
    bool match = options->match != KUBE_MATCH_UNSET;
    return if_so(match && version.kind == VERSION_UNSET, MATCH_NEEDS_VERSION) |
           if_so(match && options->continue_token.len > 0, MATCH_WITH_CONTINUE) |
           if_so(options->match == KUBE_MATCH_UNKNOWN, MATCH_UNKNOWN) |
           if_so(options->match == KUBE_MATCH_EXACT && version.kind == VERSION_ZERO, EXACT_AT_ZERO) |
           if_so(options->send_initial != KUBE_FLAG_UNSET, INITIAL_IN_LIST);
}

static unsigned watch_faults(const struct kube_options *options, struct version version)
{
    bool match = options->match != KUBE_MATCH_UNSET, initial = options->send_initial != KUBE_FLAG_UNSET;
    bool not_older = options->match == KUBE_MATCH_NOT_OLDER;
    unsigned faults = if_so(initial && !not_older, INITIAL_NEEDS_MATCH) |
                      if_so(match && !initial, MATCH_NEEDS_INITIAL) | if_so(match && !not_older, MATCH_NOT_FOR_WATCH) |
                      if_so(match && options->continue_token.len > 0, MATCH_WITH_CONTINUE);
    /* Kubernetes checks the version only if the options fit together. */
    return faults != 0 ? faults : if_so(version.kind == VERSION_BAD, VERSION_UNREADABLE);
}

/* Prints "field: what: "value": why", without the value if there is none. */
static size_t print_fault(enum fault fault, const struct kube_options *options, char *out, size_t room)
{
    const struct fault_row *row = &fault_rows[fault];
    char quoted[QUOTED] = "";
    if (fault == MATCH_UNKNOWN || fault == MATCH_NOT_FOR_WATCH)
        quote_value(options->match_text, quoted);
    else if (fault == VERSION_UNREADABLE)
        quote_value(options->resource_version, quoted);
    int n = snprintf(out, room, "%s: %s: %s%s%s", row->cause.field, row->what, quoted, quoted[0] != '\0' ? ": " : "",
                     row->why);
    return (size_t)n < room ? (size_t)n : room - 1;
}

static enum belfry_err refuse_plan(unsigned faults, const struct kube_options *options, struct kube_status *status)
{
    char text[KUBE_MESSAGE_MAX];
    size_t used = 0;
    bool many = (faults & (faults - 1)) != 0;
    for (enum fault fault = 0; fault < N_FAULTS; fault++) {
        if ((faults & 1u << fault) == 0)
            continue;
        if (used > 0 && sizeof(text) - used > 2)
            used += (size_t)snprintf(text + used, sizeof(text) - used, ", ");
        used += print_fault(fault, options, text + used, sizeof(text) - used);
    }
    kube_status_set(status, KUBE_INVALID, "ListOptions.meta.k8s.io \"\" is invalid: %s%s%s", many ? "[" : "", text,
                    many ? "]" : "");
    status->group = belfry_bytes_str("meta.k8s.io");
    status->kind = belfry_bytes_str("ListOptions");
    for (enum fault fault = 0; fault < N_FAULTS; fault++) {
        const struct kube_cause *cause = &fault_rows[fault].cause;
        if ((faults & 1u << fault) != 0)
            kube_status_cause(status, cause->reason, cause->message, cause->field);
    }
    return BELFRY_ERR_INVALID;
}

/* ---- plans ---- */

static uint64_t timeout_ms(int64_t timeout_s)
{
    return (uint64_t)(timeout_s < KUBE_TIMEOUT_MAX_S ? timeout_s : KUBE_TIMEOUT_MAX_S) * 1000;
}

static enum kube_read not_older(struct version version)
{
    if (version.kind == VERSION_UNSET)
        return KUBE_READ_LATEST;
    return version.kind == VERSION_ZERO ? KUBE_READ_ANY : KUBE_READ_NOT_OLDER;
}

static struct kube_list_plan list_plan(enum kube_read read, struct version version, int64_t limit)
{
    return (struct kube_list_plan){
        .read = read, .rev = version.rev, .limit = read == KUBE_READ_ANY ? 0 : limit, /* as in Kubernetes' cache */
    };
}

enum belfry_err kube_plan_list(const struct kube_options *options, struct kube_list_plan *out,
                               struct kube_status *status)
{
    struct version version = version_of(options->resource_version);
    unsigned faults = list_faults(options, version);
    if (faults != 0)
        return refuse_plan(faults, options, status);
    if (version.kind == VERSION_BAD)
        return refuse_version(options, status);
    if (options->continue_token.len > 0) {
        if (version.kind == VERSION_NUMBER) {
            kube_status_set(status, KUBE_BAD_REQUEST, "specifying resource version is not allowed when using continue");
            return BELFRY_ERR_INVALID;
        }
        *out = list_plan(KUBE_READ_CONTINUE, version, options->limit);
        return BELFRY_OK;
    }
    /* A limit makes an unqualified version exact: a rule from before resourceVersionMatch existed. */
    bool exact = options->match == KUBE_MATCH_EXACT || (options->match == KUBE_MATCH_UNSET && options->limit > 0);
    enum kube_read read = exact && version.kind == VERSION_NUMBER ? KUBE_READ_EXACT : not_older(version);
    *out = list_plan(read, version, options->limit);
    return BELFRY_OK;
}

enum belfry_err kube_plan_get(const struct kube_options *options, struct kube_list_plan *out,
                              struct kube_status *status)
{
    struct version version = version_of(options->resource_version);
    if (version.kind == VERSION_BAD)
        return refuse_version(options, status);
    *out = list_plan(not_older(version), version, 0);
    return BELFRY_OK;
}

enum belfry_err kube_plan_watch(const struct kube_options *options, struct kube_watch_plan *out,
                                struct kube_status *status)
{
    struct version version = version_of(options->resource_version);
    unsigned faults = watch_faults(options, version);
    if (faults != 0)
        return refuse_plan(faults, options, status);
    /* Without a version, a watch begins with the state unless the client declines it. */
    bool state_first = options->send_initial == KUBE_FLAG_TRUE ||
                       (options->send_initial == KUBE_FLAG_UNSET && version.kind != VERSION_NUMBER);
    bool after = version.kind == VERSION_NUMBER && !state_first;
    *out = (struct kube_watch_plan){
        .state_first = state_first,
        .mark_end = state_first && options->bookmarks,
        .read = after ? KUBE_READ_EXACT : not_older(version),
        .rev = version.rev,
        .bookmarks = options->bookmarks,
        .timeout_ms = timeout_ms(options->timeout_s),
    };
    return BELFRY_OK;
}
