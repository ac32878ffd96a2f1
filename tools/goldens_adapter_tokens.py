#!/usr/bin/env python3
"""Makes src/tokenizer/testdata/adapter_tokens.json: tokenizers as transformers saves them beside an
adapter, and what they make of texts.

A case has a base tokenizer's folder (under the repository, or under ../shared where it says so),
the tokenizer_config.json and the added tokens that are saved, and results.

    pip install transformers==5.23.0; tools/goldens_adapter_tokens.py
"""

import json
import pathlib
import tempfile

import transformers

ROOT = pathlib.Path(__file__).parent.parent
OUT = ROOT / "src/tokenizer/testdata/adapter_tokens.json"
DEMO = "models/demo/base"
TINYLLAMA = "../shared/data/tokenizers/tinyllama-1.1b-chat"
TEXTS = [
    "<|im_start|>user\nHow many?<|im_end|>\n",
    "a <note> b<note>c  <note>",
    "say <call>f()</call> now",
    "x <wide> y <wide>z",
    "subword words word",
    " leading, and <|im_end|> within",
    "",
]


def special(text, **flags):
    return transformers.AddedToken(text, special=True, normalized=False, **flags)


def chat(tokenizer):
    """As trl's setup_chat_format."""
    tokenizer.add_special_tokens({
        "additional_special_tokens": [special("<|im_start|>"), special("<|im_end|>")]})
    tokenizer.eos_token = "<|im_end|>"


def words(tokenizer):
    """Tokens that are text, with every flag."""
    tokenizer.add_tokens([
        transformers.AddedToken("<note>"),
        transformers.AddedToken("<call>", normalized=False),
        transformers.AddedToken("</call>", normalized=False),
        transformers.AddedToken("<wide>", lstrip=True, rstrip=True, normalized=False),
        transformers.AddedToken("word", single_word=True)])


def results(tokenizer):
    encode = lambda text, around: tokenizer.encode(text, add_special_tokens=around)
    return [{"text": text, "ids": encode(text, False), "around": encode(text, True),
             "decoded": tokenizer.decode(encode(text, False)),
             "without_special": tokenizer.decode(encode(text, False), skip_special_tokens=True)}
            for text in TEXTS]


def renamed(folder):
    """Gives the last added token that the base has another text, as axolotl's added_tokens_overrides does."""
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    old = tokenizer["added_tokens"][-1]["content"]
    tokenizer["added_tokens"][-1].update(content="<call>", special=True)
    vocabulary = tokenizer["model"]["vocab"]
    if old in vocabulary:
        vocabulary["<call>"] = vocabulary.pop(old)
    path.write_text(json.dumps(tokenizer))


def make_case(name, base, change, edit=None):
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(ROOT / base)
        if change is not None:
            change(tokenizer)
        tokenizer.save_pretrained(folder)
        if edit is not None:
            edit(folder)
            tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
        saved = json.loads((folder / "tokenizer.json").read_text())
        return {"name": name, "base": base, "config": json.loads((folder / "tokenizer_config.json").read_text()),
                "added_tokens": saved["added_tokens"], "post_processor": saved["post_processor"],
                "eos": tokenizer.eos_token_id, "results": results(tokenizer)}


def main():
    cases = []
    for base in (DEMO, TINYLLAMA):
        cases += [make_case("nothing", base, None), make_case("chat", base, chat), make_case("words", base, words)]
    cases.append(make_case("renamed", DEMO, None, renamed))
    OUT.write_text(json.dumps({"transformers": transformers.__version__, "cases": cases}, indent=1) + "\n")


if __name__ == "__main__":
    main()
