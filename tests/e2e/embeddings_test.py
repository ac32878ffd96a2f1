#!/usr/bin/env python3
"""/v1/embeddings: what a text's vector is does not depend on who shares its batch, nor on who computes it.

usage: embeddings_test.py ARIL_BINARY WORK_DIR

With the real `openai` client, where it is installed (tools/venv.sh).
"""

import base64
import concurrent.futures
import json
import math
import pathlib
import struct
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools/demo")]
import test_venv

test_venv.enter()
try:
    import openai
except ImportError:
    openai = None
import aril_cluster
import aril_server
from tasks import TASKS

ARIL, WORK = (pathlib.Path(argument) for argument in sys.argv[1:3])
MODELS = ["demo", *TASKS]
TEXTS = [f"Parcel {i} has {'not ' * (i % 7)}arrived in {city}{'.' * (i % 3)}"
         for i in range(5) for city in ("London", "Bergen", "a town that nobody has heard of")]
DIMENSIONS = json.loads((ROOT / "models/demo/base/config.json").read_text())["hidden_size"]


def embed(url: str, model: str, texts, **fields) -> list:
    status, body = aril_server.request(f"{url}/v1/embeddings", "POST",
                                       {"model": model, "input": texts, **fields},
                                       {"Content-Type": "application/json"})
    assert status == 200, body
    data = json.loads(body)["data"]
    assert [item["index"] for item in data] == list(range(len(data))), body
    return [item["embedding"] for item in data]


class EmbeddingsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = aril_server.Server(["--demo"], WORK / "serve.log", ARIL)
        cls.url = cls.server.url
        cls.alone = {model: [embed(cls.url, model, text)[0] for text in TEXTS] for model in MODELS}

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def test_vectors_have_length_1_and_tell_texts_and_adapters_apart(self):
        vectors = [vector for of_model in self.alone.values() for vector in of_model]
        for vector in vectors:
            self.assertEqual(len(vector), DIMENSIONS)
            # Each of its numbers is rounded to 24 bits once.
            self.assertAlmostEqual(math.hypot(*vector), 1, delta=2**-23)
        self.assertEqual(len({tuple(vector) for vector in vectors}), len(vectors))

    def test_lists_of_all_models_beside_answers_are_bit_for_bit_the_same(self):
        def answer(seed: int) -> str:
            return aril_server.request(
                f"{self.url}/v1/chat/completions", "POST",
                {"model": MODELS[seed % len(MODELS)], "max_tokens": 60, "seed": seed,
                 "messages": [{"role": "user", "content": "Where is my parcel?"}]},
                {"Content-Type": "application/json"})[1]
        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            answers = [pool.submit(answer, seed) for seed in range(12)]
            lists = {model: pool.submit(embed, self.url, model, TEXTS * 12) for model in MODELS}
            for model, vectors in lists.items():
                self.assertEqual(vectors.result(), self.alone[model] * 12, model)
            for future in answers:
                self.assertIn("choices", json.loads(future.result()))

    def test_a_cluster_gives_the_same_while_a_runner_is_killed_and_comes_back(self):
        cluster = aril_cluster.Cluster(ARIL, WORK / "cluster", gateways=1)
        self.addCleanup(cluster.kill_all)
        cluster.wait_until_linked(cluster.gateways[0])
        with concurrent.futures.ThreadPoolExecutor(len(MODELS)) as pool:
            lists = {model: pool.submit(embed, cluster.urls[0], model, TEXTS * 12)
                     for model in MODELS}
            cluster.runners[0].kill()
            cluster.runners[0].start()
            for model, vectors in lists.items():
                self.assertEqual(vectors.result(), self.alone[model] * 12, model)

    def test_base64_dimensions_and_normalize_are_forms_of_the_same(self):
        whole = self.alone["sql"][0]
        text = embed(self.url, "sql", TEXTS[0], encoding_format="base64")[0]
        self.assertEqual(list(struct.unpack(f"<{DIMENSIONS}f", base64.b64decode(text))),
                         [struct.unpack("<f", struct.pack("<f", number))[0] for number in whole])
        raw = embed(self.url, "sql", TEXTS[0], normalize=False)[0]
        first = embed(self.url, "sql", TEXTS[0], dimensions=5)[0]
        for vector, expected in ((whole, raw), (first, raw[:5])):
            length = math.hypot(*expected)
            for number, value in zip(vector, expected, strict=True):
                self.assertAlmostEqual(number, value / length, delta=2**-22)

    @unittest.skipIf(openai is None, "the openai client is not installed (tools/venv.sh)")
    def test_the_openai_client_works_unmodified(self):
        client = openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0)
        answer = client.embeddings.create(model="iso-date", input=TEXTS)
        self.assertEqual(answer.model, "iso-date")
        self.assertEqual(answer.usage.prompt_tokens, answer.usage.total_tokens)
        for item, expected in zip(answer.data, self.alone["iso-date"], strict=True):
            for number, value in zip(item.embedding, expected, strict=True):
                self.assertAlmostEqual(number, value, delta=2**-24)
        with self.assertRaises(openai.BadRequestError) as refused:
            client.embeddings.create(model="iso-date", input="x " * 5000)
        self.assertIn("maximum context length", str(refused.exception))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
