"""How long a step of four processes waits for a save, beside a plain copy of the same share in memory.

    python -m benchmarks.share_waits            # some five minutes of four cores, and nothing else should run meanwhile
    python -m benchmarks.share_waits --tiny     # a rehearsal, which writes no result

Four processes, one thread each, divide a Llama of 12 M parameters with AdamW (`plan.mesh.shard = 4`) and save in the
background. Right before each save every process copies the tensors that it is about to save, one by one, into new memory; all
begin both together, and wait for the last after each. Compared are, in each process, the medians over the saves of the seconds
in `Saver.save`, which is all that a step waits for where the write before is done, and of those of the plain copies; `late`
counts the saves that found the write before unfinished.
Writes benchmarks/results/share_waits.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from benchmarks.compare import RESULTS, machine
from benchmarks.saves import TINY, Sizes, run_of
from rich.console import Console
from torch import Tensor

from anyformer.checkpoint import Take
from anyformer.describe import change_all
from anyformer.training import train
from anyformer.training.saving import Saver, Write

RESULT = RESULTS / "share_waits.json"
PROCESSES, SAVES, EVERY = 4, 12, 6
BOUND = 1.5
"""Times a plain copy that a step may wait."""


@dataclass
class Waits:
    """Of each save in one process: seconds that the step waited, seconds of a plain copy of the same tensors, and whether the
    write before was still going on; `bytes` of the share."""

    waits: list[float] = field(default_factory=list)
    copies: list[float] = field(default_factory=list)
    late: int = 0
    bytes: int = 0

    @property
    def ratio(self) -> float:
        return statistics.median(self.waits) / statistics.median(self.copies)

    def saving(self, real: Callable[..., None]) -> Callable[..., None]:
        """`Saver.save`, timed beside a plain copy."""

        def save(saver: Saver, step: int, take: Callable[[Take], Write]) -> None:
            tensors: list[Tensor] = []
            take(lambda tensor: tensors.append(tensor.detach()) or tensor.detach())  # type: ignore[func-returns-value]
            self.bytes = sum(tensor.nbytes for tensor in tensors)
            self.late += saver.written != saver.begun
            self.copies.append(_timed(lambda: [tensor.clone() for tensor in tensors]))
            self.waits.append(_timed(lambda: real(saver, step, take)))

        return save


def _timed(act: Callable[[], Any]) -> float:
    """Seconds of what all processes begin together, none of which goes on to compute beside the others' before all are done."""
    dist.barrier()
    began = time.perf_counter()
    act()
    seconds = time.perf_counter() - began
    dist.barrier()
    return seconds


def measure(sizes: Sizes, saves: int, directory: Path, paths: tuple[str, ...]) -> list[Waits]:
    """What each process found; the first save, at which memory is new to all, is left out."""
    torch.set_num_threads(1)
    run = change_all(run_of(sizes, (saves + 1) * EVERY, EVERY, paths), {"plan.mesh.shard": PROCESSES, "batch": PROCESSES})
    waits = Waits()
    with mock.patch.object(Saver, "save", waits.saving(Saver.save)):
        train(run, directory, console=Console(quiet=True))
    found: list[Any] = [None] * PROCESSES
    dist.all_gather_object(found, replace(waits, waits=waits.waits[1:], copies=waits.copies[1:]))
    return found


def told(found: list[Waits]) -> dict[str, Any]:
    """The result, in plain data."""
    rounded = [{**asdict(each), "waits": _short(each.waits), "copies": _short(each.copies)} for each in found]
    worst = max(each.ratio for each in found)
    return {
        "date": date.today().isoformat(), "machine": machine(), "torch": torch.__version__, "load": _short(os.getloadavg()),
        "bound": BOUND, "worst_ratio": round(worst, 3), "ratios": _short([each.ratio for each in found]), "processes": rounded,
    }  # fmt: skip


def _short(seconds: Any) -> list[float]:
    return [round(each, 5) for each in seconds]


def main() -> None:
    """Start the processes; each of them measures, and the first one writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where the run is written and deleted; by default where the system says")
    parser.add_argument("--tiny", action="store_true", help="a small model and few saves, and no result: a rehearsal")
    arguments = parser.parse_args()
    if "RANK" not in os.environ:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            several = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(PROCESSES)]
            given = ["-m", "benchmarks.share_waits", "--folder", folder, *(["--tiny"] if arguments.tiny else [])]
            raise SystemExit(
                subprocess.run([sys.executable, *several, *given], env={**os.environ, "OMP_NUM_THREADS": "1"}).returncode
            )
    text = (str(Path(json.__file__).parent),) if arguments.tiny else ("python-stdlib",)
    sizes, saves = (TINY, 3) if arguments.tiny else (Sizes(), SAVES)
    found = told(measure(sizes, saves, arguments.folder / "run", text))
    if dist.get_rank() == 0:
        print(f"a step waits {found['worst_ratio']} times a plain copy at most (bound {BOUND})", flush=True)
        if not arguments.tiny:
            RESULT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
