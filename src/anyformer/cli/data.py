"""`anyformer data`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from os.path import isfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from anyformer.cli import arguments
from anyformer.cli.arguments import WHAT, Json, Tiny
from anyformer.cli.as_json import print_json
from anyformer.cli.quiet import progress_aside

if TYPE_CHECKING:
    from rich.console import Console

    from anyformer.data import Corpus
    from anyformer.training import Run
    from anyformer.training.inspection import Seen

EXAMPLES = """
anyformer data inspect recipes/stdlib.toml
anyformer data inspect bert-base-uncased --tiny --data python-stdlib --rows 1
anyformer data inspect t5-small --tiny --data python-summaries --objective seq2seq --step 100
anyformer data prepare recipes/stdlib.toml
anyformer data inspect runs/2026-01-01-120000
"""


def run(
    action: Annotated[
        Literal["inspect", "prepare"],
        typer.Argument(
            help="Show examples as the model sees them; or make the tokens that a run needs.", metavar="inspect|prepare"
        ),
    ],
    what: Annotated[
        str,
        typer.Argument(
            help=f"A run, or its TOML file; or, with --data, an architecture. {WHAT}", metavar="RUN|RUN.toml|NAME|PATH"
        ),
    ],
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="The data: a file, a directory, or a word for data that comes with Python. Repeat it for more.", metavar="PATH"
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Change the value of the run at this path. Repeat it for more changes.", metavar="PATH=VALUE"
        ),
    ] = None,
    tiny: Tiny = False,
    objective: Annotated[
        str | None, typer.Option(help="What the model is trained to do, as in `anyformer train`.", metavar="KIND")
    ] = None,
    rows: Annotated[int, typer.Option(help="Show this many samples.", min=1, metavar="COUNT")] = 2,
    step: Annotated[int, typer.Option(help="Show those of this update, from 0.", min=0, metavar="STEP")] = 0,
    json: Json = False,
) -> None:
    """Look at the data of a run before it is trained: what the model reads, what it has to predict, what it may look at.

    `inspect` prints samples of a training batch token by token: special tokens, padding, documents and prefixes in colour, the
    targets and their weights, and the attention of each mask as a small picture. They are the very rows that `train` uses.

    `prepare` tokenises the data and keeps it, so that `train` starts at once; it prints what was kept and what was left out.
    """
    from rich.console import Console

    from anyformer.cli.train import check, resolve_run
    from anyformer.training.held_out import corpus_of
    from anyformer.training.inspection import inspected

    if not (tiny or objective) and isfile(Path(what) / "run.toml"):
        what = str(Path(what) / "run.toml")
    check(what, tuple(data or ()))
    described = resolve_run(what, tuple(data or ()), arguments.assigned(changes), tiny=tiny, objective=objective)
    console = Console(highlight=False)
    with progress_aside(json):
        corpus = corpus_of(described)
    if json:
        print_json(found(described, corpus, [] if action == "prepare" else inspected(described, corpus, step, rows)))
        return
    _show(console, described, corpus, (step, rows) if action == "inspect" else None)


def _show(console: Console, run: Run, corpus: Corpus, samples: tuple[int, int] | None) -> None:
    """Print the corpus, and so many samples of an update; or where it is kept."""
    from anyformer.cli.inspecting import LEGEND, print_seen
    from anyformer.training.inspection import inspected, planned

    console.out(corpus.summary(), highlight=False)
    for line in planned(run, corpus):
        console.out(line, highlight=False)
    if samples is None:
        kept = f"kept in {corpus.directory}" if corpus.sources else "nothing is kept: this data is made as it is read"
        console.out(kept, highlight=False)
        return
    console.print(f"\n[dim]{LEGEND}[/dim]")
    for seen in inspected(run, corpus, *samples):
        print_seen(console, seen)


def found(run: Run, corpus: Corpus, samples: Iterable[Seen]) -> dict[str, Any]:
    """The corpus by splits, what a run of known steps reads of it, and samples, but for the pictures of their masks."""
    from anyformer.training.inspection import planned

    splits = [
        {"part": name, "split": split.name, "size": split.words, "bytes": split.bytes}
        for name, part in corpus.components.items()
        for split in (part.train, part.validation)
    ]
    return {
        "vocabulary": corpus.tokenizer.vocab_size,
        "splits": splits,
        "classes": corpus.names,
        "skipped": [{"path": each.path, "reason": each.reason} for each in corpus.skipped],
        "kept": str(corpus.directory) if corpus.sources else None,
        "planned": planned(run, corpus),
        "samples": [
            {
                "sample": seen.sample,
                "label": seen.label,
                "sequences": [{"role": each.role, "places": list(map(asdict, each.places))} for each in seen.sequences],
            }
            for seen in samples
        ],
    }
