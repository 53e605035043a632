"""`anyformer cost`."""

from __future__ import annotations

import json as jsons
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyformer.cli import help_page, layout_section, measuring, storing
from anyformer.cli.answering import Answer, answering
from anyformer.cli.arguments import (
    WHAT,
    Changes,
    Json,
    Tiny,
    architectures,
    output_option,
    picture_option,
    stand_in_warnings,
    unchanged,
)
from anyformer.cli.cost_options import MachineOptions, MeasurementOptions, WorkloadOptions
from anyformer.cli.options import grouped
from anyformer.cli.pages import Figures, Item, Verbatim
from anyformer.costs.rows import PageLine

if TYPE_CHECKING:
    from anyformer.costs.kernel import Mode
    from anyformer.costs.sheet import CostSheet
    from anyformer.model import Architecture
    from anyformer.planning.planner import Planned

LENGTH = 4096
EXAMPLES = """
anyformer cost llama-3-8b --length 8k --batch 4
anyformer cost llama-3-8b --mode decode --batch 64
anyformer cost llama-3-8b mixtral-8x7b deepseek-v3
anyformer cost t5-11b --length 512 --source-length 4k
anyformer cost llama-2-13b --length 8k --batch 64 --gpus 8
anyformer cost llama-3-8b --length 8k --checkpointing full --optimiser adamw_8bit
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
@grouped
def run(
    names: Annotated[list[str], typer.Argument(help=f"{WHAT} Several are shown side by side.", metavar="NAME|PATH")],
    changes: Changes = None,
    tiny: Tiny = False,
    *,
    workload: WorkloadOptions,
    machine: MachineOptions,
    explain: Annotated[
        str | None,
        output_option(
            help="Print every formula with its numbers filled in. With a COMPONENT, such as attention or feedforward, only "
            "the formulas of that component.",
            metavar="[COMPONENT]",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        picture_option(help="Draw memory, decode state and FLOPs against length, and the roofline of the hardware."),
    ] = None,
    json: Json = False,
    measurement: MeasurementOptions,
) -> Answer | None:
    """Print the costs of architectures before they are built: parameters, FLOPs, memory, and time on given hardware.

    Figures in JSON are bytes, FLOPs and seconds.
    """
    made = architectures(names, changes, tiny=tiny)

    from anyformer.costs.hardware import HERE
    from anyformer.costs.sheet import MODES

    machine.check_optimiser(measured=measurement.measured)
    if plot is not None:
        from anyformer.pictures.style import check_picture

        check_picture(plot)
    if measurement.measured:
        for name, architecture in made.items():
            measuring.run(name, architecture, workload, machine.plan(), measurement.device, json=json)
        return None
    sheets = _sheets(made, workload, machine)
    modes = MODES if workload.mode is None else (workload.mode,)
    _refuse_idle(sheets, workload.mode, machine.gpus)
    if plot is not None:
        from anyformer.pictures.costs import draw_costs

        draw_costs(sheets, plot)
    plans = {
        name: layout_section.planned(sheet, machine.gpus, machine.checkpointing)
        for name, sheet in sheets.items()
        if machine.gpus is not None
    }
    lasting = machine.hardware != HERE
    if json:
        text = jsons.dumps([_data(name, sheet, modes, plans) for name, sheet in sheets.items()], indent=2)
        return Answer([Verbatim(text)], lasting=lasting)
    page = _explained(sheets, modes, explain) if explain else _pages(sheets, modes, plans)
    drawn = [] if plot is None else [Verbatim(str(plot))]
    return Answer(chain(page, drawn), lasting=lasting)


def _sheets(made: dict[str, Architecture], workload: WorkloadOptions, machine: MachineOptions) -> dict[str, CostSheet]:
    """The sheets of the architectures, all at one length."""
    from anyformer.costs.named_hardware import hardware_of
    from anyformer.costs.page import longest
    from anyformer.costs.pricing import cost

    plan, on, optimiser = machine.plan(), hardware_of(machine.hardware), machine.trained_by()
    length = workload.length or min(LENGTH, *(longest(model) or LENGTH for model in made.values()))
    return {
        name: cost(
            architecture,
            batch=1 if workload.batch is None else workload.batch,
            length=length,
            source_length=workload.source_length,
            prefix=workload.prefix,
            mode=workload.mode or "train",
            plan=plan,
            hardware=on,
            optimiser=optimiser,
        )
        for name, architecture in made.items()
    }


def _refuse_idle(sheets: dict[str, CostSheet], mode: Mode | None, gpus: int | None) -> None:
    """Refuse a mode that an architecture has not, and accelerators of no training."""
    from anyformer.describe import UserError

    for name, sheet in sheets.items():
        if mode is not None and mode not in sheet.modes:
            raise UserError(
                f"{name} decodes no tokens ({sheet.architecture.shape_of_model}): --mode is one of {', '.join(sheet.modes)}"
            )
    if gpus is not None and mode not in (None, "train"):
        raise UserError(
            f"--gpus lays a training step out, and --mode is {mode}: `anyformer plan NAME --serve` lays serving out"
        )


def _pages(sheets: dict[str, CostSheet], modes: Sequence[Mode], plans: dict[str, Planned]) -> Iterable[Item]:
    """The question, warnings of what does not fit, then one page, or several side by side, and remarks at the end."""
    from anyformer.costs.page import page, reached, title
    from anyformer.costs.text import side_by_side

    (first, *others) = sheets
    laid_out = {name: (layout_section.section(sheets[name], plan),) for name, plan in plans.items()}
    forms = {name: storing.stored_form(unchanged(name)) for name in sheets}
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
    """The formulas of the architectures, one after the other."""
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
    """One architecture as plain data, for JSON: a sheet per mode."""
    priced = [sheet.of(mode).data() for mode in modes if mode in sheet.modes]
    laid_out = {"training_on": layout_section.data(plans[name])} if name in plans else {}
    form = storing.stored_form(unchanged(name))
    stored = {} if form is None else {"stored": storing.data(form)}
    return {
        "name": name,
        "sheets": priced,
        **laid_out,
        **stored,
        "warnings": list(_warnings(name, sheet, modes, plans.get(name))),
    }
