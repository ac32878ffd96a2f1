#!/usr/bin/env python3
"""Makes src/tokenizer/testdata/bos_eos.json: what transformers adds around a text, by class.

A case is a class in tokenizer_config.json, a post-processor in tokenizer.json, add_bos_token and
add_eos_token; a result is "<" for a BOS in front and ">" for an EOS behind. Versions 4 and 5 of
transformers differ (docs/decisions/028-tokenizer-json-is-the-truth.md): a run writes the results of
its own version beside those of the other.

    pip install transformers==4.57.6; tools/goldens_bos_eos.py
    pip install transformers==5.24.0; tools/goldens_bos_eos.py
"""

import itertools
import json
import pathlib
import tempfile

import transformers

OUT = pathlib.Path(__file__).parent.parent / "src/tokenizer/testdata/bos_eos.json"

CLASSES = [
    "CodeLlamaTokenizer", "CohereTokenizerFast", "GPT2Tokenizer", "GPT2TokenizerFast", "GPTNeoXTokenizer",
    "GPTNeoXTokenizerFast", "GemmaTokenizer", "GemmaTokenizerFast", "LlamaTokenizer", "LlamaTokenizerFast",
    "PreTrainedTokenizerFast", "Qwen2Tokenizer", "Qwen2TokenizerFast"]
FLAGS = [{key: value for key, value in (("add_bos_token", bos), ("add_eos_token", eos)) if value is not None}
         for bos, eos in itertools.product((None, True, False), repeat=2)]
BOS, EOS = 0, 1
VOCABULARY = {"<s>": BOS, "</s>": EOS, "<unk>": 2, "a": 3, "▁": 4}


def template(before, after):
    special = lambda token: {"SpecialToken": {"id": token, "type_id": 0}}
    text = lambda name: {"Sequence": {"id": name, "type_id": 0}}
    return {"type": "TemplateProcessing",
            "single": [*map(special, before), text("A"), *map(special, after)],
            "pair": [text("A"), text("B")],
            "special_tokens": {token: {"id": token, "ids": [VOCABULARY[token]], "tokens": [token]}
                               for token in (*before, *after)}}


POST_PROCESSORS = {"none": None, "bos": template(["<s>"], []), "both": template(["<s>"], ["</s>"])}


def tokenizer_json(post_processor):
    added = lambda token: {"id": VOCABULARY[token], "content": token, "single_word": False, "lstrip": False,
                           "rstrip": False, "normalized": False, "special": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [added("<s>"), added("</s>")],
            "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"},
            "post_processor": post_processor, "decoder": None,
            "model": {"type": "BPE", "vocab": VOCABULARY, "merges": []}}


def outcome(tokenizer_class, post_processor, flags):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(post_processor)))
        (folder / "tokenizer_config.json").write_text(json.dumps(
            {"tokenizer_class": tokenizer_class, "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
             **flags}))
        model_type = "qwen2" if tokenizer_class.startswith("Qwen2") else "llama"
        (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
        ids = transformers.AutoTokenizer.from_pretrained(name)("a")["input_ids"]
    return ("<" if ids[0] == BOS else "") + (">" if ids[-1] == EOS else "")


def main():
    transformers.logging.set_verbosity_error()
    major = transformers.__version__.split(".")[0]
    known = json.loads(OUT.read_text()) if OUT.exists() else {"versions": {}, "cases": []}
    cases = []
    for i, (name, post, flags) in enumerate(itertools.product(CLASSES, POST_PROCESSORS, FLAGS)):
        before = known["cases"][i]["results"] if i < len(known["cases"]) else {}
        cases.append({"class": name, "post_processor": post, "flags": flags,
                      "results": {**before, major: outcome(name, POST_PROCESSORS[post], flags)}})
    head = {"versions": {**known["versions"], major: transformers.__version__},
            "tokenizers": {name: tokenizer_json(post) for name, post in POST_PROCESSORS.items()}}
    lines = ",\n".join(json.dumps(case, sort_keys=True) for case in cases)
    OUT.write_text(f'{json.dumps(head, ensure_ascii=False, sort_keys=True)[:-1]}, "cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
