#!/usr/bin/env python3
"""The same rising and falling load on a real cluster and on its simulation.

usage: bench_ramp.py [--shape SHAPE] [--minutes N] [--load SHARE] [--seed N] [--step-model FILE] [--aril BINARY] [--work DIR] [--json FILE]

Four runners with one thread each, all on one core, each held to a fixed share of it by a control
group (as root), so that each is a device of its own however busy the others are: they share no time,
and never read memory at once. Everything else has the other cores. Steps are measured under the same
hold, a step model is fitted to them, and Punica's ramp (figure 13) is drawn so that its peak needs
--load of what the four can do. Then the ramp runs in `aril simulate` and on the real processes:
runner-seconds (of runners that have sequences), tokens per second, and how long users waited.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import aril_cluster
import aril_server

RUNNERS = 4
BATCH = 16
ROWS = 128
RANK = 16
MAX_TOKENS = 256  # of prompt and output together
DRAIN_MARGIN = 2
POOL = "1GiB"
CORE = 0  # of the runners
SHARE = 0.23  # of it, a runner's: four leave a little
PERIOD_US = 10_000
LOOK_SECONDS = 0.5  # as often as the simulation looks


class Hold:
    """A control group in which a process gets SHARE of CORE, version 1 or 2 of them."""

    def __init__(self, name: str):
        root = pathlib.Path("/sys/fs/cgroup")
        is_v2 = (root / "cgroup.controllers").exists()
        self.path = (root if is_v2 else root / "cpu") / f"aril-ramp-{os.getpid()}-{name}"
        quota = int(SHARE * PERIOD_US)
        try:
            if is_v2:
                (root / "cgroup.subtree_control").write_text("+cpu")
            self.path.mkdir()
            if is_v2:
                (self.path / "cpu.max").write_text(f"{quota} {PERIOD_US}")
            else:
                (self.path / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (self.path / "cpu.cfs_quota_us").write_text(str(quota))
        except OSError as error:
            raise aril_server.Failure(f"control groups cannot be made here ({error}); run as root"
                                      ) from error

    def join(self) -> None:
        self.add(os.getpid())

    def add(self, pid: int) -> None:
        (self.path / "cgroup.procs").write_text(str(pid))
        for task in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(task), {CORE})

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            self.path.rmdir()


class BusyRunners:
    """Looks at the runners' metrics now and then, in a thread."""

    def __init__(self, urls: list):
        self.urls, self.busy, self.looks, self.peak = urls, 0, 0, 0
        self.stopped = threading.Event()
        self.error = None
        self.started = time.monotonic()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        while not self.stopped.wait(max(0, self.started + self.looks * LOOK_SECONDS
                                        - time.monotonic())):
            try:
                busy = sum(self._sequences(url) > 0 for url in self.urls)
            except (OSError, aril_server.Failure) as error:
                self.error = error
                return
            self.busy += busy
            self.peak = max(self.peak, busy)
            self.looks += 1

    @staticmethod
    def _sequences(url: str) -> float:
        with urllib.request.urlopen(url + "/metrics", timeout=30) as answer:
            text = answer.read().decode()
        found = re.findall(r"^vllm:num_requests_(?:running|waiting)\S* (\S+)$", text, re.MULTILINE)
        if len(found) != 2:
            raise aril_server.Failure(f"{url}/metrics shows no sequences")
        return sum(map(float, found))

    def stop(self) -> float:
        """Runner-seconds."""
        self.stopped.set()
        self.thread.join()
        if self.error:
            raise aril_server.Failure(f"the runners' metrics: {self.error}")
        return self.busy * (time.monotonic() - self.started) / max(self.looks, 1)


