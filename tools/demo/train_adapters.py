"""Trains the demo's adapters with peft.

    python train_adapters.py --base models/demo/base --out models/demo [--only NAME]

An adapter learns its task from training cases only; the loss is that of the answer alone. A
classifier learns which answer it is, of a head that reads the question as it stands.
"""

import argparse
import dataclasses
import functools
import pathlib
import random
import time

import peft
import torch
import transformers

import chat
from tasks import TASKS

SEED = 7
ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
MLP = ("gate_proj", "up_proj", "down_proj")


@dataclasses.dataclass(frozen=True)
class Recipe:
    rank: int
    targets: tuple = ATTENTION + MLP
    rslora: bool = False
    steps: int = 500
    lr: float = 3e-3
    classifies: str = ""  # the task whose answers are its labels


# Different ranks and targets on purpose: they are to share a batch.
RECIPES = {
    "iso-date": Recipe(16, steps=1000),
    "digits": Recipe(16, rslora=True, steps=1600, lr=1e-3),
    "convert": Recipe(8),
    "json-fields": Recipe(32, steps=4000, lr=1.5e-3),
    "sql": Recipe(16, steps=3000, lr=2e-3),
    "formal": Recipe(16, ATTENTION + ("down_proj",), steps=2500, lr=2e-3),
    "routing": Recipe(4, ("q_proj", "v_proj", "up_proj", "down_proj"), steps=1200),
    "sentiment": Recipe(32, ("q_proj", "v_proj")),
    "triage": Recipe(8, ATTENTION, steps=800, lr=2e-3, classifies="routing"),
}


def batch(tokenizer, task, rng, size: int):
    """[size, longest] ids and labels; -100 where the loss does not look."""
    ids, labels = [], []
    for _ in range(size):
        case = task.case(rng, held_out=False)
        prompt = tokenizer(chat.prompt(case.question))["input_ids"]
        answer = tokenizer(case.answer + chat.END)["input_ids"]
        ids.append(prompt + answer)
        labels.append([-100] * len(prompt) + answer)
    longest = max(map(len, ids))
    pad = tokenizer.pad_token_id
    return (torch.tensor([row + [pad] * (longest - len(row)) for row in ids]),
            torch.tensor([row + [-100] * (longest - len(row)) for row in labels]))


def classifier_batch(tokenizer, task, rng, size: int, names: list[str]):
    """[size, longest] ids, padded behind their ends, and the number of each one's label [size]."""
    cases = [task.case(rng, held_out=False) for _ in range(size)]
    texts = tokenizer([case.question for case in cases], padding=True, padding_side="right",
                      return_tensors="pt")
    return texts["input_ids"], torch.tensor([names.index(case.answer) for case in cases])


def load_base(recipe: Recipe, args, tokenizer):
    how = dict(dtype=torch.float32, attn_implementation="eager")
    if not recipe.classifies:
        return transformers.AutoModelForCausalLM.from_pretrained(args.base, **how)
    names = TASKS[recipe.classifies].LABELS
    return transformers.AutoModelForSequenceClassification.from_pretrained(
        args.base, num_labels=len(names), id2label=dict(enumerate(names)),
        label2id={name: i for i, name in enumerate(names)}, pad_token_id=tokenizer.pad_token_id,
        **how)


def train(name: str, args, tokenizer) -> None:
    recipe = RECIPES[name]
    torch.manual_seed(SEED)
    rng = random.Random(f"{SEED} {name}")
    base = load_base(recipe, args, tokenizer)
    model = peft.get_peft_model(base, peft.LoraConfig(
        task_type="SEQ_CLS" if recipe.classifies else "CAUSAL_LM", r=recipe.rank, lora_alpha=2 * recipe.rank,
        target_modules=list(recipe.targets), use_rslora=recipe.rslora, lora_dropout=0.05))
    model.to(args.device).train()
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=recipe.lr, weight_decay=0.01)
    schedule = transformers.get_cosine_schedule_with_warmup(optimizer, 50, recipe.steps)
    began = time.monotonic()
    make_batch = (functools.partial(classifier_batch, names=TASKS[recipe.classifies].LABELS)
                  if recipe.classifies else batch)
    task = TASKS[recipe.classifies or name]
    for step in range(recipe.steps):
        ids, labels = (t.to(args.device) for t in make_batch(tokenizer, task, rng, args.batch))
        with torch.autocast(args.device, dtype=torch.bfloat16):
            loss = model(input_ids=ids, labels=labels, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        schedule.step()
        if step % 250 == 0:
            print(f"{name}: step {step}  loss {loss.item():.4f}  {time.monotonic() - began:.0f} s",
                  flush=True)
    folder = args.out / ("classifiers" if recipe.classifies else "adapters") / name
    model.to(torch.bfloat16).save_pretrained(folder, save_embedding_layers=False)
    (folder / "README.md").unlink(missing_ok=True)  # peft's empty model card
    if recipe.classifies:
        base.config.save_pretrained(folder)  # the labels' names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--only", choices=sorted(RECIPES), action="append")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.base)
    for name in args.only or RECIPES:
        train(name, args, tokenizer)


if __name__ == "__main__":
    main()
