#!/usr/bin/env python3
"""/v1/messages with the real `anthropic` client: what a chat answers, in blocks, at once and in streams.

usage: anthropic_client_test.py ARIL_BINARY WORK_DIR

Exits 77 (a skip for ctest) where the client is absent.
"""

import asyncio
import pathlib
import shutil
import sys
import unittest
from typing import Literal

SKIP = 77
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import test_venv

test_venv.enter()
try:
    import anthropic
    import openai
    import pydantic
except ImportError:
    print("SKIPPED: the anthropic client is not installed (tools/venv.sh)")
    sys.exit(SKIP)
import aril_server
from thinking_template import END, template

ARIL, WORK = (pathlib.Path(argument) for argument in sys.argv[1:3])

KEY = "sk-of-acme"
QUESTION = "Which customers live in London?"
HISTORY = [{"role": "user", "content": QUESTION}]
MODELS = ("demo", "sql", "routing")
TOOL = {"name": "forecast", "description": "The weather to come", "input_schema": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 12}, "days": {"type": "integer"}},
    "required": ["city", "days"], "additionalProperties": False}}


class Forecast(pydantic.BaseModel):
    city: Literal["London", "Rome"]  # lengths and ranges the client leaves out of the schema
    days: int


def said(message) -> list:
    """The blocks of an answer without their ids."""
    return [{key: value for key, value in block.to_dict().items() if key != "id"} for block in message.content]


class AnthropicClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(WORK, ignore_errors=True)
        WORK.mkdir(parents=True)
        (WORK / "thinking.jinja").write_text(template("'<t>' if enable_thinking else ''"), encoding="utf-8")
        (WORK / "keys").write_text(f"{KEY} acme\n", encoding="utf-8")
        cls.server = aril_server.Server(
            ["--demo", "--chat-template", WORK / "thinking.jinja", "--api-key-file", WORK / "keys"],
            WORK / "serve.log", ARIL)
        cls.options = {"base_url": cls.server.url, "max_retries": 0}
        cls.client = anthropic.Anthropic(api_key=KEY, **cls.options)
        cls.openai = openai.OpenAI(base_url=cls.server.url + "/v1", api_key=KEY, max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def ask(self, model: str, **options):
        return self.client.messages.create(**self.fields(model, **options))

    @staticmethod
    def fields(model: str, **options) -> dict:
        # The newest clients have no temperature any more; older ones send it just so.
        sampling = {"temperature": 0, **options.pop("extra_body", {})}
        return {"model": model, "messages": HISTORY, "max_tokens": 40, "extra_body": sampling, **options}

    def streamed(self, model: str, **options):
        with self.client.messages.stream(**self.fields(model, **options)) as stream:
            return stream.get_final_message()

    def test_say_what_a_chat_says(self):
        for model in MODELS:
            chat = self.openai.chat.completions.create(
                model=model, max_tokens=40, temperature=0, messages=[{"role": "system", "content": "Answer."}, *HISTORY])
            message = self.ask(model, system=[{"type": "text", "text": "Answer.", "cache_control": {"type": "ephemeral"}}])
            self.assertRegex(message.id, "^msg_")
            self.assertEqual((message.type, message.role, message.model), ("message", "assistant", model))
            self.assertEqual(message.content[0].text, chat.choices[0].message.content)
            usage = message.usage
            self.assertEqual(usage.input_tokens + usage.cache_read_input_tokens, chat.usage.prompt_tokens)
            self.assertEqual(usage.output_tokens, chat.usage.completion_tokens)
            cut = chat.choices[0].finish_reason == "length"
            self.assertEqual(message.stop_reason, "max_tokens" if cut else "end_turn")
            counted = self.client.messages.count_tokens(model=model, messages=HISTORY, system="Answer.")
            self.assertEqual(counted.input_tokens, chat.usage.prompt_tokens)

    def test_streams_say_the_same(self):
        for model in MODELS:
            whole = self.ask(model)
            with self.client.messages.stream(**self.fields(model)) as stream:
                text = "".join(stream.text_stream)
                message = stream.get_final_message()
            self.assertEqual(text, whole.content[0].text)
            self.assertEqual(said(message), said(whole))
            self.assertEqual((message.stop_reason, message.usage.output_tokens),
                             (whole.stop_reason, whole.usage.output_tokens))

    def test_many_ask_at_once(self):
        alone = {model: self.ask(model).content[0].text for model in MODELS}

        async def ask_all():
            async with anthropic.AsyncAnthropic(api_key=KEY, **self.options) as client:
                return await asyncio.gather(*(client.messages.create(**self.fields(model)) for model in MODELS * 8))

        for message in asyncio.run(ask_all()):
            self.assertEqual(message.content[0].text, alone[message.model])

    def test_thinking_is_a_block(self):
        for seed in range(4):
            options = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 120,
                       "extra_body": {"temperature": 1, "seed": seed, "logit_bias": {END: 10}}}
            whole = self.ask("sql", **options)
            self.assertEqual(whole.content[0].type, "thinking")
            self.assertTrue(whole.content[0].thinking)
            self.assertGreater(whole.usage.output_tokens_details.thinking_tokens, 0)
            self.assertEqual(said(self.streamed("sql", **options)), said(whole))
            # The whole answer is a part of the next conversation.
            history = [*HISTORY, {"role": "assistant", "content": whole.content}, {"role": "user", "content": "And now?"}]
            without = [*HISTORY, {"role": "assistant", "content": whole.content[1:]}, history[-1]]
            counts = [self.client.messages.count_tokens(model="sql", messages=messages).input_tokens
                      for messages in (history, without)]
            self.assertGreater(*counts)
        self.assertEqual([block.type for block in self.ask("sql", thinking={"type": "disabled"}).content], ["text"])

    def test_tools_are_used_and_answered(self):
        for model in MODELS:
            options = {"tools": [TOOL], "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
                       "max_tokens": 200, "extra_body": {"temperature": 1, "seed": 5, "reasoning_format": "none"}}
            message = self.ask(model, **options)
            use = message.content[0]
            self.assertEqual((use.type, use.name, message.stop_reason), ("tool_use", "forecast", "tool_use"))
            self.assertEqual(set(use.input), {"city", "days"})
            self.assertEqual(said(self.streamed(model, **options)), said(message))
            result = {"type": "tool_result", "tool_use_id": use.id, "content": [{"type": "text", "text": "It rains."}]}
            answer = self.ask(model, tools=[TOOL], tool_choice={"type": "none"}, max_tokens=8, messages=[
                *HISTORY, {"role": "assistant", "content": message.content}, {"role": "user", "content": [result]}])
            self.assertEqual(answer.content[0].type, "text")

    def test_formats_are_parsed(self):
        for model in MODELS:
            parsed = self.client.messages.parse(**self.fields(
                model, output_format=Forecast, max_tokens=200, extra_body={"temperature": 1, "seed": 3, "reasoning_format": "none"}))
            self.assertIsInstance(parsed.parsed_output, Forecast)

    def test_an_answer_goes_on_with_its_beginning(self):
        whole = self.ask("sql").content[0].text
        begun = [*HISTORY, {"role": "assistant", "content": whole[:8]}]
        self.assertEqual(whole[:8] + self.ask("sql", messages=begun).content[0].text, whole)

    def test_say_where_they_stopped(self):
        whole = self.ask("sql").content[0].text
        for message in (self.ask("sql", stop_sequences=[whole[4:9]]), self.streamed("sql", stop_sequences=[whole[4:9]])):
            self.assertEqual((message.stop_reason, message.stop_sequence), ("stop_sequence", whole[4:9]))
            self.assertEqual(message.content[0].text, whole[:4])
        # As much as the largest models may give.
        self.assertEqual(self.streamed("sql", max_tokens=128_000, extra_body={"ignore_eos": True}).stop_reason,
                         "model_context_window_exceeded")

    def test_a_conversation_that_comes_again_is_cached(self):
        first = self.ask("sql")
        longer = [*HISTORY, {"role": "assistant", "content": first.content}, {"role": "user", "content": "And in Rome?"}]
        usage = self.ask("sql", messages=longer).usage
        self.assertGreater(usage.cache_read_input_tokens, first.usage.cache_read_input_tokens)
        count = self.client.messages.count_tokens(model="sql", messages=longer)
        self.assertEqual(usage.input_tokens + usage.cache_read_input_tokens, count.input_tokens)

    def test_say_what_is_wrong(self):
        image = {"type": "image", "source": {"type": "url", "url": "https://example.org/cat.png"}}
        for field, options in [
                ("messages[0].content[0].type", {"messages": [{"role": "user", "content": [image]}]}),
                ("tools[0]", {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
                ("messages", {"messages": []}),
                ("stop", {"extra_body": {"stop": "x"}})]:
            with self.subTest(field), self.assertRaises(anthropic.BadRequestError) as caught:
                self.ask("demo", **options)
            self.assertEqual(caught.exception.type, "invalid_request_error")
            self.assertEqual(caught.exception.body["error"]["param"], field)
            self.assertIn(f"`{field}`", caught.exception.api_message)
        with self.assertRaisesRegex(anthropic.NotFoundError, "The model `nobody` does not exist.") as caught:
            self.ask("nobody")
        self.assertEqual(caught.exception.type, "not_found_error")
        for options in ({"api_key": "wrong"}, {"auth_token": "wrong"}):
            with self.assertRaises(anthropic.AuthenticationError) as caught:
                anthropic.Anthropic(**options, **self.options).messages.create(**self.fields("demo"))
            self.assertEqual(caught.exception.type, "authentication_error")

    def test_a_key_may_be_a_token(self):
        client = anthropic.Anthropic(auth_token=KEY, **self.options)
        self.assertEqual(client.messages.create(**self.fields("demo")).type, "message")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
