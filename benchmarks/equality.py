"""Training in several processes against one: losses, gradients and weights, for every mode, architecture and optimiser.

    python -m benchmarks.equality                    # 2, 4 and 8 processes, and the committed table
    python -m benchmarks.equality --ranks 2 --cases "mixtral-8x7b:shard:adamw:LoRA on nf4" llama-3-8b:tensor:adamw:LoRA

A process of a mesh trains the tiny form of a catalogue entry for a few updates, and so does it alone, with as many pieces of a
batch as there are processes, in one of `benchmarks.forms`. Compared are the loss of each update, every gradient of the first,
the norm of them all, by which they are clipped, and every weight after the last: |ours - alone| / |alone|, of whole tensors. An
adapter begins with numbers in place of its zeros, so that each of its gradients counts. Figures do not depend on the machine's
speed. Writes benchmarks/results/equality.json.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import torch
from benchmarks import forms
from benchmarks.forms import FORMS, TWICE, WIDE
from torch import Tensor

from anyformer.api import architecture
from anyformer.data import Bytes, Text
from anyformer.describe import change_all
from anyformer.mesh import Mesh
from anyformer.model.divided import copy_in, whole
from anyformer.model.transformer import Transformer
from anyformer.objectives import default_objective
from anyformer.parts.initialisation import Initialisation
from anyformer.planning.layout import bounds
from anyformer.quantising.planes import weights_of
from anyformer.quantising.tensor import Quantised
from anyformer.training import ConstantSchedule, Run
from anyformer.training.held_out import corpus_of
from anyformer.training.parallel import ALONE, Ranks, joined
from anyformer.training.precision import Host, deterministic
from anyformer.training.trainer import Trainer
from anyformer.tuning import SGD, Adafactor, AdamW, AdamW8bit, Lion, Muon, ScheduleFree

RESULT = Path(__file__).parent / "results" / "equality.json"
RANKS = (2, 4, 8)
UPDATES, BATCH, LENGTH, VOCAB = 3, 8, 32, 300
MODES: Mapping[str, Mapping[int, Mesh]] = {
    "data": {ranks: Mesh(data=ranks) for ranks in RANKS},
    "shard": {ranks: Mesh(data=1, shard=ranks) for ranks in RANKS},
    "data x shard": {ranks: Mesh(data=2, shard=ranks // 2) for ranks in RANKS if ranks > 2},
    "tensor": {ranks: Mesh(data=1, tensor=ranks) for ranks in (2, 4)},
    "expert": {ranks: Mesh(data=1, shard=ranks, expert=ranks) for ranks in RANKS},
    "data x shard x expert": {8: Mesh(data=2, shard=4, expert=2)},
    "shard x expert x tensor": {4: Mesh(data=1, shard=2, expert=2, tensor=2), 8: Mesh(data=1, shard=4, expert=2, tensor=2)},
    "data x shard x tensor": {8: Mesh(data=2, shard=2, tensor=2)},
    "context": {ranks: Mesh(data=1, context=ranks) for ranks in (2, 4)},
    "shard x context": {ranks: Mesh(data=1, shard=2, context=ranks // 2) for ranks in RANKS if ranks > 2},
    "context x tensor": {ranks: Mesh(data=1, context=2, tensor=ranks // 2) for ranks in RANKS if ranks > 2},
    "context x expert": {ranks: Mesh(data=1, context=ranks, expert=ranks) for ranks in (2, 4)},
    "shard x context x expert": {4: Mesh(data=1, shard=2, context=2, expert=4), 8: Mesh(data=1, shard=4, context=2, expert=4)},
    "shard x context x expert x tensor": {8: Mesh(data=1, shard=2, context=2, expert=2, tensor=2)},
    "pipeline x context x tensor": {8: Mesh(data=1, pipeline=2, context=2, tensor=2)},
    "pipeline": {ranks: Mesh(data=1, pipeline=ranks) for ranks in (2, 4)},
    "pipeline interleaved": {2: Mesh(data=1, pipeline=2, chunks=2), 4: Mesh(data=1, pipeline=2, chunks=3, shard=2)},
    "pipeline zero-bubble": {
        2: Mesh(data=1, pipeline=2, chunks=2, schedule="zero_bubble"),
        4: Mesh(data=1, pipeline=2, shard=2, schedule="zero_bubble"),
    },
    "pipeline compiled": {2: Mesh(data=1, pipeline=2, chunks=2), 4: Mesh(data=1, pipeline=2, shard=2)},
    "data x pipeline": {4: Mesh(data=2, pipeline=2)},
    "data x pipeline interleaved": {4: Mesh(data=2, pipeline=2, chunks=2)},
    "data x pipeline zero-bubble": {4: Mesh(data=2, pipeline=2, schedule="zero_bubble")},
    "pipeline x shard": {ranks: Mesh(data=1, pipeline=2, shard=ranks // 2) for ranks in RANKS if ranks > 2},
    "pipeline x context": {4: Mesh(data=1, pipeline=2, context=2)},
    "pipeline x shard x tensor": {8: Mesh(data=1, pipeline=2, shard=2, tensor=2)},
    "pipeline x shard x expert": {8: Mesh(data=1, pipeline=2, shard=4, expert=2)},
    "shard x tensor": {ranks: Mesh(data=1, shard=2, tensor=ranks // 2) for ranks in RANKS if ranks > 2},
}
ARCHITECTURES = {
    "llama-2-7b": "dense", "llama-3-8b": "GQA", "gpt2": "tied, dropout", "deepseek-v2-lite": "MLA, experts",
    "mixtral-8x7b": "experts", "deepseek-v3": "MLA, experts, corrections, tokens ahead",
    "kimi-linear-48b-a3b": "recurrent, MLA, experts",
    "gemma-2-2b": "windowed", "qwen3-next-80b-a3b": "hybrid", "t5-small": "encoder-decoder", "bert-base-uncased": "encoder",
    "albert-base-v2": "shared layers", "electra-small": "two models that learn",
}  # fmt: skip
COMPILED = ("pipeline compiled",)
"""Modes in which layers are compiled, which in one process they are not."""
FEW = {
    "pipeline interleaved": ("llama-2-7b", "deepseek-v2-lite", "mixtral-8x7b", "gemma-2-2b", "t5-small"),
    "pipeline zero-bubble": ("llama-2-7b", "deepseek-v2-lite", "mixtral-8x7b", "gemma-2-2b"),
    "pipeline compiled": ("llama-2-7b",),
    "data x pipeline": ("llama-2-7b", "gpt2", "t5-small"),
    "data x pipeline interleaved": ("llama-2-7b", "mixtral-8x7b", "t5-small"),
    "data x pipeline zero-bubble": ("llama-2-7b", "gpt2"),
}
"""Modes that a few architectures try, with one optimiser."""
NORM = "norm of all gradients"
OPTIMISERS = {
    "adamw": AdamW(learning_rate=1e-3), "adamw_8bit": AdamW8bit(learning_rate=1e-3, block=64, smallest=100),
    "schedule_free": ScheduleFree(learning_rate=1e-3), "sgd": SGD(learning_rate=0.1), "lion": Lion(learning_rate=1e-4),
    "adafactor": Adafactor(learning_rate=1e-2), "muon": Muon(learning_rate=1e-3, precision="fp32"),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One architecture in one mode with one optimiser, in fp32 or in one of `FORMS`."""

    architecture: str
    mode: str
    optimiser: str
    form: str = WIDE

    @staticmethod
    def of(text: str) -> Case:
        """From its name, `architecture:mode:optimiser` or `architecture:mode:optimiser:form`."""
        return Case(*text.split(":"))

    def __str__(self) -> str:
        return f"{self.architecture}:{self.mode}:{self.optimiser}" + (f":{self.form}" if self.form != WIDE else "")


