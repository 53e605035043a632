"""Attention residuals, against transformers' Inkling 2, and against lists of what the steps left."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from transformers.models.inkling2.modeling_inkling2 import Inkling2BlockAttentionResidual

import anyformer as af
from anyformer.catalogue.columns import columns
from anyformer.describe import DescriptionError, Named, change_all
from anyformer.model import decoder_only
from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.parts import (
    Attention,
    AttentionResiduals,
    Block,
    Embedding,
    FeedForward,
    Head,
    HyperConnections,
    LoopedResiduals,
    Projection,
    RMSNorm,
    SideInputs,
    Stack,
    pre_norm,
)
from anyformer.parts.layers.attention_residuals_module import DepthAttention
from anyformer.plan import Plan
from anyformer.planning.staged import Staged

D, DEPTH = 16, 3
LAYER = pre_norm(RMSNorm(), Attention(heads=2), FeedForward(width=24))
ONE_STEP = Block(steps=LAYER.steps[:1])


def model_of(streams: AttentionResiduals, depth: int = DEPTH) -> af.Architecture:
    plain = decoder_only(Embedding(vocab=17), D, [LAYER] * depth, final_norm=RMSNorm(), head=Head())
    return plain.but(decoder=plain.decoder.but(streams=streams))


def drawn(model: nn.Module) -> nn.Module:
    """With queries that are not zero."""
    made = torch.Generator().manual_seed(7)
    for name, weight in model.named_parameters():
        if name.endswith("query.weight") and len(weight) == 1:
            nn.init.normal_(weight, generator=made)
    return model


def tokens(rows: int = 2, length: int = 9) -> Tensor:
    return torch.randint(0, 17, (rows, length), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("standing", [1, 2, 5])
def test_a_step_reads_what_inkling_reads(standing, queries):
    theirs = Inkling2BlockAttentionResidual(SimpleNamespace(hidden_size=D), queries)
    part = AttentionResiduals(norm=RMSNorm(gain="none"), values="normed", scale=D**-0.5)
    ours, x = DepthAttention(part, D, queries), torch.randn(2, 5, standing, D)
    nn.init.normal_(theirs.query)
    with torch.no_grad():
        ours.query.weight.copy_(theirs.query.view(queries, D))
    for own, other in zip(ours.mixed(x), theirs(x[:, :, :-1], x[:, :, -1]), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("block", "count"), [(1, 7), (2, 4), (4, 3), (6, 2), (9, 2)])
def test_the_values_are_those_of_lists(block, count):
    """A list of whole blocks and a sum that goes on, as the paper's pseudo-code has them."""
    model = drawn(build(model_of(AttentionResiduals(block=block, count=count)), seed=1))
    stack = model.decoder
    context = model_context(model)
    blocks, partial, number = [], model.embedding(tokens()), 0
    for layer in stack.layers:
        for i, name in enumerate(("attention", "feedforward")):
            reader = getattr(layer, f"step_{i}_streams")
            standing = torch.stack([*blocks, partial], 2)
            h = reader.mixed(standing)[0] if number else partial
            if number % block == 0:
                blocks.append(partial)
                partial = torch.zeros_like(h)
            partial = partial + getattr(layer, name)(h, context, None)
            number += 1
    h = stack.streams.leave.mixed(torch.stack([*blocks, partial], 2))[0]
    torch.testing.assert_close(model(tokens()), model.head(stack.final_norm(h)), rtol=1e-4, atol=1e-4)


def model_context(model):
    """The context that the layers of a call get."""
    found = []
    hook = model.decoder.layers[0].register_forward_hook(lambda _, given, __: found.append(given[1]))
    model(tokens())
    hook.remove()
    return found[0]


def test_queries_of_zero_take_the_mean_of_what_stands():
    attention = build(model_of(AttentionResiduals(count=7)), seed=0).decoder.layers[1].step_0_streams
    x = torch.randn(1, 2, 7, D)
    torch.testing.assert_close(attention.entered(x, 0)[0][0], x[:, :, :3].mean(2))


