"""`anyformer data`."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields
from functools import partial
from os.path import isfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from anyformer.cli import arguments
from anyformer.cli.arguments import WHAT, Json, Tiny
from anyformer.cli.as_json import print_json
from anyformer.cli.options import grouped
from anyformer.cli.processes import DAY, first_speaks
from anyformer.cli.quiet import progress_aside
from anyformer.describe import UserError
from anyformer.mesh import started

if TYPE_CHECKING:
    from rich.console import Console

    from anyformer.data import Corpus, WorkShare
    from anyformer.training import Run
    from anyformer.training.inspection import Seen

_option = partial(typer.Option, rich_help_panel="prepare")
EXAMPLES = """
anyformer data inspect recipes/stdlib.toml
anyformer data inspect bert-base-uncased --tiny --data python-stdlib --rows 1
anyformer data inspect t5-small --tiny --data python-summaries --objective seq2seq --step 100
anyformer data prepare recipes/stdlib.toml
anyformer data prepare recipes/stdlib.toml --share 1/2
anyformer data prepare recipes/stdlib.toml --to s3://bucket/stdlib
anyformer data inspect runs/2026-01-01-120000
"""


@dataclass(frozen=True)
class PreparingOptions:
    """How `prepare` divides its work, and where the tokens go."""

    share: Annotated[
        str | None,
        _option(
            help="Tokenise one of N equal parts, such as 3/8, on machines that share $ANYFORMER_CACHE; the "
            "one that ends last joins them.",
            metavar="I/N",
        ),
    ] = None
    workers: Annotated[
        int | None, _option(help="Processes that tokenise. By default one per core.", min=1, metavar="COUNT")
    ] = None
    to: Annotated[
        str | None,
        _option(help="Copy the tokens there: a run can name the place as its data.", metavar="DIRECTORY|URL"),
    ] = None

    @property
    def part(self) -> WorkShare | None:
        """The share of the work that is asked for."""
        from anyformer.data import WorkShare

        if self.share is not None and started() > 1:
            raise UserError("--share: the processes of torchrun are shares already; leave it out, or start one process")
        return None if self.share is None else WorkShare.parse(self.share)

    def check(self) -> None:
        """Refuse an option where nothing is prepared."""
        for field in fields(self):
            if getattr(self, field.name) is not None:
                raise UserError(f"--{field.name} is for `anyformer data prepare`; leave it out to inspect")


@grouped
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
            help="The data: a file, a directory, a URL, or a word for data that comes with Python. Repeat it for more.",
            metavar="PATH",
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
    *,
    preparing: PreparingOptions,
    rows: Annotated[int, typer.Option(help="Show this many samples.", min=1, metavar="COUNT")] = 2,
    step: Annotated[int, typer.Option(help="Show the rows of this update, from 0.", min=0, metavar="STEP")] = 0,
    json: Json = False,
) -> None:
    """Look at the data of a run before training: inputs, targets and attention masks.

    `inspect` prints samples of a training batch token by token: special tokens, padding, documents and prefixes in colour, the
    targets and their weights, and the attention of every mask as a small picture; and of a sound how long and how loud it is,
    and its spectrum; of an image its greys, and beside them its mask. `train` uses the same rows.

    `prepare` tokenises the data and keeps it, so that `train` starts at once; it prints what was kept and what was left out.
    Killed, it goes on where it was. `torchrun --nproc-per-node N -m anyformer data prepare ...` makes equal parts in N
    processes, and --share 3/8 one of eight; the tokens are the same, byte for byte.
    """
    from anyformer.cli.train import check, resolve_run
    from anyformer.data.prepared import check_storable

    if action == "inspect":
        preparing.check()
    part = preparing.part
    if not (tiny or objective) and isfile(Path(what) / "run.toml"):
        what = str(Path(what) / "run.toml")
    with first_speaks():
        check(what, tuple(data or ()))
        described = resolve_run(what, tuple(data or ()), arguments.assigned(changes), tiny=tiny, objective=objective)
        if preparing.to is not None:
            check_storable(described.data, preparing.to)
        _answer(described, preparing, part, None if action == "prepare" else (step, rows), json)


def _answer(run: Run, preparing: PreparingOptions, part: WorkShare | None, samples: tuple[int, int] | None, json: bool) -> None:
    """Prepare the data of a run, or a part of it, and print what was made, and so many samples of an update."""
    from rich.console import Console

    from anyformer.training.held_out import share_of
    from anyformer.training.inspection import inspected

    with progress_aside(json):
        left = 0 if part is None else share_of(run, part, preparing.workers)
        corpus = None if left else _prepared(run, preparing)
    if corpus is None:
        print_json({"share": preparing.share, "left": left}) if json else print(_waiting(preparing.share, left))
    elif json:
        print_json(found(run, corpus, [] if samples is None else inspected(run, corpus, *samples)))
    else:
        _show(Console(highlight=False), run, corpus, samples)
        if preparing.to is not None:
            print(f"copied to {preparing.to}; for a run of it: --set 'data.paths=[\"{preparing.to}\"]'")


def _waiting(share: str | None, left: int) -> str:
    """What is told of a share when others are not done."""
    return f"share {share} is made; the others have {left:,} stretches to make, and the one that ends last joins them"


def _prepared(run: Run, preparing: PreparingOptions) -> Corpus:
    """The data of a run, made by all processes that `torchrun` started, and copied if that is asked for."""
    import torch

    from anyformer.data.prepared import store
    from anyformer.mesh import Mesh
    from anyformer.training.held_out import corpus_together
    from anyformer.training.parallel import ALONE, joined

    again = "start all processes again; what was made is kept"
    mesh = Mesh(data=started(), timeout=DAY)
    with nullcontext(ALONE) if started() == 1 else joined(mesh, torch.device("cpu"), again) as ranks:
        corpus = corpus_together(run, ranks, preparing.workers)
        if preparing.to is not None and ranks.first:
            store(corpus, preparing.to)
        return corpus


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
                "sounds": [
                    {"seconds": each.seconds, "rate": each.rate, "level": each.level, "peak": each.peak} for each in seen.sounds
                ],
                "images": [{"shape": each.image.shape, "classes": each.shares} for each in seen.images],
                "sequences": [{"role": each.role, "places": list(map(asdict, each.places))} for each in seen.sequences],
            }
            for seen in samples
        ],
    }
