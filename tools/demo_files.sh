#!/usr/bin/env bash
# Prepares what the demo and the soak test serve beside the model of `aril serve --demo`, and prints
# nothing: eight adapters for it in build/demo/adapters, of ranks 4, 8, 16 and 32, with random weights.
#
# Needs build/release/aril. Does nothing when they are there; delete build/demo to start anew.
set -euo pipefail
cd "$(dirname "$0")/.."

[[ -d build/demo/adapters ]] && exit 0
mkdir -p build/demo
rm -rf build/demo/adapters.new
build/release/aril synth adapters --model models/demo/base --count 8 --ranks 4,8,16,32 --seed 1 \
  --targets all-linear --out build/demo/adapters.new >build/demo/synth.log 2>&1 ||
  { cat build/demo/synth.log >&2; exit 1; }
mv build/demo/adapters.new build/demo/adapters
