"""`anyformer list`."""

from __future__ import annotations

import json as jsons
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from anyformer.cli import accelerators
from anyformer.cli.aligned import fitting, table
from anyformer.cli.amounts import AmountRange, metric_range
from anyformer.cli.arguments import Json, output_option
from anyformer.cli.listing_columns import ALL, GUESS, NUMBERS, SHORT
from anyformer.cli.options import grouped

if TYPE_CHECKING:
    from anyformer.catalogue.row import Listed

EXAMPLES = """
anyformer list
anyformer list gemma
anyformer list --moe --since 2025 --attention mla --sort active
anyformer list --params 1B..10B --active ..4B
anyformer list --shape encoder-only --position relative
anyformer list --attention gqa --attention local
anyformer list --has "shared experts" --has MLA
anyformer list llama --sources
anyformer list --hardware
"""
KEYS: dict[str, Callable[[Listed], Any]] = {
    "parameters": lambda entry: entry.columns.parameters,
    "active": lambda entry: entry.columns.active,
    "year": lambda entry: entry.year,
    "name": lambda entry: entry.name,
}
"""Sort keys of the list."""
NO_SIZES: Mapping[str, AmountRange] = MappingProxyType({})
PLACES: dict[str, Callable[[Listed], str]] = {
    "text": lambda entry: " ".join((entry.name, entry.organisation, entry.summary, entry.source, *entry.training)),
    "shape": lambda entry: entry.columns.shape,
    "norm": lambda entry: f"{entry.columns.norm}+{entry.columns.placement}",
    "position": lambda entry: entry.columns.position,
    "activation": lambda entry: entry.columns.activation,
    "attention": lambda entry: (
        f"{entry.columns.attention}+{'+'.join(word.split()[0] for word in _words(entry.columns.window))}"
    ),
}
"""Where the filters look: words with a plus between them, but for the text."""
_filter = partial(typer.Option, rich_help_panel="Filters", metavar="WORD")
REPEAT = "Repeat it: all must hold."
Words: TypeAlias = list[str] | None
Places: TypeAlias = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Filters:
    """Words that an entry must have in their places, all of them; None where they are left out."""

    since: Annotated[int | None, _filter(help="Show only models published in this year or later.", metavar="YEAR")] = None
    shape: Annotated[
        Words, _filter(help=f"Show only models of this shape: decoder-only, encoder-only, encoder-decoder, latent. {REPEAT}")
    ] = None
    norm: Annotated[
        Words, _filter(help=f"Show only models with this norm (rms, layer), or placing: pre, post, sandwich, output. {REPEAT}")
    ] = None
    position: Annotated[
        Words, _filter(help=f"Show only models with such positions: rope, alibi, learned, relative, sinusoidal, nope. {REPEAT}")
    ] = None
    activation: Annotated[
        Words, _filter(help=f"Show only models with this activation: swiglu, geglu, gelu, relu. {REPEAT}")
    ] = None
    attention: Annotated[
        Words, _filter(help=f"Show only models with this: mha, gqa, mqa, mla, delta, lightning, convolution, local. {REPEAT}")
    ] = None
    has: Annotated[Words, _filter(help=f"Show only models with this mechanism, as GQA or YaRN. {REPEAT}", metavar="NAME")] = (
        None
    )
    moe: Annotated[bool, _filter("--moe", help="Show only mixtures of experts.")] = False
    params: Annotated[
        AmountRange | None,
        _filter(
            help="Show only models with so many parameters, as in 1B..10B, ..4B or 70B..; numbers as in match --params.",
            parser=metric_range,
            metavar="RANGE",
        ),
    ] = None
    active: Annotated[
        AmountRange | None,
        _filter(help="Show only models of which a token uses so many parameters.", parser=metric_range, metavar="RANGE"),
    ] = None

    @property
    def sizes(self) -> dict[str, AmountRange]:
        """The ranges that were given, by the columns that they are of."""
        given = {"parameters": self.params, "active": self.active}
        return {column: found for column, found in given.items() if found is not None}


@dataclass(frozen=True)
class Output:
    """What of the entries is printed, and how."""

    sort: Annotated[
        Literal["parameters", "active", "year", "name"] | None,
        output_option(
            help="Sort by this column, smallest first. By default the models of a family stand together.",
            metavar="parameters|active|year|name",
        ),
    ] = None
    exact: Annotated[
        bool | None,
        output_option(
            "--exact/--short",
            help="Print every column with exact counts, or as many columns as fit with short counts. By default short in a "
            "terminal and exact in a pipe.",
        ),
    ] = None
    sources: Annotated[
        bool,
        output_option(
            "--sources",
            help="Print a sentence per architecture, the source of its figures, and the stand-ins for unpublished ones.",
        ),
    ] = False
    names: Annotated[bool, output_option("--names", help="Print names only, one per line.")] = False
    hardware: Annotated[
        bool, output_option("--hardware", help="List the accelerators that costs can be priced on, with all of their peaks.")
    ] = False
    json: Json = False


