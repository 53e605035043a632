"""The cost sheet of an architecture: all costs of a call, each figure computed on demand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import ceil
from typing import Any

from anyformer.costs.activations import Activations, activations
from anyformer.costs.counts import Executed, FlopSheet, Parameters, flop_count, parameters
from anyformer.costs.elementwise import elementwise_of
from anyformer.costs.figures import clock, scaled
from anyformer.costs.hardware import Hardware
from anyformer.costs.holding import Holding
from anyformer.costs.inference import BytesRead, DecodeState, decode_state, read_per_step, stored
from anyformer.costs.kernel import Kernel, Mode
from anyformer.costs.kernels import kernels
from anyformer.costs.moments import PeakMemory
from anyformer.costs.peak import peak_memory
from anyformer.costs.roofline import StepTime, step_of
from anyformer.costs.sizing import Remark, remarks
from anyformer.costs.traceable import traceable
from anyformer.model import Architecture
from anyformer.operations import Contraction, Flops, Pairs, Shape, Tally
from anyformer.plan import Plan
from anyformer.quantising import FORMATS, USUAL
from anyformer.tuning import Optimiser

MODES: tuple[Mode, ...] = ("train", "prefill", "decode")
STEPS: Mapping[Mode, str] = {"train": "training step", "prefill": "prefill", "decode": "decoding step"}


@dataclass(frozen=True, repr=False)
class CostSheet:
    """Costs of a call: `train` and `prefill` compute `length` positions, `decode` one position after `length` cached ones.

    `source`: positions of the source, 0 where there is one input. `hardware`: the device of `time`, None where none was named;
    `optimiser`: of training, None for AdamW.
    """

    architecture: Architecture
    mode: Mode
    batch: int
    length: int
    source: int
    prefix: int
    plan: Plan
    hardware: Hardware | None = None
    optimiser: Optimiser | None = None

    def of(self, mode: Mode) -> CostSheet:
        """The sheet of the same call in another mode."""
        return self._by_mode[mode]

    @cached_property
    def _by_mode(self) -> Mapping[Mode, CostSheet]:
        """One sheet for each mode, so that its figures are computed once."""
        return {mode: self if mode == self.mode else replace(self, mode=mode) for mode in MODES}

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Modes of this model: without a decoder, or where it transforms a latent array, no tokens are decoded."""
        made = self.architecture
        return MODES if made.decoder is not None and made.latents is None else MODES[:2]

    @property
    def shape(self) -> Shape:
        """The sizes of the call."""
        decodes = self.mode == "decode"
        length, past = (1, self.length) if decodes else (self.length, 0)
        return Shape(batch=self.batch, length=length, past=past, source=self.source, prefix=self.prefix)

    @property
    def precision(self) -> str:
        """The kind of the plan's precision; where no hardware resolves it, `auto` is bf16."""
        return self.plan.named

    @property
    def unit(self) -> str:
        """The number type of activations and decode state."""
        return self.plan.number

    @property
    def tokens(self) -> int:
        """Positions computed; of two inputs, the target's."""
        return self.shape.batch * self.shape.length

    @cached_property
    def _tally(self) -> Tally:
        return self.architecture.folded_cost(self.shape, self.plan)

    @cached_property
    def _trained(self) -> Tally:
        """The same call in training, which also predicts later tokens where the architecture does."""
        architecture = self.architecture
        return self._tally if architecture.mtp is None else architecture.folded_trained_cost(self.shape, self.plan)

    @property
    def _computed(self) -> Tally:
        """All that the call computes."""
        return self._trained if self.mode == "train" else self._tally

    @cached_property
    def params(self) -> Parameters:
        """Parameters stored, and parameters that one token uses; beside them those of training alone."""
        return parameters(self._tally, self._trained)

    @cached_property
    def flops(self) -> FlopSheet:
        """FLOPs of the model, whatever computes it."""
        forward = flop_count(self._computed)
        return FlopSheet(forward, forward * (2 if self.mode == "train" else 0))

    @cached_property
    def executed(self) -> Executed:
        """FLOPs that the plan's kernel and checkpointing execute, without products that no gradient needs."""
        total = sum(kernel.executed * kernel.layers for kernel in self._kernels)
        if self.mode != "train":
            return Executed(total, 0)
        dense = (Pairs, Contraction) if self.plan.attention == "plain" else ()
        forward = saved = 0
        for node in self._computed.nodes():
            for work in node.tally.own_work.values():
                flops = work.flops
                forward += (flops.dense if isinstance(work, dense) else flops.exact) * node.times
                saved += flops.no_gradient * (node.times - node.unreached)
        return Executed(forward, total - forward - saved)

    @cached_property
    def _kernels(self) -> list[Kernel]:
        return kernels(self.architecture, self.shape, self.plan, self.mode, self.optimiser)

    @cached_property
    def elementwise(self) -> Mapping[str, Flops]:
        """Element-wise operations of the forward pass, by kind."""
        return elementwise_of(self._computed)

    @cached_property
    def activations(self) -> Activations:
        """Tensors that the forward pass of a training step saves for its backward pass."""
        return activations(self.architecture, replace(self.shape, past=0, length=self.length), self.plan)

    @property
    def memory(self) -> Holding:
        """Bytes by purpose of training on one device, at the peak of a step."""
        return self.peak.holding

    @cached_property
    def peak(self) -> PeakMemory:
        """The most memory that a training step takes at once."""
        return peak_memory(
            self.architecture,
            batch=self.batch,
            length=self.length,
            source_length=self.source or None,
            prefix=self.prefix,
            plan=self.plan,
            optimiser=self.optimiser,
        )

    @cached_property
    def weights(self) -> Mapping[str, int]:
        """Bytes of all weights by format."""
        return {name: stored(self._tally.weights, FORMATS[name]) for name in USUAL}

    @property
    def _stored(self) -> str:
        """The format of weights that are not quantised, by its width: those of fp16 and of bf16 are of 16 bits."""
        return "fp32" if self.plan.number == "fp32" else "bf16"

    @cached_property
    def state(self) -> DecodeState:
        """Decode state of all positions of the call."""
        return decode_state(
            self.architecture, batch=self.batch, context=self.shape.keys, source=self.source or None, plan=self.plan
        )

    @property
    def state_bytes(self) -> int:
        """Bytes of decode state of this batch and length."""
        return self.state.total

    @property
    def state_bytes_per_token(self) -> int:
        """Bytes of decode state that the last position of a row added."""
        return self.state.per_token

    @cached_property
    def reading(self) -> BytesRead:
        """Bytes that decoding one token for each row reads, weights in the plan's precision."""
        return read_per_step(
            self.architecture,
            FORMATS[self._stored],
            batch=self.batch,
            length=self.length,
            source=self.source or None,
            plan=self.plan,
        )

    @cached_property
    def time(self) -> StepTime | None:
        """Roofline time of the step on the hardware that was named."""
        if self.hardware is None:
            return None
        return step_of(self._kernels, self.shape, self.plan.precision.unit, self.hardware, self.mode)

    @property
    def required_bytes(self) -> int:
        """Memory that the call takes: in training the peak of a step, else the weights and the decode state."""
        if self.mode != "train":
            return self.weights[self._stored] + self.state_bytes
        return self.memory.total

    @property
    def devices(self) -> int:
        """The number of the hardware's devices that the call takes, its memory spread evenly; 1 where it cannot be traced."""
        return self.devices_for(self.required_bytes) if self.mode != "train" or traceable() else 1

    def devices_for(self, size: int) -> int:
        """The number of the hardware's devices that hold `size` bytes; 1 where no hardware was named."""
        return 1 if self.hardware is None else max(1, ceil(size / self.hardware.usable_memory))

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """A remark for each size that is far from a rule of thumb."""
        return remarks(self.architecture)

    def data(self) -> dict[str, Any]:
        """Plain data, for JSON: numbers are bytes, FLOPs and seconds."""
        executed, state, decodes = self.executed, self.state, "decode" in self.modes
        return {
            "mode": self.mode,
            "shape": asdict(self.shape),
            "precision": self.precision,
            "checkpointing": self.plan.checkpointing,
            **({} if self.optimiser is None else {"optimiser": self.optimiser.plain()}),
            "params": asdict(self.params),
            "flops": {
                "forward": asdict(self.flops.forward),
                "backward": asdict(self.flops.backward),
                "total": asdict(self.flops.total),
                "executed": {**asdict(executed), "total": executed.total},
            },
            "elementwise": {kind: asdict(flops) for kind, flops in self.elementwise.items()},
            "memory": self._memory_data() if traceable() else None,
            "weights": dict(self.weights),
            "state": {**asdict(state), "total": state.total, "per_token": state.per_token, "per_sequence": state.per_sequence},
            "reading": asdict(self.reading) if decodes else None,
            "time": None if self.time is None else self.time.data(),
            "remarks": [str(remark) for remark in self.remarks],
        }

    def _memory_data(self) -> dict[str, int]:
        return {**asdict(self.memory), "total": self.memory.total, "saved": self.activations.saved + self.activations.loss}

    def __repr__(self) -> str:
        """One line: the call and its main figures."""
        return f"<CostSheet of {self._line}>"

    def _repr_html_(self) -> str:
        """A small table, for notebooks."""
        rows = "".join(f"<tr><th>{name}</th><td>{figure}</td></tr>" for name, figure in self.brief.items())
        return f"<table><caption>{self._line.partition(': ')[0]}</caption>{rows}</table>"

    @property
    def brief(self) -> dict[str, str]:
        """The main figures, by what they are of."""
        figures = {
            "parameters": f"{self.params.total:,}",
            f"FLOPs of a {STEPS[self.mode]}": scaled(self.flops.total.exact).strip(),
        }
        if self.mode == "train" and traceable():
            figures["memory at its peak"] = f"{scaled(self.memory.total)}B"
        if "decode" in self.modes:
            figures["decode state per token"] = f"{self.of('prefill').state_bytes_per_token:,} B in {self.unit}"
        if self.time is not None:
            figures[f"time on one {self.time.hardware.title}"] = clock(self.time.seconds)
        return figures

    @property
    def _line(self) -> str:
        """The call and the main figures, on one line."""
        shape = f"batch {self.batch:,} x {self.length:,} tokens"
        call = f"{self.architecture.shape_of_model}, {self.mode}, {shape}, {self.unit}"
        return f"{call}: " + ", ".join(f"{name} {figure}" for name, figure in self.brief.items())

    def json(self) -> str:
        return json.dumps(self.data(), indent=2) + "\n"
