#!/usr/bin/env python3
"""Runs clang-tidy over the translation units of a compilation database, several at a time.

A unit that passed is not run again until it, a header of this repository that it reaches, its
compile command or .clang-tidy changes: ~/.cache/aril/tidy (or $XDG_CACHE_HOME) holds one stamp per
passed unit, named by a digest of all that decides, as a compiler's cache does. Another clone of
the same sources finds them, too. What changed last is run first, so that --minutes leaves out what
has been there for longest, and says so.
Prints the findings of each unit that fails and exits 1 if there is any.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
# clang-tidy counts what it hides in system headers; nobody needs to know.
NOISE = re.compile(r"^(\d+ warnings? (and \d+ errors? )?generated\.|"
                   r"\d+ warnings? treated as errors?|Suppressed .*|Use -header-filter.*)\n",
                   re.MULTILINE)


def reached(path: pathlib.Path, seen: dict[pathlib.Path, str]) -> None:
    """Adds `path` and every file of the repository that it includes to `seen`, with their text."""
    if path in seen or not path.is_file():
        return
    seen[path] = path.read_text(encoding="utf-8")
    for target in INCLUDE.findall(seen[path]):
        for folder in (ROOT / "src", path.parent, ROOT):
            if (folder / target).is_file():
                reached((folder / target).resolve(), seen)
                break


def key(entry: dict, checks: str) -> str:
    """A digest of all that decides what clang-tidy says about a unit."""
    texts: dict[pathlib.Path, str] = {}
    reached(pathlib.Path(entry["file"]), texts)
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes() + checks.encode())
    digest.update(entry["command"].replace(f"{ROOT}/", "").encode())
    for path in sorted(texts):
        digest.update(f"{path.relative_to(ROOT)}\0{texts[path]}\0".encode())
    return digest.hexdigest()


def units(build: pathlib.Path) -> list[dict]:
    """The entries of the compilation database for this repository's own sources."""
    entries = json.loads((build / "compile_commands.json").read_text())
    own = tuple(f"{ROOT}/{top}/" for top in ("src", "tests", "fuzz", "bench"))
    return [e for e in entries if e["file"].startswith(own) and not e["file"].endswith(".cu")]


def last_changed() -> dict[str, int]:
    """When each file was last committed, as the number of commits since."""
    log = subprocess.run(["git", "log", "--format=", "--name-only"], cwd=ROOT, capture_output=True,
                         text=True).stdout.split("\n")
    ages: dict[str, int] = {}
    for age, name in enumerate(log):
        ages.setdefault(name, age)
    return ages


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path, help="a configured build folder")
    parser.add_argument("--checks", default="", help="added to those of .clang-tidy")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--minutes", type=float, default=float(os.environ.get("TIDY_MINUTES") or "inf"),
                        help="begin no unit after so long")
    args = parser.parse_args()

    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    stamps = pathlib.Path(cache) / "aril/tidy"
    stamps.mkdir(parents=True, exist_ok=True)
    tidy = ["clang-tidy", "--quiet", "-p", str(args.build),
            "--extra-arg=-Wno-unknown-warning-option"]
    if args.checks:
        tidy.append(f"--checks={args.checks}")
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, text=True).stdout
    todo = {}
    for entry in units(args.build):
        stamp = stamps / key(entry, args.checks + version)
        if not stamp.exists():
            todo.setdefault(entry["file"], []).append(stamp)

    ages = last_changed()
    order = sorted(todo, key=lambda file: ages.get(str(pathlib.Path(file).relative_to(ROOT)), -1))
    start = time.monotonic()

    def run(file: str) -> tuple[str, int | None, str]:
        if time.monotonic() - start > args.minutes * 60:
            return file, None, ""
        done = subprocess.run([*tidy, file], capture_output=True, text=True)
        return file, done.returncode, done.stdout + done.stderr

    failed = 0
    left = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for file, status, output in pool.map(run, order):
            if status is None:
                left += 1
                continue
            if status == 0:
                for stamp in todo[file]:
                    stamp.touch()
                continue
            failed += 1
            killed = f" was ended by signal {-status}" if status < 0 else ""
            print(f"clang-tidy: {pathlib.Path(file).relative_to(ROOT)}{killed}")
            print(NOISE.sub("", output).strip(), flush=True)
    print(f"clang-tidy: {len(todo) - left} units run in {time.monotonic() - start:.0f} s, "
          f"{failed} with findings")
    if left:
        print(f"clang-tidy: {left} units, the longest unchanged, were NOT run for want of time; "
              "`make check` runs them all")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
