#!/usr/bin/env python3
"""/v1/classify: what a text's class is does not depend on who shares its batch, nor on who computes it, and it
is the right one.

usage: classify_test.py ARIL_BINARY WORK_DIR
"""

import concurrent.futures
import json
import math
import pathlib
import random
import shutil
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools/demo")]
import aril_cluster
import aril_server
from aril_server import call, connect, upload_of
from tasks import TASKS

ARIL, WORK = (pathlib.Path(argument) for argument in sys.argv[1:3])
CLASSIFIER = "triage"
FOLDER = ROOT / "models/demo/classifiers" / CLASSIFIER
FLAGS = ["--demo", "--lora-modules", f"{CLASSIFIER}={FOLDER}"]
TASK = TASKS["routing"]
SEED = 20261129
CASES = 60
# 0.90 of them are 54, with a standard deviation of 2.3.
RIGHT_AT_LEAST = 44


def post(url: str, path: str, body: dict):
    status, text = aril_server.request(url + path, "POST", body,
                                       {"Content-Type": "application/json"})
    return status, json.loads(text)


def classify(url: str, texts, model: str = CLASSIFIER, **fields) -> list:
    """The label and the numbers of each text."""
    status, body = post(url, "/v1/classify", {"model": model, "input": texts, **fields})
    assert status == 200, body
    assert [item["index"] for item in body["data"]] == list(range(len(body["data"]))), body
    return [(item["label"], item["probs"]) for item in body["data"]]


class ClassifyTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(WORK, ignore_errors=True)
        print(f"seed {SEED}", file=sys.stderr)
        rng = random.Random(SEED)
        cls.cases = [TASK.case(rng, held_out=True) for _ in range(CASES)]
        cls.texts = [case.question for case in cls.cases]
        cls.server = cls.start(WORK / "state")
        cls.url = cls.server.url
        cls.alone = [classify(cls.url, text)[0] for text in cls.texts]

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    @staticmethod
    def start(state_dir: pathlib.Path):
        return aril_server.Server([*FLAGS, "--state-dir", state_dir], WORK / "serve.log", ARIL)

    def test_texts_that_it_has_not_seen_get_their_labels(self):
        right = sum(label == case.answer
                    for (label, _), case in zip(self.alone, self.cases, strict=True))
        print(f"right of {CASES}: {right}", file=sys.stderr)
        self.assertGreaterEqual(right, RIGHT_AT_LEAST)
        for label, probabilities in self.alone:
            self.assertEqual(len(probabilities), len(TASK.LABELS))
            self.assertEqual(TASK.LABELS[probabilities.index(max(probabilities))], label)
            # Each is rounded to 24 bits once.
            self.assertAlmostEqual(sum(probabilities), 1, delta=len(TASK.LABELS) * 2**-24)

    def test_logits_are_what_probabilities_are_made_of(self):
        for (label, logits), (same, probabilities) in zip(
                classify(self.url, self.texts, use_activation=False), self.alone, strict=True):
            self.assertEqual(label, same)
            total = sum(math.exp(logit) for logit in logits)
            for logit, probability in zip(logits, probabilities, strict=True):
                # The logit was rounded to 24 bits before this, and not before that.
                self.assertAlmostEqual(math.exp(logit) / total, probability, delta=2**-19)

    def test_lists_beside_answers_and_embeddings_are_bit_for_bit_the_same(self):
        def answer(seed: int):
            return post(self.url, "/v1/chat/completions",
                        {"model": "routing", "max_tokens": 40, "seed": seed,
                         "messages": [{"role": "user", "content": self.texts[seed]}]})[0]

        def embed(i: int):
            return post(self.url, "/v1/embeddings", {"model": CLASSIFIER, "input": self.texts[i]})[0]
        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            others = [pool.submit(work, i) for i in range(8) for work in (answer, embed)]
            lists = [pool.submit(classify, self.url, self.texts * 4) for _ in range(4)]
            for future in lists:
                self.assertEqual(future.result(), self.alone * 4)
            self.assertEqual({future.result() for future in others}, {200})

    def test_a_cluster_gives_the_same_while_a_runner_is_killed_and_comes_back(self):
        cluster = aril_cluster.Cluster(ARIL, WORK / "cluster", gateways=1, flags=FLAGS)
        self.addCleanup(cluster.kill_all)
        cluster.wait_until_linked(cluster.gateways[0])
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            lists = [pool.submit(classify, cluster.urls[0], self.texts * 12) for _ in range(4)]
            cluster.runners[0].kill()
            cluster.runners[0].start()
            for future in lists:
                self.assertEqual(future.result(), self.alone * 12)
        self.assert_refusals(cluster.urls[0])

    def test_who_is_no_classifier_is_told_and_who_is_one_generates_nothing(self):
        self.assert_refusals(self.url)

    def assert_refusals(self, url):
        text = self.texts[0]
        for body in ({"model": "sql"}, {"model": "demo"},
                     {"model": "demo", "adapters": [{"name": "sql"}, {"name": "routing"}]}):
            status, answer = post(url, "/v1/classify", {**body, "input": text})
            self.assertEqual(status, 400, answer)
            self.assertIn("is no classifier", answer["error"]["message"])
        status, answer = post(url, "/v1/classify", {
            "model": "demo", "adapters": [{"name": CLASSIFIER, "weight": 0.5}], "input": text})
        self.assertEqual(status, 400, answer)
        self.assertIn("weight 1", answer["error"]["message"])
        messages = [{"role": "user", "content": text}]
        for path, body in (("/v1/completions", {"prompt": text}),
                           ("/v1/chat/completions", {"messages": messages}),
                           ("/v1/responses", {"input": text}),
                           ("/v1/messages", {"messages": messages, "max_tokens": 5})):
            status, answer = post(url, path, {"model": CLASSIFIER, **body})
            self.assertEqual(status, 400, answer)
            self.assertIn("trained to classify texts", answer["error"]["message"])

    def test_one_that_is_uploaded_keeps_its_labels_over_a_restart(self):
        state = WORK / "uploads"
        form = "multipart/form-data; boundary=b0"
        with self.start(state) as server, connect(server) as connection:
            status, answer = call(connection, "PUT", "/v1/adapters/mine", upload_of(FOLDER), form)
            self.assertEqual(status, 201, answer)
            self.assertEqual(classify(server.url, self.texts, "mine"), self.alone)
        with self.start(state) as server:
            self.assertEqual(classify(server.url, self.texts, "mine"), self.alone)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
