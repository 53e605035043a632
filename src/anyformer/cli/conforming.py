"""`anyformer conform`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from anyformer.cli.aligned import aligned
from anyformer.cli.arguments import Json
from anyformer.cli.as_json import print_json
from anyformer.cli.elsewhere import place
from anyformer.cli.options import grouped
from anyformer.cli.terminal import tell
from anyformer.describe import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anyformer.conforming import CompletionServer, ConformCase, ConformReport, GoldenVectors

EXAMPLES = """
anyformer conform http://127.0.0.1:8080 path/to/model
anyformer conform http://127.0.0.1:8000 path/to/model --dtype bf16 --cases cached --cases shared
anyformer conform - path/to/model --save golden.json
anyformer conform http://127.0.0.1:8000 --golden golden.json
anyformer conform - path/to/model --layers states.safetensors
"""
NO_ENGINE = "-"
"""What stands for an engine where golden vectors are written alone."""
asking_option = partial(typer.Option, rich_help_panel="What is asked")
bound_option = partial(typer.Option, rich_help_panel="What counts as equal")
golden_option = partial(typer.Option, rich_help_panel="Golden vectors")
Number = Literal["fp32", "bf16", "fp16"]


@dataclass(frozen=True)
class AskingOptions:
    """Which cases, and how long their texts are."""

    cases: Annotated[
        list[str] | None,
        asking_option(help="Ask this case; may be repeated. By default all, which docs/conform.md tells.", metavar="CASE"),
    ] = None
    chunk: Annotated[
        int,
        asking_option(
            help="Tokens of a prompt that the engine reads at once, which 'chunked' goes beyond.", min=2, metavar="TOKENS"
        ),
    ] = 512
    longest: Annotated[
        int,
        asking_option(
            help="Read and make no more tokens than this, which 'long' and 'windowed' need.", min=4, metavar="TOKENS"
        ),
    ] = 2048
    top: Annotated[int, asking_option(help="Compare so many likeliest tokens of a place.", min=1, metavar="COUNT")] = 20
    served: Annotated[
        str | None, asking_option(help="The name of the model at the server, if it has several.", metavar="NAME")
    ] = None


@dataclass(frozen=True)
class BoundOptions:
    """What rounding explains."""

    dtype: Annotated[
        Number | None,
        bound_option(
            help="The arithmetic of the engine, whose rounding is measured here. By default the type of the weights.",
            metavar="fp32|bf16|fp16",
        ),
    ] = None
    cache_dtype: Annotated[
        Number | None,
        bound_option(
            help="The type in which it keeps keys and values: of llama.cpp fp16. By default the arithmetic's.",
            metavar="fp32|bf16|fp16",
        ),
    ] = None
    bound: Annotated[
        float | None,
        bound_option(help="Take this difference of log-probabilities for equal, and measure none.", min=0.0, metavar="NATS"),
    ] = None


@dataclass(frozen=True)
class GoldenOptions:
    """Vectors that are written, or read."""

    golden: Annotated[
        Path | None,
        golden_option(help="Hold the engine against the vectors of this file, without the model.", metavar="FILE.json"),
    ] = None
    save: Annotated[Path | None, golden_option(help="Write the vectors to this file.", metavar="FILE.json")] = None
    layers: Annotated[
        Path | None,
        golden_option(
            help="With - for the engine: hold hidden states that it wrote to this file against the model's, by layer.",
            metavar="FILE.safetensors",
        ),
    ] = None


@grouped
def run(
    url: Annotated[
        str, typer.Argument(help="The address of the engine's server; - for none, with --save or --layers.", metavar="URL|-")
    ],
    model: Annotated[
        Path | None,
        typer.Argument(
            help="The model that it serves: the directory of a run, a checkpoint or a Hugging Face model; or a GGUF file.",
            metavar="MODEL",
            parser=place,
        ),
    ] = None,
    *,
    asking: AskingOptions,
    bounds: BoundOptions,
    vectors: GoldenOptions,
    json: Json = False,
) -> None:
    """Say whether an engine is right: hold its log-probabilities against those that MODEL gives here, case by case.

    Cases are short and long texts, batches, chunks, cached and shared prefixes, windows, decoding, end tokens. Of those that
    depart it names the one that says what is wrong, and exits with 1. llama.cpp's server, vLLM and other servers of OpenAI's
    /v1/completions can be asked. A server's key is read from OPENAI_API_KEY. See docs/conform.md.
    """
    from anyformer.conforming import chosen, conform, write_golden

    cases = chosen(asking.cases or ())
    _check(url, model, vectors)
    if vectors.layers is not None and model is not None:
        _hold_layers(model, vectors.layers, bounds.dtype, json=json)
        return
    server = None if url == NO_ENGINE else _server(url, model, asking.served)
    golden = _golden(model, cases, server, asking, bounds, vectors)
    if vectors.save is not None:
        write_golden(vectors.save, golden)
        tell(f"anyformer conform: wrote {vectors.save}")
    if server is None:
        if json:
            print_json({"saved": vectors.save, "cases": [case.name for case in golden.cases if case.skipped is None]})
        return
    report = conform(server, golden, cases, top=asking.top, tell=_progress)
    if json:
        print_json(data(report))
    else:
        print("\n".join(lines(report)))
    if not report.conforms:
        raise typer.Exit(1)


def _check(url: str, model: Path | None, vectors: GoldenOptions) -> None:
    from anyformer.files import check_file

    if (model is None) == (vectors.golden is None):
        raise UserError("give MODEL, or the file of its golden vectors with --golden, and not both")
    if vectors.layers is not None and (url != NO_ENGINE or vectors.save is not None or model is None):
        raise UserError("--layers reads what an engine wrote, and asks none: give it with - and MODEL, and without --save")
    if url == NO_ENGINE and vectors.save is None and vectors.layers is None:
        raise UserError("- asks no engine: say with --save FILE.json where golden vectors are written, or give a server's URL")
    if vectors.golden is not None and vectors.save is not None:
        raise UserError("--save writes the vectors of a MODEL, and --golden reads a file of them: give one of the two")
    if vectors.save is not None:
        check_file(vectors.save)


def _hold_layers(model: Path, file: Path, dtype: str | None, *, json: bool) -> None:
    """Tell how far the layers of a file are from the model's."""
    from anyformer.conforming import held_layers

    gaps = held_layers(model, file, arithmetic=dtype)
    first = next((gap for gap in gaps if gap.departs), None)
    if json:
        told = [{**vars(gap), "departs": gap.departs} for gap in gaps]
        print_json({"layers": told, "first": None if first is None else first.layer})
    else:
        rows = [(str(gap.layer), f"{gap.difference:.1e}", f"{gap.bound:.1e}", "departs" if gap.departs else "") for gap in gaps]
        print("\n".join(aligned([("layer", "largest", "bound", ""), *rows], (True, True, True, False))))
        print("the layers are right" if first is None else f"the first layer that departs is {first.layer}")
    if first is not None:
        raise typer.Exit(1)


