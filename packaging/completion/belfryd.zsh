#compdef belfryd
# zsh completion for belfryd, made from its table of options by tools/options-doc.
_belfryd()
{
    local curcontext=$curcontext state line
    local -A opt_args
    local -a flags=(
        '*--upstream=[etcd members, or belfryd above; may repeat]:URL,...: '
        '--upstream-cacert=[trust upstreams signed by these authorities (PEM)]:FILE:_files'
        '--upstream-cert=[show this certificate to upstream (PEM)]:FILE:_files'
        '--upstream-key=[the private key of --upstream-cert (PEM)]:FILE:_files'
        '--upstream-server-name=[the name upstream'\''s certificate must carry, if not the host]:NAME: '
        '--upstream-user=[log in to upstream; needs --upstream-password-file]:NAME: '
        '--upstream-password-file=[the file whose first line is the password]:FILE:_files'
        '--upstream-token-key=[sign tokens for users of client certificates with this key of etcd'\''s]:FILE:_files'
        '--upstream-token-method=[the sign-method of etcd'\''s --auth-token]:METHOD:(RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA HS256 HS384 HS512)'
        '--allow-root[let a client certificate be for the user root]'
        '--pass-users[pass users of client certificates on to the belfryd above]'
        '--rights-period=[a right that upstream has revoked ends within this time]:TIME: '
        '*--listen=[serve clients here; may repeat; options are below]:URL[,OPTION...]: '
        '--insecure-listen[allow plain HTTP on addresses that are not loopback]'
        '--admin=[health, metrics and what operators look at]:URL: '
        '--admin-tail[let the page of the admin address show changes of keys]'
        '--advertise=[the address at which clients reach this tier]:URL: '
        '*--allowed-hosts=[other names by which plain HTTP may ask; * for all; may repeat]:NAME,...: '
        '--name=[what this tier is called in logs and by the tiers below]:NAME: '
        '*--resources=[serve these CustomResourceDefinitions to kubectl and its like; may repeat]:FILE[,OPTION...]:_files'
        '--cache-dir=[where the replica is kept]:DIR:_path_files -/'
        '*--scope=[follow only keys that begin with this]:PREFIX: '
        '--log-bytes=[changes kept in memory, which watchers are served from]:SIZE: '
        '--history-bytes=[changes kept on disk, for watchers that start in the past]:SIZE: '
        '--history-age=[changes older than this leave the disk]:TIME: '
        '--memory-bytes=[the bound for log, buffers and connections]:SIZE: '
        '--max-streams=[streams of one connection at once; more are refused; 0: no limit]:N: '
        '--max-connections=[connections of all clients together]:N: '
        '--max-watchers=[watchers of all clients together]:N: '
        '--max-calls=[relayed calls of all clients together; each is a stream in upstream]:N: '
        '--client-share=[the most that one client can hold of each limit; 100: all of it]:PERCENT: '
        '--tier-share=[the same for a belfryd below, which stands for all of its clients]:PERCENT: '
        '--greet-time=[close what has not finished its handshake, or a head, by then]:TIME: '
        '--message-time=[end a call whose message is not whole after this time]:TIME: '
        '--unread-time=[while memory is short, end clients that read nothing for so long]:TIME: '
        '--idle-time=[close connections without a request after this time]:TIME: '
        '--workers=[threads that serve clients]:N: '
        '--ready-lag=[report not ready when lagging upstream by more than this]:TIME: '
        '--drain=[time in which clients are sent away after SIGTERM]:TIME: '
        '--progress-interval=[how often idle watchers hear how far they are]:TIME: '
        '--harden[give up what belfryd does not need of the kernel; --harden=false: not]'
        '--log-level=[error, warn, info or debug]:LEVEL:(error warn info debug)'
        '--log-format=[logfmt or json, on standard error]:FORM:(logfmt json)'
        '--config=[read settings from this file (YAML; its keys are the flags'\'' names)]:FILE:_files'
        '--check-config[validate all settings, and try the files and addresses they name; exit]'
        '--print-config[print every setting, and where it came from, as YAML; exit]'
        '--version[print the version; exit]'
        '(-h --help)'{-h,--help}'[this text]'
    )
    _arguments "$flags[@]"
}
_belfryd "$@"
