#!/usr/bin/env python3
"""Tests of the table: which cases are in it, and what is not compared."""

import unittest

import compare_lora
import lora_cases


def runs() -> tuple:
    """What the two print of three cases, of which they have one in common."""
    here, both, there = (case.describe() for case in lora_cases.matching("4096/8/*/distinct")[:3])
    timing = {"kernel": "lora", "seconds": 4e-6, "empty_seconds": 2e-6}
    loop = {**both, **timing, "kernel": "lora, loop over adapters"}
    aril = {"device": "G", "limits": {"read_bytes_per_s": both["bytes"] / 2e-6},
            "results": [{**here, **timing}, {**both, **timing}, loop]}
    peer = {"device": "G", "copy_bytes_per_second": 2.9e12, "torch": "2", "triton": None,
            "variants": {"loop": "one by one", "bmm": "together"},
            "skipped": {"triton": "none there"},
            "cases": [{**case, "us": {"loop": 10.0, "bmm": 3.0}} for case in (both, there)]}
    return aril, peer


class CompareLoraTest(unittest.TestCase):
    def test_multiples_of_common_cases(self):
        aril, peer = runs()
        # The bytes take 2 µs: the target is 2 / 0.6 + 2.
        self.assertEqual(compare_lora.table([aril], peer)[1:], [
            "", "- loop: one by one", "- bmm: together", "- triton was skipped: none there", "",
            "| operands | rows | aril µs | of copy bandwidth | of target | loop, × aril | bmm, × aril |",
            "| --- | --- | --- | --- | --- | --- | --- |",
            "| 4096 to 4096 rank 8 distinct | 2 | 4.00 | 0.500 | 1.33 | 2.50 | 0.75 |"])

    def test_several_runs_are_one_table(self):
        aril, peer = runs()
        self.assertEqual(len(compare_lora.table([aril, aril], peer)),
                         len(compare_lora.table([aril], peer)) + 1)

    def test_other_devices_are_not_compared(self):
        aril, peer = runs()
        with self.assertRaisesRegex(compare_lora.NotComparable, "on G and on H"):
            compare_lora.table([aril], {**peer, "device": "H"})

    def test_a_case_with_other_bytes_is_another_case(self):
        aril, peer = runs()
        for case in aril["results"]:
            case["bytes"] += 1
        with self.assertRaisesRegex(compare_lora.NotComparable, "no case"):
            compare_lora.table([aril], peer)


if __name__ == "__main__":
    unittest.main()
