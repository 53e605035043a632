"""In four processes: reads a checkpoint on one mesh after another, each what the one before wrote; then checks damaged ones.

rewriting.py few|all OUT RUN CHECKPOINT ...

Of a run that starts from other weights, what it begins with on the first mesh is written too, and how many bytes each process
then holds of them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from unittest import mock

from anyformer import checkpoint
from anyformer.checkpoint import copied, digests, shared
from anyformer.data import Corpus
from anyformer.mesh import Mesh
from anyformer.model.divided import local
from anyformer.model.transformer import Transformer
from anyformer.training import Run, load_run
from anyformer.training.held_out import corpus_of
from anyformer.training.instability import Past
from anyformer.training.parallel import joined
from anyformer.training.precision import Host, default_device
from anyformer.training.run_models import Given
from anyformer.training.starting import take
from anyformer.training.trainer import Trainer

FEW = {
    "llama-3-8b": (
        {"data": 4}, {"data": 2, "shard": 2}, {"shard": 2, "tensor": 2}, {"pipeline": 2, "tensor": 2},
        {"shard": 2, "context": 2}, {"data": 2, "tensor": 2},
    ),
    "mixtral-8x7b": ({"shard": 4, "expert": 2}, {"shard": 4, "expert": 4}, {"shard": 2, "tensor": 2, "expert": 2}),
    "gpt2": ({"shard": 4}, {"pipeline": 2, "data": 2}), "gemma-2-2b": ({"shard": 4},),
    "electra-small": ({"pipeline": 2, "shard": 2},), "llama-2-7b": ({"tensor": 4},),
    "mistral-7b-v0.1": ({"context": 2, "tensor": 2},), "qwen3-30b-a3b": ({"shard": 4},),
}  # fmt: skip
"""Every mesh of four processes with some model, and every kind of what is saved on one at least."""
MORE = {
    "llama-3-8b": (
        {"shard": 4}, {"tensor": 4}, {"pipeline": 2, "shard": 2}, {"context": 2, "tensor": 2}, {"pipeline": 2, "data": 2},
    ),
    "mixtral-8x7b": ({"pipeline": 2, "shard": 2},),
    "electra-small": ({"shard": 4},), "llama-2-7b": ({"pipeline": 2, "shard": 2}, {"shard": 2, "tensor": 2}),
    "mistral-7b-v0.1": ({"pipeline": 2, "data": 2},),
    "qwen3-30b-a3b": ({"pipeline": 2, "shard": 2}, {"data": 2, "shard": 2}, {"pipeline": 2, "data": 2}),
}  # fmt: skip
MESHES = {"few": FEW, "all": {name: (*meshes, *MORE.get(name, ())) for name, meshes in FEW.items()}}


def taking(run: Run, corpus: Corpus) -> Given:
    """Gives a model the weights that a run starts from."""

    def given(model: Transformer) -> list[str]:
        return [] if run.start_from is None else take(model, run.start_from, corpus.tokenizer, run.tuning.base).lines()

    return given


def main(which: str, out: str, *given: str) -> None:
    host = Host(default_device(), {})
    for file, origin in zip(given[::2], given[1::2], strict=True):
        name, corpus, last = Path(file).stem, None, Path(origin)
        for number, sizes in enumerate(MESHES[which][name], 1):
            run = load_run(file, {"plan.mesh": sizes, "batch": 8, "accumulation": 2})
            with joined(Mesh(**sizes), host.device) as ranks:
                corpus = corpus or ranks.in_turn(lambda run=run: corpus_of(run))
                trainer = Trainer.start(run, corpus, host, taking(run, corpus), ranks=ranks)
                if run.start_from is not None and number == 1:
                    trainer.saving(Path(out) / f"{name}-begun", 0, None, Past(), shared)()
                    Path(f"{out}-{name}-{ranks.rank}").write_text(str(sum(local(x).nbytes for x in trainer.model.parameters())))
                trainer = trainer.restored(last)
                kept = copied if number % 2 else shared  # as where there is room for a copy, and where there is none
                trainer.saving(Path(out) / name, number, None, Past(), kept)()
                last = Path(out) / name / "checkpoints" / f"step-{number:08d}"
    check(Path(out) / "gpt2", host)


def check(run: Path, host: Host) -> None:
    """Change a byte of the newest checkpoint; every process leaves beside it what it was told, and what it hashed itself."""
    with joined(Mesh(), host.device) as ranks:
        step = ranks.same(lambda: checkpoint.steps(run))[-1]
        share = checkpoint.directory_of(run, step) / "model-share-00003-of-00004.safetensors"
        data = share.read_bytes()
        ranks.every(None)
        ranks.first_alone(lambda: write(share, data[:-1] + bytes([data[-1] ^ 1])))
        with mock.patch.object(digests, "measured", wraps=digests.measured) as hashed:
            found, damaged = checkpoint.latest(run, also=("optimiser.safetensors",), among=ranks)
        ranks.first_alone(lambda: write(share, data))
        said = {"found": str(found), "damaged": damaged, "hashed": [str(call.args[0]) for call in hashed.call_args_list]}
        (run / f"checked-{ranks.rank}.json").write_text(json.dumps(said))


def write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


if __name__ == "__main__":
    main(*sys.argv[1:])
