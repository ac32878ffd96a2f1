#!/usr/bin/env bash
# deb.sh STAGE OUT: OUT/aril_<version>_<architecture>.deb. Needs ARIL_VERSION and SOURCE_DATE_EPOCH.
#
# The C and C++ libraries and libcurl are the system's, as dpkg-shlibdeps finds them. The others are
# the package's own, in /usr/lib/aril: their names change from one release of a distribution to the
# next (libprometheus-cpp-core1.0, …1.2), and one package should do for all of them.
set -euo pipefail
cd "$(dirname "$0")/../.."
stage=$1
architecture=$(dpkg --print-architecture)
package=$2/aril_${ARIL_VERSION}_$architecture.deb
date=$(date -R -d "@$SOURCE_DATE_EPOCH")
maintainer='Aril maintainers <maintainers@aril.invalid>'

root=$(mktemp -d)
control=$(mktemp -d)
trap 'rm -rf "$root" "$control"' EXIT
doc=$root/usr/share/doc/aril

mkdir -p "$root/usr" "$root/usr/lib/systemd/system" "$root/DEBIAN"
cp -r "$stage"/* "$root/usr/"
rm -f "$root"/usr/lib/aril/lib{stdc++,gcc_s}.so.*
# libcurl, and what only it needs.
ldd "$stage"/lib/aril/libcurl.so.4 | awk '{print $1}' | while read -r library; do
  rm -f "$root/usr/lib/aril/${library##*/}"
done
rm "$root"/usr/lib/aril/libcurl.so.4
install -D -m 644 deploy/aril.service -t "$root/usr/lib/systemd/system"
# May hold a key.
install -D -m 640 deploy/aril.env -t "$root/etc/aril"
chmod 755 "$root" "$root/etc" "$root/etc/aril"
install -D -m 644 deploy/deb/lintian-overrides "$root/usr/share/lintian/overrides/aril"
gzip -n -9 "$root"/usr/share/man/man1/*.1
find "$doc" -type f -size +4k -exec gzip -n -9 {} +
install -m 644 deploy/deb/copyright "$doc/copyright"
printf 'aril (%s) unstable; urgency=medium\n\n  * Version %s, built from commit %s.\n\n -- %s  %s\n' \
  "$ARIL_VERSION" "$ARIL_VERSION" "$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)" \
  "$maintainer" "$date" | gzip -n -9 >"$doc/changelog.gz"

# dpkg-shlibdeps wants the beginning of a source package.
mkdir "$control/debian"
printf 'Source: aril\n\nPackage: aril\nArchitecture: any\n' >"$control/debian/control"
depends=$(cd "$control" && dpkg-shlibdeps -O -l"$root/usr/lib/aril" "$root/usr/bin/aril" \
  "$root"/usr/lib/aril/*.so* 2>"$control/warnings" | sed -n 's/^shlibs:Depends=//p')
[[ $depends ]] || { cat "$control/warnings" >&2; exit 1; }
# Its functions are old, but CURLOPT_PROTOCOLS_STR is not, nor is SigV4 as S3 wants it.
depends=$(sed -E 's/libcurl4 \(>= [^)]*\)/libcurl4 (>= 7.86)/' <<<"$depends")
[[ $depends == *'libcurl4 (>= 7.86)'* ]] || { echo "package: no libcurl4 in: $depends" >&2; exit 1; }

cat >"$root/DEBIAN/control" <<CONTROL
Package: aril
Version: $ARIL_VERSION
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $(du -sk --apparent-size --exclude=DEBIAN "$root" | cut -f1)
Depends: $depends
Recommends: ca-certificates
Section: net
Priority: optional
Description: multi-tenant LoRA inference server
 Aril serves many LoRA fine-tunes ("adapters") from one copy of their base
 model. Requests for different adapters run together in one batch; an adapter
 costs only its own low-rank matrices.
 .
 It speaks the OpenAI HTTP protocol, and reads Hugging Face model folders and
 PEFT adapter folders as they are. The package has a systemd service, which is
 not started before it is told what to serve, in /etc/aril/aril.env.
CONTROL
echo /etc/aril/aril.env >"$root/DEBIAN/conffiles"
install -m 755 deploy/deb/postinst deploy/deb/prerm deploy/deb/postrm -t "$root/DEBIAN"
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)

find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Zxz --build "$root" "$package" >/dev/null
echo "package: $package, $(du -h "$package" | cut -f1), depends on $depends"
