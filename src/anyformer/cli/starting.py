"""`anyformer new`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from anyformer.cli.arguments import Json
from anyformer.cli.as_json import print_json
from anyformer.describe import UserError

if TYPE_CHECKING:
    from anyformer.starting_points import NewFiles

EXAMPLES = """
anyformer new mixer GatedAverage
anyformer new part --kind norm partial_norm
anyformer new task shifted_letters
anyformer new part --kind activation soft_gate --package
"""
PART_KINDS = ("norm", "mask", "adjust", "place", "term", "weigh", "combine", "choice", "sublayer", "activation")


def run(
    thing: Annotated[
        Literal["part", "mixer", "objective", "optimiser", "task", "reward", "family"],
        typer.Argument(
            help="What to start: a part needs --kind.",
            metavar="part|mixer|objective|optimiser|task|reward|family",
            show_default=False,
        ),
    ],
    given: Annotated[
        str,
        typer.Argument(help="Its name, GatedAverage or gated_average: of the class, the kind and the file.", metavar="NAME"),
    ],
    kind: Annotated[
        Literal["norm", "mask", "adjust", "place", "term", "weigh", "combine", "choice", "sublayer", "activation"] | None,
        typer.Option(
            help="Which kind of part: a norm; a mask; in attention what changes queries, keys or values (adjust), what "
            "positions do to queries and keys (place), what is added to scores (term), what turns scores into weights (weigh), "
            "what is done with the mixed heads (combine); a choice of experts; a sublayer that mixes no positions; an "
            "activation (with --package).",
            metavar="|".join(PART_KINDS),
        ),
    ] = None,
    package: Annotated[
        bool,
        typer.Option(
            "--package",
            help="Write it into the checkout that anyformer is imported from: its files, its export, its naive twin, its entry "
            "in the zoo of the tests.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Write a small working example of something new, with its checks, to start from.

    By default a plug-in in the current directory: NAME.py, which any command takes with --plugin, and test_NAME.py, a test of
    each of its contracts. Both pass as they are: change the formula, and see what breaks. A name that is taken is refused, and
    so is a file that is there; all files are written, or none.
    """
    import anyformer
    from anyformer.starting_points import ROOMS, THINGS, Spellings, checkout, in_package, plugin

    chosen = THINGS[_chosen(thing, kind)]
    names = Spellings.of(given, chosen.suffix)
    if package:
        root = checkout(Path(anyformer.__file__).parent)
        writing = in_package(chosen, names, root)
        following = ROOMS[chosen.name].after
    else:
        writing = plugin(chosen, names, Path())
        following = ("anyformer check {snake}.py", "python -m pytest test_{snake}.py", chosen.use)
    writing.write()
    commands = [each.format(snake=names.snake) for each in following]
    if json:
        written, changed = ([str(writing.folder / file) for file in files] for files in (writing.new, writing.changed))
        print_json({"class": names.camel, "kind": names.snake, "written": written, "changed": changed, "next": commands})
    else:
        _tell(f"{names.camel}, {chosen.what}:", writing, commands)


def _chosen(thing: str, kind: str | None) -> str:
    if thing != "part":
        if kind is not None:
            raise UserError(f"--kind {kind}: there is one kind of {thing}; only a part has several")
        return thing
    if kind is None:
        raise UserError(f"new part: say which kind of part with --kind, one of {', '.join(PART_KINDS)}")
    return kind


def _tell(title: str, writing: NewFiles, commands: Sequence[str]) -> None:
    print(title)
    for verb, files in (("wrote", writing.new), ("changed", writing.changed)):
        for file in files:
            print(f"  {verb} {writing.folder / file}")
    print("Next:" if writing.folder == Path() else f"Next, in {writing.folder}:")
    for command in commands:
        print(f"  {command}")
