#!/usr/bin/env python3
"""Kills and pauses the processes of a cluster under load, and checks what its clients get.

usage: cluster_chaos.py [--kills 200] [--gateway-kills 50] [--seed N] [--release-seconds 2]
                        [--aril BINARY] [--work DIR] [--json FILE]

One etcd, two schedulers, two gateways and four runners serve the demo model on this machine. Every
stream must be complete and equal to what `aril serve` gives, bit for bit, whatever is killed (SIGKILL)
or paused past its lease and its connections' keep-alive (SIGSTOP, then SIGCONT): runners, schedulers,
etcd. Where a gateway is killed its own streams break visibly, runners release them within
--release-seconds, and nobody else notices. Exits with 1 at the first violation; the seed replays the choice of faults, not
their timing.
"""

import argparse
import collections
import http.client
import json
import pathlib
import random
import sys
import threading
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import aril_cluster
import aril_server

NUM_CLIENTS = 6
PAUSE_SECONDS = 7.0  # the lease is 2 s, and keep-alive notices after 5
STREAM_TIMEOUT = 90
SKIPPED = 77


class Broken(Exception):
    """A stream that ended without its end."""


def stream(url: str, body: dict, on_token=None) -> str:
    """The text of a streamed completion; Broken if the connection ends before the stream does."""
    where = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=STREAM_TIMEOUT)
    try:
        connection.request("POST", "/v1/completions", json.dumps(body | {"stream": True}),
                           {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise aril_server.Failure(f"status {response.status}: {response.read().decode()}")
        text, finish = "", None
        for line in response:
            line = line.decode().strip()
            if not line.startswith("data: "):
                continue
            if line == "data: [DONE]":
                if finish is None:
                    raise aril_server.Failure("the stream ended without a finish_reason")
                return text
            event = json.loads(line.removeprefix("data: "))
            if "error" in event:
                raise aril_server.Failure(f"an error event: {event['error']}")
            choice = event["choices"][0]
            text += choice["text"]
            finish = choice.get("finish_reason") or finish
            if on_token:
                on_token()
        raise Broken("the stream broke off")
    except (ConnectionError, http.client.HTTPException, TimeoutError) as error:
        raise Broken(str(error)) from error
    finally:
        connection.close()


def cases_of(url: str, count: int, seed: int) -> list:
    """Requests of different adapters, lengths and ways of sampling, each with its answer."""
    models = [model["id"] for model in json.loads(aril_server.request(url + "/v1/models", "GET")[1])[
        "data"]]
    rng = random.Random(seed)
    cases = []
    for i in range(count):
        body = {"model": models[i % len(models)], "prompt": f"Anna has {rng.randrange(100)} apples",
                "max_tokens": rng.choice([20, 80, 200]), "ignore_eos": True, "temperature": 0}
        if i % 4 == 3:  # position-keyed sampling is as reproducible as greedy
            body |= {"temperature": 0.8, "seed": rng.randrange(1000), "top_p": 0.9}
        cases.append((body, stream(url, body)))
    return cases


class Load:
    """Clients that ask again and again, and compare."""

    def __init__(self, cluster, cases: list, seed: int):
        self.cluster, self.cases, self.seed = cluster, cases, seed
        self.stopping = threading.Event()
        self.lock = threading.Lock()
        self.problems, self.num_complete, self.num_tokens, self.num_broken = [], 0, 0, 0
        self.gateway_down = [False] * len(cluster.urls)
        self.last_token = collections.defaultdict(lambda: None)
        self.longest_gap = 0.0
        self.threads = [threading.Thread(target=self._ask, args=(i,)) for i in range(NUM_CLIENTS)]
        for thread in self.threads:
            thread.start()

    def _ask(self, number: int) -> None:
        rng = random.Random(self.seed * 1000 + number)
        gateway = number % len(self.cluster.urls)
        while not self.stopping.is_set():
            if self.gateway_down[gateway]:
                time.sleep(0.05)
                continue
            body, expected = rng.choice(self.cases)
            self.last_token[number] = time.monotonic()
            try:
                text = stream(self.cluster.urls[gateway], body, lambda: self._on_token(number))
            except Broken as error:
                with self.lock:
                    if self.gateway_down[gateway]:
                        self.num_broken += 1
                    else:
                        self.problems.append(f"a stream of gateway {gateway}: {error}")
                continue
            except Exception as error:  # whatever it is, it is no complete stream
                with self.lock:
                    self.problems.append(f"a request of {body['model']}: {error!r}")
                continue
            with self.lock:
                self.num_complete += 1
                self.num_tokens += body["max_tokens"]
                if text != expected:
                    self.problems.append(f"{body}: expected {expected!r}, got {text!r}")

    def _on_token(self, number: int) -> None:
        now = time.monotonic()
        with self.lock:
            self.longest_gap = max(self.longest_gap, now - self.last_token[number])
            self.last_token[number] = now

    def take_gap(self) -> float:
        """The longest wait of a client for its next token since the last call, those that wait now
        included."""
        with self.lock:
            gap, self.longest_gap = self.longest_gap, 0.0
            return gap

    def stop(self) -> None:
        self.stopping.set()
        for thread in self.threads:
            thread.join()


class Chaos:
    """The faults, one after the other, and the waits of clients that each has caused."""

    def __init__(self, cluster, load, seed: int, release_seconds: float):
        self.cluster, self.load, self.rng = cluster, load, random.Random(seed)
        self.release_seconds = release_seconds
        self.gaps = collections.defaultdict(list)
        self.kinds = []

    def fault(self) -> None:
        if not self.kinds:  # each as often, in an order of its own each time
            self.kinds = [f"{verb} {role}" for verb in ("kill", "pause")
                          for role in ("runner", "scheduler", "etcd")]
            self.rng.shuffle(self.kinds)
        kind = self.kinds.pop()
        verb, role = kind.split()
        processes = {"runner": self.cluster.runners, "scheduler": self.cluster.schedulers,
                     "etcd": [self.cluster.etcd]}[role]
        process = self.rng.choice(processes)
        if verb == "kill":
            process.kill()
            time.sleep(self.rng.uniform(0.0, 1.0))
            process.start()
        else:
            process.pause()
            time.sleep(PAUSE_SECONDS)
            process.resume()
        self.settle(kind)

    def kill_gateway(self) -> None:
        index = self.rng.randrange(len(self.cluster.gateways))
        gateway = self.cluster.gateways[index]
        self.cluster.wait_until_linked(gateway)
        before = [runner.read_log().count("has gone") for runner in self.cluster.runners]
        self.load.gateway_down[index] = True
        killed = time.monotonic()
        gateway.kill()
        for runner, count in zip(self.cluster.runners, before):
            runner.wait_for_log("has gone", count + 1)
        released = time.monotonic() - killed
        if released > self.release_seconds:
            raise aril_server.Failure(f"a dead gateway's sequences were released after {released:.1f} s")
        self.gaps["kill gateway (released)"].append(released)
        gateway.start()
        self.cluster.wait_until_served(self.cluster.urls[index])
        self.load.gateway_down[index] = False
        self.load.take_gap()

    def settle(self, kind: str) -> None:
        """A few seconds for what the fault has begun; then everything must be well."""
        time.sleep(self.rng.uniform(1.0, 3.0))
        self.gaps[kind].append(self.load.take_gap())
        if self.load.problems:
            raise aril_server.Failure("; ".join(self.load.problems[:3]))


def report(chaos, load) -> dict:
    table = {kind: {"events": len(gaps), "p50_s": round(sorted(gaps)[len(gaps) // 2], 2),
                    "max_s": round(max(gaps), 2)} for kind, gaps in sorted(chaos.gaps.items())}
    return {"complete": load.num_complete, "tokens": load.num_tokens, "broken": load.num_broken,
            "faults": table}


def run(arguments) -> dict:
    work = arguments.work
    with aril_server.Server(["--demo"], work / "serve.log", arguments.aril) as server:
        cases = cases_of(server.url, 24, arguments.seed)
    with aril_cluster.Cluster(arguments.aril, work / "cluster", schedulers=2, runners=4, gateways=2,
                              runner_flags=("--threads", "1", "--max-num-seqs", "4")) as cluster:
        load = Load(cluster, cases, arguments.seed)
        chaos = Chaos(cluster, load, arguments.seed, arguments.release_seconds)
        try:
            chaos.settle("none")
            for i in range(arguments.kills):
                chaos.fault()
                print(f"fault {i + 1} of {arguments.kills}: {load.num_complete} streams complete",
                      file=sys.stderr)
            for _ in range(arguments.gateway_kills):
                chaos.kill_gateway()
        finally:
            load.stop()
        if load.problems:
            raise aril_server.Failure("; ".join(load.problems[:3]))
        for process in cluster.processes():
            if process.process.poll() is not None:
                raise aril_server.Failure(f"{process.name} has ended by itself")
        return report(chaos, load)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--gateway-kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--release-seconds", type=float, default=2.0,
                        help="more on a machine that does something else beside")
    parser.add_argument("--aril", type=pathlib.Path, default=ROOT / "build/release/aril")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/cluster-chaos")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    if not aril_cluster.has_etcd():
        print("cluster_chaos.py: SKIPPED: there is no etcd (Debian's etcd-server)", file=sys.stderr)
        return SKIPPED
    print(f"seed {arguments.seed}", file=sys.stderr)
    try:
        result = run(arguments)
    except aril_server.Failure as failure:
        print(f"cluster_chaos.py: seed {arguments.seed}: {failure}; the logs are in "
              f"{arguments.work}", file=sys.stderr)
        return 1
    text = json.dumps(result, indent=1)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
