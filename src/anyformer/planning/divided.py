"""What each unit keeps for its backward pass, off the exact tape, and what of it tensor parallelism divides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from anyformer.costs.work import Product
from anyformer.model import Architecture
from anyformer.plan import Checkpointing, Plan
from anyformer.tally import Flops, Shape, Weight
from anyformer.tape import Tape


@dataclass(frozen=True)
class Kept:
    """Bytes of a sequence: `cut` are divided among tp ranks, `whole` only where positions are divided too (`Layout.sp`)."""

    cut: int = 0
    whole: int = 0

    def __add__(self, other: Kept) -> Kept:
        return Kept(self.cut + other.cut, self.whole + other.whole)

    @property
    def bytes(self) -> int:
        return self.cut + self.whole

    def on(self, sequences: int, tp: int, *, sp: bool) -> int:
        """Bytes of one rank."""
        return sequences * (self.cut // tp + (self.whole // tp if sp else self.whole))


KeptBy = Mapping[Checkpointing, Kept]


def kept(
    architecture: Architecture,
    shape: Shape,
    plan: Plan,
    flops: Mapping[str, Flops],
    weights: Mapping[str, Weight],
    place: Callable[[str], str],
) -> dict[str, KeptBy]:
    """Bytes of each place that `place` sorts names into, for each way of checkpointing.

    none       every tensor that eager PyTorch keeps, once (`tape.py`), attention by a kernel that writes no scores, whatever
               torch has one for; with `plan.attention = "plain"` scores are written and kept
    selective  outputs of matrix products, and of attention
    full       the input of a layer

    Whole is what is as wide as the stream: inputs of column and of replicated matrices, norms and sums around a sublayer,
    outputs of row matrices, and what experts keep of tokens that come to them. What lies between column and row is cut.
    """
    tape = Tape(plan, shape, scoreless=plan.attention != "plain")
    architecture.keeps(tape)
    none: dict[str, Kept] = defaultdict(Kept)
    for held, name in tape.kept.items():
        cut = held not in tape.common and _is_cut(name, weights)
        none[place(name)] += Kept(held.bytes) if cut else Kept(whole=held.bytes)
    full = {place(path): Kept(whole=held.bytes) for path, held in tape.entered}
    selective = _outputs(flops, weights, plan.activation_bytes, place)
    return {
        at: {"none": every, "selective": selective.get(at, every), "full": full.get(at, every)} for at, every in none.items()
    }


def _is_cut(name: str, weights: Mapping[str, Weight]) -> bool:
    """Whether tp ranks divide the features of a kept tensor, from the part that keeps it."""
    holder, _, last = name.rpartition(".")
    read = weights.get(f"{holder}.weight") or weights.get(holder)
    if last == "input" and read is not None:
        return read.role == "row"
    mixture = f"{holder}.router.weight" in weights or (read is not None and read.role == "expert")
    return ".sublayer." in name and ".router." not in name and not mixture


def _outputs(
    flops: Mapping[str, Flops], weights: Mapping[str, Weight], element: int, place: Callable[[str], str]
) -> dict[str, Kept]:
    """What matrix products of layers write, and attention, which writes what the row matrix after it reads."""
    loose, products = set[str](), dict[str, Product]()
    for name, work in flops.items():
        weight = weights.get(f"{name}.weight") or weights.get(name)
        if weight is None:
            loose.add(name.rpartition(".")[0])
        elif work.exact:
            products[name] = Product(weight, work)
    found: dict[str, Kept] = defaultdict(Kept)
    for name, product in products.items():
        written = element * product.rows * product.outputs
        found[place(name)] += Kept(written) if product.weight.role == "column" else Kept(whole=written)
        if product.weight.role == "row" and name.rpartition(".")[0] in loose:
            found[place(name)] += Kept(element * product.rows * product.inputs)
    return found
