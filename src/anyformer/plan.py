"""Plan: *how* an architecture is computed here. It may change speed, memory and rounding, never what is computed."""

from __future__ import annotations

from typing import Literal

from anyformer.describe import Count, Value

Precision = Literal["fp32", "bf16"]
Checkpointing = Literal["none", "selective", "full"]
"""What is computed again in the backward pass: nothing; all but matrix products and attention, whose outputs are kept
(Korthikanti et al. 2022, arXiv 2205.05198, choose by cost too); every layer from its input (Chen et al. 2016, 1604.06174)."""
BYTES: dict[str, int] = {"fp32": 4, "bf16": 2}


class Plan(Value):
    """How to compute: precision, attention kernel, chunks of recurrences, checkpointing, compilation."""

    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """`bf16`: weights stay fp32, matrix products and the residual stream run in bfloat16 (autocast).
    `auto`: a run measures a matrix product in both on its machine and takes the faster; what is priced without a machine
    counts as bf16, the format that figures are quoted in."""
    attention: Literal["auto", "plain", "sdpa"] = "auto"
    """Kernel: `plain` writes scores, softmax and mixing out (what a compiler fuses best at short lengths). `sdpa` writes no
    scores: torch's scaled_dot_product_attention, and for what that does not compute (soft-caps, sinks, dropout in training) a
    kernel of ours by blocks of queries, which computes scores again in the backward pass. `auto` chooses by device, length and
    what the part needs."""
    chunk: Count = 64
    """Positions that a linear recurrence computes side by side: the larger, the more work and the fewer steps one by one."""
    checkpointing: Checkpointing = "none"
    """Memory for time in training: what layers compute again in the backward pass, with the same loss and gradients.
    `selective` repeats all but matrix products and attention, little work; `full` repeats every layer, a third more."""
    compile: Literal["auto", "on", "off"] = "auto"
    """torch.compile: `auto` compiles long jobs where a compiler is present, and says in one line when it is not."""

    @property
    def number(self) -> Precision:
        """Of products, activations and decode state as they are priced: an unresolved `auto` is bf16, everywhere."""
        return "fp32" if self.precision == "fp32" else "bf16"

    @property
    def activation_bytes(self) -> int:
        """Bytes per element of activations and decode state."""
        return BYTES[self.number]
