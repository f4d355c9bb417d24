# tools/devcache.sh: sourced by the tools that keep something for tests and benches. It is kept in belfry-dev of the user's
# cache folder; belfry, beside it, is belfryd's own and holds nothing but a replica.
#
#   $devcache                        the folder
#   devcache_has NAME                is $devcache/NAME there?
#   devcache_once NAME COMMAND...    makes $devcache/NAME, unless it is there: COMMAND is called with a folder to fill. One
#                                    process at a time does so, others wait, and NAME appears when it is whole
#
# Callers have `set -e`: a COMMAND that fails ends them, and the next call begins again.

devcache=${XDG_CACHE_HOME:-$HOME/.cache}/belfry-dev

devcache_has() {
    [ -e "$devcache/$1" ]
}

devcache_once() {
    local name=$1
    shift
    ! devcache_has "$name" || return 0
    mkdir -p "$(dirname "$devcache/$name")"
    (
        flock 9
        ! devcache_has "$name" || exit 0
        rm -rf "$devcache/$name.part"
        mkdir "$devcache/$name.part"
        "$@" "$devcache/$name.part"
        mv "$devcache/$name.part" "$devcache/$name"
    ) 9>"$devcache/$name.lock"
}
