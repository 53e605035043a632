"""A run on a clock of its own, on which an update of process 1 takes three seconds and of others one: `python slowed.py RUN
DIRECTORY`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from anyformer.training import budget, load_run, train, usage
from anyformer.training.parallel import exchange_clock
from anyformer.training.step import Updates

now, takes = 0.0, 3.0 if os.environ["RANK"] == "1" else 1.0
budget.clock = usage.clock = exchange_clock.clock = lambda: now
update: Any = Updates.update


def slowed(*arguments: Any) -> Any:
    global now
    now += takes
    return update(*arguments)


Updates.update = slowed  # type: ignore[method-assign]
file, directory = sys.argv[1:]
train(load_run(Path(file)), directory)
