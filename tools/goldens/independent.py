"""The forward pass written once more, in float64, from the papers and nothing of transformers or
peft: it tells that the goldens do not contain a mistake of those libraries or of our use of them.
"""

import functools
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
    """[head_dim / 2]; Llama 3's scaling as in Meta's llama-models, `apply_scaling`; YaRN as in
    jquesnelle/yarn, where its paper says what the bounds are; LongRoPE within the first positions."""
    frequencies = rope["rope_theta"] ** (-torch.arange(0, head_dim, 2).double() / head_dim)
    if rope["rope_type"] == "linear":
        return frequencies / rope["factor"]
    if rope["rope_type"] == "llama3":
        turns = rope["original_max_position_embeddings"] * frequencies / (2 * math.pi)
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        smooth = ((turns - low) / (high - low)).clamp(0, 1)
        return frequencies * (smooth + (1 - smooth) / rope["factor"])
    if rope["rope_type"] == "yarn":
        positions = rope["original_max_position_embeddings"]
        pairs = torch.arange(head_dim // 2).double()
        # Pair i turns positions · theta^(-2i / head_dim) / 2π times: which i turns so often?
        pair = lambda turns: head_dim / 2 * math.log(positions / (2 * math.pi * turns),
                                                     rope["rope_theta"])
        low, high = pair(rope["beta_fast"]), pair(rope["beta_slow"])
        if rope.get("truncate", True):
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, head_dim - 1)
        stretched = ((pairs - low) / (high - low)).clamp(0, 1)
        return frequencies * (1 - stretched) + frequencies / rope["factor"] * stretched
    if rope["rope_type"] == "longrope":
        return frequencies / torch.tensor(rope["short_factor"]).double()
    return frequencies


def attention_factor(rope, config):
    """By which what is rotated is multiplied: YaRN's section 3.4, LongRoPE's section 3.2."""
    if rope["rope_type"] == "yarn":
        return 0.1 * math.log(rope["factor"]) + 1
    if rope["rope_type"] == "longrope":
        positions = config["original_max_position_embeddings"]
        growth = config["max_position_embeddings"] / positions
        return math.sqrt(1 + math.log(growth) / math.log(positions))
    return 1


def text_name(name):
    """Of a tensor in a model that also sees: what it is called in a text model, if it is of one."""
    if "vision_tower" in name or "multi_modal_projector" in name or ".visual." in name:
        return None
    for inside, outside in (("model.language_model.", "model."), ("language_model.model.", "model."),
                            ("language_model.lm_head.", "lm_head.")):
        name = name.replace(inside, outside)
    return name


def text_tensors(tensors):
    named = {text_name(name): tensor.double() for name, tensor in tensors.items()}
    named.pop(None, None)
    return named


def rotate_part(x, angles, factor):
    """x: [tokens, heads, head_dim], angles: [tokens, pairs]; halves of what is rotated, not
    neighbours."""
    pairs = angles.shape[-1]
    a, b, rest = x.split([pairs, pairs, x.shape[-1] - 2 * pairs], -1)
    cos, sin = angles.cos()[:, None] * factor, angles.sin()[:, None] * factor
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)


def read_adapter(model_dir, name):
    return json.loads((model_dir / "adapters" / name / "adapter_config.json").read_text())


def invocation(model_dir, mix):
    """The tokens from which the adapters apply; empty if they apply to all."""
    found = [read_adapter(model_dir, name).get("alora_invocation_tokens") for name, _ in mix]
    assert len(mix) == 1 or not any(found)
    return found[0] or [] if found else []


def lora_scale(config, module, rank):
    alphas = [alpha for pattern, alpha in config["alpha_pattern"].items()
              if re.fullmatch(rf"(.*\.)?({pattern})", module)]
    alpha = alphas[0] if alphas else config["lora_alpha"]
    return alpha / (math.sqrt(rank) if config["use_rslora"] else rank)


