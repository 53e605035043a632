"""Likelihoods by shape: of targets, of continuations that are filled in, and of words in a gap, each by plain loops."""

from __future__ import annotations

import random

import pytest
import torch

from anyformer.data import Bytes
from anyformer.data.vocabulary import make_tokenizer
from anyformer.describe import UserError
from anyformer.evaluation import (
    Gap,
    Request,
    by_left_side,
    by_mask,
    by_sentinel,
    by_whole_text,
    filled_scores,
    target_scores,
)
from anyformer.model.transformer import build
from anyformer.resolving import architecture
from anyformer.text import Specials
from evaluation.conftest import sharp, tiny_decoder

TOKENIZER = make_tokenizer(Bytes(), list, list, Specials(roles=("cls", "sep", "mask"), sentinels=2))
CLS, SEP, MASK = (TOKENIZER.special(role) for role in ("cls", "sep", "mask"))
SENTINEL, END = TOKENIZER.sentinels(1)[0], TOKENIZER.end
VOCAB = TOKENIZER.vocab_size


def some(count: int, seed: int) -> tuple[int, ...]:
    draw = random.Random(seed)
    return tuple(draw.randrange(256) for _ in range(count))


REQUESTS = [Request(some(3 + 2 * n % 7, n), some(1 + n % 4, n + 50)) for n in range(7)]
GAPS = [Gap(some(4 + n, n), some(5 - n, n + 9), some(3, n + 20)) for n in range(4)]


def sized(name: str):
    model = architecture(name, tiny=True)
    return sharp(build(model.but(embedding=model.embedding.but(vocab=VOCAB)), seed=1), 3.0)


@pytest.fixture(scope="module")
def t5():
    return sized("t5-small")


@pytest.fixture(scope="module")
def bert():
    return sized("bert-base-uncased")


@pytest.fixture(scope="module")
def decoder():
    return sharp(build(tiny_decoder(VOCAB), seed=1), 3.0)


def logs(model, *inputs):
    """(T, V) of one row."""
    with torch.no_grad():
        return model(*(torch.tensor([each]) for each in inputs))[0].double().log_softmax(-1)


@pytest.mark.parametrize("most", [8, 4096])
def test_a_target_has_the_score_of_its_tokens_one_after_the_other(t5, most):
    found = target_scores(t5, REQUESTS, (END, SENTINEL), most=most)
    for request, score in zip(REQUESTS, found, strict=True):
        total, entered = 0.0, [END, SENTINEL]
        for token in request.continuation:
            total += float(logs(t5, request.context, entered)[-1, token])
            entered.append(token)
        assert score.log_likelihood == pytest.approx(total, rel=1e-5, abs=1e-4)


@pytest.mark.parametrize("most", [8, 4096])
def test_a_continuation_is_filled_in_from_left_to_right(bert, most):
    found = filled_scores(bert, REQUESTS, TOKENIZER, most=most)
    for request, score in zip(REQUESTS, found, strict=True):
        total, known = 0.0, list(request.context)
        for place, token in enumerate(request.continuation):
            row = [CLS, *known, *[MASK] * (len(request.continuation) - place), SEP]
            total += float(logs(bert, row)[1 + len(known), token])
            known.append(token)
        assert score.log_likelihood == pytest.approx(total, rel=1e-5, abs=1e-4)


def test_the_probabilities_of_all_continuations_add_up_to_one(bert):
    requests = [Request((5, 6), (token,)) for token in range(VOCAB)]
    found = filled_scores(bert, requests, TOKENIZER)
    assert torch.tensor([each.log_likelihood for each in found]).logsumexp(0) == pytest.approx(0.0, abs=1e-4)


def test_a_masked_model_reads_both_sides_of_a_gap(bert):
    for gap, guess in zip(GAPS, by_mask(bert, GAPS, TOKENIZER), strict=True):
        expected = logs(bert, [CLS, *gap.before, MASK, *gap.after, SEP])[1 + len(gap.before), list(gap.candidates)]
        assert guess.logs == pytest.approx(expected.tolist(), abs=1e-4)
        assert guess.right == (int(expected.argmax()) == 0)
        assert guess.nats == pytest.approx(float(-expected.log_softmax(0)[0]), abs=1e-4)


def test_a_decoder_of_spans_writes_what_stood_at_the_sentinel(t5):
    for gap, guess in zip(GAPS, by_sentinel(t5, GAPS, TOKENIZER), strict=True):
        expected = logs(t5, [*gap.before, SENTINEL, *gap.after, END], [END, SENTINEL])[-1, list(gap.candidates)]
        assert guess.logs == pytest.approx(expected.tolist(), abs=1e-4)


def test_a_model_of_the_next_token_weighs_the_whole_text(decoder):
    """The difference of two candidates is that of the texts' log-likelihoods; without what follows, that of the next token."""
    for gap, whole, left in zip(GAPS, by_whole_text(decoder, GAPS, 32), by_left_side(decoder, GAPS, 32), strict=True):
        totals = []
        for candidate in gap.candidates:
            text = [*gap.before, candidate, *gap.after]
            totals.append(float(logs(decoder, text)[:-1].gather(-1, torch.tensor(text[1:])[:, None]).sum()))
        assert [each - whole.logs[0] for each in whole.logs] == pytest.approx([each - totals[0] for each in totals], abs=1e-3)
        assert left.logs == pytest.approx(logs(decoder, gap.before)[-1, list(gap.candidates)].tolist(), abs=1e-4)


def test_models_of_another_shape_are_refused(bert, decoder):
    with pytest.raises(UserError, match="sources and targets"):
        target_scores(decoder, REQUESTS, (END,))
    with pytest.raises(UserError, match="filled in by a masked model"):
        filled_scores(decoder, REQUESTS, TOKENIZER)
    with pytest.raises(UserError, match="model of the next token"):
        by_whole_text(bert, GAPS, 32)
