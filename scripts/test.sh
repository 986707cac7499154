#!/usr/bin/env bash
# test.sh : lint, then every test. The first step that fails ends it.
#
# A test that cannot run here (no root for network namespaces, no cargo-deny) prints a line that
# begins with "NOT RUN"; those lines are repeated at the end. With CI=true the script fails if a test
# that needs root did not run.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh rust build-essential tshark iperf3 iproute2 haproxy procps
# Shows the web page in tests; without it they print a line NOT RUN.
scripts/need.sh chromium || true
export PATH=$PATH:/usr/sbin:/sbin
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Prints a line that stands out.
loud() {
    local bold="" plain=""
    if [ -t 1 ]; then bold=$'\e[1;31m' plain=$'\e[0m'; fi
    printf '%s=====  %s%s\n' "$bold" "$1" "$plain"
}

if [ "$(id -u)" -ne 0 ] && ! sudo -n true 2>/dev/null; then
    loud "Neither root nor a sudo without a password: tests in network namespaces will NOT RUN."
fi

# Its tests are run below with the others.
scripts/lint.sh --without-tests 2>&1 | tee "$log"
sed -i '/^NOT RUN/!d' "$log"

echo "== test: the reader of captures"
scripts/tshark-check.sh testdata/traces/ping.pcapng.gz
if scripts/tshark-check.sh testdata/traces/ipv6.pcapng.gz 2>/dev/null; then
    echo "tshark-check.sh accepts a file that this tshark cannot read" >&2
    exit 1
fi

echo "== test: cargo test"
export CARGO_TERM_COLOR=never
# Most tests wait for sockets and timers more than they compute.
RUST_TEST_THREADS=${RUST_TEST_THREADS:-$(($(nproc) * 3))}
export RUST_TEST_THREADS
cargo test --locked --workspace 2>&1 | tee -a "$log"

# Tests in network namespaces need root; without it they only print a line. Their programs are read
# from the log, where cargo names each before it runs.
wants_root='^NOT RUN.*(namespace|needs? root)'
mapfile -t programs < <(awk -v wants_root="$wants_root" '
    / Running / { program = $2 ~ /^tests\// ? $NF : "" }
    $0 ~ wants_root && program { print program }' "$log" |
    sed -E 's|.*/||; s|-[0-9a-f]+\)$||' | sort -u)
if [ "$(id -u)" -ne 0 ] && [ ${#programs[@]} -gt 0 ] && sudo -n true 2>/dev/null; then
    echo "== test: those that need root, by sudo: ${programs[*]}"
    sed -i -E "/$wants_root/d" "$log"
    host=$(rustc -vV | sed -n 's/^host: //p')
    runner=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$host")_RUNNER
    env "$runner=sudo -n -E env PATH=$PATH" \
        cargo test --locked --workspace "${programs[@]/#/--test=}" 2>&1 | tee -a "$log"
fi

echo "== test: every step passed, in $((SECONDS / 60)) min $((SECONDS % 60)) s"
# A program that was run twice counts once. What did not run has passed for cargo only.
awk '/ Running / || /Doc-tests/ { program = $NF; left[program] = 0 }
    /^NOT RUN/ && program { left[program] += 1 }
    /^test result:/ { passed[program] = $4; failed[program] = $6; ignored[program] = $8 }
    END {
        for (program in passed) {
            programs += 1
            sums["passed"] += passed[program] - left[program]; sums["left"] += left[program]
            sums["failed"] += failed[program]; sums["ignored"] += ignored[program]
        }
        printf "%d tests passed, %d failed, %d ignored, %d NOT RUN, in %d programs\n",
            sums["passed"], sums["failed"], sums["ignored"], sums["left"], programs
    }' "$log"
if grep -q '^NOT RUN' "$log"; then
    loud "These tests could NOT RUN here: the result is incomplete."
    grep '^NOT RUN' "$log" | sort | uniq -c | sed -E 's/^ *([0-9]+) (.*)/\2  (\1 ×)/'
    loud "The tests listed above could NOT RUN here: the result is incomplete."
fi
case "${CI:-}" in true | 1)
    if grep -qE "$wants_root" "$log"; then
        loud "CI=$CI: FAILED, because what needs root did NOT RUN. Run this as root."
        exit 1
    fi ;;
esac
