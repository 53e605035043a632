"""How far a reader travels: the files and functions of this package that one act passes through, and how deep it goes.

    python -m benchmarks.trips              # writes results/trips.json; what the file had stands there as `before`

A trip counts calls of Python functions of the package, of lambdas and generators too, on a tiny Llama: `files` and `functions`
that take part, `depth`, the most of them that stand on the stack at once, and `changes`, the calls from one file into another.
What torch and pydantic call back counts from the function of the package before it. Nothing is timed. Beside the trips stand
the lines of the source and of the tests.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import CodeType, FrameType

import torch
from benchmarks.compare import RESULTS

import anyformer as af
from anyformer.data import Bytes, Text
from anyformer.model import Architecture
from anyformer.plan import Plan
from anyformer.training import Checkpoints, Evaluation, Run, train
from anyformer.training.session import Session

PACKAGE = str(Path(af.__file__).parent)
WHERE = RESULTS / "trips.json"
TEXT = "\n".join(f"def f{i}(x):\n    return x + {i * i % 97}\n" for i in range(200))
CONFIGURATION = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 300, "hidden_size": 32, "intermediate_size": 48,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "max_position_embeddings": 128, "hidden_act": "silu", "tie_word_embeddings": False,
}  # fmt: skip


@dataclass(frozen=True)
class Trip:
    """What one act passes through."""

    files: int
    functions: int
    depth: int
    changes: int


@dataclass
class Travel:
    """Counts calls while it is the profiler of this thread; `stack`: the functions of the package that are running."""

    seen: set[CodeType] = field(default_factory=set)
    stack: list[CodeType] = field(default_factory=list)
    depth: int = 0
    changes: int = 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE) or code.co_name == "<module>":
            return
        if event == "call":
            self.changes += bool(self.stack) and self.stack[-1].co_filename != code.co_filename
            self.stack.append(code)
            self.seen.add(code)
            self.depth = max(self.depth, len(self.stack))
        elif event == "return" and self.stack:
            self.stack.pop()

    @property
    def trip(self) -> Trip:
        return Trip(len({code.co_filename for code in self.seen}), len(self.seen), self.depth, self.changes)


@contextmanager
def travelling() -> Iterator[Travel]:
    """Within, every call of this thread is counted."""
    travel = Travel()
    before = sys.getprofile()
    sys.setprofile(travel)
    try:
        yield travel
    finally:
        sys.setprofile(before)


def trip_of(act: Callable[[], object], *, warm: bool = True) -> Trip:
    """The trip of an act, the second time if `warm`, when what is made once is made."""
    if warm:
        act()
    with travelling() as travel:
        act()
    return travel.trip


def update_of(architecture: Architecture, directory: Path) -> Trip:
    """The trip of a run's last update, with its line in the metrics; the memory of the first ones is measured."""
    file, found = directory / "text.py", list[Trip]()
    file.write_text(TEXT)
    whole = Session._update

    def watched(session: Session) -> None:
        with travelling() as travel:
            whole(session)
        found.append(travel.trip)

    run = Run(
        steps=7, batch=2, length=16, data=Text(paths=(str(file),), tokenizer=Bytes(), validation=0.1),
        evaluation=Evaluation(every=7, batches=1, final_tokens=32, baseline=False), checkpoints=Checkpoints(every=7),
        plan=Plan(precision="fp32", compile="off"), architecture=architecture,
    )  # fmt: skip
    Session._update = watched  # type: ignore[method-assign]
    try:
        train(run, directory / "run")
    finally:
        Session._update = whole  # type: ignore[method-assign]
    return found[-1]


def trips(directory: Path) -> dict[str, Trip]:
    """Every trip by name, those that must be cold first."""
    whole = trip_of(lambda: str(af.cost("llama-3-8b")), warm=False)
    architecture = af.architecture(CONFIGURATION)
    model, tokens = af.build(architecture, seed=0).eval(), torch.arange(8)[None]
    return {
        "cost llama-3-8b, the whole sheet, cold": whole,
        "params.total of a sheet": trip_of(lambda: af.cost(architecture).params.total),
        "forward": trip_of(lambda: model(tokens)),
        "one update": update_of(architecture, directory),
        "generate, 3 tokens": trip_of(lambda: af.generate(model, None, [1, 2, 3], max_tokens=3)),
        "configuration to Architecture": trip_of(lambda: af.architecture(CONFIGURATION)),
    }


def lines() -> dict[str, int]:
    """The lines of the package's source and of its tests."""
    places = {"source": Path(PACKAGE), "tests": Path(PACKAGE).parents[1] / "tests"}
    return {name: sum(len(path.read_text().splitlines()) for path in place.rglob("*.py")) for name, place in places.items()}


def main() -> None:
    known = json.loads(WHERE.read_text()) if WHERE.exists() else {}
    with tempfile.TemporaryDirectory() as place:
        os.environ["ANYFORMER_CACHE"] = str(Path(place) / "cache")
        found = {name: asdict(trip) for name, trip in trips(Path(place)).items()}
    before = known.get("before", known.get("now"))
    now = {**found, "lines": lines()}
    WHERE.write_text(json.dumps({"now": now, **({"before": before} if before else {})}, indent=1) + "\n")
    for name, trip in found.items():
        print(f"{name}: " + ", ".join(f"{count:,} {what}" for what, count in trip.items()))


if __name__ == "__main__":
    main()
