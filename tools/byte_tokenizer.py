#!/usr/bin/env python3
"""Writes the smallest tokenizer that Aril reads: one token for each byte, and an end of text.

usage: byte_tokenizer.py DIR

DIR/tokenizer.json is a byte-level BPE without merges, for models with random weights where no real
tokenizer is at hand.
"""

import json
import pathlib
import sys


def byte_alphabet() -> list[str]:
    """The printable character that stands for each byte (GPT-2's bytes_to_unicode)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1),
                 *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) if byte in printable else chr(256 + others.index(byte)) for byte in range(256)]


def tokenizer() -> dict:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                  "use_regex": True}
    end = {"id": 256, "content": "<|endoftext|>", "special": True, "single_word": False,
           "lstrip": False, "rstrip": False, "normalized": False}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [end],
            "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None,
            "decoder": byte_level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None,
                      "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False,
                      "vocab": {piece: i for i, piece in enumerate(byte_alphabet())},
                      "merges": []}}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    (pathlib.Path(sys.argv[1]) / "tokenizer.json").write_text(
        json.dumps(tokenizer(), ensure_ascii=False), encoding="utf-8")
