"""Adapters of PEFT on whatever it adapts, against the real package: the logits of both are the same."""

from __future__ import annotations

import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import anyformer as af
from anyformer import huggingface

TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]])
USUAL = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 99,
    "num_key_value_heads": 2, "pad_token_id": 0, "attention_bias": True,
}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "decoder_sparse_step": 1}
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99, "bos_token_id": 0, "eos_token_id": 0}
OSS = {
    "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "vocab_size": 99, "num_local_experts": 4, "num_experts_per_tok": 2, "pad_token_id": 0, "sliding_window": 5,
}  # fmt: skip
BASES = {
    "llama": ("llama", USUAL),
    "tied": ("llama", {**USUAL, "tie_word_embeddings": True}),
    "gpt2": ("gpt2", GPT),
    "experts": ("qwen3_moe", USUAL | EXPERTS),
    "turned experts": ("gpt_oss", OSS),
}
BOTH = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]
CASES = {
    "table": ("llama", {"target_modules": ["embed_tokens", "q_proj"]}),
    "table that was tied": ("tied", {"target_modules": ["embed_tokens", "q_proj"]}),
    "head that was tied": ("tied", {"target_modules": ["lm_head", "q_proj"]}),
    "dora of a table": ("llama", {"target_modules": ["embed_tokens", "o_proj"], "use_dora": True}),
    "head": ("llama", {"target_modules": ["lm_head"], "use_rslora": True}),
    "whole modules": ("llama", {"target_modules": ["q_proj"], "modules_to_save": ["lm_head", "embed_tokens"]}),
    "whole head that was tied": ("tied", {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]}),
    "rows": ("llama", {"target_modules": ["q_proj"], "trainable_token_indices": [1, 5]}),
    "rows of tied tables": ("tied", {"target_modules": ["q_proj"], "trainable_token_indices": {"embed_tokens": [5, 9]}}),
    "all biases": ("llama", {"target_modules": ["q_proj"], "bias": "all"}),
    "biases of what is adapted": ("llama", {"target_modules": ["q_proj"], "bias": "lora_only"}),
    "bias of B": ("llama", {"target_modules": ["q_proj"], "lora_bias": True}),
    "some layers": ("llama", {"target_modules": ["q_proj", "down_proj"], "layers_to_transform": [1]}),
    "ranks of their own": (
        "llama",
        {"target_modules": ["q_proj", "v_proj"], "rank_pattern": {"v_proj": 5}, "alpha_pattern": {"q_proj": 3}},
    ),
    "transposed": ("gpt2", {"target_modules": ["c_attn", "c_proj", "wte"], "fan_in_fan_out": True}),
    "experts": ("experts", {"target_modules": ["q_proj"], "target_parameters": BOTH}),
    "turned experts": ("turned experts", {"target_modules": ["q_proj"], "target_parameters": BOTH}),
}


def base_of(name: str, directory) -> None:
    model_type, config = BASES[name]
    torch.manual_seed(0)
    made = transformers.AutoConfig.for_model(model_type, **config)
    transformers.AutoModelForCausalLM.from_config(made).save_pretrained(directory)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore")
def test_merged_it_gives_the_logits_of_peft(case, tmp_path):
    name, options = CASES[case]
    base_of(name, tmp_path / "base")
    bare = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base", attn_implementation="eager").eval()
    before = bare(TOKENS).logits
    model = peft.get_peft_model(bare, peft.LoraConfig(r=4, lora_alpha=6, task_type="CAUSAL_LM", **options)).eval()
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn(parameter.shape))
    model.save_pretrained(tmp_path / "adapter")
    expected = model(TOKENS).logits
    assert not torch.allclose(before, expected, atol=1e-3)
    ours, _ = af.load(tmp_path / "base", adapter=tmp_path / "adapter")
    torch.testing.assert_close(ours(TOKENS), expected, atol=2e-5, rtol=2e-5)


@pytest.mark.filterwarnings("ignore")
def test_what_has_no_place_is_named(tmp_path):
    base_of("llama", tmp_path / "base")
    model, _ = af.load(tmp_path / "base")
    bare = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    peft.get_peft_model(bare, peft.LoraConfig(r=2, target_modules=["q_proj"])).save_pretrained(tmp_path / "adapter")
    weights = tmp_path / "adapter" / "adapter_model.safetensors"
    tensors = load_file(weights)
    family, parameters = huggingface.family("llama"), dict(model.named_parameters())
    for name, message in (
        ("base_model.model.score.weight", r"the adapter of score has no place in this architecture \\(llama\\)"),
        ("base_model.model.model.layers.0.self_attn.q_proj.strange", "q_proj.strange is no parameter of an adapter"),
    ):
        save_file({**tensors, name: torch.ones(2, 32)}, weights)
        with pytest.raises(huggingface.HuggingFaceError, match=message.replace("\\\\", "\\")):
            huggingface.merge_adapter(tmp_path / "adapter", model.architecture, family, parameters)
