"""`Subject`: a trained model with all that its examples are made with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from anyformer.checkpoint import BY_ONE, Checkers
from anyformer.data import Data, TokenizerFile
from anyformer.data.recognising import recognised
from anyformer.describe import UserError, change_all, leads_to
from anyformer.engines import Asked, ModelLoading, opened
from anyformer.engines.own import AS_LOADED
from anyformer.evaluation.published_objective import published_objective
from anyformer.files import default_cache, replacing_directory
from anyformer.generation.places import PlaceMaker, RowReader
from anyformer.loading import load, trained_length
from anyformer.model.portions import Divide, keep_whole
from anyformer.model.transformer import Transformer
from anyformer.objectives import Objective
from anyformer.objectives.choice import usual_objective
from anyformer.plan import Plan
from anyformer.precision import Fp32
from anyformer.text import Tokenizer
from anyformer.training.run import Run, default_run, load_run

FALLBACK_LENGTH = 2048
"""T of a model of which neither a run, a configuration nor a position table says one."""
PLAN = Plan(precision=Fp32(), compile="off")
"""Products in the type of the stored weights."""
WORDS = {None: "stored", torch.float32: "fp32", torch.bfloat16: "bf16"}
"""Types of weights as engines are asked for them."""


@dataclass(frozen=True)
class Subject:
    """A model in evaluation mode, its tokenizer, and T, the length of its texts. `run`: the directory of the run it is from."""

    path: Path
    model: Transformer
    tokenizer: Tokenizer | None
    length: int
    run: Path | None = None
    places: PlaceMaker | None = None
    """What computes the logits of texts that go on in the place of `model`, which then is a description alone."""
    reader: RowReader | None = None
    """The same for texts that do not go on."""

    @property
    def text(self) -> Tokenizer:
        """Its tokenizer; `UserError` if there is none."""
        if self.tokenizer is None:
            raise UserError(
                f"{self.path}: has no tokenizer, so text cannot become tokens; put its tokenizer.json into the directory"
            )
        return self.tokenizer


def open_subject(
    path: Path,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
    divide: Divide = keep_whole,
    among: Checkers = BY_ONE,
    engine: str = "own",
    beside: tuple[str, ...] = (),
    said: Callable[[str], None] = lambda line: None,
) -> Subject:
    """The model of a run, a checkpoint or a Hugging Face directory; `dtype`: of its weights, by default as stored.

    `divide`: among processes, each of which holds its share; `among`: those that check a checkpoint together. `engine`: what
    computes it (`engines`), and `beside`, what is asked of it beyond scoring texts; `said` is told of the choice.
    """

    loading = ModelLoading(path, lambda: load(path, plan=PLAN, device=device, dtype=dtype, divide=divide, among=among))
    asked = Asked(path, loading, WORDS.get(dtype, str(dtype)), torch.device(device).type, beside, whole=True)
    found = opened(engine, asked, AS_LOADED)
    if found.line:
        said(found.line)
    model = found.model
    table = model.architecture.output_stack.max_length
    length = trained_length(path) or table or FALLBACK_LENGTH
    length = min(length, table or length)
    return Subject(path, model, found.tokenizer, length, run_of(path), found.places, found.reader)


def run_of(path: Path) -> Path | None:
    """The directory of the run that a path is, or is a checkpoint of; None if it is of none."""
    return next((each for each in (path, path.absolute().parent.parent) if (each / "run.toml").is_file()), None)


def described(subject: Subject, paths: tuple[str, ...], changes: Mapping[str, Any] | None = None) -> Run:
    """The run that examples of `paths` are made by, all of them to be evaluated: the model's own, else the usual one.

    `changes`: of the run, by path; another objective brings the kind of data that it reads. Without paths those of the run,
    with the part that it held out.
    """
    changes = dict(changes or {})
    own: dict[str, Any] = {"accumulation": 1}
    if paths:
        own |= {"data.paths": list(paths), "data.validation": 0.0, "data.validation_paths": []}
    if subject.tokenizer is not None:
        own["data.tokenizer"] = TokenizerFile(path=str(kept(subject.tokenizer))).plain()
    if subject.run is not None:
        return load_run(subject.run / "run.toml", own | _fields(subject.run, paths) | changes)
    if not paths:
        raise UserError(f"{subject.path}: is not from a run, which would have held out some data; give --data PATH")
    if subject.tokenizer is None and not any(leads_to(path, "data.tokenizer") for path in changes):
        raise UserError(f'{subject.path}: has no tokenizer; set one: --set \'data.tokenizer={{kind="file",path="PATH"}}\'')
    kind = changes.get("objective.kind") or usual_objective(subject.model.architecture, paths)
    asked = Objective.parse({"kind": kind}) if isinstance(kind, str) and kind in Objective.kinds else None
    objective = asked or published_objective(subject.path, subject.model.architecture)
    return change_all(default_run(subject.model.architecture, paths, objective), {"length": subject.length} | own | changes)


def _fields(run: Path, paths: tuple[str, ...]) -> dict[str, Any]:
    """The fields of records of the run's kind that are written in another of its published forms, as changes by path."""
    found = recognised(paths, (load_run(run / "run.toml").data.kind,)) if paths else None
    return {} if found is None else {f"data.{name}": value for name, value in found.table.items() if name != "kind"}


def own_data(subject: Subject) -> tuple[Data, Run] | None:
    """The data that the model was trained on, and its run; None if it is from none."""
    if subject.run is None:
        return None
    run = load_run(subject.run / "run.toml")
    return run.data, run


def kept(tokenizer: Tokenizer) -> Path:
    """A directory with the tokenizer, the same one at every call, so that tokens made with it are found again."""
    directory = default_cache() / "tokenizers" / tokenizer.beside.digest[:24]
    if not directory.is_dir():
        with replacing_directory(directory) as partial:
            tokenizer.beside.keep(partial)
    return directory
