"""A Perceiver's read against the published implementation: both the latents and the input are normalised before attention."""

from __future__ import annotations

import pytest
import torch
from transformers import PerceiverConfig
from transformers.models.perceiver.modeling_perceiver import PerceiverLayer

from anyformer.catalogue import architecture
from anyformer.operations import Shape
from anyformer.parts.call.context import Context
from anyformer.plan import Plan
from anyformer.resizing.tiny import tiny

LATENTS, INPUTS = 5, 9


def both():
    """The published layer, and the catalogue's first read of the same width with its weights."""
    block = tiny(architecture("perceiver-imagenet")).decoder.variants["first_read"]
    width = block.branches["feedforward"].sublayer.width
    theirs = PerceiverLayer(
        PerceiverConfig(attention_probs_dropout_prob=0.0, layer_norm_eps=1e-5), is_cross_attention=True, qk_channels=width,
        v_channels=width, num_heads=1, q_dim=width, kv_dim=width, widening_factor=1,
    ).double()  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    for weight in theirs.parameters():
        torch.nn.init.normal_(weight, std=0.5, generator=generator)
    names = {
        "cross_attention.norm_before": "attention.self.layernorm1",
        "cross_attention.sublayer.source_norm": "attention.self.layernorm2",
        "cross_attention.sublayer.query": "attention.self.query",
        "cross_attention.sublayer.key": "attention.self.key",
        "cross_attention.sublayer.value": "attention.self.value",
        "cross_attention.sublayer.output": "attention.output.dense",
        "feedforward.norm_before": "layernorm",
        "feedforward.sublayer.up": "mlp.dense1",
        "feedforward.sublayer.down": "mlp.dense2",
    }
    kinds = ("weight", "bias")
    weights = {f"{own}.{kind}": theirs.get_parameter(f"{other}.{kind}") for own, other in names.items() for kind in kinds}
    ours = block.build(width, Plan(), "block").double()
    ours.load_state_dict(weights)
    return ours.eval(), theirs.eval(), width


def test_a_read_is_the_published_one():
    ours, theirs, width = both()
    latents, inputs = (torch.randn(2, n, width, dtype=torch.float64) for n in (LATENTS, INPUTS))
    context = Context(torch.arange(LATENTS)[None], Plan(), source=3 * inputs + 1)
    torch.testing.assert_close(ours(latents, context), theirs(latents, inputs=3 * inputs + 1)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["perceiver-imagenet", "perceiver-imagenet --tiny"])
def test_every_read_of_the_catalogue_has_a_norm_of_its_own_for_the_input(name):
    made = architecture("perceiver-imagenet")
    made = tiny(made) if "tiny" in name else made
    weights = made.cost(Shape(source=4, length=4)).weights
    reads = {path.rsplit(".", 3)[0] for path in weights if ".cross_attention.sublayer.key." in path}
    norms = {path.rsplit(".", 3)[0] for path in weights if ".cross_attention.sublayer.source_norm." in path}
    assert reads == norms
    assert len(reads) == 2, "the first read, and the one that all others share"


def test_reading_without_the_norm_gives_something_else():
    ours, _, width = both()
    latents, inputs = (torch.randn(2, n, width, dtype=torch.float64) for n in (LATENTS, INPUTS))
    context = Context(torch.arange(LATENTS)[None], Plan(), source=3 * inputs + 1)
    before = ours(latents, context)
    ours.cross_attention.sublayer.source_norm = torch.nn.Identity()
    assert (ours(latents, context) - before).abs().max() > 0.01
