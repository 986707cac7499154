#!/usr/bin/env bash
# lint.sh [--without-tests] : static checks. Every step must pass. Some are tests, which are left out
# where all tests are run anyway.
set -euo pipefail
cd "$(dirname "$0")/.."

step() {
    echo "== lint: $1"
    shift
    "$@"
}

scripts/need.sh rust build-essential
# A minimal toolchain does not have these two.
for component in rustfmt clippy; do
    if ! cargo "${component/rustfmt/fmt}" --version >/dev/null 2>&1; then
        echo "lint: adding $component to the Rust toolchain" >&2
        rustup component add "$component"
    fi
done

step formatting cargo fmt --all --check
step clippy cargo clippy --locked --workspace --all-targets -- -D warnings
# What clippy has compiled serves rustdoc too, if cargo is told the same of both.
driver=$(rustc --print sysroot)/bin/clippy-driver
[ ! -x "$driver" ] || export RUSTC_WORKSPACE_WRAPPER=$driver
CLIPPY_ARGS="-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__" RUSTDOCFLAGS="-D warnings" \
    step documentation cargo doc --locked --workspace --no-deps --document-private-items
unset RUSTC_WORKSPACE_WRAPPER
if [ "${1:-}" != --without-tests ]; then
    step "the repository's rules, and licences" cargo test --locked --quiet -p fulmar-tidy
fi

# The licences were checked above. Advisories need a tool that takes minutes to build and a database
# from the network, so they are checked where both are available.
if ! command -v cargo-deny >/dev/null; then
    echo "NOT RUN: advisories: no cargo-deny (cargo install --locked cargo-deny)"
elif ! step "licences, bans and sources by cargo-deny" \
    cargo deny --log-level error check licenses bans sources; then
    exit 1
elif cargo deny fetch db >/dev/null 2>&1; then
    step advisories cargo deny --log-level error --offline check advisories
else
    echo "NOT RUN: advisories: cargo-deny cannot fetch its database"
fi
echo "== lint: passed"
