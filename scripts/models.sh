#!/usr/bin/env bash
# models.sh [WORDS] : tries the hand-overs between the driver's threads in every order that there is.
# WORDS pick tests.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh rust build-essential
exec cargo test --locked --release --manifest-path models/Cargo.toml --lib -- "$@"
