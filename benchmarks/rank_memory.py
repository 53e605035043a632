"""Memory of a process of several, foretold and measured: python -m benchmarks.rank_memory

A model of 55 M parameters trains for three updates in each mesh; measured is how far a process grew from before its model was
made to its largest size until then, as the system says it (Linux alone), which no clock changes. The file of results has both.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from anyformer.api import architecture
from anyformer.costs.memory_check import training_bytes
from anyformer.data import Bytes, Text
from anyformer.describe import change_all
from anyformer.files import write_text
from anyformer.mesh import Mesh
from anyformer.plan import Plan
from anyformer.training import Checkpoints, Evaluation, Run, loop, memory_meter, train
from anyformer.training.priced import step_of
from anyformer.training.session import Session
from anyformer.training.trainer import Trainer

RESULT = Path(__file__).parent / "results" / "rank_memory.json"
MESHES = (
    {"data": 2}, {"shard": 2}, {"shard": 4}, {"data": 2, "shard": 2}, {"tensor": 2}, {"context": 2}, {"pipeline": 2},
    {"pipeline": 2, "shard": 2},
)  # fmt: skip
CHANGES = {
    "width": 512, "decoder.order": "layer*12", "decoder.layer.attention.heads": 8, "decoder.layer.attention.kv_heads": 8,
    "decoder.layer.attention.head_width": 64, "decoder.layer.feedforward.width": 2048, "embedding.vocab": 16000,
}  # fmt: skip


def run_of(mesh: Mesh, text: Path) -> Run:
    """Three updates of eight rows of 128 tokens."""
    return Run(
        architecture=change_all(architecture("llama-3-8b"), CHANGES), steps=3, batch=8, length=128, accumulation=2,
        data=Text(paths=(str(text),), tokenizer=Bytes(), validation=0.1), plan=Plan(precision="fp32", compile="off", mesh=mesh),
        evaluation=Evaluation(every=99, batches=1, final_tokens=128, baseline=False), checkpoints=Checkpoints(every=99),
    )  # fmt: skip


def work(mesh: Mesh, place: Path) -> None:
    """One of the processes: train, and write what it took and what was foretold."""
    run, found, start, save = run_of(mesh, place / "text.txt"), dict[str, Any](), Trainer.start, Session._write

    def started(*given: object) -> Trainer:
        memory_meter.give_back()
        found["before"] = memory_meter.status("VmRSS")
        return start(*given)  # type: ignore[arg-type]

    def saved(session: Session, validation: float | None = None) -> None:
        found.setdefault("peak", memory_meter.status("VmHWM"))
        save(session, validation)

    loop.Trainer.start, Session._write = staticmethod(started), saved  # type: ignore[method-assign]
    train(run, place / "run", console=Console(quiet=True))
    own = run.batch // mesh.over(int(os.environ["WORLD_SIZE"])).replicas
    foretold = training_bytes(
        step_of(run, place / "run"), batch=own, length=run.length, plan=run.plan, accumulation=run.accumulation,
        processes=replace(memory_meter.processes_of(run, torch.device("cpu")), here=1),
    )  # fmt: skip
    told = {"measured": found["peak"] - found["before"], "foretold": foretold}
    write_text(place / f"{os.environ['RANK']}.json", json.dumps(told))


def measured(mesh: dict[str, int]) -> dict[str, object]:
    """The largest process of a mesh."""
    with tempfile.TemporaryDirectory() as folder:
        place, count = Path(folder), Mesh(**mesh).divided * mesh.get("data", 1)
        write_text(place / "text.txt", "\n".join(f"def f{i}(x):\n    return x + {i * i % 97}\n" for i in range(4000)))
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
        program = ["-m", "benchmarks.rank_memory", json.dumps(mesh), folder]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "ANYFORMER_CACHE": f"{folder}/cache"}
        subprocess.run([*command, *program], check=True, env=environment)
        found = [json.loads((place / f"{rank}.json").read_text()) for rank in range(count)]
    most = max(found, key=lambda each: each["measured"])
    return {"mesh": mesh, "processes": count, **most, "ratio": round(most["foretold"] / most["measured"], 3)}


def main() -> None:
    """Every mesh, and the result."""
    if len(sys.argv) > 1:
        work(Mesh(**json.loads(sys.argv[1])), Path(sys.argv[2]))
        return
    rows = []
    for mesh in MESHES:
        rows.append(measured(mesh))
        print(rows[-1], flush=True)
    write_text(RESULT, json.dumps({"torch": torch.__version__, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
