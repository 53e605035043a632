"""A deep model in eight processes of one machine, each of which stays small: python -m benchmarks.deep_ranks

Eight processes train a model of 0.6 B parameters, 84 layers of width 768, in fp32 with AdamW for two updates; the largest size
of each, as the system says it, stands beside what was foretold of its growth. A model of 4 such layers is trained by eight
processes and by one: the largest relative difference of weights is written too.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from benchmarks.equality import farthest
from benchmarks.rank_memory import foretold, launched, told, watched
from rich.console import Console

from anyformer.api import architecture
from anyformer.data import Bytes, Text
from anyformer.describe import change_all
from anyformer.files import write_text
from anyformer.loading import load
from anyformer.mesh import Mesh
from anyformer.operations import Shape
from anyformer.plan import Plan
from anyformer.training import Checkpoints, Evaluation, Run, train

RESULT = Path(__file__).parent / "results" / "deep_ranks.json"
PROCESSES, DEEP, SHALLOW, MOST = 8, 84, 4, 2 * 10**9
"""Processes, layers of the large model and of the one that a process alone trains, and bytes that each process may take."""


@dataclass(frozen=True)
class DeepTrial:
    """Two updates of a model of so many layers, in so many processes that divide its weights."""

    depth: int
    processes: int

    def run(self, text: Path) -> Run:
        """A row of 32 bytes for each of eight processes."""
        changes = {
            "width": 768, "decoder.order": f"layer*{self.depth}", "decoder.layer.attention.heads": 12,
            "decoder.layer.attention.kv_heads": 12, "decoder.layer.attention.head_width": 64,
            "decoder.layer.feedforward.width": 2048, "embedding.vocab": 320,
        }  # fmt: skip
        return Run(
            architecture=change_all(architecture("llama-3-8b"), changes), steps=2, batch=PROCESSES, length=32,
            data=Text(paths=(str(text),), tokenizer=Bytes(), validation=0.1),
            plan=Plan(precision="fp32", compile="off", mesh=Mesh(shard=self.processes)),
            evaluation=Evaluation(every=99, batches=1, final_tokens=32, baseline=False), checkpoints=Checkpoints(every=99),
        )  # fmt: skip


def sizes(depth: int, folder: Path) -> list[dict[str, int]]:
    """What each of the processes took."""
    return launched("benchmarks.deep_ranks", [str(depth)], PROCESSES, folder)


def apart(folder: Path) -> tuple[float, str]:
    """How far the weights that eight processes trained are from those of one, and which is farthest."""
    sizes(SHALLOW, folder)
    alone = folder / "alone"
    train(DeepTrial(SHALLOW, 1).run(folder / "text.txt"), alone, console=Console(quiet=True))
    models = (load(str(path))[0] for path in (folder / "run", alone))
    ours, theirs = ({name: weight.detach() for name, weight in model.named_parameters()} for model in models)
    return farthest(ours, theirs)


def main() -> None:
    """Both models, and the result."""
    if len(sys.argv) > 1:
        depth, folder = int(sys.argv[1]), Path(sys.argv[2])
        told(folder, watched(DeepTrial(depth, PROCESSES).run(folder / "text.txt"), folder))
        return
    large = DeepTrial(DEEP, PROCESSES).run(Path(__file__))
    parameters = large.architecture.folded_cost(Shape(source=1)).parameters
    record: dict[str, object] = {"torch": torch.__version__, "parameters": parameters}
    record["foretold"] = foretold(large, PROCESSES)
    print(record, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        difference, name = apart(Path(folder))
    record["difference"] = {"largest": difference, "of": name}
    with tempfile.TemporaryDirectory() as folder:
        record["processes"] = found = sizes(DEEP, Path(folder))
    write_text(RESULT, json.dumps(record | {"below": max(each["ended"] for each in found) < MOST}, indent=1) + "\n")


if __name__ == "__main__":
    main()
