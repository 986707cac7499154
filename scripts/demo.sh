#!/usr/bin/env bash
# demo.sh : demonstrates Fulmar on this machine, and checks the results.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh rust build-essential iproute2
# The part in network namespaces needs root, and is omitted without it.
export PATH=$PATH:/usr/sbin:/sbin
directory=${CARGO_TARGET_DIR:-target}
echo "== demo: building fulmar, which takes some minutes the first time"
cargo build --locked --profile demo -p fulmar
exec "$directory/demo/fulmar" demo --picture "$directory/demo/ocean.png" "$@"
