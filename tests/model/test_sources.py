"""Inputs that are not text: each kind is learned from, read aloud as text, and refused in words where it does not fit."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from learning import FEED, GREEDY, INIT, NORM, SELF, V, cross_entropy, fit
from zoo_inputs import ALONE, SOURCES

from anyformer.describe import DescriptionError, InputError, change_all
from anyformer.generation import continuations
from anyformer.model import Architecture, encoder_decoder, encoder_only
from anyformer.model.transformer import Transformer, build
from anyformer.parts import (
    Attention,
    AudioFrames,
    Bidirectional,
    Causal,
    CrossAttention,
    Embedding,
    Features,
    Head,
    LearnedPosition,
    Patches,
    Prefix,
    pre_norm,
    stack,
)
from anyformer.parts.embedding.patches_module import cut

WORDS, START = 4, 1
BOTH = Attention(heads=4, mask=Bidirectional())
VECTORS = torch.randn(V, 6, generator=torch.Generator().manual_seed(7))


def spoken(generator, rows: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    """Words, and the noisy vector of each: (B, N), (B, N, 6)."""
    x = torch.randint(2, V, (rows, WORDS), generator=generator)
    return x, VECTORS[x] + 0.1 * torch.randn(rows, WORDS, 6, generator=generator)


def learns_to_read(architecture: Architecture, heard, steps: int = 250) -> float:
    """The share of rows that a model reads aloud without a mistake after some training."""
    model = build(architecture)

    def loss(generator):
        x, vectors = spoken(generator)
        target = torch.cat([torch.full((len(x), 1), START), x], 1)
        return cross_entropy(model(heard(vectors), target[:, :-1]), target[:, 1:])

    fit(model, loss, steps)
    x, vectors = spoken(torch.Generator().manual_seed(10_000))
    steps_of = continuations(model, [[START]] * len(x), sampling=GREEDY, max_tokens=WORDS, source=heard(vectors))
    return float((torch.stack(list(steps_of), 1) == x).all(1).double().mean())


def test_text_that_attends_to_features():
    positions = LearnedPosition(length=8)
    architecture = encoder_decoder(
        Features(features=6),
        48,
        stack([pre_norm(NORM, BOTH, FEED)], position=positions),
        stack([pre_norm(NORM, SELF, CrossAttention(heads=4), FEED)], final_norm=NORM, position=positions),
        decoder_embedding=Embedding(vocab=V),
        initialisation=INIT,
    )
    assert learns_to_read(architecture, lambda vectors: vectors) > 0.9


def test_text_after_features():
    block = pre_norm(NORM, SELF.but(mask=Causal() | Prefix()), FEED)
    architecture = Architecture(
        width=48,
        embedding=Features(features=6),
        decoder_embedding=Embedding(vocab=V),
        decoder=stack([block] * 2, final_norm=NORM),
        source="prefix",
        head=Head(tied=True),
        initialisation=INIT,
    )
    assert learns_to_read(architecture, lambda vectors: vectors) > 0.9


def test_speech_to_text():
    positions = LearnedPosition(length=8)
    architecture = encoder_decoder(
        AudioFrames(features=6),
        48,
        stack([pre_norm(NORM, BOTH, FEED)], position=positions, final_norm=NORM),
        stack([pre_norm(NORM, SELF, CrossAttention(heads=4), FEED)], final_norm=NORM, position=positions),
        decoder_embedding=Embedding(vocab=V),
        initialisation=INIT,
    )
    assert learns_to_read(architecture, lambda vectors: vectors.repeat_interleave(2, 1), 350) > 0.9


def test_an_image_is_classified():
    """The class is where the bright patch is: only positions can tell."""
    architecture = encoder_only(
        Patches(size=2, channels=1, class_tokens=1),
        48,
        [pre_norm(NORM, BOTH, FEED)] * 2,
        position=LearnedPosition(length=10),
        final_norm=NORM,
        head=Head(outputs=9, pool="first"),
        initialisation=INIT,
    )
    model = build(architecture)

    def images(generator):
        label = torch.randint(0, 9, (64,), generator=generator)
        image = 0.3 * torch.randn(64, 1, 6, 6, generator=generator)
        for row, place in enumerate(label.tolist()):
            image[row, 0, place // 3 * 2 : place // 3 * 2 + 2, place % 3 * 2 : place % 3 * 2 + 2] += 1
        return image, label

    def loss(generator):
        image, label = images(generator)
        return F.cross_entropy(model(image), label)

    fit(model, loss, 200)
    image, label = images(torch.Generator().manual_seed(10_000))
    assert float((model(image).argmax(-1) == label).double().mean()) > 0.9


def test_patches_are_those_of_a_convolution():
    image, weight = torch.randn(2, 3, 6, 8), torch.randn(5, 3, 2, 2)
    by_convolution = F.conv2d(image, weight, stride=2).flatten(2).mT
    torch.testing.assert_close(cut(image, 2) @ weight.flatten(1).T, by_convolution)


@pytest.mark.parametrize("name", ["text_of_features", "features_before_text", "speech_to_text"])
def test_a_padded_source_equals_the_source_alone(name):
    model = build(SOURCES[name]).eval()
    source, target = model.architecture.embedding.example(2, 7, seed=1), torch.randint(0, 37, (2, 5))
    frames = source.shape[1]
    wide, padding = torch.randn(2, frames + 4, source.shape[2]), torch.ones(2, frames + 4, dtype=torch.bool)
    wide[:, :frames], padding[:, :frames] = source, False
    torch.testing.assert_close(model(wide, target, padding=padding), model(source, target), rtol=1e-4, atol=1e-5)


def test_targets_of_unequal_length_after_a_source():
    model = build(SOURCES["features_before_text"]).eval()
    source, target = model.architecture.embedding.example(1, 7), torch.randint(0, 37, (1, 5))
    padding = torch.tensor([[True, True, False, False, False, False, False]])
    wide = torch.cat([torch.full((1, 2), 5), target], 1)
    padded = model(source, wide, decoder_padding=padding)[:, 2:]
    torch.testing.assert_close(padded, model(source, target), rtol=1e-4, atol=1e-5)


def test_a_pooled_mean_ignores_padding():
    model = build(ALONE["pooled_mean"]).eval()
    x = model.architecture.embedding.example(2, 6)
    wide, padding = torch.cat([torch.randn(2, 3, 5), x], 1), torch.zeros(2, 9, dtype=torch.bool)
    padding[:, :3] = True
    torch.testing.assert_close(model(wide, padding=padding), model(x), rtol=1e-4, atol=1e-5)


def test_a_pooled_first_is_the_first_that_is_not_padding():
    model = build(ALONE["pooled_text"]).eval()
    x = torch.randint(0, 37, (2, 6))
    wide, padding = torch.cat([torch.full((2, 3), 5), x], 1), torch.zeros(2, 9, dtype=torch.bool)
    padding[:, :3] = True
    torch.testing.assert_close(model(wide, padding=padding), model(x), rtol=1e-4, atol=1e-5)


def test_a_pooled_last_is_the_last_that_is_neither_padding_nor_passed_over():
    model = build(ALONE["classifying_decoder"]).eval()
    x = torch.tensor([[1, 2, 3, 4], [4, 3, 2, 1]])
    whole = model(x)
    assert whole.shape == (2, 4)
    beside = torch.cat([x, torch.full((2, 2), 9)], 1)
    padding = torch.tensor([[False] * 4 + [True] * 2] * 2)
    torch.testing.assert_close(model(beside, padding=padding), whole, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model(torch.cat([x, torch.full((2, 2), 5)], 1)), whole, rtol=1e-4, atol=1e-5)
    assert model(torch.full((1, 3), 5)).isfinite().all()


def image(*shape: int) -> torch.Tensor:
    return torch.zeros(shape)


@pytest.mark.parametrize(
    ("architecture", "arguments", "words"),
    [
        (ALONE["vision"], (image(1, 3, 5, 4),), "5 x 4 pixels do not divide into patches of 2"),
        (ALONE["vision"], (image(1, 1, 4, 4),), r"images \(B, 3, height, width\), got \(1, 1, 4, 4\)"),
        (ALONE["vision"], (image(1, 3, 20, 20),), "reach position 101, and the position table of the encoder ends at 20"),
        (ALONE["pooled_mean"], (image(1, 4, 6),), r"vectors \(B, T, 5\), got \(1, 4, 6\)"),
        (ALONE["pooled_text"], (image(1, 4),), "whole numbers below 37"),
        (SOURCES["text_of_features"], (image(1, 4, 5),), "reads two inputs"),
    ],
)
def test_what_does_not_fit_is_refused(architecture, arguments, words):
    with pytest.raises(InputError, match=words):
        Transformer(architecture)(*arguments)


@pytest.mark.parametrize(("name", "features"), [("audio", 6), ("gated_audio", 3)])
def test_padding_before_audio_frames_is_refused(name, features):
    padding = torch.tensor([[True, False, False, False]])
    with pytest.raises(InputError, match="must stand after them"):
        build(ALONE[name])(torch.zeros(1, 4, features), padding=padding)


def test_generation_says_how_a_source_is_given():
    model = build(SOURCES["text_of_features"])
    with pytest.raises(InputError, match="give source"):
        list(continuations(model, [[1]], sampling=GREEDY, max_tokens=2))
    with pytest.raises(InputError, match="2 sources and 1 prompts"):
        list(continuations(model, [[1]], sampling=GREEDY, max_tokens=2, source=torch.zeros(2, 3, 5)))


@pytest.mark.parametrize(
    ("base", "changes", "words"),
    [
        (ALONE["vision"], {"head.outputs": None}, "set head.outputs"),
        (ALONE["classifying_decoder"], {"head.pool": "last", "head.passed_over": 37}, "head.passed_over = 37 is no token"),
        (ALONE["pooled_text"], {"head.passed_over": 3}, "pool = 'last'"),
        (ALONE["pooled_text"], {"head.tied": True}, "leave outputs out or untie it"),
        (ALONE["sentences"], {"head.bias": True}, "leave bias, gain, scale and softcap out"),
        (ALONE["sentences"], {"head.pool": None}, "needs a pool or a transform"),
        (SOURCES["features_before_text"], {"source": "attended"}, "no layer reads the source"),
        (SOURCES["features_before_text"], {"decoder_embedding": None}, "needs a source"),
        (SOURCES["text_of_features"], {"source": "prefix"}, "take cross-attention out"),
        (SOURCES["speech_to_text"], {"decoder_embedding": None}, "set decoder_embedding"),
        (SOURCES["text_of_features"], {"embedding_width": 12}, "set input_projection"),
    ],
)
def test_descriptions_that_do_not_fit_are_refused(base, changes, words):
    with pytest.raises(DescriptionError, match=words):
        change_all(base, changes)
