"""Seconds of an update by kind of operation, as torch's profiler saw them, beside what the cost model predicts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, get_args

from torch.autograd.profiler_util import FunctionEvent

from anyformer.costs import step_time
from anyformer.costs.hardware import Hardware
from anyformer.costs.kernel import Unit
from anyformer.training.run import Run

Kind = Literal["matrix products", "attention", "element-wise", "communication", "optimiser", "between operations"]
UNITS: Mapping[Unit, Kind] = {
    "matrix": "matrix products", "attention": "attention", "memory": "element-wise", "optimiser": "optimiser",
}  # fmt: skip
"""The kind of each unit of work that the cost model knows."""
Times = dict[Kind, float]

_OPERATION = re.compile(r"(?!autograd::)[a-z_0-9]+::\w+$")
"""What torch dispatches, unlike the ranges that FSDP and autograd name."""
_COMPILED = ("triton_", "cpp_fused", "graph_", "Torch-Compiled", "CompiledFunction", "## Call Compiled")
"""Kernels that a compiler fused, and on a CPU the ranges in which they are called."""
_PRODUCTS = ("linear", "mm", "addmm", "mv", "addmv", "_grouped_mm", "_scaled_mm", "_int_mm")
_FUSED = re.compile("attention")
"""Within the names of torch's own attention."""
_OF_ACTIVATIONS = ("bmm", "baddbmm")
"""Products of two activations, as attention without a fused kernel has them."""
_EXCHANGES = ("c10d::", "_c10d_functional::")


def measured(events: Iterable[FunctionEvent], seconds: float, waited: float, *, gpu: bool) -> Times:
    """Seconds of an update that took `seconds`, `waited` of them for other processes.

    An operation counts with all that it calls: on a CPU the time of the calling thread, on a GPU that of its kernels. What is
    left are calls of operations, Python, and waiting for a kernel.
    """
    times: Times = dict.fromkeys(get_args(Kind), 0.0)
    for event in events:
        kind = _kind(list(_upwards(event)))
        if kind is not None:
            times[kind] += (event.self_device_time_total if gpu else event.self_cpu_time_total) / 1e6
    times["communication"] = waited
    times["between operations"] = max(seconds - sum(times.values()), 0.0)
    return times


def predicted(run: Run, hardware: Hardware, processes: int) -> Times:
    """Seconds of an update of the run by the roofline of this hardware, in one of the processes that share it evenly; nothing
    for a number format that was not measured, and of several processes none for what they exchange."""
    if run.plan.precision.unit not in hardware.peaks:
        return {}
    time = step_time(run.architecture, run.piece, run.plan, hardware, "train", accumulation=run.accumulation)
    times: Times = dict.fromkeys(UNITS.values(), 0.0)
    for operation in time.operations:
        shares = run.plan.mesh.divided if operation.unit == "optimiser" else processes
        times[UNITS[operation.unit]] += operation.seconds / shares
    return times if processes > 1 else {**times, "communication": 0.0}


def table(expected: Mapping[Kind, float], found: Mapping[Kind, float]) -> list[str]:
    """Predicted beside measured milliseconds of each kind, in plain text."""
    rows = [("", "predicted", "measured", "of the update")]
    whole = sum(found.values())
    for kind, seconds in found.items():
        said = f"{1e3 * expected[kind]:,.2f} ms" if kind in expected else "-"
        rows.append((kind, said, f"{1e3 * seconds:,.2f} ms", f"{seconds / whole:.1%}" if whole else "-"))
    wide = [max(len(row[i]) for row in rows) for i in range(4)]
    return [f"{row[0]:<{wide[0]}}" + "".join(f"  {row[i]:>{wide[i]}}" for i in (1, 2, 3)) for row in rows]


def _upwards(event: FunctionEvent) -> Iterator[str]:
    """The names of an event and of those that it is within."""
    at: FunctionEvent | None = event
    while at is not None:
        yield at.name
        at = at.cpu_parent


def _kind(names: list[str]) -> Kind | None:
    """The kind of an operation within others, from its own name outwards; None for what is no operation, or an exchange."""
    if any(name.startswith("Optimizer.") for name in names):
        return "optimiser"
    if any(name.startswith(_EXCHANGES) for name in names):
        return None
    if names[0].startswith(_COMPILED):
        return "element-wise"
    if not _OPERATION.match(names[0]):
        return None
    operations = [name.removeprefix("aten::") for name in names if _OPERATION.match(name)]
    if any(map(_FUSED.search, operations)):
        return "attention"
    if any(each in _PRODUCTS or each.startswith(("anyformer::", "mkldnn")) for each in operations):
        return "matrix products"
    return "attention" if any(each in _OF_ACTIVATIONS for each in operations) else "element-wise"
