"""The LoRA adapters of the fidelity goldens, made with the peft library."""

import dataclasses
import math
import re

import peft
import torch
from safetensors.torch import load_file, save_file

from checkpoints import generator

DELTA = ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj")
ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
ALL_LINEAR = ATTENTION + ("gate_proj", "up_proj", "down_proj")
# Of Phi-3.
ALL_FUSED = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj")


@dataclasses.dataclass(frozen=True)
class Adapter:
    """One adapter: what its adapter_config.json says, and the dtype of its file."""

    name: str
    rank: int
    alpha: float
    targets: tuple | str  # names, or a regular expression
    dtype: torch.dtype = torch.float32
    rslora: bool = False
    task: str = "CAUSAL_LM"
    # More of LoraConfig: rank_pattern, exclude_modules, use_dora, modules_to_save, …
    more: dict = dataclasses.field(default_factory=dict)
    # Write the matrices that lm_head and the embedding have beneath their adapters, as peft does
    # by default where it finds them among the targets.
    save_embedding_layers: bool = False
    # Trained with that many tokens: the model's vocabulary was resized before.
    vocab_size: int | None = None
    # As before transformers 5, where each expert has modules of its own: peft reads such a file,
    # and does not write one any more.
    expert_modules: bool = False


# Every model has all seven projections, a strict subset, rsLoRA and a scale that is
# not 1 among them. Ranks that are no multiple of any vector width (1, 3, 33) are there on purpose.
ADAPTERS = {
    "llama-f32-sharded": (
        Adapter("all-r4", 4, 8, ALL_LINEAR),
        Adapter("qv-r64-bf16", 64, 16, ("q_proj", "v_proj"), torch.bfloat16),
        Adapter("down-r1", 1, 2, ("down_proj",)),
        Adapter("all-r8-rslora-f16", 8, 4, ALL_LINEAR, torch.float16, rslora=True),
        Adapter("head-embedding-r6", 6, 9, ("lm_head", "embed_tokens", "v_proj"),
                save_embedding_layers=True),
        Adapter("saved-r2", 2, 4, ("q_proj", "o_proj"),
                more={"modules_to_save": ["lm_head", "embed_tokens"]}),
        Adapter("dora-head-r3", 3, 6, ("lm_head", "v_proj"), more={"use_dora": True}),
        Adapter("dora-embedding-r5", 5, 7, ("embed_tokens", "k_proj"), more={"use_dora": True}),
        Adapter("added-r4", 4, 8, ATTENTION, vocab_size=175),
        Adapter("added-saved-r3", 3, 6, ("v_proj", "down_proj"), vocab_size=173,
                more={"modules_to_save": ["lm_head", "embed_tokens"]}),
        Adapter("activated-head-r4", 4, 8, ("lm_head", "v_proj", "down_proj"),
                more={"alora_invocation_tokens": [150]}),
    ),
    "llama3-rope-bf16": (
        Adapter("all-r8-bf16", 8, 16, ALL_LINEAR, torch.bfloat16),
        Adapter("qv-r16-rslora", 16, 8, ("q_proj", "v_proj"), rslora=True),
        Adapter("down-r33-f16", 33, 11, ("down_proj",), torch.float16),
        Adapter("dora-r5-bf16", 5, 7, ALL_LINEAR, torch.bfloat16, more={"use_dora": True}),
        Adapter("saved-head-r4", 4, 8, ("v_proj",), more={"modules_to_save": ["lm_head"]}),
        Adapter("tokens-of-head-r4-bf16", 4, 8, ALL_LINEAR, torch.bfloat16,
                more={"trainable_token_indices": {"lm_head": [0, 11, 80, 159]}}),
        Adapter("added-r4-bf16", 4, 8, ALL_LINEAR, torch.bfloat16, vocab_size=163),
    ),
    "llama-linear-rope-f16": (
        Adapter("all-r3-f16", 3, 5, ALL_LINEAR, torch.float16),
        Adapter("attention-r8-rslora", 8, 6, ATTENTION, rslora=True),
        Adapter("gate-up-r1-bf16", 1, 4, ("gate_proj", "up_proj"), torch.bfloat16),
    ),
    "mistral-f32": (
        Adapter("all-r8", 8, 12, ALL_LINEAR),
        Adapter("qv-r33-f16", 33, 16, ("q_proj", "v_proj"), torch.float16),
        Adapter("down-r4-rslora", 4, 3, ("down_proj",), rslora=True),
        Adapter("patterns-r6", 6, 9, ALL_LINEAR, more={
            "rank_pattern": {"q_proj": 3, "layers.1.mlp.up_proj": 16},
            "alpha_pattern": {"v_proj": 18, r"layers\.0\.mlp\.\w+": 5},
            "exclude_modules": ["1.self_attn.k_proj", "gate_proj"]}),
        Adapter("one-layer-r4", 4, 8, ATTENTION, more={"layers_to_transform": [1]}),
    ),
    "qwen2-f32": (
        Adapter("all-r16-f16", 16, 8, ALL_LINEAR, torch.float16),
        Adapter("qv-r1", 1, 1.5, ("q_proj", "v_proj")),
        Adapter("k-o-r64-rslora-bf16", 64, 16, ("k_proj", "o_proj"), torch.bfloat16, rslora=True),
        Adapter("dora-r8-rslora", 8, 6, ALL_LINEAR, rslora=True, more={"use_dora": True}),
        Adapter("embedding-r4", 4, 8, ("embed_tokens", "q_proj")),
        Adapter("dora-embedding-r4-bf16", 4, 8, ("embed_tokens", "v_proj"), torch.bfloat16,
                more={"use_dora": True}),
        Adapter("dora-tokens-r4", 4, 6, ("q_proj", "down_proj"),
                more={"use_dora": True, "trainable_token_indices": list(range(5, 150, 12))}),
        Adapter("removed-r4", 4, 6, ALL_LINEAR, vocab_size=147),
    ),
    "qwen2-bf16": (
        Adapter("all-r4-rslora-bf16", 4, 3, ALL_LINEAR, torch.bfloat16, rslora=True),
        Adapter("qkv-r33-f16", 33, 20, ("q_proj", "k_proj", "v_proj"), torch.float16),
        Adapter("down-r8", 8, 32, ("down_proj",)),
    ),
    "qwen3-f32": (
        Adapter("all-r4-bf16", 4, 6, ALL_LINEAR, torch.bfloat16),
        Adapter("qv-r16", 16, 4, ("q_proj", "v_proj")),
        Adapter("down-r64-rslora-f16", 64, 24, ("down_proj",), torch.float16, rslora=True),
        Adapter("activated-r4", 4, 6, ALL_LINEAR, more={"alora_invocation_tokens": [7, 7, 9]}),
    ),
    "qwen3-window-f32": (
        Adapter("all-r5", 5, 7, ALL_LINEAR),
    ),
    "gemma-bf16": (
        Adapter("all-r8-bf16", 8, 12, ALL_LINEAR, torch.bfloat16),
        Adapter("embedding-r3", 3, 6, ("embed_tokens", "v_proj")),
        Adapter("dora-r4", 4, 6, ALL_LINEAR, more={"use_dora": True}),
    ),
    "gemma2-f32": (
        Adapter("all-r8", 8, 12, ALL_LINEAR),
        Adapter("qv-r16-rslora-f16", 16, 8, ("q_proj", "v_proj"), torch.float16, rslora=True),
        Adapter("saved-r2", 2, 4, ("q_proj", "o_proj"),
                more={"modules_to_save": ["lm_head", "embed_tokens"]}),
        Adapter("head-r4", 4, 8, ("lm_head", "v_proj")),
    ),
    "gemma3-f32": (
        Adapter("all-r4-bf16", 4, 6, ALL_LINEAR, torch.bfloat16),
        Adapter("down-r33", 33, 20, ("down_proj",)),
        Adapter("dora-embedding-r6", 6, 9, ("embed_tokens", "v_proj"), more={"use_dora": True}),
        # Out of order, as they stand in the file.
        Adapter("tokens-r4", 4, 6, ALL_LINEAR,
                more={"trainable_token_indices": [149, 3, 17, 42, 64, 0, 99, 100, 120]}),
        Adapter("added-tokens-r4", 4, 6, ATTENTION, vocab_size=153,
                more={"trainable_token_indices": [3, 150, 152]}),
    ),
    # The names are those of what sees, too: there the adapters do nothing here.
    "gemma3-vision-f32": (
        Adapter("all-r4", 4, 6, ALL_LINEAR),
        Adapter("saved-r3", 3, 6, ("q_proj", "fc1"),
                more={"modules_to_save": ["lm_head", "embed_tokens", "multi_modal_projector"]}),
        Adapter("dora-head-r5", 5, 7, ("lm_head", "down_proj"), more={"use_dora": True}),
        Adapter("patterns-r6", 6, 9, r".*language_model.*\.(q_proj|v_proj|up_proj)", more={
            "rank_pattern": {"model.language_model.layers.1.mlp.up_proj": 3}}),
    ),
    "mistral3-vision-bf16": (
        Adapter("all-r8-bf16", 8, 12, ALL_LINEAR, torch.bfloat16),
    ),
    "phi3-f32": (
        Adapter("all-r4", 4, 6, ALL_FUSED),
        Adapter("qkv-r16-rslora-f16", 16, 8, ("qkv_proj",), torch.float16, rslora=True),
        Adapter("dora-r5", 5, 7, ALL_FUSED, more={"use_dora": True}),
        Adapter("patterns-r6", 6, 9, ("qkv_proj", "gate_up_proj"), more={
            "rank_pattern": {"layers.1.self_attn.qkv_proj": 3},
            "alpha_pattern": {"gate_up_proj": 4}}),
    ),
    "phi3-partial-bf16": (
        Adapter("all-r8-bf16", 8, 12, ALL_FUSED, torch.bfloat16),
    ),
    "qwen2-yarn-bf16": (
        Adapter("all-r8-bf16", 8, 12, ALL_LINEAR, torch.bfloat16),
    ),
    "granite-bf16": (
        Adapter("all-r8-bf16", 8, 12, ALL_LINEAR, torch.bfloat16),
        Adapter("head-embedding-r6", 6, 9, ("lm_head", "embed_tokens", "v_proj")),
        Adapter("saved-r2", 2, 4, ("q_proj", "down_proj"),
                more={"modules_to_save": ["lm_head", "embed_tokens"]}),
        Adapter("dora-head-r3", 3, 6, ("lm_head", "o_proj"), more={"use_dora": True}),
        Adapter("added-head-embedding-r4", 4, 6, ("lm_head", "embed_tokens", "q_proj"),
                vocab_size=150),
        Adapter("tokens-r3", 3, 4, ATTENTION, more={"trainable_token_indices": {
            "embed_tokens": [1, 20, 45, 60, 77, 90, 138], "lm_head": [2, 20, 100]}}),
        Adapter("activated-r8-bf16", 8, 12, ATTENTION, torch.bfloat16,
                more={"alora_invocation_tokens": [30, 31]}),
    ),
    "smollm3-f32": (
        Adapter("all-r4", 4, 6, ALL_LINEAR),
    ),
    "qwen3-moe-f32": (
        Adapter("attention-r4", 4, 6, ATTENTION),
        Adapter("qv-r16-rslora-f16", 16, 8, ("q_proj", "v_proj"), torch.float16, rslora=True),
        Adapter("dora-head-r3", 3, 6, ("lm_head", "v_proj"), more={"use_dora": True}),
        Adapter("all-r4", 4, 6, "all-linear"),
        Adapter("experts-r3-rslora-bf16", 3, 2, ("gate_proj", "up_proj", "down_proj"),
                torch.bfloat16, rslora=True),
        Adapter("down-r5-f16", 5, 4, ("k_proj", "down_proj"), torch.float16),
        Adapter("modules-r4", 4, 6, (*ALL_LINEAR, "gate"), expert_modules=True),
    ),
    "mixtral-bf16": (
        Adapter("attention-r8-bf16", 8, 12, ATTENTION, torch.bfloat16),
        Adapter("all-r4-bf16", 4, 6, "all-linear", torch.bfloat16),
        Adapter("modules-r6-bf16", 6, 9, ("v_proj", "w1", "w2", "w3"), torch.bfloat16,
                expert_modules=True),
    ),
    "gpt-oss-f32": (
        Adapter("attention-r4", 4, 6, ATTENTION),
        # As in the recipe of those who published the model: experts of some layers.
        Adapter("all-r4-bf16", 4, 6, "all-linear", torch.bfloat16, more={"target_parameters": [
            "0.mlp.experts.gate_up_proj", "0.mlp.experts.down_proj",
            "1.mlp.experts.down_proj"]}),
        Adapter("experts-r3-rslora-f16", 3, 2, (), torch.float16, rslora=True,
                more={"target_parameters": ["mlp.experts.gate_up_proj", "mlp.router.weight"]}),
        Adapter("dora-r5", 5, 7, ATTENTION, more={"use_dora": True}),
    ),
    "qwen35-f32": (
        Adapter("all-r4", 4, 6, "all-linear"),
        Adapter("delta-r16-rslora-f16", 16, 8, DELTA, torch.float16, rslora=True),
        Adapter("gates-r3-bf16", 3, 5, ("in_proj_a", "in_proj_b", "up_proj", "down_proj"),
                torch.bfloat16),
        Adapter("dora-r5", 5, 7, "all-linear", more={"use_dora": True}),
        Adapter("activated-r4", 4, 6, (*DELTA, *ATTENTION),
                more={"alora_invocation_tokens": [7, 7, 9]}),
    ),
    "qwen35-vision-bf16": (
        Adapter("all-r8-bf16", 8, 12, (*DELTA, *ALL_LINEAR), torch.bfloat16),
    ),
}


