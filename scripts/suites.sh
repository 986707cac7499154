#!/usr/bin/env bash
# suites.sh [SUITE...] : runs test suites of others on a mount of our servers, each with one line PASS, FAIL or NOT RUN.
#
# The suites are: mounts fsx fio dbench fs_mark pjdfstest stress-ng xfstests ltp. The random checkers run for
# SUITE_SECONDS=300, dbench for a fifth of that, and each stressor of stress-ng for a thirtieth. XFSTESTS= is a checkout of
# xfstests that is built, of which XFSTESTS_ARGS="-g quick -g rw" picks the tests; LTP= is a checkout or an installation of
# LTP that is built, of which LTP_ONLY=PATTERN picks cases of its lists fs and syscalls. FULMAR= names a binary, so that none is built, and
# SUITE_LOGS= a directory for the output of the suites. The failures that are known, with their reasons, are the table of
# docs/suites.md; any other failure is exit status 1.
# Servers and mounts are in namespaces of this script, with their directories in memory: nothing is left of them.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${SUITE_SECONDS:-300}
all=(mounts fsx fio dbench fs_mark pjdfstest stress-ng xfstests ltp)

if [ "${1:-}" != --inside ]; then
    for suite in "$@"; do
        if [[ " ${all[*]} " != *" $suite "* ]]; then
            echo "suites: there is no $suite: there are ${all[*]}" >&2
            exit 2
        fi
    done
    if [ "$(id -u)" -ne 0 ] || [ ! -e /dev/fuse ]; then
        echo "suites: mounts need root and /dev/fuse: run it with sudo" >&2
        exit 1
    fi
    if [ -z "${FULMAR:-}" ]; then
        scripts/need.sh rust build-essential
        cargo build --locked --release -p fulmar
        FULMAR=$(realpath "${CARGO_TARGET_DIR:-target}/release/fulmar")
    fi
    scratch=$(mktemp -d)
    trap 'rmdir "$scratch"' EXIT
    export FULMAR SUITE_SCRATCH=$scratch
    unshare --net --mount --pid --fork --kill-child --mount-proc scripts/suites.sh --inside "$@"
    exit
