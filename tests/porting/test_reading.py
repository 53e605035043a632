"""What is read before anything is proposed: names and shapes, meanings of names, keys, code that is never run."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import save_file

from anyformer.describe import UserError
from anyformer.porting.code import read_code
from anyformer.porting.keys import alike, dropped, known, respelt
from anyformer.porting.reference import shrunk
from anyformer.porting.roles import likeness, meanings
from anyformer.porting.tensors import count, modules_of, pattern_of, shapes_in


@pytest.mark.parametrize(
    ("module", "pattern", "layer", "expert"),
    [
        ("model.layers.11.self_attn.q_proj", "model.layers.{i}.self_attn.q_proj", 11, -1),
        ("h.0.moe.experts.7.w1", "h.{i}.moe.experts.{x}.w1", 0, 7),
        ("encoder.block.3.layer.1.SelfAttention.q", "encoder.block.{i}.layer.1.SelfAttention.q", 3, -1),
        ("lm_head", "lm_head", -1, -1),
        ("experts.2.up", "experts.{x}.up", -1, 2),
    ],
)
def test_the_first_number_is_the_layer_and_one_behind_experts_is_theirs(module, pattern, layer, expert):
    assert pattern_of(module) == (pattern, layer, expert)


def test_modules_hold_their_leaves_by_layer_and_expert(tmp_path):
    tensors = {f"layers.{i}.mlp.experts.{x}.up.weight": torch.zeros(4, 3) for i in (1, 2) for x in range(3)}
    tensors |= {"layers.0.q.weight": torch.zeros(2, 3), "layers.0.q.bias": torch.zeros(2), "scale": torch.zeros(5)}
    save_file(tensors, tmp_path / "model.safetensors")
    modules = modules_of(shapes_in(tmp_path))
    up = modules["layers.{i}.mlp.experts.{x}.up"]
    assert (up.layers, up.shape, len(up.leaves["weight"][1])) == ({1, 2}, (4, 3), 3)
    assert set(modules["layers.{i}.q"].leaves) == {"weight", "bias"}
    assert modules["scale"].main == ""
    assert count(modules.values()) == len(tensors)


def test_an_index_alone_gives_names_without_shapes(tmp_path):
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a.weight": "one.safetensors"}}))
    assert shapes_in(tmp_path) == {"a.weight": None}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": ["a"]}))
    with pytest.raises(UserError, match="weight_map should be a table"):
        shapes_in(tmp_path)


def test_names_of_one_meaning_are_alike_and_others_are_not():
    assert meanings("transformer.h.{i}.attn.c_proj") == ("attention", "output")
    assert meanings("transformer.h.{i}.mlp.c_proj") == ("network", "down")
    assert meanings("model.layers.{i}.block_sparse_moe.gate") == ("experts", "router")
    assert likeness("layers.{i}.attn.wq", "model.layers.{i}.self_attn.q_proj") > 0.9
    assert likeness("model.layers.{i}.input_layernorm", "model.layers.{i}.self_attn.q_norm") < 0.2
    assert likeness("a.k_proj", "a.v_proj") < likeness("a.k_proj", "b.wk")


def test_keys_of_one_thing_stand_for_each_other():
    assert alike("n_embd", "hidden_size")
    assert not alike("n_embd", "n_layer")
    table = {"n_embd": 8, "rotary_base": 1e4, "hidden_size": None, "mystery": 3}
    assert respelt({"hidden_size", "rope_theta", "vocab_size"}, table, table) == {
        "hidden_size": "n_embd",
        "rope_theta": "rotary_base",
    }
    assert [known(key) for key in ("rms_norm_eps", "bos_token_id", "mystery")] == [True, True, False]
    assert [dropped(key) for key in ("attn_pdrop", "layer_types")] == [True, False]


def test_a_large_configuration_becomes_tiny_and_keeps_its_proportions():
    large = {
        "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 40,
        "vocab_size": 128_000,
        "layer_types": ["a", "b"] * 20, "eos_token_id": 127_000, "intermediate_size": 14_336,
    }  # fmt: skip
    small = shrunk(large)
    assert small["num_attention_heads"] / small["num_key_value_heads"] == 4
    assert small["layer_types"] == ["a", "b", "a", "b"]
    assert (small["num_hidden_layers"], small["eos_token_id"]) == (4, 0)
    assert shrunk({**large, "hidden_size": 64}) == {}


def test_code_is_read_with_its_lines_and_what_cannot_be_read_is_named(tmp_path):
    (tmp_path / "modeling_x.py").write_text(
        "import os\nos._exit(3)\n"
        "class A:\n    def __init__(self, config):\n        self.a = config.mystery\n"
        "        self.b = getattr(config, 'other', 1)\n        self.c = self.config['third']\n"
        "        self.d = cfg.get('fourth')\n"
    )
    (tmp_path / "modeling_y.py").write_text("def f(:\n")
    (tmp_path / "modeling_z.py").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "deep.py").write_text("x = " + "(" * 5000 + ")" * 5000)
    code = read_code(tmp_path)
    assert {key: [use.line for use in code.of(key)] for key in ("mystery", "other", "third", "fourth", "none")} == {
        "mystery": [5], "other": [6], "third": [7], "fourth": [8], "none": [],
    }  # fmt: skip
    assert str(code.of("mystery")[0]) == "modeling_x.py:5: self.a = config.mystery"
    assert {"modeling_y.py", "modeling_z.py", "deep.py"} == set(code.unread)
