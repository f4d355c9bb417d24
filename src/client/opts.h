/* src/client/opts.h
 *
 * opts: the library's options by name. One table gives each option's name, kind of value (opt/options.h), uses and
 * default; belfry/belfry.h explains them to users.
 *
 * Thread: owner.
 */
#ifndef BELFRY_CLIENT_OPTS_H
#define BELFRY_CLIENT_OPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <belfry/belfry.h>

#include "opt/options.h"

/* where an option may be used */
enum {
    BELFRY_FOR_OPEN = 1,
    BELFRY_FOR_WATCH = 2,
    BELFRY_FOR_FOLLOW = 4,
    BELFRY_FOR_GET = 8,
    BELFRY_FOR_PUT = 16,
    BELFRY_FOR_DEL = 32,
    BELFRY_FOR_COMPACT = 64,
    BELFRY_FOR_LEASE_TTL = 128,
    BELFRY_FOR_CALL = 256, /* any other call */
    BELFRY_FOR_KUBE_OPEN = 512,
    BELFRY_FOR_KUBE_GET = 1024,
    BELFRY_FOR_KUBE_LIST = 2048,
    BELFRY_FOR_KUBE_WATCH = 4096,
    BELFRY_FOR_INFORMER_KEYS = 8192,
    BELFRY_FOR_INFORMER_RESOURCE = 16384,
    BELFRY_FOR_HANDLER = 32768, /* of an informer */
    BELFRY_FOR_KUBE = BELFRY_FOR_KUBE_GET | BELFRY_FOR_KUBE_LIST | BELFRY_FOR_KUBE_WATCH,
    BELFRY_FOR_MANY = BELFRY_FOR_KUBE_LIST | BELFRY_FOR_KUBE_WATCH,
    BELFRY_FOR_CALLS =
        BELFRY_FOR_GET | BELFRY_FOR_PUT | BELFRY_FOR_DEL | BELFRY_FOR_COMPACT | BELFRY_FOR_LEASE_TTL | BELFRY_FOR_CALL
};

