#!/usr/bin/env bash
# glibc_version.sh FILE…: the oldest glibc that has all the symbols these binaries ask of it.
set -euo pipefail
objdump -T "$@" | sed -n 's/.*(\?GLIBC_\([0-9.]*\))\? .*/\1/p' | sort -Vu | tail -n 1
