#!/usr/bin/env python3
"""Puts every task's held-out cases to every adapter and the base model, through a running server.

    python3 tools/demo/evaluate.py [--url http://127.0.0.1:8000] [--cases 200] [--json FILE]

Without --url it starts build/release/aril itself. Prints the share of exact answers, a row for each
model and a column for each task: first with all tenants mixed, `--concurrency` requests at a time,
then one request at a time. Every answer of the two must be the same. Then the classifier labels its task's cases. Exits with 1 if an
answer is not the same, if an adapter gives less than 0.90 of its own task's answers, or if anything else gives more than 0.10 of them.
"""

import argparse
import concurrent.futures
import json
import pathlib
import random
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import aril_server
import client
from tasks import TASKS

BASE = "demo"
CLASSIFIER, CLASSIFIED = "triage", "routing"  # the task whose answers are its labels
CLASSIFIERS = aril_server.ROOT / "models/demo/classifiers"
OWN_AT_LEAST = 0.90
OTHER_AT_MOST = 0.10
MAX_TOKENS = 96
SEED = 2026


def held_out_cases(count: int) -> dict:
    """`count` different cases of each task."""
    cases = {}
    for name, task in TASKS.items():
        rng = random.Random(f"{SEED} {name}")
        found = {}
        while len(found) < count:
            case = task.case(rng, held_out=True)
            found[case.question] = case
        cases[name] = list(found.values())
    return cases


def answers_of(url: str, requests: list, concurrency: int, label: str) -> list[str]:
    """The answers to (model, question) pairs, in their order."""
    local = threading.local()
    connections = []
    done = 0
    lock = threading.Lock()

    def answer(request) -> str:
        nonlocal done
        if not hasattr(local, "connection"):
            local.connection = client.Connection(url)
            connections.append(local.connection)
        body = client.chat(*request, MAX_TOKENS)
        text = local.connection.post("/v1/chat/completions", body)["choices"][0]["message"]["content"]
        with lock:
            done += 1
            if sys.stderr.isatty() and done % 100 == 0:
                print(f"\r{label}: {done} of {len(requests)}", end="", file=sys.stderr, flush=True)
        return text

    try:
        with concurrent.futures.ThreadPoolExecutor(concurrency) as pool:
            answers = list(pool.map(answer, requests))
    finally:
        for connection in connections:
            connection.close()
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    return answers


def labels_of(url: str, questions: list) -> list[str]:
    with client.Connection(url) as connection:
        answer = connection.post("/v1/classify", {"model": CLASSIFIER, "input": questions})
    return [item["label"] for item in answer["data"]]


def table_of(triples, answers) -> dict:
    """{model: {task: share of exact answers}}"""
    right: dict = {}
    for (model, task, case), answer in zip(triples, answers):
        right.setdefault(model, {}).setdefault(task, []).append(answer == case.answer)
    return {model: {task: sum(marks) / len(marks) for task, marks in row.items()}
            for model, row in right.items()}


def show(table: dict) -> None:
    print(f"{'model':<12}" + "".join(f"{task:>12}" for task in TASKS))
    for model, row in table.items():
        print(f"{model:<12}" + "".join(f"{row[task]:>12.3f}" for task in TASKS))


def shortcomings(table: dict) -> list[str]:
    found = []
    for model, row in table.items():
        for task, share in row.items():
            if model == task and share < OWN_AT_LEAST:
                found.append(f"{model} answers {share:.3f} of its own task, less than {OWN_AT_LEAST}")
            if model != task and share > OTHER_AT_MOST:
                found.append(f"{model} answers {share:.3f} of {task}, more than {OTHER_AT_MOST}")
    return found


def evaluate(url: str, args) -> int:
    cases = held_out_cases(args.cases)
    triples = [(model, task, case) for model in [*TASKS, BASE] for task in TASKS
               for case in cases[task]]
    # Neighbours are of different tenants: a batch holds as many adapters as it can.
    random.Random(SEED).shuffle(triples)
    requests = [(model, case.question) for model, _, case in triples]
    mixed = answers_of(url, requests, args.concurrency, "mixed")
    alone = answers_of(url, requests, 1, "one at a time")

    table = {model: table_of(triples, mixed)[model] for model in [*TASKS, BASE]}
    print(f"Exact answers to {args.cases} held-out cases of each task, {args.concurrency} requests at "
          "a time, all tenants mixed:\n")
    show(table)
    differing = sum(a != b for a, b in zip(mixed, alone))
    print(f"\n{len(requests)} answers; one request at a time, {differing} of them are different.")
    labels = labels_of(url, [case.question for case in cases[CLASSIFIED]])
    labelled = sum(label == case.answer for label, case in zip(labels, cases[CLASSIFIED])) / len(labels)
    print(f"{CLASSIFIER} gives {labelled:.3f} of {CLASSIFIED}'s cases their label.")
    found = shortcomings(table)
    if labelled < OWN_AT_LEAST:
        found.append(f"{CLASSIFIER} labels {labelled:.3f} of its cases, less than {OWN_AT_LEAST}")
    if differing:
        found.append(f"{differing} answers depend on what else was in the batch")
    for text in found:
        print(f"FAILED: {text}")
    if args.json:
        args.json.write_text(json.dumps({"cases": args.cases, "concurrency": args.concurrency,
                                         "table": table, "different_alone": differing,
                                         "labelled": labelled}, indent=1))
    return 1 if found else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", help="of a server with --demo and the classifier [a new one]")
    parser.add_argument("--aril", type=pathlib.Path, default=aril_server.ROOT / "build/release/aril",
                        help="the program, without --url")
    parser.add_argument("--cases", type=int, default=200, help="of each task")
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--json", type=pathlib.Path, help="write the table there, too")
    args = parser.parse_args()
    if args.url:
        return evaluate(args.url, args)
    log = aril_server.ROOT / "build/demo/evaluate.log"
    flags = ["--demo", "--lora-modules", f"{CLASSIFIER}={CLASSIFIERS / CLASSIFIER}"]
    with aril_server.Server(flags, log, args.aril) as server:
        return evaluate(server.url, args)


if __name__ == "__main__":
    sys.exit(main())
