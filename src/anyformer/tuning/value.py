"""The weights that learn: all, those that patterns name, or those of an adapter; and the format of the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from anyformer.describe import UserError, Value
from anyformer.operations import Tally, Weight
from anyformer.tuning.adapter import Adapter, Pattern, names

Base = Literal["fp32", "bf16", "fp8", "fp8-row", "int8", "int4", "int4-64", "int4-32", "nf4"]
"""The format of weights that do not learn. `nf4`: 4 bits of a normal distribution's quantiles and scales of blocks of 64,
which are quantised themselves (QLoRA, Dettmers et al. 2023, arXiv 2305.14314)."""


class Tuning(Value):
    """The weights that learn: those of the adapter if there is one, and those that `train_only` names; without either all.

    Weights that `frozen` names do not learn. A weight that does not learn keeps every bit, whatever rule moves it otherwise,
    as a router's correction.
    """

    adapter: Adapter | None = None
    """Parameters that learn beside frozen weights."""
    train_only: tuple[Pattern, ...] = ()
    """Patterns of paths of the only weights that learn (beside those of an adapter), as `head.*`, `*norm*` or `*.virtual_*`."""
    frozen: tuple[Pattern, ...] = ()
    """Patterns of paths of weights that do not learn, as `embedding.*` or `decoder.layers.1?.*`."""
    base: Base = "fp32"
    """The format of weights that do not learn; weights that learn are in fp32. Those of 8 and 4 bits hold the matrices of
    layers so and all others in bf16. Usual for an adapter on a model that is stored in one of these is that one, whose codes
    are taken as they are."""

    @property
    def everything(self) -> bool:
        """Whether every weight learns."""
        return self.adapter is None and not self.train_only and not self.frozen

    def of(self, tally: Tally) -> Tuned:
        """The tuning of a model with these declarations; refuses a pattern that names none of its weights."""
        weights = tally.weights
        for word, patterns in (("train_only", self.train_only), ("frozen", self.frozen)):
            for pattern in patterns:
                if not any(names(pattern, path) for path in weights):
                    raise UserError(f"tuning.{word}: {pattern!r} names no weight; a path is {next(iter(weights))!r}")
        every = self.adapter is None and not self.train_only
        learning = {
            path: weight
            for path, weight in weights.items()
            if (every or _any(self.train_only, path)) and not _any(self.frozen, path)
        }
        ranks = {} if self.adapter is None else self.adapter.ranks(tally)
        added = {} if self.adapter is None else self.adapter.added(tally)
        if not learning and not added:
            raise UserError("tuning: no weight is left that learns; name fewer in tuning.frozen, or more in tuning.train_only")
        return Tuned(learning | added, added, ranks, self.base)


@dataclass(frozen=True)
class Tuned:
    """The tuning of one model: every weight that learns, those `added` by an adapter, and the rank of each matrix's adapter."""

    learning: Mapping[str, Weight]
    added: Mapping[str, Weight]
    ranks: Mapping[str, int]
    base: Base

    @property
    def parameters(self) -> int:
        """The number of parameters that learn."""
        return sum(weight.count for weight in self.learning.values())


def _any(patterns: tuple[str, ...], path: str) -> bool:
    return any(names(pattern, path) for pattern in patterns)
