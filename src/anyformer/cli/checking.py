"""`anyformer check`."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from anyformer.cli.arguments import Json
from anyformer.cli.as_json import print_json

if TYPE_CHECKING:
    from anyformer.testing.plugin import Finding

EXAMPLES = """
anyformer check my_parts.py
anyformer check my_package.parts --only causal
"""
COLUMN, LEAST, MOST = 20, 40, 12
"""Columns of what is said beside a contract, columns of its reason at least, and lines of it at most."""


def run(
    plugin: Annotated[
        str, typer.Argument(help="A plug-in: a file of your own, or an installed module.", metavar="FILE.py|MODULE")
    ],
    only: Annotated[
        str | None, typer.Option(help="Test only what has this in its name or in that of its contract.", metavar="TEXT")
    ] = None,
    json: Json = False,
) -> None:
    """Hold the parts, objectives, optimisers, tasks and families of a plug-in to the contracts that those of this package keep.

    Parts are put into a tiny model: declared weights and FLOPs are those of the module, no token sees a later one, decoding is
    the whole forward pass, padding and packing change nothing, and so on; it is priced, drawn, trained, resumed and exported.
    What does not hold is printed with the reason, and the exit code is then 1. docs/extend.md says what a plug-in may give.
    """
    from anyformer.describe import UserError, load_plugin
    from anyformer.testing.plugin import find, promises

    module = load_plugin(plugin)
    chosen = [each for each in promises(module) if only is None or only in f"{each.of} {each.what} {_words(each.what)}"]
    if not chosen:
        defines = "no class with a kind, and registers no family" if only is None else f"nothing with {only!r} in its name"
        raise UserError(f"{plugin}: defines {defines}, so there is nothing to check")
    findings: list[Finding] = []
    for promise in chosen:
        if not json and (not findings or promise.of != findings[-1].promise.of):
            print(promise.of, flush=True)
        findings.append(find(promise))
        if not json:
            print("\n".join(_lines(findings[-1], shutil.get_terminal_size().columns)), flush=True)
    broken = sum(finding.fails for finding in findings)
    if json:
        print_json({"plugin": module.__name__, "holds": not broken, "findings": [_data(each) for each in findings]})
    else:
        print(f"{module.__name__}: {len(chosen) - broken} of {len(chosen)} hold" + (f", {broken} do not" if broken else ""))
    if broken:
        raise typer.Exit(1)


def _data(finding: Finding) -> dict[str, object]:
    says = {True: "holds", False: "does not hold", None: "missing" if finding.fails else "not compared"}[finding.kept]
    return {"of": finding.promise.of, "what": finding.promise.what, "says": says, "fails": finding.fails, "why": finding.why}


def _lines(finding: Finding, width: int) -> list[str]:
    """Whether it holds, what it is, and under it why not."""
    says = {True: "holds", False: "DOES NOT HOLD", None: "MISSING" if finding.fails else "not compared"}[finding.kept]
    first = f"  {says:<{COLUMN - 4}}  {_words(finding.promise.what)}"
    room = max(width - COLUMN - 2, LEAST)
    why = [line for text in finding.why.splitlines() for line in textwrap.wrap(text, room)][:MOST]
    return [first, *(f"  {'':<{COLUMN - 2}}  {line}" for line in why)]


def _words(name: str) -> str:
    return name.replace("_", " ")
