"""Memory of a process of several, foretold and measured: python -m benchmarks.rank_memory

A model of 67 M parameters, and one of 60 M with experts, train for two updates in each mesh. Measured is how far a process
grew from before its model was made to its largest size until then, as the system says it (Linux alone), beyond what one of a
tiny model of as many layers grows in the same mesh: modules that torch loads late, connections, Python's own objects. No clock
changes it. The file of results has both.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from anyformer.api import architecture
from anyformer.costs.memory_check import Processes, training_bytes
from anyformer.data import Bytes, Text
from anyformer.describe import change_all
from anyformer.files import write_text
from anyformer.mesh import Mesh
from anyformer.plan import Plan
from anyformer.training import Checkpoints, Evaluation, Run, allocator, loop, memory_meter, train
from anyformer.training.memory_meter import members_of
from anyformer.training.priced import step_of
from anyformer.training.session import Session
from anyformer.training.trainer import Trainer

RESULT = Path(__file__).parent / "results" / "rank_memory.json"
DENSE, EXPERTS = "llama-3-8b", "mixtral-8x7b"
_ATTENTION = "decoder.layer.attention"
CHANGES: Mapping[str, Mapping[str, object]] = {
    DENSE: {
        "width": 512, "decoder.order": "layer*12", f"{_ATTENTION}.heads": 8, f"{_ATTENTION}.kv_heads": 8,
        f"{_ATTENTION}.head_width": 64, "decoder.layer.feedforward.width": 2048, "embedding.vocab": 16000,
    },
    EXPERTS: {
        "width": 512, "decoder.order": "layer*6", f"{_ATTENTION}.heads": 8, f"{_ATTENTION}.kv_heads": 8,
        f"{_ATTENTION}.head_width": 64, "decoder.layer.experts.width": 1024, "decoder.layer.experts.experts": 4,
        "embedding.vocab": 16000,
    },
}  # fmt: skip
TINY: Mapping[str, Mapping[str, object]] = {
    DENSE: {"width": 32, f"{_ATTENTION}.head_width": 4, "decoder.layer.feedforward.width": 32, "embedding.vocab": 300},
    EXPERTS: {"width": 32, f"{_ATTENTION}.head_width": 4, "decoder.layer.experts.width": 32, "embedding.vocab": 300},
}


@dataclass(frozen=True)
class Trial:
    """Training in a mesh; `tiny`: of a model as deep that is narrow."""

    model: str
    mesh: Mapping[str, Any]
    tiny: bool = False

    @property
    def processes(self) -> int:
        mesh = Mesh(**self.mesh)
        return mesh.divided * (mesh.data or 1)

    def run(self, text: Path) -> Run:
        """Two updates of eight rows of 128 tokens: the second one finds the optimiser's state."""
        model = change_all(architecture(self.model), {**CHANGES[self.model], **(TINY[self.model] if self.tiny else {})})
        return Run(
            architecture=model, steps=2, batch=8, length=128, accumulation=2,
            data=Text(paths=(str(text),), tokenizer=Bytes(), validation=0.1),
            plan=Plan(precision="fp32", compile="off", mesh=Mesh(**self.mesh)),
            evaluation=Evaluation(every=99, batches=1, final_tokens=128, baseline=False), checkpoints=Checkpoints(every=99),
        )  # fmt: skip


TRIALS = (
    *(
        Trial(DENSE, mesh)
        for mesh in (
            {"data": 2}, {"shard": 2}, {"shard": 4}, {"data": 2, "shard": 2}, {"tensor": 2}, {"tensor": 2, "shard": 2},
            {"context": 2}, {"pipeline": 2}, {"pipeline": 2, "shard": 2}, {"pipeline": 2, "chunks": 2},
            {"pipeline": 2, "schedule": "zero_bubble"}, {"pipeline": 2, "shard": 2, "schedule": "zero_bubble"},
        )
    ),
    Trial(EXPERTS, {"shard": 2}), Trial(EXPERTS, {"shard": 2, "expert": 2}),
)  # fmt: skip


