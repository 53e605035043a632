"""What a masked model says of hidden tokens, and of a continuation that it fills in from left to right."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from anyformer.data.columns import padded
from anyformer.describe import UserError
from anyformer.evaluation.likelihood import BATCH_TOKENS, Request, TextLikelihood, Tokens
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.requirements.needs import needs_both_sides, needs_one_sequence, needs_token_logits
from anyformer.text import Tokenizer
from anyformer.text.row_frame import row_frame


def check_masked(architecture: Architecture) -> None:
    """Refuse a model that predicts no hidden tokens from both sides."""
    try:
        needs_one_sequence("masked", architecture)
        needs_token_logits("masked", architecture)
        needs_both_sides("masked", architecture)
    except ValueError as error:
        raise UserError(f"hidden tokens are filled in by a masked model: {error}") from None


def framed_row(tokenizer: Tokenizer, tokens: Tokens) -> Tokens:
    """The tokens with what the tokenizer puts around a text, as `[CLS]` and `[SEP]`."""
    return tuple(row_frame(tokenizer).single.framed([tokens]).tokens)


@torch.inference_mode()
def logs_at(model: Transformer, rows: Sequence[Tokens], places: Sequence[int], *, most: int = BATCH_TOKENS) -> Tensor:
    """(N, V): log p at place `places[i]` of row i, as it stands. Rows of a batch are padded at the end."""
    check_masked(model.architecture)
    found, width = [], max(map(len, rows))
    size = max(1, most // width)
    for at in range(0, len(rows), size):
        tokens = torch.from_numpy(padded(rows[at : at + size], width, -1)).to(model.device)
        padding = tokens < 0
        features = model.features(tokens.clamp(min=0), padding=padding if bool(padding.any()) else None)
        read = features[torch.arange(len(tokens)), torch.tensor(places[at : at + size])]
        found.append(model.logits(read).float().log_softmax(-1).cpu())
    return torch.cat(found)


def filled_scores(
    model: Transformer, requests: Sequence[Request], tokenizer: Tokenizer, *, most: int = BATCH_TOKENS
) -> list[TextLikelihood]:
    """The score of each request: sum_i log p(c_i | context, c_1 ... c_{i-1}, a mask token for each of c_i ... c_n).

    That is the likelihood of filling the continuation in from left to right, one token at a time, its length being known; it
    takes a pass for each token. The sum over the tokens given both of their sides (Salazar et al. 2020, arXiv 1910.14659) is
    none, since each token is then told what comes after it.
    """
    mask, found = tokenizer.special("mask"), []
    for request in requests:
        count = len(request.continuation)
        before = len(row_frame(tokenizer).single.before)
        rows = [
            framed_row(tokenizer, (*request.context, *request.continuation[:known], *[mask] * (count - known)))
            for known in range(count)
        ]
        places = [before + len(request.context) + known for known in range(count)]
        logs = logs_at(model, rows, places, most=most)
        wanted = torch.tensor(request.continuation)
        total = float(logs.gather(-1, wanted[:, None]).double().sum())
        found.append(TextLikelihood(total, bool((logs.argmax(-1) == wanted).all())))
    return found
