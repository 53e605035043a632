"""Time of a step on one accelerator: each operation by the roofline (Williams et al. 2009, doi 10.1145/1498765.1498785).

seconds = max(FLOPs / (peak * share), bytes / (bandwidth * share), kernels * launch), operations one after another. Products
read each operand once, as large tiles do. Those of experts, many small ones with few rows each, hide none of their reading
behind their computing: FLOPs / (peak * share) + bytes / (bandwidth * share).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from anyformer.costs.hardware import Hardware
from anyformer.costs.kernel import Kernel, Mode, Unit
from anyformer.costs.kernels import kernels
from anyformer.model import Architecture
from anyformer.operations import Flops, Shape
from anyformer.plan import Plan

Bound = Literal["compute", "memory", "launch"]
LAUNCHING = 0.5
"""Share of the time in which kernels wait to be launched, above which the time is not taken as a prediction."""
EAGER_SECONDS = 0.05
"""A training step predicted to be shorter is mostly overhead of eager operations, each a few microseconds on the host and many
more than the kernels counted here: its time cannot be predicted."""


@dataclass(frozen=True)
class KernelTime:
    """One kind of kernel over all layers; `bound`: the bound of most of its time."""

    name: str
    """`decoder.attention.query`."""
    component: str
    """`decoder.attention`."""
    unit: Unit
    flops: Flops
    executed: int
    bytes: int
    seconds: float
    bound: Bound
    number: str
    """The format of the operands of its products."""

    @property
    def intensity(self) -> float:
        """FLOPs per byte moved."""
        return self.executed / self.bytes if self.bytes else 0.0


@dataclass(frozen=True)
class StepTime:
    """One step of one accelerator, as if everything fitted into its memory: no communication."""

    hardware: Hardware
    precision: str
    """The number format whose peak the largest products reach."""
    mode: Mode
    tokens: int
    """Positions computed: batch * length in training and prefill, batch in decoding."""
    operations: tuple[KernelTime, ...]

    @property
    def seconds(self) -> float:
        return sum(operation.seconds for operation in self.operations)

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds

    @property
    def flops(self) -> Flops:
        """FLOPs of the model, as the cost sheet counts them."""
        return sum((operation.flops for operation in self.operations), Flops())

    @property
    def bytes(self) -> int:
        return sum(operation.bytes for operation in self.operations)

    @property
    def intensity(self) -> float:
        """FLOPs executed per byte moved."""
        return sum(operation.executed for operation in self.operations) / self.bytes

    @property
    def mfu(self) -> float | None:
        """Model FLOPs utilisation, every query-key pair counted (Chowdhery et al. 2022, arXiv 2204.02311, appendix B).

        None where it would exceed 1: kernels compute far fewer pairs than are counted.
        """
        share = self.flops.dense / self.seconds / self.hardware.peak(self.precision)
        return share if share <= 1 else None

    @property
    def mfu_exact(self) -> float:
        """Model FLOPs utilisation, the pairs that the masks allow counted."""
        return self.flops.exact / self.seconds / self.hardware.peak(self.precision)

    @property
    def bandwidth_used(self) -> float:
        """Share of the memory bandwidth that the step uses."""
        return self.bytes / self.seconds / self.hardware.bandwidth

    @property
    def by_component(self) -> tuple[KernelTime, ...]:
        """Operations, slowest first, with the products by weights of each component as one."""
        groups: dict[str, list[KernelTime]] = {}
        for operation in self.operations:
            products = operation.unit == "matrix"
            groups.setdefault(f"{operation.component}.products" if products else operation.name, []).append(operation)
        summed = (together(name, parts) for name, parts in groups.items())
        return tuple(sorted(summed, key=lambda operation: -operation.seconds))

    def data(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        figures = ("seconds", "tokens_per_second", "mfu", "mfu_exact", "bandwidth_used", "bytes", "intensity")
        return {
            "hardware": self.hardware.name,
            "precision": self.precision,
            "efficiency": asdict(self.hardware.efficiency),
            **{name: getattr(self, name) for name in figures},
            "operations": [{**asdict(operation), "intensity": operation.intensity} for operation in self.operations],
        }

    @property
    def too_small(self) -> str:
        """A sentence where launching kernels is most of the time, so that it is no prediction; else empty."""
        share = self.waits_for("launch")
        return f"too small to predict: launching kernels is {share:.0%} of its time" if share > LAUNCHING else ""

    def waits_for(self, bound: Bound) -> float:
        """Share of the time in operations of a bound."""
        return sum(operation.seconds for operation in self.operations if operation.bound == bound) / self.seconds


def step_time(
    architecture: Architecture, shape: Shape, plan: Plan, hardware: Hardware, mode: Mode, *, accumulation: int = 1
) -> StepTime:
    """Roofline time of one step; `auto` precision is the faster one of the hardware. With gradient accumulation `shape` is
    computed `accumulation` times, forward and backward, before the optimiser."""
    plan = hardware.resolved(plan)
    work = (
        kernel if kernel.unit == "optimiser" else replace(kernel, layers=kernel.layers * accumulation)
        for kernel in kernels(architecture, shape, plan, mode)
    )
    return step_of(work, replace(shape, batch=shape.batch * accumulation), plan.precision.unit, hardware, mode)


def step_of(work: Iterable[Kernel], shape: Shape, precision: str, hardware: Hardware, mode: Mode) -> StepTime:
    """Roofline time of kernels."""
    # Kinds of layers are timed one by one, as they may differ in window or width, and their equal kernels summed.
    kinds: dict[str, list[KernelTime]] = {}
    for kernel in work:
        kinds.setdefault(kernel.title, []).append(_over_layers(kernel, *timed(kernel, hardware)))
    operations = tuple(together(name, kernels) for name, kernels in kinds.items())
    return StepTime(hardware, precision, mode, shape.rows, operations)


def _over_layers(kernel: Kernel, seconds: float, bound: Bound) -> KernelTime:
    n = kernel.layers
    return KernelTime(
        kernel.title,
        kernel.address.component,
        kernel.unit,
        kernel.flops * n,
        kernel.executed * n,
        kernel.bytes * n,
        seconds * n,
        bound,
        kernel.number,
    )


def together(name: str, operations: Sequence[KernelTime]) -> KernelTime:
    """Several kernels as one, called `name`; its bound is the bound of most of the time."""
    seconds: dict[Bound, float] = {}
    for operation in operations:
        seconds[operation.bound] = seconds.get(operation.bound, 0.0) + operation.seconds
    return KernelTime(
        name,
        operations[0].component,
        operations[0].unit,
        sum((operation.flops for operation in operations), Flops()),
        sum(operation.executed for operation in operations),
        sum(operation.bytes for operation in operations),
        sum(seconds.values()),
        max(seconds, key=lambda bound: seconds[bound]),
        operations[0].number,
    )


def timed(kernel: Kernel, hardware: Hardware) -> tuple[float, Bound]:
    """Seconds of one kernel in one layer, and its bound."""
    seconds = bounds_of_kernel(kernel, hardware)
    return seconds_of(kernel, seconds), max(seconds, key=lambda bound: seconds[bound])


def bounds_of_kernel(kernel: Kernel, hardware: Hardware) -> dict[Bound, float]:
    """The seconds of one kernel in one layer that every bound leaves it at least."""
    shares = hardware.efficiency
    share = shares.attention if kernel.unit == "attention" else shares.matrix
    return {
        "compute": kernel.executed / (hardware.peak(kernel.number) * share) if kernel.executed else 0.0,
        "memory": kernel.bytes / (hardware.bandwidth * shares.of_bandwidth(kernel.unit)),
        "launch": kernel.launches * hardware.launch,
    }


def seconds_of(kernel: Kernel, bounds: Mapping[Bound, float]) -> float:
    """Seconds of one kernel in one layer."""
    if kernel.share == "experts" and kernel.unit == "matrix":
        return max(bounds["compute"] + bounds["memory"], bounds["launch"])
    return max(bounds.values())
