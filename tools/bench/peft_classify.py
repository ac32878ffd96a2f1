#!/usr/bin/env python3
"""What transformers and PEFT make of the texts of tools/bench_embeddings.py, on the CPU: classes by several
classifiers, each of which gets its texts in one batch, one classifier after the other (set_adapter).

Everything is as the libraries have it by default, in bfloat16. Prints one JSON object. Exits with 2 without
the packages.
"""

import argparse
import json
import pathlib
import random
import sys
import time

try:
    import peft
    import torch
    import transformers
    MISSING = None
except ImportError as absent:
    MISSING = f"needs torch, transformers and peft: {absent}"


def load(base: pathlib.Path, classifiers: list, num_labels: int):
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        base, num_labels=num_labels, dtype=torch.bfloat16)
    model = peft.PeftModel.from_pretrained(model, classifiers[0], adapter_name=classifiers[0].name)
    for classifier in classifiers[1:]:
        model.load_adapter(classifier, classifier.name)
    # PEFT makes adapters of a bfloat16 model in float32, for training.
    return model.to(torch.bfloat16).eval()


def classify(model, texts: list, names: list) -> float:
    """Of each classifier every len(names)-th text. The seconds that it took."""
    begin = time.monotonic()
    with torch.inference_mode():
        for i, name in enumerate(names):
            model.set_adapter(name)
            ids = torch.tensor(texts[i::len(names)])
            # All are equally long: nothing is padded.
            logits = model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False).logits
            assert torch.isfinite(logits).all()
    return time.monotonic() - begin


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--classifiers", type=pathlib.Path, required=True, help="a folder of them")
    parser.add_argument("--labels", type=int, required=True, help="of each")
    parser.add_argument("--texts", type=int, required=True)
    parser.add_argument("--tokens", type=int, required=True, help="of each text")
    parser.add_argument("--runs", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    options = parser.parse_args()
    if MISSING:
        print(MISSING, file=sys.stderr)
        return 2
    torch.set_num_threads(options.threads)
    transformers.utils.logging.disable_progress_bar()
    classifiers = sorted(options.classifiers.iterdir())
    model = load(options.model, classifiers, options.labels)
    model.config.pad_token_id = 0  # which no text has: batches are refused without one
    draw = random.Random(1)
    vocab_size = model.config.vocab_size
    seconds = []
    for _ in range(options.runs + 1):  # the first one warms up
        texts = [[draw.randrange(3, vocab_size) for _ in range(options.tokens)]
                 for _ in range(options.texts)]
        seconds.append(classify(model, texts, [classifier.name for classifier in classifiers]))
    print(json.dumps({"torch": torch.__version__, "transformers": transformers.__version__,
                      "peft": peft.__version__, "seconds": seconds[1:]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
