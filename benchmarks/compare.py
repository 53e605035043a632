"""Speed side by side in one sitting: workers take turns, round after round, and ratios are taken within each round.

    python -m benchmarks.compare training --peers-python .venv-peers/bin/python
    python -m benchmarks.compare decoding --peers-python .venv-peers/bin/python --with llama.cpp
    python -m benchmarks.compare decoding --weights int8 --with llama.cpp
    python -m benchmarks.compare training --fp32
    python -m benchmarks.compare training --against f64efbf

Prints a table and writes benchmarks/results/<what>.json with machine, versions and every time. Each worker's own
correctness gate must pass, or there is no result. Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
OURS = "anyformer"
# What anyformer's training asks of malloc in its own process, for peers that are to have it too (--tuned-malloc).
MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(2**32), "MALLOC_TRIM_THRESHOLD_": str(2**33), "MALLOC_TOP_PAD_": str(2**28)}

TRAINING = {
    "anyformer compiled": ["-m", "benchmarks.ours_train", "--peer", OURS, "--compile"],
    "anyformer eager": ["-m", "benchmarks.ours_train", "--peer", OURS, "--no-compile"],
    **{
        f"{peer} {mode}": ["-m", "benchmarks.peers.train", "--peer", peer, flag]
        for peer in ("litgpt", "transformers", "x-transformers")
        for mode, flag in (("compiled", "--compile"), ("eager", "--no-compile"))
    },
    **{
        f"{peer} compiled sdpa": ["-m", "benchmarks.peers.train", "--peer", peer, "--compile", "--attention", "sdpa"]
        for peer in ("transformers", "x-transformers")
    },
}
DECODING = {
    **{
        f"anyformer {mode}": ["-m", "benchmarks.ours_decode", "--peer", OURS, "--mode", mode]
        for mode in ("default", "compiled", "eager")
    },
    **{
        f"{peer} {mode}": ["-m", "benchmarks.peers.decode", "--peer", peer, "--mode", mode]
        for peer in ("litgpt", "transformers")
        for mode in ("compiled", "eager")
    },
}
EXTRAS = {
    "llama.cpp": {"llama.cpp": ["-m", "benchmarks.peers.decode", "--peer", "llama.cpp"]},
    "tuned": {
        f"{peer} {mode}": ["-m", "benchmarks.peers.decode", "--peer", peer, "--mode", mode]
        for peer in ("litgpt", "transformers")
        for mode in ("frozen", "tuned")
    },
}
WEIGHTS = {"bf16": "bf16", "f32": "f32", "int8": "q8_0", "int4": "q4_0"}
"""The weights of a decoding model, and what llama.cpp calls the same number of bits."""
PLAIN = ("bf16", "f32")
"""Weights that every contender has; others are those of llama.cpp and of our default."""
BASE = {"training": f"{OURS} compiled", "decoding": f"{OURS} default"}
"""The contender that all others are compared with."""


@dataclass
class Contender:
    """One worker process, asked for rounds in turn."""

    name: str
    process: subprocess.Popen[str]
    ready: dict[str, Any] = field(default_factory=dict)
    times: list[list[float]] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} gave up: see its messages above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def round(self, units: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"round {units}\n")
        self.process.stdin.flush()
        answer = self.hear()
        self.times.append(answer["times"])
        self.busy.append(answer["processor_seconds"])

    def rate(self, index: int) -> float:
        """Tokens per second of one round."""
        return float(self.ready["tokens_per_unit"]) / statistics.median(self.times[index])


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


def start(name: str, command: list[str], peers_python: str, environment: dict[str, str], tree: Path | None = None) -> Contender:
    """`tree`: where the files of another revision are, whose package the same worker runs."""
    python = sys.executable if name.startswith(OURS) else peers_python
    other = {"PYTHONPATH": str(tree / "src")} if tree else {}
    process = subprocess.Popen(
        [python, *command, "--serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment, **other},
    )
    contender = Contender(name, process)
    contender.ready = contender.hear()
    print(
        f"ready: {name} (build {contender.ready['build_seconds']} s, warm-up {contender.ready['warmup_seconds']} s)", flush=True
    )
    return contender


def summary(contenders: list[Contender], rounds: int, base: str) -> list[dict[str, Any]]:
    """Median tokens/s of each, and the median over rounds of (`base`, ours) / (it)."""
    ours = next(c for c in contenders if c.name == base)
    rows = []
    for contender in contenders:
        rates = [contender.rate(i) for i in range(rounds)]
        ratios = [ours.rate(i) / rates[i] for i in range(rounds)]
        rows.append(
            {
                "name": contender.name,
                "tokens_per_second": round(statistics.median(rates), 1),
                "slowest_round": round(min(rates), 1),
                "fastest_round": round(max(rates), 1),
                "ours_is_faster_by": round(statistics.median(ratios), 3),
                "first_unit_seconds": round(contender.ready["warmup_times"][0], 2),
                "parameters": contender.ready["parameters"],
                "versions": contender.ready["versions"],
                "times": contender.times,
                "processor_seconds": contender.busy,
            }
        )
    return rows


def _weights(name: str, weights: str) -> str:
    """What a contender calls these weights."""
    return WEIGHTS[weights] if name == "llama.cpp" else weights


def machine() -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    flags = next((line for line in lines if line.startswith("flags")), "")
    return {"cpu": model, "cores": os.cpu_count(), "avx512_bf16": "avx512_bf16" in flags, "platform": platform.platform()}


def main() -> None:
    """Let the contenders take turns and write down what they did."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("training", "decoding"))
    parser.add_argument("--peers-python", default=".venv-peers/bin/python")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--units", type=int, default=3, help="steps or generations per round")
    parser.add_argument("--with", dest="extras", action="append", default=[], choices=list(EXTRAS))
    parser.add_argument("--tuned-malloc", action="store_true", help="give every contender the malloc settings anyformer uses")
    parser.add_argument("--fp32", action="store_true", help="train in fp32 instead of bf16, for processors that emulate it")
    parser.add_argument("--weights", choices=tuple(WEIGHTS), default="bf16", help="of decoding")
    parser.add_argument("--only", help="contenders whose names contain this, beside ours")
    parser.add_argument("--against", metavar="REVISION", help="anyformer of another revision, in place of the peers")
    arguments = parser.parse_args()
    commands = dict(TRAINING if arguments.what == "training" else DECODING)
    for extra in arguments.extras:
        commands |= EXTRAS[extra]
    if arguments.only:
        commands = {n: c for n, c in commands.items() if n.startswith(OURS) or arguments.only in n}
    if arguments.what == "decoding":
        if arguments.weights not in PLAIN:
            commands = {name: command for name, command in commands.items() if name in (BASE["decoding"], "llama.cpp")}
        commands = {name: [*command, "--weights", _weights(name, arguments.weights)] for name, command in commands.items()}
    elif arguments.fp32:
        commands = {name: [*command, "--precision", "fp32"] for name, command in commands.items()}
    malloc = MALLOC if arguments.tuned_malloc else {}
    with ExitStack() as stack:
        trees: dict[str, Path | None] = dict.fromkeys(commands)
        if arguments.against:
            ours = {name: command for name, command in commands.items() if name.startswith(OURS)}
            other = {f"{name} at {arguments.against}": command for name, command in ours.items()}
            tree = stack.enter_context(checked_out(arguments.against))
            commands, trees = ours | other, dict.fromkeys(ours) | dict.fromkeys(other, tree)
        contenders = [start(name, command, arguments.peers_python, malloc, trees[name]) for name, command in commands.items()]
        for contender in contenders:
            stack.callback(contender.process.kill)
        for number in range(arguments.rounds):
            for contender in contenders:
                contender.round(arguments.units)
            print(
                f"round {number + 1} of {arguments.rounds}: " + ", ".join(f"{c.rate(number):,.0f}" for c in contenders),
                flush=True,
            )
    rows = summary(contenders, arguments.rounds, BASE[arguments.what])
    for row in rows:
        print(f"{row['name']:32} {row['tokens_per_second']:>10,.1f} tokens/s   ours / it {row['ours_is_faster_by']:.2f}")
    record = {
        "what": arguments.what,
        "base": BASE[arguments.what],
        "date": date.today().isoformat(),
        "machine": machine(),
        "malloc": malloc,
        "results": rows,
    }
    if not arguments.only:
        variant = f"-against-{arguments.against}" if arguments.against else ""
        number = arguments.weights if arguments.what == "decoding" else "fp32" if arguments.fp32 else "bf16"
        variant += ("" if number == "bf16" else f"-{number}") + ("-tuned-malloc" if malloc else "")
        path = RESULTS / f"{arguments.what}{variant}.json"
        path.write_text(json.dumps(record, indent=1) + "\n")
        print(f"written: {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")


if __name__ == "__main__":
    main()
