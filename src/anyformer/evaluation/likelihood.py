"""The log-likelihood of continuations of texts, many at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from anyformer.describe import UserError
from anyformer.generation.places import RowReader
from anyformer.model import Architecture
from anyformer.model.prefix import reads_prefix
from anyformer.model.transformer import Transformer
from anyformer.operations import Shape
from anyformer.requirements.needs import needs_hidden_targets, needs_one_sequence, needs_token_logits
from anyformer.text import Tokenizer

BATCH_TOKENS = 4096
"""Positions that are computed together, padding included."""
Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Request:
    """A continuation and what it follows, in tokens; neither is empty."""

    context: Tokens
    continuation: Tokens


@dataclass(frozen=True)
class TextLikelihood:
    """`log_likelihood`: sum_i log p(c_i | context, c_1 ... c_{i-1}) in nats; `greedy`: whether each c_i is the likeliest."""

    log_likelihood: float
    greedy: bool


@dataclass(frozen=True)
class _Input:
    """Tokens to read, the number of them that are context, and the requests whose last tokens they score."""

    tokens: Tokens
    context: int
    requests: tuple[int, ...]


def check(architecture: Architecture) -> None:
    """Refuse a model that does not predict each next token of a text."""
    try:
        needs_one_sequence("causal", architecture)
        needs_token_logits("causal", architecture)
        needs_hidden_targets("causal", architecture)
    except ValueError as error:
        raise UserError(f"the likelihood of a text is that of a model of the next token: {error}") from None


def pair(tokenizer: Tokenizer, context: str, continuation: str) -> Request:
    """A text and what follows it, as tokens, as lm-evaluation-harness makes them.

    Both are tokenised in one piece, and cut where the tokens of the context end; before them stands what the tokenizer puts
    before a text.
    Spaces at the end of the context belong to the continuation, whose first word most tokenizers spell with them. In place of
    an empty context stands `prefix_of`, unless the continuation begins with that token.
    """
    before = tokenizer.frame.single.before
    if not context:
        first, wanted = (prefix_of(tokenizer),), tuple(tokenizer.encode(continuation))
        return Request(wanted[:1], wanted[1:]) if wanted[:1] == first else Request(first, wanted)
    bare = context.rstrip()
    read = (*before, *tokenizer.encode(bare))
    whole = (*before, *tokenizer.encode(bare + context[len(bare) :] + continuation))
    return Request(read or (prefix_of(tokenizer),), whole[len(read) :])


def prefix_of(tokenizer: Tokenizer) -> int:
    """What stands before a text that nothing stands before: the token that begins one, else the one that ends one."""
    named = tokenizer.named("bos_token")
    number = None if named is None else tokenizer.number(named)
    return tokenizer.end if number is None else number


@torch.inference_mode()
def scores(
    model: Transformer,
    requests: Sequence[Request],
    length: int,
    *,
    most: int = BATCH_TOKENS,
    progress: Callable[[int], None] = lambda done: None,
    reader: RowReader | None = None,
) -> list[TextLikelihood]:
    """The score of each request. A text of more than `length` positions loses the beginning of its context.

    Longest first, so that rows of a batch are of about one length; what several requests share but for their last token is
    computed once; logits are computed where a continuation stands. Rows are padded at the end, unless the architecture
    declares that a row depends on that: then each text is read alone. A mask with a prefix reads the context as one.
    `progress` is called with the number of requests scored so far. `reader`: what computes logits in the model's place.
    """
    check(model.architecture)
    prefix = reads_prefix(model.architecture)
    found: list[TextLikelihood | None] = [None] * len(requests)
    done = 0
    for batch in _batched(_inputs(requests, length, prefix=prefix), most, alone=_padding_matters(model.architecture)):
        told = _scored(model, batch, requests, prefix=prefix) if reader is None else _read(reader, batch, requests)
        for number, score in told:
            found[number] = score
            done += 1
        progress(done)
    assert None not in found, "each request belongs to one input"
    return [score for score in found if score is not None]


def _padding_matters(architecture: Architecture) -> bool:
    return bool(architecture.cost(Shape(length=4)).breaks("padded"))


def _inputs(requests: Sequence[Request], length: int, *, prefix: bool) -> list[_Input]:
    """What is read for the requests, each once, the longest first."""
    users: dict[tuple[Tokens, int], list[int]] = {}
    for number, request in enumerate(requests):
        if not request.context or not request.continuation:
            raise UserError(f"request {number}: a context and a continuation of at least one token are needed")
        if len(request.continuation) > length:
            raise UserError(
                f"request {number}: the continuation has {len(request.continuation):,} tokens, and the model reads "
                f"{length:,} at a time"
            )
        tokens = (*request.context, *request.continuation)[-(length + 1) : -1]
        context = len(tokens) - len(request.continuation) + 1
        users.setdefault((tokens, context if prefix else 0), []).append(number)
    inputs = [_Input(tokens, context, tuple(numbers)) for (tokens, context), numbers in users.items()]
    return sorted(inputs, key=lambda each: (-len(each.tokens), each.tokens))


def _batched(inputs: Sequence[_Input], most: int, *, alone: bool) -> Iterator[list[_Input]]:
    """Inputs in batches of at most `most` positions; `alone`: one in each."""
    batch: list[_Input] = []
    for each in inputs:
        full = batch and (len(batch) + 1) * len(batch[0].tokens) > most
        if batch and (full or alone):
            yield batch
            batch = []
        batch.append(each)
    if batch:
        yield batch


def _scored(
    model: Transformer, batch: Sequence[_Input], requests: Sequence[Request], *, prefix: bool
) -> Iterator[tuple[int, TextLikelihood]]:
    """The numbers of the requests of a batch, and their scores."""
    width = len(batch[0].tokens)
    tokens = torch.zeros(len(batch), width, dtype=torch.int64)
    padding = torch.zeros(len(batch), width, dtype=torch.bool)
    for row, each in enumerate(batch):
        tokens[row, : len(each.tokens)] = torch.tensor(each.tokens)
        padding[row, len(each.tokens) :] = True
    lengths = torch.tensor([each.context for each in batch]).to(model.device) if prefix else None
    given = padding.to(model.device) if bool(padding.any()) else None
    features = model.features(tokens.to(model.device), padding=given, prefix=lengths)
    for row, each in enumerate(batch):
        for number in each.requests:
            wanted = torch.tensor(requests[number].continuation, device=model.device)
            last = features[row, len(each.tokens) - len(wanted) : len(each.tokens)]
            yield number, score_of(model.logits(last), wanted)


def _read(reader: RowReader, batch: Sequence[_Input], requests: Sequence[Request]) -> Iterator[tuple[int, TextLikelihood]]:
    """The same by what reads texts elsewhere."""
    last = [max(len(requests[number].continuation) for number in each.requests) for each in batch]
    for each, logits in zip(batch, reader([each.tokens for each in batch], last), strict=True):
        for number in each.requests:
            wanted = torch.tensor(requests[number].continuation)
            yield number, score_of(logits[len(logits) - len(wanted) :], wanted)


def score_of(logits_TV: Tensor, wanted_T: Tensor) -> TextLikelihood:
    """The score of the tokens `wanted_T` by the logits at the places before them."""
    logs = logits_TV.float().log_softmax(-1)
    total = float(logs.gather(-1, wanted_T[:, None]).double().sum())
    return TextLikelihood(total, bool((logs.argmax(-1) == wanted_T).all()))
