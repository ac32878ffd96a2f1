#!/usr/bin/env python3
"""What transformers and PEFT make of requests like those of `aril bench generate`.

As Punica's paper measures them (figure 11): in static batches, first come, first served, which run
until their longest answer is there. Of an answer only its own tokens count; prompts and the change of
adapters are in the time. Lengths and adapters are of the same distributions as aril's, not the same
numbers.

Weights are random and made on the device in bfloat16, and so are adapters, on all seven projections;
only those are made that some request asks for. Everything else is as the libraries have it by default.

Prints one JSON object. Exits with 2 without a GPU or the packages, with 1 at a wrong number of tokens
(with --cpu, at wrong tokens) or an error of the device, with 64 if an argument is not understood.
"""

import json
import sys
import time

import command_line
import generate_cases

try:
    import peft
    import torch
    import transformers
    MISSING = None
except ImportError as absent:
    MISSING = f"needs torch, transformers and peft: {absent}"

SHAPES = {  # as in src/apps/synth_shapes.cc; what is not here is as LlamaConfig has it
    "llama-2-7b": {"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32},
    "llama-2-13b": {"hidden_size": 5120, "intermediate_size": 13824, "num_hidden_layers": 40,
                    "num_attention_heads": 40, "num_key_value_heads": 40},
    "tiny": {"vocab_size": 512, "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 4,
             "num_attention_heads": 8, "num_key_value_heads": 4},
}
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
WARM_UP_TOKENS = 8


class WrongResult(Exception):
    pass


def name_of(adapter: int) -> str:
    return f"adapter{adapter}"


def make_model(shape: str, rank: int, adapters: list, device: str, dtype):
    config = transformers.LlamaConfig(**SHAPES[shape], rms_norm_eps=1e-5, eos_token_id=None,
                                      max_position_embeddings=generate_cases.MAX_TOTAL)
    # False: B as torch.nn.Linear has it, not zero.
    lora = peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=list(PROJECTIONS),
                           init_lora_weights=False, task_type="CAUSAL_LM", inference_mode=True)
    with torch.device(device):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)
        model.generation_config.pad_token_id = 0
        model = peft.get_peft_model(model, lora, name_of(adapters[0]))
        for adapter in adapters[1:]:
            model.add_adapter(name_of(adapter), lora)
    for weight in model.parameters():  # PEFT makes adapters of a bfloat16 model in float32, for training
        weight.data = weight.data.to(dtype)
    return model.eval()


# Each variant says what generate is given beside prompts. What it says of itself is printed.

def per_adapter(model, batch: list) -> dict:
    """set_adapter, then generate; a batch is successive requests of one adapter"""
    model.set_adapter(name_of(batch[0].adapter))
    return {}


def mixed(_, batch: list) -> dict:
    """generate with adapter_names; a batch is successive requests of any adapters"""
    return {"adapter_names": [name_of(request.adapter) for request in batch]}


VARIANTS = {variant.__name__: variant for variant in (per_adapter, mixed)}


def generate(model, batch: list, variant, most: int = generate_cases.MAX_TOTAL) -> list:
    """The tokens of each request's answer, at most `most`. Prompts are padded on the left."""
    prompts = [request.prompt(model.config.vocab_size) for request in batch]
    width = max(map(len, prompts))
    padded = torch.tensor([[-1] * (width - len(prompt)) + prompt for prompt in prompts], device=model.device)
    longest = min(most, max(request.output_tokens for request in batch))
    output = model.generate(input_ids=padded.clamp(min=0), attention_mask=(padded >= 0).long(),
                            max_new_tokens=longest, do_sample=False, **variant(model, batch))
    if output.shape != (len(batch), width + longest):
        raise WrongResult(f"{len(batch)} requests of {width} + {longest} tokens became {tuple(output.shape)}")
    return [row[width:width + request.output_tokens] for row, request in zip(output, batch)]


def now(model) -> float:
    if model.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def run(model, requests: list, name: str) -> tuple:
    """What is printed of a variant, and the answers."""
    batches = generate_cases.batches(requests, one_adapter=name == "per_adapter")
    generate(model, batches[0], VARIANTS[name], WARM_UP_TOKENS)
    begin = now(model)
    answers = [answer for batch in batches for answer in generate(model, batch, VARIANTS[name])]
    seconds = now(model) - begin
    tokens = sum(map(len, answers))
    return {"variant": name, "requests": len(requests), "batches": len(batches),
            "mean_batch": round(len(requests) / len(batches), 2), "tokens": tokens,
            "seconds": round(seconds, 3), "tokens_per_s": round(tokens / seconds, 2)}, answers


