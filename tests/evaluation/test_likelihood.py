"""Scores of continuations: equal to one text at a time, however they are batched."""

from __future__ import annotations

import random

import pytest
import tokenizers
import torch
from tokenizers import processors

from anyformer.data.tokenizer_specs import BytePairs, Bytes
from anyformer.data.vocabulary import make_tokenizer
from anyformer.describe import UserError, change_all
from anyformer.evaluation import Request, scores
from anyformer.evaluation import likelihood as module
from anyformer.evaluation.likelihood import pair
from anyformer.model.transformer import build
from anyformer.resolving import architecture
from anyformer.text import Tokenizer
from evaluation.conftest import sharp, tiny_decoder

LENGTH = 12
TEXT = ["the cat sat on the mat and the dog sat on the log " * 40]


@pytest.fixture(scope="module")
def requests():
    draw = random.Random(0)

    def some(count):
        return tuple(draw.randrange(200) for _ in range(count))

    found = [Request(some(draw.randrange(1, 20)), some(draw.randrange(1, 6))) for _ in range(14)]
    shared = some(7)
    return [*found, *(Request(shared, (token,)) for token in (3, 4, 5)), Request(some(30), some(LENGTH))]


def whole(model, request):
    """The score of one request, by one call."""
    text = torch.tensor([request.context + request.continuation])[:, -LENGTH - 1 :]
    logs = model(text[:, :-1])[0, -len(request.continuation) :].double().log_softmax(-1)
    wanted = text[0, -len(request.continuation) :]
    return float(logs.gather(-1, wanted[:, None]).sum()), bool((logs.argmax(-1) == wanted).all())


def alone(model, request, prefix=False):
    """The score of one request, by one call for each of its tokens."""
    text, total, greedy = list(request.context), 0.0, True
    start = max(0, len(request.context) + len(request.continuation) - LENGTH - 1)
    begin = torch.tensor([len(request.context) - start]) if prefix else None
    for token in request.continuation:
        logs = model(torch.tensor([text[start:]]), prefix=begin)[0, -1].double().log_softmax(-1)
        total += float(logs[token])
        greedy &= int(logs.argmax()) == token
        text.append(token)
    return total, greedy


def dynamic_decoder():
    scaling = {"kind": "dynamic", "factor": 4.0, "trained": 6}
    return change_all(tiny_decoder(), {"decoder.layer.attention.rotary.scaling": scaling})


def prefix_decoder():
    return change_all(tiny_decoder(), {"decoder.layer.attention.mask": {"kind": "prefix"}})


MODELS = {
    "llama": tiny_decoder,
    "experts": lambda: architecture("mixtral-8x7b", tiny=True),
    "recurrence": lambda: architecture("qwen3-next-80b-a3b", tiny=True),
    "positions in a table": lambda: architecture("gpt2", tiny=True),
    "a prefix": prefix_decoder,
    "angles that depend on the length": dynamic_decoder,
}


@pytest.mark.parametrize("most", [16, 4096])
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_scores_are_those_of_each_text_alone(name, most, requests):
    model = sharp(build(MODELS[name](), seed=1), 3.0)
    done = []
    found = scores(model, requests, LENGTH, most=most, progress=done.append)
    for request, score in zip(requests, found, strict=True):
        # Where angles depend on the length of the text, each token in turn would be read with others.
        total, greedy = whole(model, request) if "angles" in name else alone(model, request, prefix=name == "a prefix")
        assert score.log_likelihood == pytest.approx(total, rel=1e-5, abs=1e-5)
        assert score.greedy == greedy
    assert done[-1] == len(requests)


def test_a_continuation_that_the_model_would_choose_is_greedy():
    model = sharp(build(tiny_decoder(), seed=1))
    with torch.no_grad():
        best = int(model(torch.tensor([[1, 2, 3]]))[0, -1].argmax())
    right, wrong = scores(model, [Request((1, 2, 3), (best,)), Request((1, 2, 3), (best + 1,))], LENGTH)
    assert (right.greedy, wrong.greedy) == (True, False)


