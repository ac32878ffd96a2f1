#!/usr/bin/env bash
# tarball.sh STAGE OUT: OUT/aril-<version>-linux-<machine>.tar.gz, which runs where it is unpacked.
# Needs ARIL_VERSION and SOURCE_DATE_EPOCH.
set -euo pipefail
cd "$(dirname "$0")/../.."
stage=$1
name=aril-$ARIL_VERSION-linux-$(uname -m)
tarball=$2/$name.tar.gz

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$stage" "$work/$name"
cp LICENSE "$work/$name/share/doc/aril/"
mkdir "$work/$name/share/doc/aril/systemd"
cp deploy/aril.service deploy/aril.env "$work/$name/share/doc/aril/systemd/"
tar -C "$work" --format=gnu --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 \
  --numeric-owner -cf - "$name" | gzip -n -9 >"$tarball"

# The packed binary must find its libraries beside itself, and run.
mkdir "$work/check"
tar -C "$work/check" -xzf "$tarball"
foreign=$(ldd "$work/check/$name/bin/aril" | awk '$2 == "=>" {print $3}' |
  grep -Ev '/lib(c|m|dl|rt|pthread|resolv|util)\.so' | grep -v "^$work/check/" || true)
if [[ $foreign ]]; then
  echo "package: the packed binary still takes libraries from this system: ${foreign//$'\n'/ }" >&2
  exit 1
fi
"$work/check/$name/bin/aril" --version >/dev/null
glibc=$(tools/package/glibc_version.sh "$stage/bin/aril" "$stage"/lib/aril/*)
echo "package: $tarball, $(du -h "$tarball" | cut -f1), needs glibc $glibc or newer"
