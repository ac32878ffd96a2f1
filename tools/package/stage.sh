#!/usr/bin/env bash
# stage.sh BINARY DIR: the files that every package has, below DIR as below /usr or /usr/local:
#
#   bin/aril          the binary, stripped; looks for libraries in ../lib/aril first
#   lib/aril          shared libraries that no static archive exists for
#   share/aril/demo   what `aril serve --demo` serves
#   share/man/man1    one page per command, from its --help
#   share/doc/aril    README, docs, and the licences of all that is linked in
set -euo pipefail
cd "$(dirname "$0")/../.."
binary=$1
stage=$2

mkdir -p "$stage"/{bin,lib/aril,share/aril,share/man/man1,share/doc/aril/licenses}
strip -o "$stage/bin/aril" "$binary"

# Of glibc nothing is taken: it belongs to the kernel and the loader of the system.
system='linux-vdso|ld-linux|/lib(c|m|dl|rt|pthread|resolv|util)\.so'
mapfile -t libraries < <(ldd "$binary" | awk '$2 == "=>" {print $3}' | grep -Ev "$system")
for library in "${libraries[@]}"; do
  cp -L "$library" "$stage/lib/aril/$(basename "$library")"
done
chmod 644 "$stage"/lib/aril/*

tools/package/man_pages.py "$binary" "$stage/share/man/man1"
cp -r models/demo "$stage/share/aril/demo"
# With what README links to for users.
cp README.md "$stage/share/doc/aril/"
install -D -m 644 docs/api.md docs/install.md -t "$stage/share/doc/aril/docs"

# notice PACKAGE: copies the licences that a Debian package brought.
notice() {
  local file=/usr/share/doc/$1/copyright name=${1%-dev}
  if [[ -f $file ]]; then cp "$file" "$stage/share/doc/aril/licenses/$name.txt"; fi
}
# Linked statically or by header: what the build needs that is no tool and no test.
{ tools/deps.sh --list; printf '%s\n' libfmt-dev libc-ares-dev libre2-dev; } | tr '|' '\n' | grep -- '-dev$' |
  grep -Ev '^lib(gtest|gmock|benchmark|clang-rt)' | while read -r package; do notice "$package"; done
# Copied.
for library in "${libraries[@]}"; do
  notice "$(dpkg-query -S "*/$(basename "$(readlink -f "$library")")" | head -1 | cut -d: -f1)"
done

find "$stage" -type d -exec chmod 755 {} +
