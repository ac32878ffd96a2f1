#!/usr/bin/env python3
"""What policies do for users when more is asked for than can be served, over HTTP.

usage: bench_policies.py [--part PART] [--shape SHAPE] [--seconds N] [--seed N] [--aril BINARY]
                         [--work DIR] [--json FILE]

Overload: five times the requests that the server can serve, with and without policies; how many are
served in time, how soon the others are refused, and what memory that takes. Noisy: a tenant that asks
for a hundred times as much as another one, or for a few long prompts, in turns and in one line; how
long the other one waits, beside how long it waits alone. Everything is measured against the server's own peak, found first.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import aril_server

SLO_SECONDS = 6
BATCH = 16
ADAPTERS = 16
OVERLOAD = 5
NOISE = 100
KEYS = {"quiet": "quiet-key", "noisy": "noisy-key"}
# One core is left to HTTP and to the clients, or what they do counts as what policies do.
SERVE = ["--max-num-seqs", str(BATCH), "--threads", str(max(1, os.cpu_count() - 1))]
# Small enough to be touched whole in one run: what memory grows by in the next is something else.
SMALL_POOL = ["--pool-bytes", "96MiB"]
BOUNDED = ["--slo", f"{SLO_SECONDS}s", "--bound-by-slo"]
POLICIES = {
    "none": [],
    "bound": BOUNDED,
    "bound, early abort": [*BOUNDED, "--early-abort", "--order", "newest-when-overloaded"],
}
# A step of as many rows has some for prompts beside BATCH, and does not keep a newcomer waiting.
SMALL_STEPS = 5 * BATCH
TENANTS = {"one line": [], "turns": ["--fair-share"],
           "turns, small steps": ["--fair-share", "--max-num-batched-tokens", str(SMALL_STEPS)]}
SHORT_PROMPTS = "uniform:8:32"
LONG_PROMPTS = "uniform:256:768"


@dataclasses.dataclass
class Bench:
    aril: pathlib.Path
    work: pathlib.Path
    seconds: int
    seed: int  # of the next load: prompts that came before would be found in the prefix cache

    def make_model(self, shape: str) -> list:
        """The flags of a server of that model and its adapters, with random weights."""
        model, adapters = self.work / "model", self.work / "adapters"
        if not adapters.is_dir():
            tokenizer = ROOT / "models/demo/base"
            self.run("synth", "model", "--shape", shape, "--tokenizer", tokenizer, "--seed", "1",
                     "--dtype", "bf16", "--out", model)
            self.run("synth", "adapters", "--model", model, "--count", ADAPTERS, "--ranks", "16",
                     "--targets", "q_proj,v_proj", "--seed", "1", "--out", adapters)
        return ["--model", model, "--adapters", adapters, *SERVE]

    def run(self, *arguments) -> None:
        subprocess.run([self.aril, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)

    def load(self, server, arrivals: str, name: str, **kwargs) -> dict:
        """The medians of one load."""
        report = self.work / f"{name}.json"
        report.unlink(missing_ok=True)
        command = self.load_command(server, arrivals, **kwargs)
        done = subprocess.run([*command, "--json", report], capture_output=True, text=True,
                              check=False)
        if not report.exists():
            raise aril_server.Failure(done.stderr)
        median = json.loads(report.read_text())["results"][0]["median"]
        if median["errors"]:
            raise aril_server.Failure(f"{name}: {median['errors']} requests failed: {done.stderr}")
        return median

    def load_command(self, server, arrivals: str, seconds=None, key=None,
                     prompt_tokens=SHORT_PROMPTS) -> list:
        self.seed += 1
        count = (["--requests", 8 * BATCH] if arrivals.startswith("closed")
                 else ["--duration", f"{seconds or self.seconds}s"])
        arguments = ["bench", "serve", "--url", server.url, "--arrivals", arrivals, *count,
                     "--popularity", "power:1", "--prompt-tokens", prompt_tokens, "--output-tokens",
                     "uniform:4:12", "--cold", "--allow-refusals", "--max-in-flight", 8192, "--slo",
                     f"{SLO_SECONDS}s", "--seed", self.seed,
                     *(["--api-key", key] if key else [])]
        return [self.aril, *map(str, arguments)]

    def server(self, flags: list, name: str) -> aril_server.Server:
        return aril_server.Server(flags, self.work / f"{name}.log", self.aril)


def anonymous_mb(server: aril_server.Server) -> float:
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+)", status)[1]) / 1024


def find_peak(bench: Bench, flags: list) -> float:
    """Requests per second of a server that is never idle and lets nobody wait for long."""
    with bench.server(flags, "peak") as server:
        bench.load(server, f"closed:{2 * BATCH}", "warm")  # touches the pool, loads the adapters
        return bench.load(server, f"closed:{2 * BATCH}", "peak")["requests_per_s"]


def overload(bench: Bench, flags: list, peak: float) -> list:
    rows = []
    for policy, more in POLICIES.items():
        with bench.server([*flags, *SMALL_POOL, *more], "overload") as server:
            bench.load(server, f"closed:{2 * BATCH}", "warm")
            before = anonymous_mb(server)
            median = bench.load(server, f"poisson:{OVERLOAD * peak:.3f}", "overload")
            half = anonymous_mb(server)
            bench.load(server, f"poisson:{OVERLOAD * peak:.3f}", "again")
            after = anonymous_mb(server)
        rows.append({"policy": policy,
                     "in time, of peak": median["goodput_per_s"] / peak,
                     "served, of peak": median["requests_per_s"] / peak,
                     "first token p99 s": median["first_token"]["p99_ms"] / 1000,
                     "refused": median["refused"] / median["requests"],
                     "refused in p99 ms": median["refusal"]["p99_ms"],
                     "memory MB": half - before,
                     "more, 2nd run": after - half})
        print(f"overload, {policy}: {rows[-1]}", file=sys.stderr)
    return rows


def noisy(bench: Bench, flags: list, peak: float) -> list:
    quiet = f"poisson:{OVERLOAD * peak / NOISE:.3f}"
    noises = {f"{NOISE} times as many requests": (OVERLOAD * peak, SHORT_PROMPTS),
              "long prompts": (peak / 4, LONG_PROMPTS)}
    keys = bench.work / "keys"
    keys.write_text("".join(f"{key} {tenant}\n" for tenant, key in KEYS.items()))
    keys.chmod(0o600)
    flags = [*flags, "--api-key-file", keys]
    rows = []
    for policy, more in TENANTS.items():
        for noise, (rate, prompt_tokens) in noises.items():
            with bench.server([*flags, *more], "noisy") as server:
                bench.load(server, f"closed:{2 * BATCH}", "warm", key=KEYS["noisy"])
                alone = bench.load(server, quiet, "alone", seconds=3 * bench.seconds,
                                   key=KEYS["quiet"])
                # Its queue would take minutes to be served after the end.
                with subprocess.Popen(
                        bench.load_command(server, f"poisson:{rate:.3f}",
                                           seconds=4 * bench.seconds, key=KEYS["noisy"],
                                           prompt_tokens=prompt_tokens),
                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as other:
                    beside = bench.load(server, quiet, "beside", seconds=3 * bench.seconds,
                                        key=KEYS["quiet"])
                    if other.poll() is not None:
                        raise aril_server.Failure("the noise ended too soon")
                    other.kill()
            rows.append({"the other": noise,
                         "tenants": policy,
                         "requests": beside["requests"],
                         "refused": beside["refused"] / beside["requests"],
                         "alone p50 ms": alone["first_token"]["p50_ms"],
                         "alone p99 ms": alone["first_token"]["p99_ms"],
                         "beside p50 ms": beside["first_token"]["p50_ms"],
                         "beside p99 ms": beside["first_token"]["p99_ms"],
                         "p99, of alone": (beside["first_token"]["p99_ms"]
                                           / max(alone["first_token"]["p99_ms"], 1e-9))})
            print(f"noisy, {policy}: {rows[-1]}", file=sys.stderr)
    return rows


def print_table(title: str, rows: list) -> None:
    cells = [list(rows[0])] + [
        [value if isinstance(value, str) else f"{value:.2f}" for value in row.values()] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells)]
    print(title)
    for line in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--part", choices=["all", "overload", "noisy"], default="all")
    parser.add_argument("--shape", default="qwen2.5-0.5b", help="of the model, with random weights")
    parser.add_argument("--seconds", type=int, default=60, help="of each load")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--aril", type=pathlib.Path, default=ROOT / "build/release/aril")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/bench/policies")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    bench = Bench(options.aril, options.work, options.seconds, options.seed)
    flags = bench.make_model(options.shape)
    peak = find_peak(bench, flags)
    print(f"peak: {peak:.2f} requests/s", file=sys.stderr)
    result = {"shape": options.shape, "seed": options.seed, "seconds": options.seconds,
              "peak_requests_per_s": peak}
    if options.part != "noisy":
        result["overload"] = overload(bench, flags, peak)
        print_table(f"{OVERLOAD} times what can be served ({peak:.2f} requests/s)",
                    result["overload"])
    if options.part != "overload":
        result["noisy"] = noisy(bench, flags, peak)
        print_table("A tenant beside one that asks for more than can be served", result["noisy"])
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
