"""Exact predictions beside the module on the meta device: parameters, decode state, FLOPs by PyTorch's counter.

The meta device runs every operation of the whole model without numbers, and so without memory. There every product is
dispatched as itself, so every query-key pair is counted, forward and backward: the `dense` convention, whatever the kernel.
A device's fused kernels count otherwise: torch's attention for CPUs and its grouped products nothing, flash attention on CUDA
a backward pass of 2.5 forward ones, for it computes scores again (`executed`). An experts' capacity that holds in training only
pads their rows beyond the declared ones, so FLOPs are those of a call in evaluation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from anyformer.costs.counts import flop_count, located, parameters
from anyformer.costs.examples import examples, without_numbers
from anyformer.costs.flop_counter import MetaFlops, flops_by_module
from anyformer.costs.saved import RESIDUAL
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer, build
from anyformer.operations import Shape, Tally
from anyformer.parts.call.shared import slot_bytes
from anyformer.plan import Plan


@dataclass(frozen=True)
class CountComparison:
    """A quantity, predicted and counted, of a component or the whole model (``); `tolerance`: the
    difference allowed, 0 for none, None for any."""

    quantity: str
    component: str
    unit: str
    predicted: float
    measured: float
    tolerance: float | None

    @property
    def difference(self) -> float:
        """The prediction relative to the measurement, less 1; 0 where both are 0."""
        return 0.0 if self.predicted == self.measured else self.predicted / self.measured - 1 if self.measured else float("inf")

    @property
    def holds(self) -> bool:
        return self.tolerance is None or abs(self.difference) <= self.tolerance


class Predictions(nn.Module):
    """All predictions of a model as one call of a module, under which torch's counter finds the parts by their paths."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return self.model.predictions(*inputs)


def counted(architecture: Architecture, shape: Shape, plan: Plan) -> Iterator[CountComparison]:
    """Parameters and FLOPs of the whole model, forward by component; backward in total, as a tied table has no own module."""
    tally = architecture.trained_cost(shape, plan)
    model = build(architecture, plan, device="meta").eval()
    built = sums(tally, ((name, parameter.numel()) for name, parameter in model.named_parameters()))
    yield from compared("parameters", "", parameters(tally).by_component, built)
    inputs = [x.to("meta") for x in examples(architecture, shape)]
    with flops_by_module() as counter:
        outputs = Predictions(model)(*inputs)
        forward = counter.get_total_flops()
        modules = _parts(architecture, tally, {name: sum(flops.values()) for name, flops in counter.get_flop_counts().items()})
        torch.autograd.backward([output.float().sum() for output in outputs])
    declared = {name: flops.dense for name, flops in flop_count(tally).by_component.items()}
    yield from compared("forward FLOPs", "FLOPs", declared, modules, total=forward)
    backward = counter.get_total_flops() - forward
    yield CountComparison("backward FLOPs", "", "FLOPs", tally.total_flops.backward, backward, 0)


def total_flops(architecture: Architecture, shape: Shape, plan: Plan) -> tuple[int, int]:
    """FLOPs of the whole model's forward and backward pass, counted without components, which takes a third of the time."""
    model = build(architecture, plan, device="meta").eval()
    inputs, options = without_numbers(architecture, shape)
    with MetaFlops() as counter:
        outputs = model.predictions(*inputs, **options)
        forward = counter.total
        torch.autograd.backward([output.float().sum() for output in outputs])
    return forward, counter.total - forward


def states(architecture: Architecture, shape: Shape, plan: Plan) -> Iterator[CountComparison]:
    """Decode state allocated for the length; no comparison for a model that generates nothing."""
    tally = architecture.cost(Shape(batch=shape.batch, length=1, capacity=shape.length, source=shape.source), plan)
    if architecture.decoder is None or architecture.latents is not None or tally.breaks("stepwise"):
        return
    dtype = torch.bfloat16 if plan.activation_bytes == 2 else torch.float32
    state = build(architecture, plan, device="meta").state(shape.batch, shape.length, source=shape.source, dtype=dtype)
    predicted = {**sums(tally, tally.state_bytes.items()), "positions": slot_bytes(*state.slots.positions.shape)}
    layers = [
        (f"decoder.layers.{i}.{name}", own.nbytes) for i, states in enumerate(state.layers) for name, own in states.items()
    ]
    allocated = {**sums(tally, layers), "positions": state.slots.nbytes}
    yield from compared("decode state", "B", predicted, allocated, total=state.nbytes)


def compared(
    quantity: str,
    unit: str,
    predicted: Mapping[str, int],
    measured: Mapping[str, int],
    *,
    total: int | None = None,
    tolerance: float = 0,
    inner: float | None = 0,
) -> Iterator[CountComparison]:
    """The sum, then every component that either side has; `total`: the measured sum, by default that of the components."""
    total = sum(measured.values()) if total is None else total
    yield CountComparison(quantity, "", unit, sum(predicted.values()), total, tolerance)
    for name in dict.fromkeys([*predicted, *measured]):
        if predicted.get(name) or measured.get(name):
            yield CountComparison(quantity, name, unit, predicted.get(name, 0), measured.get(name, 0), inner)


def sums(tally: Tally, sizes: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Sums by component of sizes that have paths of modules."""
    find, by_component = located(tally), Counter[str]()
    for path, size in sizes:
        by_component[find(path)[0].component] += size
    return by_component


def labels(architecture: Architecture, tally: Tally) -> Callable[[str], str]:
    """A function from the name of a module to its component, empty where it is part of one; "" is the loss.

    A block itself stands for the residual stream.
    """
    names = {"": "loss"}
    for node in tally.nodes():
        at = node.address
        if at.whole(architecture.layered):
            names[node.path] = at.component
        elif at.layer is not None and at.branch is None:
            names[node.path] = at.within("branch", RESIDUAL).component
    return lambda module: names.get(module, "")


def _parts(architecture: Architecture, tally: Tally, modules: Mapping[str, int]) -> dict[str, int]:
    """FLOPs by component, from FLOPs by module, each of which is counted with all modules below it."""
    by_component = Counter[str]()
    for node in tally.nodes():
        if node.address.whole(architecture.layered):
            by_component[node.address.component] += modules.get(f"{Predictions.__name__}.model.{node.path}", 0)
    return by_component
