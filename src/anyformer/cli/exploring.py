"""`anyformer explore`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from anyformer.cli.arguments import WHAT, Changes, Json
from anyformer.cli.call_options import PricedCallOptions
from anyformer.cli.options import grouped
from anyformer.cli.terminal import tell

if TYPE_CHECKING:
    from anyformer.exploring.desk import Desk

EXAMPLES = """
anyformer explore
anyformer explore gemma-2-2b
anyformer explore llama-3-8b qwen3-8b
anyformer explore gpt2 --set decoder.layer.attention.kv_heads=4
anyformer explore gpt2 --length 1k --batch 16 --hardware a100 --hardware h100 --rate 1.5 --json
anyformer explore runs/one runs/two --no-open
"""
PORT = 8642


@grouped
def run(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"{WHAT} Or the directory of a study. Several are shown side by side.", metavar="NAME|PATH|RUN|STUDY"
        ),
    ] = None,
    changes: Changes = None,
    *,
    call: PricedCallOptions,
    port: Annotated[
        int | None,
        typer.Option(
            help=f"The port of the page on this machine. By default {PORT}, or another one where that is taken.",
            min=1,
            max=65535,
            metavar="PORT",
        ),
    ] = None,
    open: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in the browser; or print its address alone.")
    ] = True,
    json: Json = False,
) -> None:
    """Open architectures as a page that answers while they are changed, and runs and studies with their curves.

    Diagram, parts, costs, masks, times and prices follow every change. The page is served on this machine alone, by the extra
    `explore`, until Ctrl-C; no request leaves the machine. Every architecture of the catalogue is there, beside those named.
    --json prints the answer about the first one, and ends.
    """
    from anyformer.describe import UserError
    from anyformer.exploring.desk import SECTIONS, Desk
    from anyformer.exploring.question import question_of

    desk = Desk(names or ["gpt2"])
    questions = [question_of({"of": [name], "set": changes or [], **call.query}) for name in desk.architectures]
    for question in questions:
        desk.sections(question)
    if json:
        from anyformer.cli.as_json import print_json

        print_json(desk.sections(questions[0], *SECTIONS) if questions else desk.runs.study({}))
        return
    lacking = [package for package in ("starlette", "uvicorn") if find_spec(package) is None]
    if lacking:
        raise UserError(f"the page is served by {' and '.join(lacking)}, not installed here: pip install 'anyformer[explore]'")
    _serve(desk, {"set": changes or [], **call.query}, port, open=open)


def _serve(desk: Desk, asked: Mapping[str, list[str]], port: int | None, *, open: bool) -> None:
    """Serve the page until Ctrl-C; `asked`: the words of its question beside the names."""
    from urllib.parse import urlencode

    from anyformer.exploring.serving import listening, serve

    with listening(port, PORT) as (socket, address):
        query = urlencode(
            [*(("of", name) for name in desk.opened), *((key, word) for key, words in asked.items() for word in words)]
        )
        tell(f"{address}/?{query}  (Ctrl-C ends)")
        if open:
            import webbrowser

            webbrowser.open(f"{address}/?{query}")
        serve(desk, socket)
