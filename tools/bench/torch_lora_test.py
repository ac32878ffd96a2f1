#!/usr/bin/env python3
"""Tests that every variant is right on the CPU, and that the check finds what is not.

Exits 77 (a skip for ctest) where PyTorch is absent.
"""

import json
import pathlib
import subprocess
import sys
import unittest

try:
    import torch
except ImportError:
    print("SKIPPED: torch is not installed")
    sys.exit(77)
import lora_cases
import torch_lora

SCRIPT = pathlib.Path(__file__).with_name("torch_lora.py")


def problem_of(pattern: str) -> torch_lora.Problem:
    pool = torch.empty(1 << 23, dtype=torch.bfloat16).uniform_(-1, 1)
    [case] = lora_cases.matching(pattern)
    return torch_lora.Problem(case, pool, pairs=2)


class TorchLoraTest(unittest.TestCase):
    def test_cpu_checks_every_variant(self):
        done = subprocess.run([sys.executable, SCRIPT, "--cpu"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        printed = json.loads(done.stdout)
        print("skipped:", printed["skipped"])
        self.assertEqual([*printed["variants"], *printed["skipped"]], [*torch_lora.VARIANTS])
        for case in printed["cases"]:
            self.assertEqual([*case["us"]], [*printed["variants"]])

    def test_popularities_and_shapes(self):
        for pattern in ("4096/8/16/distinct", "11008/32/8/uniform", "11008/16/16/skewed",
                        "4096/64/64/identical"):
            problem = problem_of(pattern)
            for name in ("loop", "gather_bmm", "bmm"):
                problem.check(name, torch_lora.VARIANTS[name](problem)[-1])

    def test_wrong_results_are_found(self):
        problem = problem_of("4096/64/8/uniform")
        first, last = torch_lora.bmm(problem)

        def last_row_of(run):
            right = problem.y_before.clone()
            last()
            right[:-1] = problem.y[:-1]
            problem.y.copy_(problem.y_before)
            run()
            problem.y[:-1] = right[:-1]

        for name, wrong in {
                "other adapters": first,
                "twice": lambda: (last(), last()),
                "nothing": lambda: None,
                "not added": lambda: (last(), problem.y.sub_(problem.y_before)),
                "one row": lambda: last_row_of(first),
                "NaN": lambda: (last(), problem.y.fill_(float("nan")))}.items():
            with self.assertRaises(torch_lora.WrongResult, msg=name):
                problem.check(name, wrong)
        problem.check("right", last)

    @unittest.skipIf(torch.cuda.is_available(), "there is a GPU")
    def test_without_a_gpu(self):
        done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)


if __name__ == "__main__":
    unittest.main()
