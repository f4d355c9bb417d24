# bash completion for belfryctl, made from its table of options by tools/options-doc.
# shellcheck shell=bash
_belfryctl()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} flags='' words='' what=''
    if [[ $cur == = ]]; then # --name=value comes as three words
        cur=''
    elif [[ $prev == = ]]; then
        prev=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    local command='' i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --endpoints|--user|--password|--password-file|--cacert|--cert|--key|--server-name|--dial-timeout|--command-timeout|--keepalive-time|--keepalive-timeout|--max-message|--write-out|-w|--output|--rev|--limit|--consistency|--order|--sort-by|--min-mod-rev|--max-mod-rev|--min-create-rev|--max-create-rev|--lease|--page-bytes|--admin|--wait|--upstream|--write-key|--interval|--sort|--group|--filter|--server|--name|--namespace|--token|--token-file|--certificate-authority|--client-certificate|--client-key|--reference|--reference-user|--reference-password-file|--reference-cacert|--reference-cert|--reference-key|--reference-server-name|--kube|--for|--watchers|--history|--max-lag|--write|--write-prefix) [[ ${COMP_WORDS[++i]} != = ]] || ((i++)) ;;
        get|put|del|txn|watch|follow|lease|member|status|top|tree|health|doctor|verify|kube|completion|help|version)
            command=${COMP_WORDS[i]}
            break
            ;;
        esac
    done
    case $command in
    '') words='get put del txn watch follow lease member status top tree health doctor verify kube completion help version' ;;
    get) flags='--prefix --from-key --rev --limit --consistency --order --sort-by --keys-only --count-only --print-value-only --min-mod-rev --max-mod-rev --min-create-rev --max-create-rev' words='' ;;
    put) flags='--lease --ignore-value --ignore-lease --prev-kv' words='' ;;
    del) flags='--prefix --from-key --range --prev-kv' words='' ;;
    txn) flags='--interactive' words='' ;;
    watch) flags='--prefix --from-key --rev --prev-kv --progress-notify --no-put --no-delete --fragment' words='' ;;
    follow) flags='--prefix --from-key --prev-kv --once --page-bytes' words='' ;;
    lease) flags='--keys --once' words='grant revoke timetolive list keep-alive' ;;
    member) flags='' words='list' ;;
    status) flags='' words='' ;;
    top) flags='--admin --once --interval --clients --hour --sort --limit --group --filter' words='' ;;
    tree) flags='--admin' words='' ;;
    health) flags='--admin --ready --wait' words='' ;;
    doctor) flags='--prefix --from-key --admin --upstream --write-key' words='' ;;
    verify) flags='--token --token-file --reference --reference-user --reference-password-file --reference-cacert --reference-cert --reference-key --reference-server-name --kube --prefix --from-key --for --watchers --history --max-lag --write --write-prefix' words='' ;;
    kube) flags='--server --name --namespace --token --token-file --certificate-authority --client-certificate --client-key' words='config' ;;
    completion) flags='' words='bash zsh fish' ;;
    help) flags='' words='get put del txn watch follow lease member status top tree health doctor verify kube completion version' ;;
    version) flags='' words='' ;;
    esac
    case $prev in
    --write-out|-w) words='simple json' ;;
    --output) words='json table' ;;
    --consistency) words='l s' ;;
    --order) words='ascend descend' ;;
    --sort-by) words='create key modify value version' ;;
    --sort) words='lag sent age cpu memory calls connections' ;;
    --group) words='range peer state' ;;
    --password-file|--cacert|--cert|--key|--token-file|--certificate-authority|--client-certificate|--client-key|--reference-password-file|--reference-cacert|--reference-cert|--reference-key) what=-f ;;
    --endpoints|--user|--password|--server-name|--dial-timeout|--command-timeout|--keepalive-time|--keepalive-timeout|--max-message|--rev|--limit|--min-mod-rev|--max-mod-rev|--min-create-rev|--max-create-rev|--lease|--page-bytes|--admin|--wait|--upstream|--write-key|--interval|--filter|--server|--name|--namespace|--token|--reference|--reference-user|--reference-server-name|--kube|--for|--watchers|--history|--max-lag|--write|--write-prefix) return ;;
    *)
        [[ $cur != -* ]] || words="$flags --endpoints --user --password --password-file --cacert --cert --key --server-name --insecure-skip-tls-verify --insecure-transport --dial-timeout --command-timeout --keepalive-time --keepalive-timeout --hasleader --max-message --write-out --output --hex --debug --help"
        ;;
    esac
    if [[ -n $what ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen "$what" -- "$cur")
    else
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    fi
}
complete -F _belfryctl belfryctl