fi
shift
suites=("$@")
[ ${#suites[@]} -gt 0 ] || suites=("${all[@]}")
# They are entered by their names from other directories.
[ -z "${XFSTESTS:-}" ] || XFSTESTS=$(realpath "$XFSTESTS")
[ -z "${LTP:-}" ] || LTP=$(realpath "$LTP")

ip link set lo up
scratch=$SUITE_SCRATCH address=127.0.0.2@tcp:/lustre
mount -t tmpfs -o size=8g suites "$scratch"
logs=${SUITE_LOGS:-$scratch/logs}
mkdir -p "$scratch/fs" "$scratch/lustre" "$logs"
at=$scratch/lustre
export FULMAR_CONTROL=$scratch/control
# Programs of `cargo install` are often there.
export PATH=$PATH:/usr/sbin:/sbin:$HOME/.cargo/bin

"$FULMAR" up "$scratch/fs" --osts 2 --networks 'tcp(127.0.0.2)' --mount "$at" >"$logs/servers" 2>&1 &
servers=$!
for _ in $(seq 300); do
    mountpoint -q "$at" && break
    sleep 0.2
done
if ! mountpoint -q "$at"; then
    echo "suites: the file system is not mounted:" >&2
    cat "$logs/servers" >&2
    exit 1
fi

results=() unknown=0

# Notes a result, and prints it.
result() {
    results+=("$1  $2${3:+: $3}")
    echo "${results[-1]}"
}

# Prints the reason for which a case of a suite is known to fail. A row of the table may name several cases.
known() {
    awk -F ' *\\| *' -v suite="$1" -v what="$2" \
        '$2 == suite && index("; " $3 "; ", "; " what "; ") { print $4; found = 1 } END { exit !found }' docs/suites.md
}

# The exit status of a case that cannot run here, as in automake.
skipped=77

# Runs a case of a suite with its output in a log. check SUITE WHAT COMMAND...
check() {
    local suite=$1 what=$2 begun=$SECONDS log status=0 why
    shift 2
    log=$logs/$suite-${what//[ \/]/-}
    "$@" >"$log" 2>&1 </dev/null || status=$?
    if [ "$status" -eq 0 ]; then
        result PASS "$suite: $what" "$((SECONDS - begun)) s"
    elif [ "$status" -eq "$skipped" ]; then
        result SKIPPED "$suite: $what" "$(grep -m 1 -E "skipping|disabled" "$log" || head -n 1 "$log")"
    elif why=$(known "$suite" "$what"); then
        result KNOWN "$suite: $what" "$why"
    else
        result FAIL "$suite: $what" "exit status $status"
        sed 's/^/      /' "$log" | tail -n 25
        unknown=$((unknown + 1))
    fi
    if ! kill -0 "$servers" 2>/dev/null; then
        echo "suites: the servers have ended:" >&2
        tail "$logs/servers" >&2
        exit 1
    fi
}

# Runs a program that ends by itself.
limited() {
    timeout --kill-after=30 $((seconds * 3 + 600)) "$@"
}

# Returns whether a program is there. installed SUITE PROGRAM HOW
installed() {
    command -v "$2" >/dev/null && return
    result "NOT RUN" "$1" "no $2: $3"
    return 1
}

run_mounts() {
    check mounts "two mounts change files at random and see the same" \
        limited "$FULMAR" interop "$address" --interface 127.0.0.3 --seconds "$seconds" --only "random data"
}

run_fsx() {
    installed fsx fsx "cargo install fsx" || return 0
    # Files that fit into one stripe, and files of several.
    for size in 262144 9000000; do
        cat >"$scratch/fsx.toml" <<TEXT
flen = $size
[opsize]
max = $((size / 4))
[weights]
close_open = 1
truncate = 5
invalidate = 1
fsync = 1
fdatasync = 1
posix_fallocate = 2
punch_hole = 5
sendfile = 2
posix_fadvise = 1
copy_file_range = 2
TEXT
        # It goes on until it is ended.
        check fsx "a file of up to $size bytes" sh -c \
            'timeout '$((seconds / 2))' fsx -q -f "$1" -P "$2" "$3"; status=$?; [ $status -eq 124 ]' \
            sh "$scratch/fsx.toml" "$logs" "$at/fsx-$size"
    done
}

run_fio() {
    installed fio fio "apt-get install fio" || return 0
    local job
    for job in "buffered psync 0 4k-256k" "direct libaio 1 4k-256k" "mapped mmap 0 4k-4k"; do
        # shellcheck disable=SC2086
        set -- $job
        for way in randwrite write randrw; do
            check fio "$1 $way" limited fio --name=verify --directory="$at" --ioengine="$2" --direct="$3" --bsrange="$4" \
                --rw="$way" --size=192m --numjobs=2 --iodepth=8 --verify=crc32c --verify_fatal=1 --do_verify=1 \
                --verify_state_save=0 --randrepeat=1 --end_fsync=1 --unlink=1 --output-format=terse
        done
    done
}

run_dbench() {
    installed dbench dbench "apt-get install dbench" || return 0
    mkdir -p "$at/dbench"
    check dbench "4 clients" limited dbench -t $((seconds / 5)) -D "$at/dbench" 4
    check dbench "4 clients, synced" limited dbench -t $((seconds / 10)) -F -S -D "$at/dbench" 4
}

run_fs_mark() {
    installed fs_mark fs_mark "apt-get install fsmark" || return 0
    local method
    for method in 0 1 2 3 4 5 6; do
        check fs_mark "4 threads, sync method $method" limited fs_mark -d "$at/fs_mark" -D 16 -n 500 -t 4 -s 5000 -w 1000 \
            -S "$method" -L 2 -l "$logs/fs_mark.txt"
    done
}

run_pjdfstest() {
    installed pjdfstest pjdfstest "cargo install pjdfstest" || return 0
    check pjdfstest all limited pjdfstest -c crates/fuse/tests/fuse/pjdfstest.toml -p "$at"
}

run_stress-ng() {
    installed stress-ng stress-ng "apt-get install stress-ng" || return 0
    local stressor time=$((seconds / 30 > 0 ? seconds / 30 : 1))
    mkdir -p "$at/stress"
    for stressor in $(stress-ng --class 'filesystem?' 2>&1 | sed 's/.*://'); do
        check stress-ng "$stressor" stressed "$stressor" "$time"
    done
}

# Runs a stressor, which may find that it cannot work here.
stressed() {
    local status=0 said=$scratch/said
    timeout --kill-after=30 $((10 * $2 + 120)) \
        stress-ng "--$1" 2 --verify --timeout "$2" --temp-path "$at/stress" >"$said" 2>&1 || status=$?
    cat "$said"
    case $status in
        0) ! grep -q skipping "$said" || return $skipped ;;
        3 | 4) return $skipped ;;
        *) ! grep -q "No stress workers invoked" "$said" || return $skipped ;;
    esac
    return "$status"
}

# Returns whether a directory is named, and holds what it should. named SUITE VARIABLE FILE HOW
named() {
    local at=${!2:-}
    if [ -z "$at" ]; then
        result "NOT RUN" "$1" "$2= names no directory: $4"
    elif [ ! -e "$at/$3" ]; then
        result "NOT RUN" "$1" "$2=$at has no $3: $4"
    else
        return 0
    fi
    return 1
}

