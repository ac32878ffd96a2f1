#!/usr/bin/env bash
# Builds every fuzz target and runs each for FUZZ_SECONDS (10). New inputs are kept in
# build/corpus/<target>/; an input that fails is written to build/fuzz/ and its path printed.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-10}
jobs=${JOBS:-$(nproc)}

cmake --preset debug
cmake --build build/debug -j "$jobs" --target fuzz_targets
mkdir -p build/fuzz
shopt -s nullglob
targets=(build/debug/*_fuzz)
if [[ ${#targets[@]} -eq 0 ]]; then
  echo "tools/fuzz.sh: no fuzz target was built." >&2
  exit 1
fi
for target in "${targets[@]}"; do
  name=${target##*/}
  name=${name%_fuzz}
  mkdir -p "build/corpus/$name"
  corpus=("build/corpus/$name")
  [[ -d fuzz/corpus/$name ]] && corpus+=("fuzz/corpus/$name")
  echo "== fuzz $name for $seconds s"
  "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -verbosity=0 -artifact_prefix="build/fuzz/$name-" "${corpus[@]}"
done
echo "fuzz: ${#targets[@]} targets found nothing in $seconds s each"
