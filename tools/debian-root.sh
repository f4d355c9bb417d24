# tools/debian-root.sh: sourced by the tools that work in a root folder of Debian, so that nothing is installed on the machine.
#
#   debian_mirror                                  the server of this machine's own apt sources
#   debian_root SUITE FOLDER LOG [PACKAGE...]      fills FOLDER with a minimal Debian and the packages; LOG has the output
#   debian_in FOLDER COMMAND...                    runs COMMAND in it, as root, with /proc; all its processes end with it
#
# Callers have `set -e` and are root.

debian_mirror() {
    cat /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null |
        sed -n -e 's/^URIs: \([^ ]*\).*/\1/p' -e 's/^deb \(\[[^]]*\] \)\?\([^ ]*\) bookworm .*/\2/p' | sed q
}

debian_in() {
    local folder=$1
    shift
    unshare --mount --pid --fork --kill-child --mount-proc="$folder/proc" chroot "$folder" \
        env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive "$@"
}

debian_root() {
    local suite=$1 folder=$2 log=$3 from setting
    shift 3
    from=$(debian_mirror) || true # a file that is not there is no reason to stop
    [ -n "$from" ] || { echo "debian-root: no Debian source found on this machine to take $suite from" >&2; return 1; }
    debootstrap --variant=minbase --include=ca-certificates "$suite" "$folder" "$from" >"$log" 2>&1 ||
        { tail -5 "$log" >&2; return 1; }
    cp /etc/resolv.conf "$folder/etc/"
    echo "127.0.0.1 localhost" >"$folder/etc/hosts" # as every machine has it
    for setting in /etc/apt/apt.conf.d/*; do # how this machine reaches its server; what packages bring would be in their way there
        dpkg-query -S "$setting" >/dev/null 2>&1 || cp "$setting" "$folder/etc/apt/apt.conf.d/"
    done
    printf '#!/bin/sh\nexit 101\n' >"$folder/usr/sbin/policy-rc.d" # installs start no service
    chmod 755 "$folder/usr/sbin/policy-rc.d"
    {
        debian_in "$folder" apt-get -q -o Acquire::Retries=3 update
        [ $# -eq 0 ] || debian_in "$folder" apt-get -q -o Acquire::Retries=3 install -y --no-install-recommends "$@"
    } >>"$log" 2>&1 || { tail -5 "$log" >&2; return 1; }
}
