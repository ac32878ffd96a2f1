#!/usr/bin/env python3
"""What it costs to ask adapters about a text that the base model has computed: activated LoRA beside LoRA, over HTTP.

usage: bench_activated.py [--shape SHAPE] [--tokens N] [--adapters N] [--runs N] [--aril BINARY] [--work DIR] [--json FILE]

The base model reads a text and answers. Then adapters are asked about it in a few tokens more, one after the other or all at
once, and answer in eight: each once as it is, and once as an activated LoRA of the same matrices. Texts are new in each run,
so that nothing is cached of runs before; prompts are token ids. The ways to ask take turns; figures are medians of the runs.
"""

import argparse
import concurrent.futures
import json
import pathlib
import random
import shutil
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools/demo")]
import aril_server
import bench_model
import client

RANK = 16
INVOCATION = [5, 6, 7, 8]
QUESTION_TOKENS = 16  # the invocation and what follows it
ANSWER_TOKENS = 8
KINDS = ["LoRA", "activated LoRA"]
ORDERS = ["one after the other", "all at once"]


def make_model(arguments) -> list:
    """The flags of a server of a model and its adapters, each in both kinds, with random weights."""
    model, adapters = arguments.work / "model", arguments.work / "adapters"
    if not adapters.is_dir():
        plain = arguments.work / "plain"
        bench_model.synthesize(arguments.aril, arguments.shape, model, plain, arguments.adapters,
                               RANK)
        for i, folder in enumerate(sorted(plain.iterdir())):
            for kind in KINDS:
                copy = adapters / name_of(kind, i)
                shutil.copytree(folder, copy)
                config = json.loads((copy / "adapter_config.json").read_text())
                if kind != KINDS[0]:
                    config["alora_invocation_tokens"] = INVOCATION
                (copy / "adapter_config.json").write_text(json.dumps(config))
    return ["--model", model, "--adapters", adapters, "--served-model-name", "base"]


def name_of(kind: str, i: int) -> str:
    return f"{kind.replace(' ', '-').lower()}-{i}"


class Bench:
    def __init__(self, url: str, arguments):
        self.url = url
        self.num_adapters = arguments.adapters
        self.num_tokens = arguments.tokens
        config = json.loads((arguments.work / "model/config.json").read_text())
        self.draw = random.Random(1)
        self.vocab_size = config["vocab_size"]

    def tokens(self, count: int) -> list:
        """None of them of the invocation."""
        return [self.draw.randrange(max(INVOCATION) + 1, self.vocab_size) for _ in range(count)]

    def ask(self, model: str, prompt: list) -> tuple:
        """How many tokens the prompt had, and how many of them were cached."""
        with client.Connection(self.url, timeout=600) as asking:
            usage = asking.post("/v1/completions", {
                "model": model, "prompt": prompt, "max_tokens": ANSWER_TOKENS, "temperature": 0,
                "ignore_eos": True})["usage"]
        assert usage["completion_tokens"] == ANSWER_TOKENS, usage
        return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]

    def measure(self, kind: str, order: str) -> dict:
        text = self.tokens(self.num_tokens)
        self.ask("base", text)
        prompts = [text + INVOCATION + self.tokens(QUESTION_TOKENS - len(INVOCATION))
                   for _ in range(self.num_adapters)]
        names = [name_of(kind, i) for i in range(self.num_adapters)]
        workers = 1 if order == ORDERS[0] else self.num_adapters
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            start = time.monotonic()
            usages = list(pool.map(self.ask, names, prompts))
            seconds = time.monotonic() - start
        return {"seconds": seconds, "computed": sum(prompt - cached for prompt, cached in usages)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="tinyllama-1.1b")
    parser.add_argument("--tokens", type=int, default=1024, help="of the text")
    parser.add_argument("--adapters", type=int, default=8)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--aril", type=pathlib.Path, default=ROOT / "build/release/aril")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/bench/activated")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.work /= f"{arguments.shape}-{arguments.adapters}"
    arguments.work.mkdir(parents=True, exist_ok=True)
    flags = make_model(arguments)
    ways = [(kind, order) for order in ORDERS for kind in KINDS]
    runs = {way: [] for way in ways}
    with aril_server.Server(flags, arguments.work / "serve.log", arguments.aril) as server:
        bench = Bench(server.url, arguments)
        for kind in KINDS:  # loads the adapters
            for i in range(arguments.adapters):
                bench.ask(name_of(kind, i), INVOCATION)
        for _ in range(arguments.runs):
            for way in ways:
                runs[way].append(bench.measure(*way))
    print(f"{arguments.shape}, bfloat16, a text of {arguments.tokens} tokens, {arguments.adapters} "
          f"adapters of rank {RANK}, {QUESTION_TOKENS} tokens of question and {ANSWER_TOKENS} of "
          f"answer each; median (least, most) of {arguments.runs} runs\n")
    print(f"{'':<38} {'seconds':>24} {'prompt tokens computed':>24}  × {KINDS[0]}")
    results = []
    for kind, order in ways:
        seconds = [run["seconds"] for run in runs[kind, order]]
        of_lora = statistics.median(run["seconds"] for run in runs[KINDS[0], order])
        median = statistics.median(seconds)
        computed = statistics.median(run["computed"] for run in runs[kind, order])
        print(f"{kind + ', ' + order:<38} {median:8.2f} ({min(seconds):.2f}, {max(seconds):.2f}) "
              f"{computed:>20.0f}  {of_lora / median:14.2f}")
        results.append({"kind": kind, "order": order, "seconds": median, "least": min(seconds),
                        "most": max(seconds), "computed": computed, "ratio": of_lora / median})
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(
            {"shape": arguments.shape, "tokens": arguments.tokens, "adapters": arguments.adapters,
             "rank": RANK, "question": QUESTION_TOKENS, "answer": ANSWER_TOKENS,
             "runs": arguments.runs, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
