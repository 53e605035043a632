from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyformer.data import IGNORED, Batch, Batches, Bytes, Split, spread, windows
from anyformer.data.vocabulary import make_tokenizer
from anyformer.objectives import CausalObjective, Setting
from anyformer.text import DataError
from data.texts import Prepare
from effort import examples

SETTING = Setting(make_tokenizer(Bytes(), tuple, tuple), 8)
NAMES = ("tokens", "targets", "rows", "documents")


def _split(tokens: int, documents: int = 1) -> Split:
    """Token i has the number i, so that a batch shows where it came from."""
    generator = np.random.default_rng(tokens)
    starts = np.sort(generator.choice(np.arange(1, tokens), documents - 1, replace=False)) if documents > 1 else []
    return Split.of(np.arange(tokens, dtype=np.uint32), [0, *np.array(starts, dtype=int).tolist()])


def _same(one: Batch, other: Batch) -> None:
    for name in NAMES:
        left, right = getattr(one, name), getattr(other, name)
        assert (left is None) == (right is None)
        assert left is None or np.array_equal(left, right), name


@examples(25)
@given(tokens=st.integers(2, 400), length=st.integers(1, 40), batch=st.integers(1, 7), seed=st.integers(0, 9))
def test_each_epoch_has_each_window_once_from_its_own_origin(tokens: int, length: int, batch: int, seed: int) -> None:
    if tokens <= length:
        return
    batches = Batches(_split(tokens), length, batch, seed)
    count = batches.windows
    flat = np.concatenate([batches.at(step).tokens for step in range(-(-3 * count // batch))])
    for epoch in range(3):
        rows = flat[epoch * count : (epoch + 1) * count]
        origin = batches.origin(epoch)
        assert sorted(rows[:, 0].tolist()) == [origin + place * length for place in range(count)]
        assert rows.max() + 1 < tokens
        assert tokens - 1 - rows.size < 2 * length, "less than two windows are left out"


def test_every_epoch_differs_and_all_tokens_are_reached() -> None:
    batches = Batches(_split(1000), 32, 1, seed=5)
    origins = [batches.origin(epoch) for epoch in range(40)]
    assert len(set(origins)) > 15
    firsts = [batches.at(epoch * batches.windows).tokens[0, 0] for epoch in range(40)]
    assert len(set(firsts)) > 30
    seen = np.concatenate(
        [batches.samples(np.arange(batches.windows) + e * batches.windows).targets.ravel() for e in range(300)]
    )
    assert set(range(1, 1000)) == set(seen.tolist())
    later = [np.unique(batches.samples(np.arange(batches.windows) + e * batches.windows).tokens).size for e in (1, 7, 39)]
    assert min(later) == batches.windows * 32 > 900


@pytest.mark.parametrize("sampling", ["epochs", "random"])
@pytest.mark.parametrize("isolate", [False, True])
def test_a_batch_depends_on_seed_and_step_alone(sampling: str, isolate: bool) -> None:
    def fresh(seed: int = 3) -> Batches:
        return Batches(_split(500, 30), 16, 12, seed, isolate, sampling)  # type: ignore[arg-type]

    first = [fresh().at(step) for step in range(12)]
    again = fresh()
    for step in (11, 0, 7, 3):
        _same(again.at(step), first[step])
    assert not np.array_equal(fresh(4).at(0).tokens, first[0].tokens)
    assert np.array_equal(np.concatenate([batch.rows for batch in first]), np.arange(144))


@examples(40)
@given(world=st.sampled_from([1, 2, 3, 4, 6, 12]), micro=st.integers(1, 12), step=st.integers(0, 50), isolate=st.booleans())
def test_ranks_and_micro_batches_share_the_same_samples(world: int, micro: int, step: int, isolate: bool) -> None:
    batches = Batches(_split(300, 20), 8, 12, 1, isolate)
    whole = batches.at(step)
    parts = [batches.at(step, rank, world) for rank in range(world)]
    made = [CausalObjective().examples(part, SETTING) for part in parts]
    pieces = [part.slice(start, start + micro) for part in made for start in range(0, 12 // world, micro)]
    for name in NAMES[:3]:
        assert np.array_equal(np.concatenate([getattr(piece, name) for piece in pieces]), getattr(whole, name))
    assert sum(piece.count for piece in pieces) == whole.valid


def test_random_windows_start_everywhere() -> None:
    batches = Batches(_split(20), 8, 1000, 0, sampling="random")
    assert set(batches.at(0).tokens[:, 0].tolist()) == set(range(12)), "as torch.randint(len - length) would"


def test_targets_are_the_next_tokens_across_documents() -> None:
    batch = Batches(_split(400, 40), 16, 4, 0).at(2)
    assert np.array_equal(batch.targets, batch.tokens + 1)
    assert batch.documents is None
    assert {getattr(batch, name).dtype for name in NAMES[:3]} == {np.dtype(np.int64)}


def test_isolated_documents_number_reset_and_end_at_their_last_token() -> None:
    split = Split.of(np.arange(100, 120), [0, 3, 4, 9])
    batch = next(windows(split, 12, 1, isolate=True))
    assert batch.documents is not None
    assert batch.documents.tolist() == [[0, 0, 0, 1, 2, 2, 2, 2, 2, 3, 3, 3]]
    assert batch.targets.tolist() == [[101, 102, -100, -100, 105, 106, 107, 108, -100, 110, 111, 112]]


def test_the_end_of_text_is_a_target_and_nothing_crosses_it(make: Prepare, library: object) -> None:
    corpus = make(paths=(str(library),), tokenizer=Bytes())
    for batch in windows(corpus.train, 64, 4, isolate=True):
        assert batch.documents is not None
        ends = batch.tokens == 256
        assert (batch.targets[ends] == IGNORED).all()
        if batch.rows.max() * 64 + 64 < len(corpus.train):
            assert (batch.targets[~ends] != IGNORED).all()
    targets = np.concatenate([batch.targets.ravel() for batch in windows(corpus.train, 64, 4, isolate=True)])
    assert (targets == 256).sum() == len(corpus.train.starts)


@examples(80)
@given(
    tokens=st.integers(2, 200),
    length=st.integers(1, 40),
    batch=st.sampled_from([1, 2, 4, 64]),
    world=st.sampled_from([1, 2]),
    isolate=st.booleans(),
)
def test_evaluation_has_every_token_once(tokens: int, length: int, batch: int, world: int, isolate: bool) -> None:
    split = _split(tokens, min(tokens, 9))
    if batch % world:
        return
    ranks = [list(windows(split, length, batch, isolate, rank, world)) for rank in range(world)]
    assert len({len(batches) for batches in ranks}) == 1
    assert len({batch.tokens.shape for batches in ranks for batch in batches}) == 1
    targets = np.concatenate([batch.targets.ravel() for batches in ranks for batch in batches])
    wanted = set(range(1, tokens)) - (set(split.starts.tolist()) if isolate else set())
    assert sorted(targets[targets != IGNORED].tolist()) == sorted(wanted)
    for batch in (batch for batches in ranks for batch in batches):
        padding = batch.rows[:, None] * length + np.arange(length) >= tokens
        assert (batch.targets[padding] == IGNORED).all()
        assert not batch.tokens[padding].any()
        if batch.documents is not None and padding.any():
            assert not set(batch.documents[0][padding[0]].tolist()) & set(batch.documents[0][~padding[0]].tolist())


@pytest.mark.parametrize(
    ("said", "call"),
    [
        (
            r"train split has 5 tokens, a window of length 5 needs 6; give more text, or a shorter length",
            lambda s: Batches(s, 5, 1, 0),
        ),
        (r"length = 0 should be at least 1", lambda s: Batches(s, 0, 1, 0)),
        (r"batch = 0 should be at least 1", lambda s: Batches(s, 2, 0, 0)),
        (r"batch of 3 rows cannot be shared by 2 ranks; make it a multiple of 2", lambda s: Batches(s, 2, 3, 0).at(0, 0, 2)),
        (r"rank = 2 should be in 0\.\.1", lambda s: Batches(s, 2, 4, 0).at(0, 2, 2)),
        (r"step = -1 should", lambda s: Batches(s, 2, 4, 0).at(-1)),
        (r"split has 0 tokens", lambda s: next(windows(Split.of([]), 2, 4))),
    ],
)
def test_what_cannot_be_cut_is_refused(said: str, call: object) -> None:
    with pytest.raises(DataError, match=said):
        call(Split.of(np.arange(5), name="train"))  # type: ignore[operator]


@examples(40)
@given(tokens=st.integers(2, 400), length=st.integers(1, 40), batch=st.integers(1, 7), most=st.integers(1, 60))
def test_some_windows_are_spread_evenly_over_the_split(tokens: int, length: int, batch: int, most: int) -> None:
    split = _split(tokens)
    whole = np.concatenate([each.targets for each in windows(split, length, batch)])
    some = np.concatenate([each.targets for each in windows(split, length, batch, most=most)])
    filled = some[(some != IGNORED).any(1)]
    starts = filled[:, 0]
    assert len(filled) == min(most, -(-(tokens - 1) // length))
    assert set(map(tuple, filled.tolist())) <= set(map(tuple, whole.tolist()))
    # One from each of as many equal parts of the windows, give or take one.
    every = -(-(tokens - 1) // length)
    gaps = np.diff([-1, *(starts - 1) // length, every])
    assert gaps.max() <= every / len(filled) + 2
    assert np.diff(starts).min(initial=1) > 0
    lines = spread(split, length, most)
    assert {tuple(line[1:]) for line in lines.tolist()} <= set(map(tuple, filled.tolist())) or len(filled) == 1
