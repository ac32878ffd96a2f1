"""Makes tests/goldens: tiny random checkpoints, adapters, and what they must compute.

  make_goldens.py             rewrites tests/goldens
  make_goldens.py --check     makes them anew elsewhere and compares

README.md says what is in the files and how the tolerances are derived.
"""

import argparse
import functools
import json
import os
import pathlib
import shutil
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file

import adapters
import checkpoints
import independent
from arithmetic import BFLOAT16, FLOAT32
from reference import Float64Model, load, native_logits

GOLDENS = pathlib.Path(__file__).resolve().parents[2] / "tests" / "goldens"
PROMPT_LENGTHS = (1, 7, 40, 97)
GREEDY_TOKENS = 20
# A tolerance is this many times the largest deviation among the noisy runs: see README.md.
SAFETY = 3
NOISY_RUNS = 8
# Greedy tokens are to be equal, so no choice may be closer than this many tolerances …
MIN_GAP_TOLERANCES = 20
# … and an adapter whose effect is smaller than this many would go unnoticed.
MIN_EFFECT_TOLERANCES = 10
# What leaves out a setting of the model is off by its effect, and by its own noise in either
# direction, which lies within the tolerance: so it fails also in bfloat16.
MIN_SETTING_TOLERANCES = 2
# A token's least expert is ahead of those that it is not given by this much in the router's scores,
# whose spread is 1.2, where logits are compared: bfloat16 changes them by about 0.01.
MIN_ROUTER_GAP = 0.03
# transformers' own deviation lies within the tolerance, which is at most this many times as large.
MAX_TOLERANCE_RATIO = 40


def measure(difference):
    """Largest absolute value and root mean square."""
    return {"max": float(difference.abs().max()), "rms": float(difference.square().mean().sqrt())}


def stored_positions(length):
    """All positions of a short prompt; of a longer one four, the first and the last among them."""
    return list(range(length)) if length <= 8 else [round(i * (length - 1) / 3) for i in range(4)]


def vocab_size(model_dir):
    config = json.loads((model_dir / "config.json").read_text())
    return config.get("text_config", config)["vocab_size"]


def find_last(tokens, invocation):
    """Where the invocation last begins among the tokens; None if it does not."""
    starts = (start for start in reversed(range(len(tokens)))
              if tokens[start:start + len(invocation)] == invocation)
    return next(starts, None) if invocation else None


def show(mix):
    """"a", or "0.5*a+b"; None without adapters."""
    return "+".join(name if weight == 1 else f"{weight}*{name}" for name, weight in mix) or None


