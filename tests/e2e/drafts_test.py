#!/usr/bin/env python3
"""Guessed tokens: every answer is the one that comes without them, whatever dies.

usage: drafts_test.py ARIL_BINARY WORK_DIR
"""

import concurrent.futures
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools/demo")]
import test_venv

test_venv.enter()
import aril_cluster
import aril_server
import client
from tasks import TASKS

try:
    import openai
except ImportError:
    openai = None

ARIL, WORK = (pathlib.Path(argument) for argument in sys.argv[1:3])
NGRAM = ("--speculative-config",
         '{"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4}')


def question(model: str, **fields) -> dict:
    return {"model": model, "messages": [{"role": "user", "content": "Where is my parcel?"}],
            "max_tokens": 120, "ignore_eos": True, "seed": 3, **fields}


def counter(url: str, name: str) -> int:
    with client.Connection(url) as asking:
        return int(re.search(rf"^vllm:spec_decode_num_{name}_total (\d+)$", asking.get("/metrics"),
                             re.MULTILINE)[1])


class DraftsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plain = aril_server.Server(["--demo"], WORK / "plain.log", ARIL)
        cls.guessing = aril_server.Server(["--demo", *NGRAM], WORK / "guessing.log", ARIL)

    @classmethod
    def tearDownClass(cls):
        cls.plain.stop()
        cls.guessing.stop()

    @staticmethod
    def choices_of(url: str, bodies: list) -> list:
        def ask(body: dict) -> list:
            with client.Connection(url) as asking:
                return asking.post("/v1/chat/completions", body)["choices"]

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            return list(pool.map(ask, bodies))

    def test_every_answer_is_the_one_without(self):
        models = [*TASKS, "demo"]
        bodies = [question(models[i % len(models)], temperature=(0, 0.7)[i % 2], n=1 + i % 3 // 2,
                           logprobs=True, top_logprobs=2, frequency_penalty=(0, 0.1)[i % 5 // 4])
                  for i in range(24)]
        for body in bodies[::6]:
            body["response_format"] = {"type": "json_object"}
        self.assertEqual(self.choices_of(self.guessing.url, bodies),
                         self.choices_of(self.plain.url, bodies))
        self.assertGreater(counter(self.guessing.url, "accepted_tokens"), 100)
        self.assertGreater(counter(self.guessing.url, "draft_tokens"),
                           counter(self.guessing.url, "accepted_tokens"))

    @unittest.skipIf(openai is None, "the openai client is not installed (tools/venv.sh)")
    def test_predictions_of_the_real_client(self):
        asking = openai.OpenAI(base_url=self.plain.url + "/v1", api_key="none")
        body = question("sql", temperature=0)
        del body["ignore_eos"]
        body["extra_body"] = {"ignore_eos": True}
        text = asking.chat.completions.create(**body).choices[0].message.content
        for prediction, is_right in ((text, True), ("Nothing of the kind. " * 9, False)):
            answer = asking.chat.completions.create(
                **body, prediction={"type": "content", "content": prediction})
            self.assertEqual(answer.choices[0].message.content, text)
            details = answer.usage.completion_tokens_details
            if is_right:
                self.assertGreater(details.accepted_prediction_tokens, 60)
            else:
                self.assertLess(details.accepted_prediction_tokens, 20)
        *_, last = asking.chat.completions.create(
            **body, stream=True, stream_options={"include_usage": True},
            prediction={"type": "content", "content": [{"type": "text", "text": text}]})
        self.assertGreater(last.usage.completion_tokens_details.accepted_prediction_tokens, 60)

    def test_nothing_is_guessed_unless_asked_for(self):
        before = counter(self.plain.url, "drafts")
        self.choices_of(self.plain.url, [question("demo", temperature=0)])
        self.assertEqual(counter(self.plain.url, "drafts"), before)

    def test_other_methods_are_refused(self):
        done = subprocess.run([ARIL, "serve", "--demo", "--speculative-config",
                               '{"method": "eagle", "model": "x"}'],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn('--speculative-config: `method` must be "ngram"', done.stderr)


class ClusterDraftsTest(unittest.TestCase):
    def test_a_killed_runners_text_goes_on(self):
        cluster = aril_cluster.Cluster(ARIL, WORK / "cluster", runner_flags=NGRAM)
        self.addCleanup(cluster.kill_all)
        cluster.wait_until_linked(cluster.gateways[0])
        body = question("demo", temperature=0, max_tokens=400,
                        stream_options={"include_usage": True})

        def read(kills: bool, **fields) -> tuple:
            text, events = "", []
            with client.Connection(cluster.urls[0]) as asking:
                for _, event in asking.stream("/v1/chat/completions", body | fields):
                    events.append(event)
                    for choice in event["choices"]:
                        text += choice["delta"].get("content") or ""
                    if kills and len(events) == 10:
                        for runner in cluster.runners:  # one of them has it
                            runner.kill()
                        for runner in cluster.runners:
                            runner.start()
            return text, events[-1]["usage"].get("completion_tokens_details")

        text, _ = read(kills=False)
        for kills in (False, True):
            again, details = read(kills, prediction={"type": "content", "content": text})
            self.assertEqual(again, text)
            self.assertGreater(details["accepted_prediction_tokens"], 50)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