class Ramp:
    def __init__(self, options):
        self.options, self.work, self.aril = options, options.work, options.aril
        self.model, self.adapters = self.work / "model", self.work / "adapters"
        self.steps, self.trace = self.work / "steps.json", self.work / "ramp.csv"

    def run(self, *arguments, hold: Hold = None) -> None:
        done = subprocess.run([self.aril, *map(str, arguments)], capture_output=True, text=True,
                              check=False, preexec_fn=hold.join if hold else None)
        if done.returncode != 0:
            raise aril_server.Failure(f"aril {arguments[0]}: {done.stderr}")

    def fit(self) -> dict:
        """The step model of a runner that is held."""
        if self.options.step_model:
            self.steps = self.options.step_model
            return json.loads(self.steps.read_text())
        hold = Hold("fit")
        try:
            self.run("bench", "step", "--shape", self.options.shape, "--threads", 1, "--batch",
                     "1,2,4,8,16", "--adapters", 8, "--rank", RANK, "--context", "32,160",
                     "--prefill", "8,16,32,64,128", "--steps", 6, "--passes", 3, "--step-model", self.steps,
                     hold=hold)
        finally:
            hold.remove()
        return json.loads(self.steps.read_text())

    def simulate(self, peak_rate: float) -> dict:
        """Leaves the requests in self.trace."""
        report = self.work / "simulated.json"
        spec = json.loads((self.model / "config.json").read_text())
        head_dim = spec.get("head_dim") or spec["hidden_size"] // spec["num_attention_heads"]
        kv = 2 * 2 * spec["num_hidden_layers"] * spec["num_key_value_heads"] * head_dim
        weights = next(self.adapters.glob("*/adapter_model.safetensors")).stat().st_size
        self.run("simulate", "--scenario", "punica-fig13", "--duration",
                 f"{self.options.minutes}min", "--peak-rate", peak_rate, "--max-tokens", MAX_TOKENS,
                 "--save-trace", self.trace, "--seed", self.options.seed, "--gpus", RUNNERS,
                 "--step-model", self.steps, "--max-num-seqs", BATCH, "--max-num-batched-tokens",
                 ROWS, "--pool-bytes", POOL, "--kv-bytes-per-token", kv,
                 "--adapter-bytes-per-rank", weights // RANK, "--ranks", RANK, "--drain-margin",
                 DRAIN_MARGIN, "--json", report)
        return json.loads(report.read_text())

    def measure(self, flat_batch: int) -> dict:
        report = self.work / "measured.json"
        report.unlink(missing_ok=True)
        flags = ("--model", self.model, "--adapters", self.adapters)
        # Removed when the processes in them have ended.
        with contextlib.ExitStack() as holds:
            with aril_cluster.Cluster(
                    self.aril, self.work / "cluster", runners=RUNNERS, flags=flags,
                    gateway_flags=("--served-model-name", "demo"),
                    scheduler_flags=("--flat-batch", flat_batch, "--drain-margin", DRAIN_MARGIN),
                    runner_flags=("--threads", 1, "--max-num-seqs", BATCH,
                                  "--max-num-batched-tokens", ROWS, "--pool-bytes", POOL),
            ) as cluster:
                cluster.wait_until_linked(cluster.gateways[0])
                for i, runner in enumerate(cluster.runners):
                    hold = Hold(str(i))
                    holds.callback(hold.remove)
                    hold.add(runner.process.pid)
                load = ("bench", "serve", "--url", cluster.urls[0], "--cold", "--allow-unchecked",
                        "--seed", self.options.seed)
                # All seats are taken once: what a process does when it touches memory for the first
                # time is not in the model.
                self.run(*load, "--arrivals", f"closed:{RUNNERS * BATCH}", "--requests",
                         2 * RUNNERS * BATCH, "--prompt-tokens", 32, "--output-tokens", 8,
                         "--popularity", "uniform")
                busy = BusyRunners(cluster.runner_status_urls)
                try:
                    self.run(*load, "--trace", self.trace, "--max-in-flight", 4096, "--json", report)
                finally:
                    seconds = busy.stop()
        median = json.loads(report.read_text())["results"][0]["median"]
        return {"runner_seconds": seconds, "peak": busy.peak, "median": median}


def compare(simulated: dict, measured: dict) -> list:
    """Rows of: what, simulated, measured, and their ratio."""
    there = simulated["variants"]["consolidating"]
    here = measured["median"]
    rows = [("runner-seconds", there["gpu_hours"] * 3600, measured["runner_seconds"]),
            ("busy runners, at most", there["peak_gpus"], measured["peak"]),
            ("tokens/s", there["tokens"] / there["seconds"], here["output_tokens_per_s"]),
            ("first token p50 ms", there["first_token_p50_s"] * 1e3, here["first_token"]["p50_ms"]),
            ("first token p99 ms", there["first_token_p99_s"] * 1e3, here["first_token"]["p99_ms"]),
            ("next token p50 ms", there["token_p50_s"] * 1e3, here["between_tokens"]["p50_ms"])]
    return [(what, one, other, other / one) for what, one, other in rows]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--shape", default="qwen2.5-0.5b", help="of the model, with random weights")
    parser.add_argument("--minutes", type=int, default=10, help="of the ramp")
    parser.add_argument("--load", type=float, default=0.7, help="at the peak, of what the runners can do")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--step-model", type=pathlib.Path, help="fitted before, under the same hold")
    parser.add_argument("--aril", type=pathlib.Path, default=ROOT / "build/release/aril")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/bench/ramp")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    others = os.sched_getaffinity(0) - {CORE}
    if not others:
        raise aril_server.Failure("the ramp needs a core beside that of the runners")
    os.sched_setaffinity(0, others)
    options.work.mkdir(parents=True, exist_ok=True)
    ramp = Ramp(options)
    if not ramp.adapters.is_dir():
        ramp.run("synth", "model", "--shape", options.shape, "--tokenizer",
                 ROOT / "models/demo/base", "--seed", 1, "--dtype", "bf16", "--out", ramp.model)
        ramp.run("synth", "adapters", "--model", ramp.model, "--count", 64, "--ranks", RANK,
                 "--seed", 1, "--out", ramp.adapters)
    model = ramp.fit()
    print(f"steps: {model}", file=sys.stderr)
    # What a request costs at least says how many a second the runners can do.
    guess = ramp.simulate(1.0)
    cost = guess["gpu_hours_lower_bound"] * 3600 / guess["requests"]
    rate = options.load * RUNNERS / cost
    simulated = ramp.simulate(rate)
    print(f"{simulated['requests']} requests, {rate:.2f} a second at the peak, flat up to a batch of "
          f"{simulated['flat_batch']}", file=sys.stderr)
    measured = ramp.measure(simulated["flat_batch"])
    rows = compare(simulated, measured)
    print(f"{'':22}  {'simulated':>10}  {'measured':>10}  ratio")
    for what, one, other, ratio in rows:
        print(f"{what:22}  {one:10.1f}  {other:10.1f}  {ratio:5.2f}")
    if options.json:
        options.json.write_text(json.dumps({
            "shape": options.shape, "minutes": options.minutes, "seed": options.seed,
            "steps": model, "peak_rate": rate, "simulated": simulated, "measured": measured,
            "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
