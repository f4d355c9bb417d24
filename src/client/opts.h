/* src/client/opts.h
 *
 * opts: options by name. One table says for each what it is called, what values it takes, where it may be used and what
 * it is when nobody sets it; belfry/belfry.h tells users the same.
 *
 * Thread: owner.
 */
#ifndef BELFRY_CLIENT_OPTS_H
#define BELFRY_CLIENT_OPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <belfry/belfry.h>

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
    BELFRY_FOR_CALLS =
        BELFRY_FOR_GET | BELFRY_FOR_PUT | BELFRY_FOR_DEL | BELFRY_FOR_COMPACT | BELFRY_FOR_LEASE_TTL | BELFRY_FOR_CALL
};

enum belfry_opt_kind {
    BELFRY_OPT_TEXT,
    BELFRY_OPT_FLAG,
    BELFRY_OPT_NUMBER,
    BELFRY_OPT_TIME,
    BELFRY_OPT_SIZE,
    BELFRY_OPT_WORD
};

/* X(id, name, kind, where, default number; for words: the words in the order of their numbers) */
/* clang-format off */
#define BELFRY_OPT_TABLE(X) \
    X(CACERT,         "cacert",                   TEXT,   BELFRY_FOR_OPEN, 0, "") \
    X(CERT,           "cert",                     TEXT,   BELFRY_FOR_OPEN, 0, "") \
    X(KEY,            "key",                      TEXT,   BELFRY_FOR_OPEN, 0, "") \
    X(SERVER_NAME,    "server-name",              TEXT,   BELFRY_FOR_OPEN, 0, "") \
    X(SKIP_VERIFY,    "insecure-skip-tls-verify", FLAG,   BELFRY_FOR_OPEN, 0, "") \
    X(USER,           "user",                     TEXT,   BELFRY_FOR_OPEN, 0, "") \
    X(PASSWORD,       "password",                 TEXT,   BELFRY_FOR_OPEN, 0, "") \
    X(PASSWORD_FILE,  "password-file",            TEXT,   BELFRY_FOR_OPEN, 0, "") \
    X(DIAL_TIMEOUT,   "dial-timeout",             TIME,   BELFRY_FOR_OPEN, 2000, "") \
    X(COMMAND_TIMEOUT, "command-timeout",         TIME,   BELFRY_FOR_OPEN | BELFRY_FOR_CALLS, 5000, "") \
    X(KEEPALIVE_TIME, "keepalive-time",           TIME,   BELFRY_FOR_OPEN, 10000, "") \
    X(KEEPALIVE_TIMEOUT, "keepalive-timeout",     TIME,   BELFRY_FOR_OPEN, 5000, "") \
    X(HASLEADER,      "hasleader",                FLAG,   BELFRY_FOR_OPEN, 1, "") \
    X(MAX_MESSAGE,    "max-message",              SIZE,   BELFRY_FOR_OPEN, 512 * 1024 * 1024, "") \
    X(REV,            "rev",                      NUMBER, BELFRY_FOR_WATCH | BELFRY_FOR_GET, 0, "") \
    X(PREV_KV,        "prev-kv",                  FLAG,   BELFRY_FOR_WATCH | BELFRY_FOR_FOLLOW | BELFRY_FOR_PUT | BELFRY_FOR_DEL, 0, "") \
    X(PROGRESS_NOTIFY, "progress-notify",         FLAG,   BELFRY_FOR_WATCH, 0, "") \
    X(NO_PUT,         "no-put",                   FLAG,   BELFRY_FOR_WATCH, 0, "") \
    X(NO_DELETE,      "no-delete",                FLAG,   BELFRY_FOR_WATCH, 0, "") \
    X(FRAGMENT,       "fragment",                 FLAG,   BELFRY_FOR_WATCH, 1, "") \
    X(UNMERGED,       "unmerged",                 FLAG,   BELFRY_FOR_WATCH, 0, "") \
    X(PAUSE_BYTES,    "pause-bytes",              SIZE,   BELFRY_FOR_WATCH | BELFRY_FOR_FOLLOW, 1024 * 1024, "") \
    X(PAGE_BYTES,     "page-bytes",               SIZE,   BELFRY_FOR_FOLLOW, 1024 * 1024, "") \
    X(ONCE,           "once",                     FLAG,   BELFRY_FOR_FOLLOW, 0, "") \
    X(LIMIT,          "limit",                    NUMBER, BELFRY_FOR_GET, 0, "") \
    X(KEYS_ONLY,      "keys-only",                FLAG,   BELFRY_FOR_GET, 0, "") \
    X(COUNT_ONLY,     "count-only",               FLAG,   BELFRY_FOR_GET, 0, "") \
    X(SERIALIZABLE,   "serializable",             FLAG,   BELFRY_FOR_GET, 0, "") \
    X(SORT_BY,        "sort-by",                  WORD,   BELFRY_FOR_GET, 0, "key version create mod value") \
    X(ORDER,          "order",                    WORD,   BELFRY_FOR_GET, 0, "none ascend descend") \
    X(MIN_MOD_REV,    "min-mod-rev",              NUMBER, BELFRY_FOR_GET, 0, "") \
    X(MAX_MOD_REV,    "max-mod-rev",              NUMBER, BELFRY_FOR_GET, 0, "") \
    X(MIN_CREATE_REV, "min-create-rev",           NUMBER, BELFRY_FOR_GET, 0, "") \
    X(MAX_CREATE_REV, "max-create-rev",           NUMBER, BELFRY_FOR_GET, 0, "") \
    X(LEASE,          "lease",                    NUMBER, BELFRY_FOR_PUT, 0, "") \
    X(IGNORE_VALUE,   "ignore-value",             FLAG,   BELFRY_FOR_PUT, 0, "") \
    X(IGNORE_LEASE,   "ignore-lease",             FLAG,   BELFRY_FOR_PUT, 0, "") \
    X(PHYSICAL,       "physical",                 FLAG,   BELFRY_FOR_COMPACT, 0, "") \
    X(KEYS,           "keys",                     FLAG,   BELFRY_FOR_LEASE_TTL, 0, "")
/* clang-format on */
#define BELFRY_OPT_ENUM(id, name, kind, where, value, words) BELFRY_OPT_##id,
enum belfry_opt { BELFRY_OPT_TABLE(BELFRY_OPT_ENUM) BELFRY_OPT_END_ };

/* True when every option set may be used there. */
bool belfry_opts_fit(const struct belfry_opts *opts, unsigned where);

/* The number (flag, milliseconds, bytes, index of the word), or the default; `opts` may be NULL. */
int64_t belfry_opts_number(const struct belfry_opts *opts, enum belfry_opt opt);
bool belfry_opts_is_set(const struct belfry_opts *opts, enum belfry_opt opt);

/* The text, or NULL when it was not set; lent as long as `opts` lives. */
const char *belfry_opts_text(const struct belfry_opts *opts, enum belfry_opt opt);

#endif