def check_effect(model, adapters: list) -> None:
    """The same prompt has another answer from each adapter, and yet another without any."""
    batch = [generate_cases.Request(1, 8, 16, adapter) for adapter in adapters]
    answers = [generate(model, [request], per_adapter)[0] for request in batch]
    with model.disable_adapter():
        answers += generate(model, batch[:1], lambda *_: {})
    if len({tuple(answer.tolist()) for answer in answers}) < len(answers):
        raise WrongResult("wrong result: adapters have no effect")


def check_same(answers: dict) -> None:
    """However requests were batched."""
    for name, others in answers.items():
        for i, (one, other) in enumerate(zip(answers[next(iter(answers))], others)):
            if not torch.equal(one, other):
                raise WrongResult(f"wrong result: {name} answers request {i} otherwise")


def run_cases(model, cases: dict, names: list, options) -> list:
    results = []
    for popularity, requests in cases.items():
        answers = {}
        for name in names:
            count = options.mixed_requests if name == "mixed" else options.requests
            result, answers[name] = run(model, requests[:count], name)
            results.append({"popularity": popularity, **result})
            print(results[-1], file=sys.stderr)
        if options.cpu:
            check_same(answers)
    return results


def parse_arguments():
    parser = command_line.Parser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--shape", choices=SHAPES, help="llama-2-7b by default, tiny with --cpu")
    parser.add_argument("--lengths", help="punica-short (by default; punica:64 with --cpu) or punica:MAX")
    parser.add_argument("--requests", type=int, help="a sample: 16 by default, 8 with --cpu")
    parser.add_argument("--mixed-requests", type=int, help=f"of the variant that can fill a batch: "
                        f"{generate_cases.MAX_BATCH} by default, 8 with --cpu")
    parser.add_argument("--adapters", type=int, default=64, help="to choose from: %(default)s")
    parser.add_argument("--rank", type=int, default=16, help="%(default)s")
    parser.add_argument("--popularity", default=",".join(generate_cases.POPULARITIES), help="some of %(default)s")
    parser.add_argument("--variants", default=",".join(VARIANTS), help="some of %(default)s")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cpu", action="store_true", help="check that adapters have an effect, and that variants "
                        "generate the same tokens, in float32; times mean little")
    options = parser.parse_args()
    defaults = (("shape", "llama-2-7b", "tiny"), ("lengths", "punica-short", "punica:64"), ("requests", 16, 8),
                ("mixed_requests", generate_cases.MAX_BATCH, 8))
    for key, on_gpu, on_cpu in defaults:
        if getattr(options, key) is None:
            setattr(options, key, on_cpu if options.cpu else on_gpu)
    if options.cpu and options.shape != "tiny":
        parser.error("--cpu takes the tiny shape only")
    if min(options.requests, options.mixed_requests, options.rank) < 1:
        parser.error("requests and rank are at least 1")
    options.names, options.popularities = options.variants.split(","), options.popularity.split(",")
    for kind, given, known in (("variant", options.names, VARIANTS),
                               ("popularity", options.popularities, generate_cases.POPULARITIES)):
        if unknown := set(given) - set(known):
            parser.error(f"no {kind} {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    count = max(options.requests, options.mixed_requests)
    try:
        options.cases = {popularity: generate_cases.draw(popularity, options.lengths, count, options.adapters,
                                                         options.seed) for popularity in options.popularities}
    except ValueError as problem:
        parser.error(str(problem))
    return options


def main() -> int:
    options = parse_arguments()
    if MISSING or not (options.cpu or torch.cuda.is_available()):
        print(MISSING or "torch finds no GPU", file=sys.stderr)
        return 2
    # PEFT before 0.10 had no batches of several adapters.
    names = [name for name in options.names
             if name != "mixed" or hasattr(peft.LoraModel, "_enable_peft_forward_hooks")]
    adapters = sorted({request.adapter for requests in options.cases.values() for request in requests})
    torch.manual_seed(options.seed)
    device, dtype = ("cpu", torch.float32) if options.cpu else ("cuda", torch.bfloat16)
    model = make_model(options.shape, options.rank, adapters, device, dtype)
    head = {"device": "cpu" if options.cpu else torch.cuda.get_device_name(), "torch": torch.__version__,
            "transformers": transformers.__version__, "peft": peft.__version__, "shape": options.shape,
            "lengths": options.lengths, "max_batch": generate_cases.MAX_BATCH, "rank": options.rank,
            "seed": options.seed, "variants": {name: VARIANTS[name].__doc__ for name in names},
            "skipped": {name: "this PEFT has none" for name in options.names if name not in names}}
    try:
        if options.cpu:
            check_effect(model, adapters)
        cases = run_cases(model, options.cases, names, options)
    except WrongResult as wrong:
        print(wrong, file=sys.stderr)
        return 1
    lines = ",\n".join(f"    {json.dumps(case)}" for case in cases)
    print(json.dumps(head, indent=2)[:-2] + f',\n  "cases": [\n{lines}\n  ]\n}}')
    return 0


if __name__ == "__main__":
    sys.exit(main())
