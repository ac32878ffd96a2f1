"""Which modules PEFT adapts for a configuration, with which rank and scale.

Writes src/spec/testdata/peft_targets.json: cases of a configuration and either the modules of a
base model of 12 layers (on the meta device: no weights) or the fact that PEFT refuses it. The base
is a Llama unless the case says so; of one that also sees, what sees is left out.

    python tools/goldens/peft_targets.py
"""

import json
import pathlib
import warnings

import peft
import torch
import transformers

NUM_LAYERS = 12
OUT = pathlib.Path(__file__).parents[2] / "src/spec/testdata/peft_targets.json"

ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]

CASES = [
    {},
    {"target_modules": ["q_proj"]},
    {"target_modules": ["q_proj", "v_proj", "q_proj"]},
    {"target_modules": "all-linear"},
    {"target_modules": "ALL-LINEAR", "r": 3, "lora_alpha": 7},
    {"target_modules": ALL, "use_rslora": True, "r": 5},
    {"target_modules": "q_proj"},
    {"target_modules": ".*q_proj"},
    {"target_modules": r".*\.(q|v)_proj"},
    {"target_modules": r"model\.layers\.(0|1[01])\.(self_attn|mlp)\.(q|up)_proj"},
    {"target_modules": r"model\.layers\.\d+\.self_attn\.q_proj$"},
    {"target_modules": r"(?i).*DOWN_PROJ"},
    {"target_modules": r".*layers\.(?!0\.|1\.).*o_proj"},
    {"target_modules": r"(?P<x>.*)\.[kv]_proj"},
    {"target_modules": r"(?:.*?(?:language|text).*?(?:self_attn|attention|attn|mlp|feed_forward|ffn|dense)"
                       r".*?(?:qkv|proj|gate_proj|up_proj|down_proj|q_proj|k_proj|v_proj|o_proj).*?)|"
                       r"(?:\bmodel\.layers\.[\d]{1,}\.(?:self_attn|attention|attn|mlp|feed_forward|ffn|dense)"
                       r"\.(?:(?:qkv|gate_proj|up_proj|down_proj|q_proj|k_proj|v_proj|o_proj)))"},
    {"target_modules": "nothing_matches"},
    {"target_modules": ["nothing_matches"]},
    {"target_modules": ["model.layers.3.self_attn.q_proj", "model.layers.11.mlp.up_proj"]},
    {"target_modules": ["layers.1.self_attn.q_proj", "1.mlp.up_proj", "mlp.down_proj"]},
    {"target_modules": ["self_attn.q_proj", "5.self_attn.v_proj"]},
    {"target_modules": ALL, "layers_to_transform": 3},
    {"target_modules": ALL, "layers_to_transform": [0, 10]},
    {"target_modules": ["q_proj"], "layers_to_transform": []},
    {"target_modules": ["q_proj"], "layers_to_transform": [1, 2], "layers_pattern": "layers"},
    {"target_modules": ["q_proj"], "layers_to_transform": [1, 2], "layers_pattern": ["h", "layers"]},
    {"target_modules": ["q_proj"], "layers_to_transform": [1], "layers_pattern": "blocks"},
    {"target_modules": ["q_proj"], "layers_to_transform": [40]},
    {"target_modules": ["q_proj"], "layers_pattern": "layers"},
    {"target_modules": ".*q_proj", "layers_to_transform": [1]},
    {"target_modules": ["v_proj", "model.layers.0.self_attn.q_proj"], "layers_to_transform": [4]},
    {"target_modules": ["q_proj", "embed_tokens", "lm_head"]},
    {"target_modules": ["q_proj", "embed_tokens", "lm_head"], "layers_to_transform": [1]},
    {"target_modules": ["q_proj", "embed_tokens", "lm_head"], "layers_to_transform": []},
    {"target_modules": ["q_proj", "model.embed_tokens"], "layers_to_transform": 1},
    {"target_modules": ["q_proj", "embed_tokens"], "layers_to_transform": [1], "layers_pattern": "layers"},
    {"target_modules": ["embed_tokens"], "layers_to_transform": [1]},
    {"target_modules": ALL, "exclude_modules": ["q_proj", "mlp.up_proj"]},
    {"target_modules": ALL, "exclude_modules": ["model.layers.2.self_attn.q_proj", "3.mlp.up_proj"]},
    {"target_modules": "all-linear", "exclude_modules": r".*\.mlp\..*"},
    {"target_modules": r".*_proj", "exclude_modules": r".*layers\.[2-9]\..*"},
    {"target_modules": ["q_proj"], "exclude_modules": ["q_proj"]},
    {"target_modules": ["q_proj"], "exclude_modules": ["elsewhere"]},
    {"target_modules": ALL, "rank_pattern": {"q_proj": 16, "mlp.up_proj": 2}},
    {"target_modules": ALL, "alpha_pattern": {"q_proj": 16, "v_proj": 0.5}},
    {"target_modules": ALL, "rank_pattern": {"q_proj": 16}, "alpha_pattern": {"q_proj": 64},
     "use_rslora": True},
    {"target_modules": ["q_proj", "v_proj"], "rank_pattern": {"1.self_attn.q_proj": 4}},
    {"target_modules": ["q_proj", "v_proj"],
     "rank_pattern": {"model.layers.1.self_attn.q_proj": 4, "q_proj": 2}},
    {"target_modules": ["q_proj", "v_proj"],
     "rank_pattern": {"q_proj": 2, "model.layers.1.self_attn.q_proj": 4}},
    {"target_modules": ["q_proj", "v_proj"], "rank_pattern": {"^q_proj": 2, "^model.*v_proj": 6}},
    {"target_modules": ["q_proj", "v_proj"], "rank_pattern": {r"layers\.\d\.self_attn\.(q|v)_proj": 2}},
    {"target_modules": ["q_proj", "v_proj"], "rank_pattern": {"proj": 2, "k_proj": 3}},
    {"target_modules": ["up_proj", "down_proj"], "rank_pattern": {"up_proj|down_proj": 2}},
    {"target_modules": ["q_proj"], "fan_in_fan_out": True},
    {"target_modules": ["q_proj"], "init_lora_weights": "gaussian"},
    {"target_modules": ["q_proj"], "init_lora_weights": False},
]

