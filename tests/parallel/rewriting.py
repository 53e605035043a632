"""In four processes: reads a checkpoint on one mesh after another, each what the one before wrote.

rewriting.py OUT RUN CHECKPOINT ...
"""

from __future__ import annotations

import sys
from pathlib import Path

from anyformer.checkpoint import copied, shared
from anyformer.mesh import Mesh
from anyformer.training import load_run
from anyformer.training.held_out import corpus_of
from anyformer.training.instability import Past
from anyformer.training.parallel import joined
from anyformer.training.precision import Host, default_device
from anyformer.training.trainer import Trainer

PLAIN = (
    {"shard": 4}, {"data": 4}, {"tensor": 4}, {"data": 2, "shard": 2}, {"pipeline": 2, "shard": 2}, {"shard": 2, "tensor": 2},
    {"context": 2, "tensor": 2}, {"pipeline": 2, "tensor": 2}, {"shard": 2, "context": 2}, {"pipeline": 2, "data": 2},
    {"data": 2, "tensor": 2},
)  # fmt: skip
EXPERTS = (
    {"shard": 4, "expert": 2},
    {"shard": 4, "expert": 4},
    {"shard": 2, "tensor": 2, "expert": 2},
    {"pipeline": 2, "shard": 2},
)
MESHES = {
    "llama-3-8b": PLAIN, "mixtral-8x7b": EXPERTS, "gpt2": ({"shard": 4}, {"pipeline": 2, "data": 2}),
    "gemma-2-2b": ({"shard": 4},), "electra-small": ({"pipeline": 2, "shard": 2}, {"shard": 4}),
    "llama-2-7b": ({"tensor": 4}, {"pipeline": 2, "shard": 2}, {"shard": 2, "tensor": 2}),
    "mistral-7b-v0.1": ({"context": 2, "tensor": 2}, {"pipeline": 2, "data": 2}),
}  # fmt: skip


def main(out: str, *given: str) -> None:
    host = Host(default_device(), {})
    for file, origin in zip(given[::2], given[1::2], strict=True):
        name, corpus, last = Path(file).stem, None, Path(origin)
        for number, sizes in enumerate(MESHES[name], 1):
            run = load_run(file, {"plan.mesh": sizes, "batch": 8, "accumulation": 2})
            with joined(Mesh(**sizes), host.device) as ranks:
                corpus = corpus or ranks.in_turn(lambda run=run: corpus_of(run))
                trainer = Trainer.start(run, corpus, host, ranks=ranks).restored(last)
                take = copied if number % 2 else shared  # as where there is room for a copy, and where there is none
                trainer.saving(Path(out) / name, number, None, Past(), take)()
                last = Path(out) / name / "checkpoints" / f"step-{number:08d}"


if __name__ == "__main__":
    main(*sys.argv[1:])
