#!/usr/bin/env bash
# steady.sh [WORD] : runs all tests, or those with a word in their name, RUNS=10 times, every second time beside four
# busy processes. Prints each test that has failed at all, and how often. Fails if there is one.
set -euo pipefail
cd "$(dirname "$0")/.."

runs=${RUNS:-10}
only=()
[ -z "${1:-}" ] || only=(--only "$1")
log=$(mktemp)
busy=()
quiet() {
    [ ${#busy[@]} -eq 0 ] || kill "${busy[@]}" 2>/dev/null || true
    busy=()
}
trap quiet EXIT

for run in $(seq "$runs"); do
    if [ $((run % 2)) -eq 0 ]; then
        for _ in 1 2 3 4; do
            while :; do :; done &
            busy+=($!)
        done
    fi
    echo "== steady: run $run of $runs${busy[0]:+, beside four busy processes}"
    scripts/run-tests.sh "${only[@]}" 2>&1 | tee -a "$log" | grep -E '^(FLAKY|FAILED|[0-9]+ passed)' |
        grep -vE '^FAILED +[0-9.]+ s ' || true
    quiet
done

# A test has failed in a run if it is named there as FLAKY or FAILED; a failed line has the time in between.
if grep -E '^(FLAKY|FAILED) [^ ]' "$log" | grep -vE '^FAILED +[0-9.]+ s ' | sed -E 's/^[A-Z]+ //' | sort | uniq -c | grep .; then
    echo "== steady: the tests above have failed so often in $runs runs; what they printed is in $log"
    exit 1
fi
passed=$(grep -cE '^[0-9]+ passed, 0 failed' "$log" || true)
[ "$passed" -ge "$runs" ] || { echo "== steady: only $passed of $runs runs have ended: see $log" >&2; exit 1; }
rm -f "$log"
echo "== steady: no test has failed in $runs runs"
