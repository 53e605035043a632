"""How long a step takes on one accelerator: each operation by the roofline (Williams et al. 2009, doi 10.1145/1498765.1498785).

seconds = max(FLOPs / (peak * share), bytes / (bandwidth * share), kernels * launch), operations one after another. Products
read each operand once, as large tiles do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from anyformer.costs.hardware import Hardware
from anyformer.costs.kernels import Kernel, Mode, Unit, kernels
from anyformer.model import Architecture
from anyformer.operations import Flops, Shape
from anyformer.plan import Plan, Precision

Bound = Literal["compute", "memory", "launch"]
LAUNCHING = 0.5
"""Share of the time in which kernels wait to be launched, from which it is no prediction any more."""
EAGER_SECONDS = 0.05
"""A training step that is predicted to be shorter is mostly the overhead of eager operations, each a few microseconds on the
host, many more than the kernels counted here: no prediction of its time can be good."""


@dataclass(frozen=True)
class KernelTime:
    """One kind of kernel over all layers; `bound` is what most of its time waits for."""

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

    @property
    def intensity(self) -> float:
        """FLOPs per byte moved."""
        return self.executed / self.bytes if self.bytes else 0.0


@dataclass(frozen=True)
class StepTime:
    """One step of one accelerator, as if everything fitted into its memory: no communication."""

    hardware: Hardware
    precision: Precision
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
        """The model's, as the cost sheet counts them."""
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

        None where that would be more than all of the peak: kernels compute far fewer pairs than are counted.
        """
        found = self.flops.dense / self.seconds / self.hardware.peak(self.precision)
        return found if found <= 1 else None

    @property
    def mfu_exact(self) -> float:
        """The same of the pairs that the masks allow."""
        return self.flops.exact / self.seconds / self.hardware.peak(self.precision)

    @property
    def bandwidth_used(self) -> float:
        """Share of the memory bandwidth."""
        return self.bytes / self.seconds / self.hardware.bandwidth

    @property
    def by_component(self) -> tuple[KernelTime, ...]:
        """The products by weights of each component as one, slowest first."""
        groups: dict[str, list[KernelTime]] = {}
        for operation in self.operations:
            products = operation.unit == "matrix"
            groups.setdefault(f"{operation.component}.products" if products else operation.name, []).append(operation)
        return tuple(sorted((together(name, parts) for name, parts in groups.items()), key=lambda found: -found.seconds))

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
        """Why the time is no prediction: launching kernels is most of it. Empty where it is one."""
        share = self.waits_for("launch")
        return f"too small to predict: launching kernels is {share:.0%} of its time" if share > LAUNCHING else ""

    def waits_for(self, bound: Bound) -> float:
        """Share of the time in operations of that bound."""
        return sum(operation.seconds for operation in self.operations if operation.bound == bound) / self.seconds


def step_time(
    architecture: Architecture, shape: Shape, plan: Plan, hardware: Hardware, mode: Mode, *, accumulation: int = 1
) -> StepTime:
    """The roofline of one step; `auto` precision is the faster one of the hardware. An update in pieces computes `shape` and
    its gradients `accumulation` times before the optimiser."""
    plan = hardware.resolved(plan)
    work = (
        each if each.unit == "optimiser" else replace(each, layers=each.layers * accumulation)
        for each in kernels(architecture, shape, plan, mode)
    )
    return step_of(work, replace(shape, batch=shape.batch * accumulation), plan.number, hardware, mode)


def step_of(work: Iterable[Kernel], shape: Shape, precision: Precision, hardware: Hardware, mode: Mode) -> StepTime:
    """The roofline of kernels that are known already."""
    return StepTime(hardware, precision, mode, shape.rows, merged(work, hardware, precision))


def merged(work: Iterable[Kernel], hardware: Hardware, precision: Precision) -> tuple[KernelTime, ...]:
    """Equal kernels of all layers as one, each kind of layer timed by itself: they may differ in window or width."""
    kinds: dict[str, list[KernelTime]] = {}
    for kernel in work:
        kinds.setdefault(kernel.title, []).append(_over_layers(kernel, *timed(kernel, hardware, precision)))
    return tuple(together(name, operations) for name, operations in kinds.items())


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
    )


def together(name: str, operations: Sequence[KernelTime]) -> KernelTime:
    """Several kernels as one, called `name`; its bound is that of most of the time."""
    waited: dict[Bound, float] = {}
    for operation in operations:
        waited[operation.bound] = waited.get(operation.bound, 0.0) + operation.seconds
    return KernelTime(
        name,
        operations[0].component,
        operations[0].unit,
        sum((operation.flops for operation in operations), Flops()),
        sum(operation.executed for operation in operations),
        sum(operation.bytes for operation in operations),
        sum(waited.values()),
        max(waited, key=lambda bound: waited[bound]),
    )


def timed(kernel: Kernel, hardware: Hardware, precision: Precision) -> tuple[float, Bound]:
    """Seconds of one kernel in one layer, and what it waits for."""
    reached = hardware.efficiency
    share = reached.attention if kernel.unit == "attention" else reached.matrix
    waits: dict[Bound, float] = {
        "compute": kernel.executed / (hardware.peak(precision) * share),
        "memory": kernel.bytes / (hardware.bandwidth * reached.of_bandwidth(kernel.unit)),
        "launch": kernel.launches * hardware.launch,
    }
    bound = max(waits, key=lambda name: waits[name])
    return waits[bound], bound
