"""Text by filling masks, against a plain loop."""

from __future__ import annotations

import pytest
import torch

from anyformer.catalogue import architecture
from anyformer.data import Bytes
from anyformer.data.vocabulary import make_tokenizer
from anyformer.describe import InputError
from anyformer.generation import Sampling, stream
from anyformer.generation.unmasking import unmasked
from anyformer.model.transformer import build
from anyformer.text import Specials

MASK = 287
GREEDY = Sampling(temperature=0)


@pytest.fixture(scope="module")
def model():
    return build(architecture("llada-8b", tiny=True), seed=3).eval()


@torch.no_grad()
def plain(model, prompt, count, steps, block):
    """One prompt, one step after the other, position by position."""
    line = [*prompt, *[MASK] * count]
    blocks = -(-count // block)
    for number in range(blocks):
        start, stop = number * block, min((number + 1) * block, count)
        turns = steps // blocks + (number < steps % blocks)
        left = stop - start
        for turn in range(turns):
            reveal = (stop - start) // turns + (turn < (stop - start) % turns)
            logits = model(torch.tensor([line]))[0]
            logits[:, MASK] = -torch.inf
            odds = logits.softmax(-1)
            open_places = [len(prompt) + place for place in range(start, stop) if line[len(prompt) + place] == MASK]
            assert len(open_places) == left
            ranked = sorted(open_places, key=lambda place: -float(odds[place].max()))
            for place in ranked[:reveal]:
                line[place] = int(odds[place].argmax())
            left -= reveal
    return line[len(prompt) :]


@pytest.mark.parametrize(("count", "steps", "block"), [(8, 8, 8), (9, 5, 9), (10, 6, 4), (6, 6, 1)])
def test_the_most_certain_places_are_revealed_first_block_by_block(model, count, steps, block):
    prompts = [[72, 101, 108], [10], [7, 7, 7, 7, 7]]
    *seen, last = unmasked(model, prompts, mask=MASK, sampling=GREEDY, max_tokens=count, steps=steps, block=block)
    assert len(seen) + 1 == steps
    for prompt, row in zip(prompts, last.tolist(), strict=True):
        assert row == plain(model, prompt, count, steps, block)


def test_what_is_revealed_stays_and_the_mask_is_never_said(model):
    before = None
    drawn = unmasked(model, [[1, 2], [3]], mask=MASK, sampling=Sampling(temperature=2.0, seed=5), max_tokens=12, steps=5)
    for now in (tokens.clone() for tokens in drawn):
        if before is not None:
            assert bool(((before == now) | (before == MASK)).all())
        before = now
    assert not bool((before == MASK).any())


def test_text_comes_from_a_tokenizer_with_a_mask(model):
    tokenizer = make_tokenizer(Bytes(), tuple, tuple, Specials(roles=("mask",)))
    pieces = list(stream(model, tokenizer, ["Once", ""], max_tokens=6, sampling=GREEDY, block=3))
    assert [row for row, _ in pieces] == [0, 1]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"max_tokens": 0}, "max_tokens should be at least 1"),
        ({"max_tokens": 8, "steps": 9}, "from 1 .* to 8"),
        ({"max_tokens": 8, "steps": 3, "block": 2}, "from 4"),
        ({"max_tokens": 8, "block": 0}, "block = 0"),
    ],
)
def test_what_cannot_be_is_refused(model, fields, said):
    with pytest.raises(InputError, match=said):
        next(unmasked(model, [[1]], mask=MASK, sampling=GREEDY, **fields))
