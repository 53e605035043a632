"""The module of a sparse dictionary."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.call.reports import Coded, Report
from anyformer.parts.call.state import EMPTY
from anyformer.parts.counting import CountingModule
from anyformer.parts.dictionary.codes_module import Active
from anyformer.parts.dictionary.dictionary import Dictionary, MeanLength


class MeanLengthModule(CountingModule):
    """Vectors (B, T, D) of n blocks -> s, (D,). `length` (n,) is the running mean, `seen` the batches that it has seen."""

    def __init__(self, part: MeanLength, blocks: int) -> None:
        super().__init__()
        self.part = part
        self.length = nn.Parameter(torch.empty(blocks), requires_grad=False)
        self.seen = nn.Parameter(torch.empty(1), requires_grad=False)

    @torch.no_grad()
    def forward(self, x_BTD: Tensor, counted_BT: Tensor) -> Tensor:
        if self.counting:
            blocks_BTnD = torch.unflatten(x_BTD.to(self.length.dtype), -1, (len(self.length), -1))
            length_BTn = blocks_BTnD.norm(dim=-1)
            mean = torch.where(counted_BT[..., None], length_BTn, 0.0).flatten(0, 1).sum(0) / counted_BT.sum().clamp(min=1)
            self.seen.copy_((self.seen + 1).clamp(max=self.part.batches))
            self.length.add_((mean - self.length) / self.seen)
        return self.scale(x_BTD.shape[-1]).to(x_BTD.dtype)

    def scale(self, width: int) -> Tensor:
        """(D,): s, 1 before any vector was seen."""
        each = width // len(self.length)
        known = torch.where(self.length > 0, each**0.5 / self.length.clamp(min=1e-30), 1.0)
        return known.repeat_interleave(each)


class DictionaryModule(CountingModule):
    """(B, T, D) -> (B, T, D). `silent` (F,): the positions since each feature was active."""

    def __init__(self, part: Dictionary, width: int, name: str) -> None:
        super().__init__()
        self.part, self.name = part, name
        self.encoder = nn.Linear(width, part.features)
        self.decoder = nn.Linear(part.features, width)
        self.code = part.code.build(part.features)
        self.length = None if part.length is None else MeanLengthModule(part.length, part.blocks)
        self.silent = nn.Parameter(torch.empty(part.features), requires_grad=False) if part.revival else None

    def extra_repr(self) -> str:
        return f"centred={self.part.centred}, unit={self.part.unit}"

    def forward(self, x_BTD: Tensor, context: Context, state: None = None) -> Tensor:
        counted_BT = (context.positions != EMPTY).expand(len(x_BTD), -1)
        scale = None if self.length is None else self.length(x_BTD, counted_BT)
        x_BTD = x_BTD if scale is None else x_BTD * scale
        x_BTD = x_BTD.detach() if self.part.detached else x_BTD
        before_BTF = self.encoder(x_BTD - self.decoder.bias if self.part.centred else x_BTD.to(self.encoder.weight.dtype))
        before_BTF = context.see("preactivations", before_BTF)
        active: Active = self.code(before_BTF, self.encoder.bias)
        active = active._replace(features=context.see("active", active.features))
        vectors_DF = self.vectors()
        y_BTD = F.linear(active.features, vectors_DF, self.decoder.bias)
        if self.silent is not None and self.counting:
            self._count(active.features, counted_BT, self.silent)
        if context.auxiliary is not None:
            coded = Coded(
                active.features, _penalty(active, vectors_DF, self.part.blocks), scale,
                None if self.silent is None else partial(self._revived, before_BTF, vectors_DF),
                None if active.guess is None else partial(self._guessed, active.guess, vectors_DF),
            )  # fmt: skip
            context.auxiliary.reports[self.name] = Report(None, coded=coded)
        return y_BTD if scale is None else y_BTD / scale

    def vectors(self) -> Tensor:
        """(D, F): the vectors d_i, side by side."""
        stored_DF = self.decoder.weight
        return F.normalize(stored_DF, dim=0) if self.part.unit else stored_DF

    @torch.no_grad()
    def _count(self, active_BTF: Tensor, counted_BT: Tensor, silent_F: Tensor) -> None:
        fired_F = ((active_BTF > 0) & counted_BT[..., None]).flatten(0, 1).any(0)
        silent_F.copy_(torch.where(fired_F, 0.0, silent_F + counted_BT.sum()))

    def _guessed(self, guess_BTF: Tensor, vectors_DF: Tensor) -> Tensor:
        return F.linear(guess_BTF, vectors_DF.detach(), self.decoder.bias.detach())

    def _revived(self, before_BTF: Tensor, vectors_DF: Tensor, left_BTD: Tensor) -> Tensor:
        """(B, T) in fp32: what dead features leave of `left_BTD`, squared, times `Revival`'s factor."""
        revival = self.part.revival
        assert revival is not None, "asked where dead features are counted"
        assert self.silent is not None, "likewise"
        most = revival.most(*vectors_DF.shape)
        dead_F = self.silent > revival.after
        values, places = before_BTF.masked_fill(~dead_F, -torch.inf).topk(most, dim=-1, sorted=False)
        values = torch.where(values.isfinite(), values, 0.0)
        said_BTD = F.linear(torch.zeros_like(before_BTF).scatter(-1, places, values), vectors_DF)
        factor = (dead_F.sum() / most).clamp(max=1.0)
        return factor * (said_BTD - left_BTD).float().square().sum(-1)


def _penalty(active: Active, vectors_DF: Tensor, blocks: int) -> Tensor | None:
    """(B, T) in fp32: the sum over features of what is penalised; None without."""
    if active.penalised is None:
        return None
    if not active.weighed:
        return active.penalised.float().sum(-1)
    lengths_F: Tensor = torch.unflatten(vectors_DF, 0, (blocks, -1)).norm(dim=1).sum(0)
    penalty_BT: Tensor = (active.penalised * lengths_F).float().sum(-1)
    return penalty_BT