ALL_FUSED = ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"]

PHI3_CASES = [
    {"target_modules": ALL_FUSED},
    {"target_modules": "all-linear"},
    {"target_modules": ["qkv_proj"], "use_rslora": True, "r": 5},
    {"target_modules": ALL + ["qkv_proj"]},
    {"target_modules": ["q_proj", "gate_proj"]},
    {"target_modules": r".*layers\.[0-3]\.mlp\.gate_up_proj"},
    {"target_modules": ["qkv_proj"], "layers_to_transform": [2, 11]},
    {"target_modules": ALL_FUSED, "exclude_modules": ["mlp.gate_up_proj"]},
    {"target_modules": ALL_FUSED, "rank_pattern": {"qkv_proj": 4, "1.mlp.gate_up_proj": 2},
     "alpha_pattern": {"down_proj": 3}},
    {"target_modules": ["qkv_proj", "resid_attn_dropout"]},
    {"target_modules": ["o_proj", "activation_fn"]},
    {"target_modules": ["o_proj", "act_fn"]},
]

GEMMA3_CASES = [
    {"target_modules": ["q_proj"]},
    {"target_modules": ALL},
    {"target_modules": "all-linear"},
    {"target_modules": ["q_proj", "fc1", "out_proj"]},
    CASES[14],  # Unsloth's: what says "language"
    {"target_modules": r"model\.language_model\.layers\.(0|11)\.(self_attn|mlp)\.(q|up)_proj"},
    {"target_modules": r"model\.layers\..*_proj"},
    {"target_modules": r".*\.self_attn\.q_proj", "exclude_modules": r".*vision_tower.*"},
    {"target_modules": ["language_model.layers.3.self_attn.q_proj",
                        "model.language_model.layers.11.mlp.up_proj"]},
    {"target_modules": ALL, "layers_to_transform": [0, 10]},
    {"target_modules": ["q_proj", "embed_tokens", "lm_head"]},
    {"target_modules": ["q_proj", "embed_tokens", "lm_head"], "layers_to_transform": [1]},
    {"target_modules": ["language_model.embed_tokens", "lm_head"]},
    {"target_modules": ALL,
     "rank_pattern": {"language_model.layers.1.mlp.up_proj": 2, "model.layers.2.mlp.up_proj": 3}},
    {"target_modules": ["q_proj", "language_model"]},
    {"target_modules": ["q_proj", "pre_feedforward_layernorm"]},
]

