#!/usr/bin/env bash
# demo.sh : shows Fulmar at work on this machine, and checks what it shows.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh rust build-essential iproute2
# Namespaces need root, and are left out without.
export PATH=$PATH:/usr/sbin:/sbin
directory=${CARGO_TARGET_DIR:-target}
echo "== demo: building fulmar, which takes a few minutes the first time"
cargo build --locked --release -p fulmar
exec "$directory/release/fulmar" demo --picture "$directory/demo/ocean.png" "$@"