# Several adapters on one request, with weights, in the order in which they apply.
MIXES = {
    "llama-f32-sharded": (
        (("all-r4", 0.5), ("down-r1", -1.25)),
        (("saved-r2", 1), ("all-r4", 0.75)),
    ),
    "mistral-f32": (
        (("all-r8", 0.6),),
        (("patterns-r6", 1), ("qv-r33-f16", 0.4), ("one-layer-r4", -1)),
    ),
    # In both orders: a gain applies to what was added before it.
    "qwen2-f32": (
        (("dora-r8-rslora", 1), ("qv-r1", 2)),
        (("qv-r1", 2), ("dora-r8-rslora", 1)),
    ),
    "qwen3-moe-f32": (
        (("down-r5-f16", 0.75), ("attention-r4", -0.5)),
    ),
    "gpt-oss-f32": (
        (("attention-r4", 0.5), ("dora-r5", 1)),
    ),
    "qwen35-f32": (
        (("delta-r16-rslora-f16", 0.5), ("dora-r5", 1)),
    ),
}


def fill(named_parameters, adapter, seed_name):
    """Draws A and B such that s·B·A is as large as a weight matrix of gain 0.8 (1.6 where attention
    is left alone, whose changes weigh more): PEFT's own B of zeros would prove nothing. DoRA's
    lengths become others than the weights have, and saved modules and rows of tokens others than the
    base's."""
    of_attention = set(adapter.targets) & {*ATTENTION, "in_proj_qkv", "qkv_proj"} or adapter.targets == "all-linear"
    gain = 0.8 if of_attention else 1.6
    scale = adapter.alpha / (math.sqrt(adapter.rank) if adapter.rslora else adapter.rank)
    for name, parameter in named_parameters:
        if not any(part in name for part in ("lora_", "modules_to_save", "trainable_tokens_delta")):
            continue
        noise = torch.randn(parameter.shape, generator=generator(seed_name, adapter.name, name),
                            dtype=torch.float64)
        if "lora_" not in name:
            parameter.data = (parameter.data.double() * (1 + 0.3 * noise)).to(adapter.dtype)
            continue
        if "lora_magnitude_vector" in name:
            parameter.data = (parameter.data.double() * (1 + 0.2 * noise)).to(adapter.dtype)
            continue
        if "lora_embedding_A" in name:  # [rank, vocab], of which a token reads one column
            spread = 1
        elif "lora_embedding_B" in name:  # [hidden, rank]
            spread = 0.3 / (scale * math.sqrt(adapter.rank))
        elif "lora_A" in name:  # [rank, in]
            spread = 1 / math.sqrt(parameter.shape[1])
        else:  # [out, rank]
            spread = gain / (scale * math.sqrt(adapter.rank))
        parameter.data = (noise * spread).to(adapter.dtype)


