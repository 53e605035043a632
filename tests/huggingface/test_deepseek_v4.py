"""DeepSeek-V4: keys and names of the released files, and what is refused by name."""

from __future__ import annotations

import json

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from anyformer import huggingface
from huggingface.cases.deepseek_v4 import ALL, BASE, CHOSEN, WINDOW
from huggingface.parity import inputs, pair
from huggingface.test_parity import CASES

TINY = {
    key: value for key, value in BASE.items() if not key.endswith(("layer_types", "compress_rates", "partial_rotary_factor"))
}
OLD = TINY | {
    "model_type": "deepseek_v4", "vocab_size": 53, "compress_ratios": [0, 128, 4, 128, 0], "compress_rate_csa": 2,
    "compress_rate_hca": 3, "num_hash_layers": 1, "qk_rope_head_dim": 4, "compress_rope_theta": 500.0,
    "rope_scaling": {"type": "yarn", "factor": 16, "original_max_position_embeddings": 8, "beta_fast": 32, "beta_slow": 1},
}  # fmt: skip


def read(**keys):
    return huggingface.read_architecture(huggingface.Config({**OLD, **keys}))[0]


def test_older_keys_mean_what_transformers_takes_them_for():
    told = transformers.AutoConfig.for_model(**OLD).to_dict()
    assert told["layer_types"] == [WINDOW, ALL, CHOSEN, ALL]
    assert huggingface.read_architecture(huggingface.Config(told))[0] == read()


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"n_shared_experts": 2}, "n_shared_experts = 2 is not supported"),
        (
            {"rope_parameters": {"main": "default", "compress": {}}},
            r'rope_parameters\.main should be a table of settings, got "default"',
        ),
        ({"norm_topk_prob": False}, "norm_topk_prob = false is not supported"),
        ({"num_key_value_heads": 4}, "num_key_value_heads = 4 is not supported"),
        ({"scoring_func": "softmax"}, "scoring_func = 'softmax' is not known here, only sqrtsoftplus, sigmoid"),
        ({"compress_ratios": [0, 4]}, "per layer, of 4 layers, .* got 2 numbers"),
        ({"compress_ratios": [0, 4, 8, 4]}, "got 4 numbers, among them 8"),
        ({"compress_rates": {"sliding_attention": 2}}, "compress_rates should hold .* got sliding_attention = 2"),
        ({"index_head_dim": 2}, "index_head_dim = 2 is less than the 4 features that rotate"),
        ({"partial_rotary_factor": 1.0}, "is 8 features, and qk_rope_head_dim = 4"),
        ({"o_groups": 3}, "output.groups must divide the heads, got 3 and 4"),
    ],
)
def test_what_is_not_computed_is_refused_by_name(keys, said):
    with pytest.raises(ValueError, match=said):
        read(**keys)


@pytest.fixture
def released(tmp_path):
    """A tiny model with the names of the released files, and a block that drafts tokens."""
    both = pair(next(case for case in CASES if case.model_type == "deepseek_v4"))
    tensors = load_file(both.directory / "model.safetensors")
    news = {"embed_tokens.": "embed.", "hc_head.hc_": "hc_head_", "attn.norm.": "attn.kv_norm."}
    made = {"mtp.0.enorm.weight": torch.ones(32)}
    for name, tensor in tensors.items():
        name = name.removeprefix("model.")
        for ours, theirs in news.items():
            name = name.replace(ours, theirs)
        made[name] = tensor
    save_file(made, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((both.directory / "config.json").read_text())
    return both, tmp_path, made


def test_files_with_the_names_of_the_release_are_read(released):
    both, directory, _ = released
    again, _ = huggingface.load(directory)
    x = inputs(both)
    with torch.no_grad():
        assert torch.equal(again(*x), both.ours(*x))


def test_the_table_stays_whole_numbers_in_any_type(released):
    _, directory, made = released
    again, _ = huggingface.load(directory, dtype=torch.bfloat16)
    table = again.get_parameter("decoder.layers.0.experts.sublayer.router.table")
    assert table.dtype == torch.int64
    assert torch.equal(table, made["layers.0.ffn.gate.tid2eid"])
    assert again.get_parameter("embedding.weight").dtype == torch.bfloat16


@pytest.mark.parametrize(("entry", "said"), [(6, "whole numbers from 0 to 5"), (None, "a row names an expert twice")])
def test_a_table_that_names_no_choice_is_refused(released, entry, said):
    _, directory, made = released
    made["layers.0.ffn.gate.tid2eid"][3] = made["layers.0.ffn.gate.tid2eid"][3, 0] if entry is None else entry
    save_file(made, directory / "model.safetensors")
    with pytest.raises(huggingface.HuggingFaceError, match=said):
        huggingface.load(directory)


def test_a_table_without_entries_is_written_as_what_stands_for_them(tmp_path):
    """A model that was never loaded: transformers gets the experts that the hash gives."""
    from anyformer.model.transformer import build

    model = build(read(), seed=2).eval()
    huggingface.export(model, tmp_path, model_type="deepseek_v4")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="eager").eval()
    x = torch.randint(5, 53, (2, 11), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(model(x), theirs(x).logits, rtol=1e-4, atol=1e-5)
    again, _ = huggingface.load(tmp_path)
    with torch.no_grad():
        assert torch.equal(again(x), model(x))
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "deepseek_v4"
