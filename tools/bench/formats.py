#!/usr/bin/env python3
"""What formats of outputs, and tools, cost a server: the same chats without and with several, in turns.

usage: formats.py [--url URL] [--clients N] [--tokens N] [--passes N] [--json FILE]

Prints tokens per second of each format, and the ratio to text without one in the same pass: medians of all
passes. No text of these formats ends before the tokens that are asked for. The model's chat template must show
tools.
"""

import argparse
import concurrent.futures
import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "demo"))
import client

# From the one that meets the same state with every token to the one that meets a new one with every
# character.
FORMATS = {
    "none": {},
    "any text": {"structured_outputs": {"regex": r"[^\x00]*"}},
    "text that may call a tool": {"tools": [{"type": "function", "function": {
        "name": "weather", "parameters": {
            "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]},
    "list of strings": {"structured_outputs": {"json": {
        "type": "array", "minItems": 1000, "items": {"type": "string"}}}},
    "string with minLength": {"structured_outputs": {"json": {
        "type": "string", "minLength": 20_000}}},
}


def tokens_per_second(url: str, model: str, extra: dict, options, seed: int) -> float:
    """Of all clients together."""
    def ask(idx: int) -> int:
        with client.Connection(url, timeout=600) as asking:
            answer = asking.post("/v1/chat/completions", {
                "model": model, "messages": [{"role": "user", "content": f"Request {idx}"}],
                "max_tokens": options.tokens, "temperature": 1, "seed": seed + idx, "ignore_eos": True, **extra})
        return answer["usage"]["completion_tokens"]

    began = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(options.clients) as pool:
        counts = list(pool.map(ask, range(options.clients)))
    seconds = time.perf_counter() - began
    if counts != [options.tokens] * options.clients:
        raise client.Failure(f"answers of {counts} tokens, expected {options.tokens} each")
    return sum(counts) / seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path, help="file to write all numbers to")
    options = parser.parse_args()
    with client.Connection(options.url) as asking:
        model = json.loads(asking.get("/v1/models"))["data"][0]["id"]
    rates = {name: [] for name in FORMATS}
    for pass_idx in range(options.passes):
        for name, extra in FORMATS.items():
            seed = 1000 * pass_idx
            rates[name].append(tokens_per_second(options.url, model, extra, options, seed))
    print(f"| format | tokens/s, {options.clients} clients | beside none |\n|---|---|---|")
    for name, values in rates.items():
        ratios = sorted(rate / none for rate, none in zip(values, rates["none"]))
        print(f"| {name} | {statistics.median(values):.1f} | {statistics.median(ratios):.2f} "
              f"({ratios[0]:.2f} to {ratios[-1]:.2f}) |")
    if options.json is not None:
        options.json.write_text(json.dumps({"command": sys.argv, "tokens_per_second": rates}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
