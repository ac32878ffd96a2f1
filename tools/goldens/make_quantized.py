"""Makes tests/goldens-quantized: tiny checkpoints of four bits, bytes, FP8 or codes, and the same weights as numbers.

  make_quantized.py             rewrites it
  make_quantized.py --check     makes it anew elsewhere and compares

Each folder holds a model as GPTQ's, AWQ's, compressed-tensors', FP8's or bitsandbytes' programs save
it, or as gpt-oss is published (MXFP4), and in `dequantized/` an ordinary one whose weights are what these stand for, exactly (but for scales
in float32: to nearest).

How the first two pack, written from their own dequantization (AutoGPTQ 0.7.1,
nn_modules/qlinear/qlinear_cuda.py; AutoAWQ 0.2.9, utils/packing_utils.py: dequantize_gemm); the third
is packed by its library, which must also unpack it to the same. Of FP8 there is nothing to pack: names
and shapes are those of transformers (integrations/finegrained_fp8.py), AutoFP8 and compressed-tensors.
Codes are bitsandbytes' own, which must also make the same numbers of them where it can. (Of scales
that are bytes it takes the mean in float32: another CPU may add in another order.) Of MXFP4
transformers must make the same numbers.
"""

import dataclasses
import json
import tempfile

import torch
from bitsandbytes import functional as bnb
from compressed_tensors.compressors.naive_quantized.base import (
    FloatQuantizationCompressor, IntQuantizationCompressor)
from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
from compressed_tensors.quantization import QuantizationConfig
from safetensors.torch import load_file, save_file
from transformers.integrations.mxfp4 import FP4_VALUES, convert_moe_packed_tensors

import checkpoints
from make_goldens import GOLDENS, rewrite_or_check

QUANTIZED_GOLDENS = GOLDENS.with_name("goldens-quantized")

LLAMA = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=1, num_attention_heads=4,
             num_key_value_heads=2, vocab_size=136, max_position_embeddings=256)
# The names of modules that may be quantized end in these.
MODULES = ("proj.weight", "lm_head.weight", ".gate.weight", ".w1.weight", ".w2.weight", ".w3.weight")
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


@dataclasses.dataclass(frozen=True)
class Quantized:
    base: checkpoints.Checkpoint
    config: dict  # "quantization_config"
    group_size: int | None  # None: all inputs
    symmetric: bool = False
    bits: int = 4
    ignore: tuple = ("lm_head", ".gate.")  # parts of names
    zero_biases: bool = False  # of every module, as AutoGPTQ has them
    ordered: bool = False  # groups are of inputs that are no neighbours
    block: tuple | None = None  # of FP8, outputs by inputs that share a scale; None: a whole matrix
    scale_dtype: torch.dtype | None = None  # of FP8, and that it is FP8
    codes_block: int | None = None  # of bitsandbytes, elements that share a scale, and that it is that
    mxfp4: bool = False  # of experts' tensors, and nothing else


def gptq(**more):
    return dict(quant_method="gptq", bits=4, damp_percent=0.01, true_sequential=True, **more)


def awq(**more):
    return dict(quant_method="awq", bits=4, version="gemm", zero_point=True, **more)


def compressed(ignore, format="pack-quantized", inputs=None, bits=4, **weights):
    group = dict(targets=["Linear"], input_activations=inputs, output_activations=None,
                 weights=dict(num_bits=bits, type="int", dynamic=False, actorder=None,
                              block_structure=None, observer="minmax", observer_kwargs={},
                              **weights))
    return dict(quant_method="compressed-tensors", format=format,
                quantization_status="compressed", global_compression_ratio=None,
                kv_cache_scheme=None, ignore=list(ignore), config_groups=dict(group_0=group))


def compressed_bytes(*ignore):
    inputs = dict(num_bits=8, type="int", dynamic=True, actorder=None, block_structure=None,
                  group_size=None, observer=None, observer_kwargs={}, strategy="token",
                  symmetric=True)
    return compressed(ignore, format="int-quantized", inputs=inputs, bits=8, symmetric=True,
                      strategy="channel", group_size=None)