def save_expert_modules(config, adapter, seed_name, path):
    """Writes the adapter's folder for the base model that lies above it, whose files have the names
    of transformers 4."""
    parameters = {}
    for file in sorted(path.parents[1].glob("model*.safetensors")):
        for name, weight in load_file(file).items():
            module = name.removesuffix(".weight")
            if module.split(".")[-1] not in adapter.targets:
                continue
            rows, cols = weight.shape
            for kind, shape in (("A", (adapter.rank, cols)), ("B", (rows, adapter.rank))):
                parameters[f"base_model.model.{module}.lora_{kind}.weight"] = torch.nn.Parameter(
                    torch.empty(shape), requires_grad=False)
    fill(parameters.items(), adapter, seed_name)
    config.save_pretrained(path)
    save_file({name: parameter.data for name, parameter in parameters.items()},
              path / "adapter_model.safetensors")


def resize(base, adapter, seed_name):
    """Gives the model the adapter's vocabulary. New rows are as large as the others."""
    if adapter.vocab_size is None:
        return
    before = base.get_input_embeddings().num_embeddings
    base.resize_token_embeddings(adapter.vocab_size, mean_resizing=False)
    for name, module in (("embedding", base.get_input_embeddings()),
                         ("lm_head", base.get_output_embeddings())):
        rows = module.weight.data[before:]
        noise = torch.randn(rows.shape, generator=generator(seed_name, adapter.name, name),
                            dtype=torch.float64)
        rows.copy_(noise * module.weight.data[:before].double().std())


