"""What every objective on windows of text owes: rows that depend on themselves alone, sums that add up, a loss that falls."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch

from anyformer.data import Bytes, Split, Text, prepare
from anyformer.describe import change
from anyformer.model.transformer import build
from anyformer.objectives import (
    CausalObjective,
    DenoisingObjective,
    MaskedObjective,
    PrefixObjective,
    ReplacedTokensObjective,
    Setting,
    SpanCorruptionObjective,
    UL2Objective,
    loss_of,
    without_penalties,
)
from anyformer.objectives.causal import NextToken
from anyformer.objectives.feed import TextFeed
from anyformer.objectives.objective import Objective, Partners
from anyformer.operations import Limit, Tally
from anyformer.parts import RMSNorm
from anyformer.plan import Plan
from objectives.windows import TEXT, batch, setting, small, whole

LENGTH = 48
PLAN = Plan(precision="fp32", compile="off")
CASES = {
    "causal": (CausalObjective(), "llama-12m"),
    "prefix": (PrefixObjective(), "prefix"),
    "masked": (MaskedObjective(), "bert-base-uncased"),
    "masked-words": (MaskedObjective(unit="words", frame=False), "bert-base-uncased"),
    "masked-spans": (MaskedObjective(unit="spans"), "bert-base-uncased"),
    "span_corruption": (SpanCorruptionObjective(), "t5-small"),
    "ul2": (UL2Objective(), "t5-small"),
    "ul2-prefix": (UL2Objective(target="same_sequence"), "prefix"),
    "denoising": (DenoisingObjective(), "bart-base"),
    "denoising-deletion": (DenoisingObjective(hiding="deletion", permuted=0.5), "bart-base"),
    "replaced_tokens": (ReplacedTokensObjective(), "electra-small"),
    "replaced_tokens-unframed": (ReplacedTokensObjective(frame=False, masked=0.8), "electra-small"),
}


@pytest.fixture(params=CASES)
def case(request):
    """(objective, model, second models)"""
    objective, name = CASES[request.param]
    objective.check(small(name))
    model = build(small(name), PLAN, seed=3).eval()
    return objective, model, partners_of(objective, model)


def partners_of(objective: Objective, model) -> Partners:
    return {
        name: build(partner.described(model.architecture), PLAN, seed=5).eval() for name, partner in objective.partners.items()
    }


def test_examples_of_a_row_depend_on_that_row_alone(case):
    objective, _, _ = case
    here = setting(objective, LENGTH)
    together = objective.examples(whole(objective, LENGTH, [4, 9, 2, 7]), here)
    for place, row in enumerate([4, 9, 2, 7]):
        alone = objective.examples(whole(objective, LENGTH, [row]), here)
        for one, other in zip(together.slice(place, place + 1).tensors(), alone.tensors(), strict=True):
            assert (one is None and other is None) or torch.equal(one, other)
    again = objective.examples(whole(objective, LENGTH, [4, 9, 2, 7]), replace(here, seed=1))
    same = all(
        torch.equal(one, other) for one, other in zip(together.tensors(), again.tensors(), strict=True) if one is not None
    )
    assert same == isinstance(objective, NextToken), "another seed draws other examples"


def test_the_loss_of_a_batch_is_that_of_its_micro_batches(case):
    objective, model, partners = case
    examples = objective.examples(whole(objective, LENGTH, [0, 1, 2, 3]), setting(objective, LENGTH))
    pieces = [examples.slice(0, 1), examples.slice(1, 4)]
    with torch.no_grad():
        together = loss_of(objective, model, examples, None, partners=partners)
        apart = sum(loss_of(objective, model, piece, None, partners=partners) for piece in pieces)
    torch.testing.assert_close(together, apart, rtol=1e-5, atol=1e-4)
    assert examples.count == sum(piece.count for piece in pieces) > 0


def test_a_row_that_ends_early_is_the_same_without_its_padding(case):
    """And one that lies beyond the end of the text counts for nothing."""
    objective, model, partners = case
    if objective.kind == "prefix":
        pytest.skip("a prefix is a share of the whole row")
    here, window = setting(objective, LENGTH), objective.window(LENGTH)
    padded = objective.examples(batch([20, 0, window], window, [5, 6, 8]), here)
    shorter = replace(here, length=LENGTH - window + 20) if objective.kind in {"causal", "masked", "replaced_tokens"} else here
    alone = [objective.examples(batch([20], 20, [5]), shorter), objective.examples(batch([window], window, [8]), here)]
    with torch.no_grad():
        together = loss_of(objective, model, padded, None, partners=partners)
        apart = sum(loss_of(objective, model, each, None, partners=partners) for each in alone)
    torch.testing.assert_close(together, apart, rtol=1e-5, atol=1e-4)
    assert padded.count == sum(each.count for each in alone)


def test_the_loss_falls_on_one_repeated_batch(case):
    objective, model, partners = case
    examples = objective.examples(whole(objective, LENGTH, [0, 1, 2, 3]), setting(objective, LENGTH))
    learning = [weight for each in (model, *partners.values()) for weight in each.parameters()]
    optimiser = torch.optim.Adam(learning, 1e-2)
    losses = []
    for _ in range(20):
        loss = loss_of(objective, model, examples, None, partners=partners) / examples.count
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.97 * losses[0]
    unused = [name for name, weight in model.named_parameters() if weight.grad is None]
    assert unused == []


def test_statistics_give_the_loss_and_metrics(case):
    objective, model, partners = case
    examples = objective.examples(whole(objective, LENGTH, [0, 1, 2, 3]), setting(objective, LENGTH))
    with torch.no_grad():
        totals = objective.statistics(model, examples, None, partners)
        loss = loss_of(without_penalties(objective), model, examples, None, partners=partners)
    torch.testing.assert_close(totals["loss"], loss)
    metrics = objective.metrics(totals, {})
    assert 0 <= metrics["accuracy"] <= 1


def test_isolated_documents_are_refused_where_a_row_is_one_text():
    isolated = Text(paths=("x",), isolate=True)
    for objective in (SpanCorruptionObjective(), UL2Objective(), DenoisingObjective()):
        with pytest.raises(ValueError, match="makes a source and a target of a row"):
            objective.check_data(isolated, small("t5-small"), 16)
    for objective in (MaskedObjective(), ReplacedTokensObjective()):
        objective.check_data(isolated, small("bert-base-uncased"), 16)


def test_an_evaluation_goes_over_every_token_that_has_one_before_it(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT * 5)
    data = Text(paths=(str(tmp_path / "text.txt"),), tokenizer=Bytes(), validation=0.5)
    corpus = prepare(data, tmp_path / "cache", 1, progress=False)
    feed = CausalObjective().feed(data, corpus, Setting(corpus.tokenizer, 16, 0), 4, held_out=True)
    assert sum(examples.count for examples in feed.once()) == feed.whole


def test_a_part_that_waits_for_later_tokens_in_training_alone_is_refused():
    class Waiting(RMSNorm):
        kind: Literal["waiting_norm"] = "waiting_norm"

        def cost(self, width, vectors):
            limits = Limit.each("this norm waits for later tokens in training", "stepwise", in_training=True)
            return super().cost(width, vectors) + Tally(own_limits=limits)

    theirs = change(small("llama-12m"), "decoder.final_norm", Waiting())
    with pytest.raises(ValueError, match="lets every token see: this norm waits for later tokens in training; the loss would"):
        CausalObjective().check(theirs)


def test_tokens_of_a_feed_are_those_it_trains_on():
    """Of the first batches as they are drawn; of the whole split, each once and in order, from the step that has read it."""
    split = Split.of(np.arange(40), [0], bytes=40)
    feed = TextFeed(split, 5, 2, 0, False, "epochs", CausalObjective().next_tokens)
    assert feed.tokens(2).tolist() == [*feed.at(0).tokens.flatten().tolist(), *feed.at(1).tokens.flatten().tolist()]
    assert len(feed.tokens(3)) == 30
    assert feed.tokens(4).tolist() == feed.tokens(99).tolist() == list(range(40))