def compressed_floats(*ignore):
    inputs = dict(num_bits=8, type="float", dynamic=True, actorder=None, block_structure=None,
                  group_size=None, observer=None, observer_kwargs={}, strategy="token",
                  symmetric=True)
    config = compressed(ignore, format="float-quantized", inputs=inputs, bits=8, symmetric=True,
                        strategy="channel", group_size=None)
    config["config_groups"]["group_0"]["weights"]["type"] = "float"
    return config


def bitsandbytes(quant_type, double_quant, skip=("lm_head",)):
    return dict(quant_method="bitsandbytes", load_in_4bit=True, load_in_8bit=False,
                _load_in_4bit=True, _load_in_8bit=False, bnb_4bit_compute_dtype="bfloat16",
                bnb_4bit_quant_storage="uint8", bnb_4bit_quant_type=quant_type,
                bnb_4bit_use_double_quant=double_quant, llm_int8_enable_fp32_cpu_offload=False,
                llm_int8_has_fp16_weight=False, llm_int8_skip_modules=list(skip),
                llm_int8_threshold=6.0)


def base(name, architecture, dtype=torch.float16, **more):
    return checkpoints.Checkpoint(name, architecture, {**LLAMA, **more}, dtype)


QUANTIZED = (
    Quantized(base("gptq-llama", "Llama"),
              gptq(group_size=32, desc_act=False, sym=False, checkpoint_format="gptq",
                   model_name_or_path=None, static_groups=False),
              32, zero_biases=True),
    # Biases of its own; a last group that is not whole; zero points of 0; an order that says nothing.
    Quantized(base("gptq-v2-qwen2", "Qwen2", tie_word_embeddings=True),
              gptq(group_size=64, desc_act=True, sym=False, checkpoint_format="gptq_v2",
                   pack_dtype="int32"),
              64),
    # Groups in the order of activations, which modules with the same input share; lm_head as well.
    Quantized(base("gptq-order-llama", "Llama"),
              gptq(group_size=32, desc_act=True, sym=True, lm_head=True), 32, symmetric=True,
              ordered=True, ignore=()),
    Quantized(base("gptq-order-phi3", "Phi3", pad_token_id=0),
              gptq(group_size=32, desc_act=True, sym=True), 32, symmetric=True, ordered=True),
    Quantized(base("gptq-qwen3-moe", "Qwen3Moe", moe_intermediate_size=32, head_dim=16,
                   num_experts=3, num_experts_per_tok=2),
              gptq(group_size=32, desc_act=True, sym=True), 32, symmetric=True, ordered=True),
    Quantized(base("awq-llama", "Llama"), awq(group_size=32, modules_to_not_convert=None), 32),
    # Modules of several projections.
    Quantized(base("awq-phi3", "Phi3", pad_token_id=0), awq(group_size=32), 32),
    # Other names of experts; their router is quantized, too.
    Quantized(base("awq-mixtral", "Mixtral", num_local_experts=8, num_experts_per_tok=2),
              awq(group_size=32), 32, ignore=("lm_head",)),
    # Names of a text model in one that sees, whose own part is not quantized.
    Quantized(dataclasses.replace(
                  next(c for c in checkpoints.CHECKPOINTS if c.name == "gemma3-vision-f32"),
                  name="compressed-gemma3-vision", dtype=torch.bfloat16),
              compressed(("re:.*vision_tower.*", "re:.*multi_modal_projector.*", "re:.*lm_head"),
                         symmetric=True, strategy="channel", group_size=None),
              None, symmetric=True, ignore=("lm_head", "vision_tower", "multi_modal_projector")),
    # Layers of which not all is quantized; scales in bfloat16.
    Quantized(base("compressed-qwen3", "Qwen3", torch.bfloat16, head_dim=16, num_hidden_layers=2),
              compressed(("lm_head", "model.layers.0.mlp.down_proj",
                          "model.layers.1.self_attn.v_proj"),
                         symmetric=True, strategy="group", group_size=32),
              32, symmetric=True,
              ignore=("lm_head", "layers.0.mlp.down_proj", "layers.1.self_attn.v_proj")),
    Quantized(base("compressed-channels-llama", "Llama"),
              compressed(("lm_head",), symmetric=False, strategy="channel", group_size=None), None),
    # Bytes, of which some are -128; scales in bfloat16, and a module that is left alone.
    Quantized(base("bytes-llama", "Llama", torch.bfloat16, num_hidden_layers=2),
              compressed_bytes("lm_head", "model.layers.1.self_attn.k_proj"),
              None, symmetric=True, bits=8, ignore=("lm_head", "layers.1.self_attn.k_proj")),
    # Modules of several projections; an lm_head in bytes.
    Quantized(base("bytes-phi3", "Phi3", pad_token_id=0), compressed_bytes(), None, symmetric=True,
              bits=8, ignore=()),
    # All experts, as which are chosen may depend on how inputs are rounded.
    Quantized(base("bytes-mixtral", "Mixtral", num_local_experts=4, num_experts_per_tok=4),
              compressed_bytes("re:.*lm_head", "re:.*gate"), None, symmetric=True, bits=8),
    # FP8: experts in blocks that are not whole, of more than one along k.
    Quantized(base("fp8-blocks-qwen3-moe", "Qwen3Moe", torch.bfloat16, hidden_size=160,
                   moe_intermediate_size=32, head_dim=16, num_experts=3, num_experts_per_tok=3),
              dict(quant_method="fp8", activation_scheme="dynamic", fmt="e4m3",
                   weight_block_size=[128, 128], modules_to_not_convert=["lm_head"]),
              None, block=(128, 128), scale_dtype=torch.bfloat16),
    # A scale for each output, and modules that are left alone.
    Quantized(base("fp8-channels-llama", "Llama", torch.bfloat16, num_hidden_layers=2),
              compressed_floats("lm_head", "model.layers.1.self_attn.k_proj"),
              None, block=(1, None), scale_dtype=torch.bfloat16,
              ignore=("lm_head", "layers.1.self_attn.k_proj")),
    # One scale for each of modules of several projections, and one for inputs, which nobody needs.
    Quantized(base("fp8-tensors-phi3", "Phi3", pad_token_id=0),
              dict(quant_method="fp8", activation_scheme="static", ignored_layers=["lm_head"]),
              None, block=(None, None), scale_dtype=torch.float32),
    # bitsandbytes: scales that are bytes, as QLoRA has them, some modules with more than a block of
    # these, and one module that is left alone.
    Quantized(base("bnb-nf4-llama", "Llama", torch.bfloat16, num_hidden_layers=2,
                   intermediate_size=320),
              bitsandbytes("nf4", True, ("lm_head", "model.layers.1.self_attn.k_proj")), None, codes_block=64,
              ignore=("lm_head", "layers.1.self_attn.k_proj")),
    # gpt-oss: all experts in two tensors, of which a layer's are left alone.
    Quantized(base("mxfp4-gpt-oss", "GptOss", torch.bfloat16, num_hidden_layers=2, head_dim=16,
                   num_local_experts=3, num_experts_per_tok=2, sliding_window=16),
              dict(quant_method="mxfp4", modules_to_not_convert=[
                  "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens",
                  "lm_head", "model.layers.1.mlp.experts"]),
              None, ignore=("",), mxfp4=True),
    # Modules of several projections; scales of two rows, or of inputs that are not whole groups.
    Quantized(base("bnb-fp4-phi3", "Phi3", pad_token_id=0), bitsandbytes("fp4", False), None,
              codes_block=128),
)


