"""Every part that changes scores equals the class of transformers that its docstring names, row by row and in batches."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import generation as theirs
from transformers.generation.logits_process import TopHLogitsWarper

from anyformer.describe import UserError
from anyformer.generation import Sampling
from anyformer.generation import processors as ours
from anyformer.generation.prefixes import Prefixes
from effort import examples

VOCABULARY, ENDS, MOST = 24, (3, 7), 9
PROMPTS = [[1, 2, 1, 2, 1], [5], [4, 4, 4], [9, 2]]
MADE = [[2, 1, 5, 2, 1], [5, 5, 6, 5, 6], [4, 8, 8, 8, 4], [2, 2, 9, 2, 9]]
SOURCES = [[6, 5, 6], [1, 2, 3, 4, 2], [8], [9, 2, 9, 2]]


def ids(rows):
    return torch.tensor(rows)


def scores_of(seed, rows, *, gaps=True):
    scores = torch.randn(rows, VOCABULARY, generator=torch.Generator().manual_seed(seed)) * 3
    if gaps:
        scores[:, seed % 5 :: 5] = float("-inf")
    return scores


def begin(prompt, forced=None):
    return len(prompt) if len(prompt) > 1 or forced is None else len(prompt) + 1


RUNS = (((5,), 2.5), ((2, 1, 2), -4.0), ((1, 5), 3.0), ((9, 9, 9, 9, 9, 9, 9, 9), 1.0))
PROCESSORS = {
    # ours, and transformers' for a row with this prompt and source
    "repetition": (ours.RepetitionPenalty(penalty=1.7), lambda p, s: theirs.RepetitionPenaltyLogitsProcessor(1.7)),
    "rewarded": (ours.RepetitionPenalty(penalty=0.6), lambda p, s: theirs.RepetitionPenaltyLogitsProcessor(0.6)),
    "encoder_repetition": (
        ours.EncoderRepetitionPenalty(penalty=1.3), lambda p, s: theirs.EncoderRepetitionPenaltyLogitsProcessor(1.3, ids([s])),
    ),
    "ngrams1": (ours.NoRepeatNGrams(size=1), lambda p, s: theirs.NoRepeatNGramLogitsProcessor(1)),
    "ngrams2": (ours.NoRepeatNGrams(size=2), lambda p, s: theirs.NoRepeatNGramLogitsProcessor(2)),
    "ngrams3": (ours.NoRepeatNGrams(size=3), lambda p, s: theirs.NoRepeatNGramLogitsProcessor(3)),
    "encoder_ngrams1": (
        ours.EncoderNoRepeatNGrams(size=1), lambda p, s: theirs.EncoderNoRepeatNGramLogitsProcessor(1, ids([s])),
    ),
    "encoder_ngrams2": (
        ours.EncoderNoRepeatNGrams(size=2), lambda p, s: theirs.EncoderNoRepeatNGramLogitsProcessor(2, ids([s])),
    ),
    "bias": (
        ours.SequenceBias(runs=RUNS), lambda p, s: theirs.SequenceBiasLogitsProcessor([[list(run), b] for run, b in RUNS]),
    ),
    "bad_words": (
        ours.BadWords(runs=((5,), (2, 1), (3,), (1, 7))),
        lambda p, s: theirs.NoBadWordsLogitsProcessor([[5], [2, 1], [3], [1, 7]], list(ENDS)),
    ),
    "min_length": (ours.MinLength(tokens=6), lambda p, s: theirs.MinLengthLogitsProcessor(6, list(ENDS))),
    "min_new": (ours.MinNewTokens(tokens=2), lambda p, s: theirs.MinNewTokensLengthLogitsProcessor(len(p), 2, list(ENDS))),
    "forced_first": (ours.ForcedFirst(token=4), lambda p, s: theirs.ForcedBOSTokenLogitsProcessor(4)),
    "forced_last": (ours.ForcedLast(tokens=(3, 8)), lambda p, s: theirs.ForcedEOSTokenLogitsProcessor(len(p) + MOST, [3, 8])),
    "invalid": (ours.RemoveInvalid(), lambda p, s: theirs.InfNanRemoveLogitsProcessor()),
    "decay": (
        ours.LengthDecay(start=2, factor=1.4), lambda p, s: theirs.ExponentialDecayLengthPenalty((2, 1.4), list(ENDS), len(p)),
    ),
    "suppress": (ours.Suppress(tokens=(1, 5, -1, 99)), lambda p, s: theirs.SuppressTokensLogitsProcessor([1, 5, -1, 99])),
    "suppress_first": (
        ours.SuppressFirst(tokens=(2, 6)), lambda p, s: theirs.SuppressTokensAtBeginLogitsProcessor([2, 6], begin(p)),
    ),
    "suppress_second": (
        ours.SuppressFirst(tokens=(2, 6), after_forced=True),
        lambda p, s: theirs.SuppressTokensAtBeginLogitsProcessor([2, 6], begin(p, 4)),
    ),
    "normalise": (ours.Normalise(), lambda p, s: theirs.LogitNormalization()),
}  # fmt: skip
WARPERS = {
    "temperature": (ours.TemperatureWarper(value=0.6), lambda keep: theirs.TemperatureLogitsWarper(0.6)),
    "top_k": (ours.TopKWarper(count=4), lambda keep: theirs.TopKLogitsWarper(4, min_tokens_to_keep=keep)),
    "top_k_all": (ours.TopKWarper(count=99), lambda keep: theirs.TopKLogitsWarper(99, min_tokens_to_keep=keep)),
    "top_p": (ours.TopPWarper(share=0.8), lambda keep: theirs.TopPLogitsWarper(0.8, min_tokens_to_keep=keep)),
    "top_p_none": (ours.TopPWarper(share=0), lambda keep: theirs.TopPLogitsWarper(0.0, min_tokens_to_keep=keep)),
    "min_p": (ours.MinPWarper(share=0.2), lambda keep: theirs.MinPLogitsWarper(0.2, min_tokens_to_keep=keep)),
    "top_h": (ours.TopHWarper(share=0.4), lambda keep: TopHLogitsWarper(0.4)),
    "typical": (ours.TypicalPWarper(share=0.5), lambda keep: theirs.TypicalLogitsWarper(0.5, min_tokens_to_keep=keep)),
    "epsilon": (ours.EpsilonCutoffWarper(least=0.06), lambda keep: theirs.EpsilonLogitsWarper(0.06, min_tokens_to_keep=keep)),
    "eta": (ours.EtaCutoffWarper(least=0.2), lambda keep: theirs.EtaLogitsWarper(0.2, min_tokens_to_keep=keep)),
}


def test_a_token_is_kept_until_the_share_is_reached_and_no_longer():
    """Of four tokens of probability 1/4, two reach a half, and the third is not needed."""
    kept = ours.TopPWarper(share=0.5).warp(torch.zeros(1, 4)).isfinite()
    assert kept.sum() == 2
    assert kept.equal(theirs.TopPLogitsWarper(0.5)(None, torch.zeros(1, 4)).isfinite())


def written(made):
    """The texts after so many tokens, with sources."""
    texts = Prefixes.of(PROMPTS, ends=ENDS, most=MOST, sources=SOURCES)
    for number in range(made):
        texts.add(ids([row[number] for row in MADE]))
    return texts


@pytest.mark.parametrize("made", [0, 1, 2, 5])
@pytest.mark.parametrize("name", PROCESSORS)
def test_rows_of_a_batch_are_changed_as_transformers_changes_them_alone(name, made):
    own, theirs_of = PROCESSORS[name]
    for gaps in (False, True):
        scores = scores_of(made, len(PROMPTS), gaps=gaps)
        found = own.apply(scores, written(made))
        for row, (prompt, source) in enumerate(zip(PROMPTS, SOURCES, strict=True)):
            text = ids([prompt + MADE[row][:made]])
            expected = theirs_of(prompt, source)(text, scores[row : row + 1].clone())
            torch.testing.assert_close(found[row : row + 1], expected, rtol=0, atol=0 if name != "decay" else 1e-5)


@pytest.mark.parametrize("name", ["repetition", "ngrams2", "ngrams3", "bias", "bad_words", "forced_last"])
def test_a_batch_padded_on_the_left_is_changed_as_transformers_changes_it(name):
    """Where padding means nothing to transformers, its own batches are the same."""
    own, theirs_of = PROCESSORS[name]
    made, pad, longest = 5, 0, max(map(len, PROMPTS))
    rows = [[pad] * (longest - len(prompt)) + prompt + new[:made] for prompt, new in zip(PROMPTS, MADE, strict=True)]
    processor = theirs_of([0] * longest, None)
    if name == "repetition":
        processor = theirs.RepetitionPenaltyLogitsProcessor(1.7, ids([longest - len(prompt) for prompt in PROMPTS]))
    scores = scores_of(1, len(rows))
    torch.testing.assert_close(own.apply(scores, written(made)), processor(ids(rows), scores.clone()), rtol=0, atol=0)


@pytest.mark.parametrize("keep", [1, 3])
@pytest.mark.parametrize("name", WARPERS)
def test_distributions_are_cut_as_transformers_cuts_them(name, keep):
    own, theirs_of = WARPERS[name]
    for seed in range(8):
        scores = scores_of(seed, 5, gaps=seed % 2 == 0)
        expected = theirs_of(keep)(torch.zeros(5, 1, dtype=torch.int64), scores.clone())
        torch.testing.assert_close(own.warp(scores, keep), expected, rtol=0, atol=0)


def test_a_decoders_source_is_its_prompt():
    texts = Prefixes.of(PROMPTS)
    texts.add(ids([11, 12, 13, 14]))
    scores = scores_of(2, 4, gaps=False)
    found = ours.EncoderRepetitionPenalty(penalty=2.0).apply(scores, texts)
    for row, prompt in enumerate(PROMPTS):
        expected = theirs.EncoderRepetitionPenaltyLogitsProcessor(2.0, ids([prompt]))(ids([[0]]), scores[row : row + 1])
        torch.testing.assert_close(found[row : row + 1], expected, rtol=0, atol=0)


def test_frequency_and_presence_count_new_tokens_alone():
    """vLLM: logits -= frequency * counts; logits -= presence * (counts > 0), of the tokens made and not of the prompt."""
    scores = scores_of(3, 4)
    frequency = ours.FrequencyPenalty(penalty=0.4).apply(scores, written(5))
    presence = ours.PresencePenalty(penalty=-1.5).apply(scores, written(5))
    for row, made in enumerate(MADE):
        counts = Counter(made)
        for token in range(VOCABULARY):
            torch.testing.assert_close(frequency[row, token], scores[row, token] - 0.4 * counts[token])
            torch.testing.assert_close(presence[row, token], scores[row, token] + 1.5 * (counts[token] > 0))


def test_parts_work_in_the_order_of_transformers():
    parts = tuple(own for own, _ in (*PROCESSORS.values(), *WARPERS.values()))
    once = {type(part): part for part in parts}
    names = [type(part).__name__ for part in Sampling(processors=tuple(once.values())[::-1]).parts]
    assert names == [each.__name__ for each in ours.ORDER if each in once]

    class Own(ours.Processor):
        """Defined elsewhere."""

    assert [type(part) for part in Sampling(top_k=3, processors=(Own(), ours.Suppress(tokens=(1,)))).parts] == [
        ours.Suppress, Own, ours.TopKWarper,
    ]  # fmt: skip


def test_all_parts_together_equal_transformers_list():
    sampling = Sampling(
        temperature=0.7, top_k=12, top_p=0.9, min_p=0.02,
        processors=(
            ours.TypicalPWarper(share=0.9), ours.NoRepeatNGrams(size=2), ours.RepetitionPenalty(penalty=1.2), ours.Normalise(),
            ours.SequenceBias(runs=RUNS), ours.MinNewTokens(tokens=9),
        ),
    )  # fmt: skip
    scores = scores_of(4, 4, gaps=False)
    found = sampling.scores(scores, written(5))
    for row, prompt in enumerate(PROMPTS):
        given = theirs.LogitsProcessorList([
            PROCESSORS["bias"][1](prompt, None), theirs.RepetitionPenaltyLogitsProcessor(1.2),
            theirs.NoRepeatNGramLogitsProcessor(2), theirs.MinNewTokensLengthLogitsProcessor(len(prompt), 9, list(ENDS)),
            theirs.TemperatureLogitsWarper(0.7), theirs.TopKLogitsWarper(12), theirs.TopPLogitsWarper(0.9),
            theirs.MinPLogitsWarper(0.02), theirs.TypicalLogitsWarper(0.9), theirs.LogitNormalization(),
        ])  # fmt: skip
        expected = given(ids([prompt + MADE[row]]), scores[row : row + 1].clone())
        torch.testing.assert_close(found[row : row + 1], expected, rtol=0, atol=0)


def test_a_greedy_choice_passes_over_what_shapes_draws():
    greedy = Sampling(temperature=0, top_p=0.5, processors=(ours.TypicalPWarper(share=0.2), ours.Suppress(tokens=(1,))))
    assert [type(part) for part in greedy.parts] == [ours.Suppress]


def test_a_part_given_twice_is_refused():
    for twice in (
        {"top_k": 3, "processors": (ours.TopKWarper(count=2),)},
        {"processors": (ours.Normalise(), ours.Normalise())},
    ):
        with pytest.raises(UserError, match="is given twice"):
            Sampling(**twice)


def test_numbers_beyond_the_vocabulary():
    scores = scores_of(0, 1, gaps=False)
    assert ours.WithinVocabulary(size=20).apply(scores, Prefixes.of([[1]])).shape == (1, 20)
    with pytest.raises(UserError, match="sequence_bias names token 40, and the vocabulary has 24"):
        ours.SequenceBias(runs=(((1, 40), 1.0),)).apply(scores, Prefixes.of([[1]]))
    # A prompt may hold tokens that have no score, such as those for images.
    torch.testing.assert_close(ours.RepetitionPenalty(penalty=2.0).apply(scores, Prefixes.of([[60]])), scores)
    torch.testing.assert_close(ours.NoRepeatNGrams(size=2).apply(scores, Prefixes.of([[1, 60, 1]])), scores)


def test_a_row_with_a_seed_is_drawn_as_alone():
    flat, rows = torch.zeros(3, VOCABULARY), torch.arange(3)
    for index in range(4):
        found = Sampling(seed=(5, 0, 5)).choose(flat, rows, index).tolist()
        alone = [int(Sampling(seed=seed).choose(flat[:1], rows[:1], index)) for seed in (5, 0, 5)]
        assert found == alone


@examples(60)
@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=6), min_size=1, max_size=4), st.integers(0, 6), st.data())
def test_texts_are_kept_through_additions_forks_and_replacement(prompts, made, data):
    texts, rows = Prefixes.of(prompts), [list(prompt) for prompt in prompts]
    starts = [len(prompt) for prompt in prompts]
    for _ in range(made):
        match data.draw(st.sampled_from(["add", "fork", "put"])):
            case "add":
                new = [data.draw(st.integers(0, 5)) for _ in rows]
                texts.add(ids(new))
                rows = [[*row, token] for row, token in zip(rows, new, strict=True)]
            case "fork":
                order = [data.draw(st.integers(0, len(rows) - 1)) for _ in rows]
                texts, rows, starts = texts.fork(order), [list(rows[at]) for at in order], [starts[at] for at in order]
            case "put":
                at, fresh = data.draw(st.integers(0, len(rows) - 1)), data.draw(st.lists(st.integers(0, 5), min_size=1))
                texts.put([at], Prefixes.of([fresh]))
                rows[at], starts[at] = list(fresh), len(fresh)
    assert texts.lengths == [len(row) for row in rows]
    assert texts.made == [len(row) - start for row, start in zip(rows, starts, strict=True)]
    for row, text in enumerate(rows):
        assert texts.written[row][texts.present[row]].tolist() == text
        assert texts.written[row][texts.new[row]].tolist() == text[starts[row] :]
    ahead = Prefixes.of([rows[0]]).ahead([4, 2])
    assert [ahead.written[n][ahead.present[n]].tolist() for n in range(3)] == [rows[0], [*rows[0], 4], [*rows[0], 4, 2]]
