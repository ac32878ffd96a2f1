"""Which modules PEFT adapts for a configuration, with which rank and scale.

Writes src/spec/testdata/peft_targets.json: cases of a configuration and either the modules of a
Llama of 12 layers (on the meta device: no weights) or the fact that PEFT refuses it.

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


def outcome(config):
    model_config = transformers.LlamaConfig(
        vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=NUM_LAYERS,
        num_attention_heads=1, num_key_value_heads=1)
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(model_config)
    try:
        adapted = peft.get_peft_model(
            model, peft.LoraConfig(**{"task_type": "CAUSAL_LM", **config}), low_cpu_mem_usage=True)
    except (ValueError, TypeError) as error:
        return {"refused": str(error).split("\n")[0][:100]}
    modules = {}
    for name, module in adapted.base_model.model.named_modules():
        if isinstance(module, peft.tuners.lora.LoraLayer):
            modules[name] = [module.r["default"], module.scaling["default"]]
    return {"modules": modules}


def main():
    warnings.simplefilter("ignore")
    cases = [{"config": {"peft_type": "LORA", **config}, **outcome(config)} for config in CASES]
    OUT.parent.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(case) for case in cases)
    OUT.write_text(f'{{"peft": "{peft.__version__}", "num_layers": {NUM_LAYERS}, "cases": [\n{lines}\n]}}\n')
    for case in cases:
        modules = case.get("modules")
        print(case["config"], case.get("refused") or len(modules))


if __name__ == "__main__":
    main()
