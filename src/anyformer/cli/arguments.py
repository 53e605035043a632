"""Arguments that several commands share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyformer.cli.amounts import tokens
from anyformer.cli.elsewhere import place

if TYPE_CHECKING:
    from anyformer.model import Architecture


change_option = partial(typer.Option, rich_help_panel="Changes to the architecture")
workload_option = partial(typer.Option, rich_help_panel="Workload")
machine_option = partial(typer.Option, rich_help_panel="Machine")
output_option = partial(typer.Option, rich_help_panel="Output")
picture_option = partial(typer.Option, rich_help_panel="Pictures", metavar="FILE.svg|png|pdf")
diagram_option = partial(typer.Option, rich_help_panel="Pictures", metavar="FILE.svg|png|pdf|tex")
Compact = Annotated[
    bool,
    typer.Option(
        "--compact",
        rich_help_panel="Pictures",
        help="Draw the diagram for a column of a paper: 3.3 inches wide, in letters of 7 points.",
    ),
]

WHAT = (
    "A name from `anyformer list`; a .toml or .json file of an architecture or a run; a config.json; a GGUF file; "
    "the directory of a run, a checkpoint or a Hugging Face model; the URL of a run or a checkpoint in a store; or a model of "
    "a hub, as in hub:ORG/NAME."
)
"""Everything that an architecture may be named by."""

What = Annotated[str, typer.Argument(help=WHAT, metavar="NAME|PATH")]
Model = Annotated[
    Path,
    typer.Argument(
        help="The directory of a run, a checkpoint or a Hugging Face model; or the URL of a run or a checkpoint in a store, as "
        "in s3://bucket/runs/RUN, or a model of a hub, as in hub:ORG/NAME, from which it is fetched.",
        metavar="RUN|CHECKPOINT|DIRECTORY|URL|hub:ORG/NAME",
        parser=place,
    ),
]
HuggingFace = Annotated[
    Path,
    typer.Argument(
        help="A directory of Hugging Face's layout, with config.json and safetensors; a GGUF file; or a model of a hub, as in "
        "hub:ORG/NAME@REVISION, which is fetched.",
        metavar="DIRECTORY|GGUF|hub:ORG/NAME",
        parser=place,
    ),
]
Changes = Annotated[
    list[str] | None,
    change_option(
        "--set",
        help="Change the value at this path first, as in --set decoder.layer.attention.kv_heads=2. Repeat it for more changes. "
        "Of several architectures all are changed, but of one named twice the second alone; in diff the last. "
        "A second kind of layer is a copy: --set decoder.local=layer --set 'decoder.order=(local*3 layer)*8'. "
        "Sizes may end in k and M as in --length: --set embedding.vocab=128k is 131,072.",
        metavar="PATH=VALUE",
    ),
]
Tiny = Annotated[
    bool,
    change_option("--tiny", help="Shrink the architecture first: small sizes, one layer of every kind, every mechanism kept."),
]
Length = Annotated[
    int | None,
    workload_option(
        help="Tokens of a sequence, as in 8k for 8,192; when decoding, tokens in the cache. By default 4k, or fewer where a "
        "position table is shorter.",
        parser=tokens,
        metavar="TOKENS",
    ),
]
SourceLength = Annotated[
    int | None,
    workload_option(
        help="Positions of the encoder's input, in models with an encoder and a decoder. By default --length.",
        parser=tokens,
        metavar="TOKENS",
    ),
]
Batch = Annotated[int, workload_option(help="Sequences computed together.", parser=tokens, metavar="COUNT")]
HeldOutText = Annotated[
    str | None,
    typer.Option(
        "--data",
        help="Text that the model was not trained on: a file, a directory, or python-stdlib. The loss on it is measured "
        "before and after.",
        metavar="PATH",
    ),
]
Compile = Annotated[
    bool | None,
    typer.Option(
        help="Compile the step, or never: --set plan.compile=on or off. By default long runs are compiled, for minutes on a "
        "busy machine."
    ),
]
Json = Annotated[bool, output_option("--json", help="Print everything as JSON.")]


def assigned(changes: list[str] | None) -> dict[str, object]:
    """The values that `--set` options give, by path."""
    from anyformer.describe import parse_assignment

    return dict(parse_assignment(text) for text in changes or [])


def compiled(compile: bool | None, assigned: dict[str, object], path: str = "plan.compile") -> dict[str, object]:
    """The values by path, with what `--compile` or `--no-compile` says at `path`."""
    if compile is None:
        return assigned
    from anyformer.describe import UserError

    if path in assigned:
        raise UserError(f"give either {'--compile' if compile else '--no-compile'} or --set {path}=...")
    return {**assigned, path: "on" if compile else "off"}


def stand_in_warnings(name: str) -> list[str]:
    """A warning if some figures of this catalogue entry are not public, or some of its parts are not described."""
    from anyformer.catalogue import listed

    entry = listed(unchanged(name))
    stand_in = None if entry is None else entry.stand_in
    return [f"a stand-in, whose figures are not exact: {stand_in}."] if stand_in else []


def resolve_architecture(what: str, changes: list[str] | None = None, *, tiny: bool = False) -> Architecture:
    """The architecture that an argument names, changed as the options say."""
    from anyformer.resolving import architecture

    return architecture(what, tiny=tiny, changes=assigned(changes))


CHANGED = ", changed"
"""What stands behind the name of an architecture whose values --set changes."""


def architectures(names: Sequence[str], changes: list[str] | None, *, tiny: bool = False) -> dict[str, Architecture]:
    """The architectures that arguments name, by what they are called in an answer: `gpt2`, or changed `gpt2, changed`.

    Of a name that stands twice the first one is the architecture as it is.
    """
    from anyformer.describe import UserError
    from anyformer.resolving import architecture

    values = assigned(changes)
    made: dict[str, Architecture] = {}
    for name in dict.fromkeys(names):
        base = resolve_architecture(name, tiny=tiny)
        if not values or names.count(name) > 1:
            made[name] = base
        if values:
            try:
                made[f"{name}{CHANGED}"] = architecture(base, changes=values)
            except UserError as error:
                if len(names) == 1:
                    raise
                raise UserError(f"{name}: {error}") from error
    return made


def unchanged(called: str) -> str:
    """The argument that an architecture was named by, from what it is called in an answer."""
    return called.removesuffix(CHANGED)


def check_form(diagram: Path | None, *, compact: bool) -> None:
    """Refuse a form of a diagram that is not drawn."""
    from anyformer.describe import UserError

    if compact and diagram is None:
        raise UserError("--compact is a form of a diagram: say where it is drawn, with --diagram FILE.pdf")


def titled(what: str, changes: list[str] | None = None, *, tiny: bool = False) -> str:
    """The title of a picture: `gpt2 (OpenAI, 2019)`, or the last part of a path; then what the options changed."""
    from anyformer.catalogue import listed

    entry = listed(what)
    name = Path(what).name if entry is None else f"{what} ({entry.organisation}, {entry.year})"
    return ", ".join([name, *(["tiny"] if tiny else []), *(changes or [])])


def check_counts(assigned: Mapping[str, object]) -> None:
    """Refuse counts of a run below 1 before torch is loaded, which takes seconds; its description refuses all else."""
    from anyformer.describe import UserError

    for name in ("steps", "batch", "length", "accumulation"):
        value = assigned.get(name)
        if isinstance(value, int) and value < 1:
            raise UserError(f"--set {name}: should be at least 1, got {value}")
