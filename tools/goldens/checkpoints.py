"""The tiny random base models of the fidelity goldens: their shapes and their weights.

Dimensions are awkward on purpose (few are multiples of 64, intermediate sizes of none of 32), and
small, because the files are committed.
"""

import dataclasses
import math
import re
import zlib

import torch
import transformers


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """One base model: a transformers configuration and how its file is written."""

    name: str
    # "Llama", …: of transformers' <architecture>ForCausalLM, or where it also sees
    # <architecture>ForConditionalGeneration.
    architecture: str
    config: dict
    dtype: torch.dtype = torch.float32
    max_shard_size: str = "50GB"

    @property
    def sees(self):
        return "vision_config" in self.config

    @property
    def vocab_size(self):
        return self.config.get("text_config", self.config)["vocab_size"]


CHECKPOINTS = (
    # Grouped queries, an output matrix of its own, several shards.
    Checkpoint(
        "llama-f32-sharded",
        "Llama",
        dict(hidden_size=64, intermediate_size=100, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, vocab_size=171, max_position_embeddings=256),
        max_shard_size="120KB",
    ),
    # Tied embeddings; frequencies on all three branches of Llama 3's scaling.
    Checkpoint(
        "llama3-rope-bf16",
        "Llama",
        dict(hidden_size=96, intermediate_size=108, num_hidden_layers=2, num_attention_heads=6,
             num_key_value_heads=2, vocab_size=160, max_position_embeddings=512,
             tie_word_embeddings=True, rms_norm_eps=1e-5,
             rope_parameters=dict(rope_type="llama3", rope_theta=500.0, factor=8.0,
                                  low_freq_factor=1.0, high_freq_factor=4.0,
                                  original_max_position_embeddings=64)),
        dtype=torch.bfloat16,
    ),
    Checkpoint(
        "llama-linear-rope-f16",
        "Llama",
        dict(hidden_size=48, intermediate_size=100, num_hidden_layers=3, num_attention_heads=3,
             num_key_value_heads=1, vocab_size=130, max_position_embeddings=256,
             tie_word_embeddings=True,
             rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=4.0)),
        dtype=torch.float16,
    ),
    # A window that all but the two shortest prompts exceed.
    Checkpoint(
        "mistral-f32",
        "Mistral",
        dict(hidden_size=64, intermediate_size=84, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=1, vocab_size=127, max_position_embeddings=256,
             sliding_window=16),
    ),
    # Biases on q, k and v.
    Checkpoint(
        "qwen2-f32",
        "Qwen2",
        dict(hidden_size=48, intermediate_size=84, num_hidden_layers=2, num_attention_heads=3,
             num_key_value_heads=1, vocab_size=150, max_position_embeddings=256,
             tie_word_embeddings=True),
    ),
    Checkpoint(
        "qwen2-bf16",
        "Qwen2",
        dict(hidden_size=64, intermediate_size=136, num_hidden_layers=2, num_attention_heads=2,
             num_key_value_heads=1, vocab_size=190, max_position_embeddings=256,
             rope_parameters=dict(rope_type="default", rope_theta=1000000.0),
             tie_word_embeddings=True),
        dtype=torch.bfloat16,
    ),
    # Norms on q and k; heads whose widths do not add up to hidden_size.
    Checkpoint(
        "qwen3-f32",
        "Qwen3",
        dict(hidden_size=48, intermediate_size=76, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=32, vocab_size=129, max_position_embeddings=256,
             tie_word_embeddings=True),
    ),
    # Windows from a layer on, as no published Qwen has them, but fine-tunes' files might.
    Checkpoint(
        "qwen3-window-f32",
        "Qwen3",
        dict(hidden_size=48, intermediate_size=76, num_hidden_layers=2, num_attention_heads=2,
             num_key_value_heads=1, head_dim=16, vocab_size=121, max_position_embeddings=256,
             tie_word_embeddings=True, use_sliding_window=True, sliding_window=16,
             max_window_layers=1),
    ),
    # Scaled embeddings, norms by 1 + w, GELU.
    Checkpoint(
        "gemma-bf16",
        "Gemma",
        dict(hidden_size=48, intermediate_size=100, num_hidden_layers=2, num_attention_heads=2,
             num_key_value_heads=1, head_dim=32, vocab_size=140, max_position_embeddings=256),
        dtype=torch.bfloat16,
    ),
    # Also norms of outputs, caps that most scores and logits meet, scores scaled by another number
    # than heads have, windows on every other layer.
    Checkpoint(
        "gemma2-f32",
        "Gemma2",
        dict(hidden_size=64, intermediate_size=108, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, head_dim=24, vocab_size=133, max_position_embeddings=256,
             sliding_window=16, query_pre_attn_scalar=3, attn_logit_softcapping=5.0,
             final_logit_softcapping=4.0),
    ),
    # Norms on q and k, and a RoPE for each kind of layer.
    Checkpoint(
        "gemma3-f32",
        "Gemma3",
        dict(hidden_size=48, intermediate_size=92, num_hidden_layers=3, num_attention_heads=3,
             num_key_value_heads=1, head_dim=32, vocab_size=150, max_position_embeddings=256,
             sliding_window=16, query_pre_attn_scalar=6,
             layer_types=["sliding_attention", "full_attention", "sliding_attention"],
             rope_parameters=dict(
                 full_attention=dict(rope_type="linear", rope_theta=100000.0, factor=4.0),
                 sliding_attention=dict(rope_type="default", rope_theta=100.0))),
    ),
    # The same inside of a model that also sees, with an output matrix of its own.
    Checkpoint(
        "gemma3-vision-f32",
        "Gemma3",
        dict(text_config=dict(
                 hidden_size=48, intermediate_size=92, num_hidden_layers=2, num_attention_heads=3,
                 num_key_value_heads=1, head_dim=16, vocab_size=143, max_position_embeddings=256,
                 sliding_window=16, query_pre_attn_scalar=6, tie_word_embeddings=False,
                 layer_types=["sliding_attention", "full_attention"],
                 rope_parameters=dict(
                     full_attention=dict(rope_type="linear", rope_theta=100000.0, factor=4.0),
                     sliding_attention=dict(rope_type="default", rope_theta=100.0))),
             vision_config=dict(hidden_size=16, intermediate_size=20, num_hidden_layers=1,
                                num_attention_heads=2, image_size=28, patch_size=14),
             mm_tokens_per_image=4, image_token_index=142, tie_word_embeddings=False),
    ),
    # Another one that sees; its text model is Mistral's.
    Checkpoint(
        "mistral3-vision-bf16",
        "Mistral3",
        dict(text_config=dict(
                 model_type="mistral", hidden_size=48, intermediate_size=76, num_hidden_layers=2,
                 num_attention_heads=3, num_key_value_heads=1, head_dim=24, vocab_size=131,
                 max_position_embeddings=256, sliding_window=None, tie_word_embeddings=False),
             vision_config=dict(model_type="pixtral", hidden_size=16, intermediate_size=20,
                                num_hidden_layers=1, num_attention_heads=2, head_dim=8,
                                image_size=28, patch_size=14),
             image_token_index=10, tie_word_embeddings=False),
        dtype=torch.bfloat16,
    ),
    # Two modules that are several projections; LongRoPE's wavelengths, and its factor on queries
    # and keys.
    Checkpoint(
        "phi3-f32",
        "Phi3",
        dict(hidden_size=48, intermediate_size=76, num_hidden_layers=2, num_attention_heads=3,
             num_key_value_heads=1, vocab_size=137, max_position_embeddings=512,
             original_max_position_embeddings=128, sliding_window=50, pad_token_id=0,
             rope_parameters=dict(rope_type="longrope", rope_theta=500.0,
                                  short_factor=[1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 4.5],
                                  long_factor=[1.0, 2.0, 4.0, 8.0, 8.0, 16.0, 16.0, 32.0])),
    ),
    # Three quarters of each head rotated.
    Checkpoint(
        "phi3-partial-bf16",
        "Phi3",
        dict(hidden_size=64, intermediate_size=92, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, vocab_size=140, max_position_embeddings=256,
             original_max_position_embeddings=128, tie_word_embeddings=True, pad_token_id=0,
             rope_parameters=dict(rope_type="longrope", rope_theta=500.0,
                                  partial_rotary_factor=0.75,
                                  short_factor=[1.0, 1.25, 1.5, 2.0, 2.5, 3.0],
                                  long_factor=[1.0, 2.0, 4.0, 8.0, 8.0, 16.0])),
        dtype=torch.bfloat16,
    ),
    # Frequencies on all three branches of YaRN, and its factor on queries and keys.
    Checkpoint(
        "qwen2-yarn-bf16",
        "Qwen2",
        dict(hidden_size=64, intermediate_size=92, num_hidden_layers=2, num_attention_heads=2,
             num_key_value_heads=1, vocab_size=150, max_position_embeddings=64,
             tie_word_embeddings=True,
             rope_parameters=dict(rope_type="yarn", rope_theta=1000.0, factor=4.0, beta_fast=8.0,
                                  beta_slow=1.0, original_max_position_embeddings=64)),
        dtype=torch.bfloat16,
    ),
    # Four multipliers that are no powers of two, norms whose eps matters (as it is not beside that of
    # a stream that one of them divides), and an output matrix of its own.
    Checkpoint(
        "granite-bf16",
        "Granite",
        dict(hidden_size=64, intermediate_size=92, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, vocab_size=139, max_position_embeddings=256,
             embedding_multiplier=1.3, residual_multiplier=0.7, attention_multiplier=0.45,
             logits_scaling=0.6, rms_norm_eps=0.8),
        dtype=torch.bfloat16,
    ),
    # A layer without RoPE, which has nothing of YaRN's either, among those that have it.
    Checkpoint(
        "smollm3-f32",
        "SmolLM3",
        dict(hidden_size=48, intermediate_size=76, num_hidden_layers=3, num_attention_heads=3,
             num_key_value_heads=1, vocab_size=127, max_position_embeddings=256,
             tie_word_embeddings=True, no_rope_layers=[1, 0, 1], pad_token_id=0,
             bos_token_id=1, eos_token_id=2,
             rope_parameters=dict(rope_type="yarn", rope_theta=1000.0, factor=4.0, beta_fast=8.0,
                                  beta_slow=1.0, original_max_position_embeddings=64)),
    ),
    # Experts; their weights are probabilities among all, and do not add up to 1.
    Checkpoint(
        "qwen3-moe-f32",
        "Qwen3Moe",
        dict(hidden_size=48, moe_intermediate_size=28, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=16, vocab_size=131, max_position_embeddings=256,
             num_experts=7, num_experts_per_tok=3),
    ),
    # Their weights add up to 1; other names.
    Checkpoint(
        "mixtral-bf16",
        "Mixtral",
        dict(hidden_size=48, intermediate_size=44, num_hidden_layers=2, num_attention_heads=3,
             num_key_value_heads=1, vocab_size=126, max_position_embeddings=256,
             num_local_experts=5, num_experts_per_tok=2),
        dtype=torch.bfloat16,
    ),
    # Experts in one tensor that is turned, with gate and up in turns, and biases; scores of heads'
    # own, YaRN whose bounds are not rounded, windows on every other layer.
    Checkpoint(
        "gpt-oss-f32",
        "GptOss",
        dict(hidden_size=48, intermediate_size=44, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=16, vocab_size=131, max_position_embeddings=256,
             num_local_experts=6, num_experts_per_tok=3, sliding_window=16,
             rope_parameters=dict(rope_type="yarn", rope_theta=1000.0, factor=4.0, beta_fast=8.0,
                                  beta_slow=1.0, truncate=False,
                                  original_max_position_embeddings=64)),
    ),
    # Linear attention, whose keys and values differ in number and width; in the other layer a gate
    # for each query, and a quarter of each head rotated.
    Checkpoint(
        "qwen35-f32",
        "Qwen3_5",
        dict(hidden_size=48, intermediate_size=76, num_hidden_layers=3, num_attention_heads=3,
             num_key_value_heads=1, head_dim=32, vocab_size=131, max_position_embeddings=256,
             tie_word_embeddings=True, linear_num_key_heads=2, linear_num_value_heads=4,
             linear_key_head_dim=12, linear_value_head_dim=20,
             layer_types=["linear_attention", "full_attention", "linear_attention"],
             rope_parameters=dict(rope_type="default", rope_theta=10.0,
                                  partial_rotary_factor=0.25)),
    ),
    # The same inside of a model that also sees, in every other layer.
    Checkpoint(
        "qwen35-vision-bf16",
        "Qwen3_5",
        dict(text_config=dict(
                 hidden_size=64, intermediate_size=92, num_hidden_layers=4, num_attention_heads=2,
                 num_key_value_heads=1, head_dim=32, vocab_size=143, max_position_embeddings=256,
                 linear_num_key_heads=2, linear_num_value_heads=2, linear_key_head_dim=16,
                 linear_value_head_dim=16, linear_conv_kernel_dim=3,
                 full_attention_interval=2,
                 rope_parameters=dict(rope_type="default", rope_theta=10.0,
                                      partial_rotary_factor=0.25, mrope_interleaved=True,
                                      mrope_section=[2, 1, 1])),
             vision_config=dict(depth=1, hidden_size=16, intermediate_size=20, num_heads=2,
                                patch_size=4, out_hidden_size=64, num_position_embeddings=16),
             image_token_id=140, video_token_id=139, vision_start_token_id=138,
             vision_end_token_id=137),
        dtype=torch.bfloat16,
    ),
)


