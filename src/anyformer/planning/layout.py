"""Layout: the ranks over which a training step is spread, and how they divide its work and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from anyformer.mesh import Schedule
from anyformer.model import Architecture
from anyformer.plan import Checkpointing

_ENDS = 2
"""Units of a pipeline beside its layers: the embeddings and the head may have stages of their own."""
Sharded = Literal["optimiser", "gradients", "weights"]
"""States that the `fsdp` ranks divide among them, each with all before it: ZeRO's stages 1, 2 and 3 (arXiv 1910.02054)."""
Dispatcher = Literal["by_node", "by_expert"]
"""How a token is sent to its experts: once to each node, and within it once to each rank (DeepEP), or once to each expert."""
MOST_RANKS = 4096
"""Accelerators that a search tries at most."""


@dataclass(frozen=True)
class Layout:
    """dp * fsdp * tp * pp ranks; `tp` ranks stand side by side, then `fsdp`, then `dp`, then `pp`.

    `ep` ranks of the dp * fsdp * tp that hold one stage divide the experts among them, each expert whole, whatever the layout
    of the other weights (Liu et al. 2025, arXiv 2504.14960). `micro_batch` sequences are computed at once, `micro_batches`
    times in a step.
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
    even: bool = False
    """Whether all stages of the pipeline have as many layers, where these divide, instead of as even work as can be."""
    dispatcher: Dispatcher = "by_node"
    fp8_dispatch: bool = False
    """Whether tokens and gradients are sent to experts in fp8; what experts give comes back as activations are."""
    behind: bool = False
    """Whether tokens are sent to experts while another micro-batch is computed (DualPipe, arXiv 2412.19437, section 3.2.1)."""

    schedule: Schedule = "1f1b"
    """The order of passes on each stage of the pipeline (`Mesh.schedule`)."""
    waits: bool = True
    """Whether hosts read how many tokens each rank sends before they launch what follows: not where capacity fixes these, nor
    where kernels are captured in graphs."""

    def __post_init__(self) -> None:
        for name in ("dp", "fsdp", "tp", "ep", "pp", "chunks", "micro_batch", "micro_batches"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} should be at least 1, got {getattr(self, name)}")
        if self.checkpointing not in get_args(Checkpointing):
            raise ValueError(f"checkpointing is one of {', '.join(get_args(Checkpointing))}, got {self.checkpointing!r}")
        for name, words in (("sharded", Sharded), ("dispatcher", Dispatcher), ("schedule", Schedule)):
            if getattr(self, name) not in get_args(words):
                raise ValueError(f"{name} is one of {', '.join(get_args(words))}, got {getattr(self, name)!r}")

    @property
    def replicas(self) -> int:
        """Ranks that compute different sequences of the batch."""
        return self.dp * self.fsdp

    @property
    def ranks(self) -> int:
        return self.replicas * self.tp * self.pp

    @property
    def unsharded(self) -> bool:
        """Whether each rank holds the whole model and all its states."""
        return self.fsdp == self.tp == self.ep == self.pp == 1

    @property
    def runs(self) -> bool:
        """Whether a run's mesh can be this: with weights sharded wherever states are (whole in a step of `zero_bubble`),
        experts among ranks that shard, and a micro-batch per stage at least."""
        apart = self.schedule == "zero_bubble"
        as_run = self.fsdp == 1 or self.sharded == ("optimiser" if apart else "weights")
        if apart and self.checkpointing != "none":
            return False
        return as_run and self.sp and self.fsdp % self.ep == 0 and self.micro_batches >= self.pp and not self.behind

    @property
    def sequences(self) -> int:
        """Sequences of one step."""
        return self.replicas * self.micro_batch * self.micro_batches

    @property
    def expert_fsdp(self) -> int:
        """Ranks that divide the states of one rank's experts: fsdp * tp / ep, at least 1."""
        return max(self.fsdp * self.tp // self.ep, 1)

    @property
    def expert_copies(self) -> int:
        """Ranks that hold the same experts."""
        return self.replicas * self.tp // self.ep

    def __str__(self) -> str:
        sizes = [f"{name} {getattr(self, name)}" for name in ("dp", "fsdp", "tp", "ep", "pp") if getattr(self, name) > 1]
        text = " x ".join(sizes) or "one rank"
        chunks = f", {self.chunks} chunks" if self.chunks > 1 else ""
        return text + chunks + (", zero-bubble" if self.schedule == "zero_bubble" else "")


@dataclass(frozen=True)
class DividedSizes:
    """Sizes of an architecture that a layout divides: layers among stages, heads and the width by tp, experts by ep."""

    depth: int
    width: int
    heads: tuple[int, ...]
    """Every count of heads in the architecture."""
    experts: tuple[int, ...]
    """Every count of experts in a mixture."""

    def indivisible(self, tp: int) -> list[int]:
        """Counts of heads that tp ranks cannot divide; fewer key heads than ranks are copied, if they divide the ranks.

        (The copies, which take each rank a little more than its share, are not counted.)
        """
        most = max(self.heads, default=tp)
        return [count for count in self.heads if count % tp and (tp % count or count == most)]


def bounds(architecture: Architecture) -> DividedSizes:
    """The bounds of an architecture, from its parts."""
    stacks = architecture.stacks.values()
    sublayers = [sublayer for stack in stacks for block in stack.variants.values() for sublayer in block.sublayers]
    networks = [sublayer.resizing.network for sublayer in sublayers]
    return DividedSizes(
        sum(stack.depth for stack in stacks),
        architecture.width,
        tuple(sorted({count for sublayer in sublayers for count in sublayer.tp_divisors})),
        tuple(sorted({network.experts for network in networks if network is not None and network.experts is not None})),
    )


def problems(layout: Layout, bounds: DividedSizes, length: int) -> tuple[str, ...]:
    """Reasons why a layout cannot hold an architecture of these bounds and sequences of a length; empty if it can."""
    reasons: list[str] = []
    pp, tp, ep, chunks = layout.pp, layout.tp, layout.ep, layout.chunks
    if pp * chunks > bounds.depth + _ENDS:
        reasons.append(f"pp x chunks = {pp} x {chunks} needs as many layers, and there are {bounds.depth}")
    if (chunks, layout.schedule) != (1, "1f1b") and (pp == 1 or layout.micro_batches % pp):
        said = f"chunks = {chunks}" if chunks > 1 else f"schedule = {layout.schedule}"
        reasons.append(f"{said} needs stages that divide the micro-batches: pp = {pp}, m = {layout.micro_batches}")
    reasons += [f"tp = {tp} does not divide {count} heads" for count in bounds.indivisible(tp)]
    if bounds.width % tp:
        reasons.append(f"tp = {tp} does not divide the width {bounds.width}")
    if layout.sp and length % tp:
        reasons.append(f"tp = {tp} with sp does not divide {length} positions")
    if bounds.experts and tp > 1 and not layout.sp:
        reasons.append(f"tp = {tp} beside experts needs sp, or a token would pass them {tp} times")
    if ep > 1 and not bounds.experts:
        reasons.append(f"ep = {ep}, and there are no experts")
    if layout.behind and layout.micro_batches == 1:
        reasons.append("behind needs a second micro-batch, beside whose computing transfers go, and there is one")
    if layout.replicas * tp % ep or not nested(ep, layout.fsdp * tp):
        reasons.append(f"ep = {ep} does not fit dp x fsdp x tp = {layout.dp} x {layout.fsdp} x {tp}")
    return (*reasons, *(f"ep = {ep} does not divide {count} experts" for count in bounds.experts if count % ep))


def nested(ep: int, inner: int) -> bool:
    """Whether ep ranks divide the fsdp * tp `inner` ones or are a multiple of them."""
    return inner % ep == 0 or ep % inner == 0


def divisors(number: int, most: int) -> list[int]:
    """Divisors, up to `most`, of a number of ranks, layers or sequences."""
    return [part for part in range(1, min(number, most) + 1) if number % part == 0]
