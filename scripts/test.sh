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

export CARGO_TERM_COLOR=never
echo "== test: examples of the documentation"
cargo test --locked --workspace --doc --quiet

echo "== test: each test in a process of its own"
scripts/run-tests.sh 2>&1 | tee -a "$log"

echo "== test: every step passed, in $((SECONDS / 60)) min $((SECONDS % 60)) s"
if grep -q '^NOT RUN' "$log"; then
    loud "These tests could NOT RUN here: the result is incomplete."
    grep '^NOT RUN' "$log" | sort -u
    loud "The tests listed above could NOT RUN here: the result is incomplete."
fi
case "${CI:-}" in true | 1)
    if grep -qE '^NOT RUN.*(namespace|needs? root)' "$log"; then
        loud "CI=$CI: FAILED, because what needs root did NOT RUN. Run this as root."
        exit 1
    fi ;;
esac
# The sums are the last line. Those of tests by sudo have a line of their own.
awk '/^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ { passed += $1; failed += $3; skipped += $5 }
    END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }' "$log"
