"""What a tower of images in tiles owes: plain loops, costs, rows alone, decoding."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from naive import images as naive
from torch.utils.flop_counter import FlopCounterMode
from zoo_images import CLIP, IN_TILES, TILED

from anyformer.describe import DescriptionError, InputError, diff, from_toml, to_toml
from anyformer.model import Architecture
from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.parts import SquaresProjector, Tiles, TwoLayerProjector
from anyformer.testing.models import evaluated

every = pytest.mark.parametrize("architecture", IN_TILES.values(), ids=IN_TILES)
SIDES = (9, 3), (3, 9), (8, 8)
"""Heights and widths: with borders at the sides, above and below, and without."""


def given(tower, dtype=torch.float32):
    """A row with three images of 2 x 2 tiles, and the images."""
    generator = torch.Generator().manual_seed(4)
    shape = 5, tower.patches.channels, tower.image, tower.image
    images = tuple(Tiles(torch.randn(shape, generator=generator, dtype=dtype), 2, 2, *sides) for sides in SIDES)
    first, second, third = ([tower.token] * size for size in tower.sizes(images))
    return [5, *first, *second, 6, *third, 7, 8], images


@every
def test_outputs_and_gradients_are_those_of_plain_loops(architecture):
    model = evaluated(architecture, dtype=torch.float64)
    row, images = given(architecture.images, torch.float64)
    ours = model(torch.tensor([row]), images=images)[0]
    direction = torch.randn(ours.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    (ours * direction).sum().backward()
    weights = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
    theirs = naive.forward(architecture, weights, row, images)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    (theirs * direction).sum().backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, weights[name].grad, rtol=1e-3, atol=5e-5, msg=name)


@every
def test_declared_weights_and_flops_are_those_of_the_module(architecture):
    declared = {name: weight.shape for name, weight in architecture.cost(Shape()).weights.items()}
    model = build(architecture, device="meta").eval()
    assert declared == {name: tuple(p.shape) for name, p in model.named_parameters()}
    tokens, images = architecture.images.example(torch.ones(2, 4, dtype=torch.int64))
    assert (tokens == architecture.images.token).sum() == 2 * architecture.images.tokens
    with FlopCounterMode(display=False) as counter:
        model(tokens.to("meta"), images=tuple(image.to("meta") for image in images))
    shape = Shape(batch=2, length=tokens.shape[1], images=1)
    assert architecture.cost(shape).total_flops.dense == counter.get_total_flops()
    assert diff(from_toml(Architecture, to_toml(architecture)), architecture) == []


@every
def test_images_alone_and_with_a_state(architecture):
    """Two rows, of which one is padded, and an image in each of two chunks."""
    model = evaluated(architecture)
    row, images = given(architecture.images)
    cut = 1 + architecture.images.sizes(images)[0]
    tokens = torch.tensor([[4, 4, *row], [*row, 4, 4]])
    padding = torch.tensor([[True] * 2 + [False] * len(row), [False] * (len(row) + 2)])
    with torch.no_grad():
        alone = model(torch.tensor([row]), images=images)
        both = model(tokens, images=images * 2, padding=padding)
        state = model.state(1, len(row))
        chunks = [model(torch.tensor([row[:cut]]), images=images[:1], state=state)]
        chunks.append(model(torch.tensor([row[cut:-1]]), images=images[1:], state=state))
        chunks.append(model(torch.tensor([row[-1:]]), state=state))
    torch.testing.assert_close(both[:1, 2:], alone, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(both[1:, :-2], alone, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(torch.cat(chunks, 1), alone, rtol=1e-4, atol=1e-5)


def test_what_does_not_fit_is_refused():
    for changes, message in (
        ({"skipped": 0}, "set skipped = 1 and a projector"),
        ({"projector": SquaresProjector(inner=TwoLayerProjector())}, "set skipped = 1 and a projector"),
        ({"image": 1}, "have no patch of 2"),
    ):
        with pytest.raises(DescriptionError, match=message):
            TILED.but(**changes)
    row, images = given(TILED)
    text = build(IN_TILES["tiles"])
    thin = replace(images[0], height=1000, width=1)
    for wrong, message in (
        ((), "no image among images"),
        ((images[0].pixels,), "number 0 is Tensor"),
        ((replace(images[0], rows=3),), r"shape \(7, 3, 4, 4\)"),
        ((images[0].to(torch.int64),), "real numbers, and number 0 is torch.int64"),
        ((thin,), "1000 x 1 pixels in 2 x 2 tiles are empty"),
        (images[:2], "2 images take"),
    ):
        with pytest.raises(InputError, match=message):
            text(torch.tensor([row]), images=wrong)
    assert TILED.patches == CLIP.patches
