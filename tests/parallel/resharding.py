"""In two processes, of each run: the first half of it, and the second half of one that one process began.

The first half is saved on one mesh and gone on with on another, so that it ends where the second half of the other began.
"""

from __future__ import annotations

import sys
from pathlib import Path

from anyformer.training import load_run, resume, train

MESHES = {
    "llama-3-8b": ({"shard": 2}, {"tensor": 2}, {"pipeline": 2, "chunks": 2}),
    "mixtral-8x7b": ({"pipeline": 2, "schedule": "zero_bubble"}, {"shard": 2, "expert": 2}, {"shard": 2, "expert": 2}),
}
"""Of each run, the meshes of its updates 1 to 3, of 4, and of those after 4 of the one that one process began."""
for file in sys.argv[1:]:
    name = Path(file).stem
    first, second, last = ({"plan.mesh": mesh} for mesh in MESHES[name])
    train(load_run(file, {**first, "steps": 3}), f"{name}-narrowing")
    resume(f"{name}-narrowing", {**second, "steps": 4})
    resume(f"{name}-widening", {**last, "steps": 8})
