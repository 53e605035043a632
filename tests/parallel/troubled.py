"""A run in which the second process has trouble: `python troubled.py RUN DIRECTORY dies|hangs|locks|nan`."""

from __future__ import annotations

import ctypes
import math
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from anyformer.training import load_run, train
from anyformer.training.passes import MicroBatches
from anyformer.training.step import Updates

file, directory, trouble = sys.argv[1:]
TROUBLED = 2
"""The update, from 0."""
real, seen = Updates.update, []


def update(self: Updates, batch: MicroBatches, *rest: Any) -> Any:
    if batch.step != TROUBLED or os.environ["RANK"] != "1" or seen:
        return real(self, batch, *rest)
    if trouble == "dies":
        os._exit(3)
    if trouble == "hangs":
        print(f"{os.getpid()} hangs", flush=True)
        while True:
            time.sleep(1)
    if trouble == "locks":  # itself, in C, where signals do not reach Python
        print(f"{os.getpid()} hangs", flush=True)
        library, mutex = ctypes.CDLL(None), (ctypes.c_byte * 64)()
        while True:
            library.pthread_mutex_lock(mutex)
    seen.append(batch.step)  # the batch after it is whole
    return real(self, replace(batch, count=math.nan), *rest)


Updates.update = update  # type: ignore[method-assign]
changes = {"non_finite": {"kind": "skip"}, "plan.mesh.timeout": 5 if trouble == "hangs" else 600}
train(load_run(Path(file), changes), directory)
