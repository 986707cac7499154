#!/usr/bin/env bash
# demo.sh : shows Fulmar at work on this machine, and checks what it shows.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh rust build-essential iproute2
# Namespaces need root, and are left out without.
export PATH=$PATH:/usr/sbin:/sbin
directory=${CARGO_TARGET_DIR:-target}
exec cargo run --locked --release --quiet -p fulmar -- demo --picture "$directory/demo/ocean.png" "$@"
