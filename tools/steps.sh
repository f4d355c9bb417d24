# tools/steps.sh: sourced by .ci/run and tools/check. Named and timed steps that go on after a failure, and one tally.
#
#   steps_begin NAME            logs go to build/NAME/logs; BELFRY_TALLY names the file in which results are counted
#   step NAME COMMAND...        one check: it counts as one passed or one failed. Figures that it prints are shown
#   suite NAME COMMAND...       many tests: the command counts them itself with tools/tally; a suite that fails without
#                               having counted a failure, or that counts nothing at all, is one failure more. What
#                               was skipped, and figures that tests print, are shown also when all is well
#   suite_beside NAME COMMAND.. a suite in the background, beside the steps that follow; it counts into a tally of its own
#   meet_suites                 waits for those, shows what they said, and counts them
#   build_preset PRESET         configures and builds with warnings as errors, to the last error
#   test_preset PRESET [WRAP..] runs the unit suites and counts them; WRAP is a command to run CTest under
#   steps_slowest N             prints the N steps that took longest
#   steps_end                   prints "N passed, N failed" as the last line; false when anything failed. What failed is named
#                               before it, for whoever sees the end only. Tests that need servers built outside this tree, and
#                               did not find them, are on a line of their own
#
# A step's output goes to its log and is shown only when it fails. step and suite return the command's own status, so
# that what cannot make sense after a failure is left out:
#     step "build" build_preset asan && suite "unit tests" test_preset asan

steps_begin() {
    steps_logs=build/$1/logs
    rm -rf "$steps_logs"
    mkdir -p "$steps_logs"
    export BELFRY_TALLY=$PWD/build/$1/tally
    : >"$BELFRY_TALLY"
    steps_n=0
    steps_beside=()
}

steps_sum() { # COLUMN -> its sum over the tally
    awk -v c="$1" '{ n += $c } END { print n + 0 }' "$BELFRY_TALLY"
}

steps_run() { # NAME COMMAND...
    local name=$1 begin=$SECONDS status=0 log verdict=ok
    shift
    steps_n=$((steps_n + 1))
    log=$steps_logs/$(printf '%02d' "$steps_n")-${name//[^A-Za-z0-9]/-}.log
    printf '%s\n' "== $name"
    "$@" >"$log" 2>&1 </dev/null || status=$?
    if [ "$status" -ne 0 ]; then
        verdict="FAILED (status $status)"
        { # with pytest's own lines, which say why
            echo "failed: $name"
            sed -n -e 's/^tally: failed: /   /p' -e 's/^\(FAILED\|ERROR\) tests/   tests/p' "$log" | cut -c 1-300
        } >>"$steps_logs/failed"
        grep -v '^\[[0-9]*/[0-9]*\] ' "$log" | tail -n 200 # ninja's progress tells nothing here
        echo "== $name: the whole output is in $log"
    fi
    printf '%s\n' "== $name: $verdict, $((SECONDS - begin)) s"
    echo "$((SECONDS - begin)) s  $name" >>"$steps_logs/times"
    steps_log=$log
    return "$status"
}

step() {
    local status=0
    steps_run "$@" || status=$?
    if [ "$status" -eq 0 ]; then echo "1 0"; else echo "0 1"; fi >>"$BELFRY_TALLY"
    [ "$status" -ne 0 ] || sed -n 's/^figure: /   /p' "$steps_log"
    return "$status"
}

suite() {
    local status=0 passed failed
    passed=$(steps_sum 1) failed=$(steps_sum 2)
    steps_run "$@" || status=$?
    passed=$(($(steps_sum 1) - passed)) failed=$(($(steps_sum 2) - failed))
    if [ "$failed" -eq 0 ] && { [ "$status" -ne 0 ] || [ "$passed" -eq 0 ]; }; then
        [ "$status" -ne 0 ] || { status=1; echo "== $1: FAILED, no test was run"; }
        echo "0 1" >>"$BELFRY_TALLY"
        failed=1
    fi
    sed -n -e 's/^tally: /   /p' -e 's/^figure: /   /p' "$steps_log" | sort -u
    sed -n 's/^slowest: /   slowest: /p' "$steps_log"
    echo "   $passed passed, $failed failed"
    return "$status"
}

suite_beside() {
    local said=$steps_logs/beside-${1//[^A-Za-z0-9]/-}
    (
        BELFRY_TALLY=$PWD/$said.tally
        : >"$BELFRY_TALLY"
        suite "$@"
    ) >"$said.log" 2>&1 &
    steps_n=$((steps_n + 1)) # the suite's log has that number
    steps_beside+=("$! $said")
}

meet_suites() {
    local one
    for one in "${steps_beside[@]}"; do
        wait "${one%% *}"
        cat "${one#* }.log"
        cat "${one#* }.tally" >>"$BELFRY_TALLY"
    done
    steps_beside=()
}

# ccache serves another clone, too: paths under this folder count from here. Also for the builds of what is called from here.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

build_preset() {
    local launcher
    launcher=$(command -v ccache || true)
    cmake --preset "$1" -DBELFRY_WERROR=ON -DCMAKE_C_COMPILER_LAUNCHER="$launcher" -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher" &&
        cmake --build --preset "$1" -- -k 0
}

test_preset() {
    local preset=$1 status=0 junit=$PWD/build/$1/junit.xml
    shift
    rm -f "$junit"
    # more than there are cores: suites wait for sockets and timers more often than they compute
    # A shell lets commands in the background ignore SIGINT, and tests send it.
    "$@" env --default-signal=INT,QUIT ctest --preset "$preset" -j $(($(nproc) * 4)) --no-tests=error --output-junit "$junit" || status=$?
    /usr/bin/python3 tools/tally "$junit" || status=1
    return "$status"
}

steps_slowest() { # N
    sort -rn "$steps_logs/times" | head -n "$1" | sed 's/^/   slowest steps: /'
}

steps_end() {
    local passed failed
    passed=$(steps_sum 1) failed=$(steps_sum 2)
    [ "$(steps_sum 3)" -eq 0 ] || echo "$(steps_sum 3) not run, for want of a peer (tests/integration/README.md)"
    [ ! -s "$steps_logs/failed" ] || cat "$steps_logs/failed"
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}
