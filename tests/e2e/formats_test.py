#!/usr/bin/env python3
"""Outputs with a format: every answer keeps to it, whoever shares its batch, and in a cluster whatever dies.

usage: formats_test.py ARIL_BINARY WORK_DIR
"""

import concurrent.futures
import json
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools/demo")]
import aril_cluster
import aril_server
import client
from tasks import TASKS

ARIL, WORK = (pathlib.Path(argument) for argument in sys.argv[1:3])

TICKET = {
    "type": "object",
    "properties": {
        "team": {"enum": ["billing", "delivery", "other"]},
        "urgent": {"type": "boolean"},
        "score": {"type": "integer", "minimum": 0, "maximum": 100},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 2},
        "note": {"anyOf": [{"type": "string", "maxLength": 12}, {"type": "null"}]},
    },
    "required": ["team", "urgent", "score", "tags", "note"],
    "additionalProperties": False,
}
TICKET_FORMAT = {"type": "json_schema", "json_schema": {"name": "ticket", "schema": TICKET}}
CODE = r"[A-Z]{2}-\d{3}(;[A-Z]{2}-\d{3}){40}"


def question(model: str, seed: int, **fields) -> dict:
    return {"model": model, "messages": [{"role": "user", "content": "Where is my parcel?"}],
            "max_tokens": 300, "temperature": 1, "seed": seed, **fields}


def is_ticket(text: str) -> bool:
    ticket = json.loads(text)
    note = ticket["note"]
    return (list(ticket) == list(TICKET["properties"])
            and ticket["team"] in TICKET["properties"]["team"]["enum"]
            and isinstance(ticket["urgent"], bool)
            and isinstance(ticket["score"], int) and 0 <= ticket["score"] <= 100
            and len(ticket["tags"]) <= 2 and all(len(tag) <= 8 for tag in ticket["tags"])
            and (note is None or len(note) <= 12))


class FormatsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = aril_server.Server(["--demo"], WORK / "serve.log", ARIL)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def choice_of(self, body: dict) -> dict:
        with client.Connection(self.server.url) as asking:
            return asking.post("/v1/chat/completions", body)["choices"][0]

    def texts_of(self, bodies: list, concurrency: int) -> list:
        with concurrent.futures.ThreadPoolExecutor(concurrency) as pool:
            choices = list(pool.map(self.choice_of, bodies))
        return [(choice["message"]["content"], choice["finish_reason"]) for choice in choices]

    def refusal_of(self, **fields) -> dict:
        status, body = aril_server.request(
            f"{self.server.url}/v1/chat/completions", "POST", question("demo", 1, **fields),
            {"Content-Type": "application/json"})
        self.assertEqual(status, 400, body)
        return json.loads(body)["error"]

    def test_answers_of_every_adapter_keep_to_it_in_any_company(self):
        models = [*TASKS, "demo"]
        bodies = [question(models[i % len(models)], seed=i) for i in range(36)]
        for i, body in enumerate(bodies):
            if i % 3 == 0:
                body["response_format"] = TICKET_FORMAT
            elif i % 3 == 1:
                body["structured_outputs"] = {"choice": ["yes", "no", "it depends (on what?)"]}
        mixed = self.texts_of(bodies, 16)
        for i, (text, finish) in enumerate(mixed):
            if i % 3 == 0:
                self.assertTrue(is_ticket(text), text)
            elif i % 3 == 1:
                self.assertIn(text, bodies[i]["structured_outputs"]["choice"])
            if i % 3 != 2:
                self.assertEqual(finish, "stop")
        self.assertEqual(self.texts_of(bodies, 1), mixed)

    def test_streams_are_the_same_text(self):
        body = question("sql", 5, response_format=TICKET_FORMAT)
        with client.Connection(self.server.url) as asking:
            events = [event for _, event in asking.stream("/v1/chat/completions", body)]
        text = "".join(event["choices"][0]["delta"].get("content") or "" for event in events)
        self.assertTrue(is_ticket(text), text)
        self.assertEqual(text, self.choice_of(body)["message"]["content"])

    def test_any_object(self):
        body = question("demo", 3, response_format={"type": "json_object"},
                        logit_bias={"34": 3})  # a quote: texts end sooner
        text, finish = self.texts_of([body], 1)[0]
        self.assertTrue(text.startswith("{"), text)
        if finish == "stop":
            self.assertIsInstance(json.loads(text), dict)

    def test_completions_take_it_too(self):
        with client.Connection(self.server.url) as asking:
            answer = asking.post("/v1/completions", {
                "model": "demo", "prompt": "Code:", "max_tokens": 400, "n": 3, "temperature": 1,
                "guided_regex": CODE})
        for choice in answer["choices"]:
            self.assertRegex(choice["text"], re.compile(f"^{CODE}$"))
            self.assertEqual(choice["finish_reason"], "stop")

    def test_says_what_cannot_be_kept_to(self):
        error = self.refusal_of(response_format={"type": "json_schema", "json_schema": {
            "name": "x", "schema": {"properties": {"n": {"type": "number", "multipleOf": 3}}}}})
        self.assertEqual(error["param"], "response_format.json_schema.schema")
        self.assertIn("#/properties/n: `multipleOf` is not supported", error["message"])
        error = self.refusal_of(structured_outputs={"regex": "(?=a)b"})
        self.assertEqual(error["param"], "structured_outputs.regex")
        self.assertIn("at byte 1", error["message"])

    def tokens_of(self, text: str) -> list:
        with client.Connection(self.server.url) as asking:
            return asking.post("/tokenize", {"model": "demo", "prompt": text, "add_special_tokens": False})["tokens"]

    def test_tokens_and_words_may_be_ruled_out_in_any_company(self):
        allowed = self.tokens_of("yes no maybe")
        plain = [question(list(TASKS)[seed % len(TASKS)], seed, max_tokens=24, return_token_ids=True)
                 for seed in range(8)]
        said = [self.choice_of(body) for body in plain]
        words = [max(choice["message"]["content"].split(), key=len) for choice in said]
        bodies = [{**body, "allowed_token_ids": allowed} for body in plain]
        bodies += [{**body, "bad_words": [word]} for body, word in zip(plain, words)]
        bodies += [{**body, "stop": [word], "include_stop_str_in_output": True} for body, word in zip(plain, words)]
        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            together = list(pool.map(self.choice_of, bodies))
        self.assertEqual([self.choice_of(body) for body in bodies], together)
        for i, word in enumerate(words):
            self.assertLessEqual(set(together[i]["token_ids"]), set(allowed))
            tokens = together[8 + i]["token_ids"]
            for spelling in (self.tokens_of(word), self.tokens_of(" " + word)):
                self.assertNotIn(spelling, [tokens[k:k + len(spelling)] for k in range(len(tokens))])
            content = said[i]["message"]["content"]
            self.assertEqual(together[16 + i]["message"]["content"], content[:content.index(word) + len(word)])
            self.assertEqual(together[16 + i]["finish_reason"], "stop")

    def test_prompts_may_be_cut(self):
        with client.Connection(self.server.url) as asking:
            fields = {"model": "demo", "max_tokens": 4, "temperature": 0}
            cut = asking.post("/v1/completions", {**fields, "prompt": "Where is my parcel?", "truncate_prompt_tokens": 3})
            tokens = self.tokens_of("Where is my parcel?")[-3:]
            self.assertEqual(cut["usage"]["prompt_tokens"], 3)
            self.assertEqual(cut["choices"], asking.post("/v1/completions", {**fields, "prompt": tokens})["choices"])


class ClusterFormatsTest(unittest.TestCase):
    def test_a_killed_runners_text_goes_on(self):
        body = {"model": "demo", "prompt": "Code:", "max_tokens": 400, "temperature": 1, "seed": 7,
                "structured_outputs": {"regex": CODE}}
        cluster = aril_cluster.Cluster(ARIL, WORK / "cluster")
        self.addCleanup(cluster.kill_all)
        cluster.wait_until_linked(cluster.gateways[0])
        texts = []
        for kills in (False, True):
            with client.Connection(cluster.urls[0]) as asking:
                text = ""
                for i, (_, event) in enumerate(asking.stream("/v1/completions", body)):
                    text += event["choices"][0]["text"]
                    if kills and i == 10:
                        for runner in cluster.runners:  # one of them has it
                            runner.kill()
                        for runner in cluster.runners:
                            runner.start()
            texts.append(text)
        self.assertRegex(texts[0], re.compile(f"^{CODE}$"))
        self.assertEqual(texts[0], texts[1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
