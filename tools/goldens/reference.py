"""Forward passes of a saved model and adapter: exact, noisy, and as transformers + peft run them."""

import peft
import torch
import transformers
from safetensors.torch import load_file

from arithmetic import BFLOAT16, Arithmetic


def load(model_dir, adapter_dir, dtype):
    """transformers + peft as a user would call them, in `dtype`."""
    model = transformers.AutoModelForCausalLM.from_pretrained(
        model_dir, dtype=dtype, attn_implementation="eager")
    if adapter_dir is not None:
        model = peft.PeftModel.from_pretrained(model, adapter_dir)
    return model.eval()


def check_adapter_is_exact(model, adapter_dir):
    """peft converts adapter weights when it loads them: it must not have rounded any."""
    parameters = {name.replace(".default", ""): p for name, p in model.named_parameters()}
    for name, value in load_file(adapter_dir / "adapter_model.safetensors").items():
        assert torch.equal(parameters[name], value.double()), f"{name} was rounded"


class Float64Model:
    """A model and adapter in float64, with the very weights of the files, or with those rounded to
    a number format, run in exact or in noisy arithmetic."""

    def __init__(self, model_dir, adapter_dir, number_format=None, generator=None):
        model = load(model_dir, adapter_dir, torch.float64).double()
        if adapter_dir is not None:
            check_adapter_is_exact(model, adapter_dir)
        if number_format is BFLOAT16:
            for parameter in model.parameters():
                parameter.data = parameter.data.bfloat16().double()
        self.model = model
        self.arithmetic = Arithmetic(number_format, generator)
        self.widen_rope()

    def widen_rope(self):
        """Makes the inverse frequencies anew, in float64."""
        owner = self.model.get_base_model() if hasattr(self.model, "peft_config") else self.model
        with Arithmetic():
            rope = type(owner.model.rotary_emb)(owner.config)
        assert rope.inv_freq.dtype is torch.float64
        forward = rope.forward

        def forward_in_float32(*args, **kwargs):
            with self.arithmetic.at_least_float32():
                return forward(*args, **kwargs)

        rope.forward = forward_in_float32
        owner.model.rotary_emb = rope

    def logits(self, tokens):
        """[len(tokens), vocab_size], float64."""
        with torch.no_grad(), self.arithmetic:
            logits = self.model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
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
    """[len(tokens), vocab_size] of a model from `load`, in float64."""
    with torch.no_grad():
        return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].double()