def test_what_requests_share_is_read_once_and_batches_keep_to_their_size(requests, monkeypatch):
    model, calls = sharp(build(tiny_decoder(), seed=1)), []
    usual = model.features
    monkeypatch.setattr(model, "features", lambda tokens, **more: (calls.append(tuple(tokens.shape)), usual(tokens, **more))[1])
    scores(model, requests, LENGTH, most=40)
    assert sum(rows for rows, _ in calls) == len(requests) - 2, "three requests are of one context"
    assert all(rows * width <= 40 for rows, width in calls)
    assert [width for _, width in calls] == sorted((width for _, width in calls), reverse=True)
    calls.clear()
    monkeypatch.setattr(module, "_padding_matters", lambda architecture: True)
    padded = []
    monkeypatch.setattr(model, "features", lambda tokens, **more: (padded.append(more["padding"]), usual(tokens, **more))[1])
    scores(model, requests, LENGTH, most=40)
    assert padded == [None] * (len(requests) - 2), "each text alone"


def test_requests_that_cannot_be_scored_are_refused():
    model = build(tiny_decoder())
    with pytest.raises(UserError, match="at least one token"):
        scores(model, [Request((), (1,))], LENGTH)
    with pytest.raises(UserError, match="continuation has 13 tokens, and the model reads 12"):
        scores(model, [Request((1,), (1,) * 13)], LENGTH)
    with pytest.raises(UserError, match="model of the next token"):
        scores(build(architecture("bert-base-uncased", tiny=True)), [Request((1,), (1,))], LENGTH)


def test_a_pair_is_cut_where_the_tokens_of_the_context_end():
    tokenizer = make_tokenizer(BytePairs(vocab=300), lambda: TEXT, lambda: TEXT)
    request = pair(tokenizer, "the cat ", "sat")
    assert request.context == tuple(tokenizer.encode("the cat"))
    assert request.continuation == tuple(tokenizer.encode("the cat sat"))[len(request.context) :]
    assert tokenizer.decode(request.continuation) == " sat"
    assert pair(tokenizer, "", "the").context == (tokenizer.end,)
    only = pair(tokenizer, "  ", "the")
    assert (only.context, tokenizer.decode(only.continuation)) == ((tokenizer.end,), "  the")


@pytest.mark.parametrize("frame", ["<s> $A", None])
@pytest.mark.parametrize("named", [{"bos_token": "<s>"}, {}])
def test_what_stands_before_a_text_is_that_of_the_harness(frame, named):
    """Its `_encode_pair` and `loglikelihood`, in a few lines: an empty context is what begins a text, else the end."""
    inner = tokenizers.Tokenizer.from_str(make_tokenizer(Bytes(), lambda: TEXT, lambda: TEXT).definition)
    inner.add_special_tokens(["<s>", "</s>"])
    begin, end = (inner.token_to_id(word) for word in ("<s>", "</s>"))
    if frame:
        inner.post_processor = processors.TemplateProcessing(single=frame, special_tokens=[("<s>", begin)])
    tokenizer = Tokenizer.parse(inner.to_str(), {"eos_token": "</s>", **named})
    for context, continuation in (("the cat", " sat"), ("the cat ", "sat"), ("  ", "x"), ("", "the"), ("a\n", "b")):
        spaces = len(context) - len(context.rstrip())
        before, behind = context[: len(context) - spaces], context[len(context) - spaces :] + continuation
        read = inner.encode(before).ids or [begin if named else end]
        wanted = inner.encode(before + behind).ids[len(inner.encode(before).ids) :]
        if not context:
            read, wanted = [begin if named else end], inner.encode(continuation, add_special_tokens=False).ids
        assert pair(tokenizer, context, continuation) == Request(tuple(read), tuple(wanted))
