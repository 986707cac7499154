#!/usr/bin/env bash
# test.sh : lint, then every test. The first step that fails ends it.
#
# A test that cannot run here (no root for network namespaces, no cargo-deny) prints a line that
# begins with "NOT RUN"; those lines are repeated at the end.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh rust build-essential tshark iperf3 iproute2 haproxy
export PATH=$PATH:/usr/sbin:/sbin
log=$(mktemp)
trap 'rm -f "$log"' EXIT

scripts/lint.sh 2>&1 | tee "$log"
# Its tests are counted below with the others.
sed -i '/^NOT RUN/!d' "$log"

echo "== test: the reader of captures"
scripts/tshark-check.sh testdata/traces/ping.pcapng.gz
if scripts/tshark-check.sh testdata/traces/ipv6.pcapng.gz 2>/dev/null; then
    echo "tshark-check.sh accepts a file that this tshark cannot read" >&2
    exit 1
fi

echo "== test: cargo test"
export CARGO_TERM_COLOR=never
cargo test --locked --workspace 2>&1 | tee -a "$log"

# Tests in network namespaces need root; without it they only print a line. Their programs are read
# from the log, where cargo names each before it runs.
wants_root='^NOT RUN.*(namespace|needs? root)'
mapfile -t programs < <(awk -v wants_root="$wants_root" '
    / Running / { program = $2 ~ /^tests\// ? $NF : "" }
    $0 ~ wants_root && program { print program }' "$log" |
    sed -E 's|.*/||; s|-[0-9a-f]+\)$||' | sort -u)
if [ "$(id -u)" -ne 0 ] && [ ${#programs[@]} -gt 0 ]; then
    if sudo -n true 2>/dev/null; then
        echo "== test: those that need root, by sudo: ${programs[*]}"
        sed -i -E "/$wants_root/d" "$log"
        host=$(rustc -vV | sed -n 's/^host: //p')
        runner=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$host")_RUNNER
        env "$runner=sudo -n -E env PATH=$PATH" \
            cargo test --locked --workspace "${programs[@]/#/--test=}" 2>&1 | tee -a "$log"
    else
        echo "NOT RUN: tests in network namespaces: neither root nor a sudo without a password" \
            >>"$log"
    fi
fi

echo "== test: every step passed"
awk '/^test result:/ { binaries += 1; passed += $4; failed += $6; ignored += $8 }
    END { printf "%d tests passed, %d failed, %d ignored, in %d programs\n",
        passed, failed, ignored, binaries }' "$log"
if grep '^NOT RUN' "$log" | sort -u | grep .; then
    echo "=====  The tests listed above could NOT RUN here: the result is incomplete.  ====="
fi
