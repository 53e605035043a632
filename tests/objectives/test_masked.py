"""Masked prediction: the shares of transformers' collator, whole words, spans at their rate and length."""

from __future__ import annotations

from itertools import groupby

import pytest
import torch
from transformers import AutoTokenizer, DataCollatorForLanguageModeling

from anyformer.data import IGNORED, BytePairs
from anyformer.data.vocabulary import make_tokenizer
from anyformer.describe import change
from anyformer.objectives import MaskedObjective, Setting
from anyformer.objectives.selection import chosen, spans, word_starts
from anyformer.parts import Causal
from anyformer.parts.call.noise import Noise, uniform
from anyformer.text import Specials
from objectives.windows import TEXT, batch, setting, small, tokenizer, whole

LENGTH, ROWS = 98, 400


def shares(tokens: torch.Tensor, labels: torch.Tensor, original: torch.Tensor, mask: int) -> dict[str, float]:
    """What becomes of tokens, as shares: of all tokens the predicted, of these the masked, the random and the kept."""
    predicted = labels != IGNORED
    count = int(predicted.sum())
    masked, kept = (tokens == mask) & predicted, (tokens == original) & predicted
    assert torch.equal(labels[predicted], original[predicted])
    assert torch.equal(tokens[~predicted], original[~predicted])
    return {
        "predicted": count / tokens.numel(),
        "masked": int(masked.sum()) / count,
        "kept": int(kept.sum()) / count,
        "random": int((predicted & ~masked & ~kept).sum()) / count,
    }


