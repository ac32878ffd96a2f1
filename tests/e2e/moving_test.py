#!/usr/bin/env python3
"""A name that is moved a thousand times under load: every answer is one of its generations', to the
last bit of its logprobs.

usage: moving_test.py ARIL_BINARY WORK_DIR
"""

import itertools
import json
import pathlib
import random
import shutil
import sys
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools/demo")]
import aril_server
import client
import evaluate
import soak
from aril_server import call, connect

ARIL, WORK = (pathlib.Path(argument) for argument in sys.argv[1:3])
ADAPTERS = ROOT / "models/demo/adapters"
SOURCES = ("digits", "iso-date", "json-fields", "sql")
BYSTANDER = "routing"
# Room for the largest adapter and about one whole context, but not for all of SOURCES.
POOL_BYTES = "3MiB"
MOVES = 1000
REFUSED_EVERY = 50
CLIENTS = 8
MAX_TOKENS = 8
TOP_LOGPROBS = 3
SEED = 20261122


def ask(connection, model: str, question: str) -> tuple:
    """(generation, (text, logprobs)) of a stream that ends as streams must. Logprobs are as they
    stand in the events: a float's shortest decimal, which no other float has."""
    body = {**client.chat(model, question, MAX_TOKENS), "stream": True, "logprobs": True,
            "top_logprobs": TOP_LOGPROBS}
    connection.request("POST", "/v1/chat/completions", json.dumps(body))
    response = connection.getresponse()
    text = response.read().decode()
    events = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    if response.status != 200 or not events or events.pop() != "[DONE]":
        raise aril_server.Failure(f"status {response.status}: {text}")
    choices = [json.loads(event, parse_float=str)["choices"][0]  # an error has none
               for event in events]
    ends = [choice["finish_reason"] is not None for choice in choices]
    if ends != [False] * (len(ends) - 1) + [True]:
        raise aril_server.Failure(f"not one end, and that the last event: {text}")
    text = "".join(choice["delta"].get("content") or "" for choice in choices)
    logprobs = [token for choice in choices if choice["logprobs"]
                for token in choice["logprobs"]["content"]]
    if not 0 < len(logprobs) <= MAX_TOKENS:
        raise aril_server.Failure(f"not one to {MAX_TOKENS} tokens with logprobs: {text}")
    return response.headers["Aril-Generation"], (text, logprobs)


class Client(threading.Thread):
    """Asks for `moving` until it is stopped, and keeps what it was answered."""

    def __init__(self, server: aril_server.Server, questions: list, stop: threading.Event):
        super().__init__()
        self.server, self.questions, self.stop = server, questions, stop
        self.answers = []  # (question, generation, (text, logprobs))
        self.error = None

    def run(self):
        try:
            with connect(self.server) as connection:
                for question in itertools.cycle(self.questions):
                    self.answers.append((question, *ask(connection, "moving", question)))
                    if self.stop.is_set():
                        return
        except Exception as error:  # whatever it is, it is the test's to say
            self.error = error


class MovingTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(WORK, ignore_errors=True)
        # Nobody but `moving` holds what is moved: a generation that it forgets is gone.
        shutil.copytree(ADAPTERS / BYSTANDER, WORK / "adapters" / BYSTANDER)
        cases = evaluate.held_out_cases(2)
        cls.questions = [case.question for source in SOURCES for case in cases[source]]
        with aril_server.Server(["--demo"], WORK / "alone.log", ARIL) as server:
            cls.generation_of, cls.alone = {}, {}
            with connect(server) as connection:
                for source in SOURCES:
                    for question in cls.questions:
                        generation, answer = ask(connection, source, question)
                        cls.generation_of[source] = generation
                        cls.alone[generation, question] = answer
        for question in cls.questions:
            texts = [cls.alone[generation, question][0] for generation in cls.generation_of.values()]
            assert len(set(texts)) == len(SOURCES), f"{question} does not tell them apart: {texts}"

    def start(self, *flags) -> soak.SoakServer:
        return soak.SoakServer(
            ["--demo", "--adapters", WORK / "adapters", "--state-dir", WORK / "state", "--pool-bytes",
             POOL_BYTES, "--adapter-host-cache", "1MiB", *flags], WORK / "serve.log", ARIL)

    def put(self, connection, source: str, current=None) -> dict:
        """Moves the name from where it is: back if it can be, else by the adapter's source."""
        generation = self.generation_of[source]
        is_known = current is not None and generation in (
            past["generation"] for past in current["history"])
        target = {"generation": generation} if is_known else {"source": source}
        expected = "" if current is None else current["generation"]
        status, answer = call(connection, "PUT", "/v1/adapters/moving",
                              {**target, "expected_generation": expected})
        self.assertEqual(status, 201 if current is None else 200, answer)
        self.assertEqual(answer["generation"], generation)
        self.assertEqual(answer["history"][-1]["generation"], generation)
        return answer

    def assert_refused(self, connection, source: str, expected: str):
        """A move from where the name is not."""
        status, answer = call(connection, "PUT", "/v1/adapters/moving",
                              {"source": source, "expected_generation": expected})
        self.assertEqual((status, answer["error"]["code"]), (409, "generation_conflict"), answer)

    def move(self, connection, current: dict, times: int) -> dict:
        rng = random.Random(SEED)
        for number in range(times):
            before = current["generation"]
            source = rng.choice([s for s in SOURCES if self.generation_of[s] != before])
            current = self.put(connection, source, current)
            if number % REFUSED_EVERY == 0:
                self.assert_refused(connection, source, expected=before)
        return current

    def assert_is(self, connection, adapter: dict):
        """The name stands for what it did, and the disk has that and nothing else."""
        _, now = call(connection, "GET", "/v1/adapters/moving")
        for field in ("generation", "source", "history", "rank", "bytes", "durable"):
            self.assertEqual(now[field], adapter[field], field)
        self.assertEqual({path.name for path in (WORK / "state/adapters").iterdir()},
                         {past["generation"] for past in adapter["history"]})

    def test_moved_a_thousand_times_it_loses_nothing(self):
        print(f"seed {SEED}", file=sys.stderr)
        server = self.start("--adapter-root", ADAPTERS)
        with server, connect(server) as connection:
            first = self.put(connection, SOURCES[0])
            stop = threading.Event()
            clients = [Client(server, self.questions[i:] + self.questions[:i], stop)
                       for i in range(CLIENTS)]
            for one in clients:
                one.start()
            try:
                last = self.move(connection, first, MOVES)
            finally:
                stop.set()
                for one in clients:
                    one.join()
            self.assert_answers(clients)
            metrics = soak.wait_until_idle(server)
            for name in ("aril_adapter_evictions_total", "aril_adapter_host_closes_total"):
                self.assertGreater(metrics[name], 0, name)
            self.assert_is(connection, last)
            server.process.kill()
            server.process.wait()
        self.assert_survived(last)

    def assert_answers(self, clients: list):
        for one in clients:
            if one.error is not None:
                raise one.error
        answers = [answer for one in clients for answer in one.answers]
        print(f"{len(answers)} answers", file=sys.stderr)
        for question, generation, answer in answers:
            self.assertEqual(answer, self.alone.get((generation, question)), (generation, question))
        self.assertEqual({generation for _, generation, _ in answers},
                         set(self.generation_of.values()))

    def assert_survived(self, adapter: dict):
        with self.start() as server, connect(server) as connection:  # there are no sources any more
            self.assert_is(connection, adapter)
            source_of = {generation: source for source, generation in self.generation_of.items()}
            generations = [past["generation"] for past in reversed(adapter["history"])]
            for generation in dict.fromkeys(generations):
                if generation != adapter["generation"]:
                    adapter = self.put(connection, source_of[generation], adapter)
                for question in self.questions:
                    self.assertEqual(ask(connection, "moving", question),
                                     (generation, self.alone[generation, question]))
            self.assert_is(connection, adapter)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
