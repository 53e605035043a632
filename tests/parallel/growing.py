"""Trains a run, and writes how far the process grew while its model was made, and until the end: growing.py RUN OUT."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from anyformer.training import loop, train
from anyformer.training.trainer import Trainer


def size(name: str) -> int:
    """Bytes of an entry in /proc/self/status."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def main(run: str, out: str) -> None:
    found, start = dict[str, int](), Trainer.start

    def watched(*arguments: object) -> Trainer:
        before = size("VmRSS")
        trainer = start(*arguments)  # type: ignore[arg-type]
        found["made"] = size("VmHWM") - before
        found["before"] = before
        return trainer

    loop.Trainer.start = staticmethod(watched)  # type: ignore[method-assign]
    train(run, out)
    found["whole"] = size("VmHWM") - found["before"]
    Path(f"{out}-{os.environ['RANK']}.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
