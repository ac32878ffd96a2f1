#!/usr/bin/env bash
# Finds code for wide instruction sets that could run on a machine without them.
#
#   tools/check_isa_leaks.sh BUILD_DIR | OBJECT…
#
# The objects of aril_kernels_<isa> may define only symbols of the namespace ::<isa>::. An inline
# function of a shared header would be there as a weak symbol, and the linker might keep that copy,
# with its wide instructions, for the whole program. aril_kernels_cuda and aril_kernels_emulated hold
# no wide instructions: their host code is compiled for every machine, as the rest of the program.
set -euo pipefail

if [[ $# -eq 0 ]]; then
  echo "usage: tools/check_isa_leaks.sh BUILD_DIR | OBJECT…" >&2
  exit 2
elif [[ -d $1 ]]; then
  mapfile -t objects < <(find "$1" -path '*/aril_kernels_*.dir/*.o' \
    ! -path '*/aril_kernels_cuda.dir/*' ! -path '*/aril_kernels_emulated.dir/*' | sort)
else
  objects=("$@")
fi
if [[ ${#objects[@]} -eq 0 ]]; then
  echo "isa: no object of a target aril_kernels_<isa> under $1" >&2
  exit 1
fi

leaks=0
for object in "${objects[@]}"; do
  isa=$(sed -n 's|.*aril_kernels_\([a-z0-9]*\)\.dir/.*|\1|p' <<<"$object")
  # Types: capital letters and u are visible to the linker. The personality reference is a pointer.
  found=$(nm --demangle --defined-only "$object" |
    awk -v isa="::$isa::" '$2 ~ /[A-Zu]/ { name = substr($0, index($0, $2) + 2)
      if (index(name, isa) == 0 && name !~ /^DW\.ref\./) print "  " $2 " " name }')
  if [[ $found ]]; then
    echo "isa: ${object##*aril_kernels_} defines symbols outside ::$isa::"
    echo "$found"
    leaks=1
  fi
done
[[ $leaks -eq 0 ]] && echo "isa: ${#objects[@]} objects define only symbols of their own namespace"
exit $leaks
