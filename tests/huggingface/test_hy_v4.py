"""Hy4: every spelling of names that transformers loads, keys of older files, and what is refused by name."""

from __future__ import annotations

import re

import pytest
import torch
from safetensors.torch import load_file, save_file

from anyformer import huggingface
from huggingface.cases.hy_v4 import BASE
from huggingface.parity import inputs, pair
from huggingface.test_parity import CASES

CONFIG = {"model_type": "hy_v4", "vocab_size": 53, **BASE}
SPELLINGS = {
    "of modules": {
        r"\.hc_pre\.hc_attn_layer\.hc_": ".attn_hc.",
        r"\.hc_pre\.hc_mlp_layer\.hc_": ".ffn_hc.",
        r"\.hc_pre\.hc_head\.hc_head_": ".hc_head.hc_",
        r"\.linear_gate": ".gate_proj",
        r"\.learnable_sink_param": ".sinks",
    },
    "within": {
        r"\.hc_pre\.hc_(attn|mlp)_layer\.": r".hc_\1_layer.hc_pre.",
        r"\.hc_pre\.hc_head\.": ".hc_head.hc_pre.",
        r"(mlp.*)\.linear_gate": r"\1.gate_proj",
    },
}


def read(**keys):
    return huggingface.read_architecture(huggingface.Config({**CONFIG, **keys}))[0]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"swiglu_limit": 0.0}, "swiglu_limit = 0 is not supported"),
        ({"hidden_act": "gelu"}, 'hidden_act = "gelu" is not supported .*the experts have silu'),
        ({"attention_dropout": 0.1}, "attention_dropout = 0.1 is not supported"),
        ({"indexer_types": ["shared", "full", "full"]}, "the first layer shares an indexer, and no layer before it has one"),
        ({"indexer_types": ["full", "none", "full"]}, "none is not known here, only full, shared"),
        ({"index_head_dim": 2}, "index_head_dim = 2 has no room"),
        ({"q_lora_rank": None}, "q_lora_rank"),
    ],
)
def test_what_is_not_computed_is_refused_by_name(keys, said):
    with pytest.raises(ValueError, match=said):
        read(**keys)


def test_all_but_the_layers_with_an_indexer_share_the_choice_of_the_latest():
    listed = ["full", "full", *["shared"] * 3, "full", "shared"]
    assert read(num_hidden_layers=7) == read(num_hidden_layers=7, indexer_types=listed)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_names_of_every_spelling_are_read(spelling, tmp_path):
    both = pair(next(case for case in CASES if case.model_type == "hy_v4"))
    tensors = load_file(both.directory / "model.safetensors")
    renamed = {}
    for name, tensor in tensors.items():
        for pattern, other in SPELLINGS[spelling].items():
            name = re.sub(pattern, other, name)
        renamed[name] = tensor
    assert renamed.keys() != tensors.keys()
    save_file(renamed, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((both.directory / "config.json").read_text())
    (again, _), x = huggingface.load(tmp_path), inputs(both)[0]
    with torch.no_grad():
        torch.testing.assert_close(again(x), both.ours(x), rtol=0, atol=0)