def test_each_step_costs_what_it_reads():
    """A query, a norm and two products with n values, and none in the first step."""
    sheet = model_of(AttentionResiduals(block=2, count=4)).cost(Shape(batch=2, length=5), Plan())
    queries = {name for name in sheet.weights if name.endswith("streams.query.weight")}
    assert len(queries) == 2 * DEPTH - 1
    for layer, step, standing in [(0, 1, 2), (1, 0, 2), (1, 1, 3), (2, 0, 3), (2, 1, 4)]:
        at = f"decoder.layers.{layer}.step_{step}_streams."
        assert sheet.flops[f"{at}query"].dense == sheet.flops[f"{at}mix"].dense == 2 * 10 * standing * D
    assert sheet.flops["decoder.streams.leave.mix"].dense == 2 * 10 * 4 * D


def test_sides_that_read_for_themselves_cost_three_queries():
    attention = Attention(heads=2, project=Projection(adjust=SideInputs(norm=RMSNorm())))
    sided = change_all(pre_norm(RMSNorm(), attention, FeedForward(width=24)), {"attention.norm_before": None})
    made = model_of(AttentionResiduals(block=2, count=4))
    sheet = change_all(made, {"decoder.variants": {"layer": sided.plain()}}).cost(Shape(batch=2, length=5), Plan())
    assert sheet.weights["decoder.layers.1.step_0_streams.query.weight"].shape == (3, D)
    assert sheet.flops["decoder.layers.1.step_0_streams.query"].dense == 3 * 2 * 10 * 2 * D
    assert sheet.flops["decoder.layers.1.step_1_streams.query"].dense == 2 * 10 * 3 * D


def test_sides_have_nothing_to_read_without_depth():
    attention = Attention(heads=2, project=Projection(adjust=SideInputs(norm=RMSNorm())))
    layer = pre_norm(RMSNorm(), attention, FeedForward(width=24))
    with pytest.raises(DescriptionError, match="set streams to attention_residuals"):
        Stack(variants=Named(layer=layer), order="layer*2")
    with pytest.raises(DescriptionError, match="take side_inputs out"):
        Stack(variants=Named(layer=layer), order="layer*2", streams=HyperConnections())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"count": 5}, "set streams.count = 4"),
        ({"passes": 3}, "too few"),
        ({"block": 3}, "whole layers"),
        ({"shared": ()}, "name these in shared_weights"),
    ],
)
def test_loops_that_do_not_fit_are_refused(change, reason):
    fields = {"block": 2, "before": 1, "looped": 1, "passes": 2, "count": 4, "shared": ("inner",), **change}
    shared = fields.pop("shared")
    streams = LoopedResiduals(**fields)
    with pytest.raises(DescriptionError, match=reason):
        Stack(variants=Named(first=LAYER, inner=LAYER), order="first inner*2", streams=streams, shared_weights=shared)


@pytest.mark.parametrize("how", ["full", "selective"])
def test_layers_are_computed_again(how):
    gradients = []
    for plan in (Plan(), Plan(checkpointing=how)):
        model = drawn(build(model_of(AttentionResiduals(block=2, count=4)), plan, seed=2))
        model(tokens()).square().sum().backward()
        gradients.append([weight.grad for weight in model.parameters()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"streams": AttentionResiduals(count=4)}, r"the input and 4 steps in blocks of 1 are 5 values: set streams.count = 5"),
        ({"variants": Named(layer=LAYER, half=ONE_STEP), "order": "layer half"}, "give all layers as many"),
        ({"shared_weights": ("layer",)}, "leave shared_weights out"),
    ],
)
def test_layers_that_do_not_go_with_them_are_refused(change, reason):
    fields = {"variants": Named(layer=LAYER), "order": "layer*2", "streams": AttentionResiduals(count=5), **change}
    with pytest.raises(DescriptionError, match=reason):
        Stack(**fields)


def test_tables_name_them():
    assert "attention residuals" in columns(model_of(AttentionResiduals(count=7))).stability


def test_stages_of_a_pipeline_pass_all_values_on():
    """Layers are run in parts, and the last stage alone learns how the values become one."""
    model = drawn(build(model_of(AttentionResiduals(block=2, count=4)), seed=2))
    whole = model(tokens())
    model.decoder.relay = lambda run, x, context: run(range(1, DEPTH), run(range(1), x).clone())
    torch.testing.assert_close(model(tokens()), whole)
    staged = Staged(model_of(AttentionResiduals(block=2, count=4)), 2)
    assert staged.learning("decoder.streams.leave.query.weight") == {1}
    assert staged.stage_of("decoder.layers.2.step_0_streams.query.weight") == 1
