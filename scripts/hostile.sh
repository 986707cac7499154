#!/usr/bin/env bash
# hostile.sh [SEED] : attacks a node in random mixes for HOSTILE_SECONDS=600, and prints the seed of
# each. A seed repeats one mix. It needs root, for network namespaces.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh rust build-essential iproute2
export PATH=$PATH:/usr/sbin:/sbin
cargo build --locked --release -p fulmar-testbed -p fulmar
directory=${CARGO_TARGET_DIR:-target}
if [ $# -gt 0 ]; then
    exec "$directory/release/fulmar-hostile" mix --seconds 1 --seed "$1"
fi
exec "$directory/release/fulmar-hostile" mix --seconds "${HOSTILE_SECONDS:-600}"
