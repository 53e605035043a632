"""Options of `anyformer cost`: what is computed, on what, and whether it is measured."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from anyformer.cli.amounts import tokens
from anyformer.cli.arguments import Length, SourceLength, machine_option, workload_option
from anyformer.precision import Kind

if TYPE_CHECKING:
    from anyformer.plan import Plan
    from anyformer.tuning import Optimiser

measuring_option = partial(typer.Option, rich_help_panel="Measurement on this machine")


@dataclass(frozen=True)
class WorkloadOptions:
    """What is computed: the mode, and sizes of its input."""

    mode: Annotated[
        Literal["train", "prefill", "decode"] | None,
        workload_option(
            help="Price only a training step (train), reading a prompt (prefill), or one more token after --length cached "
            "ones (decode). By default all three.",
            metavar="train|prefill|decode",
        ),
    ] = None
    batch: Annotated[
        int | None,
        workload_option(help="Sequences computed together. By default 1, with --measure 2.", parser=tokens, metavar="COUNT"),
    ] = None
    length: Length = None
    source_length: SourceLength = None
    prefix: Annotated[
        int,
        workload_option(
            help="Positions at the start that all see one another, in a prefix language model.", min=0, metavar="TOKENS"
        ),
    ] = 0


@dataclass(frozen=True)
class MachineOptions:
    """On what it is priced, and how training computes there."""

    hardware: Annotated[
        str,
        machine_option(
            help="The accelerator: h100, a100, h200, b200, mi300x, rtx4090, tpu-v5p and others. `here` measures this machine.",
            metavar="NAME",
        ),
    ] = "h100"
    gpus: Annotated[
        int | None,
        machine_option(
            help="Also lay a training step out on this many accelerators, and show the fastest layout that fits.",
            min=1,
            metavar="COUNT",
        ),
    ] = None
    precision: Annotated[
        Kind,
        machine_option(
            help="The number formats of training: of products, their inputs and outputs, of weights and gradients. auto takes "
            "16 bits where the hardware has them.",
            metavar="|".join(get_args(Kind)),
        ),
    ] = "auto"
    checkpointing: Annotated[
        Literal["none", "selective", "full"] | None,
        machine_option(
            help="What the backward pass computes again instead of storing it: nothing, everything but matrix products and "
            "attention, or every layer. By default none; --gpus takes the fastest that fits.",
            metavar="none|selective|full",
        ),
    ] = None

    optimiser: Annotated[
        str | None,
        machine_option(
            help="The optimiser of training, by its kind, as in lion, or as a table: '{kind=\"sgd\",momentum=0.0}'. By default "
            "adamw.",
            metavar="KIND|TABLE",
        ),
    ] = None

    def check_optimiser(self, *, measured: bool) -> None:
        """Refuse an optimiser beside what is computed with AdamW."""
        from anyformer.describe import UserError

        other = "--measure trains" if measured else "--gpus lays training out" if self.gpus is not None else None
        if self.optimiser is not None and other is not None:
            raise UserError(f"--optimiser prices training on one accelerator, and {other} with AdamW: leave one of them out")

    def trained_by(self) -> Optimiser | None:
        """The optimiser that is named; None for AdamW."""
        from anyformer.describe import parse_assignment
        from anyformer.tuning import Optimiser

        if self.optimiser is None:
            return None
        _, given = parse_assignment(f"optimiser={self.optimiser}")
        return Optimiser.parse({"kind": given} if isinstance(given, str) else given, "--optimiser")

    def plan(self) -> Plan:
        from anyformer.plan import Plan

        return Plan.parse({"precision": self.precision, "checkpointing": self.checkpointing or "none"})


@dataclass(frozen=True)
class MeasurementOptions:
    """Whether the model is built and measured, and where."""

    measured: Annotated[
        bool,
        measuring_option(
            "--measure",
            help="Build the model, or as many of its layers as fit, run it, and print predicted beside measured figures.",
        ),
    ] = False
    device: Annotated[
        Literal["cpu", "cuda"] | None,
        measuring_option(help="Where --measure runs. By default the accelerator, where there is one.", metavar="cpu|cuda"),
    ] = None
