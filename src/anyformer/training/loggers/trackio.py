"""Trackio: a run of a project in files of this machine, on a Hugging Face Space or on a server of its own."""

from __future__ import annotations

import importlib
import secrets
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from anyformer.training.loggers.logger import Ending, Logger, Start, Writer

PROJECT = "anyformer"


class Trackio(Logger):
    """Trackio: a run of a project in files of this machine (`trackio show`), or where `TRACKIO_SPACE_ID` and
    `TRACKIO_SERVER_URL` say."""

    kind: Literal["trackio"] = "trackio"
    package: ClassVar[str] = "trackio"
    project: str | None = None
    """Absent: `anyformer`."""
    name: str | None = None
    """A name that no other run of the project has. Absent: that of the run's directory, and six digits."""
    group: str | None = None
    """Runs of one group are shown together."""
    space: str | None = None
    """A Hugging Face Space, as in `user/name`, to which the run is sent. Absent: that of `TRACKIO_SPACE_ID`, or none."""

    def begin(self, start: Start) -> Writer:
        return TrackioWriter(self, start)


class TrackioWriter(Writer):
    """Cannot forget: updates that are made again are there twice, at the same step. A run goes on under its name, which is all
    that Trackio knows a run by."""

    def __init__(self, wanted: Trackio, start: Start) -> None:
        self._library: Any = importlib.import_module(wanted.package)
        project = start.ids.get("project") or wanted.project or PROJECT
        self.new = "name" not in start.ids
        self._run: Any = self._library.init(
            project=project,
            name=start.ids.get("name") or wanted.name or f"{start.name}-{secrets.token_hex(3)}",
            group=wanted.group,
            space_id=wanted.space,
            config=dict(start.settings),
            resume="never" if self.new else "allow",
        )
        self.ids = {"project": project, "name": str(self._run.name)}
        self.where = shlex.join(["trackio", "show", "--project", project])

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def note(self, step: int, kind: str, text: str) -> None:
        self._run.log({f"notes/{kind}": text}, step=step)

    def picture(self, step: int, name: str, path: Path) -> None:
        self._run.log({name: self._library.Image(str(path))}, step=step)

    def close(self, ending: Ending) -> None:
        self._run.finish()
