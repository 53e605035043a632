"""Logit lens: what the head would say of the residual stream at any path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anyformer.describe import InputError
from anyformer.inspecting.call_inputs import CallInputs, pools
from anyformer.inspecting.metrics import divergence
from anyformer.inspecting.places import streams
from anyformer.inspecting.tables import table_of
from anyformer.model.transformer import Transformer
from anyformer.model.value_paths import named
from anyformer.parts.layers.stack_module import StackModule

if TYPE_CHECKING:
    from rich.table import Table

KEPT = 5
"""Likeliest tokens that are kept per path and position."""


@dataclass(frozen=True, eq=False)
class LensReading:
    """What the head says at each of L paths; the last line is what the model says.

    `tokens_LBTk` and `probabilities_LBTk`: the k likeliest tokens, the likeliest first. `entropy_LBT`: of the distribution, in
    nats. `divergence_LBT`: KL(model || path) in nats. `wanted_BT`: the token that is asked about, by default the one the model
    finds likeliest; `wanted_LBT`: its probability; `rank_LBT`: how many tokens are likelier. `other_BT`: the token that it is
    compared with, if there is one; `difference_LBT`: the logit of the wanted one less that of the other.
    """

    paths: tuple[str, ...]
    tokens_LBTk: Tensor
    probabilities_LBTk: Tensor
    entropy_LBT: Tensor
    divergence_LBT: Tensor
    wanted_BT: Tensor
    wanted_LBT: Tensor
    rank_LBT: Tensor
    other_BT: Tensor | None = None
    difference_LBT: Tensor | None = None

    def table(self, word: Callable[[int], str] = str, *, row: int = 0, position: int = -1) -> Table:
        """The likeliest tokens at a position, path by path, as `word` says them."""
        asked = word(int(self.wanted_BT[row, position]))
        heads = ("path", "likeliest", "probability", f"of {asked}", "rank", *self._compared(word, row, position), "KL (nats)")
        lines = []
        for at, path in enumerate(self.paths):
            here = (at, row, position)
            said = " ".join(word(int(token)) for token in self.tokens_LBTk[here])
            figures = (self.probabilities_LBTk[here][0], self.wanted_LBT[here])
            apart = () if self.difference_LBT is None else (f"{self.difference_LBT[here]:.3f}",)
            lines.append(
                (path, said, *(f"{figure:.4f}" for figure in figures), f"{int(self.rank_LBT[here]):,}", *apart,
                 f"{self.divergence_LBT[here]:.3f}")
            )  # fmt: skip
        return table_of("logit lens", heads, lines, words=2)

    def _compared(self, word: Callable[[int], str], row: int, position: int) -> tuple[str, ...]:
        """The head of the column of differences, where there is one."""
        return () if self.other_BT is None else (f"logit less {word(int(self.other_BT[row, position]))}",)


def read_out(model: Transformer, stream: Tensor) -> Tensor:
    """The stream (B, T, D), or (B, T, N, D) of several residual streams, through the final norm and the head: (B, T, V)."""
    if pools(model):
        raise InputError("the head of this model pools positions, so it says nothing of one: take attribution or patching")
    stack = model.get_submodule(model.output)
    assert isinstance(stack, StackModule), "the head reads a stack"
    condition_BD = None if stack.condition is None else stack.condition(len(stream), None, None)
    return model.logits(stack.exit(stream, condition_BD))


def logit_lens(
    model: Transformer,
    given: Tensor | CallInputs,
    paths: Sequence[str] | None = None,
    *,
    wanted: Tensor | None = None,
    other: Tensor | None = None,
    keep: int = KEPT,
) -> LensReading:
    """What the head says of the residual stream at `paths`, by default before the first layer and behind every one
    (the logit lens, nostalgebraist 2020); `wanted` (B, T): tokens that are asked about; `other`: those that they are
    compared with."""
    prompt, chosen = CallInputs.of(given), named(model.architecture, paths or streams(model))
    with torch.no_grad(), model.watch(*chosen) as seen:
        last_BTV = prompt.logits(model)
        return reading(
            chosen, (read_out(model, seen[path]) for path in chosen), last_BTV, wanted=wanted, other=other, keep=keep
        )


def reading(
    paths: Sequence[str],
    lines: Iterable[Tensor],
    last_BTV: Tensor,
    *,
    wanted: Tensor | None = None,
    other: Tensor | None = None,
    keep: int = KEPT,
) -> LensReading:
    """The reading of logits (B, T, V) per path, of which one at a time is held, beside the model's own."""
    asked_BT = last_BTV.argmax(-1) if wanted is None else wanted.to(last_BTV.device)
    other_BT = None if other is None else other.to(last_BTV.device)
    keep = min(keep, last_BTV.shape[-1])
    found, apart = [], []
    for logits in (*lines, last_BTV):
        said_BTV = logits[:, -last_BTV.shape[1] :].float().log_softmax(-1)
        best_BTk = said_BTV.topk(keep, -1)
        of_wanted_BT1 = said_BTV.gather(-1, asked_BT[..., None])
        if other_BT is not None:
            apart.append((of_wanted_BT1 - said_BTV.gather(-1, other_BT[..., None]))[..., 0])
        found.append(
            (
                best_BTk.indices, best_BTk.values.exp(), -(said_BTV.exp() * said_BTV).sum(-1), divergence(last_BTV, said_BTV),
                of_wanted_BT1[..., 0].exp(), (said_BTV > of_wanted_BT1).sum(-1),
            )
        )  # fmt: skip
    tokens, probabilities, entropy, divergent, of_wanted, rank = (torch.stack(each) for each in zip(*found, strict=True))
    return LensReading(
        (*paths, "head.logits"), tokens, probabilities, entropy, divergent, asked_BT, of_wanted, rank, other_BT,
        torch.stack(apart) if apart else None,
    )  # fmt: skip
