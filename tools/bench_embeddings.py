#!/usr/bin/env python3
"""What embeddings and classes cost, over HTTP: beside the same prompts with one token of answer, and of adapters beside the
base model.

usage: bench_embeddings.py [--shape SHAPE] [--texts N] [--tokens N] [--runs N] [--aril BINARY] [--work DIR]
                           [--peer PYTHON] [--json FILE]

All texts are different, and are sent as token ids: no prefix is found cached, and no tokenizer is measured. The ways to ask
take turns; each figure is the median of its runs. With --peer, a Python that has torch, transformers and peft, the classes
of the same classifiers by these, too, behind all else.
"""

import argparse
import array
import concurrent.futures
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools/demo")]
import aril_server
import bench_model
import client
import safetensors_file

ADAPTERS = 16
RANK = 16
LABELS = 16
CLASSIFIER = "classifier-"  # begins the name of one


def make_classifier(adapter: pathlib.Path, classifier: pathlib.Path, hidden_size: int) -> None:
    """The same adapter with a head, of random weights."""
    classifier.mkdir(parents=True)
    config = json.loads((adapter / "adapter_config.json").read_text())
    (classifier / "adapter_config.json").write_text(json.dumps({**config, "task_type": "SEQ_CLS"}))
    tensors = safetensors_file.read(adapter / "adapter_model.safetensors")
    draw = random.Random(adapter.name)
    head = array.array("f", (draw.gauss(0, 0.02) for _ in range(LABELS * hidden_size))).tobytes()
    tensors["base_model.model.score.weight"] = ("F32", [LABELS, hidden_size], head)
    safetensors_file.write(classifier / "adapter_model.safetensors", tensors)


def make_model(arguments) -> list:
    """The flags of a server of a model, its adapters, and these as classifiers, with random weights."""
    model, adapters = arguments.work / "model", arguments.work / "adapters"
    if not adapters.is_dir():
        bench_model.synthesize(arguments.aril, arguments.shape, model, adapters, ADAPTERS, RANK)
    hidden_size = json.loads((model / "config.json").read_text())["hidden_size"]
    flags = ["--model", model, "--adapters", adapters, "--served-model-name", "base"]
    for adapter in sorted(adapters.iterdir()):
        classifier = arguments.work / "classifiers" / adapter.name
        if not classifier.is_dir():
            make_classifier(adapter, classifier, hidden_size)
        flags += ["--lora-modules", f"{CLASSIFIER}{adapter.name}={classifier}"]
    return flags


def requests_of(way: str, texts: list, names: list) -> list:
    """(path, body) of the requests that together ask for all texts."""
    if way == "embeddings, one request":
        return [("/v1/embeddings", {"model": "base", "input": texts, "encoding_format": "base64"})]
    requests = []
    for i in range(ADAPTERS):
        some = texts[i::ADAPTERS]
        if way.startswith("classes"):
            requests.append(("/v1/classify", {"model": CLASSIFIER + names[i], "input": some}))
        elif way == "completions":
            requests.append(("/v1/completions", {"model": "base", "prompt": some, "max_tokens": 1}))
        else:
            model = names[i] if way.endswith("adapters") else "base"
            requests.append(("/v1/embeddings", {"model": model, "input": some,
                                                "encoding_format": "base64"}))
    return requests


WAYS = ["completions", "embeddings", "embeddings, one request",
        f"embeddings of {ADAPTERS} adapters", f"classes of {ADAPTERS} classifiers"]
PEER = "the same, transformers + PEFT"


def seconds_for(url: str, requests: list) -> float:
    def ask(request) -> None:
        with client.Connection(url, timeout=600) as asking:
            asking.post(*request)
    with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
        start = time.monotonic()
        for _ in pool.map(ask, requests):
            pass
        return time.monotonic() - start


def peer_seconds(arguments) -> list:
    """Of each run of transformers and PEFT."""
    options = {"model": arguments.work / "model", "classifiers": arguments.work / "classifiers",
               "labels": LABELS, "texts": arguments.texts, "tokens": arguments.tokens,
               "runs": arguments.runs, "threads": len(os.sched_getaffinity(0))}
    done = subprocess.run([arguments.peer, ROOT / "tools/bench/peft_classify.py",
                           *(f"--{name}={value}" for name, value in options.items())],
                          check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="tinyllama-1.1b")
    parser.add_argument("--texts", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=64, help="of each text")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--aril", type=pathlib.Path, default=ROOT / "build/release/aril")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/bench/embeddings")
    parser.add_argument("--peer", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.work /= arguments.shape
    arguments.work.mkdir(parents=True, exist_ok=True)
    flags = make_model(arguments)
    names = sorted(path.name for path in (arguments.work / "adapters").iterdir())
    vocab_size = json.loads((arguments.work / "model/config.json").read_text())["vocab_size"]
    draw = random.Random(1)
    seconds = {way: [] for way in WAYS}
    with aril_server.Server(flags, arguments.work / "serve.log", arguments.aril) as server:
        for run in range(arguments.runs + 1):
            for way in WAYS:
                texts = [[draw.randrange(3, vocab_size) for _ in range(arguments.tokens)]
                         for _ in range(arguments.texts)]
                took = seconds_for(server.url, requests_of(way, texts, names))
                if run > 0:  # the first one loads adapters
                    seconds[way].append(took)
    if arguments.peer is not None:
        seconds[PEER] = peer_seconds(arguments)
    first = statistics.median(seconds[WAYS[0]])
    results = []
    print(f"{arguments.shape}, bfloat16, {arguments.texts} texts of {arguments.tokens} tokens, "
          f"median (least, most) of {arguments.runs} runs\n")
    print(f"{'':<30} {'texts/s':>8} {'tokens/s':>9} {'spread':>16}  × {WAYS[0]}")
    for way in seconds:
        median = statistics.median(seconds[way])
        rates = [arguments.texts / s for s in (median, max(seconds[way]), min(seconds[way]))]
        print(f"{way:<30} {rates[0]:8.2f} {rates[0] * arguments.tokens:9.0f} "
              f"{rates[1]:7.2f} … {rates[2]:5.2f}  {first / median:.2f}")
        results.append({"way": way, "texts_per_second": rates[0], "least": rates[1],
                        "most": rates[2], "ratio": first / median})
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(
            {"shape": arguments.shape, "texts": arguments.texts, "tokens": arguments.tokens,
             "runs": arguments.runs, "adapters": ADAPTERS, "rank": RANK, "results": results},
            indent=1) + "\n")


if __name__ == "__main__":
    main()
