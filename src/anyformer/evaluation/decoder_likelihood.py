"""The log-likelihood of targets of sources, by a model with two inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from anyformer.data.columns import padded
from anyformer.describe import UserError
from anyformer.evaluation.likelihood import BATCH_TOKENS, Request, TextLikelihood, Tokens, score_of
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.requirements.needs import needs_hidden_targets, needs_source, needs_token_logits


def check_decoder(architecture: Architecture) -> None:
    """Refuse a model that does not predict a target from a source."""
    try:
        needs_source("seq2seq", architecture)
        needs_token_logits("seq2seq", architecture)
        needs_hidden_targets("seq2seq", architecture)
    except ValueError as error:
        raise UserError(f"the likelihood of a target is that of a model of sources and targets: {error}") from None


@torch.inference_mode()
def target_scores(
    model: Transformer, requests: Sequence[Request], opening: Tokens, *, most: int = BATCH_TOKENS
) -> list[TextLikelihood]:
    """The score of each request: sum_i log p(c_i | source, opening, c_1 ... c_{i-1}).

    The context is the source as the encoder reads it, its end included. `opening`: what the decoder reads before the target:
    the start token, and of a span that was left out its sentinel. Rows of a batch are padded at the end.
    """
    check_decoder(model.architecture)
    if not opening:
        raise UserError("the decoder reads a token before the target: give the start token as opening")
    found: list[TextLikelihood | None] = [None] * len(requests)
    for numbers in _batched(requests, len(opening), most):
        batch = [requests[number] for number in numbers]
        logits = _logits(model, batch, opening)
        for row, (number, request) in enumerate(zip(numbers, batch, strict=True)):
            first = len(opening) - 1
            wanted = torch.tensor(request.continuation, device=model.device)
            found[number] = score_of(logits[row, first : first + len(wanted)], wanted)
    assert None not in found, "each request belongs to one batch"
    return [score for score in found if score is not None]


def _logits(model: Transformer, batch: Sequence[Request], opening: Tokens) -> Tensor:
    sources = [request.context for request in batch]
    entered = [(*opening, *request.continuation[:-1]) for request in batch]
    source, target = (torch.from_numpy(padded(rows, max(map(len, rows)), -1)).to(model.device) for rows in (sources, entered))
    logits: Tensor = model(source.clamp(min=0), target.clamp(min=0), padding=source < 0, decoder_padding=target < 0)
    return logits


def _batched(requests: Sequence[Request], opening: int, most: int) -> Iterator[list[int]]:
    """Numbers of requests in batches of at most `most` positions, padding included, the longest sources first."""
    for number, request in enumerate(requests):
        if not request.context or not request.continuation:
            raise UserError(f"request {number}: a source and a target of at least one token are needed")
    sizes = [(len(each.context), opening + len(each.continuation)) for each in requests]
    batch: list[int] = []
    for number in sorted(range(len(requests)), key=lambda each: sizes[each], reverse=True):
        together = [*batch, number]
        widths = [max(sizes[each][side] for each in together) for side in range(2)]
        if batch and len(together) * sum(widths) > most:
            yield batch
            together = [number]
        batch = together
    if batch:
        yield batch
