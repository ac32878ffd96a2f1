#!/usr/bin/env python3
"""The demo: its adapters do what they are for, whatever shares their batches, and come and go.

usage: demo_test.py ARIL_BINARY WORK_DIR

A bounded sample of what `make demo-eval` does in full.
"""

import json
import pathlib
import subprocess
import sys
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools/demo")]
import aril_server
import client
import evaluate
from tasks import TASKS

ARIL, WORK = (pathlib.Path(argument) for argument in sys.argv[1:3])
ADAPTERS = ROOT / "models/demo/adapters"
CONCURRENCY = 32

# An adapter that gives 0.90 of its answers gives 21.6 of 24, with a standard deviation of 1.5: fewer
# than 16 is further away than any instruction set's rounding can lead.
OWN_CASES, OWN_AT_LEAST = 24, 16
# Of the wrong adapters and the base model, all together: 64 pairs of a model and a task.
OTHER_CASES, OTHER_AT_MOST = 3, 0.10


class DemoTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = aril_server.Server(["--demo", "--adapter-root", ADAPTERS], WORK / "serve.log",
                                        ARIL)
        cls.cases = evaluate.held_out_cases(OWN_CASES)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def ask(self, pairs, concurrency=CONCURRENCY):
        return evaluate.answers_of(self.server.url, pairs, concurrency, "demo_test")

    def test_each_adapter_does_its_task_in_any_company(self):
        triples = [(name, case) for i in range(OWN_CASES) for name in TASKS
                   for case in [self.cases[name][i]]]
        pairs = [(name, case.question) for name, case in triples]
        mixed = self.ask(pairs)
        right = {name: 0 for name in TASKS}
        for (name, case), answer in zip(triples, mixed):
            right[name] += answer == case.answer
        print(f"right of {OWN_CASES}: {right}", file=sys.stderr)
        for name, count in right.items():
            self.assertGreaterEqual(count, OWN_AT_LEAST, name)
        self.assertEqual(self.ask(pairs, concurrency=1), mixed)

    def test_nobody_else_does(self):
        triples = [(model, case) for model in [*TASKS, evaluate.BASE] for task in TASKS
                   if model != task for case in self.cases[task][:OTHER_CASES]]
        answers = self.ask([(model, case.question) for model, case in triples])
        right = sum(answer == case.answer for (_, case), answer in zip(triples, answers))
        self.assertLessEqual(right / len(triples), OTHER_AT_MOST)

    def test_ranks_and_targets_differ(self):
        configs = [json.loads((ADAPTERS / name / "adapter_config.json").read_text())
                   for name in TASKS]
        self.assertGreaterEqual({config["r"] for config in configs}, {4, 8, 16, 32})
        self.assertGreater(len({tuple(sorted(config["target_modules"])) for config in configs}), 2)
        self.assertTrue(any(config["use_rslora"] for config in configs))

    def test_the_first_minute(self):
        done = subprocess.run([sys.executable, ROOT / "tools/demo/ask.py", "--url", self.server.url],
                              capture_output=True, text=True, check=True)
        for name in TASKS:
            self.assertIn(f"\n{name}", done.stdout)
        self.assertIn("Largest number of different adapters in one batch:", done.stdout)

    def change(self, path, **fields):
        body = {"lora_name": "moving", **fields}
        with client.Connection(self.server.url) as connection:
            connection.post_for_text(path, body)

    def test_a_name_that_moves_gives_one_or_the_other(self):
        question = self.cases["sql"][0].question
        expected = self.ask([("sql", question), ("routing", question)])
        self.assertNotEqual(*expected)
        self.change("/v1/load_lora_adapter", lora_path="sql")
        stop = threading.Event()

        def move():
            sources = ["routing", "sql"]
            while not stop.is_set():
                self.change("/v1/load_lora_adapter", lora_path=sources[0], load_inplace=True)
                sources.reverse()
        mover = threading.Thread(target=move)
        mover.start()
        try:
            answers = self.ask([("moving", question)] * 60, concurrency=8)
        finally:
            stop.set()
            mover.join()
        self.assertLessEqual(set(answers), set(expected))
        self.change("/v1/unload_lora_adapter")
        with self.assertRaisesRegex(client.Failure, "404"):
            self.ask([("moving", question)])

    def ask_for_a_cached_prefix(self, url: str) -> tuple:
        """(text, cached tokens) of a prompt that the same adapter has been asked before."""
        prompt = " ".join(case.question for case in self.cases["routing"][:8])
        with client.Connection(url) as connection:
            first, again, other = (
                connection.post("/v1/completions", {"model": model, "prompt": prompt,
                                                    "max_tokens": 4, "temperature": 0})
                for model in ("routing", "routing", "sql"))
        cached = [answer["usage"]["prompt_tokens_details"]["cached_tokens"]
                  for answer in (first, again, other)]
        self.assertEqual((cached[0], cached[2]), (0, 0))
        self.assertEqual(first["choices"], again["choices"])
        return again["choices"][0]["text"], cached[1]

    def test_cached_prefixes_are_counted_and_can_be_off(self):
        with aril_server.Server(["--demo", "--no-enable-prefix-caching"], WORK / "uncached.log",
                                ARIL) as server:
            text, cached = self.ask_for_a_cached_prefix(server.url)
        self.assertEqual(cached, 0)
        text_with_cache, cached = self.ask_for_a_cached_prefix(self.server.url)
        self.assertGreater(cached, 0)
        self.assertEqual(text_with_cache, text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
