"""A run in which the second process has trouble: `python troubled.py RUN DIRECTORY dies|nan`."""

from __future__ import annotations

import math
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from anyformer.training import load_run, train
from anyformer.training.trainer import Trainer

file, directory, trouble = sys.argv[1:]
TROUBLED = 2
"""The update, from 0."""
real, seen = Trainer.update, []


def update(self: Trainer, step: int, *rest: Any) -> Any:
    if step != TROUBLED or os.environ["RANK"] != "1" or seen:
        return real(self, step, *rest)
    if trouble == "dies":
        os._exit(3)
    seen.append(step)  # the batch after it is whole

    def passes(pieces: Any, noise: Any, count: float, scale: Any = None) -> Any:
        return self.passes(pieces, noise, math.nan, scale)

    return real(replace(self, passes=passes), step, *rest)


Trainer.update = update  # type: ignore[method-assign]
train(load_run(Path(file), {"non_finite": {"kind": "skip"}}), directory)
