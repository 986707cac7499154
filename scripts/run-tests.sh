#!/usr/bin/env bash
# run-tests.sh [--only WORD] [--threads N] : builds and runs the tests, without lint.
#
# Each test runs in a process of its own, with a time limit. A test's name is CRATE/PROGRAM TEST, such as
# "fuse/fuse times::a_clock_that_differs"; `--only` selects by a part of it. Without root, tests that need it
# run by sudo if that asks for no password.
set -euo pipefail
cd "$(dirname "$0")/.."

directory=${CARGO_TARGET_DIR:-target}
mkdir -p "$directory"
messages=$directory/tests.json
if ! cargo test --locked --workspace --no-run --message-format=json-render-diagnostics >"$messages"; then
    exit 1
fi
export PATH=$PATH:/usr/sbin:/sbin
runner=$directory/debug/fulmar-runner
needs_root=()
if [ "$(id -u)" -ne 0 ] && sudo -n true 2>/dev/null; then
    needs_root=(--needs-root "$directory/tests-that-need-root")
fi
rc=0
"$runner" "${needs_root[@]}" "$@" <"$messages" || rc=$?
if [ ${#needs_root[@]} -gt 0 ] && [ -s "${needs_root[1]}" ]; then
    echo "== test: those that need root, by sudo"
    sudo -n -E env PATH="$PATH" "$runner" --listed "${needs_root[1]}" <"$messages" || rc=$?
fi
exit "$rc"
