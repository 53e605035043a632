"""In two processes, of each run: the first half of it, and the second half of one that one process began.

The first half is saved on one mesh, with a copy in a store, and gone on with on another from that copy, after its directory was
taken away; so it ends where the second half of the other began.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch.distributed as dist

from anyformer.training import load_run, resume, train

MESHES = {
    "llama-3-8b": ({"shard": 2}, {"tensor": 2}, {"pipeline": 2, "chunks": 2}),
    "mixtral-8x7b": ({"pipeline": 2, "schedule": "zero_bubble"}, {"shard": 2, "expert": 2}, {"shard": 2, "expert": 2}),
}
"""Of each run, the meshes of its updates 1 to 3, of 4, and of those after 4 of the one that one process began."""
for file in sys.argv[1:]:
    name = Path(file).stem
    first, second, last = ({"plan.mesh": mesh} for mesh in MESHES[name])
    store = f"file://{Path.cwd()}/bucket"
    train(load_run(file, {**first, "steps": 3, "checkpoints.store": store}), f"{name}-narrowing")
    dist.barrier()
    if dist.get_rank() == 0:
        Path(f"{name}-narrowing").rename(f"{name}-taken-away")
        Path("runs").mkdir(exist_ok=True)
    dist.barrier()
    resume(f"{store}/{name}-narrowing", {**second, "steps": 4})
    resume(f"{name}-widening", {**last, "steps": 8})