/* X(id, name, BELFRY_KIND_..., where, default number; of a choice: its words, "a|b") */
/* clang-format off */
#define BELFRY_OPT_TABLE(X) \
    X(CACERT,         "cacert",                   TEXT,   BELFRY_FOR_OPEN | BELFRY_FOR_KUBE_OPEN, 0, "") \
    X(CERT,           "cert",                     TEXT,   BELFRY_FOR_OPEN | BELFRY_FOR_KUBE_OPEN, 0, "") \
    X(KEY,            "key",                      TEXT,   BELFRY_FOR_OPEN | BELFRY_FOR_KUBE_OPEN, 0, "") \
    X(SERVER_NAME,    "server-name",              TEXT,   BELFRY_FOR_OPEN | BELFRY_FOR_KUBE_OPEN, 0, "") \
    X(SKIP_VERIFY,    "insecure-skip-tls-verify", BOOL,   BELFRY_FOR_OPEN | BELFRY_FOR_KUBE_OPEN, 0, "") \
    X(USER,           "user",                     TEXT,   BELFRY_FOR_OPEN, 0, "") \
    X(PASSWORD,       "password",                 TEXT,   BELFRY_FOR_OPEN, 0, "") \
    X(PASSWORD_FILE,  "password-file",            TEXT,   BELFRY_FOR_OPEN, 0, "") \
    X(DIAL_TIMEOUT,   "dial-timeout",             MS,     BELFRY_FOR_OPEN | BELFRY_FOR_KUBE_OPEN, 2000, "") \
    X(COMMAND_TIMEOUT, "command-timeout",         MS, \
      BELFRY_FOR_OPEN | BELFRY_FOR_CALLS | BELFRY_FOR_KUBE_OPEN | BELFRY_FOR_KUBE, 5000, "") \
    X(KEEPALIVE_TIME, "keepalive-time",           MS,     BELFRY_FOR_OPEN, 10000, "") \
    X(KEEPALIVE_TIMEOUT, "keepalive-timeout",     MS,     BELFRY_FOR_OPEN, 5000, "") \
    X(HASLEADER,      "hasleader",                BOOL,   BELFRY_FOR_OPEN, 1, "") \
    X(MAX_MESSAGE,    "max-message",              SIZE_DECIMAL, \
      BELFRY_FOR_OPEN | BELFRY_FOR_KUBE_OPEN, 512 * 1024 * 1024, "") \
    X(REV,            "rev",                      COUNT,  BELFRY_FOR_WATCH | BELFRY_FOR_GET, 0, "") \
    X(PREV_KV,        "prev-kv",                  BOOL, \
      BELFRY_FOR_WATCH | BELFRY_FOR_FOLLOW | BELFRY_FOR_PUT | BELFRY_FOR_DEL, 0, "") \
    X(PROGRESS_NOTIFY, "progress-notify",         BOOL,   BELFRY_FOR_WATCH, 0, "") \
    X(CREATED_NOTIFY, "created-notify",           BOOL,   BELFRY_FOR_WATCH, 0, "") \
    X(NO_PUT,         "no-put",                   BOOL,   BELFRY_FOR_WATCH, 0, "") \
    X(NO_DELETE,      "no-delete",                BOOL,   BELFRY_FOR_WATCH, 0, "") \
    X(FRAGMENT,       "fragment",                 BOOL,   BELFRY_FOR_WATCH, 1, "") \
    X(UNMERGED,       "unmerged",                 BOOL,   BELFRY_FOR_WATCH, 0, "") \
    X(PAUSE_BYTES,    "pause-bytes",              SIZE_DECIMAL, BELFRY_FOR_WATCH | BELFRY_FOR_FOLLOW, 1024 * 1024, "") \
    X(PAGE_BYTES,     "page-bytes",               SIZE_DECIMAL, \
      BELFRY_FOR_FOLLOW | BELFRY_FOR_INFORMER_KEYS, 1024 * 1024, "") \
    X(ONCE,           "once",                     BOOL,   BELFRY_FOR_FOLLOW, 0, "") \
    X(LIMIT,          "limit",                    COUNT,  BELFRY_FOR_GET, 0, "") \
    X(KEYS_ONLY,      "keys-only",                BOOL,   BELFRY_FOR_GET, 0, "") \
    X(COUNT_ONLY,     "count-only",               BOOL,   BELFRY_FOR_GET, 0, "") \
    X(SERIALIZABLE,   "serializable",             BOOL,   BELFRY_FOR_GET, 0, "") \
    X(SORT_BY,        "sort-by",                  CHOICE, BELFRY_FOR_GET, 0, "key|version|create|mod|value") \
    X(ORDER,          "order",                    CHOICE, BELFRY_FOR_GET, 0, "none|ascend|descend") \
    X(MIN_MOD_REV,    "min-mod-rev",              COUNT,  BELFRY_FOR_GET, 0, "") \
    X(MAX_MOD_REV,    "max-mod-rev",              COUNT,  BELFRY_FOR_GET, 0, "") \
    X(MIN_CREATE_REV, "min-create-rev",           COUNT,  BELFRY_FOR_GET, 0, "") \
    X(MAX_CREATE_REV, "max-create-rev",           COUNT,  BELFRY_FOR_GET, 0, "") \
    X(LEASE,          "lease",                    COUNT,  BELFRY_FOR_PUT, 0, "") \
    X(IGNORE_VALUE,   "ignore-value",             BOOL,   BELFRY_FOR_PUT, 0, "") \
    X(IGNORE_LEASE,   "ignore-lease",             BOOL,   BELFRY_FOR_PUT, 0, "") \
    X(PHYSICAL,       "physical",                 BOOL,   BELFRY_FOR_COMPACT, 0, "") \
    X(KEYS,           "keys",                     BOOL,   BELFRY_FOR_LEASE_TTL, 0, "") \
    X(KUBECONFIG,     "kubeconfig",               TEXT,   BELFRY_FOR_KUBE_OPEN, 0, "") \
    X(CONTEXT,        "context",                  TEXT,   BELFRY_FOR_KUBE_OPEN, 0, "") \
    X(SERVER,         "server",                   TEXT,   BELFRY_FOR_KUBE_OPEN, 0, "") \
    X(NAMESPACE,      "namespace",                TEXT,   BELFRY_FOR_KUBE_OPEN, 0, "") \
    X(TOKEN,          "token",                    TEXT,   BELFRY_FOR_KUBE_OPEN, 0, "") \
    X(TOKEN_FILE,     "token-file",               TEXT,   BELFRY_FOR_KUBE_OPEN, 0, "") \
    X(METADATA_ONLY,  "metadata-only",            BOOL,   BELFRY_FOR_KUBE | BELFRY_FOR_INFORMER_RESOURCE, 0, "") \
    X(SELECTOR,       "selector",                 TEXT,   BELFRY_FOR_MANY | BELFRY_FOR_INFORMER_RESOURCE, 0, "") \
    X(FIELD_SELECTOR, "field-selector",           TEXT,   BELFRY_FOR_MANY | BELFRY_FOR_INFORMER_RESOURCE, 0, "") \
    X(VERSION,        "resource-version",         TEXT,   BELFRY_FOR_MANY, 0, "") \
    X(VERSION_MATCH,  "resource-version-match",   CHOICE, BELFRY_FOR_MANY, 0, "Exact|NotOlderThan") \
    X(CHUNK_SIZE,     "chunk-size",               COUNT, \
      BELFRY_FOR_KUBE_LIST | BELFRY_FOR_INFORMER_RESOURCE, 500, "") \
    X(BOOKMARKS,      "bookmarks",                BOOL,   BELFRY_FOR_KUBE_WATCH, 1, "") \
    X(SEND_INITIAL,   "send-initial",             BOOL,   BELFRY_FOR_KUBE_WATCH, 0, "") \
    X(WATCH_TIMEOUT,  "watch-timeout",            MS,     BELFRY_FOR_KUBE_WATCH | BELFRY_FOR_INFORMER_RESOURCE, 0, "") \
    X(WATCH_LIST,     "watch-list",               BOOL,   BELFRY_FOR_INFORMER_RESOURCE, 1, "") \
    X(MAX_BYTES,      "max-bytes",                SIZE_DECIMAL, \
      BELFRY_FOR_INFORMER_KEYS | BELFRY_FOR_INFORMER_RESOURCE, 1024 * 1024 * 1024, "") \
    X(RESYNC,         "resync",                   MS, \
      BELFRY_FOR_INFORMER_KEYS | BELFRY_FOR_INFORMER_RESOURCE | BELFRY_FOR_HANDLER, 0, "")
/* clang-format on */
#define BELFRY_OPT_ENUM(id, name, kind, where, value, choices) BELFRY_OPT_##id,
enum belfry_opt { BELFRY_OPT_TABLE(BELFRY_OPT_ENUM) BELFRY_OPT_END_ };

/* True if every option that is set may be used there; otherwise belfry_opts_why() names one that may not. If they fit,
 * nothing is written: threads that only read may share options. */
bool belfry_opts_fit(const struct belfry_opts *opts, unsigned where);

/* The number (flag, milliseconds, bytes, index of the word), or the default; `opts` may be NULL. */
int64_t belfry_opts_number(const struct belfry_opts *opts, enum belfry_opt opt);
bool belfry_opts_is_set(const struct belfry_opts *opts, enum belfry_opt opt);

/* The text, or NULL if not set; lent as long as `opts` lives. */
const char *belfry_opts_text(const struct belfry_opts *opts, enum belfry_opt opt);

#endif
