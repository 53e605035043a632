"""A run on a text that writes down which process told the logger what, and made what: `python logged.py RUN DIRECTORY TEXT`."""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from anyformer.data.stretches import Stretches
from anyformer.training import load_run, train


def init(**given: Any) -> Any:
    def log(values: dict[str, float]) -> None:
        with Path("told").open("a") as file:
            file.write(f"{os.environ['RANK']} {values['step']}\n")

    nothing: Any = lambda *given, **named: None  # noqa: E731
    return SimpleNamespace(
        id="x", offline=False, resumed=False, dir="x/y", url="x", log=log, finish=nothing, define_metric=nothing,
        config=SimpleNamespace(update=nothing),
    )  # fmt: skip


module = ModuleType("wandb")
module.__spec__ = ModuleSpec("wandb", None, origin="here")
settings = SimpleNamespace(settings=SimpleNamespace(mode="offline"))
vars(module).update(
    init=init, Image=str, setup=lambda: settings, Settings=type("Settings", (SimpleNamespace,), {"model_fields": ()})
)
if os.environ["RANK"] == "0":  # nobody else needs it
    sys.modules["wandb"] = module

write = Stretches.write


def written(self: Stretches, number: int, arrays: Any) -> None:
    with Path("made").open("a") as file:
        file.write(f"{os.environ['RANK']} {number}\n")
    write(self, number, arrays)


Stretches.write = written  # type: ignore[method-assign]
file, directory, text = sys.argv[1:]
train(load_run(Path(file), {"loggers": "wandb", "data.paths": [text]}), directory)
