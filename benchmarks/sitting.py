"""Contenders side by side in one sitting: each a process of its own, asked for rounds in turn."""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
OURS = "anyformer"
CLOSE = 0.01
"""The largest difference of the parameters that a token uses, over ours: contenders do equal work."""


class GaveUpError(SystemExit):
    """A contender ended: its library is not there, it cannot hold the model, or its gate failed."""


@dataclass
class Contender:
    """One worker process; what it said when it was `ready`, and in each round."""

    name: str
    process: subprocess.Popen[str]
    ready: dict[str, Any] = field(default_factory=dict)
    rounds: list[dict[str, Any]] = field(default_factory=list)

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise GaveUpError(f"{self.name} gave up: see its messages above")
        answer: dict[str, Any] = json.loads(line)
        if answer.get("event") == "error":
            raise GaveUpError(f"{self.name}: {answer['message']}")
        return answer

    def begin(self) -> None:
        """Wait until it is ready."""
        self.ready, self.rounds = self.hear(), []
        print(
            f"ready: {self.name} (build {self.ready['build_seconds']} s, warm-up {self.ready['warmup_seconds']} s)", flush=True
        )

    def case(self, batch: int, context: int, units: int) -> None:
        """Let it turn to another case, after so many units of warm-up."""
        self._ask(f"case {batch} {context} {units}")
        self.ready, self.rounds = self.hear(), []

    def round(self, units: int) -> None:
        self._ask(f"round {units}")
        self.rounds.append(self.hear())

    def rate(self, index: int) -> float:
        """Tokens per second of one round."""
        return float(self.ready["tokens_per_unit"]) / statistics.median(self.rounds[index]["times"])

    def _ask(self, line: str) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{line}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise GaveUpError(f"{self.name} gave up: see its messages above") from None


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """The files of another revision of this repository, for as long as they are needed."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", tree, revision], check=True)
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], check=True)


def start(
    name: str, command: Sequence[str], peers_python: str, environment: Mapping[str, str], tree: Path | None = None
) -> Contender:
    """A contender on its way. `tree`: where the files of another revision are, whose package the same worker runs."""
    python = sys.executable if name.startswith(OURS) else peers_python
    other = {"PYTHONPATH": str(tree / "src")} if tree else {}
    process = subprocess.Popen(
        [python, *command, "--serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **_own_graphs(), **environment, **other},
    )
    return Contender(name, process)


def begun(stack: ExitStack, contenders: Iterable[Contender]) -> list[Contender]:
    """Those that are ready; each ends with the stack.

    One begins after the other: threads of several would wait for one another.
    """

    def owned() -> Iterator[Contender]:
        for contender in contenders:
            stack.callback(contender.process.wait)
            stack.callback(contender.process.kill)
            yield contender

    return list(taking_part(owned(), Contender.begin))


def taking_part(contenders: Iterable[Contender], do: Callable[[Contender], None]) -> Iterator[Contender]:
    """Those contenders that do not give up over it."""
    for contender in contenders:
        try:
            do(contender)
        except GaveUpError as error:
            print(f"left out from here on: {error}", flush=True)
        else:
            yield contender


def take_turns(contenders: Sequence[Contender], rounds: int, units: int, until: float = math.inf) -> None:
    """Round after round, everybody in turn; after `until`, a reading of the monotonic clock, no second round begins."""
    for number in range(rounds):
        if number and time.monotonic() > until:
            print(f"{number} rounds of {rounds}: the time is up", flush=True)
            return
        for contender in contenders:
            contender.round(units)
        rates = ", ".join(f"{contender.rate(number):,.0f}" for contender in contenders)
        print(f"round {number + 1} of {rounds}: {rates}", flush=True)


def summary(contenders: Sequence[Contender], base: str) -> list[dict[str, Any]]:
    """Median tokens/s of each, and the median over rounds of (`base`, ours) / (it). Refuses contenders of unequal work."""
    ours = next(contender for contender in contenders if contender.name == base)
    same_work(ours, contenders)
    rows = []
    for contender in contenders:
        rates = [contender.rate(i) for i in range(len(contender.rounds))]
        ratios = [ours.rate(i) / rates[i] for i in range(len(rates))]
        ready = contender.ready
        row = {
            "name": contender.name,
            "tokens_per_second": round(statistics.median(rates), 1),
            "slowest_round": round(min(rates), 1),
            "fastest_round": round(max(rates), 1),
            "ours_is_faster_by": round(statistics.median(ratios), 3),
            "first_unit_seconds": round(ready["warmup_times"][0], 2) if ready["warmup_times"] else None,
            "first_token_seconds": _median(contender, "first_token_seconds"),
            "bytes_before": ready["bytes_before"],
            "peak_bytes": max((each["peak_bytes"] or 0 for each in contender.rounds), default=0) or None,
            **{fact: ready[fact] for fact in ("bytes_per_step", "foretold_bytes", "tensor_bytes") if fact in ready},
            **{fact: contender.rounds[-1][fact] for fact in ("gap_to_fp32", "near_ties") if fact in contender.rounds[-1]},
            "parameters": ready["parameters"],
            "versions": ready["versions"],
            "times": [each["times"] for each in contender.rounds],
            "processor_seconds": [each["processor_seconds"] for each in contender.rounds],
        }
        rows.append({key: value for key, value in row.items() if value is not None})
    return rows


def same_work(ours: Contender, contenders: Sequence[Contender]) -> None:
    """Raises `SystemExit` where a token of a contender uses more or fewer parameters than one of ours."""
    own = ours.ready["parameters"]
    for contender in contenders:
        count = contender.ready["parameters"]
        if not abs(count - own) <= CLOSE * own:
            raise SystemExit(f"{contender.name} uses {count:,} parameters for a token and {ours.name} {own:,}: no comparison")


def _median(contender: Contender, fact: str) -> float | None:
    found = [each[fact] for each in contender.rounds if fact in each]
    return round(statistics.median(found), 4) if found else None


def told(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a line for every contender."""
    for row in rows:
        first = f"   first token {row['first_token_seconds']:.2f} s" if "first_token_seconds" in row else ""
        print(
            f"{row['name']:32} {row['tokens_per_second']:>10,.1f} tokens/s   ours / it {row['ours_is_faster_by']:.2f}{first}",
            flush=True,
        )


LOWERING = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
"""Variables of the environment that hide instructions of a processor from torch and its libraries."""


def _own_graphs() -> dict[str, str]:
    """Where instructions are hidden, a folder of compiled graphs for these alone: torch would give peers the graphs that it
    compiled with all instructions, whose results are wrong here (`anyformer.processor.compiler_options`)."""
    hidden = [os.environ[name].lower() for name in LOWERING if name in os.environ]
    return {"TORCHINDUCTOR_CACHE_DIR": f"{tempfile.gettempdir()}/compiled-{'-'.join(hidden)}"} if hidden else {}


def machine() -> dict[str, Any]:
    """The processor and the system."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    flags = next((line for line in lines if line.startswith("flags")), "")
    hidden = {name: os.environ[name] for name in LOWERING if name in os.environ}
    return {
        "cpu": model, "cores": os.cpu_count(), "avx512_bf16": "avx512_bf16" in flags, "platform": platform.platform(),
        **({"hidden": hidden} if hidden else {}),
    }  # fmt: skip


def written(path: Path, record: Mapping[str, Any]) -> None:
    """Write a result and say where."""
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(f"written: {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}", flush=True)