@grouped
def run(
    contains: Annotated[
        str, typer.Argument(help="Show only those with this in name, organisation, summary or source.", metavar="TEXT")
    ] = "",
    *,
    filters: Filters,
    output: Output,
) -> None:
    """List the architectures of the catalogue with their mechanisms and numbers of parameters.

    Column active: the parameters that one token uses, empty if it uses all. Column experts, as in 8/128: a token uses 8 of the
    128 experts of a layer. Column window: how many positions back layers see, as in local 4096.

    A terminal shows as many columns as fit. A pipe gets every column, with exact counts and one line per architecture.
    """
    places = {
        "text": [contains] if contains else None, "shape": filters.shape, "norm": filters.norm, "position": filters.position,
        "activation": filters.activation, "attention": filters.attention,
    }  # fmt: skip
    wanted = [(place, word) for place, words in places.items() for word in words or ()]
    entries = filtered(wanted, since=filters.since, moe=filters.moe, sizes=filters.sizes, has=filters.has or ())
    if output.sort is not None:
        entries.sort(key=KEYS[output.sort])
    if output.hardware:
        print(jsons.dumps(accelerators.rows(), indent=2) if output.json else "\n".join(accelerators.page()))
    elif output.json:
        print(jsons.dumps([asdict(entry) for entry in entries], indent=2, ensure_ascii=False))
    elif output.names:
        print("\n".join(entry.name for entry in entries))
    elif output.sources:
        print("\n\n".join(map(_source, entries)))
    elif output.exact or (output.exact is None and not sys.stdout.isatty()):
        print("\n".join(table(ALL, entries, NUMBERS)))
    else:
        typer.echo("\n".join(page(entries, shutil.get_terminal_size().columns, grouped=output.sort is None)))


def filtered(
    wanted: Places, *, since: int | None = None, moe: bool = False, sizes: Mapping[str, AmountRange] = NO_SIZES,
    has: Sequence[str] = (),
) -> list[Listed]:  # fmt: skip
    """The entries that have all wanted words in their places (place, word), upper or lower case, all mechanisms called `has`,
    and in every range of `sizes` the number of `KEYS` that it is of. Raises `UserError` where there are none."""
    from anyformer.atlas.naming import entries_with
    from anyformer.catalogue import listing
    from anyformer.describe import UserError

    entries = listing()
    for place, word in wanted:
        if not any(_has(entry, place, word) for entry in entries):
            raise UserError(_unknown(place, word, entries))
    newest = max(entry.year for entry in entries)
    if since is not None and since > newest:
        raise UserError(f"--since {since}: the newest architectures of the catalogue are of {newest}")
    holding = [entries_with(name) for name in has]
    selected = [
        entry
        for entry in entries
        if entry.year >= (since or 0)
        and (entry.columns.experts > 0 or not moe)
        and all(entry.name in names for names in holding)
        and all(_has(entry, place, word) for place, word in wanted)
        and all(KEYS[column](entry) in amounts for column, amounts in sizes.items())
    ]
    if not selected:
        filters = [f"--{place} {word}" if place != "text" else repr(word) for place, word in wanted]
        filters += [f"--since {since}"] * (since is not None) + ["--moe"] * moe + [f'--has "{name}"' for name in has]
        filters += [f"--{'params' if column == 'parameters' else column} {each.text}" for column, each in sizes.items()]
        raise UserError(f"no architecture fits all of {', '.join(filters)}: leave one of them out")
    return selected


def _has(entry: Listed, place: str, word: str) -> bool:
    return word.lower() in PLACES[place](entry).lower()


def _words(text: str) -> list[str]:
    return [word for word in text.split("+") if word]


def _unknown(place: str, word: str, entries: Iterable[Listed]) -> str:
    """The error for a word that no entry has, with the words that some have."""
    from anyformer.catalogue.unlisted import unlisted
    from anyformer.describe import did_you_mean

    if place == "text":
        if reason := unlisted(word):
            return f"no architecture is called {word!r}. {reason}"
        return (
            f"no architecture has {word!r} in its name, organisation, summary or source; `anyformer list` shows all of them, "
            "and `anyformer list --help` the filters"
        )
    known = dict.fromkeys(known.lower() for entry in entries for known in _words(PLACES[place](entry)))
    return f"--{place}: no architecture has {word!r}{did_you_mean(word.lower(), known)}"


def page(entries: Sequence[Listed], width: int, *, grouped: bool) -> Iterator[str]:
    """The table as a terminal of this width shows it, under the names of organisations, and what to type next."""
    columns = fitting(SHORT, entries, width)
    head, *rows = table(columns, entries, NUMBERS)
    yield typer.style(head, bold=True)
    groups: dict[str, list[str]] = {}
    for entry, row in zip(entries, rows, strict=True):
        groups.setdefault(entry.organisation if grouped else "", []).append(row)
    for organisation, lines in groups.items():
        yield from [typer.style(organisation, dim=True)] * grouped
        yield from lines
    yield ""
    yield f"{len(entries)} architecture{'s' * (len(entries) != 1)}."
    if any(entry.stand_in for entry in entries):
        yield f"{GUESS} is not exact: not everything is public, and --sources says what stands in."
    if len(columns) < len(SHORT):
        yield "A wider terminal, a pipe or --exact shows more columns."
    yield "Next: anyformer show NAME, anyformer cost NAME. Filters: anyformer list --help."


def _source(entry: Listed) -> str:
    """A sentence on an architecture, and the source of its figures."""
    stand_in = f"\n  stand-in: {entry.stand_in}" if entry.stand_in else ""
    return f"{entry.name} ({entry.year}, {entry.organisation}): {entry.summary}\n  {entry.source}{stand_in}"
