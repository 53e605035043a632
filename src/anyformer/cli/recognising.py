"""Which data `--data` names: the form of its records, and what it is trained for."""

from __future__ import annotations

from collections.abc import Mapping
from os.path import exists
from typing import TYPE_CHECKING

from anyformer.cli.terminal import tell

if TYPE_CHECKING:
    from anyformer.data import Data
    from anyformer.model import Architecture
    from anyformer.objectives import Objective

_DATA = "data."


def data_of_kind(
    model: Architecture, paths: tuple[str, ...], assigned: Mapping[str, object]
) -> tuple[Data | None, dict[str, object]]:
    """The data that `--set data.kind=...` and its fields describe, and the assignments that are left; without a kind none."""
    from anyformer.data import Data
    from anyformer.data.description import usual_tokenizer
    from anyformer.describe import UserError, did_you_mean, spelled

    kind = assigned.get("data.kind")
    if not isinstance(kind, str):
        return None, dict(assigned)
    if kind not in Data.kinds:
        raise UserError(
            f"--set data.kind={kind}: no kind of data is called so{did_you_mean(kind, sorted(Data.kinds))} (the kinds are "
            f"{', '.join(sorted(Data.kinds))})"
        )
    known = Data.kinds[kind].model_fields
    own = {path.removeprefix(_DATA): value for path, value in assigned.items() if path.startswith(_DATA)}
    fields = {name: value for name, value in own.items() if "." not in name}
    given: dict[str, object] = {"paths": list(paths), "tokenizer": usual_tokenizer(model).plain()}
    given |= {spelled(name, known): value for name, value in fields.items()}
    rest = {path: value for path, value in assigned.items() if path not in {f"{_DATA}{name}" for name in fields}}
    made = Data.kinds[kind].parse(given, where="--set data")  # type: ignore[attr-defined]
    assert isinstance(made, Data)
    return made, rest


def say(paths: tuple[str, ...], data: Data, objective: str) -> None:
    """Say in a line which form of records was recognised, if the data is of it, and what is learnt of them."""
    from anyformer.data.recognising import HEARD, SHOWN, SPOKEN, recognised

    found = recognised(paths, (data.kind,))
    if data.kind in {**SPOKEN, **SHOWN, **HEARD} and found is not None:
        tell(f"data: {found.words}, for the {objective} objective")


def task_in(paths: tuple[str, ...]) -> dict[str, object] | None:
    """The generated task that `--data` names, as plain data; None where it names text. A file of the same name comes first."""
    from anyformer.tasks import named_task

    if len(paths) != 1 or exists(paths[0]):
        return None
    found = named_task(paths[0])
    return None if found is None else {"kind": found.kind, **found.plain()}


def objective_for(model: Architecture) -> str:
    """The objective by which an architecture learns a task."""
    return "task_seq2seq" if model.two_inputs else "task"


def objective_of(kind: str, fields: dict[str, object], model: Architecture) -> Objective:
    """The objective of a kind, with these fields, and with others as they suit the model."""
    from anyformer.describe import DescriptionError, UserError, did_you_mean
    from anyformer.objectives import Objective
    from anyformer.objectives.choice import suited

    if kind not in Objective.kinds:
        raise UserError(f"--objective: no objective is called {kind!r}{did_you_mean(kind, sorted(Objective.kinds))}")
    entry = Objective.kinds[kind]
    assert issubclass(entry, Objective)
    try:
        return suited(entry, model, fields)
    except DescriptionError as error:
        raise DescriptionError(error.problems, where="--objective") from None