ATTENTION = ALL[:4]

# As saved, which says what PEFT has made of other names: experts and their router are parameters.
MIXTRAL_CASES = [
    {"target_modules": ATTENTION},
    {"target_modules": ATTENTION, "layers_to_transform": [0, 10], "use_rslora": True},
    {"target_modules": r".*\.self_attn\..*_proj", "rank_pattern": {"11.self_attn.o_proj": 3}},
    {"target_modules": ["q_proj", "lm_head", "embed_tokens"]},
    {"target_modules": ["q_proj", "act_fn"]},
    {"target_modules": ["q_proj", "mlp"]},
    {"target_modules": ["q_proj", "experts"]},
    {"target_modules": [], "target_parameters": ["gate_up_proj", "down_proj", "gate.weight"],
     "rank_pattern": {r".*\.gate_up_proj": 16}, "alpha_pattern": {r".*\.gate_up_proj": 16}},
    {"target_modules": ["q_proj"], "target_parameters": ["layers.1.mlp.experts.down_proj"]},
    {"target_modules": ["q_proj"], "target_parameters": ["experts.gate_up_proj", "in vain"],
     "layers_to_transform": [2], "exclude_modules": ["experts", "mlp.gate"], "use_rslora": True},
    {"target_modules": [], "target_parameters": ["model.layers.3.mlp.gate.weight"]},
    {"target_modules": ["o_proj"], "target_parameters": ["self_attn.q_proj.weight"],
     "rank_pattern": {"q_proj": 3, "o_proj.weight": 5}},
    {"target_modules": ["in vain"], "target_parameters": ["down_proj"]},
    {"target_modules": ["in vain"], "target_parameters": ["down"]},
    {"target_modules": [], "target_parameters": ["up_proj"]},
    {"target_modules": [], "target_parameters": ["down_proj"], "use_dora": True},
]


def make_model(base):
    sizes = dict(vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=NUM_LAYERS,
                 num_attention_heads=1, num_key_value_heads=1)
    if base == "phi3":
        return transformers.Phi3ForCausalLM(transformers.Phi3Config(pad_token_id=0, **sizes))
    if base == "gemma3":
        vision = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                      num_attention_heads=1, image_size=28, patch_size=14)
        config = transformers.Gemma3Config(text_config={**sizes, "head_dim": 8},
                                           vision_config=vision, mm_tokens_per_image=4)
        return transformers.Gemma3ForConditionalGeneration(config)
    if base == "mixtral":
        return transformers.MixtralForCausalLM(transformers.MixtralConfig(**sizes))
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes))


def outcome(base, config):
    with torch.device("meta"):
        model = make_model(base)
    try:
        adapted = peft.get_peft_model(
            model, peft.LoraConfig(**{"task_type": "CAUSAL_LM", **config}), low_cpu_mem_usage=True)
    except (ValueError, TypeError) as error:
        return {"refused": str(error).split("\n")[0][:100]}
    modules = {}
    for name, module in adapted.base_model.model.named_modules():
        if isinstance(module, peft.tuners.lora.LoraLayer) and "vision_tower" not in name:
            if isinstance(module, peft.tuners.lora.layer.ParamWrapper):
                name = f"{name.replace('.base_layer', '')}.{module.parameter_name}"
            modules[name] = [module.r["default"], module.scaling["default"]]
    return {"modules": modules}


def main():
    warnings.simplefilter("ignore")
    cases = [{**({"base": base} if base else {}), "config": {"peft_type": "LORA", **config},
              **outcome(base, config)}
             for base, configs in ((None, CASES), ("phi3", PHI3_CASES), ("gemma3", GEMMA3_CASES),
                                   ("mixtral", MIXTRAL_CASES))
             for config in configs]
    OUT.parent.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(case) for case in cases)
    OUT.write_text(f'{{"peft": "{peft.__version__}", "num_layers": {NUM_LAYERS}, "cases": [\n{lines}\n]}}\n')
    for case in cases:
        modules = case.get("modules")
        print(case["config"], case.get("refused") or len(modules))


if __name__ == "__main__":
    main()
