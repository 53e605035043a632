"""Hidden words of a text, as a masked model would fill them in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from anyformer.describe import UserError
from anyformer.evaluation.masked_likelihood import check_masked, framed_row
from anyformer.evaluation.subject import Subject
from anyformer.text import Tokenizer
from anyformer.text.beside import CONFIG
from anyformer.text.marked import encode_marked

MASK = "[MASK]"
"""How people write a hidden token, whatever the tokenizer calls its own."""


@dataclass(frozen=True)
class Filled:
    """The likeliest tokens at one hidden place, each with its text and its probability."""

    tokens: tuple[tuple[int, str, float], ...]


@torch.inference_mode()
def fill(subject: Subject, text: str, top: int = 5) -> list[Filled]:
    """The `top` likeliest tokens at each [MASK] of a text, by the softmax of the model's logits there.

    Around the text stands what the tokenizer puts there.
    """
    check_masked(subject.model.architecture)
    tokenizer = subject.text
    mask = tokenizer.special("mask")
    row = masked_row(tokenizer, text)
    if len(row) > subject.length:
        raise UserError(f"the text has {len(row):,} tokens, and the model reads {subject.length:,}")
    logits = subject.model(torch.tensor([row], device=subject.model.device))[0].float()
    places = [place for place, token in enumerate(row) if token == mask]
    found = []
    for place in places:
        chances, tokens = logits[place].softmax(-1)[: tokenizer.vocab_size].topk(min(top, tokenizer.vocab_size))
        found.append(Filled(tuple(_named(tokenizer, tokens.tolist(), chances.tolist()))))
    return found


def _named(tokenizer: Tokenizer, tokens: list[int], chances: list[float]) -> Iterator[tuple[int, str, float]]:
    for token, chance in zip(tokens, chances, strict=True):
        yield token, tokenizer.decode([token], special=True), chance


def masked_row(tokenizer: Tokenizer, text: str) -> list[int]:
    """The tokens of a text in which [MASK], or the tokenizer's own spelling, is the mask token, framed.

    The mask token takes the white space that its authors say (RoBERTa's: all before it). In a tokenizer made here a hidden word
    carries the space before it where words do, and the space before [MASK] is left out.
    """
    mask = tokenizer.special("mask")
    own = tokenizer.token(mask)
    pieces = (text.replace(own, MASK) if own else text).split(MASK)
    if len(pieces) == 1:
        raise UserError(f"{text!r}: has no {MASK}; write it where a token is to be filled in")
    if own is not None and CONFIG in tokenizer.beside:
        return list(framed_row(tokenizer, tuple(encode_marked(tokenizer, own.join(pieces)))))
    carried = len(tokenizer.encode(" the")) <= len(tokenizer.encode("the"))
    row: list[int] = []
    for number, piece in enumerate(pieces):
        last = number == len(pieces) - 1
        row += tokenizer.encode(piece.removesuffix(" ") if carried and not last else piece)
        row += [] if last else [mask]
    return list(framed_row(tokenizer, tuple(row)))
