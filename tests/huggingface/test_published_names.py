"""Files as they were published, where transformers saves other names or shapes than it was given."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file

import anyformer as af
from anyformer import huggingface
from anyformer.huggingface import Config
from huggingface.case import VOCAB
from huggingface.cases import CASES
from huggingface.parity import AUTO, given, pair

PUBLISHED = {
    "kimi_linear": lambda name: name.replace(MLP, ".mlp.") if ".0." in name else name,
    "olmo_hybrid": lambda name: name.replace(*AFTER) if "layers.1." not in name else name.replace(*BEFORE),
}
MLP, AFTER = ".block_sparse_moe.", ("feedforward_layer_norm", "post_attention_layernorm")
BEFORE = ("attention_layer_norm", "input_layernorm")
KINDS = {"kimi_linear": "plain", "olmo_hybrid": "layer_types"}


@pytest.mark.parametrize("model_type", PUBLISHED)
def test_published_names_are_read_as_saved_ones(model_type, tmp_path):
    case = next(case for case in CASES if case.model_type == model_type and case.name.startswith(KINDS[model_type]))
    both = pair(case)
    stored = load_file(both.directory / "model.safetensors")
    renamed = {PUBLISHED[model_type](name): tensor for name, tensor in stored.items()}
    assert renamed.keys() != stored.keys()
    save_file(renamed, tmp_path / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "config.json").write_text((both.directory / "config.json").read_text())
    ours = huggingface.load(tmp_path)[0]
    for name, parameter in both.ours.named_parameters():
        assert torch.equal(ours.get_parameter(name), parameter), name


def test_keys_and_values_of_other_widths_are_exported_each_with_its_convolution(tmp_path):
    config = {
        "model_type": "olmo_hybrid", "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2,
        "num_attention_heads": 4, "linear_conv_kernel_dim": 3, "rope_parameters": {"rope_type": "default", "rope_theta": None},
    }  # fmt: skip
    model = af.build(huggingface.read_architecture(Config(config))[0], seed=1).eval()
    huggingface.export(model, tmp_path / "exported", model_type="olmo_hybrid")
    theirs = AUTO["CausalLM"].from_pretrained(tmp_path / "exported", attn_implementation="eager").eval()
    case = next(case for case in CASES if case.model_type == "olmo_hybrid")
    with torch.no_grad():
        torch.testing.assert_close(model(given(case)), theirs(given(case)).logits, rtol=1e-4, atol=1e-5)


def test_kimi_k2_is_read_as_deepseek_v3():
    case = next(case for case in CASES if case.model_type == "deepseek_v3")
    config = case.config | {"model_type": "kimi_k2", "scoring_func": "sigmoid", "topk_method": "noaux_tc", "seq_aux": True}
    architecture, family = huggingface.read_architecture(Config(config))
    assert family.model_type == "deepseek_v3"
    assert architecture == huggingface.read_architecture(Config(config | {"model_type": "deepseek_v3"}))[0]
