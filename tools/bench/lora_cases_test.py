#!/usr/bin/env python3
"""Tests that the cases are Punica's, and that arguments choose among them."""

import pathlib
import subprocess
import sys
import unittest

import lora_cases


class LoraCasesTest(unittest.TestCase):
    def test_segment_lengths(self):
        for popularity, rows, lengths in (
                ("distinct", 4, [1, 1, 1, 1]), ("identical", 4, [4]), ("uniform", 2, [1, 1]),
                ("uniform", 8, [3, 3, 2]), ("uniform", 32, [6, 6, 5, 5, 5, 5]), ("skewed", 1, [1]),
                ("skewed", 8, [3, 2, 1, 1, 1]), ("skewed", 64, [17, 17, 11, 7, 5, 3, 2, 1, 1])):
            self.assertEqual(lora_cases.segment_lengths(popularity, rows), lengths)

    def test_every_row_has_an_adapter(self):
        cases = lora_cases.matching("*/*/*/*")
        self.assertEqual(len(cases), 224)
        for case in cases:
            self.assertEqual(sum(case.segment_lengths()), case.batch)
            self.assertGreater(min(case.segment_lengths()), 0)

    def test_patterns(self):
        self.assertEqual([*map(str, lora_cases.matching("*/64/2/skewed"))],
                         ["4096/64/2/skewed", "11008/64/2/skewed"])
        for nothing in ("", "*", "*/*/*", "*/*/*/*/*", "4096/08/1/*", "*/*/3/*", "*/*/*/skew"):
            self.assertEqual(lora_cases.matching(nothing), [], nothing)

    def test_bytes_of_a_case(self):
        [case] = lora_cases.matching("4096/8/2/identical")
        self.assertEqual(case.describe(), {
            "operands": "4096 to 4096 rank 8 identical", "rows": 2,
            "bytes": 8 * (4096 + 4096) * 2 + 2 * 4096 * 2 + 2 * 4096 * 8})

    def test_wrong_arguments(self):
        for arguments in (["*/9/*/*"], ["--variants", "loop,magic"], ["--variants", ""], ["--gpus"]):
            script = pathlib.Path(__file__).with_name("torch_lora.py")
            done = subprocess.run([sys.executable, script, *arguments], capture_output=True, check=False)
            self.assertEqual(done.returncode, 64, done.stderr)


if __name__ == "__main__":
    unittest.main()
