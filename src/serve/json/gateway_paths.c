/* src/serve/json/gateway_paths.c */
#include "serve/json/gateway_paths.h"

#include <stddef.h>

#include "wire/election.pb-c.h"
#include "wire/lock.pb-c.h"
#include "wire/rpc.pb-c.h"

#define ONE(path, method, request, response)                                                                           \
    {                                                                                                                  \
        path, method, &request##__descriptor, &response##__descriptor, false, false                                    \
    }
#define TELLS(path, method, request, response)                                                                         \
    {                                                                                                                  \
        path, method, &request##__descriptor, &response##__descriptor, false, true                                     \
    }
#define TALKS(path, method, request, response)                                                                         \
    {                                                                                                                  \
        path, method, &request##__descriptor, &response##__descriptor, true, true                                      \
    }

static const struct gateway_path paths[] = {
    ONE("/kv/range", "/etcdserverpb.KV/Range", etcdserverpb__range_request, etcdserverpb__range_response),
    ONE("/kv/put", "/etcdserverpb.KV/Put", etcdserverpb__put_request, etcdserverpb__put_response),
    ONE("/kv/deleterange", "/etcdserverpb.KV/DeleteRange", etcdserverpb__delete_range_request,
        etcdserverpb__delete_range_response),
    ONE("/kv/txn", "/etcdserverpb.KV/Txn", etcdserverpb__txn_request, etcdserverpb__txn_response),
    ONE("/kv/compaction", "/etcdserverpb.KV/Compact", etcdserverpb__compaction_request,
        etcdserverpb__compaction_response),
    TALKS("/watch", "/etcdserverpb.Watch/Watch", etcdserverpb__watch_request, etcdserverpb__watch_response),
    ONE("/lease/grant", "/etcdserverpb.Lease/LeaseGrant", etcdserverpb__lease_grant_request,
        etcdserverpb__lease_grant_response),
    ONE("/lease/revoke", "/etcdserverpb.Lease/LeaseRevoke", etcdserverpb__lease_revoke_request,
        etcdserverpb__lease_revoke_response),
    ONE("/lease/timetolive", "/etcdserverpb.Lease/LeaseTimeToLive", etcdserverpb__lease_time_to_live_request,
        etcdserverpb__lease_time_to_live_response),
    ONE("/lease/leases", "/etcdserverpb.Lease/LeaseLeases", etcdserverpb__lease_leases_request,
        etcdserverpb__lease_leases_response),
    ONE("/kv/lease/revoke", "/etcdserverpb.Lease/LeaseRevoke", etcdserverpb__lease_revoke_request,
        etcdserverpb__lease_revoke_response),
    ONE("/kv/lease/timetolive", "/etcdserverpb.Lease/LeaseTimeToLive", etcdserverpb__lease_time_to_live_request,
        etcdserverpb__lease_time_to_live_response),
    ONE("/kv/lease/leases", "/etcdserverpb.Lease/LeaseLeases", etcdserverpb__lease_leases_request,
        etcdserverpb__lease_leases_response),
    TALKS("/lease/keepalive", "/etcdserverpb.Lease/LeaseKeepAlive", etcdserverpb__lease_keep_alive_request,
          etcdserverpb__lease_keep_alive_response),
    ONE("/cluster/member/add", "/etcdserverpb.Cluster/MemberAdd", etcdserverpb__member_add_request,
        etcdserverpb__member_add_response),
    ONE("/cluster/member/remove", "/etcdserverpb.Cluster/MemberRemove", etcdserverpb__member_remove_request,
        etcdserverpb__member_remove_response),
    ONE("/cluster/member/update", "/etcdserverpb.Cluster/MemberUpdate", etcdserverpb__member_update_request,
        etcdserverpb__member_update_response),
    ONE("/cluster/member/list", "/etcdserverpb.Cluster/MemberList", etcdserverpb__member_list_request,
        etcdserverpb__member_list_response),
    ONE("/cluster/member/promote", "/etcdserverpb.Cluster/MemberPromote", etcdserverpb__member_promote_request,
        etcdserverpb__member_promote_response),
    ONE("/maintenance/alarm", "/etcdserverpb.Maintenance/Alarm", etcdserverpb__alarm_request,
        etcdserverpb__alarm_response),
    ONE("/maintenance/status", "/etcdserverpb.Maintenance/Status", etcdserverpb__status_request,
        etcdserverpb__status_response),
    ONE("/maintenance/defragment", "/etcdserverpb.Maintenance/Defragment", etcdserverpb__defragment_request,
        etcdserverpb__defragment_response),
    ONE("/maintenance/hash", "/etcdserverpb.Maintenance/Hash", etcdserverpb__hash_request, etcdserverpb__hash_response),
    ONE("/maintenance/hashkv", "/etcdserverpb.Maintenance/HashKV", etcdserverpb__hash_kvrequest,
        etcdserverpb__hash_kvresponse),
    TELLS("/maintenance/snapshot", "/etcdserverpb.Maintenance/Snapshot", etcdserverpb__snapshot_request,
          etcdserverpb__snapshot_response),
    ONE("/maintenance/transfer-leadership", "/etcdserverpb.Maintenance/MoveLeader", etcdserverpb__move_leader_request,
        etcdserverpb__move_leader_response),
    ONE("/maintenance/downgrade", "/etcdserverpb.Maintenance/Downgrade", etcdserverpb__downgrade_request,
        etcdserverpb__downgrade_response),
    ONE("/auth/enable", "/etcdserverpb.Auth/AuthEnable", etcdserverpb__auth_enable_request,
        etcdserverpb__auth_enable_response),
    ONE("/auth/disable", "/etcdserverpb.Auth/AuthDisable", etcdserverpb__auth_disable_request,
        etcdserverpb__auth_disable_response),
    ONE("/auth/status", "/etcdserverpb.Auth/AuthStatus", etcdserverpb__auth_status_request,
        etcdserverpb__auth_status_response),
    ONE("/auth/authenticate", "/etcdserverpb.Auth/Authenticate", etcdserverpb__authenticate_request,
        etcdserverpb__authenticate_response),
    ONE("/auth/user/add", "/etcdserverpb.Auth/UserAdd", etcdserverpb__auth_user_add_request,
        etcdserverpb__auth_user_add_response),
    ONE("/auth/user/get", "/etcdserverpb.Auth/UserGet", etcdserverpb__auth_user_get_request,
        etcdserverpb__auth_user_get_response),
    ONE("/auth/user/list", "/etcdserverpb.Auth/UserList", etcdserverpb__auth_user_list_request,
        etcdserverpb__auth_user_list_response),
    ONE("/auth/user/delete", "/etcdserverpb.Auth/UserDelete", etcdserverpb__auth_user_delete_request,
        etcdserverpb__auth_user_delete_response),
    ONE("/auth/user/changepw", "/etcdserverpb.Auth/UserChangePassword", etcdserverpb__auth_user_change_password_request,
        etcdserverpb__auth_user_change_password_response),
    ONE("/auth/user/grant", "/etcdserverpb.Auth/UserGrantRole", etcdserverpb__auth_user_grant_role_request,
        etcdserverpb__auth_user_grant_role_response),
    ONE("/auth/user/revoke", "/etcdserverpb.Auth/UserRevokeRole", etcdserverpb__auth_user_revoke_role_request,
        etcdserverpb__auth_user_revoke_role_response),
    ONE("/auth/role/add", "/etcdserverpb.Auth/RoleAdd", etcdserverpb__auth_role_add_request,
        etcdserverpb__auth_role_add_response),
    ONE("/auth/role/get", "/etcdserverpb.Auth/RoleGet", etcdserverpb__auth_role_get_request,
        etcdserverpb__auth_role_get_response),
    ONE("/auth/role/list", "/etcdserverpb.Auth/RoleList", etcdserverpb__auth_role_list_request,
        etcdserverpb__auth_role_list_response),
    ONE("/auth/role/delete", "/etcdserverpb.Auth/RoleDelete", etcdserverpb__auth_role_delete_request,
        etcdserverpb__auth_role_delete_response),
    ONE("/auth/role/grant", "/etcdserverpb.Auth/RoleGrantPermission", etcdserverpb__auth_role_grant_permission_request,
        etcdserverpb__auth_role_grant_permission_response),
    ONE("/auth/role/revoke", "/etcdserverpb.Auth/RoleRevokePermission",
        etcdserverpb__auth_role_revoke_permission_request, etcdserverpb__auth_role_revoke_permission_response),
    ONE("/lock/lock", "/v3lockpb.Lock/Lock", v3lockpb__lock_request, v3lockpb__lock_response),
    ONE("/lock/unlock", "/v3lockpb.Lock/Unlock", v3lockpb__unlock_request, v3lockpb__unlock_response),
    ONE("/election/campaign", "/v3electionpb.Election/Campaign", v3electionpb__campaign_request,
        v3electionpb__campaign_response),
    ONE("/election/proclaim", "/v3electionpb.Election/Proclaim", v3electionpb__proclaim_request,
        v3electionpb__proclaim_response),
    ONE("/election/leader", "/v3electionpb.Election/Leader", v3electionpb__leader_request,
        v3electionpb__leader_response),
    TELLS("/election/observe", "/v3electionpb.Election/Observe", v3electionpb__leader_request,
          v3electionpb__leader_response),
    ONE("/election/resign", "/v3electionpb.Election/Resign", v3electionpb__resign_request,
        v3electionpb__resign_response),
};

bool gateway_paths_is(struct belfry_bytes path, const struct gateway_path **out)
{
    static const char *const roots[] = {"/v3", "/v3beta"};
    *out = NULL;
    for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
        struct belfry_bytes root = belfry_bytes_str(roots[i]);
        if (!belfry_bytes_begins(path, root) || path.len == root.len || path.data[root.len] != '/')
            continue;
        struct belfry_bytes rest = belfry_bytes_of(path.data + root.len, path.len - root.len);
        for (size_t k = 0; k < sizeof(paths) / sizeof(paths[0]) && *out == NULL; k++)
            *out = belfry_bytes_equal(rest, belfry_bytes_str(paths[k].path)) ? &paths[k] : NULL;
        return true;
    }
    return false;
}

const struct gateway_path *gateway_paths_all(size_t *out_n)
{
    *out_n = sizeof(paths) / sizeof(paths[0]);
    return paths;
}
