"""What a step of training spends its time on, on this machine: products, attention, what lies between, clipping and optimiser.

    python -m benchmarks.step_profile
    python -m benchmarks.step_profile --shape nanogpt --precisions bf16 --modes compiled

The step is that of `benchmarks.ours_train`, traced by torch's profiler; beside it stands the time of its products alone, each
measured by itself with all pairs of a query and a key. Shares are of the time that operations took themselves.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import torch
from benchmarks.cases import TRAININGS, Training
from benchmarks.floors import NUMBERS, step
from benchmarks.ours_train import Trainer
from benchmarks.sitting import RESULTS, machine, written
from torch.profiler import ProfilerActivity, profile

from anyformer.plan import Plan
from anyformer.training.allocator import keep_freed_memory
from anyformer.training.attention_kernel import with_kernel

STEPS = 3
GROUPS: Mapping[str, tuple[str, ...]] = {
    "products": ("aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm", "mkldnn::_linear", "anyformer::onednn_product"),
    "attention's kernel": ("anyformer::attend_native", "GeneratedBackwardFor_anyformer", "aten::_scaled_dot_product"),
    "optimiser": ("aten::_fused_adamw_",),
    "clipping": ("aten::linalg_vector_norm", "aten::mul_"),
}
"""How the names of operations of each kind begin; all others are `between products`."""
BETWEEN = "between products"


def group_of(name: str) -> str:
    """The kind of an operation."""
    return next((group for group, starts in GROUPS.items() if name.startswith(starts)), BETWEEN)


def profiled(sizes: Training, precision: str, mode: str) -> dict[str, Any]:
    """Seconds of the first step and of a later one, and the shares of its operations."""
    plan = Plan.parse({"precision": precision, "compile": "on" if mode == "compiled" else "off"})
    plan, _ = with_kernel(plan, torch.device("cpu"), long=True)
    trainer = Trainer(plan, 0, sizes)
    first = trainer.step()
    trainer.step()
    seconds = statistics.median(trainer.step() for _ in range(STEPS))
    with profile(activities=[ProfilerActivity.CPU]) as told:
        for _ in range(STEPS):
            trainer.step()
    times = dict.fromkeys([*GROUPS, BETWEEN], 0.0)
    for event in told.key_averages():
        times[group_of(event.key)] += event.self_cpu_time_total
    total = sum(times.values())
    return {
        "first_step_seconds": round(first, 2), "seconds": round(seconds, 4), "attention": plan.attention,
        "tokens_per_second": round(sizes.tokens / seconds, 1),
        "shares": {group: round(time / total, 4) for group, time in times.items()},
    }  # fmt: skip


def main() -> None:
    """Measure, print and write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=tuple(TRAININGS), default="small")
    parser.add_argument("--precisions", nargs="+", choices=tuple(NUMBERS), default=list(NUMBERS))
    parser.add_argument("--modes", nargs="+", choices=("compiled", "eager"), default=["compiled", "eager"])
    parser.add_argument("--tiny", action="store_true", help="a small model of the same kind, for a rehearsal")
    parser.add_argument("--output", type=Path, metavar="FILE", default=RESULTS / "step-profile.json", help="the result's file")
    arguments = parser.parse_args()
    keep_freed_memory()
    sizes = TRAININGS[arguments.shape].tiny if arguments.tiny else TRAININGS[arguments.shape]
    record: dict[str, Any] = {
        "date": date.today().isoformat(), "machine": machine(), "torch": torch.__version__,
        "threads": torch.get_num_threads(), "shape": arguments.shape, "steps": {},
    }  # fmt: skip
    for precision in arguments.precisions:
        with torch.inference_mode():
            record["steps"][precision] = {"products alone": step(sizes, NUMBERS[precision])}
        for mode in arguments.modes:
            record["steps"][precision][mode] = found = profiled(sizes, precision, mode)
            print(f"{precision}, {mode}: {found}", flush=True)
            torch.compiler.reset()
    written(arguments.output, record)


if __name__ == "__main__":
    main()
