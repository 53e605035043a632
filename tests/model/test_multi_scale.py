"""Maps of several sizes that read each other: against plain loops, priced, built, refused."""

from __future__ import annotations

import math

import pytest
import torch
from naive import basics as naive_basics
from naive import stack as naive_stack
from torch.utils.flop_counter import FlopCounterMode

from anyformer.describe import DescriptionError, InputError, from_toml, to_toml
from anyformer.model import MultiScale
from anyformer.model.initialise import materialise
from anyformer.parts import (
    BatchNorm,
    ChannelCrossAttention,
    CrossAttention,
    FeedForward,
    LayerNorm,
    LearnedPosition,
    SpatialCrossAttention,
    pre_norm,
    residual,
    stack,
)
from anyformer.parts.call.noise import Noise
from anyformer.plan import Plan

B, CHANNELS = 2, (3, 9, 6)
# Larger than the grid, not square, and smaller than the grid.
SIZES = ((7, 9), (5, 4), (2, 1))
CHANNEL, SPATIAL = ChannelCrossAttention(scales=CHANNELS), SpatialCrossAttention(scales=CHANNELS, heads=3)
DUAL = MultiScale(channels=CHANNELS, grid=3, encoder=stack([residual(CHANNEL, SPATIAL)] * 2))


def maps(dtype: torch.dtype = torch.float64, channels=CHANNELS, sizes=SIZES, rows: int = B) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(rows, c, *size, dtype=dtype, generator=generator) for c, size in zip(channels, sizes, strict=True)]


def loud(description: MultiScale):
    """The module in float64 with weights that are nowhere 0 or 1."""
    module, generator = description.build(dtype=torch.float64), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            near = 1.0 if name.endswith("running_variance") else 0.0
            parameter.copy_(near + 0.5 * torch.rand(parameter.shape, dtype=torch.float64, generator=generator))
    return module


def pooled(x, grid):
    """(D, h, w) -> the mean over each of P * P cells, row by row; cells overlap where P does not divide the size."""
    _, h, w = x.shape
    cell = lambda i, size: slice(i * size // grid, -(-(i + 1) * size // grid))  # noqa: E731
    means = []
    for i in range(grid):
        for j in range(grid):
            piece = x[:, cell(i, h), cell(j, w)]
            means.append(piece.sum((1, 2)) / (piece.shape[1] * piece.shape[2]))
    return means


def upsampled(tokens, grid, h, w):
    """P * P vectors -> the vectors at each of h * w places; the corners are those of the grid."""

    def at(i, size):
        place = i * (grid - 1) / (size - 1) if size > 1 else 0.0
        low = min(math.floor(place), grid - 1)
        return low, min(low + 1, grid - 1), place - low

    out = []
    for i in range(h):
        a, b, s = at(i, h)
        for j in range(w):
            c, d, t = at(j, w)
            top = (1 - t) * tokens[a * grid + c] + t * tokens[a * grid + d]
            bottom = (1 - t) * tokens[b * grid + c] + t * tokens[b * grid + d]
            out.append((1 - s) * top + s * bottom)
    return out


def naive(description: MultiScale, weights, given, training: bool):
    """From the formulas, in the paper's order: pool, read each other, upsample, convolve, add, normalise, rectify."""
    starts = [sum(description.channels[:i]) for i in range(len(description.channels))]
    read = []
    for row in range(len(given[0])):
        pieces = []
        for i, x in enumerate(given):
            at = f"scales.{i}.embed"
            pieces.append([weights[f"{at}.weight"] * v + weights[f"{at}.bias"] for v in pooled(x[row], description.grid)])
        tokens = [torch.cat(vectors) for vectors in zip(*pieces, strict=True)]
        read.append(naive_stack.run_stack(description.encoder, "encoder", weights, tokens, None, 0, None))
    out = []
    for i, x in enumerate(given):
        h, w = x.shape[2:]
        start, own, at = starts[i], description.channels[i], f"scales.{i}"
        added = []
        for row, tokens in enumerate(read):
            places = upsampled([v[start : start + own] for v in tokens], description.grid, h, w)
            convolved = [naive_basics.linear(f"{at}.output", weights, v) for v in places]
            added.append(x[row] + torch.stack(convolved, 1).view(own, h, w))
        y = torch.stack(added)
        channels = []
        for c in range(own):
            mean, variance = weights[f"{at}.norm.running_mean"][c], weights[f"{at}.norm.running_variance"][c]
            if training:
                mean = y[:, c].mean()
                variance = ((y[:, c] - mean) ** 2).mean()
            z = (y[:, c] - mean) / torch.sqrt(variance + description.norm.eps)
            z = z * weights[f"{at}.norm.weight"][c] + weights[f"{at}.norm.bias"][c]
            channels.append(torch.where(z > 0, z, 0.0))
        out.append(torch.stack(channels, 1))
    return out


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("grid", [1, 3])
def test_plain_loops_agree_in_outputs_and_gradients(grid, training):
    description = DUAL.but(grid=grid)
    module = loud(description).train(training)
    weights = {name: p.detach().clone().requires_grad_(p.requires_grad) for name, p in module.named_parameters()}
    ours, theirs = ([x.requires_grad_() for x in maps()] for _ in range(2))
    y, z = module(ours), naive(description, weights, theirs, training)
    generator, total = torch.Generator().manual_seed(3), 0.0
    for a, b in zip(y, z, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)  # norms inside the stack take statistics in fp32
        total = total + ((a + b) * torch.randn(a.shape, dtype=torch.float64, generator=generator)).sum()
    total.backward()
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5, msg=lambda m, i=i: f"map {i}: {m}")
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, f"{name} gets no gradient"
            torch.testing.assert_close(
                parameter.grad, weights[name].grad, rtol=1e-4, atol=1e-5, msg=lambda m, name=name: f"{name}: {m}"
            )


