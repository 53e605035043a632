"""`anyformer train`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyformer.cli import arguments

if TYPE_CHECKING:
    from rich.console import Console

    from anyformer.training import Run, Trained


def run(
    what: Annotated[
        str | None, typer.Argument(help="A run's TOML file, or a catalogue name with --data.", metavar="RUN.toml|NAME")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", help="Text to train on: a file, a directory, a .jsonl file, or python-stdlib. Repeat for more."),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Change a value by its path: --set optimiser.learning_rate=1e-3 --set steps=500", metavar="PATH=VALUE"
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Where the run's directory goes (default: runs/<time>).")] = None,
    tiny: Annotated[
        bool, typer.Option("--tiny", help="Of a NAME: small sizes, one layer of each kind, every mechanism, to try it out.")
    ] = False,
    resume: Annotated[
        Path | None, typer.Option("--resume", help="Continue the run of this directory, bit for bit.", metavar="RUN_DIR")
    ] = None,
) -> None:
    """Train a model; Ctrl-C saves and stops, --resume continues.

    The run's directory holds run.toml (the resolved value), metrics.jsonl, checkpoints, and at the end loss.png and
    summary.json: speed, memory and FLOPs as predicted and as measured.
    """
    from anyformer.describe import UserError

    if (resume is None) == (what is None):
        raise UserError("give either a run to start (RUN.toml or NAME) or --resume RUN_DIR")
    if resume is not None:
        if data or changes or out or tiny:
            raise UserError(
                "--resume continues a run exactly as it was: --data, --set, --tiny and --out have no place beside it"
            )
        from anyformer.training import resume as resume_run

        finish(resume_run(resume))
        return
    assert what is not None
    from anyformer.training import train

    finish(train(resolve(what, tuple(data or ()), changes or [], tiny=tiny), out))


def resolve(what: str, paths: tuple[str, ...], changes: list[str], *, tiny: bool = False) -> Run:
    """The run that a file, or a name and some text, with changes, stand for."""
    from anyformer.describe import UserError, change_all
    from anyformer.resolving import architecture, is_run
    from anyformer.training import default_run, load_run

    assigned = arguments.assigned(changes)
    if "steps" in assigned:
        assigned.setdefault("minutes", None)
    if is_run(what) and not Path(what).is_dir():
        if tiny:
            raise UserError(f"--tiny shrinks an architecture, and {what} is a run: give a NAME with --data")
        if paths:
            assigned["data.paths"] = list(paths)
        return load_run(Path(what), assigned)
    model = architecture(what, tiny=tiny)
    if not paths:
        raise UserError(
            f"what should {what} be trained on? Give --data PATH, or --data python-stdlib for the text on this machine"
        )
    return change_all(default_run(model, paths), assigned)


def finish(trained: Trained) -> None:
    """The last words of a run: what it reached, a sample, and what to do next."""
    from rich.console import Console

    if not trained.finished:
        return
    console = Console(highlight=False)
    seen, directory = trained.validation, trained.directory
    if seen is not None:
        bits = "" if seen.bits_per_byte is None else f", {seen.bits_per_byte:.3f} bits per byte"
        console.out(f"validation loss {seen.loss:.4f} over {seen.tokens:,} tokens: perplexity {seen.perplexity:.2f}{bits}")
    if trained.baseline is not None:
        console.out(f"an interpolated bigram model of the tokens it trained on reaches {trained.baseline:.4f}")
    if trained.summary is not None:
        console.out("", *trained.summary.lines(), sep="\n")
    generates = print_sample(trained, console)
    console.print(f"\n[bold]run[/bold] {directory}   [bold]curve[/bold] {directory / 'loss.png'}", soft_wrap=True)
    console.out("try next:")
    if generates:
        console.out(f"  anyformer generate {directory} 'class Parser:' --temperature 0.7")
    console.out(f"  anyformer show {directory}")


def print_sample(trained: Trained, console: Console) -> bool:
    """What the model makes of the run's prompt; one line instead, and False, where it cannot generate."""
    from anyformer.generation import Sampling, stream
    from anyformer.model import InputError
    from anyformer.training import read_run

    prompt = read_run(trained.directory).sample
    sampling = Sampling(temperature=0.7, top_k=50)
    pieces = (piece for _, piece in stream(trained.model, trained.tokenizer, [prompt], max_tokens=160, sampling=sampling))
    try:
        first = next(pieces, "")  # a model that cannot generate is refused here, before any work
    except InputError as error:
        console.out(f"\nno sample: {error}")
        return False
    console.print("\n[bold]sample[/bold]")
    print(prompt, end=first, flush=True)
    for piece in pieces:
        print(piece, end="", flush=True)
    print()
    return True
