"""The forward pass written once more, in float64, from the papers and nothing of transformers or
peft: it tells that the goldens do not contain a mistake of those libraries or of our use of them.
"""

import json
import math
import re

import torch
from safetensors.torch import load_file


def rms_norm(x, weight, eps):
    return weight * x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


def gelu_tanh(x):
    return x / 2 * (1 + (math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)).tanh())


def soft_cap(x, cap):
    return cap * (x / cap).tanh() if cap else x


def inverse_frequencies(rope, head_dim):
    """[head_dim / 2]; Llama 3's scaling as in Meta's llama-models, `apply_scaling`."""
    frequencies = rope["rope_theta"] ** (-torch.arange(0, head_dim, 2).double() / head_dim)
    if rope["rope_type"] == "linear":
        return frequencies / rope["factor"]
    if rope["rope_type"] == "llama3":
        turns = rope["original_max_position_embeddings"] * frequencies / (2 * math.pi)
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        smooth = ((turns - low) / (high - low)).clamp(0, 1)
        return frequencies * (smooth + (1 - smooth) / rope["factor"])
    return frequencies


def rotate(x, angles):
    """x: [tokens, heads, head_dim], angles: [tokens, head_dim / 2]; halves, not pairs."""
    a, b = x.chunk(2, -1)
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def lora_scale(config, module, rank):
    alphas = [alpha for pattern, alpha in config["alpha_pattern"].items()
              if re.fullmatch(rf"(.*\.)?({pattern})", module)]
    alpha = alphas[0] if alphas else config["lora_alpha"]
    return alpha / (math.sqrt(rank) if config["use_rslora"] else rank)


class Model:
    """A saved model with the updates of adapters, (name, weight), merged into its weights."""

    def __init__(self, model_dir, mix):
        self.config = json.loads((model_dir / "config.json").read_text())
        self.weights = {}
        for file in model_dir.glob("model*.safetensors"):
            self.weights |= {name: w.double() for name, w in load_file(file).items()}
        # A tied matrix is two from here on: an adapter may change one of them.
        self.weights.setdefault("lm_head.weight", self.weights["model.embed_tokens.weight"])
        base = dict(self.weights)
        for name, weight in mix:
            self.merge(model_dir / "adapters" / name, weight, base)

    def merge(self, adapter_dir, weight, base):
        config = json.loads((adapter_dir / "adapter_config.json").read_text())
        tensors = {name.removeprefix("base_model.model."): tensor.double() for name, tensor
                   in load_file(adapter_dir / "adapter_model.safetensors").items()}
        # The others that are saved are the base's own, beneath an adapter.
        for name in ("lm_head.weight", "model.embed_tokens.weight"):
            if name in tensors:
                self.weights[name] = tensors[name]
        for name, a in tensors.items():
            module, kind = name.rsplit(".lora_", 1) if ".lora_" in name else (name, "")
            scale = weight * lora_scale(config, module, rank=len(a))
            target = f"{module}.weight"
            if kind == "embedding_A":
                b = tensors[f"{module}.lora_embedding_B"]
                update = scale * (b @ a).T
                self.weights[target] = self.weights[target] + update
                if config["use_dora"]:  # of the outputs, which are columns here
                    length = (base[target] + update).norm(dim=0)
                    gain = tensors[f"{module}.lora_magnitude_vector"] / length
                    self.weights[target] = gain * self.weights[target]
            if kind != "A.weight":
                continue
            update = scale * tensors[f"{module}.lora_B.weight"] @ a
            self.weights[target] = self.weights[target] + update
            if config["use_dora"]:
                length = (base[target] + update).norm(dim=1)
                gain = tensors[f"{module}.lora_magnitude_vector"] / length
                self.weights[target] = gain[:, None] * self.weights[target]

    @property
    def is_gemma(self):
        return self.config["model_type"].startswith("gemma")

    def norm(self, x, module):
        """Gemma's files hold what a weight differs from 1 by."""
        weight = self.weights[f"{module}.weight"]
        return rms_norm(x, 1 + weight if self.is_gemma else weight, self.config["rms_norm_eps"])

    def layer_type(self, layer):
        """"sliding_attention" or "full_attention"."""
        types = self.config.get("layer_types")
        if types:
            return types[layer]
        return "sliding_attention" if self.config.get("sliding_window") else "full_attention"

    def rope(self, layer):
        parameters = self.config["rope_parameters"]
        return parameters.get(self.layer_type(layer), parameters)

    def project(self, x, module):
        bias = self.weights.get(f"{module}.bias", 0)
        return x @ self.weights[f"{module}.weight"].T + bias

    def heads(self, x, module, norm, head_dim):
        """[tokens, heads, head_dim], normed as Qwen3 and Gemma 3 do where there is such a norm."""
        y = self.project(x, module).unflatten(-1, (-1, head_dim))
        return self.norm(y, norm) if f"{norm}.weight" in self.weights else y

    def attention(self, x, layer):
        config, count, prefix = self.config, len(x), f"model.layers.{layer}.self_attn"
        head_dim = config.get("head_dim") or (config["hidden_size"] //
                                              config["num_attention_heads"])
        angles = torch.arange(count).double()[:, None] * inverse_frequencies(
            self.rope(layer), head_dim)
        q = rotate(self.heads(x, f"{prefix}.q_proj", f"{prefix}.q_norm", head_dim), angles)
        k = rotate(self.heads(x, f"{prefix}.k_proj", f"{prefix}.k_norm", head_dim), angles)
        v = self.heads(x, f"{prefix}.v_proj", "", head_dim)
        group = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        scores = torch.einsum("ihd,jhd->hij", q, k) / math.sqrt(
            config.get("query_pre_attn_scalar") or head_dim)
        scores = soft_cap(scores, config.get("attn_logit_softcapping"))
        distance = torch.arange(count)[:, None] - torch.arange(count)[None]
        has_window = self.layer_type(layer) == "sliding_attention"
        window = config.get("sliding_window") if has_window else None
        window = window or count
        scores = scores.masked_fill((distance < 0) | (distance >= window), -math.inf)
        mixed = torch.einsum("hij,jhd->ihd", scores.softmax(-1), v)
        return self.project(mixed.flatten(1), f"{prefix}.o_proj")

    def mlp(self, x, prefix):
        gate = self.project(x, f"{prefix}.gate_proj")
        activated = gelu_tanh(gate) if self.is_gemma else gate * gate.sigmoid()
        return self.project(activated * self.project(x, f"{prefix}.up_proj"),
                            f"{prefix}.down_proj")

    def layer(self, x, layer):
        prefix = f"model.layers.{layer}"
        # Where there are four norms, two of them are of what is added.
        normed = lambda y, name: self.norm(y, f"{prefix}.{name}_layernorm")
        sandwich = f"{prefix}.pre_feedforward_layernorm.weight" in self.weights
        attended = self.attention(normed(x, "input"), layer)
        x = x + (normed(attended, "post_attention") if sandwich else attended)
        changed = self.mlp(normed(x, "pre_feedforward" if sandwich else "post_attention"),
                           f"{prefix}.mlp")
        return x + (normed(changed, "post_feedforward") if sandwich else changed)

    def logits(self, tokens):
        """[len(tokens), vocab_size], float64."""
        x = self.weights["model.embed_tokens.weight"][tokens]
        if self.is_gemma:
            x = x * math.sqrt(self.config["hidden_size"])
        for layer in range(self.config["num_hidden_layers"]):
            x = self.layer(x, layer)
        logits = self.norm(x, "model.norm") @ self.weights["lm_head.weight"].T
        return soft_cap(logits, self.config.get("final_logit_softcapping"))
