#!/usr/bin/env python3
"""Makes src/tokenizer/testdata/goldens.json: tricky texts as the reference implementations do them.

Small BPE models are trained here, on purpose without regard for word boundaries: their tokens
join letters, spaces and punctuation, so that a pre-tokenizer that cuts differently gives other ids.
Around them stand the components of real tokenizer.json files, one case per combination, encoded by
PyPI's `tokenizers`; two `tokenizer.model` files, encoded by PyPI's `sentencepiece`; and one of the
vocabularies as ranks, encoded by PyPI's `tiktoken`.

Usage: pip install tokenizers sentencepiece tiktoken; tools/goldens_tokenizer.py
"""

import base64
import io
import json
import pathlib

import sentencepiece
import tiktoken
import tokenizers
from tokenizers import Tokenizer

OUT = pathlib.Path(__file__).parent.parent / "src/tokenizer/testdata/goldens.json"

CORPUS = [
    "The quick brown fox doesn't jump over the lazy dog's 12345 bones; it's 3.14 miles!",
    "def main():\n    return  x + 1\n\n\nif __name__ == '__main__':\n\tmain()\n",
    "I'll say we've been there, they're here. HE'S LOUD. He said: \"no-one, ever?\"",
    "Ça va? Déjà vu, naïve café. Ünïcödé öffnet Türen; straße.",
    "漢字かな交じり文 and 한국어 텍스트, ไทย, हिन्दी १२३.",
    "the the the and and and    of  of   of 2024-01-01 1,000,000",
] * 4

TEXTS = [
    "",
    " ",
    "  ",
    "a",
    " the the",
    "the  quick   brown    fox ",
    "\tdef main():\r\n    return 1\n\n",
    "it's IT'S we'Ve 'll they'RE 'ſ",
    "12345 3.14 1,000 ½ Ⅷ १२३ ①",
    "no-one, ever? \"yes!\" (really) $5 + 3 = 8 ^_^ `x` ~",
    "café cafe\u0301 naïve \u0301x ﬁn Å Å",
    "İstanbul STRASSE straße ǅ ΑΣ",
    "漢字かな 한국어 하\u1102\u1161 ไทย हिन्दी か\u3099",
    "👩‍👩‍👧 😀😀 🇩🇪 ❤\ufe0f",
    "a\u00a0b\u2003c\u3000d\u200be\u180ef\u0085g\u2028h",
    "x\x00y\x1f\ufeffz \ue000 \U0010ffff",
    "▁the ▁▁ Ġthe _ ▁",
    "<s> the</s>the <s>",
    "[X]the [X] the[X]  [X]",
    "the MASK  MASK, xMASK MASKx  MASK",
    "thequick\nTheLazy",
    "aaaaaaaaaaaaaaaaa",
    "             x",
]

# For sentencepiece only: Python's strings have no such bytes.
INVALID_UTF8 = b"\xffthe\xe2\x82 x\xed\xa0\x80\xc0\x80\xf0\x9f\x98"

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
              "use_regex": True}