class Model:
    """A saved model with the updates of adapters, (name, weight), merged into its weights."""

    def __init__(self, model_dir, mix):
        config = json.loads((model_dir / "config.json").read_text())
        self.config = config.get("text_config", config)
        self.weights = {}
        for file in model_dir.glob("model*.safetensors"):
            self.weights |= text_tensors(load_file(file))
        # A tied matrix is two from here on: an adapter may change one of them.
        self.weights.setdefault("lm_head.weight", self.weights["model.embed_tokens.weight"])
        base = dict(self.weights)
        for name, weight in mix:
            self.merge(model_dir / "adapters" / name, weight, base)
        self.split_fused()
        # What comes before the last invocation is computed without the adapter.
        self.invocation = invocation(model_dir, mix)
        self.uninvoked = base
        self.num_uninvoked = 0
        self.router_gaps = {}  # by layer, [tokens]: what the least expert chosen is ahead by

    def split_fused(self):
        """Phi-3's modules become those of others."""
        config = self.config
        head_dim = config["hidden_size"] // config["num_attention_heads"]
        q, kv = (config[f"num_{kind}_heads"] * head_dim for kind in ("attention", "key_value"))
        middle = config["intermediate_size"]
        for fused, parts in (("qkv_proj", {"q_proj": q, "k_proj": kv, "v_proj": kv}),
                             ("gate_up_proj", {"gate_proj": middle, "up_proj": middle})):
            for name in [name for name in self.weights if f".{fused}." in name]:
                rows = self.weights.pop(name).split(list(parts.values()))
                self.weights |= {name.replace(fused, part): w for part, w in zip(parts, rows)}

    def merge(self, adapter_dir, weight, base):
        config = json.loads((adapter_dir / "adapter_config.json").read_text())
        tensors = load_file(adapter_dir / "adapter_model.safetensors")
        named = {name.removeprefix("base_model.model."): tensor for name, tensor in tensors.items()}
        patterned = {text_name(name): name for name in named}  # as patterns have to match
        tensors = text_tensors(named)
        # Most of those that are saved beneath an adapter are the base's own.
        for module in ("lm_head", "model.embed_tokens"):
            for name in ("weight", "base_layer.weight", "token_adapter.base_layer.weight"):
                if f"{module}.{name}" in tensors:
                    self.weights[f"{module}.weight"] = tensors[f"{module}.{name}"]
        self.put_token_rows(config["trainable_token_indices"], tensors)
        for name, a in tensors.items():
            module, kind = name.rsplit(".lora_", 1) if ".lora_" in name else (name, "")
            full_name = patterned[name].rsplit(".lora_", 1)[0]
            scale = weight * lora_scale(config, full_name, rank=len(a))
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
            if ".mlp." in module and target not in self.weights:
                self.merge_mixture(module, a, tensors, config, weight)
                continue
            update = scale * tensors[f"{module}.lora_B.weight"] @ a
            self.weights[target] = self.weights[target] + update
            if config["use_dora"]:
                length = (base[target] + update).norm(dim=1)
                gain = tensors[f"{module}.lora_magnitude_vector"] / length
                self.weights[target] = gain[:, None] * self.weights[target]

    def put_token_rows(self, indices, tensors):
        """Rows of the embedding and of lm_head, which has the embedding's where it is the same."""
        if indices is None:
            return
        by_module = indices if isinstance(indices, dict) else {"embed_tokens": indices}
        embedding = "model.embed_tokens"
        for name, tokens in by_module.items():
            module = embedding if name == "embed_tokens" else name
            rows = tensors[f"{module}.token_adapter.trainable_tokens_delta"]
            tied = module == embedding and self.config["tie_word_embeddings"] and "lm_head" not in by_module
            for target in (module, "lm_head") if tied else (module,):
                self.weights[f"{target}.weight"] = self.weights[f"{target}.weight"].index_copy(
                    0, torch.tensor(tokens), rows)

    def merge_mixture(self, module, a, tensors, config, weight):
        """Of a mixture as transformers 5 has it: all experts' parameters in one, whose ranks lie
        expert by expert in A and rank by rank in B; or of the router by another name."""
        b = tensors[f"{module}.lora_B.weight"]
        gpt_oss = self.config["model_type"] == "gpt_oss"
        mixtral = self.config["model_type"] == "mixtral"
        layer = module.split(".mlp.")[0]
        prefix = f"{layer}.block_sparse_moe" if mixtral else f"{layer}.mlp"
        if module.endswith(".gate"):
            scale = weight * lora_scale(config, f"{module}.weight", rank=len(a))
            self.weights[f"{prefix}.gate.weight"] = (
                self.weights[f"{prefix}.gate.weight"] + scale * b @ a)
            return
        gate, up, down = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
        # The outer of two is that of the parameter which comes last.
        both = f"{layer}.mlp.experts.base_layer.lora_A.weight" in tensors
        is_down = not module.endswith(".base_layer") if both else (
            any(name.endswith("down_proj") for name in config["target_parameters"]))
        parts = (down,) if is_down else (gate, up)
        parameter = "down_proj" if is_down else "gate_up_proj"
        experts = self.config.get("num_experts") or self.config["num_local_experts"]
        rank = len(a) // experts
        scale = weight * lora_scale(config, f"{layer}.mlp.experts.{parameter}", rank=rank)
        for expert in range(experts):
            update = scale * b[:, expert::experts] @ a[expert * rank:(expert + 1) * rank]
            if gpt_oss:  # whose parameters have a row for each input
                target = f"{layer}.mlp.experts.{parameter}"
                self.weights[target] = self.weights[target].clone()
                self.weights[target][expert] += update.T
                continue
            for part, rows in zip(parts, update.chunk(len(parts))):
                target = f"{prefix}.experts.{expert}.{part}.weight"
                self.weights[target] = self.weights[target] + rows

    @property
    def is_gemma(self):
        return self.config["model_type"].startswith("gemma")

    @property
    def is_qwen35(self):
        return self.config["model_type"].startswith("qwen3_5")

    def norm(self, x, module):
        """Gemma's files, and Qwen3.5's, hold what a weight differs from 1 by."""
        weight = self.weights[f"{module}.weight"]
        offset = self.is_gemma or self.is_qwen35
        return rms_norm(x, 1 + weight if offset else weight, self.config["rms_norm_eps"])

    def layer_type(self, layer):
        """"sliding_attention", "full_attention" or "linear_attention"."""
        types = self.config.get("layer_types")
        if types:
            return types[layer]
        return "sliding_attention" if self.config.get("sliding_window") else "full_attention"

    def rope(self, layer):
        parameters = self.config["rope_parameters"]
        return parameters.get(self.layer_type(layer), parameters)

    def has_rope(self, layer):
        """1, or 0: SmolLM3's name of the field says the opposite of its values."""
        return (self.config.get("no_rope_layers") or [1] * self.config["num_hidden_layers"])[layer]

    def project(self, x, module):
        bias = self.weights.get(f"{module}.bias", 0)
        y = x @ self.weights[f"{module}.weight"].T
        before = slice(self.num_uninvoked)
        if self.invocation:
            y[before] = x[before] @ self.uninvoked[f"{module}.weight"].T
        return y + bias

    def heads(self, x, module, norm, head_dim):
        """[tokens, heads, head_dim], normed as Qwen3 and Gemma 3 do where there is such a norm."""
        y = self.project(x, module).unflatten(-1, (-1, head_dim))
        return self.norm(y, norm) if f"{norm}.weight" in self.weights else y

    def attention(self, x, layer):
        config, count, prefix = self.config, len(x), f"model.layers.{layer}.self_attn"
        head_dim = config.get("head_dim") or (config["hidden_size"] //
                                              config["num_attention_heads"])
        rope = self.rope(layer)
        positions = torch.arange(count).double() * self.has_rope(layer)
        # Of each head the first dimensions, or all.
        rotated = int(head_dim * rope.get("partial_rotary_factor", 1))
        angles = positions[:, None] * inverse_frequencies(rope, rotated)
        factor = attention_factor(rope, config) if self.has_rope(layer) else 1
        rotate = functools.partial(rotate_part, angles=angles, factor=factor)
        gate = None
        if self.is_qwen35:  # behind each head of q
            q, gate = self.project(x, f"{prefix}.q_proj").unflatten(-1, (-1, 2, head_dim)).unbind(2)
            q = rotate(self.norm(q, f"{prefix}.q_norm"))
        else:
            q = rotate(self.heads(x, f"{prefix}.q_proj", f"{prefix}.q_norm", head_dim))
        k = rotate(self.heads(x, f"{prefix}.k_proj", f"{prefix}.k_norm", head_dim))
        v = self.heads(x, f"{prefix}.v_proj", "", head_dim)
        group = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        scale = config.get("attention_multiplier") or 1 / math.sqrt(
            config.get("query_pre_attn_scalar") or head_dim)
        scores = scale * torch.einsum("ihd,jhd->hij", q, k)
        scores = soft_cap(scores, config.get("attn_logit_softcapping"))
        sinks = self.weights.get(f"{prefix}.sinks")
        distance = torch.arange(count)[:, None] - torch.arange(count)[None]
        has_window = self.layer_type(layer) == "sliding_attention"
        window = config.get("sliding_window") if has_window else None
        window = window or count
        scores = scores.masked_fill((distance < 0) | (distance >= window), -math.inf)
        shares = scores.exp()
        total = shares.sum(-1, keepdim=True)
        if sinks is not None:  # which take a share, and give nothing
            total = total + sinks[:, None, None].exp()
        mixed = torch.einsum("hij,jhd->ihd", shares / total, v)
        mixed = mixed if gate is None else mixed * gate.sigmoid()
        return self.project(mixed.flatten(1), f"{prefix}.o_proj")

    def linear_attention(self, x, layer):
        """The gated delta rule, token by token (Yang et al. 2024, equation 10)."""
        config, prefix = self.config, f"model.layers.{layer}.linear_attn"
        keys, values = config["linear_num_key_heads"], config["linear_num_value_heads"]
        widths = config["linear_key_head_dim"], config["linear_value_head_dim"]
        kernel = self.weights[f"{prefix}.conv1d.weight"][:, 0]
        size = kernel.shape[1]
        seen = torch.cat([torch.zeros(size - 1, len(kernel)).double(),
                          self.project(x, f"{prefix}.in_proj_qkv")])
        mixed = sum(kernel[:, i] * seen[i:i + len(x)] for i in range(size))
        mixed = mixed * mixed.sigmoid()
        q, k, v = mixed.split([keys * widths[0], keys * widths[0], values * widths[1]], -1)
        unit = lambda y: y / (y.square().sum(-1, keepdim=True) + 1e-6).sqrt()
        of_value_heads = lambda y: unit(y.unflatten(-1, (keys, -1))).repeat_interleave(
            values // keys, 1)
        q, k = of_value_heads(q) / math.sqrt(widths[0]), of_value_heads(k)
        v = v.unflatten(-1, (values, -1))
        beta = self.project(x, f"{prefix}.in_proj_b").sigmoid()
        step = self.project(x, f"{prefix}.in_proj_a") + self.weights[f"{prefix}.dt_bias"]
        kept = (-self.weights[f"{prefix}.A_log"].exp() * (1 + step.exp()).log()).exp()
        state = torch.zeros(values, *widths).double()
        read = []
        for t in range(len(x)):
            state = kept[t][:, None, None] * state
            change = beta[t][:, None] * (v[t] - torch.einsum("hkv,hk->hv", state, k[t]))
            state = state + torch.einsum("hk,hv->hkv", k[t], change)
            read.append(torch.einsum("hkv,hk->hv", state, q[t]))
        weight = self.weights[f"{prefix}.norm.weight"]
        z = self.project(x, f"{prefix}.in_proj_z").unflatten(-1, (values, -1))
        y = rms_norm(torch.stack(read), weight, config["rms_norm_eps"]) * z * z.sigmoid()
        return self.project(y.flatten(1), f"{prefix}.out_proj")

    def mlp(self, x, prefix):
        gate = self.project(x, f"{prefix}.gate_proj")
        activated = gelu_tanh(gate) if self.is_gemma else gate * gate.sigmoid()
        return self.project(activated * self.project(x, f"{prefix}.up_proj"),
                            f"{prefix}.down_proj")

    def mixture(self, x, prefix):
        """Of Qwen3-MoE; and Mixtral's, by other names, whose weights always add up to 1."""
        config, mixtral = self.config, self.config["model_type"] == "mixtral"
        prefix = prefix.replace("mlp", "block_sparse_moe") if mixtral else prefix
        gate, up, down = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
        scores = x @ self.weights[f"{prefix}.gate.weight"].T
        count = config["num_experts_per_tok"]
        ranked = scores.sort(-1, descending=True)
        self.router_gaps[prefix] = ranked.values[:, count - 1] - ranked.values[:, count]
        y = torch.zeros_like(x)
        for token, experts in enumerate(ranked.indices[:, :count].tolist()):
            shares = scores[token].exp() / scores[token].exp().sum()
            if mixtral or config["norm_topk_prob"]:
                shares = shares / shares[experts].sum()
            for expert in experts:
                weight = lambda name: self.weights[f"{prefix}.experts.{expert}.{name}.weight"]
                gated = weight(gate) @ x[token]
                gated = gated * gated.sigmoid() * (weight(up) @ x[token])
                y[token] += shares[expert] * (weight(down) @ gated)
        return y

    def turned_mixture(self, x, prefix):
        """gpt-oss': experts' weights [experts, in, out], with gate and up in turns, and biases."""
        config, experts = self.config, f"{prefix}.experts"
        scores = self.project(x, f"{prefix}.router")
        count = config["num_experts_per_tok"]
        ranked = scores.sort(-1, descending=True)
        self.router_gaps[prefix] = ranked.values[:, count - 1] - ranked.values[:, count]
        y = torch.zeros_like(x)
        for token, chosen in enumerate(ranked.indices[:, :count].tolist()):
            shares = scores[token, chosen].exp()
            for expert, share in zip(chosen, shares / shares.sum()):
                apply = lambda x, name: (x @ self.weights[f"{experts}.{name}"][expert] +
                                         self.weights[f"{experts}.{name}_bias"][expert])
                gate, up = apply(x[token], "gate_up_proj").unflatten(0, (-1, 2)).unbind(1)
                gate = gate.clamp(max=config["swiglu_limit"])
                up = up.clamp(-config["swiglu_limit"], config["swiglu_limit"])
                gated = gate * (config["swiglu_alpha"] * gate).sigmoid() * (up + 1)
                y[token] += share * apply(gated, "down_proj")
        return y

    def layer(self, x, layer):
        prefix = f"model.layers.{layer}"
        # Where there are four norms, two of them are of what is added.
        normed = lambda y, name: self.norm(y, f"{prefix}.{name}_layernorm")
        sandwich = f"{prefix}.pre_feedforward_layernorm.weight" in self.weights
        share = self.config.get("residual_multiplier", 1)
        is_linear = self.layer_type(layer) == "linear_attention"
        attend = self.linear_attention if is_linear else self.attention
        attended = attend(normed(x, "input"), layer)
        x = x + share * (normed(attended, "post_attention") if sandwich else attended)
        mlp = self.mixture if "num_experts_per_tok" in self.config else self.mlp
        mlp = self.turned_mixture if self.config["model_type"] == "gpt_oss" else mlp
        changed = mlp(normed(x, "pre_feedforward" if sandwich else "post_attention"),
                      f"{prefix}.mlp")
        return x + share * (normed(changed, "post_feedforward") if sandwich else changed)

    def logits(self, tokens):
        """[len(tokens), vocab_size], float64."""
        size = len(self.invocation)
        matches = [start for start in range(len(tokens)) if self.invocation and
                   tokens[start:start + size] == self.invocation]
        self.num_uninvoked = max(matches, default=len(tokens))
        x = self.weights["model.embed_tokens.weight"][tokens]
        if self.is_gemma:
            x = x * math.sqrt(self.config["hidden_size"])
        x = x * self.config.get("embedding_multiplier", 1)
        for layer in range(self.config["num_hidden_layers"]):
            x = self.layer(x, layer)
        logits = self.project(self.norm(x, "model.norm"), "lm_head")
        return soft_cap(logits, self.config.get("final_logit_softcapping")) / self.config.get(
            "logits_scaling", 1)
