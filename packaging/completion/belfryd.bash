# bash completion for belfryd, made from its table of options by tools/options-doc.
# shellcheck shell=bash
_belfryd()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} flags='' words='' what=''
    if [[ $cur == = ]]; then # --name=value comes as three words
        cur=''
    elif [[ $prev == = ]]; then
        prev=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    case $prev in
    --upstream-token-method) words='RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA HS256 HS384 HS512' ;;
    --log-level) words='error warn info debug' ;;
    --log-format) words='logfmt json' ;;
    --upstream-cacert|--upstream-cert|--upstream-key|--upstream-password-file|--upstream-token-key|--upstream-token-file|--ticket-key-file|--resources|--config) what=-f ;;
    --cache-dir) what=-d ;;
    --upstream|--upstream-server-name|--upstream-user|--upstream-kube|--follow|--rights-period|--listen|--admin|--advertise|--allowed-hosts|--cors-origins|--ticket-time|--name|--scope|--log-bytes|--history-bytes|--history-age|--memory-bytes|--max-streams|--max-connections|--max-watchers|--max-calls|--client-share|--tier-share|--greet-time|--message-time|--unread-time|--idle-time|--workers|--ready-lag|--drain|--progress-interval) return ;;
    *)
        [[ $cur != -* ]] || words="$flags --upstream --upstream-cacert --upstream-cert --upstream-key --upstream-server-name --upstream-user --upstream-password-file --upstream-token-key --upstream-token-method --allow-root --pass-users --upstream-kube --upstream-token-file --follow --rights-period --listen --insecure-listen --admin --admin-tail --advertise --allowed-hosts --cors-origins --ticket-key-file --ticket-time --name --resources --cache-dir --scope --log-bytes --history-bytes --history-age --memory-bytes --max-streams --max-connections --max-watchers --max-calls --client-share --tier-share --greet-time --message-time --unread-time --idle-time --workers --ready-lag --drain --progress-interval --harden --log-level --log-format --config --check-config --print-config --version --help"
        ;;
    esac
    if [[ -n $what ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen "$what" -- "$cur")
    else
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    fi
}
complete -F _belfryd belfryd
