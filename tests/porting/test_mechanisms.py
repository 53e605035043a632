"""What layers have in some places alone, and what stands in the slots of attention and of experts: hidden types, ported."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from anyformer.describe import get
from anyformer.huggingface.rules import Rows, Then, To, Transposed
from anyformer.model import decoder_only
from anyformer.parts import Attention, Embedding, Experts, FeedForward, Head, RMSNorm, Rotary, pre_norm
from anyformer.porting import proposal
from anyformer.porting.mixtures import _sides_with_bias, _stacked
from anyformer.porting.norm_places import like_norm
from anyformer.porting.reference import TinyReference
from anyformer.porting.some_layers import DenseLayers, PutLayers
from anyformer.porting.tensors import modules_of
from anyformer.porting.unread import unread
from porting.hidden import tiny, without

LATENT = {"kv_lora_rank": 10, "q_lora_rank": 8, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 7}
ROUTED = {"n_routed_experts": 6, "n_group": 3, "topk_group": 2, "num_experts_per_tok": 2, "moe_intermediate_size": 12}
AXK1 = {**LATENT, **ROUTED, "num_key_value_heads": 4, "num_hidden_layers": 3, "mlp_layer_types": ["dense", "sparse", "sparse"]}
BLOOM = {"n_layer": 2, "n_head": 4, "num_key_value_heads": None, "intermediate_size": None, "max_position_embeddings": None}
PHIMOE = {"num_local_experts": 5, "num_experts_per_tok": 2, "router_jitter_noise": 0.4}
T5 = {"d_model": 24, "d_ff": 40, "d_kv": 6, "num_layers": 4, "num_heads": 4, "decoder_start_token_id": 0}


@pytest.mark.parametrize(
    ("model_type", "task", "among", "more", "says"),
    [
        ("axk1", "CausalLM", ["sarvam_mla"], AXK1, "experts norm after in 2 of 3 layers"),
        ("bloom", "CausalLM", ["gpt_bigcode"], BLOOM, "slopes of distances (ALiBi)"),
        ("phimoe", "CausalLM", ["olmoe"], PHIMOE, "experts chosen one after the other, margin 0.8"),
        ("gte", "MaskedLM", ["camembert"], {}, "networks have a gate, in one tensor with up"),
        ("t5", "Seq2SeqLM", ["switch_transformers"], T5, "no experts: a network in every layer"),
    ],
)
def test_a_mechanism_of_some_layers_or_slots_is_found(model_type, task, among, more, says, tmp_path):
    directory = tiny(model_type, tmp_path / "model", task, **more)
    with without(model_type):
        found = proposal(directory, "transformers", among=among)
    assert found.proof.equal, (found.proof.first, found.proof.failed, found.fit.left, found.fit.missing)
    assert any(says in reason for reason in (*found.certain, *found.guessed))


EXPERTS = Experts(experts=4, chosen=2, width=24, activation="gelu", gated=False, bias=("up", "down"))
BLOCK = pre_norm(RMSNorm(), Attention(heads=2, place=Rotary()), EXPERTS)
SPARSE = decoder_only(Embedding(vocab=31), 16, [BLOCK] * 3, final_norm=RMSNorm(), head=Head())


def test_a_value_is_put_into_some_layers_alone():
    made = PutLayers((0, 2), "attention.rotary", None)(SPARSE)
    blocks = [made.decoder.variants[name] for name in made.decoder.layers]
    assert [get(block, "attention.rotary") is None for block in blocks] == [True, False, True]
    # A second change of other layers leaves the first as it is, and a path that no block has changes nothing.
    again = PutLayers((1, 2), "attention.kv_heads", 1)(made)
    blocks = [again.decoder.variants[name] for name in again.decoder.layers]
    assert [(get(block, "attention.rotary") is None, get(block, "attention.kv_heads")) for block in blocks] == [
        (True, None), (False, 1), (True, 1),
    ]  # fmt: skip
    assert PutLayers((0,), "feedforward.width", 3)(SPARSE).decoder.layers[1:] == SPARSE.decoder.layers[1:]
    assert PutLayers((0,), "attention.rotary", None, "encoder")(SPARSE) == SPARSE


def test_layers_without_experts_have_a_network_of_one():
    made = DenseLayers()(SPARSE)
    (block,) = made.decoder.variants.values()
    assert get(block, "feedforward.sublayer") == FeedForward(width=24, activation="gelu", gated=False, bias=("up", "down"))
    assert "experts" not in block.branches


def test_biases_of_stacked_experts_are_found_with_their_side():
    sides = {"gate_up_proj": (5, 32, 24), "gate_up_proj_bias": (5, 24), "down_proj": (5, 12, 32), "down_proj_bias": (5, 32)}
    modules = modules_of({f"model.layers.{i}.mlp.experts.{name}": shape for i in range(2) for name, shape in sides.items()})
    lines, width = _stacked([*modules.values()], 5, 32)
    name = "model.layers.{i}.mlp.experts"
    assert width == 12
    assert lines == {
        "experts.down": To(f"{name}.down_proj", Transposed()),
        "experts.down_bias": f"{name}.down_proj_bias",
        ("experts.gate", "experts.up"): To(f"{name}.gate_up_proj", Then(Transposed(), Rows(1))),
        ("experts.gate_bias", "experts.up_bias"): To(f"{name}.gate_up_proj_bias", Rows(1)),
    }
    assert _sides_with_bias(lines) == ("gate", "up", "down")


def test_short_names_of_norms_are_known():
    names = ["emb_ln", "h.{i}.ln_1", "h.{i}.ln2", "x.LayerNorm", "h.{i}.vln_x", "attn.kernel"]
    assert [like_norm(name) for name in names] == [True, True, True, True, False, False]


class Quantised(nn.Module):
    """Logits of a table, with a weight and two buffers in a layer, of which the logits follow from one buffer alone."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(31, 16)
        self.layers = nn.ModuleList([nn.Linear(16, 16) for _ in range(2)])
        for layer in self.layers:
            layer.register_buffer("step", torch.ones(1))
            layer.register_buffer("slope", torch.ones(16))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.table(tokens)
        for layer in self.layers:
            hidden = hidden * layer.slope
        return hidden @ self.table.weight.T


def test_of_layers_buffers_alone_may_go_without_a_place(tmp_path):
    model = Quantised()
    modules = modules_of({name: tuple(tensor.shape) for name, tensor in model.state_dict().items()})
    found = unread(TinyReference("x", model, tmp_path, {}), SPARSE, modules.values())
    assert {each.name for each in found} == {"layers.{i}.step"}
