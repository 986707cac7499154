#!/usr/bin/env bash
# model.sh [OPTION…] : executes random operations on files for MODEL_SECONDS=600, and compares what they return with
# a model. The options are those of fulmar-model: --seed 7 repeats a failure, --replay FILE some operations.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh rust build-essential
cargo build --locked --release -p fulmar-testbed -p fulmar
directory=${CARGO_TARGET_DIR:-target}
exec "$directory/release/fulmar-model" --seconds "${MODEL_SECONDS:-600}" "$@"
