"""MLflow: a run of an experiment, on a tracking server, in a database or in files."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from anyformer.training.loggers.logger import Ending, Logger, Start, Writer
from anyformer.training.loggers.scalars import flat

EXPERIMENT = "anyformer"
MOST_METRICS, MOST_PARAMETERS = 1000, 100
"""In one request."""
LONGEST = 6000
"""Characters of a parameter's value."""
STATUS: Mapping[Ending, str] = {"finished": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}


class Mlflow(Logger):
    """MLflow: a run of an experiment, on a tracking server, in a database or in files."""

    kind: Literal["mlflow"] = "mlflow"
    package: ClassVar[str] = "mlflow"
    uri: str | None = None
    """Where runs are kept: `http://...` of a server, `sqlite:///FILE`, `file:DIRECTORY`. Absent: that of
    `MLFLOW_TRACKING_URI`, or MLflow's own default."""
    experiment: str | None = None
    """Absent: that of `MLFLOW_EXPERIMENT_NAME`, or `anyformer`."""
    name: str | None = None
    """Absent: the name of the run's directory."""

    def begin(self, start: Start) -> Writer:
        return MlflowWriter(self, start)


class MlflowWriter(Writer):
    """Cannot forget: updates that are made again are there twice, at the same step, and the later ones count.

    Numbers are sent in batches, by `flush` or once there are as many as a request may hold.
    """

    def __init__(self, wanted: Mlflow, start: Start) -> None:
        library = importlib.import_module(wanted.package)
        self._entities = importlib.import_module(f"{wanted.package}.entities")
        asked = wanted.uri or ""
        # A relative place is the same one for a run that goes on in another working directory.
        known = "run" in start.ids and start.ids.get("asked") == asked
        uri = start.ids["uri"] if known else _absolute(asked or library.get_tracking_uri())
        if uri.startswith("file:"):
            os.environ.setdefault(
                "MLFLOW_ALLOW_FILE_STORE", "true"
            )  # MLflow refuses files unless it is told that they are meant
        self._client = library.MlflowClient(tracking_uri=uri)
        self._metrics: list[Any] = []
        self.new = not known
        self._run: str = start.ids["run"] if known else self._created(wanted, start)
        self.ids = {"run": self._run, "uri": uri, "asked": asked}
        self.where = f"run {self._run} at {uri}"
        self._describe({path: str(value)[:LONGEST] for path, value in flat(start.settings).items()}, start.step)

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        now = time.time_ns() // 1_000_000
        self._metrics += [self._entities.Metric(name, value, now, step) for name, value in values.items()]
        if len(self._metrics) >= MOST_METRICS:
            self.flush()

    def note(self, step: int, kind: str, text: str) -> None:
        self._client.set_tag(self._run, f"{kind}.{step}", text)

    def picture(self, step: int, name: str, path: Path) -> None:
        self._client.log_artifact(self._run, str(path))

    def flush(self) -> None:
        while self._metrics:
            self._client.log_batch(self._run, metrics=self._metrics[:MOST_METRICS])
            del self._metrics[:MOST_METRICS]

    def close(self, ending: Ending) -> None:
        self.flush()
        self._client.set_terminated(self._run, status=STATUS[ending])

    def _created(self, wanted: Mlflow, start: Start) -> str:
        """The identifier of a new run of the experiment, which is made if it is not there."""
        name = wanted.experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
        found = self._client.get_experiment_by_name(name)
        experiment = self._client.create_experiment(name) if found is None else found.experiment_id
        return str(self._client.create_run(experiment, run_name=wanted.name or start.name).info.run_id)

    def _describe(self, settings: Mapping[str, str], step: int) -> None:
        """The settings as parameters; of a run that goes on, which cannot change those, the new values as tags."""
        if self.new:
            pairs = [self._entities.Param(path, value) for path, value in settings.items()]
            for first in range(0, len(pairs), MOST_PARAMETERS):
                self._client.log_batch(self._run, params=pairs[first : first + MOST_PARAMETERS])
            return
        self._client.update_run(self._run, status="RUNNING")
        before = self._client.get_run(self._run).data.params
        for path, value in settings.items():
            if before.get(path) != value:
                self._client.set_tag(self._run, f"changed.{step}.{path}", value)


def _absolute(uri: str) -> str:
    """A tracking URI that names the same place from every working directory."""
    local = uri.startswith(("file:", ".", "/")) and not uri.startswith("file://")
    return Path(uri.removeprefix("file:")).absolute().as_uri() if local else uri
