"""Weights & Biases: a run of a project on its server, or, offline, files to send there later."""

from __future__ import annotations

import importlib
import os
import secrets
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from anyformer.describe import UserError
from anyformer.training.loggers.logger import Ending, Logger, Start, Writer

PROJECT = "anyformer"
STEP = "step"
"""The metric over which all others are drawn. W&B's own step cannot go back, as a run may."""
SETTINGS = {"console": "off", "silent": True, "init_timeout": 30, "finish_timeout": 20}
"""It takes no output of the run, prints nothing, and gives up soon where no server answers; `WANDB_INIT_TIMEOUT` and so on say
otherwise."""


class Wandb(Logger):
    """Weights & Biases. Its files are in the folder `wandb` of the run's directory; `WANDB_MODE=offline` needs no network."""

    kind: Literal["wandb"] = "wandb"
    package: ClassVar[str] = "wandb"
    project: str | None = None
    """Absent: that of `WANDB_PROJECT`, or `anyformer`."""
    entity: str | None = None
    """The user or team that owns the project. Absent: that of `WANDB_ENTITY`, or the user's default."""
    name: str | None = None
    """Absent: the name of the run's directory."""
    group: str | None = None
    """Runs of one group are shown together."""
    tags: tuple[str, ...] = ()
    """Words to find the run by."""

    def check(self) -> None:
        wandb = importlib.import_module(self.package)
        if wandb.setup().settings.mode not in ("online", "shared", "run"):
            return
        try:
            wandb.login(verify=False)  # which asks for a key now, where somebody can answer
        except Exception as error:
            raise UserError(
                f"loggers: 'wandb' is not logged in ({error}): run wandb login, set WANDB_API_KEY, or set WANDB_MODE=offline "
                "to send the run later"
            ) from error

    def begin(self, start: Start) -> Writer:
        return WandbWriter(self, start)


class WandbWriter(Writer):
    """Cannot forget: updates that are made again are there twice, at the same `step`.

    A file that is written offline replaces those before it when it is sent, so that each is told the run from its beginning.
    """

    def __init__(self, wanted: Wandb, start: Start) -> None:
        self._library: Any = importlib.import_module(wanted.package)
        known = self._library.Settings.model_fields  # not every version can be told to give up
        settings = {key: value for key, value in SETTINGS.items() if key in known and f"WANDB_{key.upper()}" not in os.environ}
        self._run: Any = self._library.init(
            project=wanted.project or os.environ.get("WANDB_PROJECT") or PROJECT,
            entity=wanted.entity,
            name=wanted.name or start.name,
            group=wanted.group,
            tags=list(wanted.tags) or None,
            id=start.ids.get("id") or secrets.token_hex(6),
            resume="allow",
            reinit="create_new",
            dir=str(start.directory),
            settings=self._library.Settings(**settings),
        )
        self.ids = {"id": self._run.id}
        self.new = self._run.offline or not self._run.resumed
        send = shlex.join(["wandb", "sync", str(Path(self._run.dir).parent)])
        self.where = f"offline; to send it: {send}" if self._run.offline else str(self._run.url)
        self._run.config.update(dict(start.settings), allow_val_change=True)
        self._run.define_metric(STEP)
        self._run.define_metric("*", step_metric=STEP)

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log({STEP: step, **values})

    def note(self, step: int, kind: str, text: str) -> None:
        self._run.log({STEP: step, f"notes/{kind}": text})

    def picture(self, step: int, name: str, path: Path) -> None:
        self._run.log({STEP: step, name: self._library.Image(str(path))})

    def close(self, ending: Ending) -> None:
        self._run.finish(exit_code=int(ending == "failed"))
