"""The operators of training and decode steps of every architecture, and what a GPU would wait for, without a GPU.

    python -m benchmarks.operators                 # everything: a minute
    python -m benchmarks.operators llama "decode experts"  # some cases, printed, which writes no result

Every architecture of the tests' zoo makes a training step in fp32 and a decode step in bf16 on a stand-in device
(`anyformer.testing.stand_in`); so does every objective, every optimiser, and every way of generating, in its own loop. Put down
are the calls of every operator, the bytes that they read and wrote beside those of the cost sheet, and all that makes host and
device wait. What may wait, and why, is listed in benchmarks/waits.toml. Writes benchmarks/results/operators.json.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import date
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyformer import checkpoint
from anyformer.costs.named_hardware import hardware_of
from anyformer.costs.roofline import step_time
from anyformer.generation import Sampling
from anyformer.generation.beams import Beams, searched
from anyformer.generation.decode import decode, going_on
from anyformer.generation.processors.penalties import RepetitionPenalty
from anyformer.measuring.trial import TrainingStep
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer, build
from anyformer.operations import Shape
from anyformer.parts.call.stack_state import StackState
from anyformer.plan import Plan
from anyformer.testing.inputs import B, inputs, shape
from anyformer.testing.stand_in import StandIn, Wait, leave, stand_in
from anyformer.testing.traits import decodes_tokens
from anyformer.training import Run
from anyformer.training.held_out import corpus_of
from anyformer.training.precision import Host
from anyformer.training.trainer import Trainer
from anyformer.tuning import SGD, Adafactor, AdamW, AdamW8bit, Lion, Muon, Optimiser, ScheduleFree

TESTS = Path(__file__).parents[1] / "tests"
LISTED = Path(__file__).with_name("waits.toml")
RESULT = Path(__file__).parent / "results" / "operators.json"
READ, NEW = 5, 4
"""Tokens of prompts, and tokens that are generated in a loop."""
OPTIMISERS: tuple[Optimiser, ...] = (AdamW(), AdamW8bit(), ScheduleFree(), SGD(), Lion(), Adafactor(), Muon())
GREEDY, END = Sampling(temperature=0), 36
SEARCHED = inspect.unwrap(searched)
"""Without the inference mode around it, in which a tensor of the stand-in cannot be viewed."""
LOOPS: Mapping[str, Callable[..., Any]] = {
    "greedy": partial(going_on, sampling=GREEDY),
    "greedy until an end": partial(going_on, sampling=GREEDY, ends=(END,)),
    "sampled": partial(going_on, sampling=Sampling(temperature=0.8, top_k=5, top_p=0.9)),
    "repetitions penalised": partial(going_on, sampling=GREEDY.with_parts(RepetitionPenalty(penalty=1.2))),
    "beams": partial(SEARCHED, sampling=GREEDY, beams=Beams(count=2), ends=(END,)),
}
"""Ways of generating."""


@dataclass(frozen=True)
class Case:
    """What is run: `group` (train, decode, objective, optimiser, generation), its name there, and the watched call."""

    group: str
    name: str
    watched: Callable[[StandIn], dict[str, Any] | None]


def zoo() -> Mapping[str, Architecture]:
    """The tiny architectures of the contracts."""
    sys.path[:0] = [str(TESTS), str(TESTS / "contract")]
    from zoo import ZOO

    return ZOO  # type: ignore[no-any-return]


def trained(architecture: Architecture, watch: StandIn, optimiser: Optimiser = OPTIMISERS[0]) -> dict[str, Any]:
    """One update, after a forward pass that makes what is kept; the loss beside a processor's, by its own kernels."""
    plan, sizes = Plan(precision="fp32", compile="off"), shape(architecture)
    step, there = (TrainingStep(architecture, sizes, plan, at, optimiser) for at in (stand_in(), torch.device("cpu")))
    with torch.no_grad():  # in evaluation, as chance is not the same on two devices
        for each in (step, there):
            each.model.eval()
        losses = [float(each.loss()) for each in (step, there)]
        step.model.train()
    with watch.watched():
        step.update()
    return {"sheet": sheet(architecture, sizes, plan, "train"), "losses": losses}


def decoded(architecture: Architecture, watch: StandIn) -> dict[str, Any]:
    """One token more, with weights in bf16, as a GPU decodes."""
    plan = Plan(precision="bf16")
    model = build(architecture, plan, stand_in(), torch.bfloat16).eval()
    with torch.no_grad():
        tokens = inputs(architecture)[0].to(stand_in())
        state = model.state(B, READ + 3)
        model(tokens[:, :READ], state=state)
        with watch.watched():
            state.slots.reserve(1)
            decode(model, tokens[:, READ], state)
    return {"sheet": sheet(architecture, Shape(batch=B, length=1, past=READ), plan, "decode")}


def sheet(architecture: Architecture, sizes: Shape, plan: Plan, mode: Any) -> dict[str, int]:
    """FLOPs and bytes of a step, as the cost sheet of an H100 counts them."""
    found = step_time(architecture, sizes, plan, hardware_of("h100"), mode)
    flops = found.flops
    return {"flops": flops.dense + (flops.backward if mode == "train" else 0), "bytes": found.bytes}


