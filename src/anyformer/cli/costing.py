"""`anyformer cost`."""

from __future__ import annotations

import json as jsons
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from anyformer.cli import help_page, layout_section, measuring, storing
from anyformer.cli.amounts import tokens
from anyformer.cli.answering import Answer, answering
from anyformer.cli.arguments import (
    WHAT,
    Changes,
    Json,
    Length,
    Tiny,
    machine_option,
    output_option,
    picture_option,
    resolve_architecture,
    stand_in_warnings,
    workload_option,
)
from anyformer.cli.pages import Figures, Item, Verbatim
from anyformer.costs.rows import PageLine
from anyformer.precision import Kind

if TYPE_CHECKING:
    from anyformer.costs.kernel import Mode
    from anyformer.costs.sheet import CostSheet
    from anyformer.planning.planner import Planned

LENGTH = 4096
measuring_option = partial(typer.Option, rich_help_panel="Measurement on this machine")
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


class CostCommand(help_page.HelpCommand):
    """The command, where --explain without a component explains all of them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        at = args.index("--explain") + 1 if "--explain" in args else None
        if at is not None and (at == len(args) or args[at].startswith("-")):
            args = [*args[:at], EVERYTHING, *args[at:]]
        return super().parse_args(ctx, args)


@answering("torch")
def run(
    names: Annotated[list[str], typer.Argument(help=f"{WHAT} Several are shown side by side.", metavar="NAME|PATH")],
    changes: Changes = None,
    tiny: Tiny = False,
    mode: Annotated[
        Literal["train", "prefill", "decode"] | None,
        workload_option(
            help="Price only a training step (train), reading a prompt (prefill), or one more token after --length cached "
            "ones (decode). By default all three.",
            metavar="train|prefill|decode",
        ),
    ] = None,
    batch: Annotated[
        int | None,
        workload_option(help="Sequences computed together. By default 1, with --measure 2.", parser=tokens, metavar="COUNT"),
    ] = None,
    length: Length = None,
    source_length: Annotated[
        int | None,
        workload_option(
            help="Positions of the encoder's input, in models with an encoder and a decoder. By default --length.",
            parser=tokens,
            metavar="TOKENS",
        ),
    ] = None,
    prefix: Annotated[
        int,
        workload_option(
            help="Positions at the start that all see each other, in a prefix language model.", min=0, metavar="TOKENS"
        ),
    ] = 0,
    hardware: Annotated[
        str,
        machine_option(
            help="The accelerator: h100, a100, h200, b200, mi300x, rtx4090, tpu-v5p and others. `here` measures this machine.",
            metavar="NAME",
        ),
    ] = "h100",
    gpus: Annotated[
        int | None,
        machine_option(
            help="Also lay a training step out on this many accelerators, and show the fastest layout that fits.",
            min=1,
            metavar="COUNT",
        ),
    ] = None,
    precision: Annotated[
        Kind,
        machine_option(
            help="The number formats of training: of products, their inputs and outputs, of weights and gradients. auto takes "
            "16 bits where the hardware has them.",
            metavar="|".join(get_args(Kind)),
        ),
    ] = "auto",
    checkpointing: Annotated[
        Literal["none", "selective", "full"] | None,
        machine_option(
            help="What the backward pass computes again instead of storing it: nothing, everything but matrix products and "
            "attention, or every layer. By default none; --gpus takes the fastest that fits.",
            metavar="none|selective|full",
        ),
    ] = None,
    explain: Annotated[
        str | None,
        output_option(
            help="Print each formula with its numbers filled in. With a COMPONENT, such as attention or feedforward, only "
            "the formulas of that component.",
            metavar="[COMPONENT]",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        picture_option(help="Draw memory, decode state and FLOPs against length, and the roofline of the hardware."),
    ] = None,
    json: Json = False,
    measured: Annotated[
        bool,
        measuring_option(
            "--measure",
            help="Build the model, or as many of its layers as fit, run it, and print predicted beside measured figures.",
        ),
    ] = False,
    device: Annotated[
        Literal["cpu", "cuda"] | None,
        measuring_option(help="Where --measure runs. By default the accelerator, where there is one.", metavar="cpu|cuda"),
    ] = None,
) -> Answer | None:
    """Say what architectures cost before they are built: parameters, FLOPs, memory, and time on given hardware.

    Figures in JSON are bytes, FLOPs and seconds.
    """
    made = {name: resolve_architecture(name, changes, tiny=tiny) for name in names}

    from anyformer.costs.hardware import HERE
    from anyformer.costs.named_hardware import hardware_of
    from anyformer.costs.page import longest
    from anyformer.costs.pricing import cost
    from anyformer.costs.sheet import MODES
    from anyformer.describe import UserError
    from anyformer.plan import Plan

    if plot is not None:
        from anyformer.pictures.style import check_picture

        check_picture(plot)
    plan = Plan.parse({"precision": precision, "checkpointing": checkpointing or "none"})
    if measured:
        for name, architecture in made.items():
            measuring.run(name, architecture, batch, length, source_length, plan, device, json=json)
        return None
    on = hardware_of(hardware)
    sheets = {
        name: cost(
            architecture,
            batch=1 if batch is None else batch,
            length=length or min(LENGTH, *(longest(model) or LENGTH for model in made.values())),
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
    plans = {name: layout_section.planned(sheet, gpus, checkpointing) for name, sheet in sheets.items() if gpus is not None}
    lasting = hardware != HERE
    if json:
        text = jsons.dumps([_data(name, sheet, modes, plans) for name, sheet in sheets.items()], indent=2)
        return Answer([Verbatim(text)], lasting=lasting)
    page = _explained(sheets, modes, explain) if explain else _pages(sheets, modes, plans)
    drawn = [] if plot is None else [Verbatim(str(plot))]
    return Answer(chain(page, drawn), lasting=lasting)


def _refuse_idle(sheets: dict[str, CostSheet], mode: Mode | None) -> None:
    from anyformer.describe import UserError

    for name, sheet in sheets.items():
        if mode is not None and mode not in sheet.modes:
            raise UserError(
                f"{name} decodes no tokens ({sheet.architecture.shape_of_model}): --mode is one of {', '.join(sheet.modes)}"
            )


def _pages(sheets: dict[str, CostSheet], modes: Sequence[Mode], plans: dict[str, Planned]) -> Iterable[Item]:
    """The question, warnings of what does not fit, then one page, or several side by side, and remarks at the end."""
    from anyformer.costs.page import page, reached, title
    from anyformer.costs.text import side_by_side

    (first, *others) = sheets
    laid_out = {name: (layout_section.section(sheets[name], plan),) for name, plan in plans.items()}
    forms = {name: storing.stored_form(name) for name in sheets}
    stored = {name: (storing.section(form),) for name, form in forms.items() if form is not None}
    pages = [
        (*laid_out.get(name, ()), *page(sheet, modes, compared=bool(others)), *stored.get(name, ()))
        for name, sheet in sheets.items()
    ]
    titled = next((sheet for sheet in sheets.values() if sheet.source), sheets[first])
    yield PageLine(title(titled) if others else f"{first}: {title(titled)}", strong=True)
    yield PageLine(reached(titled))
    for name, sheet in sheets.items():
        yield from (PageLine(f"{name}: {warning}") for warning in _warnings(name, sheet, modes, plans.get(name)))
    yield PageLine("")
    yield Figures(side_by_side(list(sheets), pages) if others else pages[0])
    remarks = [PageLine(f"{name}: remark: {remark}") for name, sheet in sheets.items() for remark in sheet.remarks]
    yield from [PageLine(""), *remarks] if remarks else []


def _explained(sheets: dict[str, CostSheet], modes: Sequence[Mode], what: str) -> Iterable[Item]:
    """The formulas of each architecture, one after the other."""
    from anyformer.costs.derived import derived
    from anyformer.costs.explain import LEGEND, explained, named_components
    from anyformer.costs.page import reached, title

    for at, (name, sheet) in enumerate(sheets.items()):
        if at:
            yield PageLine("")
        formulas = explained(sheet.architecture, sheet.shape, sheet.plan, training="train" in modes)
        only = None if what == EVERYTHING else named_components(what, [line.component for line in formulas.lines])
        yield PageLine(f"{name}: {title(sheet)}", strong=True)
        yield PageLine(reached(sheet))
        yield PageLine("")
        shown = formulas if only is None else formulas.only(what)
        yield from (Figures(shown.sections), PageLine(""), PageLine(LEGEND))
        for section in derived(sheet, modes, only):
            yield from (PageLine(""), Figures((section,)))


def _warnings(name: str, sheet: CostSheet, modes: Sequence[Mode], plan: Planned | None) -> Iterable[str]:
    """Reasons why it cannot run as priced; the layout of a training on many accelerators states its own."""
    from anyformer.costs.page import warnings

    return (*stand_in_warnings(name), *warnings(sheet, modes if plan is None else [mode for mode in modes if mode != "train"]))


def _data(name: str, sheet: CostSheet, modes: Sequence[Mode], plans: dict[str, Planned]) -> dict[str, Any]:
    """One architecture as plain data, for JSON: a sheet of each mode that it has."""
    priced = [sheet.of(mode).data() for mode in modes if mode in sheet.modes]
    laid_out = {"training_on": layout_section.data(plans[name])} if name in plans else {}
    form = storing.stored_form(name)
    stored = {} if form is None else {"stored": storing.data(form)}
    return {
        "name": name,
        "sheets": priced,
        **laid_out,
        **stored,
        "warnings": list(_warnings(name, sheet, modes, plans.get(name))),
    }
