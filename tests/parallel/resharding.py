"""In two processes, of each run: the first half of it, and the second half of one that one process began."""

from __future__ import annotations

import sys
from pathlib import Path

from anyformer.training import load_run, resume, train

DIVIDED = {"plan.mesh.shard": 2}
for file in sys.argv[1:]:
    name = Path(file).stem
    train(load_run(file, {**DIVIDED, "steps": 4}), f"{name}-narrowing")
    resume(f"{name}-widening", {**DIVIDED, "steps": 8})
