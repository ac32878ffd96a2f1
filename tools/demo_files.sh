#!/usr/bin/env bash
# Prepares what the demo, the soak test and anybody's experiments serve, and prints nothing:
#
#   build/demo/model      a small Llama: ../shared's stories260K, or random weights where that is absent
#   build/demo/adapters   eight adapters for it, one folder each, of ranks 4, 8, 16 and 32
#
# Needs build/release/aril. Does nothing when they are there; delete build/demo to start anew.
set -euo pipefail
cd "$(dirname "$0")/.."
aril=build/release/aril
stories=../shared/data/models/stories260K

# synth ARGUMENTS…: silent unless it fails.
synth() {
  "$aril" synth "$@" >build/demo-synth.log 2>&1 || { cat build/demo-synth.log >&2; exit 1; }
}

if [[ ! -e build/demo/model/config.json ]]; then
  rm -rf build/demo
  mkdir -p build/demo
  if [[ -f $stories/model.safetensors ]]; then
    ln -s "$(realpath "$stories")" build/demo/model
  else
    synth model --shape tiny --seed 1 --out build/demo/model
    tools/byte_tokenizer.py build/demo/model
  fi
fi
if [[ ! -d build/demo/adapters ]]; then
  rm -rf build/demo/adapters.new
  synth adapters --model build/demo/model --count 8 --ranks 4,8,16,32 --seed 1 \
    --targets all-linear --out build/demo/adapters.new
  mv build/demo/adapters.new build/demo/adapters
fi
