#!/usr/bin/env python3
"""Tests of the table: which cases are in it, and what is not compared."""

import unittest

import compare_lora
import lora_cases


def runs() -> tuple:
    """What the two print of three cases, of which they have one in common."""
    here, both, there = (case.describe() for case in lora_cases.matching("4096/8/*/distinct")[:3])
    aril = {"device": "G", "copy_bytes_per_second": 3e12,
            "cases": [{**case, "us": 4.0, "of_copy_bandwidth": 0.5} for case in (here, both)]}
    peer = {"device": "G", "copy_bytes_per_second": 2.9e12, "torch": "2", "triton": None,
            "variants": {"loop": "one by one", "bmm": "together"},
            "skipped": {"triton": "none there"},
            "cases": [{**case, "us": {"loop": 10.0, "bmm": 3.0}} for case in (both, there)]}
    return aril, peer


class CompareLoraTest(unittest.TestCase):
    def test_multiples_of_common_cases(self):
        self.assertEqual(compare_lora.table(*runs()), [
            "G, torch 2, triton none; a copy moved 3.00 and 2.90 TB/s.", "",
            "- loop: one by one", "- bmm: together", "- triton was skipped: none there", "",
            "| out | rank | batch | popularity | adapters | aril µs | of copy bandwidth | loop, × aril | bmm, × aril |",
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
            "| 4096 | 8 | 2 | distinct | 2 | 4.00 | 0.500 | 2.50 | 0.75 |"])

    def test_other_devices_are_not_compared(self):
        aril, peer = runs()
        with self.assertRaisesRegex(compare_lora.NotComparable, "on G and on H"):
            compare_lora.table(aril, {**peer, "device": "H"})

    def test_a_case_with_other_bytes_is_another_case(self):
        aril, peer = runs()
        aril["cases"][1]["bytes"] += 1
        with self.assertRaisesRegex(compare_lora.NotComparable, "no case"):
            compare_lora.table(aril, peer)


if __name__ == "__main__":
    unittest.main()