def belongs(name: str, mesh: Mesh) -> bool:
    """Whether a mesh divides an architecture: one that divides experts needs some, stages of layers their own weights."""
    experts, shared = _divided(name)
    divides = mesh.expert == 1 or (bool(experts) and not any(count % mesh.expert for count in experts))
    return divides and (mesh.pipeline == 1 or not shared)


@functools.cache
def _divided(name: str) -> tuple[tuple[int, ...], bool]:
    """The experts of each layer that has some, and whether layers share weights."""
    model = architecture(name, tiny=True)
    return tuple(bounds(model).experts), bool(model.output_stack.shared_weights)


def every_case(ranks: int) -> list[Case]:
    """Every pair of mode and architecture, of mode and optimiser, and of mode and form."""
    modes = [mode for mode, meshes in MODES.items() if ranks in meshes]
    of_all = [mode for mode in modes if mode not in FEW]
    few = [Case(name, mode, "adamw") for mode in modes for name in FEW.get(mode, ())]
    pairs = [Case(name, mode, "adamw") for name, mode in product(ARCHITECTURES, of_all) if belongs(name, MODES[mode][ranks])]
    pairs += [Case("mixtral-8x7b", mode, name) for name, mode in product(OPTIMISERS, of_all) if name != "adamw"]
    compared = [Case(name, mode, "adamw", form) for mode in modes for form, name in forms.compared(mode, ranks)]
    return pairs + few + [case for case in compared if belongs(case.architecture, MODES[case.mode][ranks])]


@dataclass(frozen=True)
class Difference:
    """The largest relative differences of one case: of losses, gradients (and whose), and weights (and whose)."""

    case: str
    ranks: int
    loss: float
    gradient: float
    gradient_of: str
    weight: float
    weight_of: str


