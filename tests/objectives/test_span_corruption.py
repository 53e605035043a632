"""Span corruption is T5's: fixed counts, all masks equally likely, sentinels in the order of their names."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anyformer.data import IGNORED
from anyformer.objectives import SpanCorruptionObjective
from anyformer.objectives.corruption import corrupted, sizes, span_mask, spans_of
from anyformer.parts.call.noise import Noise, uniform
from objectives.windows import batch, setting, small

SENTINELS = (71, 70, 69, 68)


def mask(rows: int, length: int, rate: float, mean: float | None, seed: int = 0) -> torch.Tensor:
    noise = Noise.at(seed, 0, torch.arange(rows))
    draws = [uniform(noise, site, torch.Size((rows, length))) for site in range(2)]
    return span_mask(torch.full((rows,), length), [spans_of(length, rate, mean)] * rows, *draws)


def text_of(row: torch.Tensor) -> list[int]:
    return [number for number in row.tolist() if number >= 0]


def test_a_case_by_hand():
    """Thank you [for inviting] me to your party [last] week, of the paper's figure 2, ended by noise as its code does."""
    tokens = torch.tensor([[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], [1, 2, 3, 4, 5, 6, 0, 0, 0, 0]])
    noise = torch.tensor([[0, 0, 1, 1, 0, 0, 0, 0, 1, 1], [0, 1, 0, 0, 0, 1, 0, 0, 0, 0]]).bool()
    source, target = corrupted(tokens, torch.tensor([10, 6]), noise, SENTINELS)
    assert text_of(source[0]) == [1, 2, 71, 5, 6, 7, 8, 70]
    assert text_of(target[0]) == [71, 3, 4, 70, 9, 10]
    assert text_of(source[1]) == [1, 71, 3, 4, 5, 70]
    assert text_of(target[1]) == [71, 2, 70, 6]
    assert (source[0] >= 0).tolist() == [True] * 8 + [False] * 2, "what there is stands on the left"


def published_lengths(inputs_length: int, density: float, mean: float) -> tuple[int, int]:
    """The published formulas, by going up one token at a time."""

    def lengths(tokens: int) -> tuple[int, int]:
        noise = round(tokens * density)
        spans = round(noise / mean)
        return tokens - noise + spans + 1, noise + spans + 1

    tokens = inputs_length - 1
    while lengths(tokens + 1)[0] <= inputs_length:
        tokens += 1
    return tokens, lengths(tokens)[1]


@pytest.mark.parametrize(("rate", "span"), [(0.15, 3.0), (0.15, 8.0), (0.3, 5.0), (0.1, 2.0)])
def test_the_window_is_the_longest_text_whose_source_fits(rate, span):
    objective = SpanCorruptionObjective(rate=rate, span=span)
    for length in (64, 100, 128, 129, 255, 256, 512, 513, 700):
        window = objective.window(length)
        assert (window, sizes(window, objective.spans(window))[1]) == published_lengths(length, rate, span)


def test_t5s_own_sizes():
    """512 positions hold the source of 568 tokens, whose target has 114: the figures of T5's released configuration."""
    objective = SpanCorruptionObjective()
    assert objective.window(512) == 568
    assert sizes(568, objective.spans(568)) == (512, 114)
    assert objective.special(512).sentinels == 28


@pytest.mark.parametrize(("rate", "span"), [(0.5, 3.0), (0.6, 3.0), (0.9, 1.0)])
def test_a_long_target_fits_too(rate, span):
    objective = SpanCorruptionObjective(rate=rate, span=span)
    for length in (32, 35, 100, 256):  # no text fills 35 positions exactly at the first of these rates
        window = objective.window(length)
        assert max(sizes(window, objective.spans(window))) <= length
        assert max(sizes(window + 1, objective.spans(window + 1))) > length


@given(st.integers(2, 90), st.floats(0.02, 0.95), st.floats(1, 12), st.integers(0, 2**31))
def test_masks_have_the_counts_that_the_length_says(length, rate, mean, seed):
    noise, spans = spans_of(length, rate, mean)
    for row in mask(3, length, rate, mean, seed).tolist():
        runs = [key for key, _ in groupby(row)]
        assert sum(row) == noise
        assert runs == [False, True] * spans, "none first, noise last, in turn"


def test_all_masks_of_these_counts_are_equally_likely():
    """8 tokens, 4 of them noise in 2 spans: 3 ways to cut the noise times 3 to cut the rest."""
    rows = 9000
    seen = Counter(tuple(row) for row in mask(rows, 8, 0.5, 2.0).tolist())
    assert len(seen) == 9
    expected = rows / 9
    # Chi-square of 8 degrees of freedom: beyond 26 once in a thousand seeds, and this one is fixed.
    assert sum((count - expected) ** 2 / expected for count in seen.values()) < 26


@given(st.integers(2, 60), st.floats(0.02, 0.95), st.floats(1, 12))
def test_source_and_target_together_are_the_text(length, rate, mean):
    tokens = torch.arange(200, 200 + length)[None]
    count = spans_of(length, rate, mean).spans
    sentinels = tuple(range(100, 100 + count))
    source, target = (
        text_of(side[0]) for side in corrupted(tokens, torch.tensor([length]), mask(1, length, rate, mean), sentinels)
    )
    spans: dict[int, list[int]] = {}
    for number in target:
        if number in sentinels:
            spans[number] = []
        else:
            spans[list(spans)[-1]].append(number)
    assert list(spans) == list(sentinels)
    assert [each for number in source for each in spans.get(number, [number])] == tokens[0].tolist()
    assert (len(source) + 1, len(target) + 1) == sizes(length, spans_of(length, rate, mean))


def test_the_decoder_reads_the_target_shifted_right():
    objective, length = SpanCorruptionObjective(), 48
    here, window = setting(objective, length), objective.window(48)
    examples = objective.examples(batch([window] * 3, window), here)
    assert examples.padding is None
    assert examples.decoder_padding is None
    assert examples.tokens.shape == (3, length)
    end = here.tokenizer.end
    assert (examples.decoder_tokens[:, 0] == end).all()
    assert (examples.targets[:, -1] == end).all()
    assert torch.equal(examples.decoder_tokens[:, 1:], examples.targets[:, :-1])
    names = [here.tokenizer.special_tokens[f"<extra_id_{number}>"] for number in range(3)]
    assert examples.targets[0, 0] == names[0]
    assert [number for number in examples.targets[0].tolist() if number in names] == names
    assert [number for number in examples.tokens[0].tolist() if number in names] == names


def test_a_row_without_text_has_no_target():
    objective, length = SpanCorruptionObjective(), 48
    window = objective.window(length)
    examples = objective.examples(batch([0, 30], window), setting(objective, length))
    assert (examples.targets[0] == IGNORED).all()
    assert int((examples.targets[1] >= 0).sum()) == sizes(30, objective.spans(30))[1]
    assert (~examples.padding).sum(1).tolist() == [1, sizes(30, objective.spans(30))[0]]


def test_what_cannot_be_trained_so_is_refused():
    objective = SpanCorruptionObjective()
    with pytest.raises(ValueError, match="choose an architecture with an encoder"):
        objective.check(small("bert-base-uncased"))
    with pytest.raises(ValueError, match=r"length = 2 has no room .* at least 3"):
        objective.sizes.check(2, 1, 1)
    objective.sizes.check(3, 1, 1)
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        SpanCorruptionObjective(span=0.5)
