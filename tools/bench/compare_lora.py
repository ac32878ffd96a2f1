#!/usr/bin/env python3
"""Puts `aril bench kernels --device cuda --kernel lora` and torch_lora.py side by side, in Markdown."""

import argparse
import json
import pathlib
import sys

SAME = ("operands", "rows", "bytes")
# Of the bandwidth of copies; beside it, a call may take as long as as many kernels that do nothing.
TARGET = 0.6


class NotComparable(Exception):
    pass


def table(runs: list[dict], peer: dict) -> list[str]:
    """Lines: each case that both have, and how many times Aril's time each of the others takes.

    `runs` are Aril's, of one rank or more each.
    """
    for run in runs:
        if run["device"] != peer["device"]:
            raise NotComparable(f"measured on {run['device']} and on {peer['device']}")
    variants = list(peer["variants"])
    peers = {tuple(case[key] for key in SAME): case["us"] for case in peer["cases"]}
    columns = ["operands", "rows", "aril µs", "of copy bandwidth", "of target",
               *(f"{name}, × aril" for name in variants)]
    rows = []
    for run in runs:
        bandwidth = run["limits"]["read_bytes_per_s"]
        for case in run["results"]:
            us = peers.get(tuple(case[key] for key in SAME))
            if us is None or case["kernel"] != "lora":
                continue
            seconds = case["seconds"]
            target = case["bytes"] / (TARGET * bandwidth) + case["empty_seconds"]
            rows.append([case["operands"], str(case["rows"]), f"{seconds * 1e6:.2f}",
                         f"{case['bytes'] / seconds / bandwidth:.3f}", f"{target / seconds:.2f}",
                         *(f"{us[name] / (seconds * 1e6):.2f}" for name in variants)])
    if not rows:
        raise NotComparable("no case is in both")
    bandwidths = [*(run["limits"]["read_bytes_per_s"] for run in runs), peer["copy_bytes_per_second"]]
    return [f"{peer['device']}, torch {peer['torch']}, triton {peer['triton'] or 'none'}; "
            f"a copy moved {', '.join(f'{each / 1e12:.2f}' for each in bandwidths)} TB/s.", "",
            *(f"- {name}: {what}" for name, what in peer["variants"].items()),
            *(f"- {name} was skipped: {why}" for name, why in peer["skipped"].items()), "",
            *(f"| {' | '.join(row)} |" for row in [columns, ["---"] * len(columns), *rows])]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("torch", type=pathlib.Path, help="what torch_lora.py printed")
    parser.add_argument("aril", type=pathlib.Path, nargs="+", help="what aril wrote to --json")
    options = parser.parse_args()
    try:
        lines = table([json.loads(path.read_text()) for path in options.aril],
                      json.loads(options.torch.read_text()))
    except (NotComparable, json.JSONDecodeError, OSError) as problem:
        print(f"compare_lora.py: {problem}", file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
