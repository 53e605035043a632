"""What stands around the divided parts of a model that generates: every process has the whole stream, and computes a part.

Tensor parallelism (Shoeybi et al. 2019, arXiv 1909.08053) without the sequence parallelism of training: a step has one
position, which nobody could divide. Collectives give all processes the same bits, so that all choose the same tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.describe import InputError
from anyformer.model.reductions import side_by_side, summed
from anyformer.parts.call.context import Context
from anyformer.parts.call.state import State
from anyformer.parts.embedding.vocabulary import gained
from anyformer.parts.experts.dispatch import ExpertRows
from anyformer.parts.experts.exchange import Compute
from anyformer.parts.layers.spread import Crossing, through


@dataclass(frozen=True)
class AddedUp:
    """`Crossing` of a branch of whose sublayer each process of a group computes a part; `within`: its way around that."""

    group: str
    within: Crossing | None = None

    def __call__(self, sublayer: nn.Module, x: Tensor, context: Context, state: State | None = None) -> Tensor:
        return summed(through(sublayer, x, context, self.within, state), self.group)


@dataclass(frozen=True)
class RowsOfTokens:
    """`Vocabulary` of which a process has as many rows as every other; all get all logits."""

    group: str
    rank: int
    size: int

    def rows(self, table_VD: Tensor, tokens: Tensor) -> Tensor:
        own = len(table_VD)
        if tokens.shape[-1] > 1 and tokens.device.type == "cpu":
            # A decode step has chosen its tokens among the logits, and nothing of it waits to be looked at.
            least, most = int(tokens.min()), int(tokens.max())
            if not 0 <= least <= most < own * self.size:
                raise InputError(
                    f"tokens run from {least} to {most}, and the table has rows 0 to {own * self.size - 1}: is this the "
                    "model's tokenizer?"
                )
        place = tokens - self.rank * own
        mine = (place >= 0) & (place < own)
        found = F.embedding(place * mine, table_VD)
        return summed(found * mine[..., None].to(found.dtype), self.group)

    def logits(self, x_D: Tensor, table_VD: Tensor, bias_V: Tensor | None, gain_V: Tensor | None = None) -> Tensor:
        return side_by_side(gained(F.linear(x_D, table_VD, bias_V), gain_V), self.group)


@dataclass(frozen=True)
class OwnExperts:
    """`Exchange` of a group whose processes hold equally many experts each, in order.

    All of them have the rows of all tokens: each computes those of its experts, and their sum is that of all experts.
    """

    group: str
    rank: int
    size: int

    def __call__(self, compute: Compute, rows_QD: Tensor, groups: ExpertRows) -> Tensor:
        counts_X = groups.counts
        each = len(counts_X) // self.size
        own = counts_X[self.rank * each : (self.rank + 1) * each]
        before, here = int(counts_X[: self.rank * each].sum()), int(own.sum())
        mine = replace(groups, expert=groups.expert[before : before + here] - self.rank * each, ends=own.cumsum(0), whole=True)
        computed = compute(rows_QD[before : before + here], mine)
        return summed(F.pad(computed, (0, 0, before, len(rows_QD) - before - here)), self.group)
