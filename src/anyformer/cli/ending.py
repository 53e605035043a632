"""The end of `anyformer train`: what was reached, a sample, and what to do next."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from anyformer.generation import Sampling
    from anyformer.training import Trained
    from anyformer.training.starting_loss import Before

_ANSWER = 64
"""Tokens of an answer to a held-out question, or behind a text, at most."""
_ROWS, _STEPS = 10, 30
"""Classes of which pictures are made, and pictures of a class; steps of the flow."""
_SAMPLE = 200
"""Tokens of the sample at most."""


def finish(trained: Trained) -> None:
    """Print the end of a run: its loss, a sample of text, and commands to try next."""
    from anyformer.training.invocation import command
    from anyformer.training.lines import Lines, unbroken

    final, directory = trained.validation, trained.directory
    if final is None:  # it was finished before
        return
    console = Lines(highlight=False)
    bits = "" if final.bits_per_byte is None else f", {final.bits_per_byte:.3f} bits per byte"
    of = (
        f"{final.seen:,} {final.unit}"
        if final.seen >= final.whole
        else f"{final.seen:,} of {final.whole:,} {final.unit}, evenly sampled"
    )
    perplexity = "" if final.perplexity is None else f": perplexity {final.perplexity:.2f}"
    console.out(f"validation loss {final.loss:.4f} over {of}{perplexity}{bits}")
    if trained.before is not None:
        console.out(f"before this training: {trained.before.loss:.4f}")
    if final.metrics:
        console.out("  ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in final.metrics.items()))
    if trained.baseline is not None:
        console.out(f"{trained.baseline[0]}: a loss of {trained.baseline[1]:.4f}")
    if trained.summary is not None:
        console.out("", *trained.summary.lines(), sep="\n")
    generates = print_sample(trained, console)
    drawn = draw_sample(trained, console)
    console.print(f"\n[bold]run[/bold] {directory}   [bold]curve[/bold] {directory / 'loss.png'}", soft_wrap=True)
    console.out("try next:")
    if generates:
        more = ["--chat"] if trained.chat else []
        unbroken(console, f"  {command('generate', directory, trained.prompts[1], '--temperature', 0.7, *more)}")
    if drawn:
        unbroken(console, f"  {command('generate', directory, *drawn, '--guidance', 3, '--output', 'pictures.png')}")
    unbroken(console, f"  {command('show', directory)}")
    for words in uses(trained):
        unbroken(console, f"  {command(*words)}")


def uses(trained: Trained) -> list[tuple[object, ...]]:
    """The commands that use what was trained: of a sparse dictionary those that look into its source by it, and that write the
    format of SAELens, if this has a name for it."""
    from anyformer.huggingface.saelens import named_there
    from anyformer.objectives.sparse import SparseObjective
    from anyformer.training.run import load_run

    directory, objective = trained.directory, load_run(trained.directory / "run.toml").objective
    exports: tuple[object, ...] = ("export", directory, f"{directory.name}-exported")
    if not isinstance(objective, SparseObjective):
        return [exports]
    looks: tuple[object, ...] = ("inspect", objective.source, "--text", "TEXT", "--features", directory)
    return [looks, (*exports, "--format", "saelens")] if named_there(trained.model) else [looks]


def print_sample(trained: Trained, console: Console) -> bool:
    """Print how the model continues the run's prompt, until the run's minutes end; if it cannot generate, say why: False."""
    from anyformer.cli.text_on_screen import safe, shown
    from anyformer.describe import InputError
    from anyformer.generation import stream

    prompt = trained.prompts[0]
    if not prompt:  # the objective knows no text to go on with
        return False
    if trained.divided:
        console.out("\nno sample: the processes of the run divide the model, and none of them has all of it")
        return True
    try:
        if trained.before is not None:
            print_answers(trained, trained.before, console)
            return True
        most = within_table(trained, _SAMPLE)
        pieces = stream(trained.model, trained.tokenizer, [prompt], max_tokens=most, sampling=draws(), chat=trained.chat)
    except InputError as error:
        console.out(f"\nno sample: {error}")
        return False
    console.print("\n[bold]sample[/bold]")
    print(shown(safe(prompt), bold=True), end="\n" if trained.chat else "", flush=True)
    try:
        for _, piece in pieces:
            print(safe(piece), end="", flush=True)
            if trained.deadline is not None and time.monotonic() > trained.deadline:
                print(" ... (the minutes are over)", end="")
                break
    except KeyboardInterrupt:
        print(" ... (stopped; the run is whole)", end="")
    print()
    return True


def draw_sample(trained: Trained, console: Console) -> tuple[str, ...]:
    """Write a sheet of pictures beside the run of a model that makes pictures, a row for every class of the first `_ROWS`; the
    options of a command for more of them, empty of any other model."""
    from anyformer.describe import UserError
    from anyformer.evaluation import enlarged, painter_of, sheet_of, write_png
    from anyformer.loading import labels_of
    from anyformer.training.run import load_run

    run = load_run(trained.directory / "run.toml")
    if not run.objective.traits.pictures or trained.divided:
        return ()
    names = labels_of(trained.directory)
    made = painter_of(trained.model, run.objective, run.data, names, str(trained.directory))
    place, classes = trained.directory / "pictures.png", list(names[:_ROWS] if made.classes else ())
    try:
        write_png(place, enlarged(sheet_of(made.pictures(classes, _ROWS, steps=_STEPS, guidance=2.0))))
    except UserError as error:
        console.out(f"\nno pictures: {error}")
        return ()
    console.print(f"\n[bold]pictures[/bold] {place}", soft_wrap=True)
    return ("--class", classes[-1]) if classes else ("--steps", "50")


def draws() -> Sampling:
    """How a sample of a run is drawn."""
    from anyformer.generation import Sampling

    return Sampling(temperature=0.7, top_k=50)


def within_table(trained: Trained, most: int) -> int:
    """So many tokens, or half of the model's position table, whichever is less."""
    longest = trained.model.architecture.output_stack.max_length
    return most if longest is None else min(most, longest // 2)


def print_answers(trained: Trained, before: Before, console: Console) -> None:
    """Print what the model says to some held-out questions, or how it goes on with held-out texts, beside what it said before,
    until the run's minutes end. Raises `InputError` for a question that leaves no room for an answer."""
    from rich.table import Table
    from rich.text import Text

    from anyformer.cli.text_on_screen import safe
    from anyformer.generation import GREEDY, generate

    sampling = GREEDY if trained.chat else draws()
    most = within_table(trained, _ANSWER)
    given, title = ("question", "answers to held-out questions") if trained.chat else ("text", "how held-out texts go on")
    table = Table(given, "before", "after", title=title, title_justify="left")
    for question in filter(None, dict.fromkeys(trained.prompts)):
        if trained.deadline is not None and time.monotonic() > trained.deadline:
            break
        said = (
            generate(model, trained.tokenizer, question, max_tokens=most, sampling=sampling, chat=trained.chat)
            for model in (before.model, trained.model)
        )
        table.add_row(*(Text(safe(each.strip())) for each in (question, *said)))
    console.print(table)
