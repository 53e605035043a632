"""Runs in which an adapter alone learns, whose numbers are narrower than fp32, or whose batch is in more pieces: what each
changes of a run of `benchmarks.equality`, and where it is compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from anyformer.plan import Plan
from anyformer.precision import Fp8, Number
from anyformer.tuning import Dora, Lora, Prompt, Tuning


class Fp8AmongFp32(Fp8):
    """Products of operands in 8 bits; everything else is in fp32."""

    kind: Literal["fp8_among_fp32"] = "fp8_among_fp32"
    number: ClassVar[Number] = "fp32"


WIDE = "fp32"
"""The form of a run in fp32 throughout."""
TWICE = "two pieces"
"""The same with twice as many pieces of a batch: gradients add up before copies of the model sum them."""
PLAN = Plan(precision="fp32", compile="off")
ADAPTERS = {
    name: {"tuning": Tuning(adapter=adapter)}
    for name, adapter in (
        ("LoRA", Lora(rank=4, dropout=0.1)), ("DoRA", Dora(rank=4, dropout=0.1)), ("prompt", Prompt(tokens=5)),
    )
}  # fmt: skip
BASES = {f"LoRA on {base}": {"tuning": Tuning(adapter=Lora(rank=4), base=base)} for base in ("int8", "nf4")}
EIGHT_BITS = {
    f"fp8 by {shared}": {"plan": PLAN.but(precision=Fp8(least=16, scaling=shared))}
    for shared in ("tensor", "channel", "running")
}
AMONG_FP32 = {
    f"fp8 by {shared}, else fp32": {"plan": PLAN.but(precision=Fp8AmongFp32(least=16, scaling=shared))}
    for shared in ("tensor", "running")
}
FORMS: Mapping[str, Mapping[str, Any]] = {
    name: {"plan": PLAN, **changes}
    for name, changes in {WIDE: {}, TWICE: {}, **ADAPTERS, **BASES, **EIGHT_BITS, **AMONG_FP32}.items()
}
"""Fields of a run, by the form's name."""
ADAPTED = ("llama-3-8b", "deepseek-v2-lite")
"""The architectures beside which adapters learn."""
ADAPTED_MODES = ("data", "shard", "tensor", "expert", "context", "pipeline", "shard x tensor", "context x tensor")
NARROW = "mixtral-8x7b"
"""The architecture in narrower numbers: matrices of linear maps, and stacks of experts."""
NARROW_MODES = ("data", "shard", "data x shard", "pipeline")
COPIED, COPIED_MODES = "gpt2", ("data", "data x shard")
"""The architecture and the modes with more pieces."""
CUTTING = ("expert", "tensor", "context")
"""Modes in which processes sum parts of what one process sums at once: where sums are rounded to bf16, they differ by that, and
numbers that fall to the other side of a boundary of fp8 by a step of it. So all but the operands is in fp32 there."""


def compared(mode: str, ranks: int) -> list[tuple[str, str]]:
    """The names of the other forms that are compared in a mode, each with an architecture."""
    if ranks > 4:
        return []
    adapted = [(form, name) for form in ADAPTERS for name in ADAPTED if mode in ADAPTED_MODES]
    narrow = [*BASES, *EIGHT_BITS] if mode in NARROW_MODES else list(AMONG_FP32) if mode in CUTTING else []
    more = [(TWICE, COPIED)] if mode in COPIED_MODES else []
    return adapted + [(form, NARROW) for form in narrow] + more