def vocab_size(directory):
    """That of a saved adapter whose model's vocabulary was resized; else of its whole matrices, or
    None without any."""
    for name, tensor in load_file(directory / "adapter_model.safetensors").items():
        if re.search(r"\.(embed_tokens|lm_head)(\.(token_adapter\.)?base_layer)?\.weight$", name):
            return len(tensor)
    return None


def save(base, adapter, seed_name, path):
    """Writes the adapter's folder with peft. Wraps `base`, which is useless afterwards."""
    resize(base, adapter, seed_name)
    base.name_or_path = f"goldens/{seed_name}"
    is_pattern = isinstance(adapter.targets, str)
    targets = adapter.targets if is_pattern else list(adapter.targets)
    config = peft.LoraConfig(r=adapter.rank, lora_alpha=adapter.alpha,
                             target_modules=targets, use_rslora=adapter.rslora,
                             task_type=adapter.task, **adapter.more)
    if adapter.expert_modules:
        save_expert_modules(config, adapter, seed_name, path)
        return
    model = peft.get_peft_model(base, config)
    fill(model.named_parameters(), adapter, seed_name)
    # Said, because by default peft looks on the network whether the vocabulary was changed.
    save_embeddings = adapter.save_embedding_layers or adapter.vocab_size is not None
    model.save_pretrained(path, save_embedding_layers=save_embeddings)
    (path / "README.md").unlink()  # peft's empty model card
