#!/usr/bin/env python3
"""Tool calls: each adapter by its own template, right by construction, in any company, and in a cluster whatever
dies.

usage: tools_test.py ARIL_BINARY WORK_DIR
"""

import concurrent.futures
import json
import pathlib
import shutil
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools/demo")]
import aril_cluster
import aril_server
import client

ARIL, WORK = (pathlib.Path(argument) for argument in sys.argv[1:3])
DEMO = ROOT / "models/demo"

# As Qwen writes calls, around the demo's own roles.
TAGGED = """\
{%- for tool in tools or [] %}{{- '<|tool|>' + tool.function.name }}{%- endfor %}
{%- for message in messages %}
{{- '<|' + message.role + '|>' + message.content }}
{%- for call in message.tool_calls %}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments | tojson + '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|end|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}"""
# Another syntax, and one call at a time.
PLAIN = """\
{%- for tool in tools or [] %}{{- tool.function.name + ' ' }}{%- endfor %}
{%- for message in messages %}
{{- '<|' + message.role + '|>' + message.content }}
{%- if message.tool_calls | length > 1 %}{{- raise_exception('one at a time') }}{%- endif %}
{%- for call in message.tool_calls %}
{{- '{"name": "' + call.function.name + '", "parameters": ' + call.function.arguments | tojson + '}' }}
{%- endfor %}
{{- '<|end|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}"""

# As Qwen 3.5 writes calls: arguments as elements, strings as they are.
ELEMENTS = """\
{%- for tool in tools or [] %}{{- tool.function.name + ' ' }}{%- endfor %}
{%- for message in messages %}
{{- '<|' + message.role + '|>' + message.content }}
{%- for call in message.tool_calls %}
{{- '\\n<tool_call>\\n<function=' + call.function.name + '>\\n' }}
{%- for name, value in call.function.arguments | items %}
{{- '<parameter=' + name + '>\\n' + (value if value is string else value | tojson) + '\\n</parameter>\\n' }}
{%- endfor %}
{{- '</function>\\n</tool_call>' }}
{%- endfor %}
{{- '<|end|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}"""

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of now", "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 12}, "unit": {"enum": ["C", "F"]},
                       "days": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["city", "unit", "days"], "additionalProperties": False}}}
NOW = {"type": "function", "function": {"name": "now"}}


def question(model: str, seed: int, **fields) -> dict:
    return {"model": model, "messages": [{"role": "user", "content": "Is it raining?"}],
            "max_tokens": 300, "temperature": 1, "seed": seed, "tools": [WEATHER, NOW], **fields}


def without_ids(choice: dict) -> dict:
    for call in choice["message"].get("tool_calls", []):
        assert len(call.pop("id")) == 9
    return choice


def gathered(events) -> dict:
    """The message and the finish_reason of a stream."""
    message, finish = {"content": None, "tool_calls": []}, None
    for event in events:
        choice = event["choices"][0]
        delta, finish = choice["delta"], choice["finish_reason"] or finish
        if delta.get("content"):
            message["content"] = (message["content"] or "") + delta["content"]
        for call in delta.get("tool_calls", []):
            if "id" in call:
                assert call["index"] == len(message["tool_calls"])
                message["tool_calls"].append({"type": call["type"], "function": call["function"]})
            else:
                function = message["tool_calls"][call["index"]]["function"]
                function["arguments"] += call["function"]["arguments"]
    return {"message": message, "finish_reason": finish}


class ToolsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(WORK, ignore_errors=True)
        WORK.mkdir(parents=True)
        (WORK / "tagged.jinja").write_text(TAGGED, encoding="utf-8")
        shutil.copytree(DEMO / "adapters/routing", WORK / "plain")
        (WORK / "plain/chat_template.jinja").write_text(PLAIN, encoding="utf-8")
        shutil.copytree(DEMO / "adapters/sql", WORK / "elements")
        (WORK / "elements/chat_template.jinja").write_text(ELEMENTS, encoding="utf-8")
        cls.server = aril_server.Server(
            ["--demo", "--chat-template", WORK / "tagged.jinja", "--lora-modules",
             f"plain={WORK / 'plain'}", f"elements={WORK / 'elements'}"], WORK / "serve.log", ARIL)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def choice_of(self, body: dict) -> dict:
        with client.Connection(self.server.url) as asking:
            return without_ids(asking.post("/v1/chat/completions", body)["choices"][0])

    def check_calls(self, choice: dict) -> None:
        for call in choice["message"]["tool_calls"]:
            arguments = json.loads(call["function"]["arguments"])
            if call["function"]["name"] == "now":
                self.assertEqual(arguments, {})
                continue
            self.assertEqual(call["function"]["name"], "get_weather")
            self.assertEqual(list(arguments), ["city", "unit", "days"])
            self.assertLessEqual(len(arguments["city"]), 12)
            self.assertIn(arguments["unit"], ["C", "F"])
            self.assertIn(arguments["days"], range(1, 10))

    def test_adapters_call_by_their_own_templates_in_any_company(self):
        models = ["demo", "plain", "sql", "formal"]
        bodies = [question(models[i % 4], seed=i) for i in range(32)]
        for i, body in enumerate(bodies):
            if i % 8 < 4:
                body["tool_choice"] = "required"
                body["parallel_tool_calls"] = i % 16 < 4
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            together = list(pool.map(self.choice_of, bodies))
        for body, choice in zip(bodies, together):
            if body.get("tool_choice") == "required":
                self.assertIsNone(choice["message"]["content"])
                if choice["finish_reason"] == "tool_calls":
                    self.check_calls(choice)
                if not body["parallel_tool_calls"]:
                    self.assertEqual(choice["finish_reason"], "tool_calls")
                    self.assertEqual(len(choice["message"]["tool_calls"]), 1)
        self.assertEqual([self.choice_of(body) for body in bodies], together)

    def test_streams_are_the_same(self):
        for model, seed in (("demo", 1), ("plain", 2), ("sql", 3)):
            body = question(model, seed, tools=[WEATHER], tool_choice="required",
                            parallel_tool_calls=False)
            with client.Connection(self.server.url) as asking:
                events = [event for _, event in asking.stream("/v1/chat/completions", body)]
            streamed = gathered(events)
            whole = self.choice_of(body)
            self.assertEqual(streamed["message"]["tool_calls"], whole["message"]["tool_calls"])
            self.assertEqual(streamed["finish_reason"], whole["finish_reason"])
            self.assertGreater(len(events), 5, "arguments come as they are generated")

    def test_arguments_may_be_written_one_by_one(self):
        place = {"type": "function", "function": {"name": "move", "parameters": {
            "type": "object", "properties": {
                "to": {"enum": ["north", "a \"place\"\nof two lines"]},
                "steps": {"type": "integer", "minimum": 1, "maximum": 99},
                "how": {"type": "object", "properties": {"fast": {"type": "boolean"}},
                        "required": ["fast"], "additionalProperties": False}},
            "required": ["to", "steps", "how"], "additionalProperties": False}}}
        seen = set()
        for seed in range(8):
            body = question("elements", seed, tools=[place], tool_choice="required",
                            parallel_tool_calls=False)
            choice = self.choice_of(body)
            self.assertEqual(choice["finish_reason"], "tool_calls")
            call = choice["message"]["tool_calls"][0]["function"]
            arguments = json.loads(call["arguments"])
            self.assertEqual(list(arguments), ["to", "steps", "how"])
            self.assertIn(arguments["to"], place["function"]["parameters"]["properties"]["to"]["enum"])
            self.assertIn(arguments["steps"], range(1, 100))
            self.assertIsInstance(arguments["how"]["fast"], bool)
            seen.add(call["arguments"])
            with client.Connection(self.server.url) as asking:
                events = [event for _, event in asking.stream("/v1/chat/completions", body)]
            self.assertEqual(gathered(events)["message"]["tool_calls"][0]["function"], call)
        self.assertGreater(len(seen), 1)
        # A string is told as it comes, and as JSON: what may be its end is held back.
        note = {"type": "function", "function": {"name": "note", "parameters": {
            "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}}}
        body = question("elements", 1, tools=[note], tool_choice="required", max_tokens=60)
        with client.Connection(self.server.url) as asking:
            events = [event for _, event in asking.stream("/v1/chat/completions", body)]
        cut = gathered(events)
        arguments = cut["message"]["tool_calls"][0]["function"]["arguments"]
        self.assertTrue(arguments.startswith('{"text": "'), arguments)
        self.assertGreater(len(events), 5, "it comes as it is generated")
        # What such a text must be like is nothing that could be promised.
        strict = {"type": "function", "function": {**WEATHER["function"], "strict": True}}
        status, answer = aril_server.request(
            f"{self.server.url}/v1/chat/completions", "POST", question("elements", 1, tools=[strict]),
            {"Content-Type": "application/json"})
        self.assertEqual(status, 400, answer)
        self.assertIn("`maxLength` cannot be kept to", json.loads(answer)["error"]["message"])

    def test_a_conversation_goes_on_with_its_calls(self):
        body = question("demo", 4, tool_choice={"type": "function",
                                                "function": {"name": "get_weather"}})
        with client.Connection(self.server.url) as asking:
            choice = asking.post("/v1/chat/completions", body)["choices"][0]
        self.assertEqual(choice["finish_reason"], "stop")
        call = choice["message"]["tool_calls"][0]
        body["messages"] += [choice["message"],
                             {"role": "tool", "tool_call_id": call["id"], "content": "No."}]
        body["tool_choice"] = "none"
        answer = self.choice_of(body)
        self.assertNotIn("tool_calls", answer["message"])
        self.assertIn(answer["finish_reason"], ["stop", "length"])

    def test_an_answer_may_have_a_format_instead(self):
        schema = {"type": "object", "properties": {"rain": {"type": "boolean"}}, "required": ["rain"]}
        body = question("demo", 1, parallel_tool_calls=False, response_format={
            "type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
        with client.Connection(self.server.url) as asking:
            brace = asking.post("/tokenize", {"model": "demo", "prompt": "{",
                                              "add_special_tokens": False})["tokens"][-1]
        choice = self.choice_of({**body, "logit_bias": {brace: -100}})
        self.assertEqual(choice["finish_reason"], "tool_calls")
        self.check_calls(choice)
        choice = self.choice_of({**body, "logit_bias": {brace: 100}})
        self.assertEqual(choice["finish_reason"], "stop")
        self.assertIsInstance(json.loads(choice["message"]["content"])["rain"], bool)

    def test_a_call_that_is_cut_is_told_as_far_as_it_goes(self):
        for max_tokens in range(1, 40):
            choice = self.choice_of(question("demo", 1, tool_choice="required", max_tokens=max_tokens))
            self.assertEqual(choice["finish_reason"], "length")
            self.assertFalse(choice["message"]["content"])

    def test_says_why_a_model_calls_no_tools(self):
        with aril_server.Server(["--demo"], WORK / "plain.log", ARIL) as server:
            status, body = aril_server.request(
                f"{server.url}/v1/chat/completions", "POST", question("demo", 1),
                {"Content-Type": "application/json"})
        self.assertEqual(status, 400, body)
        error = json.loads(body)["error"]
        self.assertEqual(error["param"], "tools")
        self.assertIn("does not show tools to the model", error["message"])


class ClusterToolsTest(unittest.TestCase):
    def test_a_killed_runners_call_goes_on(self):
        template = WORK / "cluster.jinja"
        template.parent.mkdir(parents=True, exist_ok=True)
        template.write_text(TAGGED, encoding="utf-8")
        long = {"type": "function", "function": {"name": "write", "parameters": {
            "type": "object", "properties": {"text": {"type": "string", "minLength": 120}},
            "required": ["text"], "additionalProperties": False}}}
        body = question("demo", 7, tools=[NOW, long],
                        tool_choice={"type": "function", "function": {"name": "write"}})
        cluster = aril_cluster.Cluster(ARIL, WORK / "cluster",
                                       gateway_flags=("--chat-template", template))
        self.addCleanup(cluster.kill_all)
        cluster.wait_until_linked(cluster.gateways[0])
        calls = []
        for kills in (False, True):
            events = []
            with client.Connection(cluster.urls[0]) as asking:
                for i, (_, event) in enumerate(asking.stream("/v1/chat/completions", body)):
                    events.append(event)
                    if kills and i == 10:
                        for runner in cluster.runners:  # one of them has it
                            runner.kill()
                        for runner in cluster.runners:
                            runner.start()
            calls.append(gathered(events))
        self.assertEqual(calls[0], calls[1])
        arguments = calls[0]["message"]["tool_calls"][0]["function"]["arguments"]
        self.assertGreaterEqual(len(arguments), 120)
        self.assertGreater(len(events), 40, "it was killed in the midst")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
