"""Layout: over which ranks a training step is spread, and what each keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from anyformer.model import Architecture
from anyformer.plan import Checkpointing

_AROUND = 2
"""Pieces of a pipeline beside its layers: embedding and head may stand alone."""
Sharded = Literal["optimiser", "gradients", "weights"]
"""What the `fsdp` ranks divide among them, each with all before it: ZeRO's stages 1, 2 and 3 (arXiv 1910.02054)."""


@dataclass(frozen=True)
class Layout:
    """dp * fsdp * tp * pp ranks; `tp` ranks stand next to each other, then `fsdp`, then `dp`, then `pp`.

    `ep` ranks of the dp * fsdp * tp that hold one stage divide the experts among them, each expert whole; the other weights
    know nothing of it (Liu et al. 2025, arXiv 2504.14960). `micro_batch` sequences are computed at once, `micro_batches` times
    in a step.
    """

    dp: int = 1
    """Replicas."""
    fsdp: int = 1
    """Ranks that divide optimiser states, gradients or weights."""
    tp: int = 1
    """Ranks that divide each matrix product (Shoeybi et al. 2019, arXiv 1909.08053)."""
    sp: bool = True
    """Whether tp ranks divide positions too, between matrix products (Korthikanti et al. 2022, arXiv 2205.05198)."""
    ep: int = 1
    pp: int = 1
    """Stages of the pipeline."""
    chunks: int = 1
    """v, pieces of the model on each stage: the interleaved schedule (Narayanan et al. 2021, arXiv 2104.04473)."""
    micro_batch: int = 1
    micro_batches: int = 1
    """m."""
    sharded: Sharded = "weights"
    checkpointing: Checkpointing = "none"

    def __post_init__(self) -> None:
        for name in ("dp", "fsdp", "tp", "ep", "pp", "chunks", "micro_batch", "micro_batches"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} should be at least 1, got {getattr(self, name)}")
        if self.checkpointing not in get_args(Checkpointing):
            raise ValueError(f"checkpointing is one of {', '.join(get_args(Checkpointing))}, got {self.checkpointing!r}")
        if self.sharded not in get_args(Sharded):
            raise ValueError(f"sharded is one of {', '.join(get_args(Sharded))}, got {self.sharded!r}")

    @property
    def replicas(self) -> int:
        """Ranks that compute different sequences of the batch."""
        return self.dp * self.fsdp

    @property
    def ranks(self) -> int:
        return self.replicas * self.tp * self.pp

    @property
    def alone(self) -> bool:
        """Whether each rank holds the whole model and all its states."""
        return self.fsdp == self.tp == self.ep == self.pp == 1

    @property
    def sequences(self) -> int:
        """Of one step."""
        return self.replicas * self.micro_batch * self.micro_batches

    @property
    def expert_fsdp(self) -> int:
        """Ranks that divide the states of one rank's experts: those of fsdp * tp that `ep` leaves over."""
        return max(self.fsdp * self.tp // self.ep, 1)

    @property
    def expert_copies(self) -> int:
        """Ranks that hold the same experts."""
        return self.replicas * self.tp // self.ep

    def __str__(self) -> str:
        sizes = [f"{name} {getattr(self, name)}" for name in ("dp", "fsdp", "tp", "ep", "pp") if getattr(self, name) > 1]
        text = " x ".join(sizes) or "one rank"
        return text + (f", {self.chunks} chunks" if self.chunks > 1 else "")


@dataclass(frozen=True)
class Bounds:
    """What an architecture lets be divided: layers among stages, heads and the width by tp, experts by ep."""

    depth: int
    width: int
    heads: tuple[int, ...]
    """Every count of heads there is."""
    experts: tuple[int, ...]
    """How many experts a mixture has, of each kind of layer that has one."""

    def uncut(self, tp: int) -> list[int]:
        """Counts of heads that tp ranks cannot divide; fewer key heads than ranks are copied, if they divide the ranks.

        (That each then stores a little more than its share is not counted.)
        """
        most = max(self.heads, default=tp)
        return [count for count in self.heads if count % tp and (tp % count or count == most)]


def bounds(architecture: Architecture) -> Bounds:
    """Read off its parts."""
    stacks = architecture.stacks.values()
    sublayers = [each for stack in stacks for block in stack.variants.values() for each in block.sublayers]
    networks = [each.resizing.network for each in sublayers]
    return Bounds(
        sum(stack.depth for stack in stacks),
        architecture.width,
        tuple(sorted({count for each in sublayers for count in each.tp_divisors})),
        tuple(sorted({each.experts for each in networks if each is not None and each.experts is not None})),
    )


def problems(layout: Layout, of: Bounds, length: int) -> tuple[str, ...]:
    """Why what has these bounds cannot be laid out so for sequences of this length; empty if it can."""
    found: list[str] = []
    pp, tp, ep, chunks = layout.pp, layout.tp, layout.ep, layout.chunks
    if pp * chunks > of.depth + _AROUND:
        found.append(f"pp x chunks = {pp} x {chunks} needs as many layers, and there are {of.depth}")
    if chunks > 1 and (pp == 1 or layout.micro_batches % pp):
        found.append(f"chunks = {chunks} needs stages that divide the micro-batches: pp = {pp}, m = {layout.micro_batches}")
    found += [f"tp = {tp} does not divide {count} heads" for count in of.uncut(tp)]
    if of.width % tp:
        found.append(f"tp = {tp} does not divide the width {of.width}")
    if layout.sp and length % tp:
        found.append(f"tp = {tp} with sp does not divide {length} positions")
    if of.experts and tp > 1 and not layout.sp:
        found.append(f"tp = {tp} beside experts needs sp, or each token would pass them {tp} times")
    if ep > 1 and not of.experts:
        found.append(f"ep = {ep}, and there are no experts")
    if ep > 1 and not _nested(ep, layout.fsdp * tp, layout.replicas * tp):
        found.append(f"ep = {ep} does not fit dp x fsdp x tp = {layout.dp} x {layout.fsdp} x {tp}")
    return (*found, *(f"ep = {ep} does not divide {count} experts" for count in of.experts if count % ep))


def _nested(ep: int, inner: int, whole: int) -> bool:
    """Whether ep ranks lie within the inner ones or are several rounds of them."""
    return whole % ep == 0 and (inner % ep == 0 or ep % inner == 0)


def divisors(number: int, most: int) -> list[int]:
    """Into how many equal parts, up to `most`, a number of ranks, layers or sequences can be divided."""
    return [each for each in range(1, min(number, most) + 1) if number % each == 0]
