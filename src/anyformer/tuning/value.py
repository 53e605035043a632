"""The weights that learn: all, all but frozen ones, or low-rank matrices beside them; and the format of the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import Field

from anyformer.describe import UserError, Value
from anyformer.operations import Weight

Base = Literal["fp32", "bf16", "int8", "nf4"]
"""The format of weights that do not learn. `nf4`: 4 bits of a normal distribution's quantiles and scales of blocks of 64,
which are quantised themselves (QLoRA, Dettmers et al. 2023, arXiv 2305.14314)."""
Pattern = Annotated[str, Field(min_length=1)]


class Lora(Value):
    """y = x W^T + (alpha / rank) x A^T B^T with W frozen, A (rank, inputs) and B (outputs, rank).

    Hu et al. 2021, arXiv 2106.09685; the paper's r is `rank`.
    """

    kind: Literal["lora"] = "lora"
    rank: Annotated[int, Field(ge=1)] = 16
    """Numbers between A and B."""
    alpha: Annotated[float, Field(gt=0)] = 32.0
    """The output of the adapter is multiplied by alpha / rank."""
    targets: tuple[Pattern, ...] = ("*",)
    """The matrices of layers with an adapter: patterns of their paths, as `*.query` or `decoder.*`; all by default, as in
    QLoRA. Experts, routers, tables and heads have none."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Dropout of the input of A."""

    def pairs(self, weight: Weight) -> tuple[Weight, Weight]:
        """A and B beside a matrix (O, I): r (I + O) numbers."""
        outputs, inputs = weight.shape
        down = Weight((self.rank, inputs), "replicate", "matrix", copies=weight.copies)
        return down, Weight((outputs, self.rank), "replicate", "zeros", copies=weight.copies)


class Tuning(Value):
    """The weights that learn: those of the adapter alone if there is one, else all that no pattern of `frozen` names.

    Priced; training refuses all but the defaults so far.
    """

    adapter: Lora | None = None
    """Low-rank matrices that learn beside frozen ones."""
    frozen: tuple[Pattern, ...] = ()
    """Patterns of paths of weights, as `embedding.*` or `decoder.layers.1?.*`."""
    base: Base = "fp32"
    """The format of weights that do not learn; weights that learn are in fp32."""

    def of(self, weights: Mapping[str, Weight]) -> Tuned:
        """The tuning of a model with these weights, by path; refuses a pattern that names none of them."""
        for pattern in self.frozen:
            if not any(fnmatchcase(path, pattern) for path in weights):
                raise UserError(f"tuning.frozen: {pattern!r} names no weight; a path is {next(iter(weights))!r}")
        if self.adapter is None:
            learns = {path for path in weights if not any(fnmatchcase(path, pattern) for pattern in self.frozen)}
            return Tuned({path: weight for path, weight in weights.items() if path in learns}, {}, self.base)
        mapped = {path: weight for path, weight in weights.items() if _is_linear(path, weight)}
        for pattern in self.adapter.targets:
            if not any(_names(pattern, path) for path in mapped):
                like = next(iter(mapped), "")
                raise UserError(f"tuning.adapter.targets: {pattern!r} names no matrix of a layer; a path is {like!r}")
        adapted = {path: weight for path, weight in mapped.items() if any(_names(p, path) for p in self.adapter.targets)}
        learning: dict[str, Weight] = {}
        for path, weight in adapted.items():
            own = path.removesuffix(".weight")
            learning[f"{own}.adapter_down"], learning[f"{own}.adapter_up"] = self.adapter.pairs(weight)
        return Tuned(learning, dict.fromkeys(adapted, self.adapter.rank), self.base)


@dataclass(frozen=True)
class Tuned:
    """The tuning of one model: every weight that learns, adapters included, and the rank of each matrix's adapter."""

    learning: Mapping[str, Weight]
    ranks: Mapping[str, int]
    base: Base

    @property
    def parameters(self) -> int:
        """The number of parameters that learn."""
        return sum(weight.count for weight in self.learning.values())


def _names(pattern: str, path: str) -> bool:
    """Whether a pattern names a matrix, with or without its last word."""
    return fnmatchcase(path, pattern) or fnmatchcase(path.removesuffix(".weight"), pattern)


def _is_linear(path: str, weight: Weight) -> bool:
    """Whether a weight is the matrix of a linear map within a layer, other than a router's."""
    return len(weight.shape) == 2 and weight.fill in ("matrix", "residual") and ".layers." in path and ".router." not in path
