"""Sequence to sequence: targets shifted right behind the start token, padding that changes nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from anyformer.data import IGNORED, RecordBatch, Text, TextPairs
from anyformer.model.transformer import build
from anyformer.objectives import Seq2SeqObjective, Setting, loss_of
from anyformer.plan import Plan
from anyformer.text import DataError, Specials
from objectives.heads import made
from objectives.windows import small, tokenizer

PLAN = Plan(precision="fp32", compile="off")
PAIRS = [("a source", "its target"), ("longer than the others", "t"), ("s", ""), ("two words", "and three more words")]
OURS = tokenizer(Specials())


def records(pairs: list[tuple[str, str]]) -> RecordBatch:
    data = TextPairs(paths=("x",))
    made = (data.numbers({}, [np.array(OURS.encode(text), np.uint32) for text in pair], OURS, {}) for pair in pairs)
    rows = tuple(({name: np.asarray(column) for name, column in each.items()},) for each in made)
    return RecordBatch(rows, np.arange(len(pairs)))


def examples_of(pairs: list[tuple[str, str]], length: int):
    return Seq2SeqObjective().examples(records(pairs), Setting(OURS, length))


def test_examples_by_hand():
    examples, end = examples_of([("ab", "xyz"), ("abcd", "x")], 5), OURS.end
    a, b, c, d, x, y, z = (ord(letter) for letter in "abcdxyz")
    assert examples.tokens.tolist() == [[a, b, 0, 0, 0], [a, b, c, d, 0]]
    assert examples.padding.tolist() == [[False] * 2 + [True] * 3, [False] * 4 + [True]]
    assert examples.decoder_tokens.tolist() == [[end, x, y, z, 0], [end, x, 0, 0, 0]]
    assert examples.decoder_padding.tolist() == [[False] * 4 + [True], [False] * 2 + [True] * 3]
    assert examples.targets.tolist() == [[x, y, z, end, IGNORED], [x, end, IGNORED, IGNORED, IGNORED]]
    assert examples.count == 6


@pytest.mark.parametrize("name", ["t5-small", "bart-base"])
def test_padded_in_a_batch_equals_alone(name):
    """Logits to 1e-6 and so the loss; and the batch's loss is the sum."""
    model, objective = build(small(name), PLAN, seed=1).eval(), Seq2SeqObjective()
    batch = examples_of(PAIRS, 32)
    total = 0.0
    with torch.no_grad():
        logits = objective.logits(model, batch, None, None)
        for row, (source, target) in enumerate(PAIRS):
            tokens = torch.tensor([OURS.encode(source)])
            entered = torch.tensor([[OURS.end, *OURS.encode(target)]])
            alone = model(tokens, entered)
            torch.testing.assert_close(logits[row : row + 1, : entered.shape[1]], alone, rtol=0, atol=1e-6)
            wanted = torch.tensor([*OURS.encode(target), OURS.end])
            total += torch.nn.functional.cross_entropy(alone[0], wanted, reduction="sum").item()
        found = loss_of(objective, model, batch, None).item()
    assert found == pytest.approx(total, rel=1e-5)


def test_the_decoder_sees_no_later_target():
    model = build(small("t5-small"), PLAN, seed=1).eval()
    objective, batch = Seq2SeqObjective(), examples_of(PAIRS[:1], 16)
    changed = batch.decoder_tokens.clone()
    changed[0, 5] = 7
    with torch.no_grad():
        before, after = (objective.logits(model, one, None, None) for one in (batch, replace(batch, decoder_tokens=changed)))
    assert torch.equal(before[0, :5], after[0, :5])
    assert (before[0, 5] != after[0, 5]).any()


def test_a_prompt_is_the_shortest_source_of_sixteen(tmp_path):
    """Of each sixteen records their own: the last of the first, and the first of the second."""
    sources = ["a source"] * 15 + ["one", "two"] + ["a source"] * 15
    rows = [{"source": source, "target": "t"} for source in sources]
    corpus = made(Seq2SeqObjective(), {"kind": "pairs"}, rows, tmp_path, 16).corpus
    assert [Seq2SeqObjective().traits.prompt(corpus, number) for number in range(2)] == ["one", "two"]


def test_records_that_do_not_fit_are_left_out_and_refused_where_none_does(tmp_path):
    rows = [{"source": source, "target": "t"} for source in ("nine long", "ten longer", "one")]
    prepared = made(Seq2SeqObjective(), {"kind": "pairs"}, rows, tmp_path, 8)
    assert prepared.held_out[0].targets.shape == (1, 8)
    tight = Setting(prepared.setting.tokenizer, 2, 0, prepared.setting.names)
    for feed, split in ((Seq2SeqObjective().feed, "train"), (partial(Seq2SeqObjective().feed, held_out=True), "validation")):
        with pytest.raises(
            DataError, match=rf"the {split} split has 3 records, and the shortest takes 3 positions: .*length = 2"
        ):
            feed(prepared.data, prepared.corpus, tight, 4)


def test_what_cannot_be_trained_so_is_refused():
    objective = Seq2SeqObjective()
    with pytest.raises(ValueError, match="choose an architecture with an encoder"):
        objective.check(small("gpt2"))
    with pytest.raises(ValueError, match=r"trained on data.kind = 'pairs'"):
        objective.check_data(Text(paths=("x",)), small("t5-small"), 16)
