#!/usr/bin/env bash
# Installs, runs and removes what tools/package.sh made, in a clean root. `make package-test` runs it.
# Where that cannot be done it says so: "package-test: SKIPPED: why".
set -euo pipefail
cd "$(dirname "$0")/../.."
machine=$(uname -m)
tarballs=(build/package/aril-*-linux-"$machine".tar.gz)
debs=(build/package/aril_*.deb)
archive=build/package-root/bookworm-$machine.tar
root=$PWD/build/package-root/root
server=

fail() {
  echo "package-test: $1" >&2
  exit 1
}
skip() {
  echo "package-test: SKIPPED: $1"
  exit 0
}
finish() {
  if [[ $server ]]; then kill "$server" 2>/dev/null || true; fi
  umount "$root/proc" 2>/dev/null || true
  rm -rf --one-file-system "$root"
}

# --- what needs no root ---------------------------------------------------------------------------

check_deb_policy() {
  command -v lintian >/dev/null || { echo "package-test: lintian: SKIPPED: not installed"; return; }
  local options=("--fail-on=error,warning")
  [[ $(id -u) -ne 0 ]] || options+=(--allow-root)
  lintian "${options[@]}" "${debs[0]}" || fail "lintian complains about ${debs[0]}."
}

check_man_pages() {
  command -v mandoc >/dev/null || { echo "package-test: mandoc: SKIPPED: not installed"; return; }
  local pages
  pages=$(mktemp -d)
  tar -C "$pages" -xzf "${tarballs[0]}" --strip-components=4 --wildcards '*/share/man/man1/*'
  mandoc -T lint -W warning "$pages"/*.1 || fail "mandoc complains about the manual pages."
  rm -r "$pages"
}

# --- in the clean root ----------------------------------------------------------------------------

# in_root COMMAND…
in_root() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C "$@"; }

unpack_root() {
  rm -rf --one-file-system "$root"
  mkdir -p "$root"
  tar -C "$root" -xf "$archive"
  mount -t proc proc "$root/proc"
}

# What is in the root, without what dpkg and apt keep for themselves.
list_root() {
  (cd "$root" && find . -xdev \( -path ./var/lib/dpkg -o -path ./var/log -o -path ./var/cache -o \
    -path ./tmp -o -path ./srv \) -prune -o -print | sort)
}

# ask URL MODEL: fails unless the model answers with tokens.
ask() {
  curl -fsS --max-time 60 "$1/v1/completions" -H 'Content-Type: application/json' \
    -d "{\"model\":\"$2\",\"prompt\":\"Once\",\"max_tokens\":8,\"temperature\":0,\"ignore_eos\":true}" |
    python3 -c 'import json, sys; assert json.load(sys.stdin)["usage"]["completion_tokens"] == 8' ||
    fail "$2 did not answer."
}

# try_server COMMAND…: runs a server as nobody, asks it, ends it as systemd would. It listens on a
# free port.
try_server() {
  local log=$root/tmp/serve.log url='' status=0 deadline=$((SECONDS + 60))
  chroot --userspec=65534:65534 "$root" "$@" >"$log" 2>&1 &
  server=$!
  until [[ $url ]]; do
    kill -0 "$server" 2>/dev/null || { cat "$log" >&2; fail "the server ended; its log is above."; }
    ((SECONDS < deadline)) || { cat "$log" >&2; fail "not ready after 60 s; its log is above."; }
    sleep 0.1
    url=$(sed -n 's/.*Serving on \(http[^ ]*\).*/\1/p' "$log")
  done
  ask "$url" demo
  ask "$url" sql
  kill -TERM "$server"
  wait "$server" || status=$?
  server=
  [[ $status -eq 0 ]] || { cat "$log" >&2; fail "SIGTERM ended the server with status $status."; }
}

# Every variable that the example names is one of a flag.
check_env_names() {
  local help name
  help=$(in_root aril serve --help)
  sed -n 's/^#\?\(ARIL_[A-Z_]*\)=.*/\1/p' "$root/etc/aril/aril.env" | while read -r name; do
    [[ $help == *"(Env:$name)"* ]] || fail "aril.env names $name, which no flag has."
  done
}

check_unit() {
  command -v systemd-analyze >/dev/null ||
    { echo "package-test: aril.service: SKIPPED: no systemd-analyze"; return; }
  local found
  found=$(systemd-analyze verify --man=no --root="$root" aril.service 2>&1 || true)
  # The clean root has none of systemd's own units.
  found=$(grep -Ev '(Failed to (add|create)|Unit) .*(\.target|\.slice|\.mount)' <<<"$found" || true)
  [[ -z $found ]] || fail "systemd-analyze verify: $found"
}

try_deb() {
  local before after
  # What `apt install ./aril.deb` would install with it; its own trace is looked for afterwards.
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  in_root env http_proxy="${http_proxy:-}" sh -ec \
    "apt-get -qq update; apt-get -qq install -y --no-install-recommends libcurl4" \
    >"$root/tmp/apt.log" 2>&1 || { cat "$root/tmp/apt.log" >&2; fail "libcurl4 could not be installed."; }
  before=$(list_root)
  cp "${debs[0]}" "$root/tmp/aril.deb"
  in_root dpkg -i /tmp/aril.deb >/dev/null
  in_root aril --version
  check_env_names
  check_unit
  # The settings as the service reads them; a changed conffile, for the purge.
  printf '%s\n' ARIL_MODEL=/usr/share/aril/demo/base ARIL_ADAPTERS=/usr/share/aril/demo/adapters \
    ARIL_PORT=0 ARIL_POOL_BYTES=64MiB 'ARIL_SERVED_MODEL_NAME=[demo,other]' >>"$root/etc/aril/aril.env"
  # shellcheck disable=SC2046  # one word per line
  try_server /usr/bin/env -i $(grep '^ARIL_' "$root/etc/aril/aril.env") /usr/bin/aril serve
  # What `systemctl enable` links.
  in_root DPKG_MAINTSCRIPT_PACKAGE=aril deb-systemd-helper enable aril.service
  [[ -L $root/etc/systemd/system/multi-user.target.wants/aril.service ]] || fail "was not enabled."
  in_root dpkg --purge aril >/dev/null
  after=$(list_root)
  [[ $before == "$after" ]] ||
    fail "the purge left: $(diff <(echo "$before") <(echo "$after") | tr '\n' ' ')"
  echo "package-test: ${debs[0]}: installed, served, purged without a trace"
}

try_tarball() {
  local aril
  tar -C "$root/opt" -xzf "${tarballs[0]}"
  aril=$(cd "$root" && echo opt/aril-*/bin/aril)
  in_root "/$aril" --version
  try_server "/$aril" serve --demo --port 0 --pool-bytes 64MiB
  echo "package-test: ${tarballs[0]}: unpacked, served"
}

[[ -f ${tarballs[0]} && -f ${debs[0]} ]] || fail "nothing to test in build/package. Run make package."
if [[ ${1:-} != --in-namespace ]]; then
  check_deb_policy
  check_man_pages
  [[ $(id -u) -eq 0 ]] || skip "only root can make a clean root"
  unshare --mount true 2>/dev/null || skip "this root may not mount"
  status=0
  tools/package/clean_root.sh "$archive" || status=$?
  [[ $status -ne 77 ]] || skip "no clean root; the reason is above"
  [[ $status -eq 0 ]] || fail "the clean root could not be made."
  # Mounts of its own end with it.
  exec unshare --mount --propagation private "$0" --in-namespace
fi
trap finish EXIT
unpack_root
try_tarball  # first: it needs none of the packages that the other one brings
try_deb
echo "package-test: passed"
