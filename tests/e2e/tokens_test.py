#!/usr/bin/env python3
"""An adapter's own tokens and its own end of texts: alone, in company, uploaded, over a restart, in a cluster.

usage: tokens_test.py ARIL_BINARY WORK_DIR
"""

import json
import pathlib
import shutil
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools")]
import aril_cluster
import aril_server
import safetensors_file
from aril_server import call, connect, upload_of

ARIL, WORK = (pathlib.Path(argument) for argument in sys.argv[1:3])
SOURCE = ROOT / "models/demo/adapters/routing"
BASE = json.loads((ROOT / "models/demo/base/tokenizer.json").read_text())
QUESTION = "Hello, my parcel has not arrived yet."
OWN = "<own>"  # instead of what the base model calls its last added token
OWN_ID = BASE["added_tokens"][-1]["id"]
# Its conversations are the same but for that.
TEMPLATE = (ROOT / "models/demo/base/chat_template.jinja").read_text().replace(
    BASE["added_tokens"][-1]["content"], OWN)
SIZE = json.loads((ROOT / "models/demo/base/config.json").read_text())["vocab_size"]
ADDED, ADDED_END = "<added>", "<over>"  # behind the base model's vocabulary
FORM = "multipart/form-data; boundary=b0"


def copy_adapter(name: str, template: str = "", **files) -> pathlib.Path:
    """The demo's adapter with a chat template and JSON files beside its own."""
    folder = WORK / name
    shutil.copytree(SOURCE, folder)
    if template:
        (folder / "chat_template.jinja").write_text(template)
    for file, content in files.items():
        (folder / f"{file}.json").write_text(json.dumps(content))
    return folder


def own_tokens() -> dict:
    """As transformers 4.57 saves it."""
    flags = dict.fromkeys(("lstrip", "rstrip", "normalized", "single_word"), False)
    return {"added_tokens_decoder": {str(OWN_ID): {"content": OWN, "special": True, **flags}}}


def own_tokenizer() -> dict:
    """As transformers 5 saves it."""
    tokenizer = json.loads(json.dumps(BASE))
    tokenizer["model"]["vocab"] = {token: number for token, number in tokenizer["model"]["vocab"].items()
                                   if number != OWN_ID}
    tokenizer["added_tokens"][-1]["content"] = OWN
    return tokenizer


def resize(name: str) -> pathlib.Path:
    """An adapter of a model whose vocabulary has two tokens more, as trl's setup_chat_format trains them:
    the first is what OWN_ID is to others, the second ends texts, for which nothing else is left."""
    folder = copy_adapter(name, TEMPLATE.replace(OWN, ADDED).replace("<|end|>", ADDED_END), tokenizer_config={
        "eos_token": ADDED_END,
        "added_tokens_decoder": {str(SIZE): {"content": ADDED, "special": True},
                                 str(SIZE + 1): {"content": ADDED_END, "special": True}}})
    base = safetensors_file.read(ROOT / "models/demo/base/model.safetensors")
    dtype, (rows, cols), data = base["model.embed_tokens.weight"]
    row_bytes = len(data) // rows
    row = [data[i * row_bytes:(i + 1) * row_bytes] for i in range(rows)]
    end = next(token["id"] for token in BASE["added_tokens"] if token["content"] == "<|end|>")
    row += [row[OWN_ID], row[end]]
    row[end] = bytes(row_bytes)
    tensors = safetensors_file.read(SOURCE / "adapter_model.safetensors")
    for module in ("model.embed_tokens", "lm_head"):
        tensors[f"base_model.model.{module}.weight"] = (dtype, [len(row), cols], b"".join(row))
    safetensors_file.write(folder / "adapter_model.safetensors", tensors)
    return folder


def post(url: str, path: str, body: dict) -> dict:
    status, text = aril_server.request(url + path, "POST", body,
                                       {"Content-Type": "application/json"})
    assert status == 200, text
    return json.loads(text)


def tokens(url: str, model: str, text: str) -> list:
    return post(url, "/tokenize", {"model": model, "prompt": text})["tokens"]


def answer(url: str, model: str, **fields) -> dict:
    return post(url, "/v1/chat/completions", {
        "model": model, "temperature": 0, "max_tokens": 40, "return_token_ids": True,
        "messages": [{"role": "user", "content": QUESTION}], **fields})["choices"][0]


class TokensTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(WORK, ignore_errors=True)
        WORK.mkdir(parents=True)
        cls.plain = copy_adapter("plain")
        with aril_server.Server(["--demo", "--lora-modules", f"plain={cls.plain}"], WORK / "first.log", ARIL) as server:
            cls.whole = answer(server.url, "plain")
            last = cls.whole["token_ids"][-2]
            cls.last = post(server.url, "/detokenize", {"tokens": [last]})["prompt"]
        # The last token of the answer that is text ends those of `ends`.
        cls.folders = {
            "plain": cls.plain,
            "ends": copy_adapter("ends", tokenizer_config={"eos_token": cls.last}),
            "old": copy_adapter("old", TEMPLATE, tokenizer_config=own_tokens()),
            "new": copy_adapter("new", TEMPLATE, tokenizer_config={"eos_token": "<|end|>"},
                                tokenizer=own_tokenizer()),
            "resized": resize("resized")}
        cls.flags = ["--demo", "--lora-modules", *(f"{name}={folder}" for name, folder in cls.folders.items())]

    def check(self, url: str, names=("plain", "ends", "old", "new", "resized")):
        for name in names:
            with self.subTest(name):
                if name == "resized":
                    self.check_resized(url)
                    continue
                is_own = name in ("old", "new")
                self.assertEqual(tokens(url, name, OWN) == [OWN_ID], is_own)
                text = post(url, "/detokenize", {"model": name, "tokens": [OWN_ID]})["prompt"]
                self.assertEqual(text == OWN, is_own)
                said = answer(url, name)
                self.assertEqual(said["finish_reason"], "stop")
                if name != "ends":
                    self.assertEqual(said["message"], self.whole["message"])
                    continue
                content = self.whole["message"]["content"]
                self.assertEqual(said["message"]["content"], content[:content.index(self.last)])
                on = answer(url, name, ignore_eos=True, max_tokens=len(self.whole["token_ids"]))
                self.assertEqual(on["token_ids"], self.whole["token_ids"])

    def check_resized(self, url: str):
        self.assertEqual(tokens(url, "resized", ADDED + ADDED_END), [SIZE, SIZE + 1])
        self.assertEqual(post(url, "/detokenize", {"model": "resized", "tokens": [SIZE]})["prompt"], ADDED)
        said = answer(url, "resized", logprobs=True, top_logprobs=3)
        self.assertEqual((said["message"], said["finish_reason"]), (self.whole["message"], "stop"))
        self.assertEqual(said["token_ids"], [*self.whole["token_ids"][:-1], SIZE + 1])
        kept = answer(url, "resized", structured_outputs={"regex": "(yes|no){3}"})
        self.assertRegex(kept["message"]["content"], "^(yes|no){3}$")
        open_end = answer(url, "resized", structured_outputs={"regex": "[a-z ]*"}, logit_bias={str(SIZE + 1): 100})
        self.assertEqual(open_end["token_ids"], [SIZE + 1], "which ends what may end")
        forced = answer(url, "resized", logit_bias={str(SIZE): 100}, max_tokens=2)
        self.assertEqual(forced["token_ids"], [SIZE, SIZE])
        self.assertEqual(forced["message"]["content"], "")
        for name, field in (("demo", {"logit_bias": {str(SIZE): 1}}), ("demo", {"stop_token_ids": [SIZE]}),
                            ("resized", {"stop_token_ids": [SIZE + 2]})):
            status, text = aril_server.request(url + "/v1/completions", "POST", {
                "model": name, "prompt": "Hello", **field}, {"Content-Type": "application/json"})
            self.assertEqual(status, 400, text)
            self.assertIn(next(iter(field)), text)

    def test_adapters_read_and_end_text_by_their_own_tokens(self):
        with aril_server.Server(self.flags, WORK / "serve.log", ARIL) as server:
            self.check(server.url)
            self.assertNotEqual(tokens(server.url, "demo", OWN), [OWN_ID])

    def test_so_do_those_of_a_cluster(self):
        cluster = aril_cluster.Cluster(ARIL, WORK / "cluster", gateways=1, flags=self.flags)
        self.addCleanup(cluster.kill_all)
        cluster.wait_until_linked(cluster.gateways[0])
        self.check(cluster.urls[0])

    def test_one_that_is_uploaded_keeps_its_tokens_over_a_restart(self):
        state = ["--demo", "--state-dir", WORK / "uploads"]
        names = ("ends", "old", "new", "resized")
        with aril_server.Server(state, WORK / "uploads.log", ARIL) as server, connect(server) as connection:
            for name in names:
                status, text = call(connection, "PUT", f"/v1/adapters/{name}", upload_of(self.folders[name]), FORM)
                self.assertEqual(status, 201, text)
            self.check(server.url, names)
        with aril_server.Server(state, WORK / "restart.log", ARIL) as server:
            self.check(server.url, names)

    def test_tokens_that_cannot_be_had_are_refused_by_name(self):
        folder = copy_adapter("bad", tokenizer_config={"added_tokens_decoder": {"300": {"content": OWN}}})
        state = ["--demo", "--state-dir", WORK / "refusals"]
        with aril_server.Server(state, WORK / "refusals.log", ARIL) as server, connect(server) as connection:
            status, text = call(connection, "PUT", "/v1/adapters/bad", upload_of(folder), FORM)
            self.assertEqual(status, 400, text)
            self.assertIn("added_tokens_decoder: the token of id 300", str(text))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
