#!/usr/bin/env bash
# demo.sh : shows Fulmar at work on this machine, and checks what it shows.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh rust build-essential
exec cargo run --locked --release --quiet -p fulmar -- demo "$@"
