"""A dense network copied into experts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from anyformer.parts.layout import NetworkLayout, WeightLayout
from anyformer.transforming.errors import TransformError
from anyformer.transforming.operation import Fresh, Keep, MadeWeight, TransformStep, Zero


def upcycling(old: WeightLayout, new: WeightLayout, where: str, writes: frozenset[str]) -> tuple[TransformStep, ...] | None:
    """Steps from a dense network to experts, names within the sublayer; None if it is another change.

    `writes`: the names of the new weights that write to the stream. Raises `TransformError` if experts that equal the network
    would not compute what it does.
    """
    dense, mixture = old.network, new.network
    if dense is None or mixture is None or dense.experts is not None or mixture.experts is None:
        return None
    if dense.function != mixture.function:
        names = dict.fromkeys([*dense.function, *mixture.function])
        fields = [name for name in names if dense.function.get(name) != mixture.function.get(name)]
        raise TransformError(
            f"{where}: experts that are copies of the network need its own {' and '.join(fields)}; set them alike"
        )
    if dense.width != mixture.width:
        raise TransformError(
            f"{where}: an expert is a copy of the network, {dense.width} features wide, not {mixture.width}; "
            f"set width = {dense.width}"
        )
    if mixture.unequal:
        raise TransformError(
            f"{where}: experts that are copies of the network would not compute what it does: {'; '.join(mixture.unequal)}"
        )
    steps = [
        TransformStep((name,), (dense.weights[what],), CopiedExperts(mixture.experts)) for what, name in mixture.weights.items()
    ]
    return (*steps, *_shared(dense, mixture, writes))


SILENT = Zero("0, so that the shared expert adds nothing at first")


def _shared(dense: NetworkLayout, mixture: NetworkLayout, writes: frozenset[str]) -> Iterator[TransformStep]:
    """The shared expert adds nothing at first: its last projection is 0; the rest is a copy where the widths are equal."""
    for what, name in mixture.shared.items():
        if name in writes:
            yield TransformStep((name,), (), SILENT)
        elif mixture.shared_width == dense.width:
            yield TransformStep((name,), (dense.weights[what],), Keep("copied", "a copy in the shared expert"))


@dataclass(frozen=True)
class CopiedExperts:
    """Every expert is a copy of the network (Komatsuzaki et al. 2022, arXiv 2212.05055, section 3).

    Whichever experts a token chooses, and whatever the new router says, its output is the network's if the weights of the
    experts chosen sum to 1.
    """

    experts: int

    @property
    def words(self) -> str:
        return f"{self.experts} copies, one per expert"

    def __call__(self, given: Sequence[Tensor], fresh: Sequence[Fresh]) -> list[MadeWeight]:
        x = given[0]
        return [MadeWeight(x.unsqueeze(0).expand(self.experts, *x.shape), "copied")]
