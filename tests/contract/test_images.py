"""What an architecture with images among its tokens owes: the contracts of all parts, with images in the call."""

from __future__ import annotations

import pytest
import torch
from naive import images as naive
from zoo_images import CLIP, DEEP, GRID, IMAGES, NORM, PIXTRAL, SIGLIP, WITH_IMAGES, given

from anyformer.costs.flop_counter import MetaFlops
from anyformer.describe import DescriptionError, InputError, UserError, change, diff, from_toml, to_toml
from anyformer.model import Architecture, decoder_only
from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.parts import (
    Axial,
    ChainedProjector,
    CondensedProjector,
    DeepStack,
    Embedding,
    GridTower,
    ImageTower,
    Interleaved,
    LearnedPosition,
    LinearProjector,
    MergedProjector,
    Patches,
    PooledProjector,
    ResampledPosition,
    Sections,
    SquaresProjector,
    TwoLayerProjector,
)
from anyformer.plan import Plan
from anyformer.testing.models import evaluated

every = pytest.mark.parametrize("architecture", WITH_IMAGES.values(), ids=WITH_IMAGES)


@every
def test_outputs_and_gradients_are_those_of_plain_loops(architecture):
    model = evaluated(architecture, dtype=torch.float64)
    tokens, images = given(architecture)
    ours = model(tokens, images=images.double())[0]
    direction = torch.randn(ours.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    (ours * direction).sum().backward()
    weights = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
    theirs = naive.forward(architecture, weights, tokens[0].tolist(), images.double().tolist())
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    (theirs * direction).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, f"{name} gets no gradient"
        torch.testing.assert_close(parameter.grad, weights[name].grad, rtol=1e-3, atol=5e-5, msg=name)


@pytest.mark.parametrize("name", ["grid", "grid_interleaved", "grid_windows", "deep", "pixtral", "siglip2"])
def test_images_of_several_sizes_are_those_of_plain_loops(name):
    """Some windows are not full, and what follows an image counts on from its longer side."""
    architecture = WITH_IMAGES[name]
    model, tower = evaluated(architecture, dtype=torch.float64), architecture.images
    generator = torch.Generator().manual_seed(2)
    shapes = [(tower.patches.channels, *sides) for sides in ((4, 12), (12, 8), (8, 12))]
    images = tuple(torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    shown = [[tower.token] * size for size in tower.sizes(images)]
    row = [5, *shown[0], *shown[1], 6, *shown[2], 7, 8, 9]
    with torch.no_grad():
        ours = model(torch.tensor([row]), images=images)[0]
        weights = {name: p.detach() for name, p in model.named_parameters()}
        theirs = naive.forward(architecture, weights, row, [image.tolist() for image in images])
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
        state = model.state(2, len(row))
        first = model(torch.tensor([row[:-2]] * 2), images=images * 2, state=state)
        state = state.fork(torch.tensor([1]))
        steps = [model(torch.tensor([[token]]), state=state) for token in row[-2:]]
        torch.testing.assert_close(torch.cat([first[:1], *steps], 1)[0], theirs, rtol=1e-5, atol=1e-5)


@every
def test_declared_weights_are_those_that_are_built(architecture):
    declared = {name: weight.shape for name, weight in architecture.cost(Shape()).weights.items()}
    assert declared == {name: tuple(p.shape) for name, p in build(architecture, device="meta").named_parameters()}
    folded, whole = architecture.folded_cost(Shape()), architecture.cost(Shape())
    assert folded.parameters == whole.parameters


@every
@pytest.mark.parametrize("kernel", ["plain", "sdpa"])
def test_declared_flops_are_those_that_torch_counts(architecture, kernel):
    plan = Plan(attention=kernel)
    model = build(architecture, plan, device="meta").eval()
    tokens, images = (x.to("meta") for x in given(architecture, rows=3))
    with MetaFlops() as counter:
        output = model(tokens, images=images)
        forward = counter.total
        output.sum().backward()
    shape = Shape(batch=3, length=tokens.shape[1], images=IMAGES)
    declared = architecture.cost(shape, plan).total_flops
    assert (declared.dense, declared.backward) == (forward, counter.total - forward)
    assert architecture.folded_cost(shape, plan).total_flops == declared


def test_exact_flops_have_the_pairs_that_images_add():
    """A text of two images that see all of themselves: pairs counted one by one."""
    whole = WITH_IMAGES["siglip"]
    tokens = given(whole)[0][0].tolist()
    ends = [naive.end_of_image(whole.images, tokens, t) for t in range(len(tokens))]
    later = sum(end - t for t, end in enumerate(ends))
    shape = Shape(length=len(tokens), images=IMAGES)
    parts = whole.cost(shape).total_flops.exact
    bare = whole.but(images=whole.images.but(seen="earlier")).cost(shape).total_flops.exact
    per_pair = 2 * 2 * 4 * whole.width // 4  # scores and mixed values of 4 heads
    assert parts - bare == len(whole.decoder.layers) * later * per_pair
    assert parts <= whole.cost(shape).total_flops.dense


@every
def test_a_batch_is_its_rows_alone_padded_or_not(architecture):
    model = evaluated(architecture)
    tokens, images = given(architecture, rows=2)
    with torch.no_grad():
        whole = model(tokens, images=images)
        for row in range(2):
            alone = model(tokens[row : row + 1], images=images[row * IMAGES : (row + 1) * IMAGES])
            torch.testing.assert_close(alone[0], whole[row], rtol=1e-4, atol=1e-5)
        wide = torch.nn.functional.pad(tokens, (3, 0), value=5)
        padding = torch.arange(wide.shape[1]).expand_as(wide) < 3
        torch.testing.assert_close(model(wide, images=images, padding=padding)[:, 3:], whole, rtol=1e-4, atol=1e-5)
        both, documents = tokens.reshape(1, -1), torch.arange(2).repeat_interleave(tokens.shape[1])[None]
        torch.testing.assert_close(
            model(both, images=images, documents=documents)[0], whole.flatten(0, 1), rtol=1e-4, atol=1e-5
        )


@every
def test_prefill_and_steps_are_the_whole(architecture):
    """Padding stands in front of the first row, and one image in each chunk."""
    model = evaluated(architecture)
    tokens, images = given(architecture)
    cut = 1 + architecture.images.tokens
    with torch.no_grad():
        whole = model(tokens, images=images)
        wide = torch.nn.functional.pad(tokens, (2, 0), value=5)
        padding = torch.arange(wide.shape[1])[None] < 2
        state = model.state(1, wide.shape[1])
        first = model(wide[:, : 2 + cut], images=images[:1], padding=padding[:, : 2 + cut], state=state)
        second = model(wide[:, 2 + cut : -2], images=images[1:], state=state)
        steps = [model(piece, state=state) for piece in wide[:, -2:].split(1, 1)]
    torch.testing.assert_close(torch.cat([first[:, 2:], second, *steps], 1), whole, rtol=1e-4, atol=1e-5)


@every
def test_later_tokens_and_images_do_not_leak(architecture):
    """Within an image whose tokens see all of it they do."""
    model = evaluated(architecture)
    tokens, images = given(architecture)
    changed, tower = images.clone(), architecture.images
    changed[1] += 1
    second = 1 + tower.tokens + 1
    with torch.no_grad():
        before, after = model(tokens, images=images), model(tokens, images=changed)
    assert torch.equal(before[:, :second], after[:, :second])
    assert not torch.equal(before[:, second], after[:, second])


def test_what_a_token_of_an_image_sees():
    """The first token of an image depends on the last part of it only where it sees the whole."""
    for seen, sees in (("whole", True), ("earlier", False)):
        architecture = WITH_IMAGES["siglip"]
        architecture = architecture.but(images=architecture.images.but(seen=seen))
        model = evaluated(architecture, dtype=torch.float64)
        tokens, images = given(architecture)
        (features,) = model.images(images.double())
        features.retain_grad()
        model.images.register_forward_hook(lambda *_, features=features: (features,))
        model(tokens, images=images.double())[0, 1].sum().backward()
        assert bool(features.grad[0, -1].abs().sum() > 0) is sees


@every
def test_bf16_text_and_recomputing(architecture):
    exact, tokens = build(architecture).eval(), given(architecture)
    rough = build(architecture, dtype=torch.bfloat16).eval()
    again = build(architecture, Plan(checkpointing="full"))
    with torch.no_grad():
        expected = exact(tokens[0], images=tokens[1])
        torch.testing.assert_close(rough(tokens[0], images=tokens[1]).float(), expected, rtol=0.2, atol=0.2 * expected.std())
    for model in (exact.train(), again.train()):
        model(tokens[0], images=tokens[1]).square().sum().backward()
    for name, parameter in again.named_parameters():
        torch.testing.assert_close(parameter.grad, exact.get_parameter(name).grad, msg=name)


@every
def test_its_text_is_the_same_value(architecture):
    assert diff(from_toml(Architecture, to_toml(architecture)), architecture) == []
    assert type(architecture.images) in (ImageTower, GridTower)


def test_what_does_not_fit_is_refused():
    text = WITH_IMAGES["clip"]
    for changes, message in (
        ({"image": 1}, "images of 1 pixels have no patch of 2"),
        ({"skipped": 5}, "skips 5 positions, and an image has 5"),
        ({"stack": CLIP.stack.but(position=LearnedPosition(length=4))}, "position table of the tower ends at 4"),
        ({"projector": PooledProjector(side=3)}, "side 3 divides"),
        ({"projector": PooledProjector(side=2), "skipped": 0}, "need a square of them"),
        ({"width": 13}, "heads"),
    ):
        with pytest.raises(DescriptionError, match=message):
            CLIP.but(**changes)
    for changes, message in (
        ({"image": 6}, "6 pixels do not divide into squares of 4"),
        ({"window": 3}, "windows of 3 patches"),
        ({"patches": Patches(size=2, class_tokens=1)}, "a grid has none"),
        ({"stack": GRID.stack.but(position=LearnedPosition(length=99))}, "no table of positions"),
    ):
        with pytest.raises(DescriptionError, match=message):
            GRID.but(**changes)
    for projector, skipped in ((MergedProjector(side=3), 1), (MergedProjector(), 0)):
        with pytest.raises(DescriptionError, match=r"squares of . x ., patches|reads squares of"):
            CLIP.but(projector=projector, skipped=skipped)
    for changes, message in (
        ({"deep": DeepStack(layers=(2,), projector=MergedProjector())}, "names layer 2, and the stack has 2"),
        ({"deep": DeepStack(layers=(0,), projector=TwoLayerProjector())}, "as many tokens of an image as projector"),
        ({"window": 4, "sequence": "rows"}, "sequence = 'rows'"),
    ):
        with pytest.raises(DescriptionError, match=message):
            GRID.but(**changes)
    with pytest.raises(DescriptionError, match="names layer 1 as the last that is read, and the stack has 3"):
        GRID.but(joined=(1, 0), stack=GRID.stack.but(order="layer*3"))
    with pytest.raises(DescriptionError, match="before any norm"):
        GRID.but(joined=(1, 0), stack=GRID.stack.but(final_norm=NORM))
    with pytest.raises(DescriptionError, match="more than once"):
        DeepStack(layers=(1, 1), projector=MergedProjector())
    with pytest.raises(DescriptionError, match="let first merge them"):
        ChainedProjector(first=LinearProjector(), between=8, then=MergedProjector())
    with pytest.raises(DescriptionError, match="antialias: by = 'bilinear', corners = 'centres'"):
        ResampledPosition(side=3, antialias=True)
    for projector in (SquaresProjector, CondensedProjector):
        with pytest.raises(DescriptionError, match="merge them once"):
            projector(inner=MergedProjector())
    with pytest.raises(DescriptionError, match="2 layers, and the text has 1"):
        WITH_IMAGES["grid"].but(images=DEEP)
    for axes, message in (
        (Sections(sizes=(1, 1, 2)), "4 pairs should be all 3"),
        (Interleaved(sizes=(0, 1, 2)), "do not fit into the 3 pairs"),
        (Axial(axes=2), "3 pairs of a head do not divide"),
    ):
        with pytest.raises(DescriptionError, match=message):
            change(WITH_IMAGES["grid"], "decoder.layer.attention.rotary.axes", axes)
    with pytest.raises(DescriptionError, match="virtual_tokens in front of its text"):
        text.but(virtual_tokens=2)
    with pytest.raises(UserError, match="3 images take 12 tokens of a text, which has 5"):
        text.cost(Shape(length=5, images=3))
    plain = build(decoder_only(Embedding(vocab=9), 16, [text.decoder.variants["layer"]]))
    with pytest.raises(InputError, match="reads no images"):
        plain(torch.zeros(1, 4, dtype=torch.int64), images=torch.zeros(1, 3, 4, 4))
    assert SIGLIP.tokens == 4


def test_the_tokens_of_an_image_in_a_text():
    """One after the other, or row by row with tokens of the text between them."""
    shown = (torch.zeros(3, 4, 12), torch.zeros(3, 8, 4))
    assert GRID.written(shown) == [[3, 3, 3], [3, 3]]
    assert PIXTRAL.written(shown) == [[3, 3, 3, 5], [3, 4, 3, 5]]
