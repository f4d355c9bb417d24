# debian/tests/etcd.sh: sourced by the tests. Starts an etcd in $AUTOPKGTEST_TMP and ends everything that was started when the test ends.
#
#   $etcd            its address
#   pids             processes to end
#   wait_for WHAT... runs the command until it succeeds, for a minute
etcd=http://127.0.0.1:12379
pids=()
trap 'kill -9 "${pids[@]}" 2>/dev/null || true' EXIT

wait_for() {
    local i
    for ((i = 0; i < 300; i++)); do
        ! "$@" >/dev/null 2>&1 || return 0
        sleep 0.2
    done
    echo "not within a minute: $*" >&2
    return 1
}

is_open() { # PORT
    (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

etcd --data-dir "$AUTOPKGTEST_TMP/etcd" --listen-client-urls "$etcd" --advertise-client-urls "$etcd" \
    --listen-peer-urls http://127.0.0.1:12380 --log-level error >"$AUTOPKGTEST_TMP/etcd.log" 2>&1 &
pids+=($!)
wait_for is_open 12379
