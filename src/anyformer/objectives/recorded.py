"""The objective and the data of a run that was kept beside its weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from anyformer.data import Data
from anyformer.objectives.objective import Objective

Kind = TypeVar("Kind", bound=Objective)
Of = TypeVar("Of", bound=Data)


def recorded(run: Mapping[str, Any] | None, objective: type[Kind], data: type[Of]) -> tuple[Kind, Of] | None:
    """Both of a run as plain data, of a mixture the first part; None of any other, and without a run."""
    if run is None:
        return None
    plain, own = dict(run["objective"]), dict(run["data"])
    if own["kind"] == "mixture":
        own = dict(own["parts"][0]["data"])
    kind, trained = Data.kinds.get(own.pop("kind")), Objective.kinds.get(plain.pop("kind"))
    if kind is None or trained is None or not issubclass(kind, data) or not issubclass(trained, objective):
        return None
    own.setdefault("tokenizer", {"kind": "bytes"})  # of a mixture's part, which has none
    return trained.parse(plain), kind.parse(own)