@pytest.mark.parametrize("training", [False, True])
def test_any_sizes_keep_their_shapes(training):
    module = DUAL.build().train(training)
    for sizes in (SIZES, ((3, 3),) * 3, ((1, 1), (16, 2), (8, 8))):
        given = maps(torch.float32, sizes=sizes)
        assert [y.shape for y in module(given)] == [x.shape for x in given]


def test_every_map_reads_every_other():
    module, given = DUAL.build().eval(), maps(torch.float32)
    before = module(given)
    for i in range(len(given)):
        changed = [x + 1.0 * torch.randn_like(x) if i == j else x for j, x in enumerate(given)]
        for j, (a, b) in enumerate(zip(before, module(changed), strict=True)):
            assert (a - b).abs().max() > 1e-5, f"map {j} does not read map {i}"


def test_declared_weights_are_the_modules_parameters():
    module = DUAL.build(device="meta")
    declared = DUAL.cost().weights
    assert {n: tuple(p.shape) for n, p in module.named_parameters()} == {n: w.shape for n, w in declared.items()}
    assert not list(module.buffers())


@pytest.mark.parametrize("kernel", ["plain", "sdpa"])
def test_declared_flops_are_the_counted_ones(kernel):
    block = residual(CHANNEL.but(heads=3), SPATIAL, FeedForward(width=20))
    description = DUAL.but(encoder=stack([block] * 2), grid=5)
    module = description.build(Plan(attention=kernel), device="meta")
    with FlopCounterMode(display=False) as counter:
        module([x.to("meta") for x in maps(torch.float32)])
    assert description.cost(batch=B).total_flops.dense == counter.get_total_flops()


def test_meta_then_materialise_equals_building():
    direct, late = DUAL.build(seed=5), materialise(DUAL.build(device="meta"), "cpu", seed=5)
    for (n, a), (m, b) in zip(direct.named_parameters(), late.named_parameters(), strict=True):
        assert n == m
        assert torch.equal(a, b)
    assert not torch.equal(direct.scales[0].output.weight, DUAL.build(seed=6).scales[0].output.weight)


def test_the_description_survives_text():
    assert from_toml(MultiScale, to_toml(DUAL)) == DUAL


def test_dropout_is_a_function_of_the_noise():
    description = DUAL.but(encoder=stack([residual(CHANNEL, SPATIAL, dropout=0.5)]))
    module, given = description.build().train(), maps(torch.float32)
    noise, other = (Noise.at(0, step, torch.arange(B)) for step in range(2))
    assert torch.equal(module(given, noise=noise)[0], module(given, noise=noise)[0])
    assert not torch.equal(module(given, noise=noise)[0], module(given, noise=other)[0])
    assert not torch.equal(module(given)[0], module(given)[0])


def test_bf16_stays_near_fp32():
    module, given = DUAL.build().eval(), maps(torch.float32)
    exact = module(given)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under_autocast = module(given)
    narrow = module.to(torch.bfloat16)([x.bfloat16() for x in given])
    for a, b, c in zip(exact, under_autocast, narrow, strict=True):
        assert (a - b.float()).norm() / a.norm() < 0.02
        assert c.dtype == torch.bfloat16
        assert (a - c.float()).norm() / a.norm() < 0.02


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (maps()[:2], r"maps should be 3, one per number of channels = \[3, 9, 6\], got 2"),
        (maps(channels=(3, 5, 6)), r"map 1 should have shape \(B, 9, h, w\), got \(2, 5, 5, 4\)"),
        ([x.flatten(2) for x in maps()], r"map 0 should have shape \(B, 3, h, w\), got \(2, 3, 63\)"),
        ([*maps()[:2], maps(rows=3)[2]], "batch of map 0, 2 rows, got 3 in map 2"),
    ],
)
def test_maps_that_do_not_fit_are_refused(given, words):
    with pytest.raises(InputError, match=words):
        DUAL.build()(given)


@pytest.mark.parametrize(
    ("describe", "words"),
    [
        (lambda: DUAL.but(channels=(3, 9)), r"encoder.layer.channel_cross_attention.*together 18, and width = 12"),
        (lambda: DUAL.but(channels=()), "channels"),
        (lambda: DUAL.but(encoder=stack([pre_norm(LayerNorm(), CrossAttention(heads=2))])), "no other sequence"),
        (
            lambda: DUAL.but(encoder=stack([residual(SPATIAL)], position=LearnedPosition(length=8))),
            "table ends at 8, and a grid of 3 has 9",
        ),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(describe, words):
    with pytest.raises(DescriptionError, match=words):
        describe()


def test_running_statistics_are_those_of_the_maps():
    module = DUAL.but(norm=BatchNorm(momentum=1.0)).build(dtype=torch.float64).train()
    given = maps()
    trained = module(given)
    evaluated = module.eval()(given)
    for x, a, b in zip(given, trained, evaluated, strict=True):
        count = x.numel() // x.shape[1]  # torch's running variance is the unbiased one
        torch.testing.assert_close(b, a * math.sqrt((count - 1) / count), rtol=1e-4, atol=1e-4)
