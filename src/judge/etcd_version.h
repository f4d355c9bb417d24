/* src/judge/etcd_version.h
 *
 * etcd_version: what depends on the version of etcd: what is known against its watch (docs/spec/etcd-watch.md 3.8), and
 * how it answers where later versions answer otherwise.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_JUDGE_ETCD_VERSION_H
#define BELFRY_JUDGE_ETCD_VERSION_H

#include <stdbool.h>

enum etcd_version {
    ETCD_VERSION_GOOD,   /* nothing is known against it, or the text is no version */
    ETCD_VERSION_OLD,    /* it has a known bug, which a tier survives */
    ETCD_VERSION_REFUSED /* it has a bug that a tier with this scope could not notice */
};

/* Judges `version`. `whole_scope`: everything is watched, so missing revisions are noticed. *why receives the bug when
 * the result is not GOOD. */
enum etcd_version etcd_version_judge(const char *version, bool whole_scope, const char **why);

/* The first release of the same line against which nothing is known: "3.5.22" for "3.5.16". Lines that are no longer
 * mended have none: the result is that of 3.4. False: the text is no version, or of a later line. */
#define ETCD_VERSION_TEXT 24
bool etcd_version_upgrade(const char *version, char out[ETCD_VERSION_TEXT]);

/* Does a Range with keys_only tell the leases of its keys? Since 3.7.0-rc.0 etcd answers it from its index, which has
 * none, unless the Range is sorted by value. Everything else in a row is the same. */
enum etcd_keys_only {
    ETCD_KEYS_ONLY_UNKNOWN, /* the text is no version, or of a build of which that is not known */
    ETCD_KEYS_ONLY_LEASED,
    ETCD_KEYS_ONLY_BARE
};
enum etcd_keys_only etcd_version_keys_only(const char *version);

#endif