# Makes commands that let xfstests mount by `fulmar mount`, and see the type `fuse` that it is told.
xfstests_commands() {
    mkdir -p "$scratch/bin"
    cat >"$scratch/bin/mount" <<'TEXT'
#!/usr/bin/env bash
# mount -t fuse.fulmar [-o OPTIONS]... SOURCE DIR
case " $* " in
    *remount*) exec "$REAL_MOUNT" -i "$@" ;;
    *" -t fuse.fulmar "*) ;;
    *) exec "$REAL_MOUNT" "$@" ;;
esac
options=() places=()
while [ $# -gt 0 ]; do
    case $1 in
        -t) shift ;;
        -o) options+=("$2"); shift ;;
        -o*) options+=("${1#-o}") ;;
        *) places+=("$1") ;;
    esac
    shift
done
list=$(IFS=,; echo "${options[*]}" | tr , '\n' | grep -vxE 'rw|defaults|suid|dev|exec|' | paste -sd,)
# Each mount has an address of its own.
interface=127.0.0.3
[ "${places[1]}" = "$TEST_DIR" ] || interface=127.0.1.$(grep -c ' fuse\.fulmar ' /proc/mounts)
exec "$FULMAR" mount --interface "$interface" ${list:+-o "$list"} "${places[@]}"
TEXT
    cat >"$scratch/bin/df" <<'TEXT'
#!/usr/bin/env bash
"$REAL_DF" "$@" | sed 's/ fuse\.fulmar / fuse        /'
TEXT
    chmod +x "$scratch"/bin/{mount,df}
    REAL_MOUNT=$(type -P mount) REAL_DF=$(type -P df)
    export REAL_MOUNT REAL_DF PATH=$scratch/bin:$PATH
}

# Runs one test of xfstests. A test that finds that it cannot run is skipped.
xfstest() {
    local said=$scratch/said
    (cd "$XFSTESTS" && timeout --kill-after=30 $((seconds + 300)) ./check "$1") >"$said" 2>&1 || true
    cat "$said"
    ! grep -qE '\[not run\]|\[expunged\]' "$said" || return $skipped
    grep -q '^Passed all 1 tests' "$said"
}

run_xfstests() {
    named xfstests XFSTESTS check "clone it from kernel.org, and build it with make" || return 0
    local tests test
    xfstests_commands
    export FSTYP=fuse FUSE_SUBTYP=.fulmar TEST_DIR=$scratch/test SCRATCH_MNT=$scratch/second
    export TEST_DEV=$address/test SCRATCH_DEV=$address/second RESULT_BASE=$logs/xfstests-results
    export HOST_OPTIONS=/dev/null TEST_FS_MOUNT_OPTS= MOUNT_OPTIONS=
    mkdir -p "$TEST_DIR" "$SCRATCH_MNT" "$at/test" "$at/second" "$RESULT_BASE"
    # shellcheck disable=SC2086
    tests=$(cd "$XFSTESTS" && ./check -n ${XFSTESTS_ARGS:--g quick -g rw} 2>/dev/null | grep -oE '^generic/[0-9]+' | sort -u)
    if [ -z "$tests" ]; then
        result FAIL xfstests "check -n names no test"
        unknown=$((unknown + 1))
        return
    fi
    for test in $tests; do
        check xfstests "$test" xfstest "$test"
    done
    umount "$SCRATCH_MNT" "$TEST_DIR" 2>/dev/null || true
}

# Runs one line of a list of LTP: its environment, program and arguments.
ltp_case() {
    local status=0
    (cd "$at/ltp" && timeout --kill-after=30 $((seconds + 60)) sh -c "$1") || status=$?
    # TCONF: what the case needs is not here.
    [ "$status" -ne 32 ] || return $skipped
    return "$status"
}

run_ltp() {
    named ltp LTP runtest/fs "clone it from GitHub; make autotools, configure, make, make install" || return 0
    local list name command
    export LTPROOT=$LTP TMPDIR=$at/ltp LTP_COLORIZE_OUTPUT=n
    PATH=$PATH:$LTP/testcases/bin
    mkdir -p "$TMPDIR"
    chmod 1777 "$TMPDIR"
    for list in fs syscalls; do
        while read -r name command; do
            [[ -n $command && $name != \#* && $name =~ ${LTP_ONLY:-} ]] || continue
            if ! type -P "${command%% *}" >/dev/null; then
                result SKIPPED "ltp: $name" "${command%% *} is not built here"
                continue
            fi
            check ltp "$name" ltp_case "$command"
        done <"$LTP/runtest/$list"
    done
    export TMPDIR=/tmp
}

for suite in "${suites[@]}"; do
    "run_$suite"
done

kill -TERM "$servers"
wait "$servers" || { result FAIL "the end of the servers" "$(tail -n 3 "$logs/servers")"; unknown=$((unknown + 1)); }
echo
printf '%s\n' "${results[@]}" | cut -d' ' -f1 | sort | uniq -c
if [ "$unknown" -gt 0 ]; then
    echo "suites: $unknown failures that are not known" >&2
    exit 1
fi
