#!/usr/bin/env bash
# fuzz.sh [TARGET...] : runs each fuzz target (all of them, if none is named) for FUZZ_SECONDS, and
# fails at the first finding. It needs a nightly Rust: cargo-fuzz instruments the code with it.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh rust build-essential
if ! command -v rustup >/dev/null; then
    echo "fuzz: a nightly Rust is needed, and there is no rustup to install it: https://rustup.rs" >&2
    exit 1
fi
if ! cargo +nightly --version >/dev/null 2>&1; then
    echo "fuzz: installing a nightly Rust" >&2
    rustup toolchain install nightly --profile minimal
fi
if ! command -v cargo-fuzz >/dev/null; then
    echo "fuzz: installing cargo-fuzz" >&2
    cargo install --locked cargo-fuzz
fi

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    mapfile -t targets < <(cargo +nightly fuzz list)
fi
seconds=${FUZZ_SECONDS:-60}

cargo +nightly run --quiet --manifest-path fuzz/Cargo.toml --example seed
cargo +nightly fuzz build
for target in "${targets[@]}"; do
    echo "== fuzz: $target, $seconds s"
    cargo +nightly fuzz run "$target" -- \
        -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
        -verbosity=0
done
echo "== fuzz: ${#targets[@]} targets, $seconds s each, no finding"
