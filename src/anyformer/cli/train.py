"""`anyformer train`."""

from __future__ import annotations

import time
from os import environ
from os.path import exists, isdir, isfile  # which no name is too long for
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from anyformer.cli import arguments
from anyformer.cli.elsewhere import fetched, is_elsewhere
from anyformer.cli.ending import finish
from anyformer.cli.options import grouped
from anyformer.cli.quiet import progress_aside
from anyformer.cli.terminal import tell, with_bars
from anyformer.cli.threads import wait_briefly
from anyformer.cli.train_options import Keeping, RunOptions
from anyformer.describe import UserError
from anyformer.stores import is_url

if TYPE_CHECKING:
    from anyformer.model import Architecture
    from anyformer.training import Run

EXAMPLES = """
anyformer train recipes/stdlib.toml
anyformer train llama-12m --data my_texts/ --set steps=1000 --set optimiser.learning_rate=1e-3
anyformer train deepseek-v3 --tiny --data python-stdlib
anyformer train t5-small --tiny --data python-summaries --objective seq2seq
anyformer train llama-12m --tiny --data parity --set steps=200
anyformer train whisper-tiny --tiny
anyformer train --start-from path/to/model --data my_texts/ --set 'tuning.adapter={kind="lora",rank=8}'
anyformer train --start-from hub:org/model --data my_texts/
anyformer train --resume runs/2026-01-01-120000
anyformer train recipes/stdlib.toml --out runs/stdlib --set checkpoints.store=s3://bucket/runs
anyformer train --resume s3://bucket/runs/stdlib
anyformer train recipes/stdlib.toml --logger tensorboard
"""


@grouped
def run(*, asked: RunOptions, keeping: Keeping) -> None:
    """Train a model on text. Ctrl-C saves and stops, and --resume continues.

    The directory of the run holds run.toml with every setting, metrics.jsonl, checkpoints, and at the end loss.png and
    summary.json: speed, memory and FLOPs, predicted and measured.

    The command exits with 0 when the run is finished, with 2 if it was refused before any work, with 1 if it failed on the way
    (a loss that is not finite, a full disk), and with 130 after Ctrl-C or 143 after SIGTERM, with everything trained saved.
    """
    began = time.monotonic()
    what, resume = asked.start_from if asked.what is None else asked.what, keeping.resume
    _refuse(what, asked, keeping)
    assigned = _assigned(asked, keeping)
    if resume is not None and what is None and not is_url(resume) and not isfile(f"{resume}/run.toml"):
        raise UserError(f"{resume}: not a run directory, it has no run.toml")
    if what is not None:
        check(what, tuple(asked.data or ()))
    arguments.check_counts(assigned)
    first = environ.get("RANK", "0") == "0"  # of several processes the first one speaks
    if first:
        tell(f"anyformer train {what or f'--resume {resume}'}: loading torch")
    wait_briefly(environ)
    from anyformer.training import Stopped, begin_or_resume, train
    from anyformer.training import resume as resume_run
    from anyformer.training.journal import SUMMARY

    try:
        if resume is not None and what is not None:
            run = resolve_run(what, (), assigned)
            with progress_aside(keeping.json):
                trained = begin_or_resume(run, resume, assigned, began=began, console=with_bars())
        elif resume is not None:
            with progress_aside(keeping.json):
                trained = resume_run(resume, assigned, began=began, console=with_bars())
        else:
            assert what is not None
            if asked.start_from is not None:
                assigned = {"start_from": asked.start_from, **assigned}
            if what == asked.start_from:
                what = str(fetched(what))
            resolved = resolve_run(what, tuple(asked.data or ()), assigned, tiny=asked.tiny, objective=asked.objective)
            if keeping.verify_resume:
                raise typer.Exit(verify(resolved))
            with progress_aside(keeping.json):
                trained = train(resolved, keeping.out, began=began, console=with_bars())
    except Stopped as stopped:
        if first:
            tell(f"anyformer: stopped while {stopped.where}; {_kept(stopped.kept, resumes=resume is not None)}")
        raise typer.Exit(stopped.exit_code) from None
    if trained.exit_code:
        raise typer.Exit(trained.exit_code)
    if first and keeping.json:
        print((trained.directory / SUMMARY).read_text(encoding="utf-8"), end="")
    elif first:
        finish(trained)


def _kept(step: int | None, *, resumes: bool) -> str:
    """What is left of a run whose updates could not be saved any more. `step`: of its newest checkpoint, None where no update
    was made; `resumes`: whether it had begun before."""
    if step:
        return f"the checkpoint of step {step} is whole"
    if step == 0:
        return "nothing was saved yet"
    return "what was saved before is kept" if resumes else "nothing was trained yet"


def _refuse(what: str | None, asked: RunOptions, keeping: Keeping) -> None:
    """Refuse options that do not go together."""
    both = keeping.resume is not None and what is not None
    if (keeping.resume is None and what is None) or (both and (asked.start_from is not None or not _is_file(what))):
        raise UserError(
            "give either a run to start (RUN.toml, NAME or --start-from PATH) or --resume RUN_DIR; or RUN.toml and --resume "
            "RUN_DIR, to begin it there if it has not begun"
        )
    if both and any(text.partition("=")[0].strip() == "minutes" for text in asked.changes or ()):
        raise UserError("--set minutes would be more minutes after every start again: set minutes in the run's file")
    if keeping.resume is not None and (asked.data or keeping.out or asked.tiny or asked.objective):
        raise UserError(
            "--resume continues a run with its own data and architecture, in its own directory: leave out --data, --tiny, "
            "--objective and --out"
        )
    if keeping.verify_resume and (keeping.resume or keeping.out):
        raise UserError(
            "--verify-resume keeps nothing and begins anew: leave out --out, and of a run that exists give RUN/run.toml"
        )
    if keeping.verify_resume and keeping.json:
        raise UserError("--json prints the summary of a run, and --verify-resume keeps none: leave one of them out")


