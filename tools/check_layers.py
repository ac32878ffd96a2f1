#!/usr/bin/env python3
"""Checks that includes and CMake targets keep to tools/layers.txt, and that include guards are right.

Prints one line per violation, `file:line: what, and what is allowed`, and exits 1 if there is any.
"""

import argparse
import dataclasses
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
GENERATED = re.compile(r"(\.grpc)?\.pb\.h$")  # headers that protoc writes
SOURCES = {".h", ".cc", ".cu", ".cuh"}


@dataclasses.dataclass
class Rules:
    """The content of layers.txt."""

    folders: dict[str, set[str]] = dataclasses.field(default_factory=dict)
    headers: dict[str, set[str]] = dataclasses.field(default_factory=dict)

    def key(self, path: str) -> str | None:
        """The most specific folder line for a path below src/."""
        fitting = [f for f in self.folders if path.startswith(f + "/")]
        return max(fitting, key=len, default=None)

    def folder_union(self, folder: str) -> set[str]:
        """What a CMake target, which holds a folder with its subfolders, may depend on."""
        keys = [f for f in self.folders if f == folder or f.startswith(folder + "/")]
        return set().union(*(self.folders[key] for key in keys))


def read_rules(path: pathlib.Path) -> Rules:
    """Reads layers.txt; raises ValueError with the line of a mistake in it."""
    rules = Rules()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        name, colon, rest = line.partition(":")
        if not colon:
            raise ValueError(f"{path}:{number}: expected `folder: folders…` or `header prefix: places…`")
        places = set(rest.split())
        if name.startswith("header "):
            rules.headers[name.removeprefix("header ").strip()] = places
            continue
        unknown = places - rules.folders.keys()
        if unknown:
            raise ValueError(f"{path}:{number}: {name} names {', '.join(sorted(unknown))}, "
                             "which must stand above it")
        rules.folders[name] = places
    return rules