def quantize(weight, group_size, symmetric, bits):
    """Levels [n, k] of 0 … 2^bits - 1, scales [n, groups] in the weight's dtype, and zero points."""
    most, middle = 2**bits - 1, 2**(bits - 1)
    n, k = weight.shape
    size = group_size or k
    groups = -(-k // size)
    scales = torch.empty(n, groups, dtype=weight.dtype)
    zeros = torch.empty(n, groups, dtype=torch.int32)
    levels = torch.empty(n, k, dtype=torch.int32)
    for g in range(groups):
        part = weight[:, g * size:(g + 1) * size].double()
        low, high = part.amin(1).clamp(max=0), part.amax(1).clamp(min=0)
        if symmetric:
            low, high = -torch.maximum(-low, high), torch.maximum(-low, high)
        scale = ((high - low) / most).to(weight.dtype)
        zero = torch.full((n,), middle) if symmetric else (-low / scale).round().clamp(0, most)
        scales[:, g], zeros[:, g] = scale, zero
        levels[:, g * size:(g + 1) * size] = (
            (part / scale.double()[:, None]).round() + zero[:, None]).clamp(0, most)
    return levels, scales, zeros


def quantize_floats(quantized, weight):
    """Levels [n, k] in FP8, scales of blocks, and the numbers that both stand for."""
    rows, cols = (size or most for size, most in zip(quantized.block, weight.shape))
    n, k = weight.shape
    scales = torch.empty(-(-n // rows), -(-k // cols), dtype=quantized.scale_dtype)
    levels = torch.empty(n, k, dtype=torch.float8_e4m3fn)
    numbers = torch.empty(n, k)
    for r, c in ((r, c) for r in range(scales.shape[0]) for c in range(scales.shape[1])):
        block = slice(r * rows, (r + 1) * rows), slice(c * cols, (c + 1) * cols)
        part = weight[block].double()
        scales[r, c] = part.abs().amax() / 448
        scale = scales[r, c].double()
        levels[block] = (part / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
        numbers[block] = (levels[block].double() * scale).float()
    return levels, scales, numbers


def of_fp8(quantized, levels, scales, numbers):
    if quantized.config["quant_method"] == "compressed-tensors":
        (scheme,) = QuantizationConfig.model_validate(quantized.config).config_groups.values()
        packed = FloatQuantizationCompressor.compress(
            {"weight": numbers.double(), "weight_scale": scales.double()}, scheme)
        assert torch.equal(packed["weight"].float(), levels.float())
        return {"weight": levels, "weight_scale": scales}
    if quantized.block[1]:
        return {"weight": levels, "weight_scale_inv": scales}
    return {"weight": levels, "weight_scale": scales.reshape(()), "input_scale": torch.tensor(0.01)}


def of_codes(quantized, weight):
    """bitsandbytes' tensors, and the numbers that they stand for."""
    config = quantized.config
    codes, state = bnb.quantize_4bit(weight, blocksize=quantized.codes_block,
                                     compress_statistics=config["bnb_4bit_use_double_quant"],
                                     quant_type=config["bnb_4bit_quant_type"])
    scales = state.absmax
    if state.nested:
        of_scales = state.state2.absmax.repeat_interleave(state.state2.blocksize)[:scales.numel()]
        scales = state.state2.code[scales.long()] * of_scales + state.offset
    levels = torch.stack((codes.flatten() >> 4, codes.flatten() & 15), dim=1).flatten().long()
    by_block = state.code[levels].reshape(-1, quantized.codes_block)
    numbers = (by_block * scales[:, None]).reshape(weight.shape)
    # On a CPU bitsandbytes 0.50.2 takes blocks for whole parts of a row, and makes other numbers of
    # codes that it made of blocks that are not.
    if weight.shape[1] % quantized.codes_block == 0:
        assert torch.equal(bnb.dequantize_4bit(codes, state), numbers.to(weight.dtype))
    gaps = state.code.sort().values.diff()
    assert ((numbers - weight).abs().amax() <= gaps.amax() / 2 * scales.amax() * 1.01)
    parts = {f"weight.{name}": tensor for name, tensor in state.as_dict(packed=True).items()}
    return {"weight": codes, **parts}, numbers


def of_mxfp4(weight):
    """Blocks and scales of a tensor [experts, in, out], and the numbers that they stand for."""
    values = torch.tensor(FP4_VALUES, dtype=torch.float64)
    parts = weight.double().transpose(1, 2).unflatten(2, (-1, 32))  # [experts, out, blocks, 32]
    exponents = parts.abs().amax(-1).log2().floor().long() - 2  # 6 is 1.5 · 2²
    scaled = parts / 2.0 ** exponents[..., None]
    codes = (scaled[..., None] - values).abs().argmin(-1)
    blocks = (codes[..., 0::2] | codes[..., 1::2] << 4).to(torch.uint8)
    scales = (exponents + 127).to(torch.uint8)
    numbers = (values[codes] * 2.0 ** exponents[..., None]).flatten(2).transpose(1, 2)
    assert torch.equal(convert_moe_packed_tensors(blocks, scales, dtype=torch.float32).double(),
                       numbers)
    return {"blocks": blocks, "scales": scales}, numbers.float().contiguous()


def pack(values, order=range(8)):
    """Eight of the last dimension to an int32."""
    eight = values.reshape(*values.shape[:-1], -1, 8).long()
    words = sum(eight[..., source] << 4 * place for place, source in enumerate(order))
    return (words - (words >= 2**31) * 2**32).to(torch.int32)


def order_of(quantized, module, k):
    """The group of each input."""
    groups = torch.arange(k) // (quantized.group_size or k)
    if not quantized.ordered:
        return groups
    is_alone = any(name in module for name in ("o_proj", "down_proj", "lm_head"))
    shared = module if is_alone else module.rpartition(".")[0]
    return groups[torch.randperm(k, generator=checkpoints.generator(quantized.base.name, shared))]


def of_gptq(quantized, levels, scales, zeros, order):
    assert zeros.min() >= 1 or quantized.config.get("checkpoint_format") == "gptq_v2"
    offset = 0 if quantized.config.get("checkpoint_format") == "gptq_v2" else 1
    return {"qweight": pack(levels).T, "qzeros": pack(zeros.T - offset), "scales": scales.T,
            "g_idx": order.int()}


def of_awq(quantized, levels, scales, zeros, order):
    return {"qweight": pack(levels.T, AWQ_ORDER), "qzeros": pack(zeros.T, AWQ_ORDER),
            "scales": scales.T}


def of_compressed(quantized, levels, scales, zeros, order):
    (scheme,) = QuantizationConfig.model_validate(quantized.config).config_groups.values()
    weight = (levels - zeros[:, order]) * scales[:, order].double()
    tensors = {"weight": weight, "weight_scale": scales.double(),
               "weight_zero_point": (zeros - 2**(quantized.bits - 1)).to(torch.int8)}
    compressor = IntQuantizationCompressor if quantized.bits == 8 else PackedQuantizationCompressor
    packed = compressor.compress(tensors, scheme)
    assert torch.equal(compressor.decompress(packed, scheme)["weight"], weight)
    return {**packed, "weight_scale": scales}


METHODS = {"gptq": of_gptq, "awq": of_awq, "compressed-tensors": of_compressed}


def make_model(quantized, root):
    with tempfile.TemporaryDirectory() as temporary:
        checkpoints.build(quantized.base).save_pretrained(temporary)
        weights = load_file(f"{temporary}/model.safetensors")
        with open(f"{temporary}/config.json") as file:
            config = json.load(file)
    packed, numbers = {}, {}
    for name, weight in weights.items():
        if quantized.mxfp4 and weight.ndim == 3 and ".layers.0." in name:
            parts, numbers[name] = of_mxfp4(weight)
            packed.update((f"{name}_{part}", tensor) for part, tensor in parts.items())
            continue
        is_module = name.endswith(MODULES) and ".vision_tower." not in name
        if not is_module or any(part in name for part in quantized.ignore):
            packed[name], numbers[name] = weight, weight.float()
            continue
        module = name.removesuffix(".weight")
        if quantized.scale_dtype:
            levels, scales, numbers[name] = quantize_floats(quantized, weight)
            for part, tensor in of_fp8(quantized, levels, scales, numbers[name]).items():
                packed[f"{module}.{part}"] = tensor
            continue
        if quantized.codes_block:
            parts, numbers[name] = of_codes(quantized, weight)
            packed.update((f"{module}.{part}", tensor) for part, tensor in parts.items())
            continue
        order = order_of(quantized, module, weight.shape[1])
        by_group = order.argsort(stable=True)
        levels, scales, zeros = quantize(weight[:, by_group], quantized.group_size,
                                         quantized.symmetric, quantized.bits)
        levels = levels[:, by_group.argsort()]
        numbers[name] = (levels - zeros[:, order]) * scales[:, order].float()
        method = METHODS[quantized.config["quant_method"]]
        for part, tensor in method(quantized, levels, scales, zeros, order).items():
            packed[f"{module}.{part}"] = tensor.contiguous()
        if quantized.zero_biases:
            packed[f"{module}.bias"] = torch.zeros(weight.shape[0], dtype=weight.dtype)
    directory = root / quantized.base.name
    for path, tensors, more in (
            (directory, packed, dict(quantization_config=quantized.config)),
            (directory / "dequantized", numbers, dict(dtype="float32"))):
        path.mkdir(parents=True)
        save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
        (path / "config.json").write_text(json.dumps({**config, **more}, indent=2) + "\n")


def make(root):
    for quantized in QUANTIZED:
        make_model(quantized, root)


if __name__ == "__main__":
    rewrite_or_check(__doc__, make, QUANTIZED_GOLDENS)
