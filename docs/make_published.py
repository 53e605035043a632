"""Writes `docs/published.md`: published training runs against the cost sheet and the planner.

python docs/make_published.py
"""

from __future__ import annotations

import statistics
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from anyformer.catalogue import architecture
from anyformer.costs import cost
from anyformer.costs.cluster import CLUSTERS, Cluster
from anyformer.costs.layout import Layout
from anyformer.costs.planner import Candidate, evaluate, plan_training

PAGE = Path(__file__).with_name("published.md")
RUNS = Path(__file__).with_name("published.toml")
PEAKS = {"v100": 125e12, "tpu-v3": 123e12, "tpu-v4": 275e12} | {name: each.peak for name, each in CLUSTERS.items()}
OUTLIER = 0.15
INTRODUCTION = """# Published training runs

What authors say of their runs, held against what the cost sheet and the planner say of the same architecture. The figures are
in [published.toml](published.toml), each with its source; this page is written by `python docs/make_published.py`.

## FLOPs and utilisation

FLOPs: forward and backward of every token, matrix products only, every query-key pair counted (the convention of PaLM, arXiv
2204.02311, appendix B), against those that the authors report. Implied MFU: these FLOPs over what the accelerators could do in
the hours, or at the rate, that the authors report; hours hold restarts and whatever else happened.

"""
PREDICTED = """
## Predicted time

Tokens per second and accelerator: in the authors' layout where it is published, else in the fastest that the planner finds for
the same accelerators and batch. One set of efficiencies per generation (`costs/cluster.py`); the share of the peak that matrix
products reach is fitted to every other run of a generation, in the order of the file, and the others test it.

{errors}

"""


@dataclass(frozen=True)
class Row:
    """A run, what we say of it, and whether its time was fitted to."""

    run: dict[str, Any]
    flops_per_token: float
    found: Candidate | None
    fitted: bool

    @property
    def peak(self) -> float:
        return PEAKS[self.run["hardware"]]

    @property
    def rate(self) -> float | None:
        """Tokens per second and accelerator, as reported or as what is reported implies."""
        if "rate" in self.run:
            return float(self.run["rate"])
        if "tflops" in self.run:
            return self.run["tflops"] * 1e12 / self.flops_per_token
        return self.run["tokens"] / self.run["hours"] / 3600 if "hours" in self.run else None

    @property
    def mfu(self) -> float | None:
        return None if self.rate is None else self.rate * self.flops_per_token / self.peak

    @property
    def predicted(self) -> float | None:
        return None if self.found is None else self.found.tokens_per_second / self.found.layout.ranks

    @property
    def error(self) -> float | None:
        """Predicted over reported, less 1."""
        return None if self.predicted is None or self.rate is None else self.predicted / self.rate - 1


def rows() -> list[Row]:
    """All runs; of those whose time can be predicted, every other one of a generation is one fitted to."""
    counts: dict[str, int] = {}
    found = []
    for run in tomllib.loads(RUNS.read_text())["run"]:
        sheet = cost(architecture(run["name"]), length=run["length"])
        candidate = predict(run)
        number = counts.get(generation(run), 0)
        counts[generation(run)] = number + (candidate is not None)
        found.append(Row(run, sheet.flops.total.dense / run["length"], candidate, candidate is not None and number % 2 == 0))
    return found


def generation(run: dict[str, Any]) -> str:
    """Accelerators of one set of efficiencies."""
    return {"h800": "h100"}.get(run["hardware"], run["hardware"].split("-40")[0])


