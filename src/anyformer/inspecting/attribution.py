"""Direct logit attribution: what every sublayer and head adds to a logit by way of the residual stream alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anyformer.inspecting.call_inputs import CallInputs
from anyformer.inspecting.places import entrance, scales, writers
from anyformer.inspecting.tables import table_of
from anyformer.model.transformer import Transformer

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, eq=False)
class Attribution:
    """A logit at every position as a sum: of what enters the layers, of every sublayer's share, and of constants.

    `logit_BT`: the logit of `wanted_BT`, less that of `against_BT` where there is one. `shares`: by path of what is added
    to the stream (B, T), or of heads (B, T, H). `constant_BT`: what is left where all of these are 0: biases. `rest_BT`: the
    logit less all of them; 0 up to rounding where the stream is a sum and the head is linear, and else what is not additive.
    """

    wanted_BT: Tensor
    against_BT: Tensor | None
    logit_BT: Tensor
    shares: Mapping[str, Tensor]
    constant_BT: Tensor
    rest_BT: Tensor

    def lines(self, row: int = 0, position: int = -1) -> list[tuple[str, float]]:
        """What adds to the logit at a position, one by one, heads too."""
        return [*self._lines(row, position), ("biases", float(self.constant_BT[row, position]))]

    def _lines(self, row: int, position: int) -> Iterator[tuple[str, float]]:
        for path, share in self.shares.items():
            here = share[row, position]
            if here.dim() == 0:
                yield path, float(here)
            else:
                yield from ((f"{path} {head}", float(each)) for head, each in enumerate(here))

    def table(self, word: Callable[[int], str] = str, *, row: int = 0, position: int = -1, most: int = 20) -> Table:
        """The largest shares at a position; `word` says a token."""
        at = (row, position)
        title = f"direct attribution of the logit of {word(int(self.wanted_BT[at]))}"
        if self.against_BT is not None:
            title += f" less that of {word(int(self.against_BT[at]))}"
        found = sorted(self.lines(row, position), key=lambda each: -abs(each[1]))
        rows = [*found[:most]]
        if found[most:]:
            rows.append((f"{len(found) - most} more", sum(figure for _, figure in found[most:])))
        rows += [("not additive", float(self.rest_BT[at])), ("logit", float(self.logit_BT[at]))]
        return table_of(title, ("part", "share"), [(name, f"{figure:+.4f}") for name, figure in rows])


def attribution(
    model: Transformer,
    given: Tensor | CallInputs,
    *,
    wanted: Tensor | None = None,
    against: Tensor | None = None,
    by_head: bool = True,
) -> Attribution:
    """The shares of every sublayer, `by_head` of every attention head, in the logits of tokens `wanted` (B, T), by default the
    likeliest, less those of `against`.

    Every norm between a sublayer and the head keeps the scale that it has in this call, so that logits are linear in what is
    added to the stream; a share is the gradient times the value, which is then exact (Elhage et al. 2021, A mathematical
    framework for transformer circuits; Wang et al. 2022, arXiv 2211.00593). A soft cap of logits keeps its ratio likewise.
    """
    prompt = CallInputs.of(given)
    places = [entrance(model), *(each.by_head if by_head and each.heads else each.output for each in writers(model))]
    frozen = scales(model)
    with torch.no_grad(), model.watch(*places, *frozen) as seen:
        last_BTV = prompt.logits(model)
    asked_BT = last_BTV.argmax(-1) if wanted is None else wanted.to(last_BTV.device)
    leaves = {path: seen[path].detach().requires_grad_() for path in places}
    with torch.enable_grad(), ExitStack() as stack:
        for path in frozen:
            stack.enter_context(model.patch(path, seen[path].detach()))
        picked_BT = _with(model, prompt, leaves, last_BTV, asked_BT, against)
        gradients = torch.autograd.grad(picked_BT.sum(), list(leaves.values()), allow_unused=True, materialize_grads=True)
        with torch.no_grad():
            nothing = {path: torch.zeros_like(leaf) for path, leaf in leaves.items()}
            constant_BT = _with(model, prompt, nothing, last_BTV, asked_BT, against)
    T = last_BTV.shape[1]
    shares = {
        path: (leaf.detach() * gradient)[:, -T:].flatten(3 if leaf.dim() == 4 and path != places[0] else 2).sum(-1)
        for (path, leaf), gradient in zip(leaves.items(), gradients, strict=True)
    }
    total_BT = sum((share.flatten(2).sum(-1) if share.dim() == 3 else share for share in shares.values()), constant_BT)
    logit_BT = _of(last_BTV, asked_BT) - (0 if against is None else _of(last_BTV, against))
    return Attribution(asked_BT, against, logit_BT, shares, constant_BT, logit_BT - total_BT)


def _with(
    model: Transformer,
    prompt: CallInputs,
    values: Mapping[str, Tensor],
    last_BTV: Tensor,
    wanted_BT: Tensor,
    against_BT: Tensor | None,
) -> Tensor:
    """The logits of tokens, (B, T), with these values at their paths, soft caps keeping the ratio of `last_BTV`."""
    with ExitStack() as stack:
        for path, value in values.items():
            stack.enter_context(model.patch(path, value))
        logits_BTV = prompt.logits(model)
    softcap = None if model.architecture.head is None else model.architecture.head.softcap
    picked_BT = _of(uncapped(logits_BTV, softcap) * kept_ratio(last_BTV, softcap), wanted_BT)
    if against_BT is None:
        return picked_BT
    return picked_BT - _of(uncapped(logits_BTV, softcap) * kept_ratio(last_BTV, softcap), against_BT)


def uncapped(logits: Tensor, softcap: float | None) -> Tensor:
    """The scores x of which logits are c tanh(x / c)."""
    return logits if softcap is None else softcap * torch.atanh((logits / softcap).clamp(-1 + 1e-6, 1 - 1e-6))


def kept_ratio(logits: Tensor, softcap: float | None) -> Tensor:
    """What a cap leaves of each score, c tanh(x / c) / x, as a constant; 1 without a cap."""
    scores = uncapped(logits, softcap)
    return torch.where(scores == 0, 1.0, logits / scores).detach()


def _of(logits_BTV: Tensor, token_BT: Tensor) -> Tensor:
    return logits_BTV.gather(-1, token_BT.to(logits_BTV.device)[..., None])[..., 0]