class Checker:
    """Collects violations over a source tree."""

    def __init__(self, root: pathlib.Path, rules: Rules):
        self.root = root
        self.rules = rules
        self.problems: list[str] = []
        self.includes: dict[str, set[str]] = {}  # top folder -> folders its library's files include
        self.guards: dict[str, str] = {}

    def report(self, path: pathlib.Path, line: int, message: str) -> None:
        self.problems.append(f"{path.relative_to(self.root)}:{line}: {message}")

    def check_file(self, path: pathlib.Path) -> None:
        """Checks one source file of src/, tests/, bench/ or fuzz/."""
        lines = path.read_text(encoding="utf-8").splitlines()
        top, _, inner = path.relative_to(self.root).as_posix().partition("/")
        for number, line in enumerate(lines, 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            self.check_header(path, number, found[2])
            if top == "src":
                self.check_edge(path, number, inner, found[1], found[2])
        if top == "src" and path.suffix == ".h":
            self.check_guard(path, inner, lines)

    def check_edge(self, path: pathlib.Path, line: int, inner: str, quote: str, target: str) -> None:
        """Checks an include of src/ by a file of src/."""
        key = self.rules.key(inner)
        if key is None:
            self.report(path, line, f"src/{inner.split('/')[0]} is not in tools/layers.txt")
            return
        to = self.rules.key(target)
        own = inner.split("/")[0]
        if to is None:
            if quote == '"' and not any(target.startswith(h) for h in self.rules.headers):
                self.report(path, line, f'"{target}" is no path below src/ and no known library')
            return
        folder = to.split("/")[0]
        if not (self.root / "src" / GENERATED.sub(".proto", target)).is_file():
            self.report(path, line, f'"{target}" does not exist')
        if not is_test(inner) and folder != own:
            self.includes.setdefault(own, set()).add(folder)
        allowed = self.rules.folders[key]
        if folder != own and folder not in allowed:
            self.report(path, line, f'{key} must not include "{target}"; it may include: '
                        f"{' '.join(sorted(allowed)) or 'nothing'}")

    def check_header(self, path: pathlib.Path, line: int, target: str) -> None:
        """Checks that a third-party header is included only where it may be."""
        for prefix, places in self.rules.headers.items():
            if not target.startswith(prefix):
                continue
            inner = path.relative_to(self.root).as_posix().removeprefix("src/")
            if not any(is_in(inner, place) for place in places):
                self.report(path, line, f"<{target}> may be included only in: "
                            f"{' '.join(sorted(places))}")

    def check_guard(self, path: pathlib.Path, inner: str, lines: list[str]) -> None:
        """Checks that a header's guard is ARIL_ and its path."""
        wanted = "ARIL_" + re.sub(r"[^A-Z0-9]", "_", inner.upper()) + "_"
        for number, line in enumerate(lines, 1):
            if line.startswith("#ifndef"):
                if line.split()[1] != wanted:
                    self.report(path, number, f"the include guard must be {wanted}")
                return
        self.report(path, 1, f"there is no include guard {wanted}")

    def check_cmake(self, folder: str) -> None:
        """Checks that a target's dependencies are allowed, reach what its files include, and are used."""
        path = self.root / "src" / folder / "CMakeLists.txt"
        if not path.is_file():
            self.report(path, 1, "every folder of src/ is a target: there is no CMakeLists.txt")
            return
        text = path.read_text()
        declared, line = declared_deps(text, folder)
        if declared is None:
            return
        allowed = self.rules.folder_union(folder)
        for dep in sorted(declared - allowed):
            self.report(path, line, f"{folder} must not depend on {dep}; it may depend on: "
                        f"{' '.join(sorted(allowed)) or 'nothing'}")
        included = self.includes.get(folder, set())
        for dep in sorted(included - self.reached(declared)):
            self.report(path, line, f"{folder} includes {dep}, which its DEPS do not reach")
        for dep in sorted(declared - included):
            self.report(path, line, f"{folder} includes nothing of {dep}: leave it out of DEPS")


    def reached(self, folders: set[str]) -> set[str]:
        """The folders, and all that their targets depend on."""
        reached, waiting = set(), set(folders)
        while waiting:
            folder = waiting.pop()
            reached.add(folder)
            path = self.root / "src" / folder / "CMakeLists.txt"
            if path.is_file():
                waiting |= (declared_deps(path.read_text(), folder)[0] or set()) - reached
        return reached


def is_test(inner: str) -> bool:
    return inner.endswith(("_test.cc", "_bench.cc")) or inner.startswith(("tests/", "bench/", "fuzz/"))


def is_in(inner: str, place: str) -> bool:
    if place == "test":
        return inner.endswith("_test.cc") or "test" in pathlib.PurePath(inner).stem.split("_") or \
            inner.startswith("tests/")
    if place == "bench":
        return inner.endswith("_bench.cc") or inner.startswith("bench/")
    return inner == place or inner.startswith(place + "/")


def declared_deps(text: str, folder: str) -> tuple[set[str] | None, int]:
    """The DEPS of aril_library(<folder> …), and its line; None if the folder declares no library."""
    text = re.sub(r"#[^\n]*", "", text)
    found = re.search(rf"aril_library\(\s*{folder}\b([^)]*)\)", text)
    if not found:
        return None, 1
    keyword, deps = "", set()
    for word in found[1].split():
        if word in ("SOURCES", "DEPS", "EXTERNAL"):
            keyword = word
        elif keyword == "DEPS":
            deps.add(word)
    return deps, text[:found.start()].count("\n") + 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root.resolve()
    try:
        checker = Checker(root, read_rules(root / "tools/layers.txt"))
    except ValueError as error:
        print(error)
        return 1
    files = [path for top in ("src", "tests", "bench", "fuzz")
             for path in sorted((root / top).rglob("*")) if path.suffix in SOURCES]
    for path in files:
        checker.check_file(path)
    for folder in sorted(p.name for p in (root / "src").iterdir() if p.is_dir()):
        if folder not in checker.rules.folders:
            checker.report(root / "src" / folder, 1, "is not in tools/layers.txt")
        else:
            checker.check_cmake(folder)
    print("\n".join(checker.problems) or f"layers: {len(files)} files keep to tools/layers.txt")
    return 1 if checker.problems else 0


if __name__ == "__main__":
    sys.exit(main())