def _is_file(what: str | None) -> bool:
    """Whether this is named as the file of a run is."""
    return what is not None and Path(what).suffix in (".toml", ".json") and not isdir(what)


def _assigned(asked: RunOptions, keeping: Keeping) -> dict[str, object]:
    """The values of the run that options give, by path."""
    found = arguments.compiled(asked.compile, arguments.assigned(asked.changes))
    if keeping.logger:
        if "loggers" in found:
            raise UserError("give either --logger or --set loggers=...")
        found["loggers"] = keeping.logger
    return found


def verify(run: Run) -> int:
    """Prove that a run can be killed and resumed, and print the proof; gives the exit code."""
    from anyformer.training.verification import verify_resume

    verified = verify_resume(run, lambda line: tell(f"anyformer train: {line}"))
    print("\n".join(verified.lines()))
    return 0 if verified.same else 1


def check(what: str, paths: tuple[str, ...]) -> None:
    """Refuse a misspelt name and missing text before torch is loaded."""
    from anyformer import catalogue
    from anyformer.cli.recognising import task_in
    from anyformer.data.rows import find_records
    from anyformer.describe import did_you_mean

    path = Path(what)
    if not exists(path) and not is_elsewhere(what) and path.suffix not in (".toml", ".json"):
        names = [entry.name for entry in catalogue.listing()]
        if what not in names:
            raise UserError(f"no architecture is called {what!r}, and no file or directory{did_you_mean(what, names)}")
        paths = paths or _usual_paths(what, catalogue.architecture(what))
    if not task_in(paths) and paths:
        find_records(paths, ("*",))


def resolve_run(
    what: str, paths: tuple[str, ...], assigned: dict[str, object], *, tiny: bool = False, objective: str | None = None
) -> Run:
    """The run that a file describes, or the default run of an architecture on some data; with values changed by path.

    `objective`: its kind; by default the usual one of the architecture.
    """
    from anyformer.cli.recognising import data_of_kind, objective_for, objective_of, say, task_in
    from anyformer.describe import DescriptionError, change_all, leads_to
    from anyformer.objectives.choice import usual_objective
    from anyformer.resolving import architecture, is_run
    from anyformer.training import default_run, load_run
    from anyformer.training.run import on_stored_base, started

    if "steps" in assigned:
        assigned = {"minutes": None, **assigned}
    if is_run(what) and not Path(what).is_dir():
        if tiny or objective:
            said = "--tiny shrinks an architecture" if tiny else "--objective is for an architecture"
            raise UserError(f"{said}, and {what} is a run: give a NAME with --data")
        if task := task_in(paths):
            asked = {"kind": objective_for(load_run(Path(what)).architecture)}
            assigned = {"data": {"kind": "task", "task": task}, "objective": asked, **assigned}
        elif paths:
            assigned = {**assigned, "data.paths": list(paths)}
        return load_run(Path(what), assigned)
    model = architecture(what, tiny=tiny)
    if not paths:
        paths = _usual_paths(what, model)
        tell(f"data: {', '.join(paths)}, since --data names none")
    own = {path.removeprefix(_OBJECTIVE): value for path, value in assigned.items() if path.startswith(_OBJECTIVE)}
    if objective is None:
        objective = objective_for(model) if task_in(paths) else usual_objective(model, paths)
    chosen = None if objective is None else objective_of(objective, own, model)
    data, assigned = data_of_kind(model, paths, assigned)
    run = default_run(model, paths, chosen, data)
    if data is None:
        say(paths, run.data, run.objective.kind)
    source = assigned.get("start_from")
    if isinstance(source, str):
        named = any(leads_to(path, "data.tokenizer") for path in assigned)
        run, assigned = (
            started(run, source, named=named),
            {path: value for path, value in assigned.items() if path != "start_from"},
        )
    kind, vocab = run.data.tokenizer.kind, model.embedding.symbols or 0
    try:
        run = change_all(run, assigned)
        run = run if "tuning.base" in assigned else on_stored_base(run)
    except DescriptionError as error:
        if not any(leads_to(path, "data.tokenizer") and path.count(".") > 1 for path in assigned):
            raise
        raise UserError(
            f"{error}\nThe tokenizer is {kind!r}, chosen for a vocabulary of {vocab:,} tokens; set another as a whole: "
            """--set 'data.tokenizer={kind="byte_pairs",vocab=512}' --set embedding.vocab=512"""
        ) from None
    if kind == "bytes" and vocab and not any(leads_to(path, "data.tokenizer") for path in assigned):
        tell(f"tokenizer: bytes, because the vocabulary is small ({vocab:,} tokens)")
    return run


_OBJECTIVE = "objective."


def _usual_paths(what: str, model: Architecture) -> tuple[str, ...]:
    """The built-in records that suit a model which reads no text alone."""
    from anyformer.requirements.usual import usual_records

    records = usual_records(model)
    if not records:
        raise UserError(
            f"what should {what} be trained on? Give --data PATH, or --data python-stdlib for the text on this machine"
        )
    return (records,)
