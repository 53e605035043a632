"""`anyformer show`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyformer.cli.amounts import tokens
from anyformer.cli.arguments import Changes, Tiny, What, assigned
from anyformer.cli.titles import titled

if TYPE_CHECKING:
    from anyformer.describe import Value
    from anyformer.model import Architecture
    from anyformer.parts import Branch, Step

LENGTH = 1024


def run(
    what: What,
    changes: Changes = None,
    tiny: Tiny = False,
    toml: Annotated[bool, typer.Option("--toml", help="The whole resolved description as TOML.")] = False,
    json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="JSON schema of such a description, for editors.")] = False,
    masks: Annotated[
        Path | None,
        typer.Option(
            "--masks",
            help="Draw each distinct attention mask and which layer has it, at a --length that shows them.",
            metavar="FILE.svg|png|pdf",
        ),
    ] = None,
    diagram: Annotated[
        Path | None,
        typer.Option("--diagram", help="Draw its blocks, layers and streams.", metavar="FILE.svg|png|pdf"),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(
            help=f"Tokens per sequence that the costs, or masks, are for; 8k is 8,192. Of costs by default {LENGTH:,}.",
            parser=tokens,
            metavar="TOKENS",
        ),
    ] = None,
    batch: Annotated[int, typer.Option(help="Sequences that the costs are for.", min=1)] = 1,
) -> None:
    """Show an architecture or a run: its parts and what it costs, or the whole resolved value."""
    from rich.console import Console

    from anyformer.describe import schema as schema_of
    from anyformer.describe import to_json, to_toml

    value = find(what, assigned(changes), tiny=tiny)
    drawn = draw(titled(what, changes, tiny=tiny), value, masks, diagram, length)
    if schema:
        print(schema_of(type(value)), end="")
    elif toml:
        print(to_toml(value), end="")
    elif json:
        print(to_json(value), end="")
    elif drawn:
        print("\n".join(map(str, drawn)))
    else:
        console = Console()
        for line in summary(value, batch, length or LENGTH):
            console.print(line, highlight=False, soft_wrap=True)


def find(what: str, changes: Mapping[str, object], *, tiny: bool = False) -> Value:
    """The run, if that is what a path means, or else the architecture; changed by path."""
    from anyformer.resolving import RUN, architecture, is_run
    from anyformer.training import load_run

    if is_run(what) and not tiny:
        path = Path(what)
        return load_run(path / RUN if path.is_dir() else path, changes)
    return architecture(what, tiny=tiny, changes=changes)


def draw(name: str, value: Value, masks: Path | None, diagram: Path | None, length: int | None) -> list[Path]:
    """Write the pictures that were asked for, and give their places."""
    from anyformer.pictures import draw_diagram, draw_masks

    if masks is not None:
        draw_masks(architecture_of(value), masks, length, title=name)
    if diagram is not None:
        draw_diagram({name: architecture_of(value)}, diagram)
    return [place for place in (masks, diagram) if place is not None]


def architecture_of(value: Value) -> Architecture:
    """A run's architecture, or the value itself."""
    from anyformer.model import Architecture

    if isinstance(value, Architecture):
        return value
    from anyformer.training import Run

    assert isinstance(value, Run)
    return value.architecture


def summary(value: Value, batch: int, length: int) -> list[str]:
    """Lines for people: the wiring of each block variant, then the cost sheet."""
    from anyformer.costs import cost
    from anyformer.describe import brief
    from anyformer.training import Run

    lines: list[str] = []
    if isinstance(value, Run):
        data = value.data
        steps = f"{value.steps} steps" if value.steps else f"{value.minutes:g} minutes"
        lines += [f"run: {steps} of {value.batch} x {value.length} tokens, seed {value.seed}"]
        lines += [f"data: {', '.join(data.paths)} ({data.tokenizer.kind})", ""]
        batch, length = value.batch, value.length
    arch = architecture_of(value)
    lines.append(f"{arch.shape_of_model}, width {arch.width}, input {brief(arch.embedding)}")
    if arch.decoder_embedding is not None:
        lines.append(f"the decoder's input {brief(arch.decoder_embedding)}; the source is {arch.source}")
    for name, stack in arch.stacks.items():
        lines.append(f"{name}: {stack.depth} layers, {stack.order}")
        for variant, block in stack.variants.items():
            lines.append(f"  {variant}: " + "; then ".join(_step(step) for step in block.steps))
        if stack.position is not None:
            lines.append(f"  position: {brief(stack.position)}")
        if stack.final_norm is not None:
            lines.append(f"  final norm: {brief(stack.final_norm)}")
    if arch.head is not None:
        lines.append(f"head: {brief(arch.head)}")
    return [
        *lines,
        "",
        f"costs of batch {batch}, length {length}",
        *str(cost(arch, batch=batch, length=length, mode="prefill")).splitlines(),
    ]


def _step(step: Step) -> str:
    """x + branches, in the order computed."""
    from anyformer.describe import brief

    before, after = step.norm_before, step.norm_after
    branches = " + ".join(_branch(branch) for branch in step.branches.values())
    inner = f"({branches}) of {brief(before)}(x)" if before else branches
    inner = f"{brief(step.norm_branches)}({inner})" if step.norm_branches else inner
    return f"{brief(after)}(x + {inner})" if after else f"x + {inner}"


def _branch(branch: Branch) -> str:
    """Norms and sublayer of one branch, then what scales it."""
    from anyformer.describe import brief

    parts = [brief(part) for part in (branch.norm_before, branch.sublayer, branch.norm_after) if part]
    scale = "" if branch.multiplier == 1 else f"{branch.multiplier:g} * "
    return scale + " -> ".join(parts) + (f" (dropout {branch.dropout:g})" if branch.dropout else "")
