#!/usr/bin/env bash
# tsan.sh [ARGUMENTS] : runs the driver's tests under ThreadSanitizer, and fails at the first data race.
# ARGUMENTS are passed to the test programs. It needs a nightly Rust: the standard library is
# instrumented too.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh rust build-essential iproute2
export PATH=$PATH:/usr/sbin:/sbin
if ! command -v rustup >/dev/null; then
    echo "tsan: needs a nightly Rust, and rustup to install it: https://rustup.rs" >&2
    exit 1
fi
if ! cargo +nightly --version >/dev/null 2>&1; then
    echo "tsan: installing a nightly Rust" >&2
    rustup toolchain install nightly --profile minimal
fi
rustup component add rust-src --toolchain nightly

host=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/tsan CARGO_INCREMENTAL=0
export TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1 ${TSAN_OPTIONS:-}"
# The skipped test measures the memory of connections, which the sanitizer multiplies.
RUSTFLAGS="-Zsanitizer=thread" \
    cargo +nightly test --locked --no-fail-fast -Zbuild-std --target "$host" -p fulmar-net --lib --tests -- \
    --skip a_thousand_connections_leave_nothing_behind "$@"