BYTES_ONLY = {**BYTE_LEVEL, "use_regex": False}
PREPEND = {"type": "Sequence", "normalizers": [
    {"type": "Prepend", "prepend": "▁"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
SPM_DECODER = {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
    {"type": "ByteFallback"}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = [r"[\r\n]",
            r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-Ֆ]+",
            r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", r"[一-龥ࠀ-一가-퟿]+"]
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
         r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|"
         r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def split(regex, behavior="Isolated", invert=False):
    pattern = regex if isinstance(regex, dict) else {"Regex": regex}
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


def normalizers(*parts):
    return {"type": "Sequence", "normalizers": list(parts)}


def metaspace(scheme, cut=True):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": cut}


def template(before, after=()):
    tokens = {"<s>": 0, "</s>": 1}
    special = lambda t: {"SpecialToken": {"id": t, "type_id": 0}}
    return {"type": "TemplateProcessing",
            "single": [*map(special, before), {"Sequence": {"id": "A", "type_id": 0}},
                       *map(special, after)],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}},
                     {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {t: {"id": t, "ids": [i], "tokens": [t]} for t, i in tokens.items()}}


def added(content, token_id, **flags):
    return {"id": token_id, "content": content, "single_word": False, "lstrip": False,
            "rstrip": False, "normalized": False, "special": False, **flags}


CONTROL = [added("<s>", 0, special=True), added("</s>", 1, special=True)]


def train(pre_tokenizer, specials, vocab_size):
    tokenizer = Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=specials, show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()
        if isinstance(pre_tokenizer, tokenizers.pre_tokenizers.ByteLevel) else [])
    tokenizer.train_from_iterator(CORPUS, trainer)
    return json.loads(tokenizer.to_str())["model"]


def models():
    byte_level = train(
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ["<s>", "</s>"], 500)
    chars = train(tokenizers.pre_tokenizers.Metaspace(split=False), ["<s>", "</s>", "<unk>"], 300)
    for byte in range(256):
        chars["vocab"][f"<0x{byte:02X}>"] = len(chars["vocab"])
    for model in (byte_level, chars):
        model["merges"] = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    return {"bytes": byte_level, "chars": chars}


FALLBACK = {"unk_token": "<unk>", "byte_fallback": True, "fuse_unk": True}


def byte_level_cases(n, merges):
    case = lambda name, pre, **rest: {"name": name, "model": "bytes", "pre_tokenizer": pre,
                                      "decoder": BYTE_LEVEL, "added_tokens": CONTROL, **rest}
    yield case("gpt2", BYTE_LEVEL)
    yield case("prefix_space", {**BYTE_LEVEL, "add_prefix_space": True})
    yield case("llama3", sequence(split(LLAMA3), BYTES_ONLY),
               model_options={"ignore_merges": True, "merges": [m.split(" ") for m in merges[:30]]},
               post_processor={"type": "Sequence",
                               "processors": [BYTE_LEVEL, template(["<s>"])]})
    yield case("qwen2", sequence(split(LLAMA3.replace("{1,3}", "")), BYTES_ONLY),
               normalizer={"type": "NFC"})
    yield case("deepseek", sequence(*map(split, DEEPSEEK),
                                    {"type": "Digits", "individual_digits": True}, BYTES_ONLY))
    yield case("bloom", sequence(split(BLOOM), BYTES_ONLY))
    yield case("o200k", sequence(split(O200K), BYTES_ONLY))
    yield case("smollm", sequence({"type": "Digits", "individual_digits": True}, BYTE_LEVEL))
    yield case("falcon", sequence({"type": "Punctuation", "behavior": "Contiguous"}, BYTE_LEVEL,
                                  {"type": "Digits", "individual_digits": False},
                                  split(r"[0-9][0-9][0-9]")))
    yield case("whitespace", sequence({"type": "Whitespace"}, BYTES_ONLY))
    for behavior in ("Removed", "MergedWithNext"):
        yield case(f"split_{behavior}", sequence(split({"String": " "}, behavior), BYTES_ONLY))
    yield case("split_inverted", sequence(split(r"\w+|\d\b", "Removed", True), BYTES_ONLY))
    yield case("delimiter", sequence({"type": "CharDelimiterSplit", "delimiter": "e"}, BYTES_ONLY))
    yield case("nfkc_lower", BYTE_LEVEL,
               normalizer=normalizers({"type": "NFKC"}, {"type": "Lowercase"}))
    yield case("nfd_strip_accents", BYTE_LEVEL, normalizer=normalizers(
        {"type": "NFD"}, {"type": "StripAccents"},
        {"type": "Strip", "strip_left": True, "strip_right": True}))
    yield case("nfkd_replace", BYTE_LEVEL, normalizer=normalizers(
        {"type": "NFKD"}, {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}))
    yield case("byte_level_normalizer", None, normalizer={"type": "ByteLevel"})
    yield case("added", BYTE_LEVEL, added_tokens=CONTROL + [
        added("[X]", n, lstrip=True, rstrip=True), added("MASK", n + 1, single_word=True),
        added("    ", n + 2), added("  ", n + 3)])
    yield case("added_normalized", BYTE_LEVEL, normalizer={"type": "Lowercase"},
               added_tokens=CONTROL + [added("MASK", n, normalized=True),
                                       added("[X]", n + 1, normalized=True, lstrip=True)])
    yield case("roberta", BYTE_LEVEL, post_processor={
        "type": "RobertaProcessing", "sep": ["</s>", 1], "cls": ["<s>", 0], "trim_offsets": True,
        "add_prefix_space": True})


def char_cases(n):
    case = lambda name, **rest: {"name": name, "model": "chars", "decoder": SPM_DECODER,
                                 "model_options": FALLBACK,
                                 "added_tokens": CONTROL + [added("<unk>", 2, special=True)],
                                 **rest}
    yield case("llama2", normalizer=PREPEND, post_processor=template(["<s>"], ["</s>"]))
    for scheme in ("first", "always", "never"):
        yield case(f"metaspace_{scheme}", pre_tokenizer=metaspace(scheme))
    yield case("metaspace_whole", pre_tokenizer=metaspace("first", False))
    yield case("gemma", normalizer={"type": "Replace", "pattern": {"String": " "},
                                    "content": "▁"},
               pre_tokenizer=split({"String": " "}, "MergedWithPrevious"),
               decoder={"type": "Sequence", "decoders": SPM_DECODER["decoders"][:3]})
    yield case("added_prepend", normalizer=PREPEND, added_tokens=CONTROL + [
        added("[X]", n), added("MASK", n + 1, normalized=True)])
    for name, options in {"unk": {"unk_token": "<unk>"}, "drop": {},
                          "unk_fused": {"unk_token": "<unk>", "fuse_unk": True}}.items():
        yield case(name, model_options=options, pre_tokenizer=metaspace("first"),
                   decoder=metaspace("first"))
    yield case("no_decoder", model_options={}, decoder=None)


def encode_case(case, model):
    parts = {key: case.get(key) for key in
             ("normalizer", "pre_tokenizer", "post_processor", "decoder")}
    tokenizer = Tokenizer.from_str(json.dumps(
        {"version": "1.0", "truncation": None, "padding": None,
         "added_tokens": case["added_tokens"], **parts,
         "model": {**model, **case.get("model_options", {})}}))
    for token in case["added_tokens"]:
        assert tokenizer.token_to_id(token["content"]) == token["id"], token
    ids = [tokenizer.encode(text).ids for text in TEXTS]
    skipped = [tokenizer.decode(i, skip_special_tokens=True) for i in ids]
    kept = [tokenizer.decode(i, skip_special_tokens=False) for i in ids]
    # By index: `skipped` where it differs from the text, `kept` where it differs from `skipped`.
    differing = lambda base, texts: {str(i): t for i, (b, t) in enumerate(zip(base, texts))
                                     if b != t}
    short = [{k: v for k, v in token.items() if v is not False or k == "normalized"}
             for token in case["added_tokens"]]
    return {**case, "added_tokens": short, "ids": ids, "skipped": differing(TEXTS, skipped),
            "kept": differing(skipped, kept)}


def sentencepiece_case(name, **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS), model_writer=model, model_type="bpe",
        normalization_rule_name="identity", minloglevel=2, hard_vocab_limit=False, **options)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    ids = [processor.encode(text) for text in [*map(str.encode, TEXTS), INVALID_UTF8]]
    return {"name": name, "model": base64.b64encode(model.getvalue()).decode(), "ids": ids,
            "decoded": [processor.decode(i) for i in ids]}


def tiktoken_ids(model):
    """The ids of the texts with the model's tokens as ranks, cut by Llama 3's regex."""
    from_alphabet = {c: b for b, c in enumerate(byte_alphabet())}
    ranks = {bytes(from_alphabet[c] for c in token): rank
             for token, rank in model["vocab"].items() if token not in ("<s>", "</s>")}
    encoding = tiktoken.Encoding("test", pat_str=LLAMA3, mergeable_ranks=ranks, special_tokens={})
    return [encoding.encode_ordinary(text) for text in TEXTS]


def byte_alphabet():
    """GPT-2's printable code points for the 256 bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return [chr(b) if b in printable else chr(256 + others.index(b)) for b in range(256)]


def shorten(cases):
    """Replaces ids by null where they are those of the first case with the same model."""
    first = {}
    for case in reversed(cases):
        first[case["model"]] = case
    for case in reversed(cases):
        full = first[case["model"]]["ids"]
        if case is not first[case["model"]]:
            case["ids"] = [None if a == b else b for a, b in zip(full, case["ids"])]
    return cases


def main():
    trained = models()
    cases = [*byte_level_cases(len(trained["bytes"]["vocab"]), trained["bytes"]["merges"]), *char_cases(len(trained["chars"]["vocab"]))]
    golden = {
        "versions": {"tokenizers": tokenizers.__version__,
                     "sentencepiece": sentencepiece.__version__,
                     "tiktoken": tiktoken.__version__},
        "texts": TEXTS, "invalid_utf8": base64.b64encode(INVALID_UTF8).decode(), "models": trained,
        "cases": shorten([encode_case(case, trained[case["model"]]) for case in cases]),
        "tiktoken": tiktoken_ids(trained["bytes"]),
        "sentencepiece": [
            sentencepiece_case("llama", vocab_size=460, byte_fallback=True,
                               remove_extra_whitespaces=False, character_coverage=0.99),
            sentencepiece_case("collapsing", vocab_size=220, remove_extra_whitespaces=True,
                               control_symbols=["[X]"], character_coverage=0.98,
                               user_defined_symbols=["MASK", "▁▁", "the q"]),
        ]}
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(f"{OUT}: {OUT.stat().st_size} bytes, {len(golden['cases'])} cases")


if __name__ == "__main__":
    main()
