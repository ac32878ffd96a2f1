#!/usr/bin/env python3
"""/v1/responses with the real `openai` client: what a chat answers, in items, at once and in streams.

usage: responses_test.py ARIL_BINARY WORK_DIR

Exits 77 (a skip for ctest) where the client is absent.
"""

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
    import openai
    import pydantic
except ImportError:
    print("SKIPPED: the openai client is not installed (tools/venv.sh)")
    sys.exit(SKIP)
import aril_server
from thinking_template import END, template

ARIL, WORK = (pathlib.Path(argument) for argument in sys.argv[1:3])

# Thinks on request.
TEMPLATE = template("'<t>' if reasoning_effort == 'high' else ''")
QUESTION = "Which customers live in London?"
MODELS = ("demo", "sql", "routing")


class Forecast(pydantic.BaseModel):
    city: str = pydantic.Field(max_length=12)
    rain: Literal["yes", "no"]
    days: int = pydantic.Field(ge=1, le=9)


def said(response) -> list:
    """The items of an answer without their ids."""
    return [{key: value for key, value in item.to_dict().items() if key not in ("id", "call_id")}
            for item in response.output]


class ResponsesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(WORK, ignore_errors=True)
        WORK.mkdir(parents=True)
        (WORK / "thinking.jinja").write_text(TEMPLATE, encoding="utf-8")
        cls.server = aril_server.Server(["--demo", "--chat-template", WORK / "thinking.jinja"],
                                        WORK / "serve.log", ARIL)
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def respond(self, model: str, **options):
        return self.client.responses.create(
            **{"model": model, "input": QUESTION, "max_output_tokens": 40, "temperature": 0, **options})

    def streamed(self, model: str, **options) -> list:
        return list(self.respond(model, stream=True, **options))

    def test_say_what_a_chat_says(self):
        for model in MODELS:
            messages = [{"role": "system", "content": "Answer."}, {"role": "user", "content": QUESTION}]
            chat = self.client.chat.completions.create(model=model, messages=messages, max_tokens=40, temperature=0)
            response = self.respond(model, instructions="Answer.")
            self.assertRegex(response.id, "^resp_")
            self.assertEqual((response.object, response.model), ("response", model))
            self.assertEqual(response.output_text, chat.choices[0].message.content)
            self.assertEqual((response.usage.input_tokens, response.usage.output_tokens),
                             (chat.usage.prompt_tokens, chat.usage.completion_tokens))
            # What newer clients call responses.input_tokens.count().
            body = {"model": model, "input": QUESTION, "instructions": "Answer."}
            counted = self.client.post("/responses/input_tokens", body=body, cast_to=object)
            self.assertEqual(counted["input_tokens"], chat.usage.prompt_tokens)
            cut = chat.choices[0].finish_reason == "length"
            self.assertEqual(response.status, "incomplete" if cut else "completed")

    def test_streams_say_the_same(self):
        for model in MODELS:
            whole = self.respond(model)
            events = self.streamed(model)
            self.assertEqual([event.sequence_number for event in events], list(range(len(events))))
            text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
            self.assertEqual(text, whole.output_text)
            self.assertEqual(events[0].type, "response.created")
            self.assertEqual(events[-1].type, "response." + whole.status)
            self.assertEqual(said(events[-1].response), said(whole))
            self.assertEqual(events[-1].response.usage.output_tokens, whole.usage.output_tokens)

    def test_reasoning_is_an_item(self):
        for seed in range(4):
            options = {"reasoning": {"effort": "high"}, "temperature": 1, "max_output_tokens": 120,
                       "extra_body": {"seed": seed, "logit_bias": {END: 10}}}
            whole = self.respond("sql", **options)
            self.assertEqual(whole.output[0].type, "reasoning")
            self.assertTrue(whole.output[0].content[0].text)
            self.assertGreater(whole.usage.output_tokens_details.reasoning_tokens, 0)
            events = self.streamed("sql", **options)
            self.assertEqual(said(events[-1].response), said(whole))
            thought = "".join(event.delta for event in events if event.type == "response.reasoning_text.delta")
            self.assertEqual(thought, whole.output[0].content[0].text)
            # The whole answer is a part of the next input.
            history = [{"role": "user", "content": QUESTION}, *whole.output, {"role": "user", "content": "And now?"}]
            longer = self.respond("sql", input=history)
            without = self.respond("sql", input=[item for item in history if item is not whole.output[0]])
            self.assertGreater(longer.usage.input_tokens, without.usage.input_tokens)

    def test_a_conversation_that_comes_again_is_cached(self):
        history = [{"role": "user", "content": QUESTION}]
        first = self.respond("sql", input=history, extra_body={"reasoning_format": "none"})
        second = self.respond("sql", input=[*history, *first.output, {"role": "user", "content": "And in Rome?"}])
        self.assertGreater(second.usage.input_tokens_details.cached_tokens, first.usage.input_tokens)
        self.assertLess(second.usage.input_tokens_details.cached_tokens, second.usage.input_tokens)

    def test_formats_are_parsed(self):
        for model in MODELS:
            options = {"model": model, "input": QUESTION, "text_format": Forecast, "temperature": 1,
                       "max_output_tokens": 200, "extra_body": {"seed": 3, "reasoning_format": "none"}}
            parsed = self.client.responses.parse(**options)
            self.assertIsInstance(parsed.output_parsed, Forecast)
            with self.client.responses.stream(**options) as stream:
                self.assertEqual(stream.get_final_response().output_parsed, parsed.output_parsed)

    def test_tools_are_called_and_answered(self):
        tools = [openai.pydantic_function_tool(Forecast, name="forecast", description="The weather to come")]
        for model in MODELS:
            options = {"model": model, "input": QUESTION, "tools": tools, "tool_choice": "required",
                       "parallel_tool_calls": False, "temperature": 1, "max_output_tokens": 200,
                       "extra_body": {"seed": 5, "reasoning_format": "none"}}
            response = self.client.responses.parse(**options)
            call = response.output[0]
            self.assertEqual((call.type, call.name, call.status), ("function_call", "forecast", "completed"))
            self.assertIsInstance(call.parsed_arguments, Forecast)
            with self.client.responses.stream(**options) as stream:
                self.assertEqual(stream.get_final_response().output[0].parsed_arguments, call.parsed_arguments)
            history = [{"role": "user", "content": QUESTION}, call,
                       {"type": "function_call_output", "call_id": call.call_id, "output": "It rains."}]
            answer = self.client.responses.parse(
                model=model, input=history, tools=tools, tool_choice="none", max_output_tokens=8, temperature=0)
            self.assertEqual(answer.output[0].type, "message")

    def test_logprobs_are_of_the_text(self):
        include = ["message.output_text.logprobs"]
        content = self.respond("sql", include=include, top_logprobs=2,
                               extra_body={"reasoning_format": "none"}).output[0].content[0]
        shown = b"".join(bytes(token.bytes) for token in content.logprobs).decode()
        self.assertTrue(shown.startswith(content.text))
        for token in content.logprobs:
            self.assertEqual(token.top_logprobs[0].logprob, token.logprob)

    def test_say_what_they_cannot_do(self):
        image = [{"role": "user", "content": [{"type": "input_image", "image_url": "data:"}]}]
        for param, options in [
                ("previous_response_id", {"previous_response_id": "resp_1"}),
                ("store", {"store": True}),
                ("tools[0]", {"tools": [{"type": "web_search"}]}),
                ("input[0].content[0]", {"input": image}),
                ("input", {"input": []}),
                ("max_tokens", {"extra_body": {"max_tokens": 4}})]:
            with self.subTest(param), self.assertRaises(openai.BadRequestError) as caught:
                self.respond("demo", **options)
            self.assertEqual(caught.exception.param, param)
        with self.assertRaisesRegex(openai.NotFoundError, "The model `nobody` does not exist."):
            self.respond("nobody")
        with self.assertRaisesRegex(openai.NotFoundError, "keeps no answers"):
            self.client.responses.retrieve("resp_1")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
