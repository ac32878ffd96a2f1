#!/usr/bin/env python3
"""What others' formats cost a client: how long it waits for its next token, beside others, in turns.

usage: format_neighbours.py [--url URL] [--key KEY] [--others-key KEY] [--others N] [--tokens N] [--passes N]
                            [--json FILE]

One client's stream, of plain text and of a format that counts characters: alone, beside others' plain text, beside
others' formats that each lead to new states with every token, and as many that are refused in the end (an
expression of thousands of empty alternatives). Prints the median and the longest of its gaps between tokens,
medians and the worst of all passes.
"""

import argparse
import json
import pathlib
import statistics
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "demo"))
import client

STREAMS = {
    "plain text": {},
    "string with minLength": {"structured_outputs": {"json": {"type": "string", "minLength": 20_000}}},
}


def many_states(number: int) -> dict:
    """Which of the last characters were vowels is part of the state."""
    expression = rf"[\x01-\x7f]*[aeiou][\x01-\x7f]{{{20 + number}}}"
    return {"structured_outputs": {"regex": expression}}


def many_nodes(number: int) -> dict:
    """Each character passes thousands of nodes."""
    letter = r"[\x00-\x7f]"
    expression = f"(?:{letter}(?:{'|' * 3900}))*(?:[acegikmoqsuwy]{letter}{{{20 + number}}})"
    return {"structured_outputs": {"regex": expression}}


OTHERS = {"alone": None, "plain text": lambda number: {}, "many states": many_states, "many nodes": many_nodes}


class Others:
    """Clients that ask again and again, until `stop`."""

    def __init__(self, options, model: str, make_extra):
        self._ends = threading.Event()
        self.num_refused = 0
        self._threads = [threading.Thread(target=self._run, args=(options, model, make_extra, number))
                         for number in range(options.others if make_extra is not None else 0)]
        for thread in self._threads:
            thread.start()

    def _run(self, options, model: str, make_extra, number: int) -> None:
        with client.Connection(options.url, timeout=600, key=options.others_key) as asking:
            for turn in range(10_000):
                if self._ends.is_set():
                    return
                body = {"model": model, "prompt": f"Other {number}, {turn}", "max_tokens": options.tokens,
                        "temperature": 1, "ignore_eos": True, **make_extra(options.others * turn + number)}
                try:
                    asking.post("/v1/completions", body)
                except client.Failure:
                    self.num_refused += 1

    def stop(self) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()


def gaps(options, model: str, extra: dict) -> list[float]:
    """In milliseconds."""
    with client.Connection(options.url, timeout=600, key=options.key) as asking:
        body = {"model": model, "prompt": "One", "max_tokens": options.tokens, "temperature": 1, "ignore_eos": True,
                **extra}
        times = [seconds for seconds, _ in asking.stream("/v1/completions", body)]
    return [1000 * (later - earlier) for earlier, later in zip(times, times[1:])]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--key", help="API key of the client that is measured")
    parser.add_argument("--others-key", help="API key of the others")
    parser.add_argument("--others", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path, help="file to write all numbers to")
    options = parser.parse_args()
    with client.Connection(options.url, key=options.key) as asking:
        model = json.loads(asking.get("/v1/models"))["data"][0]["id"]
    results = {}
    for _ in range(options.passes):
        for others_name, make_extra in OTHERS.items():
            others = Others(options, model, make_extra)
            for stream_name, extra in STREAMS.items():
                found = gaps(options, model, extra)
                results.setdefault((stream_name, others_name), []).append((statistics.median(found), max(found)))
            others.stop()
    print(f"| stream | beside {options.others} of | gap, ms | beside alone | longest gap, ms |\n|---|---|---|---|---|")
    for (stream_name, others_name), values in sorted(results.items()):
        alone = results[stream_name, "alone"]
        median = statistics.median(value for value, _ in values)
        ratio = statistics.median(value / quiet for (value, _), (quiet, _) in zip(values, alone))
        longest = statistics.median(value for _, value in values)
        worst = max(value for _, value in values)
        print(f"| {stream_name} | {others_name} | {median:.1f} | {ratio:.2f} | {longest:.0f} (at worst {worst:.0f}) |")
    if options.json is not None:
        by_name = {f"{stream}, {others}": values for (stream, others), values in results.items()}
        options.json.write_text(json.dumps({"command": sys.argv, "median_and_longest_gap_ms": by_name}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