def generator(*parts):
    """A random generator seeded by the names of what it is for."""
    return torch.Generator().manual_seed(zlib.crc32("/".join(map(str, parts)).encode()))


def standard_deviation(name, shape, config):
    """Spreads that keep every part of the network alive: attention neither flat nor one-hot, layers
    that outweigh the residual's embedding (or a tied model would repeat its input), logits of
    standard deviation near 2."""
    if "embed_tokens" in name:
        return 2 / math.sqrt(config.hidden_size) if config.tie_word_embeddings else 1.0
    if "lm_head" in name:
        return 2 / math.sqrt(config.hidden_size)
    if len(shape) == 3 and config.model_type == "gpt_oss":
        # [experts, in, out]. Gates large enough that some meet their limit, and what comes of them
        # as large as in others.
        return (4 if "gate_up_proj" in name else 0.2) / math.sqrt(shape[1])
    gain = 1.5 if "o_proj" in name or "down_proj" in name else 1.2
    return gain / math.sqrt(shape[-1])


def fill(model, seed_name):
    """Draws every weight of `model`, in float64, then rounds it to the parameter's dtype."""
    config = model.config.get_text_config()
    offset = config.model_type.startswith(("gemma", "qwen3_5"))
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator(seed_name, name),
                            dtype=torch.float64)
        if re.search(r"\.(vision_tower|multi_modal_projector|visual)\.", name):
            value = 0.1 * noise
        elif name.endswith("norm.weight"):
            value = (0 if offset and "linear_attn" not in name else 1) + 0.2 * noise
        elif name.endswith("bias"):
            value = 0.3 * noise
        elif name.endswith("A_log"):
            value = -1 + noise  # heads that forget at once, and such that do not
        elif name.endswith("sinks"):
            value = 1 + noise
        else:
            value = noise * standard_deviation(name, parameter.shape, config)
        if name.endswith(("in_proj_qkv.weight", "conv1d.weight")):
            # A key is not far from its token's query: what a state gives is normed, and were it next
            # to nothing, rounding would decide which way it points.
            size = config.linear_num_key_heads * config.linear_key_head_dim
            value[size:2 * size] = 0.8 * value[:size] + 0.6 * value[size:2 * size]
        parameter.data.copy_(value)


def build(checkpoint):
    """The model with its weights in the dtype of the file."""
    text = checkpoint.architecture in ("Gemma3", "Qwen3_5") and not checkpoint.sees
    config_class = f"{checkpoint.architecture}{'Text' if text else ''}Config"
    config = getattr(transformers, config_class)(**checkpoint.config)
    task = "ConditionalGeneration" if checkpoint.sees else "CausalLM"
    model = getattr(transformers, f"{checkpoint.architecture}For{task}")(config)
    model = model.to(checkpoint.dtype).eval()
    fill(model, checkpoint.name)
    return model
