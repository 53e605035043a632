"""BART's noise: spans as single masks, sentences in another order, tokens masked or left out."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anyformer.data import BytePairs
from anyformer.data.vocabulary import make_tokenizer
from anyformer.objectives import DenoisingObjective
from anyformer.objectives.denoising import InfillingDraws, infilled, poisson
from anyformer.objectives.sentences import Sentences
from anyformer.text import Specials
from objectives.windows import TEXT, batch, setting, small, tokenizer, whole

MASK = 7


def draws(places: list[float], lengths: list[float]) -> InfillingDraws:
    return InfillingDraws(np.array(places, dtype=np.float32), np.array(lengths, dtype=np.float32))


def test_infilling_by_hand():
    """Poisson of mean 3: below 0.0498 is an empty span, 0.3 has 2 tokens, 0.5 has 3; of 10 tokens 5 are hidden, 2, 0 and 3."""
    text = np.arange(20, 30)
    # Eight items: five kept tokens and three spans, at the places with the smallest draws: 1, 4 and 6.
    given = draws([0.9, 0.1, 0.8, 0.7, 0.2, 0.6, 0.3, 0.5, 0.0, 0.0], [0.3, 0.01, 0.5, 0.5, 0.5])
    assert infilled(text, 0.5, 3.0, MASK, given).tolist() == [20, MASK, 23, 24, MASK, 25, MASK, 29]


def test_the_last_span_is_cut_at_the_rate():
    text = np.arange(20, 30)
    # The first span would have 6 tokens, and 3 are to be hidden.
    given = draws([0.9, 0.8, 0.1, 0.7, 0.6, 0.5, 0.4, 0.3, 0.0, 0.0], [0.95] * 10)
    assert infilled(text, 0.3, 3.0, MASK, given).tolist() == [20, 21, MASK, 25, 26, 27, 28, 29]
    assert infilled(text, 0.0, 3.0, MASK, given).tolist() == text.tolist()


@given(st.integers(1, 60), st.floats(0, 0.99), st.floats(1, 8), st.integers(0, 10**6))
def test_infilling_hides_the_share_and_keeps_the_order(length, rate, mean, seed):
    chance = np.random.default_rng(seed)
    text = np.arange(100, 100 + length)
    found = infilled(text, rate, mean, MASK, InfillingDraws(*chance.random((2, length), dtype=np.float32)))
    kept = found[found != MASK].tolist()
    assert len(kept) == length - round(rate * length)
    assert kept == sorted(kept)
    assert len(found) <= length


def test_span_lengths_have_a_poisson_distribution():
    drawn = np.searchsorted(poisson(3.0), np.random.default_rng(0).random(50_000), side="left")
    for length, count in Counter(drawn.tolist()).items():
        share = math.exp(-3) * 3**length / math.factorial(length)
        assert count / 50_000 == pytest.approx(share, abs=4 * math.sqrt(share / 50_000) + 1e-4)
    assert drawn.mean() == pytest.approx(3.0, abs=0.03)


def test_sentences_end_at_full_stops_that_white_space_follows():
    ours = tokenizer(Specials())
    sentences = Sentences.of(ours)
    end = ours.end
    for text, parts in [
        ("One. Two! Three? Four", ["One.", " Two!", " Three?", " Four"]),
        ("os.path is 3.5 wide. Yes", ["os.path is 3.5 wide.", " Yes"]),
        ("a.\nb", ["a.", "\nb"]),
        ("no end", ["no end"]),
    ]:
        assert [ours.decode(part.tolist()) for part in sentences.split(np.array(ours.encode(text)))] == parts
    joined = np.array([*ours.encode("a b"), end, *ours.encode("c. d"), end])
    assert [part.tolist() for part in sentences.split(joined)] == [
        [*ours.encode("a b"), end], ours.encode("c."), [*ours.encode(" d"), end]
    ]  # fmt: skip
    assert sentences.split(np.array([], dtype=np.int64)) == []


def test_sentences_of_longer_tokens():
    pairs = make_tokenizer(BytePairs(vocab=400), lambda: [TEXT * 20], list, special=Specials())
    parts = Sentences.of(pairs).split(np.array(pairs.encode("It was a sunny day! Why not? Because I say so.\nNobody")))
    texts = [pairs.decode(part.tolist()) for part in parts]
    assert "".join(texts) == "It was a sunny day! Why not? Because I say so.\nNobody"
    assert [text.strip() for text in texts] == ["It was a sunny day!", "Why not?", "Because I say so.", "Nobody"]


def test_sentences_stand_in_the_order_of_their_draws():
    ours = tokenizer(Specials())
    text = np.array(ours.encode("A. B. C."))
    given = np.array([0.5, 0.9, 0.1, *[0.0] * 20], dtype=np.float32)
    assert ours.decode(Sentences.of(ours).reordered(text, given).tolist()) == " C.A. B."


@pytest.mark.parametrize("hiding", ["masking", "deletion"])
def test_tokens_are_masked_or_left_out_at_the_rate(hiding):
    objective = DenoisingObjective(hiding=hiding, permuted=0.0)
    here = setting(objective, 128)
    windows = whole(objective, 128, list(range(40)))
    examples = objective.examples(windows, here)
    changed = 0
    for row, text in enumerate(windows.tokens.tolist()):
        *source, end = examples.tokens[row][~examples.padding[row]].tolist()
        assert end == here.tokenizer.end
        if hiding == "masking":
            mask = here.tokenizer.special("mask")
            assert all(one in {other, mask} for one, other in zip(source, text, strict=True))
            changed += source.count(mask)
        else:
            rest = iter(text)
            assert all(number in rest for number in source), "what is left stands in its order"
            changed += len(text) - len(source)
    assert changed / windows.tokens.size == pytest.approx(0.3, abs=0.02)
    assert objective.special(128).roles == (("mask",) if hiding == "masking" else ())


def test_the_target_is_the_whole_text_and_the_source_its_noise():
    objective = DenoisingObjective()
    here, windows = setting(objective, 96), whole(objective, 96, [0, 1, 2])
    examples = objective.examples(windows, here)
    end, mask = here.tokenizer.end, here.tokenizer.special("mask")
    assert examples.targets.shape == (3, 96), "the end included, a row is as long as the run's"
    for row, text in enumerate(windows.tokens.tolist()):
        source = examples.tokens[row][~examples.padding[row]].tolist()
        assert examples.targets[row].tolist() == [*text, end]
        assert examples.decoder_tokens[row].tolist() == [end, *text]
        kept = Counter(number for number in source[:-1] if number != mask)
        assert sum(kept.values()) == len(text) - round(0.3 * len(text))
        assert kept <= Counter(text)
    assert not examples.decoder_padding.any()


def test_sentences_are_permuted_in_the_share_of_rows_that_is_asked():
    rows = list(range(300))
    for share in (0.0, 0.5, 1.0):
        objective = DenoisingObjective(rate=0.0, permuted=share)
        windows = whole(objective, 100, rows)
        examples = objective.examples(windows, setting(objective, 100))
        source = examples.tokens[:, :-1]
        assert torch.equal(source.sort(1).values, torch.from_numpy(windows.tokens).sort(1).values)
        moved = (source != torch.from_numpy(windows.tokens)).any(1).float().mean().item()
        # A row of few sentences may keep its order by chance.
        assert share * 0.6 <= moved <= share * 1.0 + (0.1 if share else 0)


def test_a_row_without_text_has_no_target():
    objective = DenoisingObjective()
    examples = objective.examples(batch([0, 12], 47), setting(objective, 48))
    assert (examples.targets >= 0).sum(1).tolist() == [0, 13]
    assert int((~examples.padding[0]).sum()) == 1


def test_what_cannot_be_trained_so_is_refused():
    with pytest.raises(ValueError, match="choose an architecture with an encoder"):
        DenoisingObjective().check(small("gpt2"))
    with pytest.raises(ValueError, match="length = 1 has no room"):
        DenoisingObjective().sizes.check(1, 1, 1)
