#!/usr/bin/env bash
# check.sh FILE [DIR]: unpacks FILE of pack.sh into DIR (/tmp/aril-gpu), on a machine with a GPU and in a checkout of the same
# commit, and finds out whether all is right there: the tests that need a GPU, compute-sanitizer where
# there is one, and the demo's answers. They run beside one another, which takes a minute; nothing is timed. Logs
# are in DIR/logs. Ends with 1 if anything failed.
set -uo pipefail
file=$(realpath "$1")
dir=${2:-/tmp/aril-gpu}
cd "$(dirname "$0")/../.." || exit 1
mkdir -p "$dir/logs" "$dir/share/aril"
python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$file" "$dir" || exit 1
ln -sfn "$PWD/models/demo" "$dir/share/aril/demo"
checkout=$(<"$dir/checkout")
[[ -e $checkout ]] || { mkdir -p "${checkout%/*}" && ln -s "$PWD" "$checkout"; } || exit 1

cublas=$(find /opt /usr -name libcublasLt.so.13 2>/dev/null | head -1)
if [[ -n $cublas ]]; then
  export LD_LIBRARY_PATH=${cublas%/*}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
else
  echo "check: libcublasLt.so.13 is not here: matrix products, and what needs them, cannot be right"
fi
export ARIL_REQUIRE_GPU=1

# in_background NAME COMMAND…: with its output in a log, and its end in DIR/logs/NAME.status.
in_background() {
  local name=$1
  shift
  {
    timeout 300 "$@" >"$dir/logs/$name.log" 2>&1
    echo $? >"$dir/logs/$name.status"
  } &
}

rm -f "$dir"/logs/*
all='*/Gpu'
# Of what shares memory between threads; of what reads memory that another kernel writes.
shared='*Mixed*/Gpu:*Long*/Gpu:*PagedGemm*/Gpu:CudaAttention*/Gpu:*Normalizes*/Gpu:CudaSampling*/Gpu:*GroupedGemm*/Gpu:CudaExpert*/Gpu'
written='*Mixed*/Gpu:CudaAttention*/Gpu:CudaExpert*/Gpu'
in_background kernels "$dir/kernels_cuda_test" --gtest_filter="$all"
in_background model "$dir/model_cuda_test" --gtest_filter="$all"
if command -v compute-sanitizer >/dev/null; then
  sanitize() { in_background "$1" compute-sanitizer --error-exitcode 1 --tool "${1%-model}" "$2" --gtest_filter="$3"; }
  sanitize memcheck "$dir/kernels_cuda_test" "$all"
  sanitize synccheck "$dir/kernels_cuda_test" "$all"
  sanitize racecheck "$dir/kernels_cuda_test" "$shared"
  sanitize initcheck "$dir/kernels_cuda_test" "$written"
  sanitize memcheck-model "$dir/model_cuda_test" '*Cpu*/Gpu'
else
  echo "check: compute-sanitizer is not here: its runs are skipped"
fi
port=${PORT:-8000}
"$dir/bin/aril" serve --demo --device cuda --port "$port" >"$dir/logs/serve.log" 2>&1 &
server=$!
for _ in {1..100}; do
  curl -sf "http://127.0.0.1:$port/ready" >/dev/null && break
  kill -0 "$server" 2>/dev/null || break
  sleep 0.2
done
sleep 1
if kill -0 "$server" 2>/dev/null; then
  in_background demo python3 tools/demo/evaluate.py --url "http://127.0.0.1:$port" --cases 10
else # another's server may answer at that port
  cp "$dir/logs/serve.log" "$dir/logs/demo.log"
  echo "the server ended" >"$dir/logs/demo.status"
fi

failed=0
for job in $(jobs -p); do [[ $job == "$server" ]] || wait "$job"; done
kill "$server" 2>/dev/null
for status in "$dir"/logs/*.status; do
  name=$(basename "$status" .status)
  if [[ $(<"$status") == 0 ]]; then
    echo "check: $name: right"
  else
    echo "check: $name: FAILED ($(<"$status")): $dir/logs/$name.log"
    grep -aE '\[  FAILED  \]|Failure|ERROR SUMMARY|RACECHECK SUMMARY|Error|error' "$dir/logs/$name.log" | tail -8
    failed=1
  fi
done
grep -ahE 'SKIPPED' "$dir"/logs/{kernels,model}.log | sort -u
exit "$failed"
