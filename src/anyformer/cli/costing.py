"""`anyformer cost`."""

from __future__ import annotations

import json as jsons
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from anyformer.cli import help_page, measuring, screen, training_on
from anyformer.cli.amounts import tokens
from anyformer.cli.arguments import MACHINE, OUTPUT, WHAT, WORKLOAD, Changes, Json, Tiny, found, guesses

if TYPE_CHECKING:
    from anyformer.costs.kernels import Mode
    from anyformer.costs.rows import Line
    from anyformer.costs.sheet import CostSheet
    from anyformer.planning.planner import Planned

LENGTH = 4096
MEASURE = "Measurement on this machine"
EXAMPLES = """
anyformer cost llama-3-8b --length 8k --batch 4
anyformer cost llama-3-8b --mode decode --batch 64
anyformer cost llama-3-8b mixtral-8x7b deepseek-v3
anyformer cost t5-11b --length 512 --source-length 4k
anyformer cost llama-2-13b --length 8k --batch 64 --gpus 8
anyformer cost llama-3-8b --length 8k --checkpointing full
anyformer cost gpt2 --explain attention
"""
EVERYTHING = "all"


class Command(help_page.Command):
    """The command, whose --explain may stand without a component: then it explains them all."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        at = args.index("--explain") + 1 if "--explain" in args else None
        if at is not None and (at == len(args) or args[at].startswith("-")):
            args = [*args[:at], EVERYTHING, *args[at:]]
        return super().parse_args(ctx, args)


def run(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(help=f"{WHAT} Several are shown side by side.", metavar="NAME|PATH")],
    changes: Changes = None,
    tiny: Tiny = False,
    mode: Annotated[
        Literal["train", "prefill", "decode"] | None,
        typer.Option(
            help="Price only a training step (train), reading a prompt (prefill), or one more token after --length cached "
            "ones (decode). By default all three.",
            metavar="train|prefill|decode",
            rich_help_panel=WORKLOAD,
        ),
    ] = None,
    batch: Annotated[
        int, typer.Option(help="Sequences computed together.", min=1, metavar="COUNT", rich_help_panel=WORKLOAD)
    ] = 1,
    length: Annotated[
        int | None,
        typer.Option(
            help="Tokens of each sequence, as in 8k for 8,192; when decoding, tokens in the cache. By default 4k, or fewer "
            "where a position table ends before.",
            parser=tokens,
            metavar="TOKENS",
            rich_help_panel=WORKLOAD,
        ),
    ] = None,
    source_length: Annotated[
        int | None,
        typer.Option(
            help="Positions of the input that the encoder reads, in models with an encoder and a decoder. By default --length.",
            parser=tokens,
            metavar="TOKENS",
            rich_help_panel=WORKLOAD,
        ),
    ] = None,
    prefix: Annotated[
        int,
        typer.Option(
            help="Positions at the start that all see each other, in a prefix language model.",
            min=0,
            metavar="TOKENS",
            rich_help_panel=WORKLOAD,
        ),
    ] = 0,
    hardware: Annotated[
        str,
        typer.Option(
            help="The accelerator: h100, a100, h200, b200, mi300x, rtx4090, tpu-v5p and others. `here` measures this machine.",
            metavar="NAME",
            rich_help_panel=MACHINE,
        ),
    ] = "h100",
    gpus: Annotated[
        int | None,
        typer.Option(
            help="Also lay a training step out on this many accelerators, and show the fastest layout that fits.",
            min=1,
            metavar="COUNT",
            rich_help_panel=MACHINE,
        ),
    ] = None,
    precision: Annotated[
        Literal["auto", "fp32", "bf16"],
        typer.Option(
            help="The number format of matrix products and of what they read and write. auto takes bf16 where the hardware "
            "has it.",
            metavar="auto|fp32|bf16",
            rich_help_panel=MACHINE,
        ),
    ] = "auto",
    checkpointing: Annotated[
        Literal["none", "selective", "full"] | None,
        typer.Option(
            help="What training computes again instead of keeping it: nothing, everything but matrix products and attention, "
            "or every layer. By default none; --gpus takes the fastest that fits.",
            metavar="none|selective|full",
            rich_help_panel=MACHINE,
        ),
    ] = None,
    explain: Annotated[
        str | None,
        typer.Option(
            "--explain",
            help="Print each formula with its numbers filled in. With a COMPONENT, such as attention or feedforward, only "
            "those of it.",
            metavar="[COMPONENT]",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            help="Draw memory, decode state and FLOPs against length, and the roofline of the hardware.",
            metavar="FILE.svg|png|pdf",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    json: Json = False,
    measured: Annotated[
        bool,
        typer.Option(
            "--measure",
            help="Build the model, or as many of its layers as fit, run it, and print predicted beside measured.",
            rich_help_panel=MEASURE,
        ),
    ] = False,
    device: Annotated[
        Literal["cpu", "cuda"] | None,
        typer.Option(
            help="Where --measure runs. By default the accelerator, where there is one.",
            metavar="cpu|cuda",
            rich_help_panel=MEASURE,
        ),
    ] = None,
) -> None:
    """Say what architectures cost before they are built: parameters, FLOPs, memory, and time on named hardware.

    JSON is in bytes, FLOPs and seconds.
    """
    made = {name: found(name, changes, tiny=tiny) for name in names}

    from anyformer.costs.named_hardware import hardware_of
    from anyformer.costs.page import longest
    from anyformer.costs.pricing import cost
    from anyformer.costs.sheet import MODES
    from anyformer.describe import UserError
    from anyformer.plan import Plan

    if plot is not None:
        from anyformer.pictures.style import check_picture

        check_picture(plot)
    plan = Plan(precision=precision, checkpointing=checkpointing or "none")
    if measured:
        for name, architecture in made.items():
            measuring.run(
                context, name, architecture, batch, length or measuring.LENGTH, source_length, plan, device, json=json
            )
        return
    on = hardware_of(hardware)
    sheets = {
        name: cost(
            architecture,
            batch=batch,
            length=length or min(LENGTH, *(longest(each) or LENGTH for each in made.values())),
            source_length=source_length,
            prefix=prefix,
            mode=mode or "train",
            plan=plan,
            hardware=on,
        )
        for name, architecture in made.items()
    }
    modes = MODES if mode is None else (mode,)
    _refuse_idle(sheets, mode)
    if gpus is not None and mode not in (None, "train"):
        raise UserError(
            f"--gpus lays a training step out, and --mode is {mode}: `anyformer plan NAME --serve` lays serving out"
        )
    if plot is not None:
        from anyformer.pictures.costs import draw_costs

        draw_costs(sheets, plot)
    plans = {name: training_on.planned(sheet, gpus, checkpointing) for name, sheet in sheets.items() if gpus is not None}
    if json:
        print(jsons.dumps([_data(name, sheet, modes, plans) for name, sheet in sheets.items()], indent=2))
        return
    screen.show(_explained(sheets, modes, explain) if explain else _pages(sheets, modes, plans))
    if plot is not None:
        print(plot)


def _refuse_idle(sheets: dict[str, CostSheet], mode: Mode | None) -> None:
    from anyformer.describe import UserError

    for name, sheet in sheets.items():
        if mode is not None and mode not in sheet.modes:
            raise UserError(
                f"{name} decodes no tokens ({sheet.architecture.shape_of_model}): --mode is one of {', '.join(sheet.modes)}"
            )


def _pages(sheets: dict[str, CostSheet], modes: Sequence[Mode], plans: dict[str, Planned]) -> Iterable[Line]:
    """What was asked, whether it fits, then one page, or several side by side, and remarks at the end."""
    from anyformer.costs.page import page, reached, title
    from anyformer.costs.rows import Line
    from anyformer.costs.text import lines, side_by_side

    (first, *others) = sheets
    laid_out = {name: (training_on.section(sheets[name], plan),) for name, plan in plans.items()}
    pages = [laid_out.get(name, ()) + page(sheet, modes, compared=bool(others)) for name, sheet in sheets.items()]
    asked = next((sheet for sheet in sheets.values() if sheet.source), sheets[first])
    yield Line(title(asked) if others else f"{first}: {title(asked)}", strong=True)
    yield Line(reached(asked))
    yield from (
        Line(f"{name}: {said}") for name, sheet in sheets.items() for said in _warned(name, sheet, modes, plans.get(name))
    )
    yield Line("")
    yield from lines(side_by_side(list(sheets), pages) if others else pages[0], screen.columns())
    remarks = [Line(f"{name}: remark: {remark}") for name, sheet in sheets.items() for remark in sheet.remarks]
    yield from [Line(""), *remarks] if remarks else []


def _explained(sheets: dict[str, CostSheet], modes: Sequence[Mode], what: str) -> Iterable[Line]:
    """The formulas of each architecture, one after the other."""
    from anyformer.costs.derived import derived
    from anyformer.costs.explain import explained, named_components
    from anyformer.costs.page import reached, title
    from anyformer.costs.rows import Line
    from anyformer.costs.text import lines

    for at, (name, sheet) in enumerate(sheets.items()):
        if at:
            yield Line("")
        found = explained(sheet.architecture, sheet.shape, sheet.plan)
        only = None if what == EVERYTHING else named_components(what, [line.component for line in found.lines])
        yield Line(f"{name}: {title(sheet)}", strong=True)
        yield Line(reached(sheet))
        yield Line("")
        yield from (found if only is None else found.only(what)).written(screen.columns())
        for section in derived(sheet, modes, only):
            yield Line("")
            yield from lines((section,), screen.columns())


def _warned(name: str, sheet: CostSheet, modes: Sequence[Mode], plan: Planned | None) -> Iterable[str]:
    """What cannot be run as it is priced; a training that was laid out on many is told of there."""
    from anyformer.costs.page import warnings

    return (*guesses(name), *warnings(sheet, modes if plan is None else [mode for mode in modes if mode != "train"]))


def _data(name: str, sheet: CostSheet, modes: Sequence[Mode], plans: dict[str, Planned]) -> dict[str, Any]:
    """A sheet of each mode that makes sense."""
    told = [sheet.of(mode).data() for mode in modes if mode in sheet.modes]
    laid_out = {"training_on": training_on.data(plans[name])} if name in plans else {}
    return {"name": name, "sheets": told, **laid_out, "warnings": list(_warned(name, sheet, modes, plans.get(name)))}