def _server(url: str, model: Path | None, served: str | None) -> CompletionServer:
    from anyformer.conforming import open_server

    def pieces() -> Mapping[str, int] | None:
        from anyformer.conforming import pieces_of

        return None if model is None else pieces_of(model)

    return open_server(url, served=served, pieces=pieces)


def _golden(
    model: Path | None,
    cases: tuple[ConformCase, ...],
    server: CompletionServer | None,
    asking: AskingOptions,
    bounds: BoundOptions,
    vectors: GoldenOptions,
) -> GoldenVectors:
    from anyformer.conforming import golden_vectors, read_golden

    if model is None:
        assert vectors.golden is not None, "one of the two was given"
        return read_golden(vectors.golden)
    most = asking.longest if server is None or server.longest is None else min(asking.longest, server.longest)
    return golden_vectors(
        model,
        cases,
        longest=most,
        chunk=asking.chunk,
        top=asking.top,
        arithmetic=bounds.dtype,
        cache=bounds.cache_dtype,
        bound=bounds.bound,
        tell=_progress,
    )


def _progress(line: str) -> None:
    tell(f"anyformer conform: {line}")


def lines(report: ConformReport) -> list[str]:
    """The report as a table of cases, and what it says."""
    heads = ("case", "", "largest", "bound", "mean", "KL", "same first token")
    rows: list[tuple[str, ...]] = [heads]
    for case in report.cases:
        figures = case.figures
        if case.state == "not asked" or not figures.compared:
            rows.append((case.name, case.state, "", "", "", "", ""))
            continue
        numbers = (figures.largest, case.bound.largest, figures.mean, figures.divergence)
        rows.append((case.name, case.state, *(f"{each:.1e}" for each in numbers), f"{figures.agreed} of {figures.told}"))
    found = aligned(rows, (False, False, True, True, True, True, True))
    found += ["", f"engine: {report.engine}", f"model: {report.model} (rounding: {report.arithmetic})"]
    found += [f"{case.name}: not asked, since {case.skipped}" for case in report.cases if case.skipped is not None]
    return [*found, *_said(report)]


def _said(report: ConformReport) -> list[str]:
    """What departs, the case that says most first."""
    from anyformer.conforming.cases import BY_NAME

    first = report.first
    if first is None:
        asked = sum(case.state == "right" for case in report.cases)
        return [f"the engine is right in all {asked} cases that were asked"]
    found = []
    for case in (first, *(case for case in report.departing if case is not first)):
        gone = case.departures[0]
        several = f"; {len(case.departures)} of {case.asked} requests depart" if case.asked > 1 else ""
        found.append(f"{case.name} departs from {gone.where} on, at {gone.place}: {gone.problem}{several}")
    return [*found, f"look first at {first.name}: {BY_NAME[first.name].finds}"]


def data(report: ConformReport) -> dict[str, Any]:
    """The report as plain data; differences in nats."""
    first = report.first
    return {
        "engine": report.engine,
        "model": report.model,
        "arithmetic": report.arithmetic,
        "conforms": report.conforms,
        "first": None if first is None else first.name,
        "cases": [{"state": case.state, **vars(case)} for case in report.cases],
    }
