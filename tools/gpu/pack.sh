#!/usr/bin/env bash
# pack.sh FILE: builds what a machine with a GPU is to run, and packs it into FILE (.tar.xz, some 20 MB):
#
#   bin/aril, lib/aril                     with CUDA, laid out as a package is
#   kernels_cuda_test, model_cuda_test     the tests that need a GPU
#   checkout                               where they were built, and look for goldens
#
# check.sh unpacks it there.
set -euo pipefail
file=$(realpath "$1")
cd "$(dirname "$0")/../.."
jobs=${JOBS:-$(nproc)}
stage=build/gpu

cmake --preset device
cmake --build build/device -j "$jobs" --target kernels_cuda_test model_cuda_test
cmake --preset portable -DARIL_CUDA=ON -B build/portable-cuda
cmake --build build/portable-cuda -j "$jobs" --target aril

rm -rf "$stage"
# Of the manual pages' date and version nothing is left: the checkout there has what is shared.
SOURCE_DATE_EPOCH=0 ARIL_VERSION=0 tools/package/stage.sh build/portable-cuda/aril "$stage"
rm -r "$stage/share"
for test in kernels_cuda_test model_cuda_test; do strip -o "$stage/$test" "build/device/$test"; done
pwd >"$stage/checkout"
tar -C "$stage" -c . | xz -T0 -1 >"$file"
rm -r "$stage"
ls -l "$file"
