"""Inkling 2 with loops, of transformers 5.24, which the tests' own version does not have: logits that its class gave.

Held against the class itself, with padding, decoding and gradients too, all variants differ by roundings alone.
"""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import save_file

from anyformer import cost, huggingface
from anyformer.catalogue import architecture
from anyformer.huggingface import Config, HuggingFaceError, read_architecture
from anyformer.huggingface.convert import tensors_of
from anyformer.huggingface.rules import rules
from anyformer.huggingface.words.inkling_line import FirstRows
from huggingface.recorded import by_formula, stored_shapes

SIZES = {
    "model_type": "inkling2_loop_text", "vocab_size": 53, "unpadded_vocab_size": 53, "hidden_size": 24, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "swa_num_attention_heads": 3,
    "swa_num_key_value_heads": 1, "swa_head_dim": 6, "sliding_window_size": 5, "d_rel": 3, "rel_extent": 6,
    "log_scaling_n_floor": 4, "log_scaling_alpha": 0.7, "conv_kernel_size": 3, "rms_norm_eps": 1e-3,
    "moe_intermediate_size": 12, "n_routed_experts": 6, "num_experts_per_tok": 2, "n_layers_per_attn_res_block": 1,
    "layer_types": ["hybrid_sliding", "hybrid", "hybrid_sliding", "hybrid"], "qk_l2_clip_threshold": 1.5,
    "rel_l2_clip_threshold": 0.9, "loop_layer_index_start": 1, "loop_layer_index_end": 3, "loop_num_passes": 3,
    "loop_gate_rank": 5, "eos_token_id": None,
}  # fmt: skip
TOKENS = torch.arange(13)[None] * 7 % 53
LAST = [-0.46319, -0.311378, -0.149255, 0.017812, 0.18429, 0.344663, 0.493623, 0.626243]
FIFTH = [
    -0.11019, -0.243025, 0.171952, -0.089904, -0.182965, 0.069821, 0.129735, -0.265528, 0.23449, 0.043306, -0.147667, -0.001086,
    0.344663,
]  # fmt: skip
"""Logits of the last position, and of token 5 at every position: Inkling2LoopForCausalLM of transformers 5.24.0."""


def of(**keys: object):
    return read_architecture(Config(keys))[0]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("inkling")
    save_file(by_formula(stored_shapes(of(**SIZES), "inkling2_loop_text")), path / "model.safetensors")
    (path / "config.json").write_text(json.dumps(SIZES))
    return path


def test_logits_are_those_of_transformers(directory):
    model = huggingface.load(directory)[0]
    with torch.no_grad():
        logits = model(TOKENS)[0]
    torch.testing.assert_close(logits[-1, :8], torch.tensor(LAST), atol=2e-5, rtol=0)
    torch.testing.assert_close(logits[:, 5], torch.tensor(FIFTH), atol=2e-5, rtol=0)


def test_each_pass_counts(directory):
    """Fewer passes, of the same weights, give other logits."""
    model = huggingface.load(directory)[0]
    (directory / "config.json").write_text(json.dumps({**SIZES, "loop_num_passes": 2}))
    fewer = huggingface.load(directory)[0]
    (directory / "config.json").write_text(json.dumps(SIZES))
    with torch.no_grad():
        assert (model(TOKENS) - fewer(TOKENS)).abs().max() > 0.01


def test_weights_and_keys_are_written_as_they_were_read(directory):
    model, family = huggingface.load(directory)[0], huggingface.family("inkling2_loop_text")
    architecture, parameters = model.architecture, dict(model.named_parameters())
    of_weights = rules(family.names_of(architecture), {name: tuple(each.shape) for name, each in parameters.items()})
    written = dict(tensors_of(of_weights, parameters))
    stored = by_formula(stored_shapes(architecture, "inkling2_loop_text"))
    assert written.keys() == stored.keys()
    assert all(torch.equal(written[name], each) for name, each in stored.items())
    keys = family.write(architecture)
    assert {name: keys[name] for name in SIZES if name != "eos_token_id"} == {
        name: value for name, value in SIZES.items() if name != "eos_token_id"
    }
    assert of(**keys) == architecture


def test_logits_of_fewer_tokens_than_rows_are_stored_with_zeros(directory):
    made = of(**{**SIZES, "unpadded_vocab_size": 47})
    assert made.head.outputs == 47
    assert stored_shapes(made, "inkling2_loop_text")["model.llm.unembed.weight"] == (53, 24)
    whole = huggingface.load(directory)[0]
    (directory / "config.json").write_text(json.dumps({**SIZES, "unpadded_vocab_size": 47}))
    fewer = huggingface.load(directory)[0]
    (directory / "config.json").write_text(json.dumps(SIZES))
    with torch.no_grad():
        torch.testing.assert_close(fewer(TOKENS), whole(TOKENS)[..., :47])
    rows = FirstRows(53).write([fewer.head.weight.detach()])[0]
    assert torch.equal(rows[:47], whole.head.weight[:47])
    assert not rows[47:].any()


def test_the_composite_has_the_keys_of_published_files():
    loop = {"core_start": 6, "core_end": 18, "num_passes": 3, "gate_rank": 64}
    text = {"model_type": "inkling2_loop_text", "loop_config": loop}
    assert of(model_type="inkling2_loop", text_config=text) == of(model_type="inkling2_loop_text")


def test_the_published_model_is_that_of_the_catalogue():
    read, listed = of(model_type="inkling2_loop_text"), architecture("inkling-2-mini")
    assert read.decoder.variants == listed.decoder.variants
    assert read.decoder.streams == listed.decoder.streams
    assert read.head == listed.head
    # Inkling2LoopForCausalLM of transformers 5.24 on the meta device, and what its routers are corrected by, a buffer.
    assert cost(read, batch=1, length=8).params.total == 26_068_156_416 + 24 * 128


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"loop_layer_index_start": 0}, "from 1"),
        ({"loop_layer_index_end": 5}, "whole blocks"),
        ({"n_layers_per_attn_res_block": 2}, "whole blocks"),
        ({"loop_num_passes": 1}, "twice"),
        ({"unpadded_vocab_size": 54}, "at most"),
        ({"loop_config": {"core_first": 2}}, "core_first"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"scoring_func": "softmax"}, "scoring_func"),
    ],
)
def test_what_would_be_computed_otherwise_is_refused(keys, why):
    with pytest.raises(HuggingFaceError, match=why):
        of(**{**SIZES, **keys})
