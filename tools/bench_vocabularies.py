#!/usr/bin/env python3
"""What adapters cost whose files have the embedding and lm_head whole, over HTTP: of a vocabulary of two tokens more, of which
all other rows are the base model's, and where training has changed all of them; beside the same adapters without.

usage: bench_vocabularies.py [--shape SHAPE] [--adapters N] [--tokens N] [--runs N] [--aril BINARY] [--work DIR] [--json FILE]

First a server of each kind's adapters alone is started, which opens them: in turns, the median counts. Then all are loaded in
one server. The kinds take turns: each time N requests, one for each adapter of the kind, of 16 prompt tokens of their own. Rates
are medians of the runs; the first of them, which copies the adapters into the pool, says what that took.
"""

import argparse
import array
import concurrent.futures
import json
import pathlib
import random
import re
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools/demo")]
import aril_server
import bench_model
import client
import safetensors_file

RANK = 16
PROMPT_TOKENS = 16
STARTS = 3
KINDS = ("as they are", "two tokens more", "all rows changed")


def resize(adapter: pathlib.Path, out: pathlib.Path, tables: dict, is_trained: bool) -> None:
    """The adapter with both matrices, of two rows more, as peft saves them where a vocabulary was resized."""
    out.mkdir(parents=True)
    config = json.loads((adapter / "adapter_config.json").read_text())
    if is_trained:
        config["modules_to_save"] = ["embed_tokens", "lm_head"]
    (out / "adapter_config.json").write_text(json.dumps(config))
    tensors = safetensors_file.read(adapter / "adapter_model.safetensors")
    draw = random.Random(adapter.name)
    for module, (dtype, (rows, cols), data) in tables.items():
        assert dtype == "BF16"
        table = array.array("H", data)
        table.extend(draw.randrange(0x3C00, 0x3D00) for _ in range(2 * cols))
        if is_trained:
            for row in range(rows):  # by one unit of its last place
                table[row * cols + draw.randrange(cols)] ^= 1
        tensors[f"base_model.model.{module}.weight"] = (dtype, [rows + 2, cols], table.tobytes())
    safetensors_file.write(out / "adapter_model.safetensors", tensors)


def make_adapters(arguments) -> dict:
    """Folders by kind."""
    model, plain = arguments.work / "model", arguments.work / KINDS[0]
    if not plain.is_dir():
        bench_model.synthesize(arguments.aril, arguments.shape, model, plain, arguments.adapters, RANK)
    tables = {}
    folders = {KINDS[0]: sorted(plain.iterdir())}
    for kind in KINDS[1:]:
        folders[kind] = [arguments.work / kind / adapter.name for adapter in folders[KINDS[0]]]
        for adapter, out in zip(folders[KINDS[0]], folders[kind]):
            if out.is_dir():
                continue
            if not tables:
                weights = {}
                for file in model.glob("*.safetensors"):
                    weights |= safetensors_file.read(file)
                tables = {name.removesuffix(".weight"): weights[name]
                          for name in ("model.embed_tokens.weight", "lm_head.weight")}
            resize(adapter, out, tables, is_trained=kind == KINDS[2])
    return folders


def metrics(url: str) -> dict:
    """Bytes of adapters in the pool, and what copying them there has taken."""
    _, text = aril_server.request(url + "/metrics", "GET")
    values = {}
    for name, value in re.findall(r"^(aril_\S+) (\S+)$", text, re.MULTILINE):
        values[name] = float(value)
    pages = sum(value for name, value in values.items()
                if name.startswith("aril_pool_pages") and "adapter" in name)
    return {"bytes": pages * values["aril_pool_page_bytes"],
            "copy_seconds": values["aril_adapter_load_seconds_sum"]}


def seconds_to_start(arguments, flags: list) -> float:
    start = time.monotonic()
    with aril_server.Server(flags, arguments.work / "start.log", arguments.aril):
        return time.monotonic() - start


def seconds_for(url: str, names: list, vocab_size: int, draw: random.Random, tokens: int) -> float:
    def ask(name: str) -> None:
        prompt = [draw.randrange(3, vocab_size) for _ in range(PROMPT_TOKENS)]
        with client.Connection(url, timeout=600) as asking:
            asking.post("/v1/completions", {"model": name, "prompt": prompt, "max_tokens": tokens,
                                            "temperature": 0, "ignore_eos": True})
    with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
        start = time.monotonic()
        for _ in pool.map(ask, names):
            pass
        return time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="tinyllama-1.1b")
    parser.add_argument("--adapters", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=32, help="of each answer")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--aril", type=pathlib.Path, default=ROOT / "build/release/aril")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/bench/vocabularies")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.work /= arguments.shape
    arguments.work.mkdir(parents=True, exist_ok=True)
    model = ["--model", arguments.work / "model", "--served-model-name", "base", "--lora-modules"]
    names, flags = {}, {}
    for number, (kind, folders) in enumerate(make_adapters(arguments).items()):
        names[kind] = [f"{number}-{folder.name}" for folder in folders]
        flags[kind] = [f"{name}={folder}" for name, folder in zip(names[kind], folders)]
    starts = {kind: [] for kind in KINDS}
    for _ in range(STARTS):
        for kind in KINDS:
            starts[kind].append(seconds_to_start(arguments, model + flags[kind]))
    vocab_size = json.loads((arguments.work / "model/config.json").read_text())["vocab_size"]
    draw = random.Random(1)
    seconds, costs = {kind: [] for kind in KINDS}, {}
    with aril_server.Server(model + sum(flags.values(), []), arguments.work / "serve.log", arguments.aril) as server:
        for run in range(arguments.runs + 1):
            for kind in KINDS:
                before = metrics(server.url)
                took = seconds_for(server.url, names[kind], vocab_size, draw, arguments.tokens)
                if run > 0:
                    seconds[kind].append(took)
                    continue
                after = metrics(server.url)
                costs[kind] = {key: (after[key] - before[key]) / arguments.adapters for key in after}
    first = statistics.median(seconds[KINDS[0]])
    tokens = arguments.adapters * arguments.tokens
    results = []
    print(f"{arguments.shape}, bfloat16, {arguments.adapters} adapters of rank {RANK} at a time, "
          f"median (least, most) of {arguments.runs} runs\n")
    print(f"{'':<17} {'start, s':>8} {'MiB in the pool':>15} {'copy, s':>8} {'tokens/s':>9} {'spread':>16}  × {KINDS[0]}")
    for kind in KINDS:
        median = statistics.median(seconds[kind])
        rates = [tokens / s for s in (median, max(seconds[kind]), min(seconds[kind]))]
        mib = costs[kind]["bytes"] / (1 << 20)
        start = statistics.median(starts[kind])
        print(f"{kind:<17} {start:8.2f} {mib:15.1f} {costs[kind]['copy_seconds']:8.3f} {rates[0]:9.1f} "
              f"{rates[1]:7.1f} … {rates[2]:5.1f}  {first / median:.2f}")
        results.append({"kind": kind, "start_seconds": start, "pool_mib": mib,
                        "copy_seconds": costs[kind]["copy_seconds"],
                        "tokens_per_second": rates[0], "least": rates[1], "most": rates[2],
                        "ratio": first / median})
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(
            {"shape": arguments.shape, "adapters": arguments.adapters, "rank": RANK,
             "tokens": arguments.tokens, "runs": arguments.runs, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
