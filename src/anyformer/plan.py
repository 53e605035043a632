"""Plan: *how* an architecture is computed here. It may change speed, memory and rounding, never what is computed."""

from __future__ import annotations

from typing import Literal

from anyformer.describe import Count, Value

Precision = Literal["fp32", "bf16"]
Checkpointing = Literal["none", "selective", "full"]
"""Operations recomputed in the backward pass: none; all but matrix products and attention, whose outputs are saved
(Korthikanti et al. 2022, arXiv 2205.05198, choose by cost too); every layer from its input (Chen et al. 2016, 1604.06174)."""
BYTES: dict[str, int] = {"fp32": 4, "bf16": 2}


class Plan(Value):
    """How an architecture is computed: precision, attention kernel, chunks of recurrences, checkpointing, compilation."""

    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """`bf16`: weights stay fp32, matrix products and the residual stream run in bfloat16 (autocast).
    `auto`: a run measures a matrix product in both on its machine and takes the faster; prices without a machine are for bf16,
    the format that figures are quoted in."""
    attention: Literal["auto", "plain", "sdpa"] = "auto"
    """Kernel: `plain` writes scores, softmax and mixing out (what a compiler fuses best at short lengths). `sdpa` writes no
    scores: torch's scaled_dot_product_attention, and for soft-caps, sinks and dropout in training, which that lacks, a kernel
    of ours by blocks of queries, which recomputes scores in the backward pass. `auto` chooses by device, length and the
    features of the attention."""
    chunk: Count = 64
    """Positions that a linear recurrence computes in parallel: a larger chunk means more work in fewer sequential steps."""
    checkpointing: Checkpointing = "none"
    """Recomputation in the backward pass, which saves memory for time; loss and gradients are the same.
    `selective` repeats all but matrix products and attention, little work; `full` repeats every layer, a third more."""
    compile: Literal["auto", "on", "off"] = "auto"
    """torch.compile: `auto` compiles long jobs where a compiler is present, and says in one line when it is not."""

    @property
    def number(self) -> Precision:
        """The number format of products, activations and decode state in prices: an unresolved `auto` is bf16."""
        return "fp32" if self.precision == "fp32" else "bf16"

    @property
    def activation_bytes(self) -> int:
        """Bytes per element of activations and decode state."""
        return BYTES[self.number]
