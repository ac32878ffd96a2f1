#!/usr/bin/env bash
# Makes, in build/package:
#
#   aril-<version>-linux-<machine>.tar.gz   runs where it is unpacked, on any Linux with a new enough glibc
#   aril_<version>_<architecture>.deb       for Debian and Ubuntu, with the systemd service
#
# Both hold the same files (tools/package/stage.sh). The same commit, system packages and compiler
# give the same bytes, from any folder where ccache is used: it makes the sources' paths relative.
# tools/package/test.sh tries both in a clean root.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}

cmake --preset portable
cmake --build build/portable --target aril -j "$jobs"

ARIL_VERSION=$(sed -n 's/^project(aril VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
# Whatever is dated bears the commit's date.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CMakeLists.txt)}
umask 022
export ARIL_VERSION SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC

rm -rf build/package
tools/package/stage.sh build/portable/aril build/package/stage
tools/package/tarball.sh build/package/stage build/package
tools/package/deb.sh build/package/stage build/package
rm -r build/package/stage
