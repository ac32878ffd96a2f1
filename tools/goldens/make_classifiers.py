"""Makes tests/goldens-classifiers: adapters of transformers' ...ForSequenceClassification on the models of
tests/goldens, saved by peft, and the logits of their labels.

  make_classifiers.py             rewrites it
  make_classifiers.py --check     makes it anew elsewhere and compares

As make_goldens.py, with its tolerances: exact logits are those of transformers + peft in float64, and
a tolerance is SAFETY times the largest deviation among noisy runs, here of all prompts of an adapter,
because a classifier has few logits.
"""

import json

import peft
import torch
import transformers

import adapters
from adapters import ALL_LINEAR, Adapter
from arithmetic import BFLOAT16, FLOAT32
from checkpoints import generator
from make_goldens import (GOLDENS, NOISY_RUNS, PROMPT_LENGTHS, SAFETY, measure, rewrite_or_check,
                          shorten)
from reference import Float64Model, native_logits

CLASSIFIER_GOLDENS = GOLDENS.with_name("goldens-classifiers")


def classifier(name, rank, targets, **more):
    return Adapter(name, rank, 2 * rank, targets, task="SEQ_CLS", **more)


# By the base model: adapters, and how many labels each has.
CLASSIFIERS = {
    "llama-f32-sharded": ((classifier("three-labels-r4", 4, ALL_LINEAR), 3),
                          (classifier("reward-r2-f16", 2, ("q_proj", "v_proj"),
                                      dtype=torch.float16), 1)),
    "qwen2-bf16": ((classifier("two-labels-r8-bf16", 8, "all-linear", dtype=torch.bfloat16), 2),),
    "gemma3-f32": ((classifier("dora-r5", 5, ("o_proj", "down_proj"), more={"use_dora": True}), 4),),
    "qwen3-moe-f32": ((classifier("many-labels-r3", 3, ("q_proj", "o_proj")), 77),),
}


def load_base(model_dir, num_labels, dtype):
    """Without a head: its weights are drawn."""
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        model_dir, num_labels=num_labels, dtype=dtype, attn_implementation="eager",
        experts_implementation="eager")
    head = model.score.weight
    noise = torch.randn(head.shape, generator=generator(model_dir.name, "score", num_labels),
                        dtype=torch.float64)
    head.data = noise.to(dtype) / 8
    return model


def load(model_dir, num_labels, directory, dtype):
    return peft.PeftModel.from_pretrained(load_base(model_dir, num_labels, dtype), directory,
                                          adapter_name=directory.name).eval()


def make_adapter(model_name, adapter, num_labels, root):
    model_dir, directory = GOLDENS / model_name, root / model_name / adapter.name
    adapters.save(load_base(model_dir, num_labels, torch.float32), adapter, model_name, directory)

    def float64(*noise):
        return Float64Model(load(model_dir, num_labels, directory, torch.float64), [directory],
                            *noise)

    exact = float64()
    vocab_size = exact.model.config.get_text_config().vocab_size
    cases = []
    # A text may end with what pads others; then it is the token before that which is read.
    padding = [exact.model.config.get_text_config().pad_token_id] * 2
    for length, end in [*((length, []) for length in PROMPT_LENGTHS), (PROMPT_LENGTHS[1], padding)]:
        if None in end:
            continue
        random = generator(model_name, adapter.name, length)
        prompt = torch.randint(vocab_size, (length,), generator=random).tolist() + end
        cases.append({"adapter": adapter.name, "prompt": prompt,
                      "logits": exact.logits(prompt).tolist()})
    for key, number_format, dtype in (("f32", FLOAT32, torch.float32),
                                      ("bf16", BFLOAT16, torch.bfloat16)):
        noisy = float64(number_format, generator(model_name, adapter.name, key))
        native = load(model_dir, num_labels, directory, dtype)
        worst = worst_native = 0
        for case in cases:
            logits = torch.tensor(case["logits"], dtype=torch.float64)
            for _ in range(NOISY_RUNS):
                worst = max(worst, measure(noisy.logits(case["prompt"]) - logits)["max"])
            worst_native = max(worst_native,
                               measure(native_logits(native, case["prompt"]) - logits)["max"])
        assert worst_native <= SAFETY * worst, (key, worst_native, worst)
        for case in cases:
            case[f"tolerance_{key}"] = SAFETY * worst
        print(f"{model_name} {adapter.name}: tolerance_{key} {SAFETY * worst:.1e}, "
              f"transformers' own deviation {worst_native:.1e}")
    return cases


def make(root):
    for model_name, classifiers in CLASSIFIERS.items():
        cases = [shorten(case) for adapter, num_labels in classifiers
                 for case in make_adapter(model_name, adapter, num_labels, root)]
        lines = ",\n".join(json.dumps(case) for case in cases)
        (root / model_name / "cases.json").write_text(f"[\n{lines}\n]\n")


def compare(made, committed):
    """Fails unless both trees hold the same files; logits may differ as another CPU's float64 may."""
    files = sorted(p.relative_to(made) for p in made.rglob("*") if p.is_file())
    assert files == sorted(p.relative_to(committed) for p in committed.rglob("*") if p.is_file())
    for file in files:
        if file.name != "cases.json":
            assert (made / file).read_bytes() == (committed / file).read_bytes(), file
            continue
        for a, b in zip(*(json.loads((root / file).read_text()) for root in (made, committed)),
                        strict=True):
            assert (a["adapter"], a["prompt"]) == (b["adapter"], b["prompt"]), file
            torch.testing.assert_close(torch.tensor(a["logits"]), torch.tensor(b["logits"]),
                                       rtol=1e-6, atol=1e-6)
    print(f"{len(files)} files agree")


if __name__ == "__main__":
    rewrite_or_check(__doc__, make, CLASSIFIER_GOLDENS, compare)
