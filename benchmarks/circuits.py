"""Two circuits that careful papers found, looked for again in small attention-only models trained here.

    python -m benchmarks.circuits                       # both, three seeds each: about six minutes on a core of one's own
    python -m benchmarks.circuits induction --seeds 1 2 --folder runs/circuits

Seeds 1 to 3 were looked at before there were criteria; those of benchmarks/circuit_criteria.py were fixed before seeds 4 to 6.

- induction: a head that marks each letter with the one before it, and in a later layer heads that look for the mark (Olsson et
  al. 2022, arXiv 2209.11895). Asked: previous-token and induction scores of every head on held-out sequences, what the answer
  loses when a head has its mean value, and the edges that stay of all between heads (ACDC, arXiv 2304.14997), where the
  corrupted sequence has another letter in the place that the answer stands behind.
- indirect object: two names, one of them again, the other is asked (Wang et al. 2022, arXiv 2211.00593). Asked of every head at
  the last position: its attention to the indirect object (IO), to the subject (S) where it stands first (S1) and again (S2);
  its share in the logit of IO beside a name that is not there, and in that of S; what it restores when another name stands for
  IO, and when IO and S are exchanged. A *name mover* looks at IO and raises its logit; a *contrastive head* looks at S2 and
  lowers that of S beside IO's, as in small models trained on this alone (Adhikari 2025, arXiv 2510.25013).

Models are trained by `anyformer.train` and analysed by `anyformer.inspect`. With a folder, its runs are not trained again.
Writes benchmarks/results/circuits.json, of which docs/make_circuits.py makes the tables of docs/circuits.md.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.circuit_criteria import CRITERIA, LOOKS, SHARED
from benchmarks.compare import RESULTS, machine
from rich.console import Console
from torch import Tensor

import anyformer as af
from anyformer.evaluation import open_subject
from anyformer.model import decoder_only
from anyformer.model.transformer import Transformer
from anyformer.objectives import TaskObjective
from anyformer.parts import Attention, Embedding, Head, RMSNorm, Rotary, pre_norm
from anyformer.plan import Plan
from anyformer.probing import probe, question
from anyformer.tasks import IndirectObject, Induction, Task, TaskData
from anyformer.training import Checkpoints, Evaluation, Run, train
from anyformer.tuning import AdamW

RESULT = RESULTS / "circuits.json"
UPDATES, WIDTH, HEADS = 1500, 64, 4
THRESHOLD = 0.001
"""Nats an edge must carry to stay. Of indirect objects the circuits of seeds 1 to 3 kept 0.67 to 0.72 of the logit difference
at 0.05, 0.75 to 0.78 at 0.01, 0.80 to 0.82 at 0.003 and 0.83 to 0.85 at 0.001."""
SEQUENCES = {"accuracy": 512, "heads": 128, "circuit": 32, "unseen": 128}
"""Sequences of each question; those that no circuit was found on come after those of heads."""


def run_of(task: Task, depth: int, length: int, seed: int) -> Run:
    """A decoder of attention alone, trained on a task."""
    data, norm = TaskData(task=task), RMSNorm()
    block = pre_norm(norm, Attention(heads=HEADS, kv_heads=HEADS, place=Rotary()))
    vocab = len(data.symbols) + 2
    return Run(
        steps=UPDATES, batch=64, length=length, data=data, objective=TaskObjective(), seed=seed,
        architecture=decoder_only(Embedding(vocab=vocab), WIDTH, [block] * depth, final_norm=norm, head=Head()),
        optimiser=AdamW(learning_rate=3e-3, weight_decay=0.0), plan=Plan(precision="fp32", compile="off"),
        evaluation=Evaluation(every=UPDATES, batches=1, final_tokens=1024, baseline=False),
        checkpoints=Checkpoints(every=UPDATES),
    )  # fmt: skip


def induction_of(model: Transformer, data: TaskData, length: int) -> dict[str, Any]:
    """Scores, losses and edges of the heads of a model that was trained on induction."""
    made = data.drawn(np.arange(SEQUENCES["heads"]), 0, length, test=True)
    tokens, answer = torch.from_numpy(made.tokens + 1), torch.from_numpy(made.targets[:, -1] + 1)
    heads = af.inspect.head_patterns(model, tokens)
    paths = [each.by_head for each in af.inspect.writers(model)]
    lost = af.inspect.ablation(model, tokens, af.inspect.LogProbability(answer), paths, way="mean", by="H")
    found = [{**asdict(each), "ablated": float(lost.effect(f"{each.path}.heads")[each.head])} for each in heads]
    best = {kind: max(heads, key=lambda each: vars(each)[kind]) for kind in ("previous", "induction")}
    few, rest = slice(SEQUENCES["circuit"]), unseen(data, length)
    circuit = af.inspect.find_circuit(model, tokens[few], elsewhere(made.tokens)[0][few], threshold=THRESHOLD, by_input=False)
    other, wrong = elsewhere(rest.tokens)
    metric = af.inspect.LogitDifference(torch.from_numpy(rest.targets[:, -1] + 1), wrong)
    first, second = (f"{best[kind].path} {best[kind].head}" for kind in ("previous", "induction"))
    marking, seeking = ([each for each in heads if vars(each)[kind] >= LOOKS] for kind in ("previous", "induction"))
    looking = [f"{each.path} {each.head}" for each in seeking]
    loss = knock_out(model, tokens, [], af.inspect.LogProbability(answer))
    return {
        "heads": found, "circuit": edges_of(circuit), "loss": -loss,
        "faithfulness": circuit.faithfulness(model, torch.from_numpy(rest.tokens + 1), other, metric),
        "nats without": {
            name: loss - knock_out(model, tokens, [(one.path, one.head) for one in chosen], af.inspect.LogProbability(answer))
            for name, chosen in (("previous-token heads", marking), ("induction heads", seeking))
        },
        "previous_token_head": first, "previous": best["previous"].previous,
        "induction_head": second, "induction": best["induction"].induction, "induction_heads": len(looking),
        "composed": any(
            circuit.has(f"{mark.path} {mark.head}", each) and circuit.has(each, "output")
            for mark in marking
            for each in looking
        ),
    }  # fmt: skip


def elsewhere(tokens: Any) -> tuple[Tensor, Tensor]:
    """The sequences in which another of their letters stands where the last one stood first; the letter behind that one."""
    result, rows = tokens.copy(), np.arange(len(tokens))
    place = np.array([int(np.flatnonzero(row[:-1] == row[-1])[0]) for row in tokens])
    letters = -(-2 * tokens.shape[1] // 3)
    taken = (place + letters // 2) % letters
    result[rows, place] = tokens[rows, taken]
    return torch.from_numpy(result + 1), torch.from_numpy(tokens[rows, (taken + 1) % letters] + 1)


def unseen(data: TaskData, length: int) -> Any:
    """Sequences on which no circuit was found."""
    return data.drawn(np.arange(SEQUENCES["heads"], SEQUENCES["heads"] + SEQUENCES["unseen"]), 0, length, test=True)


def knock_out(model: Transformer, tokens: Tensor, heads: Sequence[tuple[str, int]], metric: Any) -> float:
    """The mean of a metric where all these heads at once give their means over rows and positions."""
    chosen: dict[str, list[int]] = {}
    for path, head in heads:
        chosen.setdefault(f"{path}.heads", []).append(head)
    with torch.no_grad(), model.watch(*chosen) as seen:
        logits = model(tokens)
    with torch.no_grad(), ExitStack() as stack:
        for path, numbers in chosen.items():
            mean_BTHU = seen[path].clone()
            mean_BTHU[:, :, numbers] = seen[path][:, :, numbers].mean((0, 1))
            stack.enter_context(model.patch(path, mean_BTHU))
        return float(metric(model(tokens) if chosen else logits).mean())


def indirect_object_of(model: Transformer, data: TaskData, length: int) -> dict[str, Any]:
    """Attention, shares and patching of the heads of a model that was trained on indirect objects, at the last position."""
    made = data.drawn(np.arange(SEQUENCES["heads"]), 0, length, test=True)
    said = Said.of(made.tokens, made.targets[:, -1], data)
    tokens = torch.from_numpy(made.tokens + 1)
    places = {"IO": said.io, "S1": said.first, "S2": said.again}
    weights = af.inspect.attention_patterns(model, tokens)
    logits = {
        name: af.inspect.attribution(model, tokens, wanted=wanted.expand_as(tokens), against=said.absent.expand_as(tokens))
        for name, wanted in (("IO", said.object), ("S", said.subject))
    }
    paths = [each.by_head for each in af.inspect.writers(model)]
    pairs = {
        "object": (said.with_at(tokens, said.io, said.absent), said.absent),
        "exchanged": (said.with_at(tokens, said.again, said.object), said.subject),
    }
    restored = {}
    for name, (corrupted, wrong) in pairs.items():
        restored[name] = af.inspect.activation_patching(model, tokens, corrupted, said.against(wrong), paths, by="H")
    rows, found = torch.arange(len(tokens)), []
    for writer in af.inspect.writers(model):
        for head in range(writer.heads):
            row = {"path": writer.path, "head": head}
            last = weights[f"{writer.path}.weights"][rows, head, -1]
            row |= {f"to {name}": float(last[rows, place].mean()) for name, place in places.items()}
            row |= {f"share of {name}": float(each.shares[writer.by_head][:, -1, head].mean()) for name, each in logits.items()}
            row |= {f"restores {name}": float(each.restored(writer.by_head)[head]) for name, each in restored.items()}
            found.append(row | {"role": role(row)})
    few = slice(SEQUENCES["circuit"])
    circuit = af.inspect.find_circuit(model, tokens[few], pairs["exchanged"][0][few], threshold=THRESHOLD, by_input=False)
    movers, contrastive = ([row for row in found if row["role"] == name] for name in ("name mover", "contrastive"))
    rest = unseen(data, length)
    other, clean = Said.of(rest.tokens, rest.targets[:, -1], data), torch.from_numpy(rest.tokens + 1)
    summed = {
        "name movers": len(movers), "movers restore": sum(row["restores object"] for row in movers),
        "contrastive heads": len(contrastive), "contrastive restore": sum(row["restores exchanged"] for row in contrastive),
    }  # fmt: skip
    logit = {name: float(each.logit_BT[:, -1].mean()) for name, each in logits.items()}
    exchanged = other.with_at(clean, other.again, other.object)
    return {
        "heads": found, "circuit": edges_of(circuit), "logits": logit, **summed,
        "faithfulness": circuit.faithfulness(model, clean, exchanged, other.against(other.subject)),
        "lost without": {
            "name movers": lost(model, tokens, movers, said.against(said.absent)),
            "contrastive heads": lost(model, tokens, contrastive, said.against(said.subject)),
        },
        "at the output": any(circuit.has(f"{row['path']} {row['head']}", "output") for row in contrastive),
        "heard": any(edge.sender == f"{row['path']} {row['head']}" for row in movers for edge, _ in circuit.edges),
    }  # fmt: skip


def lost(model: Transformer, tokens: Tensor, rows: Sequence[Mapping[str, Any]], metric: Any) -> float:
    """The share of a metric that is lost where the heads of these rows give their means."""
    whole = knock_out(model, tokens, [], metric)
    return 1 - knock_out(model, tokens, [(row["path"], row["head"]) for row in rows], metric) / whole


def role(row: Mapping[str, Any]) -> str:
    """What a head does at the last position."""
    if row["to IO"] >= SHARED and row["to IO"] > row["to S1"] and row["share of IO"] > 0:
        return "name mover"
    if row["to S2"] >= LOOKS and row["share of S"] < row["share of IO"]:
        return "contrastive"
    return "-"


class Said:
    """The names of sequences: numbers (B, 1) of `object`, `subject` and a name that is `absent`; places (B,) of them."""

    def __init__(self, io: Tensor, first: Tensor, again: Tensor, names: tuple[Tensor, Tensor, Tensor]) -> None:
        self.io, self.first, self.again = io, first, again
        self.object, self.subject, self.absent = names

    @classmethod
    def of(cls, tokens: Any, answers: Any, data: TaskData) -> Said:
        """Those of symbols (B, T) and of their answers (B,)."""
        assert isinstance(data.task, IndirectObject), "trained on it"
        count, rows = data.task.names, np.arange(len(tokens))
        places = np.array([np.flatnonzero(row < count) for row in tokens])
        second = tokens[rows, places[:, 0]] == answers
        subject = tokens[rows, places[:, 2]]
        absent = np.array([next(n for n in range(count) if n not in (a, s)) for a, s in zip(answers, subject, strict=True)])
        numbers = [torch.from_numpy(each + 1)[:, None] for each in (answers, subject, absent)]
        first, other = (np.where(second, places[:, at], places[:, 1 - at]) for at in (1, 0))
        return cls(*(torch.from_numpy(each) for each in (other, first, places[:, 2])), (numbers[0], numbers[1], numbers[2]))

    def against(self, wrong: Tensor) -> Any:
        """The metric: the logit of the indirect object less that of another name (B, 1)."""
        return af.inspect.LogitDifference(self.object[:, 0], wrong[:, 0])

    def with_at(self, tokens: Tensor, places: Tensor, names: Tensor) -> Tensor:
        """The sequences with these names at these places."""
        return tokens.scatter(1, places[:, None], names)


def edges_of(circuit: Any) -> dict[str, Any]:
    """A circuit as plain data."""
    edges = [{"from": edge.sender, "to": edge.receiver, "nats": round(cost, 4)} for edge, cost in circuit.edges]
    return {"edges": edges, "considered": circuit.considered, "divergence": circuit.divergence, "empty": circuit.empty}


ASKED = {
    "induction": (Induction(letters=32), 2, 32, induction_of),
    "indirect object": (IndirectObject(names=32, letters=8), 3, 16, indirect_object_of),
}


def attempt(name: str, seed: int, folder: Path) -> dict[str, Any]:
    """A line of the result: a model, trained or found in the folder, and what is inside it."""
    task, depth, length, look = ASKED[name]
    run, directory = run_of(task, depth, length, seed), folder / f"{task.kind}-{seed}"
    if not directory.exists():
        train(run, directory, console=Console(quiet=True))
    subject = open_subject(directory)
    level = probe(subject.model, question(subject), (length,), SEQUENCES["accuracy"]).levels[0]
    facts = {"name": name, "seed": seed, "layers": depth, "updates": UPDATES, "accuracy": level.targets.accuracy}
    assert isinstance(run.data, TaskData), "made of a task"
    row = facts | look(subject.model, run.data, length)
    criteria = {words: bool(holds(row)) for words, holds in CRITERIA[name].items()}
    return row | {"criteria": criteria, "found": all(criteria.values())}


def main() -> None:
    """Train, look, and write what is found after each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*ASKED, []], help="by default both", metavar="NAME")
    parser.add_argument("--seeds", type=int, nargs="+", default=[4, 5, 6], help="seeds of each (default 4 5 6)")
    parser.add_argument("--folder", type=Path, help="where runs are kept; by default nowhere")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    names = arguments.names or list(ASKED)
    old = json.loads(RESULT.read_text(encoding="utf-8"))["results"] if RESULT.exists() else []
    results = [row for row in old if row["name"] not in names or row["seed"] not in arguments.seeds]
    with tempfile.TemporaryDirectory() as made:
        for name in names:
            for seed in arguments.seeds:
                results.append(attempt(name, seed, arguments.folder or Path(made)))
                told = {key: value for key, value in results[-1].items() if key not in ("heads", "circuit")}
                print(json.dumps(told), flush=True)
                facts = {"date": str(date.today()), "command": "python -m benchmarks.circuits", "machine": machine()}
                order = sorted(results, key=lambda row: (list(ASKED).index(row["name"]), row["seed"]))
                RESULT.write_text(json.dumps({**facts, "results": order}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
