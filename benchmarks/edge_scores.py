"""Circuits by three ways at the same number of edges: the search (ACDC), and the largest scores of EAP and of EAP-IG.

    python -m benchmarks.edge_scores --folder runs/circuits      # the models of benchmarks.circuits, trained if not there

Of every model: the edges that the search leaves at the threshold of benchmarks.circuits, and as many by every score; which
share of the logit difference a circuit keeps on sequences that it was not found on; and the seconds, in one process. Edges
lead to whole heads. Scores are of the logit difference that is asked about, and the search looks at the whole distribution.
Writes benchmarks/results/edge_scores.json, of which docs/make_circuits.py makes a table of docs/circuits.md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.circuits import ASKED, SEQUENCES, THRESHOLD, Said, elsewhere, run_of, unseen
from benchmarks.compare import RESULTS, machine
from rich.console import Console
from torch import Tensor

import anyformer as af
from anyformer.evaluation import open_subject
from anyformer.inspecting import Circuit, Metric
from anyformer.tasks import TaskData
from anyformer.training import train

RESULT = RESULTS / "edge_scores.json"
Prompts = tuple[Tensor, Tensor, Metric]
"""Sequences, corrupted ones, and the logit difference that is asked about."""


def induction(made: Any, data: TaskData) -> Prompts:
    """Sequences in which another letter stands in front of the answer."""
    other, wrong = elsewhere(made.tokens)
    right = torch.from_numpy(made.targets[:, -1] + 1)
    return torch.from_numpy(made.tokens + 1), other, af.inspect.LogitDifference(right, wrong)


def indirect_object(made: Any, data: TaskData) -> Prompts:
    """Sequences in which the indirect object stands in the subject's second place."""
    said, tokens = Said.of(made.tokens, made.targets[:, -1], data), torch.from_numpy(made.tokens + 1)
    return tokens, said.with_at(tokens, said.again, said.object), said.against(said.subject)


PROMPTS = {"induction": induction, "indirect object": indirect_object}


def timed(find: Callable[[], Circuit]) -> tuple[Circuit, float]:
    """A circuit and its seconds."""
    start = time.perf_counter()
    return find(), time.perf_counter() - start


def attempt(name: str, seed: int, folder: Path) -> dict[str, Any]:
    """A model, trained or found in the folder, and its circuits by every way."""
    task, depth, length, _ = ASKED[name]
    run, directory = run_of(task, depth, length, seed), folder / f"{task.kind}-{seed}"
    if not directory.exists():
        train(run, directory, console=Console(quiet=True))
    model = open_subject(directory).model
    assert isinstance(run.data, TaskData), "made of a task"
    few = run.data.drawn(np.arange(SEQUENCES["circuit"]), 0, length, test=True)
    clean, corrupted, metric = PROMPTS[name](few, run.data)
    other = PROMPTS[name](unseen(run.data, length), run.data)
    searched, seconds = timed(lambda: af.inspect.find_circuit(model, clean, corrupted, threshold=THRESHOLD, by_input=False))
    found = {"search": (searched, seconds)}
    for way in ("gradient", "integrated", "cut"):
        found[way] = timed(
            lambda way=way: af.inspect.score_edges(model, clean, corrupted, metric, way=way, by_input=False).circuit(
                size=len(searched.edges)
            )
        )
    kept = {edge for edge, _ in searched.edges}
    ways = {
        way: {
            "faithfulness": circuit.faithfulness(model, *other), "divergence": circuit.divergence, "seconds": seconds,
            "shared": len(kept & {edge for edge, _ in circuit.edges}),
        }
        for way, (circuit, seconds) in found.items()
    }  # fmt: skip
    return {"name": name, "seed": seed, "edges": len(kept), "considered": searched.considered, "ways": ways}


def main() -> None:
    """Look at every model, and write what is found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[4, 5, 6], help="seeds of each task (default 4 5 6)")
    parser.add_argument("--folder", type=Path, required=True, help="where runs are kept")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = [attempt(name, seed, arguments.folder) for name in ASKED for seed in arguments.seeds]
    facts = {
        "date": str(date.today()),
        "command": "python -m benchmarks.edge_scores --folder runs/circuits",
        "machine": machine(),
    }
    RESULT.write_text(json.dumps({**facts, "results": rows}, indent=1) + "\n", encoding="utf-8")
    for row in rows:
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
