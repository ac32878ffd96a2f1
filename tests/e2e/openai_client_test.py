#!/usr/bin/env python3
"""The real `openai` client against `aril serve`, on a small model with eight synthetic adapters.

usage: openai_client_test.py ARIL_BINARY WORK_DIR MODEL_DIR

Exits 77 (a skip for ctest) where the client or the model is absent.
"""

import concurrent.futures
import json
import pathlib
import shutil
import subprocess
import sys
import time
import unittest
import urllib.request
from typing import Literal, Optional

SKIP = 77
PROMPT = "Once upon a time, there was a little"
KEY = "sk-of-acme"
LIMITED_KEY = "sk-of-limited"
CHAT_TEMPLATE = """\
{%- for tool in tools or [] %}{{- tool.function.name ~ " " }}{%- endfor %}
{%- for message in messages -%}
{%- if message.role not in ["system", "user", "assistant", "tool"] %}
{{- raise_exception("There is no role " ~ message.role) }}
{%- endif %}
{{- message.content }}
{%- for call in message.tool_calls %}{{- "<call>" ~ (call.function | tojson) ~ "</call>" }}{%- endfor %}
{{- " " }}
{%- endfor %}"""

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import test_venv

test_venv.enter()
try:
    import openai
    import pydantic
except ImportError:
    print("SKIPPED: the openai client is not installed (tools/venv.sh)")
    sys.exit(SKIP)
import aril_server

ARIL, WORK, MODEL = (pathlib.Path(argument) for argument in sys.argv[1:4])
if not (MODEL / "config.json").is_file():
    print(f"SKIPPED: there is no model at {MODEL}")
    sys.exit(SKIP)


class Server(aril_server.Server):
    """`aril serve` with eight adapters, keys and a chat template."""

    def __init__(self):
        adapters = WORK / "adapters"
        template = WORK / "chat.jinja"
        keys = WORK / "keys"
        shutil.rmtree(WORK, ignore_errors=True)
        WORK.mkdir(parents=True)
        subprocess.run([ARIL, "synth", "adapters", "--model", MODEL, "--count", "8", "--ranks",
                        "4,8,16,32", "--targets", "all-linear", "--seed", "1", "--out", adapters],
                       check=True, stdout=subprocess.DEVNULL)
        template.write_text(CHAT_TEMPLATE, encoding="utf-8")
        keys.write_text(f"{KEY} acme\n{LIMITED_KEY} limited\n", encoding="utf-8")
        self.limits = WORK / "limits"
        self.limits.write_text("limited requests-per-minute=1 tokens-per-minute=1000\n",
                               encoding="utf-8")
        self.names = sorted(path.name for path in adapters.iterdir())
        super().__init__(["--model", MODEL, "--adapters", adapters, "--served-model-name", "base",
                          "--chat-template", template, "--api-key-file", keys,
                          "--tenant-limits-file", self.limits],
                         WORK / "serve.log", ARIL)


def tokens(usage) -> tuple:
    """What depends on the request alone: not what was found cached."""
    return (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens)