def pieces_of(mesh: Mesh, form: str = WIDE) -> int:
    """The pieces of a batch in each replica: one for each chunk of a pipeline, so that processes of several go round twice."""
    return (mesh.pipeline if mesh.chunks == 1 else 2 * mesh.pipeline) * (2 if form == TWICE else 1)


def run_of(case: Case, text: Path, pieces: int, chunks: int) -> Run:
    """The run of a case, with its batch in `pieces`, and with a layer at least for each chunk of a pipeline."""
    model = change_all(architecture(case.architecture, tiny=True), {"embedding.vocab": VOCAB})
    if chunks > model.output_stack.depth:
        model = change_all(model, {f"{list(model.stacks)[-1]}.order": f"({model.output_stack.order})*{chunks}"})
    return Run(
        steps=UPDATES, batch=BATCH, length=LENGTH, accumulation=pieces, architecture=model, objective=default_objective(model),
        data=Text(paths=(str(text),), tokenizer=Bytes(), validation=0.1), optimiser=OPTIMISERS[case.optimiser],
        schedule=ConstantSchedule(warmup=0), seed=4, **FORMS[case.form])  # fmt: skip


def without_zeros(model: Transformer) -> tuple[str, ...]:
    """Give the parts of an adapter that begin as zeros other numbers, without which its other parts would have no gradient."""
    rules, held = Initialisation(), dict(model.named_parameters())
    for name, weight in model.added.items():
        if weight.fill == "zeros" and name in held:
            copy_in(held[name], rules.fill(replace(weight, fill="matrix"), name, seed=1))
    return ()


def trained(run: Run, ranks: Ranks) -> tuple[list[float], dict[str, Tensor], dict[str, Tensor]]:
    """The losses of the updates, the gradients of the first and their norm, and the weights after the last, of all models that
    learn."""
    trainer = Trainer.start(run, corpus_of(run), Host(torch.device("cpu"), {"fp32": 1e9}), without_zeros, ranks=ranks)
    models = {"": trainer.model, **{f"{name}/": one.model for name, one in trainer.learning.items()}}
    weights = {prefix + name: weight for prefix, model in models.items() for name, weight in weights_of(model).items()}
    with deterministic():
        trainer.passes.add_gradients(trainer.micro_batches(0))
        gradients = {name: whole(weight.grad).clone() for name, weight in weights.items() if weight.grad is not None}
        for one in (trainer.trainee, *trainer.learning.values()):
            one.optimiser.zero_grad(set_to_none=True)
        made = [trainer.updates.update(trainer.micro_batches(step), trainer.rate(step)) for step in range(UPDATES)]
    after = {name: plain(weight.detach()).clone() for name, weight in weights.items()}
    norm = torch.tensor(made[0].gradient_norm)
    return [each.loss for each in made], {**ranks.of_stages(gradients), NORM: norm}, ranks.of_stages(after)


def plain(weight: Tensor) -> Tensor:
    """The numbers of all of a weight."""
    if not isinstance(weight, Quantised):
        return whole(weight)
    planes = {name: whole(plane) for name, plane in weight.planes.items()}
    return weight.format.restored(planes, tuple(weight.shape)).to(weight.dtype)


def compared(case: Case, text: Path, ranks: Ranks) -> Difference | None:
    """How far a case is from one process; the first process computes that, and None is what the others have."""
    mesh = MODES[case.mode][ranks.size]
    pieces = pieces_of(mesh, case.form)
    run = run_of(case, text, pieces, mesh.all_chunks)
    together = trained(change_all(run, {"plan.compile": "on"}) if case.mode in COMPILED else run, ranks)
    if not ranks.first:
        return None
    alone = trained(run_of(case, text, pieces * ranks.replicas, mesh.all_chunks), ALONE)
    loss = max(abs(ours - theirs) / abs(theirs) for ours, theirs in zip(together[0], alone[0], strict=True))
    # A weight whose gradient is rounding, as that of a key's bias, goes where the rounding says: Adam divides it by its size.
    moved = {name for name, value in alone[1].items() if float(value.norm()) > least(alone[1])}
    gradient = farthest(together[1], alone[1])
    weight = farthest(*({name: value for name, value in found.items() if name in moved} for found in (together[2], alone[2])))
    return Difference(str(case), ranks.size, loss, gradient[0], gradient[1], weight[0], weight[1])


