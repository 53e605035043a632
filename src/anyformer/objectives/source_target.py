"""A source and a target made of one text, as a model with two inputs reads them."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from anyformer.data import IGNORED
from anyformer.objectives.examples import Examples
from anyformer.text.frame import Around
from anyformer.text.sides import Sides

NOTHING = -1
"""Where there is no token."""


def moved_left(tokens_BT: Tensor) -> Tensor:
    """The same tokens of each row in their order, those that are `NOTHING` behind them."""
    order_BT = (tokens_BT < 0).byte().argsort(dim=1, stable=True)
    return tokens_BT.gather(1, order_BT)


def resized_to(tokens_BT: Tensor, length: int) -> Tensor:
    """(B, length): rows with more or fewer places for `NOTHING` behind them."""
    more = length - tokens_BT.shape[1]
    return tokens_BT[:, :length] if more <= 0 else torch.nn.functional.pad(tokens_BT, (0, more), value=NOTHING)


def padded_pairs(examples: Examples) -> Examples:
    """The examples with masks of padding on both sides."""
    assert examples.decoder_tokens is not None, "a source stands beside a target"
    source, target = (torch.zeros(tokens.shape, dtype=torch.bool) for tokens in (examples.tokens, examples.decoder_tokens))
    return replace(examples, padding=source, decoder_padding=target)


def sides_of(texts: tuple[Tensor, Tensor], sides: Sides) -> tuple[Tensor, Tensor]:
    """(B, T + n) each: sources and targets with what stands around them; a target without a token stays without one."""
    source, target = texts
    found = _around(target, sides.target)
    return _around(source, sides.source), torch.where((target >= 0).any(1, keepdim=True), found, NOTHING)


def _around(tokens_BT: Tensor, frame: Around) -> Tensor:
    edges = (torch.tensor(side, dtype=torch.int64).expand(len(tokens_BT), -1) for side in (frame.before, frame.behind))
    before, behind = edges
    return moved_left(torch.cat([before, tokens_BT, behind], 1))


def pairs(source_BT: Tensor, target_BT: Tensor, rows_B: Tensor, start: int | None) -> Examples:
    """Examples of sources and targets that end in `NOTHING`: the decoder reads the target shifted right behind `start`, or
    behind its own last token."""
    last_B1 = ((target_BT >= 0).sum(1, keepdim=True) - 1).clamp(min=0)
    begin = target_BT.gather(1, last_B1) if start is None else torch.full((len(target_BT), 1), start)
    entered_BT = torch.cat([begin, torch.where(target_BT[:, 1:] < 0, NOTHING, target_BT[:, :-1])], 1)
    return Examples(
        source_BT.clamp(min=0), torch.where(target_BT < 0, IGNORED, target_BT), None, rows_B,
        decoder_tokens=entered_BT.clamp(min=0), padding=source_BT < 0, decoder_padding=entered_BT < 0,
    )  # fmt: skip


def pair_inputs(examples: Examples) -> dict[str, Tensor | None]:
    """What a model with two inputs reads beside the source's tokens."""
    return {
        "decoder_tokens": examples.decoder_tokens,
        "padding": examples.padding,
        "decoder_padding": examples.decoder_padding,
    }
