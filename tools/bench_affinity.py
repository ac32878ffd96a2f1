#!/usr/bin/env python3
"""Conversations with a cluster whose scheduler looks for the runner that has read them, and with one that does not.

usage: bench_affinity.py [--shape SHAPE] [--chats N] [--turns N] [--runs N] [--seed N] [--aril BINARY] [--work DIR] [--json FILE]

Three runners with one thread and two seats each. Chats begin one after the other; each is with one of four adapters, or the
base model, and each turn sends what was sent before and new tokens, a while after the answer to the turn before. Both
clusters are asked the same at the same thinking times, taking turns, and begin with empty caches; figures are medians of the runs.
"""

import argparse
import concurrent.futures
import json
import pathlib
import random
import re
import statistics
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import aril_cluster
import bench_model
import cluster_chaos

RUNNERS, SEATS = 3, 2
ADAPTERS, RANK = 4, 16
TURN_TOKENS = 256
ANSWER_TOKENS = 16
POOL = "1GiB"
WAYS = {"the fullest runner": "--no-prefix-affinity", "the runner that has read it": "--prefix-affinity"}


def counters(cluster) -> dict:
    """Prompt tokens of all runners: looked up in their caches, and found there."""
    sums = {"queries": 0, "hits": 0}
    for url in cluster.runner_status_urls:
        with urllib.request.urlopen(url + "/metrics", timeout=30) as response:
            text = response.read().decode()
        for name in sums:
            sums[name] += sum(float(value) for value in re.findall(
                rf"^vllm:prefix_cache_{name}_total(?:{{.*}})? (\S+)$", text, re.MULTILINE))
    return sums


class Chats:
    def __init__(self, url: str, arguments, vocab_size: int, run: int):
        self.url, self.arguments, self.vocab_size = url, arguments, vocab_size
        self.seed = arguments.seed * 1000 + run

    def talk(self, chat: int) -> list:
        """Seconds to the first token of each turn."""
        draw = random.Random(self.seed * 1000 + chat)
        model = ["demo", *self.arguments.names][chat % (ADAPTERS + 1)]
        prompt, seconds = [], []
        time.sleep(draw.uniform(0, self.arguments.think * 2))
        for _ in range(self.arguments.turns):
            prompt += [draw.randrange(3, self.vocab_size) for _ in range(TURN_TOKENS)]
            first, start = [], time.monotonic()
            cluster_chaos.stream(self.url, {
                "model": model, "prompt": prompt, "max_tokens": ANSWER_TOKENS, "ignore_eos": True,
                "temperature": 0}, lambda: first or first.append(time.monotonic()))
            seconds.append(first[0] - start)
            time.sleep(draw.expovariate(1 / self.arguments.think))
        return seconds


def measure(arguments, flag: str, run: int) -> dict:
    folder = arguments.work / "model"
    vocab_size = json.loads((folder / "config.json").read_text())["vocab_size"]
    flags = ("--model", folder, "--adapters", arguments.work / "adapters")
    with aril_cluster.Cluster(
            arguments.aril, arguments.work / "cluster", runners=RUNNERS, flags=flags,
            runner_flags=("--threads", 1, "--max-num-seqs", SEATS, "--pool-bytes", POOL),
            gateway_flags=("--served-model-name", "demo"), scheduler_flags=(flag,)) as cluster:
        cluster.wait_until_linked(cluster.gateways[0])
        before = counters(cluster)
        chats = Chats(cluster.urls[0], arguments, vocab_size, run)
        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(arguments.chats) as pool:
            firsts = list(pool.map(chats.talk, range(arguments.chats)))
        seconds = time.monotonic() - start
        after = counters(cluster)
    later = sorted(second for turns in firsts for second in turns[1:])
    return {"seconds": seconds, "first_turn": statistics.median(turns[0] for turns in firsts),
            "later_turns": statistics.median(later), "later_p90": later[int(len(later) * 0.9)],
            "cached": (after["hits"] - before["hits"]) / (after["queries"] - before["queries"])}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="qwen2.5-0.5b")
    parser.add_argument("--chats", type=int, default=12)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--think", type=float, default=12, help="mean seconds between answer and turn")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--aril", type=pathlib.Path, default=ROOT / "build/release/aril")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/bench/affinity")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.work /= arguments.shape
    arguments.work.mkdir(parents=True, exist_ok=True)
    if not (arguments.work / "adapters").is_dir():
        bench_model.synthesize(arguments.aril, arguments.shape, arguments.work / "model",
                               arguments.work / "adapters", ADAPTERS, RANK)
    arguments.names = sorted(folder.name for folder in (arguments.work / "adapters").iterdir())
    runs = {way: [] for way in WAYS}
    for run in range(arguments.runs):
        for way, flag in WAYS.items():
            runs[way].append(measure(arguments, flag, run))
    print(f"{arguments.shape}, bfloat16, {RUNNERS} runners of one thread and {SEATS} seats; {arguments.chats} chats of "
          f"{arguments.turns} turns of {TURN_TOKENS} tokens, answers of {ANSWER_TOKENS}; thinking {arguments.think} s on average; "
          f"seed {arguments.seed}; medians of {arguments.runs} runs\n")
    print(f"{'each turn goes to':<30} {'cached':>8} {'first token, s':>16} {'of later turns':>16} "
          f"{'their p90':>12} {'all, s':>10}")
    results = {}
    for way, measured in runs.items():
        median = {name: statistics.median(run[name] for run in measured) for name in measured[0]}
        results[way] = median
        print(f"{way:<30} {median['cached']:8.2f} {median['first_turn']:16.2f} {median['later_turns']:16.2f} "
              f"{median['later_p90']:12.2f} {median['seconds']:10.1f}")
    before, after = results.values()
    print(f"\nlater turns: {before['later_turns'] / after['later_turns']:.2f} times as soon")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(
            {"shape": arguments.shape, "chats": arguments.chats, "turns": arguments.turns,
             "turn_tokens": TURN_TOKENS, "think_s": arguments.think, "seed": arguments.seed,
             "runs": runs, "medians": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
