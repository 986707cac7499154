#!/usr/bin/env bash
# models.sh [FILTER…] : tests the communication between the driver's threads in every interleaving.
# FILTER selects tests by name.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh rust build-essential
exec cargo test --locked --release --manifest-path models/Cargo.toml --lib -- "$@"
