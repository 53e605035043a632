"""`anyformer inspect`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyformer.cli.arguments import Json, Model, output_option
from anyformer.cli.as_json import json_of, print_json
from anyformer.cli.inspected_text import InspectedText, InspectOptions
from anyformer.cli.options import grouped

if TYPE_CHECKING:
    from anyformer.cli.inside_views import InsideView

EXAMPLES = """
anyformer inspect runs/2026-01-01-120000
anyformer inspect gpt2-directory --text "The Eiffel Tower is in" --lens --attribution --out pictures
anyformer inspect gpt2-directory --text "When Mary and John left, John gave it to" --wanted " Mary" --other " John"
anyformer inspect gpt2-directory --text "Rome is in" --against "Oslo is in" --wanted " Italy" --other " Norway" --patching
anyformer inspect runs/teacher --text "return x + 1" --features runs/sae --feature 12
anyformer inspect runs/2026-01-01-120000 --text "n3 x1 n5 x0 n3 =" --against "n3 x1 n5 x0 n5 =" --circuit 0.01 --json
anyformer inspect runs/2026-01-01-120000 --text "n3 x1 n5 x0 n3 =" --against "n3 x1 n5 x0 n5 =" --edges 20 --scores gradient
"""
WIDE = 140
"""Columns of tables that no terminal shows."""


@dataclass(frozen=True)
class ViewOptions:
    """What is shown. Without any: heads, and of a text lens and attribution, and beside another text patching."""

    heads: Annotated[
        bool,
        typer.Option("--heads", help="Print what every attention head looks for: the token before, the same, what followed."),
    ] = False
    lens: Annotated[bool, typer.Option("--lens", help="Print the head's predictions behind every layer (logit lens).")] = False
    attribution: Annotated[
        bool, typer.Option("--attribution", help="Print what every sublayer and attention head adds to the logit.")
    ] = False
    patterns: Annotated[bool, typer.Option("--patterns", help="Draw the attention weights of every head into --out.")] = False
    patching: Annotated[
        bool,
        typer.Option("--patching", help="Put values of --text into --against, position by position and head by head."),
    ] = False
    circuit: Annotated[
        float | None,
        typer.Option(
            help="Cut every edge between heads and sublayers that costs less than this many nats (ACDC).", metavar="NATS"
        ),
    ] = None
    edges: Annotated[
        int | None,
        typer.Option(
            help="A circuit of this many edges, those with the largest scores, instead of the search of --circuit.", metavar="N"
        ),
    ] = None
    scores: Annotated[
        str | None,
        typer.Option(
            help="How --edges are scored: gradient (EAP), integrated (EAP-IG), or cut, a call for every edge.",
            metavar="WAY",
            show_default="integrated",
        ),
    ] = None
    whole_heads: Annotated[
        bool,
        typer.Option("--whole-heads", help="Of a circuit: lead edges to whole heads, not to their queries, keys and values."),
    ] = False
    features: Annotated[
        Path | None,
        typer.Option(
            help="Print the features of this sparse dictionary that are active at the position: a run of the objective sae, "
            "transcoder or crosscoder, or a directory of SAELens.",
            metavar="DIRECTORY",
        ),
    ] = None
    feature: Annotated[
        int | None, typer.Option(help="Print where in the text this feature of --features is active.", metavar="NUMBER")
    ] = None
    out: Annotated[
        Path | None, output_option(help="Write pictures and inspect.json into this directory.", metavar="DIRECTORY")
    ] = None

    @property
    def of_circuit(self) -> bool:
        """Whether a circuit is asked for, either way."""
        return self.circuit is not None or self.edges is not None


@grouped
def run(model: Model, *, prompt: InspectOptions, views: ViewOptions, as_json: Json = False) -> None:
    """Look inside a trained model: what its heads look for, what its layers say, and which of its parts an answer needs.

    Values are those of `anyformer.inspect` in Python, which takes any architecture and any of its paths.
    """
    from anyformer.evaluation import open_subject
    from anyformer.files import check_directory

    subject = open_subject(model)
    asked, views = InspectedText(subject, prompt), usual(views, prompt)
    check(asked, views)
    if views.out is not None:
        check_directory(views.out)
        views.out.mkdir(parents=True, exist_ok=True)
    found = list(shown(asked, views))
    report = {"model": str(model), **asked.facts, **{each.name: each.data for each in found}}
    if views.out is not None:
        for each in found:
            if each.draw is not None:
                each.draw(views.out / f"{each.name}.png")
        (views.out / "inspect.json").write_text(json_of(report) + "\n", encoding="utf-8")
    if as_json:
        print_json(report)
        return
    from rich.console import Console

    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDE)
    for each in found:
        for line in each.lines:
            console.print(line, markup=False)
        for table in each.tables:
            console.print(table)
    if views.out is not None:
        print(f"pictures and inspect.json: {views.out}")


def usual(views: ViewOptions, prompt: InspectOptions) -> ViewOptions:
    """The views that are shown where none is asked for."""
    drawn = views.heads or views.lens or views.attribution or views.patterns or views.patching
    if drawn or views.of_circuit or views.features is not None:
        return views
    text, pair = prompt.text is not None, prompt.text is not None and prompt.against is not None
    return replace(views, heads=not text, lens=text, attribution=text, patching=pair)


def check(asked: InspectedText, views: ViewOptions) -> None:
    """Refuse views that lack something, before any work."""
    from anyformer.describe import UserError
    from anyformer.inspecting import check_reads_tokens

    check_reads_tokens(asked.subject.model.architecture, asked.subject.path)
    text, pair = views.lens or views.attribution or views.patterns, views.patching or views.of_circuit
    if views.feature is not None and views.features is None:
        raise UserError("--feature is one of a dictionary: give --features DIRECTORY, in which that is")
    if (text or pair or views.features is not None) and asked.prompt.text is None:
        raise UserError("give --text TEXT, which the model reads; without it --heads alone can be shown")
    if pair and asked.prompt.against is None:
        raise UserError("--patching, --circuit and --edges compare two texts: give --against TEXT, of as many tokens as --text")
    if views.whole_heads and not views.of_circuit:
        raise UserError("--whole-heads is about a circuit: give --circuit NATS or --edges N too")
    if views.circuit is not None and views.edges is not None:
        raise UserError(f"--circuit {views.circuit:g} and --edges {views.edges} are two ways to one circuit: give one of both")
    if views.scores is not None and views.edges is None:
        raise UserError(f"--scores {views.scores} says how edges are chosen: give --edges N too")
    if views.patterns and views.out is None:
        raise UserError("--patterns are pictures: give --out DIRECTORY, into which they are drawn")
    if asked.subject.model.architecture.two_inputs and asked.prompt.text is not None:
        raise UserError(
            "this model reads a source and a target, and the command reads one text: in Python, anyformer.inspect takes "
            "CallInputs(tokens, decoder_tokens)"
        )


def shown(asked: InspectedText, views: ViewOptions) -> Iterator[InsideView]:
    """The views, in order."""
    from anyformer.cli import inside_views

    if views.heads:
        yield inside_views.heads(asked)
    if views.lens:
        yield inside_views.lens(asked)
    if views.attribution:
        yield inside_views.attribution(asked)
    if views.patterns:
        yield inside_views.patterns(asked)
    if views.patching:
        yield from inside_views.patching(asked)
    if views.circuit is not None:
        yield inside_views.searched_circuit(asked, views.circuit, by_input=not views.whole_heads)
    if views.edges is not None:
        yield inside_views.scored_circuit(asked, views.edges, views.scores or "integrated", by_input=not views.whole_heads)
    if views.features is not None:
        yield inside_views.features(asked, views.features, views.feature)
