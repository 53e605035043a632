"""`anyformer check`."""

from __future__ import annotations

import shutil
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyformer.cli.arguments import Json
from anyformer.cli.as_json import print_json

if TYPE_CHECKING:
    from anyformer.testing.promise import Finding, Promise

EXAMPLES = """
anyformer check my_parts.py
anyformer check my_package.parts --only my_mixer
anyformer check gpt2 --only causal
"""
COLUMN, LEAST, MOST = 20, 40, 12
"""Columns of what is said beside a contract, columns of its reason at least, and lines of it at most."""
LOUD = ("does not hold", "missing")
"""What is said in capitals."""


def run(
    what: Annotated[
        str,
        typer.Argument(
            help="A plug-in: a file of your own, or an installed module; or an architecture, whose tiny form is taken: a name "
            "from `anyformer list`, a .toml or .json file, a directory.",
            metavar="FILE.py|MODULE|NAME|PATH",
        ),
    ],
    only: Annotated[
        str | None, typer.Option(help="Test only what has this in its name or in that of its contract.", metavar="TEXT")
    ] = None,
    json: Json = False,
) -> None:
    """Hold the parts, objectives, optimisers, tasks and families of a plug-in to the contracts that those of this package keep.

    Parts are put into a tiny model: declared weights and FLOPs are those of the module, no token sees a later one, decoding is
    the whole forward pass, padding and packing change nothing, and so on; it is priced, drawn, trained, resumed and exported.
    What does not hold is printed with the reason, and the exit code is then 1. What follows from it is not asked: how much
    that is, is said in one line. docs/extend.md says what a plug-in may give.
    """
    from anyformer.describe import UserError

    key, named, promised = _promises(what, only or "")
    chosen = [each for each in promised if each.matches(only or "")]
    if not chosen:
        defines = "no class with a kind, and registers no family" if only is None else f"nothing with {only!r} in its name"
        raise UserError(f"{what}: defines {defines}, so there is nothing to check")
    with _one_thread():
        findings = list(_asked(chosen, quiet=json))
    broken = [finding for finding in findings if finding.fails]
    if json:
        first = _data(broken[0]) if broken else None
        print_json({key: named, "holds": not broken, "first": first, "findings": [_data(each) for each in findings]})
    else:
        print(_verdict(named, findings))
    if broken:
        raise typer.Exit(1)


def _promises(what: str, only: str) -> tuple[str, str, Iterable[Promise]]:
    """What kind of thing is checked, its name, and what it promises."""
    from anyformer import catalogue
    from anyformer.describe import UserError, did_you_mean, load_plugin
    from anyformer.resolving import architecture

    if catalogue.listed(what) is not None or _is_file_of_architecture(what):
        from anyformer.testing import architectures
        from anyformer.testing.around import LOUD as VISIBLE

        tiny = architecture(what, tiny=True).but(initialisation=VISIBLE)
        return "architecture", what, architectures.promises(what, tiny, only=only)
    try:
        module = load_plugin(what)
    except UserError as error:
        names = [] if what.endswith(".py") else [entry.name for entry in catalogue.listing()]
        if nearest := did_you_mean(what, names):
            raise UserError(f"{error}; of the catalogue{nearest}") from None
        raise
    from anyformer.testing.plugin import promises

    return "plugin", module.__name__, promises(module)


def _is_file_of_architecture(what: str) -> bool:
    """Whether it is a path that an architecture may be read from, rather than a module's name."""
    from anyformer.resolving import CHECKPOINT, CONFIG, GGUF, RUN

    path = Path(what)
    return path.suffix in (".toml", ".json", GGUF) or any((path / name).is_file() for name in (RUN, CHECKPOINT, CONFIG))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Within, torch computes with one thread: products of tiny models are over before another one wakes."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _asked(chosen: Iterable[Promise], *, quiet: bool) -> Iterator[Finding]:
    """Every finding, printed as soon as it is there: of each thing what holds and what does not, then what was not asked."""
    from anyformer.testing.promise import ask

    for named, found in groupby(ask(chosen), lambda finding: finding.promise.named):
        if not quiet:
            print(named, flush=True)
        left = Counter[str]()
        for finding in found:
            if finding.follows is not None:
                of = "" if finding.follows.of == finding.promise.of else f"{finding.follows.of}: "
                left[f"{of}{_words(finding.follows.what)}"] += 1
            elif not quiet:
                print("\n".join(_lines(finding, shutil.get_terminal_size().columns)), flush=True)
            yield finding
        if not quiet:
            for needed, count in left.items():
                print(f"  {'not asked':<{COLUMN - 4}}  {count} that need{'s' if count == 1 else ''}: {needed}", flush=True)


def _verdict(named: str, findings: Sequence[Finding]) -> str:
    """How many hold, do not, and were not asked; and the first thing wrong."""
    broken = [finding.promise for finding in findings if finding.fails]
    left = sum(finding.follows is not None for finding in findings)
    text = f"{named}: {len(findings) - len(broken) - left} of {len(findings)} hold"
    if not broken:
        return text
    text += f", {len(broken)} {'does' if len(broken) == 1 else 'do'} not"
    text += f", {left} {'was' if left == 1 else 'were'} not asked" if left else ""
    return f"first: {broken[0].named}: {_words(broken[0].what)}\n{text}"


def _data(finding: Finding) -> dict[str, object]:
    follows = finding.follows
    return {
        "of": finding.promise.named, "what": finding.promise.what, "says": finding.says, "fails": finding.fails,
        "why": finding.why, "needs": None if follows is None else {"of": follows.named, "what": follows.what},
    }  # fmt: skip


def _lines(finding: Finding, width: int) -> list[str]:
    """Whether it holds, what it is, and under it why not."""
    says = finding.says.upper() if finding.says in LOUD else finding.says
    first = f"  {says:<{COLUMN - 4}}  {_words(finding.promise.what)}"
    room = max(width - COLUMN - 2, LEAST)
    why = [line for text in finding.why.splitlines() for line in textwrap.wrap(text, room)][:MOST]
    return [first, *(f"  {'':<{COLUMN - 2}}  {line}" for line in why)]


def _words(name: str) -> str:
    return name.replace("_", " ")
