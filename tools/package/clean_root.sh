#!/usr/bin/env bash
# clean_root.sh TARBALL: a minimal Debian 12 root as an archive, unless it is there. As root.
# Exits with 77, and says why, where none can be made.
#
#   ARIL_DEBIAN_MIRROR=http://deb.debian.org/debian   where its packages come from
set -euo pipefail
archive=$1
mirror=${ARIL_DEBIAN_MIRROR:-http://deb.debian.org/debian}
suite=bookworm

[[ -f $archive ]] && exit 0
if ! command -v mmdebstrap >/dev/null; then
  echo "mmdebstrap is not installed (tools/deps.sh --group package-test)"
  exit 77
fi
if ! curl -fsS --max-time 20 -o /dev/null "$mirror/dists/$suite/InRelease" 2>/dev/null; then
  echo "no Debian mirror at $mirror (ARIL_DEBIAN_MIRROR names another)"
  exit 77
fi
mkdir -p "$(dirname "$archive")"
echo "package-test: making a clean root of $suite (once; $archive)"
mmdebstrap --quiet --variant=minbase --architectures="$(dpkg --print-architecture)" \
  --aptopt='APT::Sandbox::User "root"' "$suite" "$archive.new.tar" "$mirror" >&2
mv "$archive.new.tar" "$archive"
