"""`anyformer show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyformer.cli.arguments import WHAT

if TYPE_CHECKING:
    from anyformer.describe import Value
    from anyformer.model import Architecture
    from anyformer.parts import Branch, Step


def run(
    what: Annotated[
        str,
        typer.Argument(
            help=WHAT,
            metavar="NAME|PATH",
        ),
    ],
    toml: Annotated[bool, typer.Option("--toml", help="The whole resolved description as TOML.")] = False,
    json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="JSON schema of such a description, for editors.")] = False,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Change a value by its path first: --set decoder.layer.attention.kv_heads=2", metavar="PATH=VALUE"
        ),
    ] = None,
    masks: Annotated[
        Path | None, typer.Option("--masks", help="Draw each distinct attention mask.", metavar="FILE.png")
    ] = None,
    diagram: Annotated[
        Path | None, typer.Option("--diagram", help="Draw the architecture with its shapes.", metavar="FILE.svg")
    ] = None,
    tiny: Annotated[
        bool, typer.Option("--tiny", help="Small sizes, one layer of each kind, every mechanism: to look at, to try out.")
    ] = False,
    length: Annotated[int, typer.Option(help="Tokens per sequence that the costs are for.", min=1)] = 1024,
    batch: Annotated[int, typer.Option(help="Sequences that the costs are for.", min=1)] = 1,
) -> None:
    """Show an architecture or a run: its parts and what it costs, or the whole resolved value."""
    from rich.console import Console

    from anyformer.describe import change_all, parse_assignment, to_json, to_toml
    from anyformer.describe import schema as schema_of

    value = find(what)
    if tiny:
        from anyformer.catalogue.tiny import tiny as shrink

        value = shrink(architecture_of(value))
    if changes:
        value = change_all(value, dict(parse_assignment(text) for text in changes))
    if masks or diagram:
        draw(value, masks, diagram)
    elif schema:
        print(schema_of(type(value)), end="")
    elif toml:
        print(to_toml(value), end="")
    elif json:
        print(to_json(value), end="")
    else:
        console = Console()
        for line in summary(value, batch, length):
            console.print(line, highlight=False, soft_wrap=True)


def find(what: str) -> Value:
    """The run or the architecture that a name or a path means."""
    from anyformer.catalogue import architecture
    from anyformer.describe import read_data

    path = Path(what)
    if (path / "config.json").is_file() and not (path / "run.toml").is_file():
        from anyformer.huggingface import read_architecture, read_config

        return read_architecture(read_config(path))[0]
    if path.is_dir() or (path.suffix in (".toml", ".json") and "architecture" in read_data(path)):
        from anyformer.training import load_run, read_run

        return read_run(path) if path.is_dir() else load_run(path)
    return architecture(what)


def draw(value: Value, masks: Path | None, diagram: Path | None) -> None:
    """Write the pictures that were asked for."""
    from anyformer.pictures import draw_diagram, draw_masks

    arch = architecture_of(value)
    if masks:
        draw_masks(arch, masks)
        print(masks)
    if diagram:
        draw_diagram(arch, diagram)
        print(diagram)


def architecture_of(value: Value) -> Architecture:
    """A run's architecture, or the value itself."""
    from anyformer.model import Architecture

    if isinstance(value, Architecture):
        return value
    from anyformer.training import Run

    assert isinstance(value, Run)
    return value.architecture


def find_architecture(what: str) -> Architecture:
    """The architecture that a name or a path means; of a name, without what training needs."""
    return architecture_of(find(what))


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