class OpenAiClientTest(unittest.TestCase):
    """What users of the client rely on."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key=KEY, max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def complete(self, model: str, **options):
        return self.client.completions.create(
            **{"model": model, "prompt": PROMPT, "max_tokens": 16, "temperature": 0, **options})

    def test_lists_base_and_adapters(self):
        models = {model.id: model for model in self.client.models.list()}
        self.assertEqual(sorted(models), sorted(["base", *self.server.names]))
        self.assertEqual(models[self.server.names[0]].parent, "base")
        self.assertEqual(self.client.models.retrieve(self.server.names[3]).id, self.server.names[3])

    def test_completion_counts_its_tokens(self):
        answer = self.complete("base", max_tokens=7)
        self.assertRegex(answer.id, "^cmpl-")
        self.assertEqual(answer.object, "text_completion")
        self.assertEqual(answer.model, "base")
        self.assertEqual(answer.choices[0].finish_reason, "length")
        self.assertEqual(answer.usage.completion_tokens, 7)
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + 7)

    def test_stream_says_what_the_whole_answer_says(self):
        whole = self.complete("base")
        chunks = list(self.complete("base", stream=True, stream_options={"include_usage": True}))
        text = "".join(chunk.choices[0].text for chunk in chunks if chunk.choices)
        self.assertEqual(text, whole.choices[0].text)
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(tokens(chunks[-1].usage), tokens(whole.usage))

    def test_a_prompt_that_was_there_is_cached_and_answered_alike(self):
        prompt = "The old clock of the village struck. " * 5
        for model in ("base", self.server.names[2]):
            first, second = (self.complete(model, prompt=prompt) for _ in range(2))
            self.assertEqual(first.usage.prompt_tokens_details.cached_tokens, 0)
            cached = second.usage.prompt_tokens_details.cached_tokens
            self.assertGreater(cached, second.usage.prompt_tokens // 2)
            self.assertLess(cached, second.usage.prompt_tokens)
            self.assertEqual(second.choices[0].text, first.choices[0].text)

    def test_adapters_answer_at_once_as_they_answer_alone(self):
        models = ["base", *self.server.names]
        alone = {model: self.complete(model).choices[0].text for model in models}
        self.assertGreater(len(set(alone.values())), 1, "no adapter changes the base's answer")
        with concurrent.futures.ThreadPoolExecutor(len(models)) as pool:
            together = dict(zip(models, pool.map(
                lambda model: self.complete(model).choices[0].text, models)))
        self.assertEqual(together, alone)

    def test_stop_string_is_not_part_of_the_answer(self):
        whole = self.complete("base").choices[0].text
        stop = whole[4:7]
        cut = self.complete("base", stop=[stop]).choices[0]
        self.assertEqual(cut.finish_reason, "stop")
        self.assertEqual(cut.text, whole[:whole.index(stop)])

    def test_seeded_choices_repeat_and_differ(self):
        options = {"temperature": 1.0, "seed": 7, "n": 3}
        first, second = (self.complete("base", **options) for _ in range(2))
        texts = [choice.text for choice in first.choices]
        self.assertEqual(texts, [choice.text for choice in second.choices])
        self.assertEqual(len(set(texts)), 3)

    def test_logprobs_belong_to_the_greedy_tokens(self):
        logprobs = self.complete("base", logprobs=2, max_tokens=5).choices[0].logprobs
        self.assertEqual(len(logprobs.tokens), 5)
        for token, logprob, top in zip(logprobs.tokens, logprobs.token_logprobs,
                                       logprobs.top_logprobs):
            self.assertEqual(top[token], logprob)
            self.assertEqual(logprob, max(top.values()))

    def test_best_of_answers_with_the_likeliest(self):
        options = {"temperature": 1.0, "seed": 3, "logprobs": 0, "max_tokens": 6}
        every = self.complete("base", n=4, **options).choices
        best = self.complete("base", n=2, best_of=4, **options).choices
        def mean(choice):
            return sum(choice.logprobs.token_logprobs) / len(choice.logprobs.tokens)
        likeliest = sorted(every, key=mean, reverse=True)[:2]
        self.assertEqual([choice.text for choice in best], [choice.text for choice in likeliest])

    def chat(self, model: str, *contents: str, **options):
        roles = ("user", "assistant")
        messages = [{"role": roles[i % 2], "content": text} for i, text in enumerate(contents)]
        return self.client.chat.completions.create(
            **{"model": model, "messages": messages, "max_completion_tokens": 12,
               "temperature": 0, **options})

    def test_chat_answers_what_its_prompt_is_completed_with(self):
        for model in ("base", self.server.names[5]):
            answer = self.chat(model, "Once upon a time,", "there was", "a little")
            whole = self.complete(model, prompt="Once upon a time, there was a little ",
                                  max_tokens=12, extra_body={"add_special_tokens": False})
            self.assertRegex(answer.id, "^chatcmpl-")
            self.assertEqual(answer.object, "chat.completion")
            self.assertEqual(answer.choices[0].message.role, "assistant")
            self.assertEqual(answer.choices[0].message.content, whole.choices[0].text)
            self.assertEqual(tokens(answer.usage), tokens(whole.usage))

    def test_chat_stream(self):
        whole = self.chat("base", PROMPT, n=2, seed=1)
        chunks = list(self.chat("base", PROMPT, n=2, seed=1, stream=True,
                                stream_options={"include_usage": True}))
        self.assertEqual({chunk.object for chunk in chunks}, {"chat.completion.chunk"})
        for index, choice in enumerate(whole.choices):
            mine = [c.choices[0] for c in chunks if c.choices and c.choices[0].index == index]
            self.assertEqual((mine[0].delta.role, mine[0].delta.content), ("assistant", ""))
            self.assertEqual("".join(c.delta.content or "" for c in mine), choice.message.content)
            self.assertEqual([c.finish_reason for c in mine if c.finish_reason], ["length"])
        self.assertEqual(tokens(chunks[-1].usage), tokens(whole.usage))

    def test_chat_logprobs(self):
        choice = self.chat("base", PROMPT, logprobs=True, top_logprobs=3).choices[0]
        tokens = choice.logprobs.content
        self.assertEqual(len(tokens), 12)
        self.assertEqual(b"".join(bytes(token.bytes) for token in tokens).decode(),
                         choice.message.content)
        for token in tokens:
            self.assertEqual(len(token.top_logprobs), 3)
            self.assertEqual(token.top_logprobs[0].logprob, token.logprob)

    def test_chat_takes_parts_and_stops(self):
        whole = self.chat("base", PROMPT).choices[0].message.content
        parts = [{"type": "text", "text": PROMPT}]
        answer = self.client.chat.completions.create(
            model="base", messages=[{"role": "user", "content": parts}], temperature=0,
            max_tokens=12, stop=whole[3:6])
        self.assertEqual(answer.choices[0].message.content, whole[:whole.index(whole[3:6])])
        self.assertEqual(answer.choices[0].finish_reason, "stop")

    def test_chat_refuses_what_it_cannot_do(self):
        tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
        image = [{"type": "image_url", "image_url": {"url": "data:"}}]
        for param, options in [
                ("tools[0]", {"tools": [{"type": "custom", "custom": {"name": "f"}}]}),
                ("tool_choice", {"tool_choice": "required"}),
                ("response_format", {"response_format": {"type": "grammar"}}),
                ("messages[0].content[0]", {"messages": [{"role": "user", "content": image}]}),
                ("messages", {"messages": [{"role": "wizard", "content": "hi"}]}),
                ("messages", {"messages": []}),
                ("top_logprobs", {"top_logprobs": 2})]:
            with self.subTest(param), self.assertRaises(openai.BadRequestError) as caught:
                self.chat("base", PROMPT, **options)
            self.assertEqual(caught.exception.param, param)
        self.chat("base", PROMPT, tools=[tool], tool_choice="none")

    def test_structured_outputs_are_parsed(self):
        class Step(pydantic.BaseModel):
            name: Literal["look", "take", "leave"]
            count: int = pydantic.Field(ge=0, le=9)

        class Plan(pydantic.BaseModel):
            title: str = pydantic.Field(max_length=12)
            steps: list[Step] = pydantic.Field(min_length=1, max_length=2)
            note: Optional[Literal["soon", "later"]]

        for model in ("base", self.server.names[5]):
            answer = self.client.chat.completions.parse(
                model=model, messages=[{"role": "user", "content": PROMPT}], response_format=Plan,
                temperature=1, seed=4, max_tokens=240)
            self.assertIsInstance(answer.choices[0].message.parsed, Plan)
        answer = self.chat("base", PROMPT, extra_body={"structured_outputs": {"choice": ["a", "b"]}})
        self.assertIn(answer.choices[0].message.content, ("a", "b"))

    def test_tools_are_called(self):
        class Look(pydantic.BaseModel):
            """Looks for something."""
            thing: str = pydantic.Field(max_length=9)
            where: Literal["house", "garden"]

        tools = [openai.pydantic_function_tool(Look)]
        for model in ("base", self.server.names[5]):
            asked = {"model": model, "messages": [{"role": "user", "content": PROMPT}], "tools": tools,
                     "tool_choice": "required", "parallel_tool_calls": False, "temperature": 1, "seed": 4,
                     "max_tokens": 150}
            answer = self.client.chat.completions.parse(**asked).choices[0]
            self.assertEqual(answer.finish_reason, "tool_calls")
            call = answer.message.tool_calls[0]
            self.assertIsInstance(call.function.parsed_arguments, Look)
            with self.client.chat.completions.stream(**asked) as stream:
                streamed = stream.get_final_completion().choices[0]
            self.assertEqual(streamed.finish_reason, "tool_calls")
            self.assertEqual(streamed.message.tool_calls[0].function.parsed_arguments,
                             call.function.parsed_arguments)
            history = [*asked["messages"], answer.message,
                       {"role": "tool", "tool_call_id": call.id, "content": "It is there."}]
            answer = self.client.chat.completions.create(
                model=model, messages=history, tools=tools, max_tokens=8, temperature=0)
            self.assertEqual(answer.choices[0].finish_reason, "length")
            self.assertTrue(answer.choices[0].message.content)

    def test_template_errors_are_the_answer(self):
        with self.assertRaisesRegex(openai.BadRequestError, "There is no role wizard"):
            self.client.chat.completions.create(
                model="base", messages=[{"role": "wizard", "content": "hi"}])

    def test_a_closed_stream_is_cancelled(self):
        stream = self.complete("base", stream=True, max_tokens=400,
                               extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
        deadline = time.monotonic() + 60
        while self.metric("aril_requests_in_flight") > 0:
            self.assertLess(time.monotonic(), deadline, "the request is still in work")
            time.sleep(0.01)
        self.assertGreater(self.metric('aril_requests_total{outcome="cancelled"}'), 0)

    def metric(self, name: str) -> float:
        with urllib.request.urlopen(self.server.url + "/metrics", timeout=60) as response:
            for line in response.read().decode().splitlines():
                if line.startswith(name + " "):
                    return float(line.split()[-1])
        return 0

    def test_wrong_key(self):
        with self.assertRaises(openai.AuthenticationError):
            self.client.with_options(api_key="wrong").models.list()

    def test_tenant_of_the_key_is_counted(self):
        self.complete("base")
        self.assertGreater(self.metric('aril_tokens_total{kind="generated",tenant="acme"}'), 0)

    def test_limits_of_a_tenant(self):
        limited = self.client.with_options(api_key=LIMITED_KEY).with_raw_response.completions
        request = {"model": "base", "prompt": PROMPT, "max_tokens": 4}
        headers = limited.create(**request).headers
        self.assertEqual(headers["x-ratelimit-limit-requests"], "1")
        self.assertEqual(headers["x-ratelimit-remaining-requests"], "0")
        self.assertLess(int(headers["x-ratelimit-remaining-tokens"]), 1000)
        with self.assertRaises(openai.RateLimitError) as caught:
            limited.create(**request)
        self.assertEqual(caught.exception.code, "rate_limit_exceeded")
        self.assertLessEqual(int(caught.exception.response.headers["Retry-After"]), 60)
        self.complete("base")  # others have no limit
        # The operator allows more; there is no need to start again.
        self.server.limits.write_text("limited requests-per-minute=1000\n", encoding="utf-8")
        deadline = time.monotonic() + 60
        while self.metric('aril_settings_reloads_total{flag="--tenant-limits-file",'
                          'outcome="success"}') == 0:
            self.assertLess(time.monotonic(), deadline, "the file has not been read again")
            time.sleep(0.01)
        self.assertEqual(limited.create(**request).headers["x-ratelimit-limit-requests"], "1000")

    def test_tokenize_shows_what_a_chat_sees(self):
        body = {"model": "base", "messages": [{"role": "user", "content": PROMPT}]}
        request = urllib.request.Request(
            self.server.url + "/tokenize", json.dumps(body).encode(),
            {"Authorization": f"Bearer {KEY}"})
        with urllib.request.urlopen(request, timeout=60) as response:
            answer = json.load(response)
        usage = self.chat("base", PROMPT).usage
        self.assertEqual(answer["count"], usage.prompt_tokens)
        self.assertEqual(len(answer["tokens"]), usage.prompt_tokens)

    def test_unknown_model(self):
        with self.assertRaisesRegex(openai.NotFoundError, "The model `nobody` does not exist."):
            self.complete("nobody")

    def test_wrong_type_names_the_field(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.complete("base", extra_body={"top_k": "many"})
        self.assertEqual(caught.exception.param, "top_k")

    def test_prompt_over_the_context(self):
        with self.assertRaisesRegex(openai.BadRequestError, "maximum context length"):
            self.complete("base", max_tokens=10**6)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
