"""How long importing and `--help` take, and how much memory a training step needs against what its shapes require.

    python -m benchmarks.start

The floor of memory: fp32 weights, gradients and two moments, plus the bf16 copies of the weights and the tensors that
autograd keeps (measured with saved_tensors_hooks in eager mode), plus the logits once more for their gradient. Measured:
the peak of resident memory of a fresh process that trains, less that of one that only imports.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from datetime import date
from typing import Any

from benchmarks.compare import RESULTS, machine

IMPORTS = "import resource, anyformer.training, anyformer.model"
TRAIN = (
    "from benchmarks.ours_train import *; import resource; keep_freed_memory();"
    "t = Trainer(Plan(precision='bf16', compile='{compile}'), 0); [t.step() for _ in range(4)];"
)
PEAK = "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)"
KEPT = (
    "from benchmarks.ours_train import *; import resource;"
    "t = Trainer(Plan(precision='bf16', compile='off'), 0); kept = {};"
    "names = {p.data_ptr() for p in t.model.parameters()};"
    "pack = lambda x: (kept.__setitem__(x.untyped_storage().data_ptr(), x.untyped_storage().nbytes()), x)[1];"
    "\nwith torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):\n    loss = t.loss(t.batch, None)\n"
    "print(sum(size for pointer, size in kept.items() if pointer not in names))"
)


def output_of(code: str) -> int:
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()[-1])


def seconds(*command: str, rounds: int = 7) -> float:
    """Median wall-clock seconds of a command."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True)
        times.append(time.perf_counter() - begin)
    return round(statistics.median(times), 3)


def main() -> None:
    """Measure, print, write."""
    python = sys.executable
    parameters = 13_767_552
    kept = output_of(KEPT)
    floor = 4 * 4 * parameters + 2 * parameters + kept + 16 * 256 * 4096 * 2
    imported = output_of(f"{IMPORTS}; {PEAK}")
    peaks = {mode: output_of(TRAIN.format(compile=mode) + PEAK) - imported for mode in ("off", "on")}
    record: dict[str, Any] = {
        "date": date.today().isoformat(),
        "machine": machine(),
        "seconds": {
            "import anyformer": seconds(python, "-c", "import anyformer"),
            "import anyformer, with torch and every room": seconds(python, "-c", IMPORTS),
            "import torch alone": seconds(python, "-c", "import torch"),
            "anyformer --help": seconds(python, "-c", "from anyformer.cli import main; main()", "--help"),
        },
        "memory": {
            "floor_bytes": floor,
            "kept_for_backward_bytes": kept,
            "eager_peak_bytes": peaks["off"],
            "compiled_peak_bytes": peaks["on"],
            "eager_over_floor": round(peaks["off"] / floor, 3),
            "compiled_over_floor": round(peaks["on"] / floor, 3),
        },
    }
    print(json.dumps(record, indent=1))
    (RESULTS / "start.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
