#!/usr/bin/env python3
"""Tests that the variants are right on the CPU, and that the checks find what is not.

Exits 77 (a skip for ctest) where a package is absent.
"""

import json
import pathlib
import subprocess
import sys
import unittest
from unittest import mock

import generate_cases
import peft_generate

if peft_generate.MISSING:
    print("SKIPPED:", peft_generate.MISSING)
    sys.exit(77)

SCRIPT = pathlib.Path(__file__).with_name("peft_generate.py")
torch = peft_generate.torch


class PeftGenerateTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.manual_seed(0)
        cls.model = peft_generate.make_model("tiny", 4, [2, 5, 6], "cpu", torch.float32)
        cls.requests = [generate_cases.Request(i, 3 + 4 * i, 9 - i, adapter)
                        for i, adapter in enumerate((5, 5, 2, 6))]

    def answers(self, name: str) -> list:
        return peft_generate.run(self.model, self.requests, name)[1]

    def test_cpu_checks_every_variant(self):
        done = subprocess.run([sys.executable, SCRIPT, "--cpu"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        printed = json.loads(done.stdout)
        self.assertEqual([(case["popularity"], case["variant"]) for case in printed["cases"]],
                         [(popularity, name) for popularity in generate_cases.POPULARITIES
                          for name in printed["variants"]])
        self.assertEqual(len({case["tokens"] for case in printed["cases"]}), 1)

    def test_every_adapter_is_in_the_model(self):
        model = peft_generate.make_model("tiny", 4, [3, 1], "cpu", torch.bfloat16)
        lora = {name: weight for name, weight in model.named_parameters() if "lora_" in name}
        self.assertEqual(len(lora), 4 * 7 * 2 * 2)  # layers, projections, A and B, adapters
        self.assertEqual({weight.dtype for weight in model.parameters()}, {torch.bfloat16})
        self.assertTrue(all(weight.any() and 4 in weight.shape for weight in lora.values()))

    def test_wrong_answers_are_found(self):
        right = {name: self.answers(name) for name in peft_generate.VARIANTS}
        self.assertEqual([*map(len, right["mixed"])], [9, 8, 7, 6])
        peft_generate.check_same(right)
        with mock.patch.object(peft_generate, "name_of", lambda adapter: "adapter5"):
            for name in peft_generate.VARIANTS:
                with self.assertRaisesRegex(peft_generate.WrongResult, "request 2"):
                    peft_generate.check_same({"right": right[name], name: self.answers(name)})
            with self.assertRaisesRegex(peft_generate.WrongResult, "no effect"):
                peft_generate.check_effect(self.model, [2, 5])
        peft_generate.check_effect(self.model, [2, 5])

    def test_a_wrong_number_of_tokens_is_found(self):
        with mock.patch.object(self.model, "generate", lambda input_ids, **_: input_ids):
            with self.assertRaisesRegex(peft_generate.WrongResult, "became"):
                self.answers("mixed")

    @unittest.skipIf(torch.cuda.is_available(), "there is a GPU")
    def test_without_a_gpu(self):
        done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)


if __name__ == "__main__":
    unittest.main()
