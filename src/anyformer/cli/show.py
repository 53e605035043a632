"""`anyformer show`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from os.path import exists  # which no name is too long for
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from anyformer.cli.answering import Answer, answering
from anyformer.cli.arguments import (
    Batch,
    Changes,
    Compact,
    Length,
    Tiny,
    What,
    assigned,
    check_form,
    diagram_option,
    output_option,
    picture_option,
    titled,
)
from anyformer.cli.pages import Item, Paragraph, Verbatim
from anyformer.cli.storing import stored_form
from anyformer.costs.rows import PageLine

EXAMPLES = """
anyformer show gemma-3-27b
anyformer show deepseek-v3 --tiny
anyformer show gpt2 --set decoder.layer.attention.kv_heads=4 --toml
anyformer show gpt2 --masks masks.png --diagram gpt2.svg
anyformer show deepseek-v3 --diagram column.tex --compact
anyformer show llama-3-8b --watchable
anyformer show runs/2026-01-01-120000
"""

if TYPE_CHECKING:
    from anyformer.describe import Value
    from anyformer.model import Architecture
    from anyformer.training import Run


@answering()
def run(
    what: What,
    changes: Changes = None,
    tiny: Tiny = False,
    toml: Annotated[bool, output_option("--toml", help="Print the whole description, defaults included, as TOML.")] = False,
    json: Annotated[bool, output_option("--json", help="Print the whole description, defaults included, as JSON.")] = False,
    schema: Annotated[
        bool, output_option("--schema", help="Print the JSON schema of architectures, or of runs, for editors.")
    ] = False,
    watchable: Annotated[
        bool, output_option("--watchable", help="List the values inside that a model can be watched at, with their shapes.")
    ] = False,
    masks: Annotated[
        Path | None,
        picture_option(
            help="Draw every kind of attention mask, with the layers that use it. By default at a length that shows its shape."
        ),
    ] = None,
    diagram: Annotated[Path | None, diagram_option(help="Draw its blocks, layers and streams; .tex is TikZ for LaTeX.")] = None,
    compact: Compact = False,
    length: Length = None,
    batch: Batch = 1,
) -> Answer:
    """Show the parts and costs of an architecture, or the settings of a run.

    Parts are shown with the values that differ from their defaults; --toml and --json print every value.
    """
    from anyformer.describe import UserError, to_json, to_toml
    from anyformer.describe import schema as schema_of

    forms = {"--toml": toml, "--json": json, "--schema": schema, "--watchable": watchable}
    given = [option for option, is_given in forms.items() if is_given]
    if len(given) > 1:
        raise UserError(f"{' and '.join(given)} are different forms of one answer: give one of them at a time")
    check_form(diagram, compact=compact)
    value = find(what, assigned(changes), tiny=tiny)
    drawn = draw(titled(what, changes, tiny=tiny), value, masks, diagram, length, compact=compact) if masks or diagram else []
    if schema:
        return Answer([Verbatim(schema_of(type(value)))])
    if toml:
        return Answer([Verbatim(to_toml(value))])
    if json:
        return Answer([Verbatim(to_json(value))])
    if watchable:
        return Answer([Verbatim(watchable_page(architecture_of(value)))])
    if drawn:
        return Answer(Verbatim(str(place)) for place in drawn)
    words = shlex.join([what, *["--tiny"] * tiny, *(word for change in changes or [] for word in ("--set", change))])
    return Answer(summary(what, words, value, batch, length))


def watchable_page(architecture: Architecture) -> str:
    """The paths of the values inside, those of all layers of a variant once, with shapes and what they are."""
    from anyformer.model.value_paths import closed_towers, folded

    values = folded(architecture)
    path, shape = (max(map(len, column)) for column in (values, [each.shape for each in values.values()]))
    lines = [f"{name:{path}}  {each.shape:{shape}}  {each.about}" for name, each in values.items()]
    return "\n".join([*lines, *(f"{name}: {why}" for name, why in closed_towers(architecture).items())])


def find(what: str, changes: Mapping[str, object], *, tiny: bool = False) -> Value:
    """The run, if a path names one, or else the architecture; with values changed by path."""
    from anyformer.resolving import RUN, architecture, is_run

    if is_run(what) and not tiny:
        from anyformer.training import load_run

        path = Path(what)
        return load_run(path / RUN if path.is_dir() else path, changes)
    return architecture(what, tiny=tiny, changes=changes)


def draw(
    name: str, value: Value, masks: Path | None, diagram: Path | None, length: int | None, *, compact: bool = False
) -> list[Path]:
    """Write the pictures whose files are given, and return those files."""
    from anyformer.pictures import draw_diagram, draw_masks

    if masks is not None:
        draw_masks(architecture_of(value), masks, length, title=name)
    if diagram is not None:
        draw_diagram({name: architecture_of(value)}, diagram, compact=compact)
    return [place for place in (masks, diagram) if place is not None]


def architecture_of(value: Value) -> Architecture:
    """A run's architecture, or the value itself."""
    from anyformer.model import Architecture

    if run := run_of(value):
        return run.architecture
    assert isinstance(value, Architecture)
    return value


def run_of(value: Value) -> Run | None:
    """The value itself if it is a run. For an architecture nothing of training is imported: it takes longer than the answer."""
    from anyformer.model import Architecture

    if isinstance(value, Architecture):
        return None
    from anyformer.training import Run

    assert isinstance(value, Run)
    return value


def summary(what: str, words: str, value: Value, batch: int, length: int | None) -> Iterator[Item]:
    """The page for people: the source of an architecture, its parts, its costs in short. `words`: the command's arguments."""
    from anyformer.catalogue import listed
    from anyformer.cli.summary import described, introduction, short_costs, trained_with

    yield from introduction(words, listed(what))
    run = run_of(value)
    if run:
        steps = f"{run.steps} steps" if run.steps else f"{run.minutes:g} minutes"
        yield PageLine(f"run: {steps} of {run.batch} x {run.length} tokens, seed {run.seed}")
        yield PageLine(f"data: {', '.join(run.data.places)} ({run.data.kind}, {run.data.tokenizer.kind})")
        yield PageLine(f"objective: {run.objective.kind}")
        batch, length = run.batch, length or run.length
    yield PageLine("")
    architecture = architecture_of(value)
    yield from described(architecture)
    if run is None:
        yield trained_with(architecture)
    yield PageLine("")
    yield from short_costs(architecture, batch, length, stored_form(what))
    yield PageLine("")
    stack, part = next(iter(architecture.stacks.items()))
    variant, block = next(iter(part.variants.items()))
    path = f"{stack}.{variant}.{next(iter(block.branches))}"
    yield Paragraph(f"Next: anyformer cost {words}")
    yield Paragraph(
        f"Options: --toml for every value, --diagram FILE.svg for a picture, --set {path}.FIELD=VALUE to change it."
    )
    if exists(what):
        from anyformer.huggingface import told_of

        if line := told_of(what):
            yield PageLine(line)
