"""TensorBoard: event files in the folder `tensorboard` of the run's directory."""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from anyformer.training.loggers.logger import Ending, Logger, Start, Writer
from anyformer.training.loggers.scalars import flat

FOLDER = "tensorboard"


class Tensorboard(Logger):
    """TensorBoard's event files, in the folder `tensorboard` of the run's directory, by `torch.utils.tensorboard`."""

    kind: Literal["tensorboard"] = "tensorboard"
    package: ClassVar[str] = "tensorboard"

    def begin(self, start: Start) -> Writer:
        return TensorboardWriter(start)


class TensorboardWriter(Writer):
    """Forgets: a new event file says from which step on what the others hold is void."""

    def __init__(self, start: Start) -> None:
        self._folder = start.directory / FOLDER
        self.new = not any(self._folder.glob("events.out.tfevents.*"))
        self.ids: dict[str, str] = {}
        self.where = shlex.join(["tensorboard", "--logdir", str(self._folder)])
        self._library = importlib.import_module("torch.utils.tensorboard")
        self._events = self._opened(None if self.new else start.step + 1)
        self._describe(start.step, flat(start.settings))

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._events.add_scalar(name, value, step)

    def note(self, step: int, kind: str, text: str) -> None:
        self._events.add_text(f"notes/{kind}", text, step)

    def picture(self, step: int, name: str, path: Path) -> None:
        pixels = importlib.import_module("matplotlib.image").imread(path)
        self._events.add_image(name, pixels, step, dataformats="HWC")

    def rewind(self, step: int) -> None:
        self._events.close()
        self._events = self._opened(step + 1)

    def flush(self) -> None:
        self._events.flush()

    def close(self, ending: Ending) -> None:
        self._events.close()

    def _opened(self, void: int | None) -> Any:
        """A new event file; steps from `void` on in older ones count no more."""
        return self._library.SummaryWriter(str(self._folder), purge_step=void)

    def _describe(self, step: int, settings: Mapping[str, Any]) -> None:
        """The settings as text, and as hyperparameters of this very run, where `add_hparams` would make another one."""
        self._events.add_text("run", "\n".join(f"    {path} = {value}" for path, value in settings.items()), step)
        parts = importlib.import_module("torch.utils.tensorboard.summary").hparams(settings, {"validation/loss": 0})
        for part in parts:
            self._events.file_writer.add_summary(part)
