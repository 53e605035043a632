"""Adapters: what learns beside a model whose own weights stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from anyformer.describe import Registry, UserError, Value
from anyformer.operations import Product, Tally, Weight

if TYPE_CHECKING:
    from torch import Tensor, nn

    from anyformer.tuning.adapter_module import AdaptedLinear


Pattern = Annotated[str, Field(min_length=1)]
DOWN, UP, MAGNITUDE = "adapter_down", "adapter_up", "adapter_magnitude"
OWN = (DOWN, UP, MAGNITUDE)
"""Names of an adapter's parameters, in the module of the matrix that it stands beside."""


class Adapter(Value):
    """Parameters that learn beside those of a model, and the plain model that computes what both do."""

    kinds: ClassVar[Registry] = Registry()
    follows: ClassVar[bool] = True
    """Whether first values follow from weights of the model."""
    kind: str

    @property
    def changes(self) -> dict[str, Any]:
        """Fields of the architecture, by path, that differ in the plain model; none where matrices alone differ."""
        return {}

    def ranks(self, tally: Tally) -> dict[str, int]:
        """The rank of the low-rank matrices beside each adapted weight, by its path; refuses a pattern that names none."""
        return {}

    def added(self, tally: Tally) -> dict[str, Weight]:
        """Every parameter of the adapter, by path."""
        raise NotImplementedError

    def merged(self, base: Mapping[str, Tensor], added: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The weights of the plain model, from those of the model and the parameters of the adapter, all by name.

        Changed weights are computed in fp32 and have the type of the base.
        """
        raise NotImplementedError


class LowRankAdapter(Adapter):
    """The fields of adapters made of two narrow matrices: A (rank, inputs) and B (outputs, rank)."""

    rank: Annotated[int, Field(ge=1)] = 16
    """Numbers between A and B."""
    alpha: Annotated[float, Field(gt=0)] = 32.0
    """Strength of the adapter: see `scaling`."""
    scaling: Literal["rank", "root_rank"] = "rank"
    """The product B A is multiplied by alpha / rank, or by alpha / sqrt(rank) (rsLoRA, Kalajdzievski 2023, arXiv 2312.03732),
    with which high ranks learn as fast as low ones."""
    targets: tuple[Pattern, ...] = ("*",)
    """The matrices of layers with an adapter: patterns of their paths, as `*.query` or `decoder.*`; all by default, as in
    QLoRA. Experts, routers, tables and heads have none."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Dropout of the input of A while training."""

    @property
    def scale(self) -> float:
        """The factor of B A."""
        return self.alpha / (self.rank if self.scaling == "rank" else self.rank**0.5)

    def linear(self, frozen: nn.Linear) -> AdaptedLinear:
        """The map of `frozen`, whose parameters it keeps under their names, with this adapter's parameters, still without
        values."""
        raise NotImplementedError

    def matrix(self, weight: Tensor, own: Mapping[str, Tensor]) -> Tensor:
        """The one matrix (O, I) that computes what `weight` and its adapter `own` do."""
        raise NotImplementedError

    def merged(self, base: Mapping[str, Tensor], added: Mapping[str, Tensor]) -> dict[str, Tensor]:
        import torch

        merged = dict(base)
        for path, weight in base.items():
            name = path.removesuffix(".weight")
            own = {word: added[f"{name}.{word}"] for word in OWN if f"{name}.{word}" in added}
            if own:
                whole = self.matrix(weight.float(), {word: x.to(weight.device, torch.float32) for word, x in own.items()})
                merged[path] = whole.to(weight.dtype)
        return merged

    def pairs(self, weight: Weight) -> tuple[Weight, Weight]:
        """A and B beside a matrix (O, I): r (I + O) numbers."""
        outputs, inputs = weight.shape
        down = Weight((self.rank, inputs), "replicate", "matrix", copies=weight.copies)
        return down, Weight((outputs, self.rank), "replicate", "zeros", copies=weight.copies)

    def beside(self, weight: Weight) -> dict[str, Weight]:
        """The parameters beside one matrix, by name."""
        return dict(zip((DOWN, UP), self.pairs(weight), strict=True))

    def added(self, tally: Tally) -> dict[str, Weight]:
        return {
            f"{path.removesuffix('.weight')}.{own}": weight
            for path in self.ranks(tally)
            for own, weight in self.beside(tally.weights[path]).items()
        }

    def ranks(self, tally: Tally) -> dict[str, int]:
        weights, mapped = tally.weights, linear_maps(tally)
        for pattern in self.targets:
            if not any(names(pattern, path) for path in mapped):
                stacked = [path for path, weight in weights.items() if weight.role == "expert" and names(pattern, path)]
                if stacked:
                    raise UserError(
                        f"tuning.adapter.targets: {pattern!r} names only stacked experts, as {stacked[0]!r}, which have no "
                        "adapters so far: name matrices of attention or of dense networks, or train the experts themselves "
                        "with tuning.train_only"
                    )
                like = next(iter(mapped), "")
                raise UserError(f"tuning.adapter.targets: {pattern!r} names no matrix of a layer; a path is {like!r}")
        return {path: self.rank for path in mapped if any(names(pattern, path) for pattern in self.targets)}


def names(pattern: str, path: str) -> bool:
    """Whether a pattern names a weight, with or without the last word of its path."""
    return fnmatchcase(path, pattern) or fnmatchcase(path.removesuffix(".weight"), pattern)


def linear_maps(tally: Tally) -> dict[str, Weight]:
    """The matrices of linear maps within layers, by path: those that may have an adapter. A router's is none of them."""
    products = (
        f"{node.name(own)}.weight"
        for node in tally.nodes()
        if node.address.layer is not None
        for own, work in node.tally.own_work.items()
        if isinstance(work, Product)
    )
    found = {path: tally.weights[path] for path in products if path in tally.weights}
    return {path: weight for path, weight in found.items() if not weight.sensitive}
