#!/usr/bin/env python3
"""Activated LoRA: adapters that are asked about what the base model has read and said, and begin where they are invoked.

usage: activated_test.py ARIL_BINARY WORK_DIR

With the real `openai` client, where it is installed (tools/venv.sh).
"""

import concurrent.futures
import json
import pathlib
import shutil
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
import cluster_chaos

ARIL, WORK = (pathlib.Path(argument) for argument in sys.argv[1:3])
# Adapters of the demo that apply to the answer alone, which begins with the last of these; and one
# that applies to what a template of its own writes before it.
ASSISTANT = "<|assistant|>"
ACTIVATED = ["sql", "formal", "routing"]
MARK = "#"
STORY = [{"role": "user", "content": "A parcel from Bergen has not arrived. " * 12},
         {"role": "assistant", "content": "Where was it seen last, and when was that?"},
         {"role": "user", "content": "On the 3rd of March, in Helsinki."}]


def token_of(text: str) -> int:
    tokenizer = json.loads((ROOT / "models/demo/base/tokenizer.json").read_text())
    return tokenizer["model"]["vocab"][text]


def make_adapter(name: str, invocation: str, template: str | None = None) -> str:
    """The flag's value for an activated copy of one of the demo's."""
    folder = WORK / "adapters" / f"{name}-{token_of(invocation)}"
    shutil.copytree(ROOT / "models/demo/adapters" / name, folder)
    config = json.loads((folder / "adapter_config.json").read_text())
    config["alora_invocation_tokens"] = [token_of(invocation)]
    (folder / "adapter_config.json").write_text(json.dumps(config))
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    return f"activated-{name}={folder}"


def post(url: str, path: str, body: dict) -> tuple:
    status, text = aril_server.request(url + path, "POST", body, {"Content-Type": "application/json"})
    return status, json.loads(text)


def chat(url: str, model: str, messages: list = STORY) -> tuple:
    """The answer, and how many tokens of the prompt were cached."""
    status, answer = post(url, "/v1/chat/completions", {
        "model": model, "messages": messages, "temperature": 0, "max_tokens": 30})
    assert status == 200, answer
    details = answer["usage"]["prompt_tokens_details"]
    return answer["choices"][0]["message"]["content"], details["cached_tokens"]


class ActivatedTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(WORK, ignore_errors=True)
        template = (ROOT / "models/demo/base/chat_template.jinja").read_text()
        assert f"'{ASSISTANT}'" in template
        marked = template.replace(f"'{ASSISTANT}'", f"'{ASSISTANT}{MARK}'")
        flags = ["--lora-modules", *(make_adapter(name, ASSISTANT) for name in ACTIVATED),
                 make_adapter("sentiment", MARK, marked)]
        cls.flags = ("--demo", *flags)
        cls.server = aril_server.Server(list(cls.flags), WORK / "serve.log", ARIL)
        cls.url = cls.server.url
        cls.models = [f"activated-{name}" for name in (*ACTIVATED, "sentiment")]
        with aril_server.Server([*cls.flags, "--no-enable-prefix-caching"], WORK / "without.log",
                                ARIL) as without:
            cls.expected = {model: chat(without.url, model)[0] for model in cls.models}

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def test_each_takes_what_the_base_model_has_read(self):
        chat(self.url, "demo")
        tokens = post(self.url, "/tokenize", {"model": "demo", "messages": STORY})[1]["count"]
        for model in self.models:
            answer, cached = chat(self.url, model)
            self.assertEqual(answer, self.expected[model])
            self.assertGreater(cached, 0.8 * tokens, model)
        self.assertEqual(chat(self.url, "routing")[1], 0, "another LoRA computes it all")

    def test_they_do_something_and_each_something_else(self):
        answers = {*self.expected.values(), chat(self.url, "demo")[0]}
        self.assertEqual(len(answers), len(self.models) + 1, answers)

    def test_a_prompt_that_does_not_invoke_it_is_refused(self):
        for body in ({"prompt": "Where is my parcel?"}, {"prompt": [5, 6, 7]}):
            status, answer = post(self.url, "/v1/completions", {"model": "activated-sql", **body})
            self.assertEqual(status, 400, answer)
            self.assertIn(f"nowhere are the tokens [{token_of(ASSISTANT)}]", answer["error"]["message"])
        status, answer = post(self.url, "/v1/completions",
                              {"model": "activated-sql", "prompt": f"<|user|>Who lives in Oslo?<|end|>{ASSISTANT}"})
        self.assertEqual(status, 200, answer)
        status, answer = post(self.url, "/v1/chat/completions",
                              {"model": "activated-sql", "messages": STORY[:1],
                               "add_generation_prompt": False})
        self.assertEqual(status, 400, answer)
        # An embedding is of a text alone, and so is its invocation.
        for text, expected in (("a text", 400), (f"a text{ASSISTANT}", 200)):
            status, answer = post(self.url, "/v1/embeddings", {"model": "activated-sql", "input": text})
            self.assertEqual(status, expected, answer)

    def test_a_cluster_gives_the_same_while_a_runner_is_killed(self):
        cluster = aril_cluster.Cluster(ARIL, WORK / "cluster", flags=self.flags)
        self.addCleanup(cluster.kill_all)
        cluster.wait_until_linked(cluster.gateways[0])
        url = cluster.urls[0]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            answers = [(model, pool.submit(chat, url, model)) for model in self.models * 8]
            cluster.runners[0].kill()
            for model, answer in answers:
                self.assertEqual(answer.result()[0], self.expected[model])
        status, answer = post(url, "/v1/completions", {"model": "activated-sql", "prompt": "Hello"})
        self.assertEqual(status, 400, answer)
        self.assertIn("does not invoke an adapter", answer["error"]["message"])

    def test_a_cluster_asks_them_where_the_text_was_read(self):
        cluster = aril_cluster.Cluster(ARIL, WORK / "affinity", flags=self.flags,
                                       runner_flags=("--max-num-seqs", 1))
        self.addCleanup(cluster.kill_all)
        cluster.wait_until_linked(cluster.gateways[0])
        url = cluster.urls[0]
        read = []

        def read_once():
            if not read:
                read.append(chat(url, "demo"))

        # The runner that is taken first has no seat; what follows would all come to it again.
        cluster_chaos.stream(url, {"model": "demo", "prompt": "Anna has 3 apples", "max_tokens": 400,
                                   "ignore_eos": True, "temperature": 0}, read_once)
        tokens = post(url, "/tokenize", {"model": "demo", "messages": STORY})[1]["count"]
        for model in self.models:
            answer, cached = chat(url, model)
            self.assertEqual(answer, self.expected[model])
            self.assertGreater(cached, 0.8 * tokens, model)

    @unittest.skipIf(openai is None, "the openai client is not installed (tools/venv.sh)")
    def test_the_openai_client_works_unmodified(self):
        client = openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0)
        for model in self.models:
            answer = client.chat.completions.create(model=model, messages=STORY, temperature=0,
                                                    max_tokens=30)
            self.assertEqual(answer.choices[0].message.content, self.expected[model])
        with self.assertRaises(openai.BadRequestError) as refused:
            client.completions.create(model="activated-sql", prompt="Hello")
        self.assertIn("does not invoke an adapter", str(refused.exception))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
