"""Plan: *how* an architecture is computed here. It may change speed, memory and rounding, never what is computed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from anyformer.describe import Count, Value
from anyformer.mesh import Mesh
from anyformer.precision import BYTES, Auto, Number, Precision

Checkpointing = Literal["none", "selective", "full"]
"""Operations recomputed in the backward pass: none; all but matrix products and attention, whose outputs are saved
(Korthikanti et al. 2022, arXiv 2205.05198, choose by cost too); every layer from its input (Chen et al. 2016, 1604.06174)."""


class Profile(Value):
    """Which updates of a run are traced by torch's profiler. A traced update takes longer; its numbers stay the same."""

    steps: Annotated[tuple[Count, ...], Field(min_length=1)]
    """Their numbers, from 1. The first update of a process prepares much, and compiles: later ones are alike."""


class Plan(Value):
    """How an architecture is computed: precision, attention kernel, chunks of recurrences, checkpointing, compilation."""

    precision: Precision = Auto()
    """The number formats of training: `auto`, `fp32`, `tf32`, `bf16`, `pure_bf16`, `fp16`, `fp8`, `mxfp8` or `nvfp4`, by that
    word, or as a table with more to say: `precision = { kind = "fp8", scaling = "running" }`."""
    attention: Literal["auto", "plain", "sdpa", "native"] = "auto"
    """Kernel: `plain` writes scores, softmax and mixing out (what a compiler fuses best at short lengths). `sdpa` writes no
    scores: torch's scaled_dot_product_attention, and for soft-caps, sinks and dropout in training, which that lacks, a kernel
    of ours by blocks of queries, which recomputes scores in the backward pass. `native`: on a processor a kernel in C++ for
    rows without a mask but the causal one, which a compiler makes once; `auto` for all else. `auto` chooses by device, length
    and the features of the attention; in a long run it is `native` where a trial finds that faster."""
    chunk: Count = 64
    """Positions that a linear recurrence computes in parallel: a larger chunk means more work in fewer sequential steps."""
    checkpointing: Checkpointing = "none"
    """Recomputation in the backward pass, which saves memory for time; loss and gradients are the same.
    `selective` repeats all but matrix products and attention, little work; `full` repeats every layer, a third more."""
    compile: Literal["auto", "on", "off"] = "auto"
    """torch.compile: `auto` compiles long jobs where a compiler is present, and says in one line when it is not; in one process
    only where a trial of both on the run's first batch finds compiled passes no slower than eager ones."""

    mesh: Mesh = Mesh()
    """The processes that share an update, as in `mesh = { shard = 4 }` under `torchrun --nproc-per-node 8`."""

    profile: Profile | None = None
    """Updates of training whose operations are traced, in every process, as in `profile = { steps = [10, 11] }`: what they take
    beside what was predicted."""

    @property
    def number(self) -> Number:
        """The number format of activations and decode state; an unresolved `auto` is bf16."""
        return self.precision.number

    @property
    def named(self) -> str:
        """The precision by its kind; an unresolved `auto` is bf16."""
        return self.number if self.precision == Auto() else self.precision.kind

    @property
    def activation_bytes(self) -> int:
        """Bytes per element of activations and decode state."""
        return BYTES[self.number]
