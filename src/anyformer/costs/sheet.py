"""The cost sheet of an architecture: all that a call costs, each figure computed when it is asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import ceil
from typing import Any

from anyformer.costs.activations import Activations, activations
from anyformer.costs.counts import Executed, FlopSheet, Parameters, flop_count, parameters
from anyformer.costs.elementwise import elementwise
from anyformer.costs.figures import clock, scaled
from anyformer.costs.hardware import Hardware
from anyformer.costs.holding import Holding
from anyformer.costs.inference import FORMATS, DecodeState, Reading, decode_state, read_per_step, stored
from anyformer.costs.kernels import Kernel, Mode, kernels
from anyformer.costs.peak import PeakMemory, peak_memory
from anyformer.costs.roofline import StepTime, step_of
from anyformer.costs.sizing import Remark, remarks
from anyformer.model import Architecture
from anyformer.operations import Flops, Shape, Tally
from anyformer.plan import Plan, Precision

MODES: tuple[Mode, ...] = ("train", "prefill", "decode")
STEPS: Mapping[Mode, str] = {"train": "training step", "prefill": "prefill", "decode": "decoding step"}


@dataclass(frozen=True, repr=False)
class CostSheet:
    """What a call costs: `train` and `prefill` compute `length` positions, `decode` one position after `length` cached ones.

    `source`: positions of the source, 0 where there is one input. `hardware`: what `time` is on, None where none was named.
    """

    architecture: Architecture
    mode: Mode
    batch: int
    length: int
    source: int
    prefix: int
    plan: Plan
    hardware: Hardware | None = None

    def of(self, mode: Mode) -> CostSheet:
        """The same in another mode."""
        return self._by_mode[mode]

    @cached_property
    def _by_mode(self) -> Mapping[Mode, CostSheet]:
        """One sheet for each mode, so that its figures are computed once."""
        return {mode: self if mode == self.mode else replace(self, mode=mode) for mode in MODES}

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Those that make sense: what has no decoder, or one that transforms a latent array, decodes no tokens."""
        made = self.architecture
        return MODES if made.decoder is not None and made.latents is None else MODES[:2]

    @property
    def shape(self) -> Shape:
        """The sizes of the call."""
        decodes = self.mode == "decode"
        length, past = (1, self.length) if decodes else (self.length, 0)
        return Shape(batch=self.batch, length=length, past=past, source=self.source, prefix=self.prefix)

    @property
    def precision(self) -> Precision:
        """Of products, activations and decode state; where no hardware resolves it, `auto` is bf16."""
        return self.plan.number

    @property
    def tokens(self) -> int:
        """Positions computed; of two inputs, the target's."""
        return self.shape.batch * self.shape.length

    @cached_property
    def _tally(self) -> Tally:
        return self.architecture.folded_cost(self.shape, self.plan)

    @cached_property
    def params(self) -> Parameters:
        """Stored, and used by one token."""
        return parameters(self._tally)

    @cached_property
    def flops(self) -> FlopSheet:
        """Of the model, whatever computes it."""
        forward = flop_count(self._tally)
        return FlopSheet(forward, forward * (2 if self.mode == "train" else 0))

    @cached_property
    def executed(self) -> Executed:
        """What the plan's kernel and checkpointing execute, without the products that no gradient asks for."""
        total = sum(each.executed * each.layers for each in self._work)
        if self.mode != "train":
            return Executed(total, 0)
        dense = {"attention"} if self.plan.attention == "plain" else set()
        forward = sum((each.flops.dense if each.unit in dense else each.flops.exact) * each.layers for each in self._work) // 3
        return Executed(forward, total - forward - self._tally.total_flops.no_gradient)

    @cached_property
    def _work(self) -> list[Kernel]:
        return kernels(self.architecture, self.shape, self.plan, self.mode)

    @cached_property
    def elementwise(self) -> Mapping[str, Flops]:
        """Element-wise operations of the forward pass, by kind."""
        return elementwise(self.architecture, self.shape, self.plan)

    @cached_property
    def kept(self) -> Activations:
        """Tensors that a training step keeps for its backward pass."""
        return activations(self.architecture, replace(self.shape, past=0, length=self.length), self.plan)

    @property
    def memory(self) -> Holding:
        """Of training on one device: what is held when most is, which is `peak.at`, by purpose."""
        return self.peak.holding

    @cached_property
    def peak(self) -> PeakMemory:
        """The most that a training step holds at once."""
        return peak_memory(
            self.architecture,
            batch=self.batch,
            length=self.length,
            source_length=self.source or None,
            prefix=self.prefix,
            plan=self.plan,
        )

    @cached_property
    def weights(self) -> Mapping[str, int]:
        """Bytes of all weights by format."""
        return {name: stored(self._tally.weights, format) for name, format in FORMATS.items()}

    @cached_property
    def state(self) -> DecodeState:
        """What all positions of the call leave behind."""
        return decode_state(
            self.architecture, batch=self.batch, context=self.shape.keys, source=self.source or None, plan=self.plan
        )

    @property
    def state_bytes(self) -> int:
        """Decode state of this batch and length."""
        return self.state.total

    @property
    def state_bytes_per_token(self) -> int:
        """What the last position of a row added."""
        return self.state.per_token

    @cached_property
    def reading(self) -> Reading:
        """What decoding one token for each row reads, weights in the plan's precision."""
        return read_per_step(
            self.architecture,
            FORMATS[self.precision],
            batch=self.batch,
            length=self.length,
            source=self.source or None,
            plan=self.plan,
        )

    @cached_property
    def time(self) -> StepTime | None:
        """The roofline on the hardware that was named."""
        if self.hardware is None:
            return None
        return step_of(self._work, self.shape, self.precision, self.hardware, self.mode)

    @property
    def held(self) -> int:
        """Bytes that must fit somewhere: of training the peak of a step, else the weights and the decode state."""
        if self.mode != "train":
            return self.weights[self.precision] + self.state_bytes
        return self.memory.total

    @property
    def devices(self) -> int:
        """How many of the hardware's devices hold that, spread evenly."""
        return self.holding(self.held)

    def holding(self, size: int) -> int:
        """How many of the hardware's devices have room for so many bytes; 1 where none was named."""
        return 1 if self.hardware is None else max(1, ceil(size / self.hardware.room))

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """Where the architecture is far from the rules of thumb."""
        return remarks(self.architecture)

    def data(self) -> dict[str, Any]:
        """Plain data, for JSON: numbers are bytes, FLOPs and seconds."""
        executed, state, decodes = self.executed, self.state, "decode" in self.modes
        return {
            "mode": self.mode,
            "shape": asdict(self.shape),
            "precision": self.precision,
            "checkpointing": self.plan.checkpointing,
            "params": asdict(self.params),
            "flops": {
                **{name: asdict(each) for name, each in (("forward", self.flops.forward), ("backward", self.flops.backward))},
                "total": asdict(self.flops.total),
                "executed": {**asdict(executed), "total": executed.total},
            },
            "elementwise": {kind: asdict(each) for kind, each in self.elementwise.items()},
            "memory": self._memory_data(),
            "weights": dict(self.weights),
            "state": {**asdict(state), "total": state.total, "per_token": state.per_token, "per_sequence": state.per_sequence},
            "reading": asdict(self.reading) if decodes else None,
            "time": None if self.time is None else self.time.data(),
            "remarks": [str(remark) for remark in self.remarks],
        }

    def _memory_data(self) -> dict[str, int]:
        return {**asdict(self.memory), "total": self.memory.total, "kept": self.kept.kept + self.kept.loss}

    def __repr__(self) -> str:
        """One line: the call and its main figures."""
        return f"<CostSheet of {self._said}>"

    def _repr_html_(self) -> str:
        """A small table, for notebooks."""
        rows = "".join(f"<tr><th>{name}</th><td>{figure}</td></tr>" for name, figure in self.brief.items())
        return f"<table><caption>{self._said.partition(': ')[0]}</caption>{rows}</table>"

    @property
    def brief(self) -> dict[str, str]:
        """The main figures, in words."""
        found = {
            "parameters": f"{self.params.total:,}",
            f"FLOPs of a {STEPS[self.mode]}": scaled(self.flops.total.exact).strip(),
        }
        if self.mode == "train":
            found["memory at its peak"] = f"{scaled(self.memory.total)}B"
        if "decode" in self.modes:
            found["decode state per token"] = f"{self.of('prefill').state_bytes_per_token:,} B in {self.precision}"
        if self.time is not None:
            found[f"time on one {self.time.hardware.title}"] = clock(self.time.seconds)
        return found

    @property
    def _said(self) -> str:
        """The call, then the main figures."""
        shape = f"batch {self.batch:,} x {self.length:,} tokens"
        call = f"{self.architecture.shape_of_model}, {self.mode}, {shape}, {self.precision}"
        return f"{call}: " + ", ".join(f"{name} {figure}" for name, figure in self.brief.items())

    def json(self) -> str:
        return json.dumps(self.data(), indent=2) + "\n"
