#compdef belfryctl
# zsh completion for belfryctl, made from its table of options by tools/options-doc.
_belfryctl()
{
    local curcontext=$curcontext state line
    local -A opt_args
    local -a flags=(
        '*--endpoints=[host:port, http://, https:// or unix:///path; may repeat]:URL,...: '
        '--user=[log in; asks for the password if none is given]:NAME[\:PASSWORD]: '
        '--password=[the password; other users can see it: prefer --password-file]:PASSWORD: '
        '--password-file=[file whose first line is the password]:FILE:_files'
        '--cacert=[trust servers signed by these authorities (PEM)]:FILE:_files'
        '--cert=[present this certificate to the server (PEM)]:FILE:_files'
        '--key=[the private key of --cert (PEM)]:FILE:_files'
        '--server-name=[name in the server'\''s certificate, if it is not the host]:NAME: '
        '--insecure-skip-tls-verify[accept any certificate; for tests only]'
        '--insecure-transport[=false: use TLS for endpoints without a scheme]'
        '--dial-timeout=[time limit for connecting to one endpoint]:TIME: '
        '--command-timeout=[time limit for one answer, with all retries]:TIME: '
        '--keepalive-time=[ping an idle connection this often; at least 10s]:TIME: '
        '--keepalive-timeout=[leave an endpoint that does not answer a ping within this time]:TIME: '
        '--hasleader[leave a leaderless member; =false: stay. Serializable reads go without]'
        '--max-message=[reject larger messages and revisions]:SIZE: '
        '(-w --write-out)'{-w+,--write-out=}'[the same output as etcdctl: simple or json]:FORM:(simple json)'
        '--output=[json: one line per event, keys as text; table: for people]:FORM:(json table)'
        '--hex[write keys and values as \\xNN (simple and table)]'
        '--debug[log the session'\''s steps on standard error]'
        '(-h --help)'{-h,--help}'[this text]'
    )
    _arguments -C -A '-*' "$flags[@]" '1:command:->command' '*::argument:->argument' && return
    case $state in
    command)
        local -a commands=(
        'get:read a key, or the keys of a range'
        'put:write a key'
        'del:delete a key, or the keys of a range'
        'txn:run several requests atomically, if conditions hold'
        'watch:show changes as they happen, from now or from a revision'
        'follow:show the state, then changes as they happen'
        'lease:create, end, show, list or renew leases'
        'member:list the members of the cluster'
        'status:show the status of every endpoint'
        'top:show a belfryd live: its state, watchers, clients and their lag'
        'tree:show the tiers above and below a belfryd, and how far each is behind'
        'health:check whether a belfryd is alive or ready: one line and an exit code'
        'doctor:find faults between here, a belfryd and etcd, and how to fix them'
        'verify:prove that a tier delivers what etcd delivers'
        'kube:print a kubeconfig for a belfryd'
        'completion:print the completion script for bash, zsh or fish'
        'help:show this text, or the help of a command'
        'version:print the version'
        )
        _describe command commands
        ;;
    argument)
        case $words[1] in
        get) flags+=(
        '--prefix[every key that begins with KEY ('\'''\'' is all keys)]'
        '--from-key[KEY and every key after it]'
        '--rev=[read the state at this revision]:N: '
        '--limit=[maximum number of keys]:N: '
        '--consistency=[linearizable, or serializable: faster, may be behind]:l|s:(l s)'
        '--order=[ASCEND or DESCEND]:ORDER:(ascend descend)'
        '--sort-by=[CREATE, KEY, MODIFY, VALUE or VERSION]:WHAT:(create key modify value version)'
        '--keys-only[no values]'
        '--count-only[only the number of keys]'
        '--print-value-only[only values, no keys (simple)]'
        '--min-mod-rev=[only keys last changed at this revision or later]:N: '
        '--max-mod-rev=[only keys last changed at this revision or earlier]:N: '
        '--min-create-rev=[only keys created at this revision or later]:N: '
        '--max-create-rev=[only keys created at this revision or earlier]:N: '
        ) ;;
        put) flags+=(
        '--lease=[attach the key to this lease]:HEX: '
        '--ignore-value[keep the current value]'
        '--ignore-lease[keep the current lease]'
        '--prev-kv[also print the previous value]'
        ) ;;
        del) flags+=(
        '--prefix[every key that begins with KEY ('\'''\'' is all keys)]'
        '--from-key[KEY and every key after it]'
        '--range[no effect: RANGE_END is enough (etcdctl 3.6 requires it)]'
        '--prev-kv[also print the previous value]'
        ) ;;
        txn) flags+=(
        '(-i --interactive)'{-i,--interactive}'[print which list is being read]'
        ) ;;
        watch) flags+=(
        '--prefix[every key that begins with KEY ('\'''\'' is all keys)]'
        '--from-key[KEY and every key after it]'
        '--rev=[start with the changes of this revision]:N: '
        '--prev-kv[also print the previous value of each change]'
        '--progress-notify[print the revision now and then while nothing changes]'
        '--no-put[leave out puts]'
        '--no-delete[leave out deletes]'
        '--fragment[let the server split responses over 32 MiB]'
        ) ;;
        follow) flags+=(
        '--prefix[every key that begins with KEY ('\'''\'' is all keys)]'
        '--from-key[KEY and every key after it]'
        '--prev-kv[also print the previous value of each change]'
        '--once[exit when the state is complete]'
        '--page-bytes=[read the state in pages of about this size]:SIZE: '
        ) ;;
        lease) flags+=(
        '--keys[timetolive: also list its keys]'
        '--once[keep-alive: renew once]'
        '1:argument:(grant revoke timetolive list keep-alive)'
        ) ;;
        member) flags+=(
        '1:argument:(list)'
        ) ;;
        status) flags+=(
        ) ;;
        top) flags+=(
        '--admin=[admin address: http://host:port or unix:///path]:URL: '
        '--once[print once and exit]'
        '--interval=[redraw this often; at least 200ms]:TIME: '
        '--clients[show the cost of each client instead of watchers]'
        '--hour[show the last hour instead of watchers]'
        '--sort=[sort by lag, sent or age; --clients: cpu, memory, calls, connections]:WHAT:(lag sent age cpu memory calls connections)'
        '--limit=[number of watchers or groups, up to 10000; of clients, up to 1000]:N: '
        '--group=[count watchers by range, peer or state]:WHAT:(range peer state)'
        '--filter=[only rows with this text in peer, identity, client, key, state or dialect]:TEXT: '
        ) ;;
        tree) flags+=(
        '--admin=[admin address: http://host:port or unix:///path]:URL: '
        ) ;;
        health) flags+=(
        '--admin=[admin address: http://host:port or unix:///path]:URL: '
        '--ready[is it ready for clients? Without: is it alive?]'
        '--wait=[retry for up to this long]:TIME: '
        ) ;;
        doctor) flags+=(
        '--prefix[every key that begins with KEY ('\'''\'' is all keys)]'
        '--from-key[KEY and every key after it]'
        '--admin=[admin address: http://host:port or unix:///path]:URL: '
        '--upstream=[members of etcd, or a tier above; default: as the tier reports]:URL,...: '
        '--write-key=[write this new key, follow it down all tiers, and delete it]:KEY: '
        ) ;;
        verify) flags+=(
        '--token=[log in with it; other users can see it: prefer --token-file]:TOKEN: '
        '--token-file=[file whose first line is the token]:FILE:_files'
        '--reference=[endpoints of the etcd to compare with; --kube: URL of the API server]:URL,...: '
        '--reference-user=[log in at the reference as this user instead of --user]:NAME[\:PASSWORD]: '
        '--reference-password-file=[file whose first line is the password of --reference-user]:FILE:_files'
        '--reference-cacert=[trust a reference signed by these authorities, instead of --cacert (PEM)]:FILE:_files'
        '--reference-cert=[present this certificate to the reference instead of --cert (PEM)]:FILE:_files'
        '--reference-key=[the private key of --reference-cert (PEM)]:FILE:_files'
        '--reference-server-name=[the name in the reference'\''s certificate, instead of --server-name]:NAME: '
        '--kube=[compare a resource with an API server: v1/pods, apps/v1/deployments]:RESOURCE: '
        '--prefix[every key that begins with KEY; --prefix=KEY is the same]'
        '--from-key[KEY and every key after it]'
        '--for=[run this long; 0s: until Ctrl-C]:TIME: '
        '--watchers=[number of watchers on the tier, up to 64]:N: '
        '--history=[watchers start up to this many revisions back; 0: only from now on]:N: '
        '--max-lag=[a later event is a violation]:TIME: '
        '--write=[writes per second to the reference]:N: '
        '--write-prefix=[prefix of the keys of --write]:KEY: '
        ) ;;
        kube) flags+=(
        '--server=[http://host:port or https://host:port of the belfryd]:URL: '
        '--name=[name of cluster, user and context]:NAME: '
        '--namespace=[kubectl'\''s default namespace]:NAME: '
        '--token=[log in with it; other users can see it: prefer --token-file]:TOKEN: '
        '--token-file=[file whose first line is the token]:FILE:_files'
        '--certificate-authority=[trust a belfryd signed by these authorities (PEM)]:FILE:_files'
        '--client-certificate=[present this certificate to the belfryd (PEM)]:FILE:_files'
        '--client-key=[the private key of --client-certificate (PEM)]:FILE:_files'
        '1:argument:(config)'
        ) ;;
        completion) flags+=(
        '1:argument:(bash zsh fish)'
        ) ;;
        help) flags+=(
        '1:argument:(get put del txn watch follow lease member status top tree health doctor verify kube completion version)'
        ) ;;
        version) flags+=(
        ) ;;
        esac
        _arguments "$flags[@]" '*:argument: '
        ;;
    esac
}
_belfryctl "$@"
