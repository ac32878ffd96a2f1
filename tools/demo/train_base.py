"""Trains the tokenizer and the base model of the demo.

    python train_base.py --out models/demo/base [--steps N] [--device cuda]

Everything is drawn from fixed seeds; weights still differ in their last bits between machines.
"""

import argparse
import json
import math
import pathlib
import random
import time

import tokenizers
import torch
import transformers

import chat
import corpus

VOCAB_SIZE = 1024
TOKENIZER_DOCUMENTS = 30_000
SEED = 20_261_121


def train_tokenizer(out: pathlib.Path) -> transformers.PreTrainedTokenizerFast:
    """Byte-level BPE. Digits stay single, so that a number is spelled in one way only."""
    rng = random.Random(SEED)
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    split = tokenizers.pre_tokenizers
    tokenizer.pre_tokenizer = split.Sequence([split.Digits(individual_digits=True),
                                              split.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE, special_tokens=["<|pad|>", chat.END, chat.USER, chat.ASSISTANT],
        initial_alphabet=split.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(
        (corpus.document(rng) for _ in range(TOKENIZER_DOCUMENTS)), trainer)
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=chat.END, pad_token="<|pad|>",
        additional_special_tokens=[chat.USER, chat.ASSISTANT], model_max_length=512)
    fast.chat_template = chat.TEMPLATE
    fast.save_pretrained(out)
    return fast


def make_model(tokenizer) -> transformers.LlamaForCausalLM:
    torch.manual_seed(SEED)
    end = tokenizer.convert_tokens_to_ids(chat.END)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=VOCAB_SIZE, hidden_size=256, intermediate_size=704, num_hidden_layers=5,
        num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=512,
        rope_theta=10_000.0, attn_implementation="eager", rms_norm_eps=1e-5, tie_word_embeddings=True,
        bos_token_id=None, eos_token_id=end,
        pad_token_id=tokenizer.convert_tokens_to_ids("<|pad|>")))


def batches(tokenizer, batch_size: int, length: int):
    """Documents end to end, cut into rows of `length` tokens."""
    rng = random.Random(SEED + 1)
    end = tokenizer.convert_tokens_to_ids(chat.END)
    tokens: list[int] = []
    while True:
        while len(tokens) < batch_size * length:
            documents = [corpus.document(rng) for _ in range(256)]
            for ids in tokenizer(documents, verbose=False)["input_ids"]:
                tokens += ids if ids[-1] == end else ids + [end]
        yield torch.tensor(tokens[:batch_size * length]).view(batch_size, length)
        tokens = tokens[batch_size * length:]


def learning_rate(step: int, steps: int, peak: float) -> float:
    """Warms up over 5 %, then a cosine down to a twentieth."""
    warm = steps // 20
    if step < warm:
        return peak * (step + 1) / warm
    return peak * (0.05 + 0.95 * (1 + math.cos(math.pi * (step - warm) / (steps - warm))) / 2)


def train(model, tokenizer, args) -> float:
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95),
                                  weight_decay=0.05)
    model.to(args.device).train()
    compiled = torch.compile(model) if args.compile else model
    began, smooth = time.monotonic(), None
    for step, rows in zip(range(args.steps), batches(tokenizer, args.batch, args.length)):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, args.steps, args.lr)
        rows = rows.to(args.device)
        with torch.autocast(args.device, dtype=torch.bfloat16):
            loss = compiled(input_ids=rows, labels=rows, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        smooth = loss.item() if smooth is None else 0.98 * smooth + 0.02 * loss.item()
        if step % 100 == 0:
            print(f"step {step} of {args.steps}  loss {smooth:.3f}  "
                  f"{time.monotonic() - began:.0f} s", flush=True)
    return smooth


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--compile", action="store_true", help="torch.compile: faster on a CPU")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer(args.out)
    model = make_model(tokenizer)
    print(f"{model.num_parameters():,} parameters")
    loss = train(model, tokenizer, args)
    model.to("cpu", torch.bfloat16).save_pretrained(args.out)
    (args.out / "training.json").write_text(json.dumps(
        {"steps": args.steps, "tokens": args.steps * args.batch * args.length,
         "final_loss": round(loss, 4), "seed": SEED}) + "\n")


if __name__ == "__main__":
    main()