def predict(run: dict[str, Any]) -> Candidate | None:
    """The authors' layout or the planner's; None where accelerators or batch are not known."""
    if run["hardware"] not in CLUSTERS or "batch" not in run or not {"hours", "rate", "tflops"} & run.keys():
        return None
    arch, machine = architecture(run["name"]), CLUSTERS[run["hardware"]]
    if "layout" not in run:
        planned = plan_training(arch, ranks=run["gpus"], batch_tokens=run["batch"], length=run["length"], hardware=machine)
        return planned.fastest[0] if planned.fastest else None
    layout = Layout(**run["layout"])
    layout = replace(layout, micro_batches=run["batch"] // run["length"] // (layout.replicas * layout.micro_batch))
    return evaluate(arch, layout, length=run["length"], hardware=machine)


def fitted(found: list[Row], name: str) -> float:
    """The share of the peak for which the runs fitted to have the smallest median error, layouts as they are."""
    chosen = [row for row in found if row.fitted and generation(row.run) == name]
    return min((share / 100 for share in range(30, 91)), key=lambda share: _median([_error(row, share) for row in chosen]))


def _error(row: Row, share: float) -> float:
    assert row.found is not None
    assert row.rate is not None
    machine: Cluster = row.found.machine
    machine = replace(machine, efficiency=replace(machine.efficiency, compute=share))
    again = evaluate(architecture(row.run["name"]), row.found.layout, length=row.run["length"], hardware=machine)
    return again.tokens_per_second / again.layout.ranks / row.rate - 1


def _median(errors: list[float]) -> float:
    return statistics.median(abs(error) for error in errors)


def errors_of(found: list[Row]) -> dict[str, tuple[float, float]]:
    """Generation -> median error of the runs fitted to, and of the others."""
    result = {}
    for name in dict.fromkeys(generation(row.run) for row in found if row.error is not None):
        halves = [
            [row.error for row in found if row.error is not None and generation(row.run) == name and row.fitted is fit]
            for fit in (True, False)
        ]
        result[name] = (_median(halves[0]), _median(halves[1]))
    return result


def page(found: list[Row]) -> str:
    """The whole page."""
    lines = [
        f"- {name.upper()}: median error {fit:.0%} on the runs fitted to, {test:.0%} on the others."
        for name, (fit, test) in errors_of(found).items()
    ]
    timed = [row for row in found if row.error is not None]
    sources = [f"{number}. {row.run['name']}: {row.run['source']}." for number, row in enumerate(found, 1)]
    return (
        INTRODUCTION
        + _table(
            ["run", "tokens", "hardware", "FLOPs", "reported", "ratio", "implied MFU", "reported", "remark"], map(_flops, found)
        )
        + PREDICTED.format(errors="\n".join(lines))
        + _table(
            ["run", "accelerators", "layout", "reported", "predicted", "error", "MFU", "memory", "half", "remark"],
            map(_time, timed),
        )
        + "\n## Sources\n\n"
        + "\n".join(sources)
        + "\n"
    )


def _flops(row: Row) -> list[str]:
    run = row.run
    total, reported = row.flops_per_token * run["tokens"], run.get("flops")
    return [
        run["name"],
        f"{run['tokens'] / 1e12:.3g} T" if run["tokens"] else "",
        run["hardware"],
        f"{total:.3g}" if total else "",
        f"{reported:.3g}" if reported else "",
        f"{total / reported:.2f}" if reported else "",
        f"{row.mfu:.1%}" if row.mfu else "",
        f"{run['mfu']:.1%}" if "mfu" in run else "",
        run.get("remark", ""),
    ]


def _time(row: Row) -> list[str]:
    run, found = row.run, row.found
    assert found is not None
    assert row.error is not None
    assumed = f" ({' and '.join(run['assumed'])} assumed)" if "assumed" in run else ""
    return [
        run["name"],
        f"{run['gpus']:,} {run['hardware']}{assumed}",
        f"{found.layout}, {found.layout.checkpointing} recomputed ({'the authors' if 'layout' in run else 'planned'})",
        f"{row.rate:,.0f}",
        f"{row.predicted:,.0f}",
        f"{row.error:+.0%}" + (" outlier" if abs(row.error) > OUTLIER else ""),
        f"{found.mfu:.0%}",
        f"{found.memory.total / 1e9:.0f} GB",
        "fitted" if row.fitted else "test",
        run.get("remark", ""),
    ]


def _table(head: list[str], body: Any) -> str:
    return "".join(f"| {' | '.join(line)} |\n" for line in [head, ["---"] * len(head), *body])


if __name__ == "__main__":
    all_rows = rows()
    for name, errors in errors_of(all_rows).items():
        print(name, "best share of the peak", fitted(all_rows, name), "median errors, fitted and test", errors)
    PAGE.write_text(page(all_rows))
    print(PAGE)
