#!/usr/bin/env bash
# Runs the benchmark programs of build/release; arguments go to each of them, for example
# `tools/bench.sh --benchmark_filter=Encode`. docs/benchmarks.md says how to record what they print.
set -euo pipefail
cd "$(dirname "$0")/.."
shopt -s nullglob
programs=(build/release/*_bench)
if [[ ${#programs[@]} -eq 0 ]]; then
  echo "tools/bench.sh: there is no build/release/*_bench; run \`make bench\`." >&2
  exit 1
fi
for program in "${programs[@]}"; do
  echo "== ${program##*/}"
  "$program" --benchmark_min_time=0.2 "$@"
done
echo
echo "For a whole server: build/release/aril bench serve --help"
