#!/usr/bin/env python3
"""Reasoning: apart from the answer by the template, before formats and calls of tools, in any company.

usage: reasoning_test.py ARIL_BINARY WORK_DIR
"""

import concurrent.futures
import json
import pathlib
import shutil
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools/demo")]
import aril_server
import client
from thinking_template import END, template

ARIL, WORK = (pathlib.Path(argument) for argument in sys.argv[1:3])

# The demo has never thought; a bias makes likely what ends a thought.
TEMPLATE = template("'<t><|pad|>' if enable_thinking is false else '<t>'")
SCHEMA = {"type": "object", "properties": {"rain": {"type": "boolean"}, "days": {"type": "integer"}},
          "required": ["rain", "days"], "additionalProperties": False}
RAIN = {"type": "function", "function": {"name": "rain", "parameters": SCHEMA}}


def question(seed: int, bias: float = 10, **fields) -> dict:
    return {"model": ["demo", "sql", "formal", "routing"][seed % 4], "max_tokens": 300, "temperature": 1, "seed": seed,
            "messages": [{"role": "user", "content": "Is it raining?"}],
            "logit_bias": {END: bias}, **fields}


class ReasoningTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(WORK, ignore_errors=True)
        WORK.mkdir(parents=True)
        (WORK / "thinking.jinja").write_text(TEMPLATE, encoding="utf-8")
        cls.server = aril_server.Server(["--demo", "--chat-template", WORK / "thinking.jinja"],
                                        WORK / "serve.log", ARIL)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def answer_to(self, body: dict) -> dict:
        with client.Connection(self.server.url) as asking:
            return asking.post("/v1/chat/completions", body)

    def choice_of(self, body: dict) -> dict:
        choice = self.answer_to(body)["choices"][0]
        for call in choice["message"].get("tool_calls", []):
            self.assertEqual(len(call.pop("id")), 9)
        return choice

    def test_is_apart_from_the_answer(self):
        for seed in range(8):
            answer = self.answer_to(question(seed))
            message, usage = answer["choices"][0]["message"], answer["usage"]
            raw = self.choice_of(question(seed, reasoning_format="none", skip_special_tokens=False))
            said, _, rest = raw["message"]["content"].partition("<|pad|>")
            self.assertEqual(message.get("reasoning_content", ""), said.strip())
            self.assertEqual(message["content"], rest.replace("<|pad|>", "").removesuffix("<|end|>").lstrip())
            self.assertGreater(usage["completion_tokens_details"]["reasoning_tokens"], 0)
            self.assertLessEqual(usage["completion_tokens_details"]["reasoning_tokens"], usage["completion_tokens"])
            hidden = self.choice_of(question(seed, include_reasoning=False))["message"]
            self.assertEqual((hidden["content"], "reasoning_content" in hidden), (message["content"], False))

    def test_streams_are_the_same(self):
        for seed in range(4):
            whole = self.choice_of(question(seed))["message"]
            with client.Connection(self.server.url) as asking:
                events = [event for _, event in asking.stream("/v1/chat/completions", question(seed))]
            deltas = [event["choices"][0]["delta"] for event in events]
            self.assertEqual("".join(delta.get("reasoning_content", "") for delta in deltas),
                             whole.get("reasoning_content", ""))
            self.assertEqual("".join(delta.get("content", "") for delta in deltas), whole["content"])

    def test_formats_and_calls_come_behind_it_in_any_company(self):
        bodies = []
        for seed in range(8):
            bodies += [question(seed, bias=15, response_format={
                           "type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}),
                       question(seed, bias=15, tools=[RAIN], tool_choice="required", parallel_tool_calls=False),
                       question(seed)]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            together = list(pool.map(self.choice_of, bodies))
        for seed in range(8):
            formatted, called, _ = together[3 * seed:3 * seed + 3]
            self.assertEqual(formatted["finish_reason"], "stop")
            self.assertEqual(list(json.loads(formatted["message"]["content"])), ["rain", "days"])
            self.assertEqual(called["finish_reason"], "tool_calls")
            function = called["message"]["tool_calls"][0]["function"]
            self.assertEqual(list(json.loads(function["arguments"])), ["rain", "days"])
        self.assertEqual([self.choice_of(body) for body in bodies], together)

    def test_may_be_ruled_out(self):
        choice = self.choice_of(question(1, bias=-100, chat_template_kwargs={"enable_thinking": False},
                                         structured_outputs={"choice": ["yes", "no"]}))
        self.assertIn(choice["message"]["content"], ["yes", "no"])
        self.assertNotIn("reasoning_content", choice["message"])

    def test_with_a_budget_is_closed_as_if_the_model_had_done_it(self):
        message = ["", "\n\nSo, I say:"]

        def ask(seed: int) -> dict:
            with client.Connection(self.server.url) as asking:
                body = question(seed, bias=-100, max_tokens=40, temperature=seed % 2, ignore_eos=True, logprobs=True,
                                return_token_ids=True, thinking_token_budget=10,
                                reasoning_budget_message=message[seed % 4 // 2])
                prompt, closing = (asking.post("/tokenize", {"model": body["model"], **fields})["tokens"] for fields in (
                    {"messages": body["messages"]}, {"prompt": message[seed % 4 // 2], "add_special_tokens": False}))
                cut = asking.post("/v1/chat/completions", body)
                choice, usage = cut["choices"][0], cut["usage"]["completion_tokens_details"]
                begun = 10 + len(closing) + 1
                self.assertEqual((len(choice["token_ids"]), usage["reasoning_tokens"]), (40, begun))
                self.assertEqual(choice["token_ids"][10:begun], [*closing, END])
                self.assertLess(choice["logprobs"]["content"][begun - 1]["logprob"], 0)
                self.assertTrue(choice["message"]["content"])
                thought = choice["message"]["reasoning_content"]
                self.assertTrue(thought.endswith(message[seed % 4 // 2].lstrip()), thought)
                unbound = asking.post("/v1/chat/completions", {**body, "thinking_token_budget": -1})["choices"][0]
                self.assertEqual((unbound["token_ids"][:10], unbound["message"]["content"]), (choice["token_ids"][:10], ""))
                behind = asking.post("/v1/completions", {
                    **{key: body[key] for key in ("model", "temperature", "seed", "logit_bias", "ignore_eos")},
                    "prompt": prompt + choice["token_ids"][:begun], "max_tokens": 40 - begun, "return_token_ids": True})
                self.assertEqual(behind["choices"][0]["token_ids"], choice["token_ids"][begun:])
                return choice

        alone = [ask(seed) for seed in range(8)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            self.assertEqual(list(pool.map(ask, range(8))), alone)

    def test_of_messages_has_a_budget(self):
        with client.Connection(self.server.url) as asking:
            answer = asking.post("/v1/messages", {
                "model": "demo", "max_tokens": 30, "messages": [{"role": "user", "content": "Is it raining?"}],
                "thinking": {"type": "enabled", "budget_tokens": 5}, "logit_bias": {END: -100}, "ignore_eos": True})
        self.assertEqual([block["type"] for block in answer["content"]], ["thinking", "text"])
        self.assertEqual(answer["usage"]["output_tokens_details"]["thinking_tokens"], 6)

    def test_that_does_not_end_is_all_there_is(self):
        answer = self.answer_to(question(1, bias=-100, max_tokens=20, ignore_eos=True))
        message, usage = answer["choices"][0]["message"], answer["usage"]
        self.assertTrue(message["reasoning_content"])
        self.assertEqual(message["content"], "")
        self.assertEqual(usage["completion_tokens_details"]["reasoning_tokens"], 20)
        self.assertEqual(answer["choices"][0]["finish_reason"], "length")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
