/* src/serve/relay/relay_rights.c */
#include "serve/relay/relay_rights.h"

#include <stddef.h>

static bool is_one_of(struct belfry_bytes path, const char *const *paths, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (belfry_bytes_equal(path, belfry_bytes_str(paths[i])))
            return true;
    }
    return false;
}

#define IS_ONE_OF(path, paths) is_one_of(path, paths, sizeof(paths) / sizeof((paths)[0]))

bool relay_rights_reads(struct belfry_bytes path)
{
    static const char *const reading[] = {
        "/etcdserverpb.KV/Range",          "/etcdserverpb.KV/RangeStream",     "/etcdserverpb.Lease/LeaseTimeToLive",
        "/etcdserverpb.Lease/LeaseLeases", "/etcdserverpb.Cluster/MemberList", "/etcdserverpb.Maintenance/Status",
        "/etcdserverpb.Maintenance/Hash",  "/etcdserverpb.Maintenance/HashKV", "/etcdserverpb.Auth/AuthStatus",
        "/etcdserverpb.Auth/Authenticate", /* makes a token, which reads need */
        "/etcdserverpb.Auth/UserGet",      "/etcdserverpb.Auth/UserList",      "/etcdserverpb.Auth/RoleGet",
        "/etcdserverpb.Auth/RoleList",     "/v3electionpb.Election/Leader",    "/v3electionpb.Election/Observe",
    };
    return IS_ONE_OF(path, reading);
}

bool relay_rights_authenticates(struct belfry_bytes path)
{
    return belfry_bytes_equal(path, belfry_bytes_str("/etcdserverpb.Auth/Authenticate"));
}

bool relay_rights_needs_user(struct belfry_bytes path)
{
    static const char *const needing[] = {
        "/etcdserverpb.KV/Range",
        "/etcdserverpb.KV/RangeStream",
        "/etcdserverpb.KV/Put",
        "/etcdserverpb.KV/DeleteRange",
        "/etcdserverpb.KV/Txn",
        "/etcdserverpb.Cluster/MemberAdd",
        "/etcdserverpb.Cluster/MemberRemove",
        "/etcdserverpb.Cluster/MemberUpdate",
        "/etcdserverpb.Cluster/MemberPromote",
    };
    static const char *const open[] = {
        "/etcdserverpb.Auth/Authenticate",
        "/etcdserverpb.Auth/AuthStatus", /* etcd has answered it to everybody since 3.7 */
    };
    bool is_auth = belfry_bytes_begins(path, belfry_bytes_str("/etcdserverpb.Auth/"));
    return (is_auth && !IS_ONE_OF(path, open)) || IS_ONE_OF(path, needing);
}

/* Methods of etcd's own services do nothing after their response. */
bool relay_rights_acts_later(struct belfry_bytes path)
{
    return !belfry_bytes_begins(path, belfry_bytes_str("/etcdserverpb."));
}

bool relay_rights_observes(struct belfry_bytes path)
{
    return belfry_bytes_equal(path, belfry_bytes_str("/v3electionpb.Election/Observe")) ||
           relay_rights_request(path) == RELAY_UNKNOWN;
}

bool relay_rights_keeps_alive(struct belfry_bytes path)
{
    return belfry_bytes_equal(path, belfry_bytes_str("/etcdserverpb.Lease/LeaseKeepAlive"));
}

bool relay_rights_changes_auth(struct belfry_bytes path)
{
    return belfry_bytes_begins(path, belfry_bytes_str("/etcdserverpb.Auth/")) && !relay_rights_reads(path);
}

enum relay_request relay_rights_request(struct belfry_bytes path)
{
    static const char *const services[] = {"/etcdserverpb.", "/v3lockpb.", "/v3electionpb."};
    if (belfry_bytes_equal(path, belfry_bytes_str("/etcdserverpb.Lease/LeaseKeepAlive")))
        return RELAY_MESSAGES;
    for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++) {
        if (belfry_bytes_begins(path, belfry_bytes_str(services[i])))
            return RELAY_ONE_MESSAGE;
    }
    return RELAY_UNKNOWN;
}
