#!/usr/bin/env bash
# The system packages that Aril needs: the one list of them.
#
#   tools/deps.sh           installs what is missing (as root, or through sudo)
#   tools/deps.sh --check   only says what is missing
#   tools/deps.sh --list    prints the list
#
# `--group NAME` before these means the packages of a group instead, which only some targets need:
# package, package-test.
#
# Silent when nothing is missing. ARIL_SKIP_DEPS=1 leaves out the check, for systems without apt.
set -euo pipefail

# One package a line; `a|b` means the first of them that the distribution has (Debian 12 names come
# first, Ubuntu 24.04's second).
packages=(
  # build
  g++
  make
  cmake
  ninja-build
  pkg-config
  ccache
  libboost1.81-dev\|libboost1.83-dev
  libabsl-dev
  nlohmann-json3-dev
  libspdlog-dev
  libcli11-dev
  libpcre2-dev
  libutf8proc-dev
  prometheus-cpp-dev
  libssl-dev
  libcurl4-openssl-dev
  libsqlite3-dev
  libgrpc++-dev
  libprotobuf-dev
  protobuf-compiler
  protobuf-compiler-grpc
  # tests and benchmarks
  libboost-context1.81-dev\|libboost-context1.83-dev
  libgtest-dev
  libgmock-dev
  libbenchmark-dev
  python3
  python3-venv
  python3-pip
  curl
  etcd-server
  # tests under sanitizers, fuzzing and checks
  clang-16\|clang-18
  libclang-rt-16-dev\|libclang-rt-18-dev
  clang-format
  clang-tidy
  shellcheck
)

# What `make package` and `make package-test` need beyond them.
package_packages=(
  dpkg-dev
)
package_test_packages=(
  mmdebstrap
  debian-archive-keyring
  lintian
  mandoc
)

usage() {
  echo "usage: tools/deps.sh [--group package|package-test] [--check|--list]" >&2
  exit 2
}

if [[ ${1:-} == --group ]]; then
  case ${2:-} in
    package) packages=("${package_packages[@]}") ;;
    package-test) packages=("${package_test_packages[@]}") ;;
    *) usage ;;
  esac
  shift 2
fi

installed() {
  dpkg-query -W -f='${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed
}

# Prints the packages that are not installed. One dpkg-query answers the usual case.
missing() {
  local have entry name found
  have=" $(dpkg-query -W -f='${Package}=${db:Status-Status} ' "${packages[@]//|*/}" 2>/dev/null || true) "
  for entry in "${packages[@]}"; do
    [[ $have == *" ${entry%%|*}=installed "* ]] && continue
    found=
    for name in ${entry//|/ }; do
      installed "$name" && found=yes
    done
    [[ $found ]] || echo "$entry"
  done
}

# `a|b` → the first that apt can install, or the first of all.
available() {
  local name
  for name in ${1//|/ }; do
    apt-cache show "$name" >/dev/null 2>&1 && { echo "$name"; return; }
  done
  echo "${1%%|*}"
}

case ${1:-} in
  --list) printf '%s\n' "${packages[@]}"; exit 0 ;;
  --check | "") ;;
  *) usage ;;
esac

[[ ${ARIL_SKIP_DEPS:-} ]] && exit 0
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "tools/deps.sh knows Debian and Ubuntu only. Install what \`tools/deps.sh --list\` names by" \
    "your system's means, then set ARIL_SKIP_DEPS=1." >&2
  exit 1
fi

mapfile -t needed < <(missing)
[[ ${#needed[@]} -eq 0 ]] && exit 0
if [[ ${1:-} == --check ]]; then
  echo "Missing packages: ${needed[*]}"
  exit 1
fi

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  as_root=(sudo)
  if ! command -v sudo >/dev/null || { [[ ! -t 0 ]] && ! sudo -n true 2>/dev/null; }; then
    echo "Missing packages. As root, run:" >&2
    echo "  apt-get update && apt-get install -y --no-install-recommends ${needed[*]//|*/}" >&2
    exit 1
  fi
fi

echo "Installing packages: ${needed[*]}"
"${as_root[@]}" apt-get update -qq
names=()
for entry in "${needed[@]}"; do
  names+=("$(available "$entry")")
done
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${names[@]}"
