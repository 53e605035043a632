"""Price one call of an architecture: `cost` gives its sheet, which prints as a page."""

from __future__ import annotations

from anyformer.costs.hardware import Hardware
from anyformer.costs.kernel import Mode
from anyformer.costs.named_hardware import hardware_of
from anyformer.costs.page import page
from anyformer.costs.sheet import CostSheet
from anyformer.costs.text import text
from anyformer.model import Architecture
from anyformer.plan import Plan
from anyformer.tuning import Optimiser


class PrintedSheet(CostSheet):
    """A cost sheet whose text is its page."""

    def __str__(self) -> str:
        return text(page(self, (self.mode,)))


def cost(
    architecture: Architecture,
    *,
    batch: int = 1,
    length: int = 1024,
    source_length: int | None = None,
    prefix: int = 0,
    mode: Mode = "train",
    plan: Plan | None = None,
    hardware: str | Hardware | None = None,
    optimiser: Optimiser | None = None,
) -> CostSheet:
    """Price one call: `train` and `prefill` compute `length` positions, `decode` one position after `length` cached ones.

    `length` serves source and target, where there are two, unless `source_length` is given. Products, activations and decode
    state are in bf16 unless `plan` says otherwise. With `hardware`, a name (`h100`, `here`) or a value, the sheet has a `time`,
    and `auto` precision is the faster one there. Training is priced with AdamW unless there is an `optimiser`.
    """
    on, plan = None if hardware is None else hardware_of(hardware), plan or Plan()
    source = architecture.source_of(length, source_length)
    return PrintedSheet(
        architecture=architecture,
        mode=mode,
        batch=batch,
        length=length,
        source=source,
        prefix=min(prefix, length),
        plan=plan if on is None else on.resolved(plan),
        hardware=on,
        optimiser=optimiser,
    )
