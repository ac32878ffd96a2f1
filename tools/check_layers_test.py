#!/usr/bin/env python3
"""Tests that check_layers.py finds what it is there to find, each in a small source tree."""

import pathlib
import tempfile
import unittest

import check_layers

RULES = """
base:
wire: base
kernels: base
kernels/sampling: base wire
header boost/: wire
header gtest/: test
"""


def guarded(path: str, body: str) -> str:
    name = "ARIL_" + path.upper().replace("/", "_").replace(".", "_") + "_"
    return f"#ifndef {name}\n#define {name}\n{body}\n#endif\n"


class CheckLayersTest(unittest.TestCase):
    """Each test writes a tree and expects the problems found in it."""

    def problems(self, files: dict[str, str]) -> list[str]:
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            files = {"src/base/a.h": guarded("base/a.h", ""), "src/wire/w.h": guarded("wire/w.h", ""),
                     **files}
            for path, text in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            (root / "layers.txt").write_text(RULES)
            checker = check_layers.Checker(root, check_layers.read_rules(root / "layers.txt"))
            for path in files:
                if path.endswith((".h", ".cc")):
                    checker.check_file(root / path)
                else:
                    checker.check_cmake(path.split("/")[1])
            return checker.problems

    def test_allowed_edges_are_quiet(self):
        self.assertEqual(self.problems({"src/wire/w.cc": '#include "base/a.h"\n',
                                        "src/kernels/sampling/s.cc": '#include "wire/w.h"\n'}), [])

    def test_forbidden_edge_has_its_line_and_the_allowed_list(self):
        [problem] = self.problems({"src/base/b.cc": '\n#include "wire/w.h"\n'})
        self.assertEqual(problem, 'src/base/b.cc:2: base must not include "wire/w.h"; '
                         'it may include: nothing')

    def test_a_subfolder_edge_does_not_open_its_folder(self):
        [problem] = self.problems({"src/kernels/gemm.cc": '#include "wire/w.h"\n'})
        self.assertIn("kernels must not include", problem)

    def test_library_headers_stay_in_their_folder(self):
        [problem] = self.problems({"src/base/b.cc": "#include <boost/asio.hpp>\n"})
        self.assertIn("<boost/asio.hpp> may be included only in: wire", problem)
        self.assertEqual(self.problems({"src/wire/w.cc": "#include <boost/asio.hpp>\n"}), [])

    def test_gtest_is_for_tests(self):
        self.assertEqual(self.problems({"src/base/a_test.cc": "#include <gtest/gtest.h>\n"}), [])
        self.assertEqual(len(self.problems({"src/base/a.cc": "#include <gtest/gtest.h>\n"})), 1)

    def test_wrong_include_guard(self):
        [problem] = self.problems({"src/base/b.h": guarded("base/a.h", "")})
        self.assertIn("the include guard must be ARIL_BASE_B_H_", problem)

    def test_missing_header(self):
        [problem] = self.problems({"src/wire/w.cc": '#include "base/gone.h"\n'})
        self.assertIn('"base/gone.h" does not exist', problem)

    def test_cmake_dependencies(self):
        use = {"src/wire/w.cc": '#include "base/a.h"\n'}
        cmake = "src/wire/CMakeLists.txt"
        self.assertEqual(self.problems({**use, cmake: "aril_library(wire SOURCES w.cc DEPS base)"}), [])
        [missing] = self.problems({**use, cmake: "\naril_library(wire SOURCES w.cc)"})
        self.assertEqual(missing, f"{cmake}:2: wire includes base, which its DEPS do not reach")
        forbidden, unused = self.problems({**use, cmake: "aril_library(wire DEPS base kernels)"})
        self.assertIn("wire must not depend on kernels", forbidden)
        self.assertIn("wire includes nothing of kernels", unused)

    def test_cmake_dependencies_reach_further(self):
        self.assertEqual(self.problems({
            "src/kernels/sampling/s.cc": '#include "wire/w.h"\n#include "base/a.h"\n',
            "src/wire/w.cc": '#include "base/a.h"\n',
            "src/wire/CMakeLists.txt": "aril_library(wire SOURCES w.cc DEPS base)",
            "src/kernels/CMakeLists.txt": "aril_library(kernels SOURCES s.cc DEPS wire)"}), [])

    def test_rules_have_an_order(self):
        with tempfile.TemporaryDirectory() as name:
            path = pathlib.Path(name) / "layers.txt"
            path.write_text("base: wire\nwire: base\n")
            with self.assertRaisesRegex(ValueError, "must stand above it"):
                check_layers.read_rules(path)


if __name__ == "__main__":
    unittest.main()
