#!/usr/bin/env python3
"""Puts what bench_cuda and torch_lora.py printed side by side, as a table in Markdown."""

import argparse
import json
import pathlib
import sys

SAME = ("in", "out", "rank", "batch", "popularity", "adapters", "bytes")


class NotComparable(Exception):
    pass


def table(aril: dict, peer: dict) -> list[str]:
    """Lines: each case that both have, and how many times Aril's time each of the others takes."""
    if aril["device"] != peer["device"]:
        raise NotComparable(f"measured on {aril['device']} and on {peer['device']}")
    variants = list(peer["variants"])
    peers = {tuple(case[key] for key in SAME): case["us"] for case in peer["cases"]}
    columns = ["out", "rank", "batch", "popularity", "adapters", "aril µs", "of copy bandwidth",
               *(f"{name}, × aril" for name in variants)]
    rows = []
    for case in aril["cases"]:
        us = peers.get(tuple(case[key] for key in SAME))
        if us is not None:
            rows.append([*(str(case[key]) for key in SAME[1:-1]), f"{case['us']:.2f}",
                         f"{case['of_copy_bandwidth']:.3f}",
                         *(f"{us[name] / case['us']:.2f}" for name in variants)])
    if not rows:
        raise NotComparable("no case is in both files")
    bandwidths = (f"{run['copy_bytes_per_second'] / 1e12:.2f}" for run in (aril, peer))
    return [f"{aril['device']}, torch {peer['torch']}, triton {peer['triton'] or 'none'}; "
            f"a copy moved {' and '.join(bandwidths)} TB/s.", "",
            *(f"- {name}: {what}" for name, what in peer["variants"].items()),
            *(f"- {name} was skipped: {why}" for name, why in peer["skipped"].items()), "",
            *(f"| {' | '.join(row)} |" for row in [columns, ["---"] * len(columns), *rows])]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("aril", type=pathlib.Path, help="what bench_cuda printed")
    parser.add_argument("torch", type=pathlib.Path, help="what torch_lora.py printed")
    options = parser.parse_args()
    try:
        lines = table(json.loads(options.aril.read_text()), json.loads(options.torch.read_text()))
    except (NotComparable, json.JSONDecodeError, OSError) as problem:
        print(f"compare_lora.py: {problem}", file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