def farthest(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> tuple[float, str]:
    """The largest |ours - theirs| / |theirs|, and whose it is; |theirs| counts as `least` at least."""
    assert ours.keys() == theirs.keys(), sorted(ours.keys() ^ theirs.keys())
    floor = least(theirs)
    each = {
        name: float((ours[name].double() - value.double()).norm()) / max(float(value.double().norm()), floor)
        for name, value in theirs.items()
    }
    name = max(each, key=lambda key: each[key])
    return each[name], name


def least(tensors: Mapping[str, Tensor]) -> float:
    """A millionth of the largest norm, below which a tensor is made of rounding."""
    return 1e-6 * max(float(value.double().norm()) for value in tensors.values())


def work(cases: Iterable[Case], out: Path) -> None:
    """What each process does: all cases in one group; the first writes a line for each."""
    text = out.with_suffix(".txt")
    torch.set_num_threads(1)
    for mode, those in by_mode(cases).items():
        with joined(MODES[mode][int(os.environ["WORLD_SIZE"])], torch.device("cpu")) as ranks:
            ranks.first_alone(lambda: written(text))
            for case in those:
                difference = compared(case, text, ranks)
                if difference is not None:
                    with out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(asdict(difference)) + "\n")


def by_mode(cases: Iterable[Case]) -> dict[str, list[Case]]:
    """The cases of each mode: a mesh is made once."""
    found: dict[str, list[Case]] = {}
    for case in cases:
        found.setdefault(case.mode, []).append(case)
    return found


def written(text: Path) -> None:
    """Put a few thousand lines of text into a file, unless it is there."""
    if not text.exists():
        text.write_text("\n".join(f"def f{i}(x):\n    return x + {i * i % 97}\n" for i in range(400)), encoding="utf-8")


def by_torchrun(folder: Path, ranks: int, *words: object) -> None:
    """Run a Python program in so many processes."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ANYFORMER_CACHE": str(folder / "cache")}
    subprocess.run([*command, *map(str, words)], check=True, env=environment)


Start = Callable[..., object]
"""As `by_torchrun`, which the tests replace by processes that are there sooner."""


def launched(cases: Iterable[Case], ranks: int, folder: Path, start: Start = by_torchrun) -> Iterator[Difference]:
    """Start processes for some cases, and read how far they are from one."""
    return (Difference(**row) for row in rows_of("benchmarks.equality", cases, ranks, folder, start))


def rows_of(
    module: str, cases: Iterable[Case], ranks: int, folder: Path, start: Start = by_torchrun
) -> Iterator[dict[str, Any]]:
    """Start processes of a benchmark for some cases, and read the lines that they write."""
    out = folder / f"{ranks}.jsonl"
    names = [str(case) for case in cases]
    start(folder, ranks, "-m", module, "--out", out, *(["--cases", *names] if names else []))
    for line in out.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def put_down(table: Path, found: list[dict[str, Any]], cases_of: Callable[[int], Iterable[Case]]) -> None:
    """Write what was found into a table, in place of what it said of the same cases; cases that are no more leave it."""
    anew = {(each["ranks"], each["case"]) for each in found}
    left = {(ranks, str(case)) for ranks in RANKS for case in cases_of(ranks)} - anew
    before = json.loads(table.read_text(encoding="utf-8"))["results"] if table.exists() else []
    rows = [each for each in before if (each["ranks"], each["case"]) in left] + found
    facts = {"date": date.today().isoformat(), "versions": {"torch": version("torch")}, "updates": UPDATES}
    table.write_text(json.dumps({**facts, "results": rows}, indent=0) + "\n", encoding="utf-8")


def asked(description: str | None) -> argparse.Namespace:
    """What is asked of a benchmark of meshes on its command line."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=RANKS, choices=RANKS, help="processes (default: 2, 4 and 8)")
    parser.add_argument("--cases", nargs="+", metavar="ARCHITECTURE:MODE:OPTIMISER[:FORM]", help="by default every pair")
    parser.add_argument(
        "--modes", nargs="+", choices=MODES, default=MODES, metavar="MODE", help="by default all; the others stay"
    )
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=FORMS, help="by default all; the others stay")
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def found(
    module: str, given: argparse.Namespace, table: Path, cases_of: Callable[[int], Iterable[Case]]
) -> Iterator[dict[str, Any]]:
    """What a benchmark finds in every case that is asked for, which goes into its table after each number of processes."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for ranks in given.ranks:
            every = [case for case in cases_of(ranks) if case.mode in given.modes and case.form in given.forms]
            cases = [Case.of(name) for name in given.cases] if given.cases else every
            for row in rows_of(module, cases, ranks, Path(folder)) if cases else ():
                rows.append(row)
                yield row
            if not given.cases:
                put_down(table, rows, cases_of)


def main() -> None:
    """Compare, and write the table."""
    given = asked(__doc__)
    if given.out is not None:
        work(map(Case.of, given.cases), given.out)
        return
    for row in found("benchmarks.equality", given, RESULT, every_case):
        each = Difference(**row)
        print(f"{each.ranks} {each.case}: loss {each.loss:.1e}, gradient {each.gradient:.1e}, weight {each.weight:.1e}")


if __name__ == "__main__":
    main()
