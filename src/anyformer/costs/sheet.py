"""The cost sheet of an architecture: parameters, FLOPs and decode state, from the description alone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from anyformer.costs.hardware import Hardware, hardware_of
from anyformer.costs.roofline import StepTime, step_time
from anyformer.costs.work import Mode
from anyformer.model import Architecture
from anyformer.parts.state import Slots
from anyformer.plan import Plan
from anyformer.tally import Flops, Shape, Tally

_STEP = re.compile(r"step_\d+_")


@dataclass(frozen=True)
class Parameters:
    """`total` stored; `active` used by one token; by component of the model."""

    total: int
    active: int
    by_component: Mapping[str, int]


@dataclass(frozen=True)
class FlopCount:
    """`dense`: every query-key pair; `exact`: the pairs the masks allow; `by_component`: dense, exact of each."""

    dense: int
    exact: int
    by_component: Mapping[str, Flops]


@dataclass(frozen=True)
class FlopSheet:
    """2 FLOPs per multiply-accumulate, matrix products only. `backward` is twice `forward`, and zero unless training."""

    forward: FlopCount
    backward: FlopCount

    @property
    def total(self) -> Flops:
        return Flops(self.forward.dense + self.backward.dense, self.forward.exact + self.backward.exact)


@dataclass(frozen=True)
class CostSheet:
    """What a call costs.

    `state_bytes`: decode state for this batch and length; `state_bytes_per_token`: what the last position of a row added.
    """

    mode: Mode
    shape: Shape
    params: Parameters
    flops: FlopSheet
    state_bytes: int
    state_bytes_per_token: int
    time: StepTime | None = None
    """On the hardware that was named; None where none was."""

    def data(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(replace(self, time=None)) | {"time": None if self.time is None else self.time.data()}

    def json(self) -> str:
        return json.dumps(self.data(), indent=2) + "\n"

    def rows(self) -> list[tuple[str, str]]:
        """(what, how much) for a table, in words."""
        tokens = self.shape.batch * self.shape.length
        rows = [("parameters", f"{self.params.total:,}")]
        if self.params.active != self.params.total:
            rows.append(("  used by one token", f"{self.params.active:,}"))
        rows += [(f"  {name}", f"{count:,}") for name, count in self.params.by_component.items()]
        rows += [
            (f"FLOPs of {self.mode}, every pair", scaled(self.flops.total.dense)),
            (f"FLOPs of {self.mode}, pairs the masks allow", scaled(self.flops.total.exact)),
            ("  per token", scaled(self.flops.total.dense // tokens)),
            ("decode state", f"{scaled(self.state_bytes)}B"),
            ("  per token and row", f"{scaled(self.state_bytes_per_token)}B"),
        ]
        return rows

    def __str__(self) -> str:
        wide = max(len(name) for name, _ in self.rows())
        return "\n".join(f"{name:<{wide}}  {value:>16}" for name, value in self.rows())


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
) -> CostSheet:
    """Price one call: `train` and `prefill` compute `length` positions, `decode` one position after `length` cached ones.

    `length` serves source and target, where there are two, unless `source_length` is given. With `hardware`, a name (`h100`,
    `here`) or a value, the sheet has a `time`.
    """
    plan = plan or Plan()
    source = (source_length or length) if architecture.two_inputs else 0
    decodes = mode == "decode"
    shape = Shape(
        batch=batch, length=1 if decodes else length, past=length if decodes else 0, source=source, prefix=min(prefix, length)
    )
    tally = architecture.folded_cost(shape, plan)
    forward = _count(tally)
    # Every state has B rows of its own.
    row, before = tally.total_state_bytes // batch, _state(architecture, shape.keys - 1, source, plan)
    return CostSheet(
        mode=mode,
        shape=shape,
        time=None if hardware is None else step_time(architecture, shape, plan, hardware_of(hardware), mode),
        params=Parameters(
            tally.parameters, tally.active_parameters, _by_component({k: w.count for k, w in tally.weights.items()})
        ),
        flops=FlopSheet(forward, _times(forward, 2 if mode == "train" else 0)),
        state_bytes=batch * row + Slots.bytes(batch, shape.keys),
        state_bytes_per_token=row + Slots.bytes(1, shape.keys) - before,
    )


def _state(architecture: Architecture, capacity: int, source: int, plan: Plan) -> int:
    """Bytes of one row's state with room for `capacity` positions, its book included."""
    if capacity == 0:
        return 0
    shape = Shape(length=1, past=capacity - 1, source=source)
    return architecture.folded_cost(shape, plan).total_state_bytes + Slots.bytes(1, capacity)


def _count(tally: Tally) -> FlopCount:
    total = tally.total_flops
    components: dict[str, Flops] = {}
    for name, flops in tally.flops.items():
        key = _component(name)
        components[key] = components.get(key, Flops()) + flops
    return FlopCount(total.dense, total.exact, components)


def _times(count: FlopCount, times: int) -> FlopCount:
    return FlopCount(
        count.dense * times, count.exact * times, {name: flops * times for name, flops in count.by_component.items()}
    )


def _by_component(counts: Mapping[str, int]) -> dict[str, int]:
    components: dict[str, int] = {}
    for name, count in counts.items():
        components[_component(name)] = components.get(_component(name), 0) + count
    return components


def _component(name: str) -> str:
    """`decoder.layers.3.attention.sublayer.query.weight` -> `decoder.attention`: stack and branch, whatever the layer."""
    words = name.split(".")
    if words[1:2] == ["layers"] and len(words) > 3 and words[0] in ("encoder", "decoder"):
        return f"{words[0]}.{_STEP.sub('', words[3])}"
    return words[0] if len(words) < 3 else f"{words[0]}.{words[1]}"


def scaled(number: float) -> str:
    """A number with a metric prefix: 12.3 G."""
    for factor, prefix in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= factor:
            return f"{number / factor:.4g} {prefix}"
    return f"{number:.4g} "