def watched(run: Run, place: Path) -> dict[str, int]:
    """What this process took when it trained the run: the bytes that it grew, all that it had until it saved, and at last."""
    found, start, save = dict[str, Any](), Trainer.start, Session._write

    def started(*given: object) -> Trainer:
        allocator.give_back()
        found["before"] = memory_meter.status("VmRSS")
        return start(*given)  # type: ignore[arg-type]

    def saved(session: Session, validation: float | None = None) -> None:
        found.setdefault("peak", memory_meter.status("VmHWM"))
        save(session, validation)

    loop.Trainer.start, Session._write = staticmethod(started), saved  # type: ignore[method-assign]
    train(run, place / "run", console=Console(quiet=True))
    return {"grown": found["peak"] - found["before"], "resident": found["peak"], "ended": memory_meter.status("VmHWM") or 0}


def foretold(run: Run, processes: int) -> int:
    """The bytes of the largest process, as they are known before a run begins."""
    step, own = step_of(run), run.batch // run.plan.mesh.over(processes).replicas
    return training_bytes(
        step, batch=own, length=run.length, plan=run.plan, accumulation=run.accumulation,
        processes=Processes(members_of(run, step)),
    )  # fmt: skip


def launched(program: str, arguments: list[str], count: int, place: Path) -> list[dict[str, int]]:
    """What each of so many processes of a program wrote into a folder with a text."""
    write_text(place / "text.txt", "\n".join(f"def f{i}(x):\n    return x + {i * i % 97}\n" for i in range(4000)))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ANYFORMER_CACHE": f"{place}/cache"}
    subprocess.run([*command, "-m", program, *arguments, str(place)], check=True, env=environment)
    return [json.loads((place / f"{rank}.json").read_text()) for rank in range(count)]


def told(place: Path, found: object) -> None:
    """Write what a process found, for `launched`."""
    write_text(place / f"{os.environ['RANK']}.json", json.dumps(found))


def grown(trial: Trial) -> int:
    """Of the processes of a trial, the bytes of the one that grew most."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [trial.model, json.dumps(trial.mesh), str(int(trial.tiny))]
        found = launched("benchmarks.rank_memory", arguments, trial.processes, Path(folder))
    return max(each["grown"] for each in found)


def row(trial: Trial, measured: int, tiny: int) -> dict[str, object]:
    """What a process of a trial took beyond one of the tiny model, and what was foretold of it."""
    told = (foretold(each.run(Path(__file__)), trial.processes) for each in (trial, replace(trial, tiny=True)))
    beyond, expected = measured - tiny, next(told) - next(told)
    what = {"model": trial.model, "mesh": trial.mesh, "processes": trial.processes, "grown": measured, "tiny": tiny}
    return {**what, "measured": beyond, "foretold": expected, "ratio": round(expected / beyond, 3)}


def main() -> None:
    """Every mesh, and the result; `--foretold` alone foretells what was measured before."""
    if len(sys.argv) > 2:
        model, mesh, tiny, folder = sys.argv[1:]
        told(Path(folder), watched(Trial(model, json.loads(mesh), tiny == "1").run(Path(folder) / "text.txt"), Path(folder)))
        return
    if sys.argv[1:] == ["--foretold"]:
        before = json.loads(RESULT.read_text())["rows"]
        rows = [row(Trial(each["model"], each["mesh"]), each["grown"], each["tiny"]) for each in before]
        write_text(RESULT, json.dumps({"torch": torch.__version__, "rows": rows}, indent=1) + "\n")
        return
    rows = []
    for trial in TRIALS:
        rows.append(row(trial, grown(trial), grown(replace(trial, tiny=True))))
        print(rows[-1], flush=True)
        write_text(RESULT, json.dumps({"torch": torch.__version__, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
