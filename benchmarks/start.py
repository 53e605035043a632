"""How long a person waits for a command, and how much memory a training step needs against what its shapes require.

    python -m benchmarks.start
    python -m benchmarks.start answers      # renews this part alone: see benchmarks/answers.py

Seconds are medians over rounds of one sitting: each round starts every command once, a bare `import torch` among them, so that
what else the machine does falls on all alike. Bytecode is written before, as an installation leaves it.

In the precision that is faster here. The floor of memory: fp32 weights, gradients and two moments, in bf16 also the copies
of the weights, the tensors that autograd keeps (measured with saved_tensors_hooks in eager mode with the attention kernel
that is used: torch's in eager mode, the written-out one when compiled), and the logits once more for their gradient.
Measured: the peak of resident memory of a fresh process that trains, less that of one that only imports.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import date
from typing import Any

from benchmarks import answers
from benchmarks.compare import RESULTS, machine

from anyformer.plan import Plan
from anyformer.training.precision import default_device, measured_host

IMPORTS = "import resource, anyformer.training, anyformer.model"
TRAIN = (
    "from benchmarks.ours_train import *; import resource; keep_freed_memory();"
    "t = Trainer(Plan(precision='{precision}', compile='{compile}'), 0); [t.step() for _ in range(4)];"
)
PEAK = "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)"
KEPT = (
    "from benchmarks.ours_train import *; import resource;"
    "t = Trainer(Plan(precision='{precision}', attention='{attention}', compile='off'), 0); kept = dict();"
    "names = set(p.data_ptr() for p in t.model.parameters());"
    "pack = lambda x: (kept.__setitem__(x.untyped_storage().data_ptr(), x.untyped_storage().nbytes()), x)[1];"
    "\nwith torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):\n    loss = t.passes.summed(t.batch.tensors(), None)\n"
    "print(sum(size for pointer, size in kept.items() if pointer not in names))"
)


def output_of(code: str) -> int:
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()[-1])


WAITS = {
    "python alone": ("-c", "pass"),
    "import torch alone": ("-c", "import torch"),
    "import anyformer": ("-c", "import anyformer"),
    "import anyformer, with torch and every room": ("-c", IMPORTS),
    "anyformer --help": ("-m", "anyformer", "--help"),
    "anyformer list": ("-m", "anyformer", "list"),
    "anyformer show gpt2": ("-m", "anyformer", "show", "gpt2"),
    "anyformer show deepseek-v3": ("-m", "anyformer", "show", "deepseek-v3"),
    "anyformer cost gpt2": ("-m", "anyformer", "cost", "gpt2"),
    "anyformer cost deepseek-v3": ("-m", "anyformer", "cost", "deepseek-v3"),
}
"""What is waited for, and the arguments of Python."""


def seconds(*command: str, rounds: int = 7) -> float:
    """Median wall-clock seconds of a command."""
    return round(statistics.median(elapsed(command) for _ in range(rounds)), 3)


def elapsed(command: Sequence[str]) -> float:
    """Wall-clock seconds of a command, whose Python writes bytecode."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    begin = time.perf_counter()
    subprocess.run(command, capture_output=True, check=True, env=environment)
    return time.perf_counter() - begin


def waits(rounds: int = 9) -> dict[str, float]:
    """Median seconds of everything that is waited for, after a round that is not counted."""
    times: dict[str, list[float]] = {what: [] for what in WAITS}
    for number in range(rounds + 1):
        for what, arguments in WAITS.items():
            took = elapsed((sys.executable, *arguments))
            if number:
                times[what].append(took)
    return {what: round(statistics.median(each), 3) for what, each in times.items()}


def main(part: str = "") -> None:
    """Measure, print, write; of one part only that."""
    file = RESULTS / "start.json"
    record = json.loads(file.read_text()) | {part: {"machine": machine(), **PARTS[part]()}} if part else everything()
    print(json.dumps(record, indent=1))
    file.write_text(json.dumps(record, indent=1) + "\n")


PARTS = {"answers": answers.measured}


def everything() -> dict[str, Any]:
    """Seconds that commands take, processor seconds of answers, memory of a training step."""
    parameters = 13_767_552
    peaks_of_products = measured_host(default_device(), Plan()).peaks
    precision = max(peaks_of_products, key=lambda name: peaks_of_products[name])
    size = 2 if precision == "bf16" else 4
    copies = 2 * parameters if precision == "bf16" else 0
    fixed = 4 * 4 * parameters + copies + 16 * 256 * 4096 * size
    imported = output_of(f"{IMPORTS}; {PEAK}")
    memory: dict[str, Any] = {"precision": precision}
    for mode, attention in (("eager", "sdpa"), ("compiled", "plain")):
        kept = output_of(KEPT.format(precision=precision, attention=attention))
        peak = output_of(TRAIN.format(precision=precision, compile="on" if mode == "compiled" else "off") + PEAK) - imported
        memory[mode] = {
            "kept_for_backward_bytes": kept,
            "floor_bytes": fixed + kept,
            "peak_bytes": peak,
            "peak_over_floor": round(peak / (fixed + kept), 3),
        }
    return {
        "date": date.today().isoformat(),
        "machine": machine(),
        "seconds": waits(),
        "memory": memory,
        "answers": {"machine": machine(), **answers.measured()},
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