@pytest.mark.parametrize("rate", [0.15, 0.4])
def test_shares_are_those_of_transformers_collator(rate, tmp_path):
    """And neither ever hides a special token; ours never puts one in, as theirs may."""
    objective = MaskedObjective(rate=rate)
    here = setting(objective, LENGTH)
    ours = here.tokenizer
    ours.save(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    theirs.pad_token = theirs.eos_token  # their collator asks for one, and every row is full
    windows = whole(objective, LENGTH, list(range(ROWS)))
    examples = objective.examples(windows, here)
    framed = torch.cat(
        [
            torch.full((ROWS, 1), ours.special("cls")),
            torch.from_numpy(windows.tokens),
            torch.full((ROWS, 1), ours.special("sep")),
        ],
        1,
    )
    collator = DataCollatorForLanguageModeling(theirs, mlm=True, mlm_probability=rate, seed=0)
    made = collator([{"input_ids": row} for row in framed.tolist()])
    found = shares(examples.tokens, examples.targets, framed, ours.special("mask"))
    expected = shares(made["input_ids"], made["labels"], framed, ours.special("mask"))
    assert found == pytest.approx(expected, abs=0.02)
    assert found == pytest.approx({"predicted": rate * 96 / 98, "masked": 0.8, "kept": 0.1, "random": 0.1}, abs=0.015)
    special = set(ours.special_tokens.values())
    for targets in (examples.targets, made["labels"]):
        assert not special & set(targets[targets != IGNORED].tolist())
    assert not (special - {ours.special("mask")}) & set(examples.tokens[:, 1:-1].flatten().tolist())


@pytest.mark.parametrize(("masked", "random"), [(1.0, 0.0), (0.0, 1.0), (0.5, 0.5), (0.0, 0.0)])
def test_what_becomes_of_predicted_tokens_is_a_value(masked, random):
    objective = MaskedObjective(masked=masked, random=random, frame=False)
    windows = whole(objective, LENGTH, list(range(100)))
    here = setting(objective, LENGTH)
    examples = objective.examples(windows, here)
    found = shares(examples.tokens, examples.targets, torch.from_numpy(windows.tokens), here.tokenizer.special("mask"))
    assert found["masked"] == pytest.approx(masked, abs=0.05)
    # A random token may be the true one.
    assert found["random"] == pytest.approx(random, abs=0.05)


def test_random_tokens_are_none_of_the_special_ones():
    """Whose numbers come first in a vocabulary of pairs of bytes; every other token is drawn."""
    objective = MaskedObjective(rate=0.9, masked=0.0, random=1.0, frame=False)
    pairs = make_tokenizer(BytePairs(vocab=280), lambda: [TEXT * 20], lambda: [TEXT], special=objective.special(LENGTH))
    special = set(pairs.special_tokens.values())
    assert min(special) == 0
    windows = batch([LENGTH] * ROWS, LENGTH)
    examples = objective.examples(windows, Setting(pairs, LENGTH))
    drawn = examples.tokens[examples.targets != IGNORED]
    assert set(drawn.tolist()) == set(range(pairs.vocab_size)) - special


def test_words_by_hand():
    """A border has no letter or digit on one side; white space and punctuation are words of their own."""
    ours = tokenizer(Specials())
    text = "ab, c3d  (x"
    starts = word_starts(torch.tensor([ours.encode(text)]), ours)[0].tolist()
    assert "".join("^" if begins else "." for begins in starts) == "^.^^^..^^^^"


def test_words_of_longer_tokens_by_hand():
    pairs = make_tokenizer(BytePairs(vocab=300), lambda: [TEXT * 20], list, special=Specials())
    numbers = pairs.encode("The quick dogquick")
    starts = word_starts(torch.tensor([numbers]), pairs)[0].tolist()
    texts, words = [pairs.decode([number]) for number in numbers], []
    for begins, text in zip(starts, texts, strict=True):
        words = [*words, text] if begins else [*words[:-1], words[-1] + text]
    assert [word.strip() for word in words if word.strip()] == ["The", "quick", "dogquick"]


def test_the_tokens_of_a_word_are_hidden_together():
    objective = MaskedObjective(unit="words", frame=False)
    here, windows = setting(objective, LENGTH), whole(objective, LENGTH, list(range(ROWS)))
    tokens = torch.from_numpy(windows.tokens)
    hidden = objective.examples(windows, here).targets != IGNORED
    starts = word_starts(tokens, here.tokenizer)
    assert torch.equal(hidden[:, 1:][~starts[:, 1:]], hidden[:, :-1][~starts[:, 1:]])
    assert hidden.float().mean().item() == pytest.approx(0.15, abs=0.02)


def test_a_hidden_word_ends_at_a_special_token():
    ours = tokenizer(Specials())
    tokens = torch.tensor([[*ours.encode("ab"), ours.end, *ours.encode("cd")]])
    free = tokens != ours.end
    for row in range(60):
        hidden = chosen(tokens, free, "words", 0.5, 1.0, Noise.at(0, 0, torch.tensor([row])), ours)[0].tolist()
        assert not hidden[2]
        assert hidden[0] == hidden[1]
        assert hidden[3] == hidden[4]


@pytest.mark.parametrize(("rate", "mean"), [(0.15, 3.8), (0.3, 3.0), (0.15, 1.0), (0.5, 6.0)])
def test_spans_hide_the_rate(rate, mean):
    noise = Noise.at(0, 0, torch.arange(600))
    draws = [uniform(noise, site, torch.Size((600, 300))) for site in (0, 3)]
    hidden = spans(*draws, rate, mean)
    # The first tokens of a row have fewer places before them at which a span may begin.
    assert hidden[:, 10:].float().mean().item() == pytest.approx(rate, abs=0.01)
    runs = [len(list(run)) for row in hidden.tolist() for hides, run in groupby(row) if hides]
    assert max(runs) > 10 or mean < 2, "spans that meet are one"
    alone = spans(*draws, 0.01, mean)
    lengths = [len(list(run)) for row in alone[:, 10:-10].tolist() for hides, run in groupby(row) if hides]
    cut = sum(min(length, 10) * (1 / mean) * (1 - 1 / mean) ** (length - 1) for length in range(1, 200)) if mean > 1 else 1.0
    assert sum(lengths) / len(lengths) == pytest.approx(cut, rel=0.1)


def test_a_span_has_a_mean_of_3_8_tokens_unless_told_otherwise():
    """As SpanBERT's; the cut at 10 tokens leaves sum_{n <= 10} (1 - 1/3.8)^(n-1) = 3.62 of them."""
    objective = MaskedObjective(rate=0.01, unit="spans", frame=False)
    hidden = objective.examples(whole(objective, 300, list(range(1000))), setting(objective, 300)).targets != IGNORED
    lengths = [len(list(run)) for row in hidden[:, 10:-10].tolist() for hides, run in groupby(row) if hides]
    assert sum(lengths) / len(lengths) == pytest.approx(3.62, abs=0.2)


def test_a_row_that_ends_early_has_its_frame_around_its_text():
    objective = MaskedObjective(rate=0.01)
    here = setting(objective, 12)
    examples = objective.examples(batch([4, 10], 10), here)
    first, last = here.tokenizer.special("cls"), here.tokenizer.special("sep")
    for row, length in enumerate([4, 10]):
        assert examples.tokens[row, 0] == first
        assert examples.tokens[row, length + 1] == last
        assert examples.padding[row].tolist() == [False] * (length + 2) + [True] * (10 - length)
    assert (examples.targets[examples.padding] == IGNORED).all()


def test_what_cannot_be_trained_so_is_refused():
    objective = MaskedObjective()
    with pytest.raises(ValueError, match="in this architecture a token sees only earlier ones"):
        objective.check(small("gpt2"))
    with pytest.raises(ValueError, match="a token sees only earlier ones"):
        objective.check(change(small("bert-base-uncased"), "encoder.layer.attention.mask", Causal()))
    with pytest.raises(ValueError, match="one sequence of text, and this model is one with a source"):
        objective.check(small("t5-small"))
    with pytest.raises(ValueError, match=r"head.outputs = 1: leave head.outputs out"):
        objective.check(small("electra-small"))
    with pytest.raises(ValueError, match="at least 3 are needed"):
        objective.sizes.check(2, 1, 1)
    with pytest.raises(ValueError, match="together at most 1"):
        MaskedObjective(masked=0.8, random=0.3)
    bare = Setting(tokenizer(Specials()), LENGTH)
    with pytest.raises(Exception, match="no special token for the role 'mask'"):
        objective.examples(whole(objective, LENGTH, [0]), bare)
