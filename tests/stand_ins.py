"""What runs measure, draw and count, for tests that ask about something else."""

from __future__ import annotations

import base64
import functools
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from anyformer.cache import Cache

DOT = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTj2FAAAAABJRU5ErkJggg==")
"""The smallest picture."""
HURRY = 0.2
"""Seconds in which a machine is measured; each product runs twice at least."""
SIDE = 256
"""Of its matrices: a product in 16 bits of the usual ones takes a processor without such instructions seconds."""


@dataclass(frozen=True)
class CacheIn(Cache):
    """A folder of a directory of its own, and not of the user's cache directory."""

    root: Path = Path()

    @property
    def place(self) -> Path:
        return self.root / self.folder


@contextmanager
def measured_once() -> Iterator[None]:
    """A run measures the products of its machine for a quarter of a second, draws its curve for a third, and counts the FLOPs
    of its model for another; to count its tensors takes a tenth of a tiny one. A price on this machine measures it for five
    seconds.

    Inside, products and the machine are measured once, the machine in a hurry, and curves are a dot. Declared FLOPs stand for
    counted ones, as the contracts hold of every architecture, and an update allocates nothing beside what it holds. Nobody
    waits for a disk: no test cuts the power, and a process that is killed leaves what it wrote to the system. A digit is
    synthesised once, where each reading of the built-in sounds says all of them again.
    """
    from anyformer.costs import calibration
    from anyformer.costs.allocated import Allocated
    from anyformer.data.builtin import spoken_digits
    from anyformer.training import ending, memory_meter, precision, summary

    in_a_hurry = functools.cache(functools.partial(calibration._measured, seconds=HURRY))
    product = calibration._product

    def small_product(device: Any, dtype: Any, side: int, seconds: float) -> float:
        return product(device, dtype, SIDE, seconds) * (side / SIDE) ** 3

    def unsynced(handle: int) -> None:
        pass

    def undrawn(rows: object, path: Path, **labels: object) -> None:
        path.write_bytes(DOT)

    def declared(architecture: Any, shape: Any, plan: Any) -> tuple[int, int]:
        flops = architecture.trained_cost(shape, plan).total_flops
        return flops.dense, flops.backward

    with (
        mock.patch.object(os, "fsync", unsynced),
        mock.patch.object(spoken_digits, "recording", _kept(spoken_digits.recording)),
        mock.patch.object(precision, "_rate", functools.cache(precision._rate)),
        mock.patch.object(calibration, "_product", small_product),
        mock.patch.object(calibration, "_measured", lambda device, seconds: in_a_hurry(device)),
        mock.patch.object(ending, "draw_losses", undrawn),
        mock.patch.object(summary, "total_flops", declared),
        mock.patch.object(memory_meter, "watching_allocations", return_value=nullcontext(Allocated())),
    ):
        yield


def _kept(recording: Callable[..., NDArray[np.int16]]) -> Callable[..., NDArray[np.int16]]:
    """The same recordings, each made once and not to be changed; the last 2,500, which are 50 MB."""

    @functools.lru_cache(maxsize=2500)
    def made(string: tuple[int, ...], *seed: int) -> NDArray[np.int16]:
        sound = recording(string, *seed)
        sound.setflags(write=False)
        return sound

    return lambda string, *seed: made(tuple(string), *seed)


@contextmanager
def few_records(most: int = 200) -> Iterator[None]:
    """Within, built-in data, which are drawn anew at every reading, have no more records than this."""
    from anyformer.data.builtin.source import Builtin

    read = Builtin.rows
    with mock.patch.object(Builtin, "rows", lambda *given: itertools.islice(read(*given), most)):
        yield
