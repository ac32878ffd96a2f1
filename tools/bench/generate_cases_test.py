#!/usr/bin/env python3
"""Tests of the requests' distributions and of their batches, and that wrong arguments are refused."""

import collections
import math
import pathlib
import random
import statistics
import subprocess
import sys
import unittest

import generate_cases


def adapters_of(batches: list) -> list:
    return [[request.adapter for request in batch] for batch in batches]


class GenerateCasesTest(unittest.TestCase):
    def test_punica_short(self):
        source = random.Random(1)
        prompts, outputs = zip(*(generate_cases.draw_lengths(0, source) for _ in range(20000)))
        self.assertEqual((min(prompts), min(outputs), max(outputs)), (1, 1, 200))
        self.assertLess(abs(statistics.mean(outputs) - 100.5), 1.7)  # four deviations of the mean
        for least in (5, 17, 40):
            expected = 1 - statistics.NormalDist().cdf(math.log((least + 1) / 18) / 0.8)
            longer = sum(prompt >= least for prompt in prompts) / len(prompts)
            self.assertLess(abs(longer - expected), 4 * math.sqrt(0.25 / len(prompts)))

    def test_punica_with_a_maximum(self):
        source = random.Random(1)
        for total in (3, 40, 2048):
            for _ in range(2000):
                prompt, output = generate_cases.draw_lengths(total, source)
                self.assertTrue(1 <= prompt <= total - 2 and output >= 2)
                self.assertLessEqual(prompt + output, total if output == 2 else total - 1)

    def test_shares(self):
        for popularity, n, shares in (
                ("distinct", 3, [1, 1, 1]), ("identical", 32, [32]), ("uniform", 32, [6, 6, 5, 5, 5, 5]),
                ("uniform", 1, [1]), ("skewed", 1, [1]), ("skewed", 32, [11, 7, 5, 3, 2, 2, 1, 1])):
            self.assertEqual(generate_cases.shares(popularity, n), shares)

    def test_every_batch_of_requests_has_the_shares(self):
        for popularity in generate_cases.POPULARITIES:
            requests = generate_cases.draw(popularity, "punica-short", 70, 64, 1)
            for first in (0, 32):
                used = collections.Counter(request.adapter for request in requests[first:first + 32])
                self.assertEqual(sorted(used.values(), reverse=True), generate_cases.shares(popularity, 32))
            lengths = [(request.prompt_tokens, request.output_tokens) for request in requests]
            self.assertEqual(len(requests[3].prompt(512)), lengths[3][0])
            self.assertEqual(lengths, [(request.prompt_tokens, request.output_tokens) for request in
                                       generate_cases.draw("uniform", "punica-short", 70, 64, 1)])

    def test_batches(self):
        requests = [generate_cases.Request(i, 1, 1, adapter) for i, adapter in enumerate([4, 4, 7, 4] + [2] * 33)]
        self.assertEqual(adapters_of(generate_cases.batches(requests, one_adapter=True)),
                         [[4, 4], [7], [4], [2] * 32, [2]])
        self.assertEqual(adapters_of(generate_cases.batches(requests, one_adapter=False)),
                         [[4, 4, 7, 4] + [2] * 28, [2] * 5])

    def test_wrong_arguments(self):
        for arguments in (["--lengths", "punica:2"], ["--lengths", "long"], ["--popularity", "distinct,odd"],
                          ["--adapters", "31"], ["--requests", "0"], ["--variants", ""],
                          ["--cpu", "--shape", "llama-2-7b"], ["--gpus"]):
            script = pathlib.Path(__file__).with_name("peft_generate.py")
            done = subprocess.run([sys.executable, script, *arguments], capture_output=True, check=False)
            self.assertEqual(done.returncode, 64, done.stderr)


if __name__ == "__main__":
    unittest.main()
