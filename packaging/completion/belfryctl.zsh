#compdef belfryctl
# zsh completion for belfryctl, made from its table of options by tools/options-doc.
_belfryctl()
{
    local curcontext=$curcontext state line
    local -A opt_args
    local -a flags=(
        '*--endpoints=[host:port, http://, https:// or unix:///path; may repeat]:URL,...: '
        '--user=[log in; asks for the password when none is given]:NAME[\:PASSWORD]: '
        '--password=[the password; visible to other users: prefer --password-file]:PASSWORD: '
        '--password-file=[the file whose first line is the password]:FILE:_files'
        '--cacert=[trust servers signed by these authorities (PEM)]:FILE:_files'
        '--cert=[show this certificate to the server (PEM)]:FILE:_files'
        '--key=[the private key of --cert (PEM)]:FILE:_files'
        '--server-name=[the name the server'\''s certificate must carry, if not the host]:NAME: '
        '--insecure-skip-tls-verify[take any certificate; for tests only]'
        '--insecure-transport[=false: TLS also for endpoints without a scheme]'
        '--dial-timeout=[for connecting to one endpoint]:TIME: '
        '--command-timeout=[for one answer, all tries together]:TIME: '
        '--keepalive-time=[ping an idle connection this often; less than 10s is taken as 10s]:TIME: '
        '--keepalive-timeout=[leave an endpoint that does not answer a ping in this time]:TIME: '
        '--hasleader[leave a member that has no leader]'
        '--max-message=[refuse a larger message, or a larger revision]:SIZE: '
        '(-w --write-out)'{-w+,--write-out=}'[the bytes that etcdctl writes: simple or json]:FORM:(simple json)'
        '--output=[json: one line per event, keys as text; table: for people]:FORM:(json table)'
        '--hex[write keys and values as \\xNN (simple and table)]'
        '--debug[say on standard error what the session is doing]'
        '(-h --help)'{-h,--help}'[this text]'
    )
    _arguments -C -A '-*' "$flags[@]" '1:command:->command' '*::argument:->argument' && return
    case $state in
    command)
        local -a commands=(
        'get:read a key, or the keys of a range'
        'put:write a key'
        'del:delete a key, or the keys of a range'
        'txn:do several things at once, if conditions hold'
        'watch:show changes as they happen, from now or from a revision'
        'follow:show the state, then changes as they happen'
        'lease:grant, revoke, timetolive, list and keep-alive'
        'member:list the members of the cluster'
        'status:ask every endpoint how it is'
        'top:show a belfryd: how it stands, and who watches what and how far behind'
        'tree:show the tiers above and below a belfryd, and how far each is behind'
        'health:tell in one line and by the exit code whether a belfryd is alive, or ready'
        'doctor:find what is wrong between here, a belfryd and etcd, and say what helps'
        'verify:prove that a tier gives what etcd gives'
        'kube:print a kubeconfig by which kubectl and the like find a belfryd'
        'completion:print what bash, zsh or fish needs to complete belfryctl'
        'help:this text, or that of a command'
        'version:print the version'
        )
        _describe command commands
        ;;
    argument)
        case $words[1] in
        get) flags+=(
        '--prefix[every key that begins with KEY ('\'''\'' is all keys)]'
        '--from-key[KEY and every key after it]'
        '--rev=[read what was there at this revision]:N: '
        '--limit=[at most so many keys]:N: '
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
        '--lease=[the key goes when this lease does]:HEX: '
        '--ignore-value[keep the value it has]'
        '--ignore-lease[keep the lease it has]'
        '--prev-kv[print what was there before, too]'
        ) ;;
        del) flags+=(
        '--prefix[every key that begins with KEY ('\'''\'' is all keys)]'
        '--from-key[KEY and every key after it]'
        '--range[nothing: RANGE_END is enough (etcdctl 3.6 asks for it)]'
        '--prev-kv[print what was there before, too]'
        ) ;;
        txn) flags+=(
        '(-i --interactive)'{-i,--interactive}'[say which list is being read]'
        ) ;;
        watch) flags+=(
        '--prefix[every key that begins with KEY ('\'''\'' is all keys)]'
        '--from-key[KEY and every key after it]'
        '--rev=[begin with the changes of this revision]:N: '
        '--prev-kv[with each change what was there before]'
        '--progress-notify[say now and then how far it is, when nothing changes]'
        '--no-put[leave out puts]'
        '--no-delete[leave out deletes]'
        '--fragment[let the server send what is over 32 MiB in pieces]'
        ) ;;
        follow) flags+=(
        '--prefix[every key that begins with KEY ('\'''\'' is all keys)]'
        '--from-key[KEY and every key after it]'
        '--prev-kv[with each change what was there before]'
        '--once[end when the state is complete]'
        '--page-bytes=[read the state in pages of about this size]:SIZE: '
        ) ;;
        lease) flags+=(
        '--keys[timetolive: also the keys on it]'
        '--once[keep-alive: renew once]'
        '1:argument:(grant revoke timetolive list keep-alive)'
        ) ;;
        member) flags+=(
        '1:argument:(list)'
        ) ;;
        status) flags+=(
        ) ;;
        top) flags+=(
        '--admin=[http://host:port or unix:///path of the belfryd]:URL: '
        '--once[print once and end]'
        '--interval=[redraw this often; at least 200ms]:TIME: '
        '--clients[show what each client costs instead of watchers]'
        '--hour[show the last hour instead of watchers]'
        '--sort=[the largest lag, sent or age first; --clients: cpu, memory, calls, connections]:WHAT:(lag sent age cpu memory calls connections)'
        '--limit=[at most so many watchers or groups, up to 10000; of clients up to 1000]:N: '
        '--group=[count watchers by range, peer or state]:WHAT:(range peer state)'
        '--filter=[only those with this in their peer, identity, client, key, state or dialect]:TEXT: '
        ) ;;
        tree) flags+=(
        '--admin=[http://host:port or unix:///path of the belfryd]:URL: '
        ) ;;
        health) flags+=(
        '--admin=[http://host:port or unix:///path of the belfryd]:URL: '
        '--ready[should it receive clients? else: is it alive?]'
        '--wait=[keep asking for up to this long]:TIME: '
        ) ;;
        doctor) flags+=(
        '--prefix[every key that begins with KEY ('\'''\'' is all keys)]'
        '--from-key[KEY and every key after it]'
        '--admin=[http://host:port or unix:///path of the belfryd]:URL: '
        '--upstream=[members of etcd, or a tier above; default: what the tier says it has]:URL,...: '
        '--write-key=[write this key, which must not exist, follow it down all tiers, and delete it]:KEY: '
        ) ;;
        verify) flags+=(
        '--token=[log in with it; visible to other users: prefer --token-file]:TOKEN: '
        '--token-file=[the file whose first line is the token]:FILE:_files'
        '--reference=[endpoints of the etcd that is believed; --kube: URL of the API server]:URL,...: '
        '--reference-user=[log in at the reference as this user instead of --user]:NAME[\:PASSWORD]: '
        '--reference-password-file=[the file whose first line is the password of --reference-user]:FILE:_files'
        '--reference-cacert=[trust a reference signed by these authorities, instead of --cacert (PEM)]:FILE:_files'
        '--reference-cert=[present this certificate to the reference instead of --cert (PEM)]:FILE:_files'
        '--reference-key=[the private key of --reference-cert (PEM)]:FILE:_files'
        '--reference-server-name=[the name in the reference'\''s certificate, instead of --server-name]:NAME: '
        '--kube=[compare a resource with an API server: v1/pods, apps/v1/deployments]:RESOURCE: '
        '--prefix[every key that begins with KEY; --prefix=KEY is the same]'
        '--from-key[KEY and every key after it]'
        '--for=[so long; 0s: until Ctrl-C]:TIME: '
        '--watchers=[so many watchers on the tier, up to 64]:N: '
        '--history=[watchers start up to so many revisions back; 0: only from now on]:N: '
        '--max-lag=[an event that is later than that is a violation]:TIME: '
        '--write=[write so many times a second to the reference]:N: '
        '--write-prefix=[the keys of --write begin with this]:KEY: '
        ) ;;
        kube) flags+=(
        '--server=[http://host:port or https://host:port of the belfryd]:URL: '
        '--name=[what cluster, user and context are called]:NAME: '
        '--namespace=[the namespace that kubectl looks at when it is not told]:NAME: '
        '--token=[log in with it; visible to other users: prefer --token-file]:TOKEN: '
        '--token-file=[the file whose first line is the token]:FILE:_files'
        '--certificate-authority=[trust a belfryd signed by these authorities (PEM)]:FILE:_files'
        '--client-certificate=[show this certificate to the belfryd (PEM)]:FILE:_files'
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