def generated(architecture: Architecture, loop: Callable[..., Any], watch: StandIn) -> None:
    """A loop of several tokens, from its first step on: before it prompts are read."""
    model = build(architecture, Plan(precision="fp32"), stand_in()).eval()
    prompts = inputs(architecture)[0][:, :READ].tolist()
    with torch.no_grad(), ExitStack() as open:

        def step(model: Transformer, tokens: Tensor, state: StackState) -> Tensor:
            logits = decode(model, tokens, state)
            if not watch.calls:
                open.enter_context(watch.watched())
            return logits

        for _ in loop(model, prompts, max_tokens=NEW, step=step):
            pass


def updated(case: Any, folder: Path, watch: StandIn) -> None:
    """The second update of a tiny run, as the training loop makes it; its examples are on the device already."""
    from objectives.test_resuming import data_of, few_records

    os.chdir(folder)
    if case.teacher is not None:
        checkpoint.save(build(case.teacher, seed=99), folder / "teacher")
    plain = {
        "steps": 3, "batch": 4, "accumulation": case.accumulation, "length": case.length, "objective": case.objective,
        "data": data_of(case, folder), "architecture": case.model.plain(), "plan": {"precision": "fp32", "compile": "off"},
    }  # fmt: skip
    run = Run.parse(plain)
    with few_records():
        corpus = corpus_of(run)
    trainer = Trainer.start(run, corpus, Host(stand_in(), {"fp32": 1e9}))
    trainer.updates.update(trainer.micro_batches(0), trainer.rate(0))
    batches = trainer.micro_batches(1)
    with watch.watched():
        trainer.updates.update(batches, trainer.rate(1))


def cases(folder: Path) -> Iterator[Case]:
    """Everything that is run."""
    architectures = zoo()
    from objectives.test_resuming import CASES

    for name, each in architectures.items():
        yield Case("train", name, partial(trained, each))
        if decodes_tokens(each):
            yield Case("decode", name, partial(decoded, each))
    for name, case in CASES.items():
        (folder / name).mkdir()
        yield Case("objective", name, partial(updated, case, folder / name))
    for optimiser in OPTIMISERS:
        yield Case("optimiser", optimiser.kind, partial(trained, architectures["llama"], optimiser=optimiser))
    for name, loop in LOOPS.items():
        yield Case("generation", name, partial(generated, architectures["llama"], loop))


def ran(case: Case) -> dict[str, Any]:
    """What one case called and waited for."""
    with StandIn() as watch:
        more = case.watched(watch) or {}
    waits = [{**asdict(wait), "times": times} for wait, times in sorted(watch.waits.items())]
    calls = dict(sorted(watch.calls.items()))
    return {"group": case.group, "name": case.name, "calls": calls, "bytes": watch.bytes, "waits": waits, **more}


def found(only: Callable[[Case], bool] = lambda case: True) -> Iterator[dict[str, Any]]:
    """The results of cases, one after the other; what they keep on disk goes with them."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ANYFORMER_CACHE"] = str(Path(folder) / "cache")
        try:
            for case in cases(Path(folder)):
                if only(case):
                    yield ran(case)
        finally:
            os.chdir(here)


def waits_of(results: Iterable[Mapping[str, Any]]) -> set[tuple[str, str, Wait]]:
    """(group, name, wait) of every result."""
    return {
        (each["group"], each["name"], Wait(wait["where"], wait["operator"], wait["why"]))
        for each in results
        for wait in each["waits"]
    }


def listed(among: Iterable[tuple[str, str]]) -> set[tuple[str, str, Wait]]:
    """What waits.toml says of these (group, name): every one of a group where it says "all"."""
    rows, known = tomllib.loads(LISTED.read_text(encoding="utf-8"))["wait"], list(among)
    return {
        (group, name, Wait(row["where"], row["operator"], row["why"]))
        for row in rows
        for group, name in known
        if (names := row["of"].get(group, [])) == "all" or name in names
    }


def written(results: list[dict[str, Any]]) -> dict[str, Any]:
    """The record: one table of operators, and a row for each case."""
    operators: dict[str, Counter[str]] = {}
    for each in results:
        for name, times in each["calls"].items():
            operators.setdefault(name, Counter())[each["group"]] += times
    rows = [{**each, "calls": sum(each["calls"].values())} for each in results]
    return {
        "date": date.today().isoformat(),
        "versions": {name: version(name) for name in ("anyformer", "torch")},
        "sizes": {"batch": B, "positions": shape(next(iter(zoo().values()))).length, "prompt": READ, "new": NEW},
        "operators": {name: dict(counts) for name, counts in sorted(operators.items())},
        "results": rows,
    }


def main() -> None:
    """Run, print what waits, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="cases to run, with or without their group before it; by default all")
    parser.add_argument("--json", action="store_true", help="print the results, one in a line, and write nothing")
    given = parser.parse_args()
    wanted = set(given.names)
    results = []
    for each in found(lambda case: not wanted or not wanted.isdisjoint({case.name, f"{case.group} {case.name}"})):
        results.append(each)
        if given.json:
            print(json.dumps(each), flush=True)
    if given.json:
        return
    known = listed((each["group"], each["name"]) for each in results)
    for group, name, wait in sorted(waits_of(results)):
        mark = "" if (group, name, wait) in known else "NOT LISTED "
        print(f"{mark}{group} {name}: {wait.where}: {wait.operator} {wait.why}")
    if not wanted:
        record = written(results)
        head, rows = {**record, "results": []}, ",\n".join(json.dumps(row) for row in record["results"])
        RESULT.write_text(json.dumps(head, indent=1)[: -len("[]\n}")] + "[\n" + rows + "\n]\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
    leave()
