"""What an architecture with sounds among its tokens owes: the contracts of all parts, with sounds in the call."""

from __future__ import annotations

import pytest
import torch
from naive import sound as naive
from zoo_sound import SOUNDS, TOWER, WITH_SOUND, given

from anyformer.costs.flop_counter import MetaFlops
from anyformer.describe import DescriptionError, InputError, UserError, diff, from_toml, to_toml
from anyformer.model import Architecture
from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.parts import AveragedProjector, SideBySideProjector
from anyformer.plan import Plan
from anyformer.testing.models import evaluated

every = pytest.mark.parametrize("architecture", WITH_SOUND.values(), ids=WITH_SOUND)


@every
def test_outputs_and_gradients_are_those_of_plain_loops(architecture):
    model = evaluated(architecture, dtype=torch.float64)
    tokens, audio = given(architecture)
    ours = model(tokens, audio=audio.double())[0]
    direction = torch.randn(ours.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    (ours * direction).sum().backward()
    weights = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
    theirs = naive.forward(architecture, weights, tokens[0].tolist(), audio.double().tolist())
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    (theirs * direction).sum().backward()
    for name, parameter in model.named_parameters():
        if not name.startswith("images."):
            assert parameter.grad is not None, f"{name} gets no gradient"
            torch.testing.assert_close(parameter.grad, weights[name].grad, rtol=1e-3, atol=5e-5, msg=name)


@every
def test_declared_weights_and_flops_are_those_that_are_built_and_counted(architecture):
    declared = {name: weight.shape for name, weight in architecture.cost(Shape()).weights.items()}
    assert declared == {name: tuple(p.shape) for name, p in build(architecture, device="meta").named_parameters()}
    for kernel in ("plain", "sdpa"):
        plan = Plan(attention=kernel)
        model = build(architecture, plan, device="meta").eval()
        tokens, audio = (x.to("meta") for x in given(architecture, rows=3))
        with MetaFlops() as counter:
            output = model(tokens, audio=audio)
            forward = counter.total
            output.sum().backward()
        shape = Shape(batch=3, length=tokens.shape[1], audio=SOUNDS)
        priced = architecture.cost(shape, plan).total_flops
        assert (priced.dense, priced.backward) == (forward, counter.total - forward)
        assert architecture.folded_cost(shape, plan).total_flops == priced


@every
def test_a_batch_is_its_rows_alone_padded_or_not(architecture):
    model = evaluated(architecture)
    tokens, audio = given(architecture, rows=2)
    with torch.no_grad():
        whole = model(tokens, audio=audio)
        for row in range(2):
            alone = model(tokens[row : row + 1], audio=audio[row * SOUNDS : (row + 1) * SOUNDS])
            torch.testing.assert_close(alone[0], whole[row], rtol=1e-4, atol=1e-5)
        wide = torch.nn.functional.pad(tokens, (3, 0), value=5)
        padding = torch.arange(wide.shape[1]).expand_as(wide) < 3
        torch.testing.assert_close(model(wide, audio=audio, padding=padding)[:, 3:], whole, rtol=1e-4, atol=1e-5)


@every
def test_prefill_and_steps_are_the_whole(architecture):
    """One sound in each chunk, then token by token."""
    model = evaluated(architecture)
    tokens, audio = given(architecture)
    cut = 1 + architecture.audio.tokens
    with torch.no_grad():
        whole, state = model(tokens, audio=audio), model.state(1, tokens.shape[1])
        first = model(tokens[:, :cut], audio=audio[:1], state=state)
        second = model(tokens[:, cut:-2], audio=audio[1:], state=state)
        steps = [model(piece, state=state) for piece in tokens[:, -2:].split(1, 1)]
    torch.testing.assert_close(torch.cat([first, second, *steps], 1), whole, rtol=1e-4, atol=1e-5)


@every
def test_a_sound_with_padding_takes_fewer_tokens(architecture):
    """Its own positions see no other, and a sound of silence behind it changes nothing but what the convolutions reach."""
    model, tower = evaluated(architecture), architecture.audio
    audio = torch.randn(1, tower.sound, 5, generator=torch.Generator().manual_seed(1))
    padding = torch.arange(tower.sound)[None] >= 8
    (size,) = tower.sizes(audio, padding)
    tokens = torch.tensor([[5, *[tower.token] * size, 7]])
    silent = audio.masked_fill(padding[..., None], 0)
    with torch.no_grad():
        alone = model(tokens, audio=audio[:, :8])
        torch.testing.assert_close(model(tokens, audio=silent, audio_padding=padding), alone, rtol=1e-4, atol=1e-5)
        far = audio.clone()
        far[:, 12:] += 1  # further than the convolutions reach
        close = [model(tokens, audio=each, audio_padding=padding) for each in (audio, far)]
        torch.testing.assert_close(*close, rtol=0, atol=0)


def test_images_and_sounds_stand_in_one_text():
    architecture = WITH_SOUND["sound_with_images"]
    model = evaluated(architecture)
    tokens, audio = given(architecture)
    shown, images = architecture.images.example(tokens)
    with torch.no_grad():
        both = model(shown, audio=audio, images=images)
        assert not torch.equal(both, model(shown, audio=audio + 1, images=images))
        assert not torch.equal(both, model(shown, audio=audio, images=images + 1))
    with pytest.raises(DescriptionError, match=r"give images a token of their own, above 0"):
        architecture.but(images=architecture.images.but(token=3))


@every
def test_its_text_is_the_same_value(architecture):
    assert diff(from_toml(Architecture, to_toml(architecture)), architecture) == []


@every
def test_bf16_and_recomputing(architecture):
    exact, (tokens, audio) = build(architecture).eval(), given(architecture)
    rough, again = build(architecture, dtype=torch.bfloat16).eval(), build(architecture, Plan(checkpointing="full"))
    with torch.no_grad():
        expected = exact(tokens, audio=audio)
        torch.testing.assert_close(rough(tokens, audio=audio).float(), expected, rtol=0.2, atol=0.2 * expected.std())
    for model in (exact.train(), again.train()):
        model(tokens, audio=audio).square().sum().backward()
    for name, parameter in again.named_parameters():
        torch.testing.assert_close(parameter.grad, exact.get_parameter(name).grad, msg=name)


def test_what_does_not_fit_is_refused():
    text = WITH_SOUND["sound_side_by_side"]
    for changes, message in (
        ({"sound": 18}, "position table of the tower ends at 8"),
        ({"sound": 6}, "joined by 2, which does not divide"),
        ({"width": 13}, "the width must be even"),
    ):
        with pytest.raises(DescriptionError, match=message):
            TOWER.but(**changes)
    with pytest.raises(DescriptionError, match="audio: stand among the tokens of one text"):
        text.but(virtual_tokens=2)
    with pytest.raises(UserError, match="3 sounds take 12 tokens of a text, which has 5"):
        text.cost(Shape(length=5, audio=3))
    model, (tokens, audio) = build(text), given(text)
    for options, message in (
        ({"audio": audio[:1]}, "1 sounds take 4 tokens 3, 4 each, and the text has 8"),
        ({"audio": audio[..., :4]}, "audio should have shape"),
        ({"audio": audio.long()}, "real numbers"),
        ({"audio": audio[:, :5]}, "joined by 2, which does not divide"),
        ({"audio": audio, "audio_padding": audio[..., 0] > 0}, "padding of audio frames must stand after them"),
        ({"audio": audio, "audio_padding": torch.zeros(2, 3, dtype=torch.bool)}, "audio_padding should be"),
        ({"audio_padding": torch.zeros(2, 16, dtype=torch.bool)}, "which is missing"),
    ):
        with pytest.raises(InputError, match=message):
            model(tokens, **options)
    with pytest.raises(InputError, match="reads no sound"):
        build(text.but(audio=None))(tokens, audio=audio)
    assert SideBySideProjector(count=3).tokens(9) == AveragedProjector(count=3).tokens(11) == 3
