"""Forward passes of a saved model and adapters: exact, noisy, and as transformers + peft run them."""

import contextlib
import re
from unittest import mock

import peft
import torch
import transformers
from safetensors.torch import load_file
from transformers.models.qwen3_5 import modeling_qwen3_5

import adapters
from arithmetic import BFLOAT16, Arithmetic


def load(model_dir, mix, dtype):
    """transformers + peft as a user would call them, in `dtype`. `mix`: adapters' names and
    weights, in the order in which they apply."""
    architecture = transformers.AutoConfig.from_pretrained(model_dir).architectures[0]
    model = getattr(transformers, architecture).from_pretrained(
        model_dir, dtype=dtype, attn_implementation="eager", experts_implementation="eager")
    for name, _ in mix:
        directory = model_dir / "adapters" / name
        if vocab_size := adapters.vocab_size(directory):
            model.resize_token_embeddings(vocab_size, mean_resizing=False)
        if isinstance(model, peft.PeftModel):
            model.load_adapter(directory, name)
        else:
            model = peft.PeftModel.from_pretrained(model, directory, adapter_name=name)
    if mix:
        # Each module of modules_to_save knows one active adapter: the first has them in our mixes.
        model.base_model.set_adapter([name for name, _ in mix])
        for module in model.modules():
            if isinstance(module, peft.tuners.lora.LoraLayer):
                for name, weight in mix:
                    if name in module.scaling:
                        module.scaling[name] *= weight
    return model.eval()


def check_adapter_is_exact(model, directory):
    """peft converts adapter weights when it loads them: it must not have rounded any."""
    short = lambda name: name.replace(f".{directory.name}", "").replace(".modules_to_save", "")
    parameters = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if ".original_module" not in name:
            parameters[short(name)] = parameter
            if name.endswith(f"lora_magnitude_vector.{directory.name}.weight"):
                parameters[short(name).removesuffix(".weight")] = parameter
    for name, value in load_file(directory / "adapter_model.safetensors").items():
        if re.search(r"\.experts\.\d+\.", name) or ".block_sparse_moe." in name:
            continue  # peft makes others of them, in float64 here
        if ".original_module." in name:
            continue  # which is not in use
        assert torch.equal(parameters[short(name)], value.double()), f"{name} was rounded"


class Float64Model:
    """A model and adapters in float64, with the very weights of the files, or with those rounded to
    a number format, run in exact or in noisy arithmetic."""

    def __init__(self, model, adapter_dirs, number_format=None, generator=None):
        """Takes `model`, loaded in float64, with the adapters of these folders."""
        model = model.double()
        for directory in adapter_dirs:
            check_adapter_is_exact(model, directory)
        if number_format is BFLOAT16:
            for parameter in model.parameters():
                parameter.data = parameter.data.bfloat16().double()
        self.model = model
        self.arithmetic = Arithmetic(number_format, generator)
        self.widen_rope()

    def widen_rope(self):
        """Makes the inverse frequencies anew, in float64."""
        owner = self.model.get_base_model() if hasattr(self.model, "peft_config") else self.model
        decoder = getattr(owner.model, "language_model", owner.model)
        with Arithmetic():
            rope = type(decoder.rotary_emb)(decoder.config)
        assert all(buffer.dtype is torch.float64 for buffer in rope.buffers())
        forward = rope.forward

        def forward_in_float32(*args, **kwargs):
            with self.arithmetic.at_least_float32():
                return forward(*args, **kwargs)

        rope.forward = forward_in_float32
        decoder.rotary_emb = rope

    @contextlib.contextmanager
    def state_in_float32(self):
        rule = modeling_qwen3_5.torch_chunk_gated_delta_rule

        def rule_in_float32(*args, **kwargs):
            with self.arithmetic.at_least_float32():
                return rule(*args, **kwargs)

        with mock.patch.object(modeling_qwen3_5, "torch_chunk_gated_delta_rule", rule_in_float32):
            yield

    def logits(self, tokens):
        """[len(tokens), vocab_size], or a classifier's [labels], float64."""
        with self.arithmetic, self.state_in_float32():
            logits = native_logits(self.model, tokens)
        assert logits.dtype is torch.float64
        return logits

    def greedy(self, prompt, count):
        """The `count` tokens that follow, and the smallest gap between the two largest logits."""
        tokens, min_gap = list(prompt), float("inf")
        for _ in range(count):
            best = self.logits(tokens)[-1].topk(2)
            min_gap = min(min_gap, float(best.values[0] - best.values[1]))
            tokens.append(int(best.indices[0]))
        return tokens[len(prompt):], min_gap


def native_logits(model, tokens):
    """As Float64Model.logits, of a model from `load` or a classifier."""
    with torch.no_grad():
        return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].double()
