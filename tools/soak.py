#!/usr/bin/env python3
"""Soak test: random requests with random disconnects, after which nothing may be left behind.

Starts `build/release/aril serve --demo` with a pool so small that sequences are evicted, and for
SOAK_SECONDS (30) lets clients send completions of random models, lengths and options, malformed
ones among them, and hang up at random points. Then it expects

  - no 5xx answer but 503 (overloaded) and every complete stream ended by [DONE];
  - every request, sequence and KV page returned, as /metrics counts them;
  - the same text for the same request as before the storm;
  - a clean exit on SIGTERM.

The seed is printed first; SOAK_SEED repeats a run's requests (their timing differs).
"""

import collections
import http.client
import json
import os
import random
import re
import socket
import sys
import threading
import time

import aril_server
from aril_server import ROOT, Failure

CLIENTS = 12
POOL_BYTES = "3MiB"  # the largest adapter and about one whole context
PROBE = {"prompt": "Once upon a time", "max_tokens": 32, "temperature": 0}


class SoakServer(aril_server.Server):
    """The server under test, and what is asked of it besides the storm."""

    def request(self, method: str, path: str, body: str | None = None) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def models(self) -> list[str]:
        return [m["id"] for m in json.loads(self.request("GET", "/v1/models")[1])["data"]]

    def metrics(self) -> dict[str, float]:
        """Each series of /metrics by its name with labels."""
        text = self.request("GET", "/metrics")[1]
        return {name: float(value)
                for name, value in re.findall(r"^([a-z_:]+(?:\{[^}]*\})?) (\S+)", text, re.MULTILINE)}

    def probe(self, model: str) -> str:
        status, body = self.request("POST", "/v1/completions", json.dumps({**PROBE, "model": model}))
        if status != 200:
            raise Failure(f"{model}: {status} {body}")
        return json.loads(body)["choices"][0]["text"]


def random_body(rng: random.Random, models: list[str]) -> str:
    """A request: mostly a good one."""
    kind = rng.random()
    if kind < 0.03:
        return rng.choice(["", "{", "[]", '{"model": 7}', "\x00", '{"a":' * 100])
    body = {"model": rng.choice(models) if kind > 0.06 else "nobody",
            "prompt": [rng.randrange(1, 500) for _ in range(rng.randint(1, 150))],
            "max_tokens": rng.randint(1, 150), "temperature": rng.choice([0, 0.7, 1.5]),
            "seed": rng.randrange(2**31), "stream": rng.random() < 0.7, "ignore_eos": True}
    if rng.random() < 0.2:
        body["n"] = rng.randint(1, 3)
    if rng.random() < 0.2:
        body["logprobs"] = rng.randint(0, 5)
    if rng.random() < 0.2:
        body["stop"] = [rng.choice(["e", " the", "\n", "zzz"])]
    return json.dumps(body)


def one_request(port: int, rng: random.Random, models: list[str]) -> str:
    """Sends one request and reads some or all of its answer; returns what became of it."""
    body = random_body(rng, models).encode()
    head = (f"POST /v1/completions HTTP/1.1\r\nHost: soak\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n").encode()
    message = head + body
    hang_up_after = rng.choice([None, None, 0, rng.randint(1, 300), rng.randint(300, 20000)])
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        if rng.random() < 0.05:
            connection.sendall(message[:rng.randrange(len(message))])
            return "half-sent"
        connection.sendall(message)
        answer = bytearray()
        while hang_up_after is None or len(answer) < hang_up_after:
            piece = connection.recv(65536)
            if not piece:
                return judge(bytes(answer))
            answer += piece
    return "hung up"


def judge(answer: bytes) -> str:
    """Checks a complete answer and names its kind."""
    if not answer:
        raise Failure("a connection was closed without an answer")
    status = int(answer.split(maxsplit=2)[1])
    if status >= 500 and status != 503:
        raise Failure(answer.decode(errors="replace")[:2000])
    if status == 200 and b"text/event-stream" in answer and b"data: [DONE]" not in answer:
        raise Failure("a stream ended without [DONE]: " + answer[-500:].decode(errors="replace"))
    if b'"error"' in answer and status == 200:
        raise Failure("an error within a stream: " + answer[-500:].decode(errors="replace"))
    return str(status)


def storm(server: SoakServer, models: list[str], seconds: float, seed: int) -> collections.Counter:
    """Runs the clients; raises the first failure of any of them."""
    counts: collections.Counter = collections.Counter()
    failures: list[Exception] = []
    deadline = time.monotonic() + seconds

    def client(number: int) -> None:
        rng = random.Random(f"{seed}/{number}")
        while time.monotonic() < deadline and not failures:
            try:
                counts[one_request(server.port, rng, models)] += 1
            except ConnectionError:
                counts["reset"] += 1  # an early answer to a half-read request may end in a reset
            except (Failure, OSError) as error:
                failures.append(error)

    threads = [threading.Thread(target=client, args=(i,)) for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return counts


def wait_until_idle(server: SoakServer) -> dict[str, float]:
    """Returns the metrics once nothing is in flight; raises what is left after 30 s."""
    idle = ["aril_requests_in_flight", "vllm:num_requests_running", "vllm:num_requests_waiting",
            'aril_pool_pages{use="kv"}']
    deadline = time.monotonic() + 30
    while True:
        metrics = server.metrics()
        missing = [name for name in idle if name not in metrics]
        if missing:
            raise Failure(f"/metrics lacks {missing}")
        left = {name: metrics[name] for name in idle if metrics[name] != 0}
        if not left:
            return metrics
        if time.monotonic() > deadline:
            raise Failure(f"left behind: {left}")
        time.sleep(0.1)


def main() -> int:
    seconds = float(os.environ.get("SOAK_SECONDS", "30"))
    seed = int(os.environ.get("SOAK_SEED", str(random.randrange(2**31))))
    print(f"soak: {seconds:g} s, {CLIENTS} clients, pool {POOL_BYTES}, SOAK_SEED={seed}", flush=True)
    flags = ["--demo", "--pool-bytes", POOL_BYTES]
    try:
        with SoakServer(flags, ROOT / "build/soak.log") as server:
            models = server.models()
            before = {model: server.probe(model) for model in models}
            counts = storm(server, models, seconds, seed)
            metrics = wait_until_idle(server)
            after = {model: server.probe(model) for model in models}
            if after != before:
                raise Failure(f"the storm changed an answer: before {before}, after {after}")
    except Failure as failure:
        print(f"soak: FAILED: {failure}")
        return 1
    evictions = metrics.get("aril_evictions_total", 0)
    print(f"soak: passed: {counts.total()} requests {dict(sorted(counts.items()))}, "
          f"{evictions:g} evictions; everything returned")
    return 0


if __name__ == "__main__":
    sys.exit(main())
