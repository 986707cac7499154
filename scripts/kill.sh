#!/usr/bin/env bash
# kill.sh [SEED] : kills servers under load at KILL_POINTS=200 random points, and requires that clients
# recover and nothing is missing. A seed repeats the choice of servers and times.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh rust build-essential
cargo build --locked --release -p fulmar-testbed -p fulmar
directory=${CARGO_TARGET_DIR:-target}
seed=()
if [ $# -gt 0 ]; then seed=(--seed "$1"); fi
exec "$directory/release/fulmar-kill" --points "${KILL_POINTS:-200}" "${seed[@]}"