class Variant:
    """A base model with adapters, or none, in every arithmetic that is compared."""

    def __init__(self, model_dir, mix):
        self.mix = mix
        self.adapter = show(mix)
        self.base_vocab_size = vocab_size(model_dir)
        sizes = [adapters.vocab_size(model_dir / "adapters" / name) for name, _ in mix]
        self.vocab_size = next((size for size in sizes if size), self.base_vocab_size)
        self.invocation = independent.invocation(model_dir, mix)
        float64 = functools.partial(self.make_float64, model_dir)
        self.exact = float64()
        self.independent = independent.Model(model_dir, mix)
        self.native = {"f32": load(model_dir, mix, torch.float32),
                       "bf16": load(model_dir, mix, torch.bfloat16)}
        self.noisy = {}
        for key, number_format in (("f32", FLOAT32), ("bf16", BFLOAT16)):
            seed = checkpoints.generator(model_dir.name, self.adapter, key)
            self.noisy[key] = float64(number_format, seed)

    def make_float64(self, model_dir, *noise):
        return Float64Model(load(model_dir, self.mix, torch.float64),
                            [model_dir / "adapters" / name for name, _ in self.mix], *noise)

    def invoke(self, prompt):
        """The prompt with the adapter's invocation, if it has one, in two places, of which the last
        counts; a prompt without room for that stays as it is, and the adapter does nothing. None
        if it invokes the adapter elsewhere by chance."""
        size, length = len(self.invocation), len(prompt)
        starts = [length // 5, length * 3 // 5] if size > 0 and length >= 3 * size else []
        prompt = [token % self.vocab_size for token in prompt]
        if self.vocab_size > self.base_vocab_size:  # with all of its own tokens, if there is room
            for i in range(0, length, 5):
                prompt[i] = self.vocab_size - 1 - i // 5 % (self.vocab_size - self.base_vocab_size)
        for start in starts:
            prompt[start:start + size] = self.invocation
        return prompt if find_last(prompt, self.invocation) == max(starts, default=None) else None

    def effect(self, exact, case, base):
        """What the adapter changes: of logits that the base model has, too, and of a prompt that it
        can read."""
        size = min(self.vocab_size, self.base_vocab_size)
        prompt = [token if token < self.base_vocab_size else 0 for token in case["prompt"]]
        return measure(exact[:, :size] - base.exact.logits(prompt)[case["positions"], :size])

    def positions(self, prompt):
        """Those stored: of an adapter that is invoked, where the prompt up to there invokes it at
        the same place."""
        start = find_last(prompt, self.invocation)
        first = 0 if start is None else start + len(self.invocation) - 1
        return [position for position in stored_positions(len(prompt)) if position >= first]

    def router_gap(self, prompt):
        """The smallest at a stored position; none where there are no experts."""
        self.independent.logits(prompt)
        positions = self.positions(prompt)
        gaps = self.independent.router_gaps.values()
        return min((float(gap[positions].min()) for gap in gaps), default=None)

    def case(self, prompt):
        """The case as it stands in cases.json, and its exact logits [len(positions), vocab_size].
        `prompt` is one from `invoke`."""
        positions = self.positions(prompt)
        exact = self.exact.logits(prompt)[positions]
        assert measure(self.independent.logits(prompt)[positions] - exact)["max"] < 1e-10
        greedy, min_gap = self.exact.greedy(prompt, GREEDY_TOKENS)
        case = {"adapter": self.adapter, "prompt": prompt,
                "logits_key": f"{self.adapter or 'base'}/{len(prompt)}", "positions": positions,
                "greedy": greedy, "min_gap": min_gap}
        if self.invocation:
            case["first_token"] = find_last(prompt, self.invocation)
            case["answer_invokes"] = find_last(prompt + greedy, self.invocation) != case["first_token"]
        if (router_gap := self.router_gap(prompt)) is not None:
            case["min_router_gap"] = router_gap
        if self.adapter not in [None, *(name for name, _ in self.mix)]:
            case["mix"] = self.mix
        for key in ("f32", "bf16"):
            noise = [measure(self.noisy[key].logits(prompt)[positions] - exact)
                     for _ in range(NOISY_RUNS)]
            case[f"tolerance_{key}"] = SAFETY * max(n["max"] for n in noise)
            case[f"rms_tolerance_{key}"] = SAFETY * max(n["rms"] for n in noise)
            native = measure(native_logits(self.native[key], prompt)[positions] - exact)
            case[f"transformers_{key}_max"] = native["max"]
            case[f"transformers_{key}_rms"] = native["rms"]
        return case, exact


def problem(case, effect):
    """What makes a prompt useless as a golden, or None. `effect`: of the adapter on the logits."""
    if case["min_gap"] < MIN_GAP_TOLERANCES * case["tolerance_f32"]:
        return f"two tokens are only {case['min_gap']:.1e} apart"
    if not case["adapter"]:
        return None
    if case.pop("answer_invokes", False):  # which peft's forward would see
        return "the answer invokes the adapter again"
    if "first_token" in case and case["first_token"] is None:
        assert effect["max"] == 0, case
        return None
    if effect["max"] < MIN_EFFECT_TOLERANCES * case["tolerance_f32"]:
        return f"the adapter moves no logit by more than {effect['max']:.1e}"
    if effect["rms"] < MIN_EFFECT_TOLERANCES * case["rms_tolerance_bf16"]:
        return f"the adapter moves logits by only {effect['rms']:.1e} in the mean"
    return None


def check_calibration(case):
    for key in ("f32", "bf16"):
        for kind, name in (("max", "tolerance"), ("rms", "rms_tolerance")):
            tolerance, native = case[f"{name}_{key}"], case[f"transformers_{key}_{kind}"]
            assert native <= tolerance <= MAX_TOLERANCE_RATIO * native, (key, kind, case)


def check_effects(cases, effects):
    """Every adapter moves some logit by many times the tolerance of bfloat16, too."""
    ratios = {}
    for case, effect in zip(cases, effects, strict=True):
        if case["adapter"]:
            ratio = effect["max"] / case["tolerance_bf16"]
            ratios[case["adapter"]] = max(ratio, ratios.get(case["adapter"], 0))
    assert min(ratios.values()) >= MIN_EFFECT_TOLERANCES, ratios


def check_settings(model_dir, case, exact):
    """Windows, RoPEs, caps and scales of the model matter to this case of the base model."""
    config = json.loads((model_dir / "config.json").read_text())
    config = config.get("text_config", config)
    changes = [(key, None) for key in ("sliding_window", "query_pre_attn_scalar",
                                       "attn_logit_softcapping", "final_logit_softcapping",
                                       "attention_multiplier", "no_rope_layers")
               if config.get(key)]
    changes += [(key, 1) for key in ("embedding_multiplier", "residual_multiplier",
                                     "logits_scaling", "num_experts_per_tok") if key in config]
    if "swiglu_limit" in config:
        changes.append(("swiglu_limit", 1e9))
    if "norm_topk_prob" in config:
        changes.append(("norm_topk_prob", not config["norm_topk_prob"]))
    if "residual_multiplier" in config:  # as if norms saw the stream divided by it
        eps = config["rms_norm_eps"] * config["residual_multiplier"] ** 2
        changes.append(("rms_norm_eps", eps))
    types = config.get("layer_types") or []
    if len(set(types)) > 1 and "linear_attention" not in types:
        changes += [("layer_types", [kind] * len(types)) for kind in set(types)]
    rope = config["rope_parameters"]
    if "rope_type" not in rope:
        changes += [("rope_parameters", of_kind) for of_kind in rope.values()]
    elif rope["rope_type"] != "default":
        changes.append(("rope_parameters", {**rope, "rope_type": "default"}))
    elif rope.get("partial_rotary_factor", 1) != 1:
        changes.append(("rope_parameters", {**rope, "partial_rotary_factor": 1}))
    for key, neutral in changes:
        model = independent.Model(model_dir, ())
        model.config[key] = neutral
        effect = measure(model.logits(case["prompt"])[case["positions"]] - exact)
        assert effect["max"] > MIN_SETTING_TOLERANCES * case["tolerance_bf16"], (key, effect)


def cases_of_length(variants, vocab_size, length, seed_name):
    """The cases of one prompt, the same for every variant but for invocations: the first random one
    that is usable for all of them. With each its exact logits and the adapter's effect on them."""
    for attempt in range(5000):
        random = checkpoints.generator(seed_name, "prompt", length, attempt)
        prompt = torch.randint(vocab_size, (length,), generator=random).tolist()
        prompts = [variant.invoke(prompt) for variant in variants]
        if None in prompts:
            continue
        gaps = (variant.router_gap(own) for variant, own in zip(variants, prompts))
        if any(gap is not None and gap < MIN_ROUTER_GAP for gap in gaps):
            continue  # the most common reason, where there are many variants
        results = []
        for variant, prompt in zip(variants, prompts):
            case, exact = variant.case(prompt)
            effect = variant.effect(exact, case, base=variants[0])
            reason = problem(case, effect)
            if reason:
                print(f"  {case['logits_key']}: attempt {attempt}: {reason}")
                break
            results.append((case, exact, effect))
        else:
            return results
    raise AssertionError(f"{seed_name}: no usable prompt of length {length}")


def shorten(case):
    """Numbers that mean nothing beyond their fourth digit."""
    return {key: float(f"{value:.4g}") if isinstance(value, float) else value
            for key, value in case.items()}


def make_model(checkpoint, root):
    """Writes one folder of goldens."""
    model_dir = root / checkpoint.name
    checkpoints.build(checkpoint).save_pretrained(model_dir,
                                                  max_shard_size=checkpoint.max_shard_size)
    mixes = [()]
    for adapter in adapters.ADAPTERS[checkpoint.name]:
        adapters.save(checkpoints.build(checkpoint), adapter, checkpoint.name,
                      model_dir / "adapters" / adapter.name)
        mixes.append(((adapter.name, 1),))
    mixes += adapters.MIXES.get(checkpoint.name, ())
    variants = [Variant(model_dir, mix) for mix in mixes]
    cases, logits, effects = [], {}, []
    for length in PROMPT_LENGTHS:
        for case, exact, effect in cases_of_length(variants, checkpoint.vocab_size, length,
                                                   checkpoint.name):
            check_calibration(case)
            cases.append(case)
            effects.append(effect)
            logits[case["logits_key"]] = exact.float()
            if length == PROMPT_LENGTHS[-1] and not case["adapter"]:
                check_settings(model_dir, case, exact)
    check_effects(cases, effects)
    save_file(logits, model_dir / "logits.safetensors")
    lines = ",\n".join(json.dumps(shorten(case)) for case in cases)
    (model_dir / "cases.json").write_text(f"[\n{lines}\n]\n")
    report(checkpoint.name, cases)


def report(name, cases):
    print(name)
    for key in ("f32", "bf16"):
        for kind, tolerance in (("max", f"tolerance_{key}"), ("rms", f"rms_tolerance_{key}")):
            values = [case[tolerance] for case in cases]
            ratios = [case[tolerance] / case[f"transformers_{key}_{kind}"] for case in cases]
            print(f"  {tolerance:<18} {min(values):.1e} … {max(values):.1e} = "
                  f"{min(ratios):.1f} … {max(ratios):.1f} × transformers' own deviation")


def compare(made, committed):
    """Fails unless both trees hold the same files: logits and numbers to within what another CPU's
    float64 may change, everything else byte for byte."""
    files = sorted(p.relative_to(made) for p in made.rglob("*") if p.is_file())
    assert files == sorted(p.relative_to(committed) for p in committed.rglob("*") if p.is_file())
    for file in files:
        if file.name == "logits.safetensors":
            a, b = load_file(made / file), load_file(committed / file)
            assert a.keys() == b.keys(), file
            for key in a:
                torch.testing.assert_close(a[key], b[key], rtol=1e-6, atol=1e-6)
        elif file.name == "cases.json":
            for a, b in zip(*(json.loads((root / file).read_text()) for root in (made, committed)),
                            strict=True):
                for key in ("adapter", "prompt", "logits_key", "positions", "greedy"):
                    assert a[key] == b[key], (file, key)
        else:
            assert (made / file).read_bytes() == (committed / file).read_bytes(), file
    print(f"{len(files)} files agree")


def rewrite_or_check(description, make, committed, compare=compare):
    """The command line of a program that makes goldens: `make` writes them into a folder."""
    # peft writes target_modules in the order of a set of strings.
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as temporary:
        made = pathlib.Path(temporary) / "made"
        make(made)
        if arguments.check:
            compare(made, committed)
        else:
            shutil.rmtree(committed, ignore_errors=True)
            shutil.copytree(made, committed)


def make(root):
    for checkpoint in checkpoints.CHECKPOINTS:
        make_model(checkpoint, root)


if __name__ == "__main__":
    rewrite_or_check(__doc__, make, GOLDENS)
