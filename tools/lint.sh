#!/usr/bin/env bash
# Everything about the sources that needs no running of them.
#
#   tools/lint.sh                 all of: format scripts layers headers isa tidy
#   tools/lint.sh layers tidy     only these; also tidy-full (with the static analyzer: slow)
#   tools/lint.sh --fix format    rewrites what the format check would complain about
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
jobs=${JOBS:-$(nproc)}
fix=

sources() {
  git ls-files --cached --others --exclude-standard -- \
    '*.h' '*.cc' '*.cu' '*.cuh' | while read -r file; do [[ -f $file ]] && echo "$file"; done
}

# Another version formats differently, so that it would only undo what version 14 did.
clang_format() {
  local tool
  tool=$(command -v clang-format-14 || command -v clang-format) || return 127
  if [[ $("$tool" --version) != *"version 14."* ]]; then
    echo "format: needs clang-format 14, found $("$tool" --version): SKIPPED" >&2
    return 0
  fi
  "$tool" "$@"
}

check_format() {
  if [[ $fix ]]; then
    sources | tr '\n' '\0' | xargs -0 -r -n 50 bash -c 'clang_format -i "$@"' _
  else
    sources | tr '\n' '\0' | xargs -0 -r -n 50 bash -c 'clang_format --dry-run --Werror "$@"' _ ||
      { echo "format: run \`make format\`"; return 1; }
  fi
}
export -f clang_format

check_scripts() { shellcheck tools/*.sh tools/package/*.sh deploy/deb/p* .ci/run && echo "scripts: shellcheck found nothing"; }

check_layers() { tools/check_layers.py && python3 tools/check_layers_test.py -q; }

# configure PRESET, silently unless it fails.
configure() { cmake --preset "$1" >build/configure.log 2>&1 || { cat build/configure.log; return 1; }; }

check_headers() {
  configure debug && cmake --build build/debug --target check_headers -j "$jobs" -- --quiet &&
    echo "headers: those that no source includes first compile alone"
}

check_isa() {
  configure release && cmake --build build/release --target aril_kernels -j "$jobs" -- --quiet &&
    tools/check_isa_leaks.sh build/release
}

check_tidy() { configure debug && tools/run_tidy.py build/debug -j "$jobs"; }
check_tidy-full() { configure debug && tools/run_tidy.py build/debug -j "$jobs" --checks='clang-analyzer-*'; }

[[ ${1:-} == --fix ]] && { fix=yes; shift; }
[[ $# -gt 0 ]] || set -- format scripts layers headers isa tidy
mkdir -p build
failed=()
for check in "$@"; do
  if ! declare -F "check_$check" >/dev/null; then
    echo "tools/lint.sh: no check \`$check\`; there are: format scripts layers headers isa tidy tidy-full" >&2
    exit 2
  fi
  "check_$check" || failed+=("$check")
done
if [[ ${#failed[@]} -gt 0 ]]; then
  echo "check: failed: ${failed[*]}"
  exit 1
fi
echo "check: passed: $*"
