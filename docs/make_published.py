"""Writes `docs/published.md` and `docs/reference/published.md`: published training runs against the cost sheet and the planner.

python docs/make_published.py
"""

from __future__ import annotations

import statistics
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from page_text import table
from published_by_source import CLASSES, draw, section, size_class
from published_fit import HOURS
from published_runs import MEASURED, RUNS, Timed, flops_per_token, memories, rate_of, timed

from anyformer.catalogue import architecture
from anyformer.costs.named_hardware import hardware_of
from anyformer.planning import step
from anyformer.planning.layout import Layout
from anyformer.planning.planner import Candidate, plan_training, price_layout

PAGE = Path(__file__).with_name("published.md")
REFERENCE = PAGE.parent / "reference" / "published.md"
TEXT = tomllib.loads(Path(__file__).with_name("published_text.toml").read_text())
OUTLIER = 0.15


@dataclass(frozen=True)
class Row:
    """A run beside its prediction."""

    run: Timed
    found: Candidate

    @property
    def predicted(self) -> float:
        """Tokens per second and accelerator."""
        return self.found.tokens_per_second / self.found.layout.ranks * (HOURS if self.run.whole else 1)

    @property
    def error(self) -> float:
        """Predicted over reported, less 1."""
        return self.predicted / self.run.rate - 1

    @property
    def outlier(self) -> bool:
        return abs(self.error) > OUTLIER

    @property
    def remark(self) -> str:
        """What explains an outlier, as far as it is known."""
        if not self.outlier:
            return self.run.remark
        causes, run, layout = TEXT["outliers"].get(self.run.source, {}), self.run, self.found.layout
        of_run = causes.get(f"{run.name} {run.on.name}") or causes.get(run.name) or causes.get("others")
        if layout.micro_batches > 1 and layout.micro_batch > 1 and layout.checkpointing == "full" and run.mixture:
            of_run = causes.get("recomputed", of_run)
        return run.remark or of_run or "not explained"


def rows() -> list[Row]:
    """Every run whose time can be predicted."""
    found = [(run, run.best(run.on, run.layouts(run.on))) for run in timed()]
    return [Row(run, candidate) for run, candidate in found if candidate is not None]


def flops_line(run: dict[str, Any]) -> list[str]:
    """FLOPs and utilisation of one run."""
    name, length = run["name"], run["length"]
    per_token, rate, reported = flops_per_token(name, length), rate_of(run, name, length), run.get("flops")
    total = per_token * run["tokens"]
    mfu = rate * per_token / hardware_of(run["hardware"]).peak("bf16") if rate else None
    return [
        name,
        f"{run['tokens'] / 1e12:.3g} T" if run["tokens"] else "",
        run["hardware"],
        f"{total:.3g}" if total else "",
        f"{reported:.3g}" if reported else "",
        f"{total / reported:.2f}" if reported else "",
        f"{mfu:.1%}" if mfu else "",
        f"{run['mfu']:.1%}" if "mfu" in run else "",
        run.get("remark", ""),
    ]


def tokens_line(run: dict[str, Any]) -> list[str]:
    """FLOPs of a run of which only tokens are published."""
    per_token = flops_per_token(run["name"], run["length"])
    tokens = run.get("tokens")
    return [
        run["name"],
        f"{tokens / 1e12:.3g} T" if tokens else "",
        f"{per_token:.3g}",
        f"{per_token * tokens:.3g}" if tokens else "",
        run["source"],
    ]


def time_line(row: Row) -> list[str]:
    """Reported and predicted time of one run."""
    run, found = row.run, row.found
    layout = found.layout
    again = f", {layout.checkpointing} recomputed" if layout.checkpointing != "none" else ""
    again += f", sent {layout.dispatcher.replace('_', ' ')}" if layout.ep > 1 else ""
    again += " behind computing" if layout.behind else ""
    again += f", {run.plan.named}" if run.plan.precision.narrow is not None else ""
    room = f" of {found.machine.hardware.usable_memory / 1e9:.0f}: would not fit" if not found.fits else ""
    return [
        run.name,
        f"{run.gpus:,} {run.on.name}" + (f" ({' and '.join(run.assumed)} assumed)" if run.assumed else ""),
        f"{run.length:,}",
        f"{layout}, {layout.micro_batch} x {layout.micro_batches}{again}" + ("" if run.layout else " (planned)"),
        "hours" if run.whole else "rate",
        f"{run.rate:,.0f}",
        f"{row.predicted:,.0f}",
        f"{row.error:+.0%}" + (" outlier" if row.outlier else ""),
        f"{found.memory.total / 1e9:.0f} GB{room}",
        "fitted" if run.fitted else "test",
        row.remark,
    ]


Group = tuple[str, Callable[[Timed], str | None]]
"""A title, and the group that a run belongs to; None for none."""


def groups() -> list[Group]:
    """What errors are told by."""
    return [
        ("all", lambda run: "all"),
        ("networks", lambda run: "mixtures of experts" if run.mixture else "dense"),
        ("given as", lambda run: "hours of whole runs" if run.whole else "rates of running steps"),
        ("generation", lambda run: run.generation),
        ("products in", lambda run: run.plan.named),
        ("attention", lambda run: run.kernel),
        ("parameters of a token", lambda run: size_class(run.active / 1e9)),
    ]


def sources() -> list[Group]:
    """By where they were read."""
    return [("source of rates", lambda run: None if run.whole else run.source.split(" (")[0])]


def summary(found: Sequence[Row], groups: Sequence[Group]) -> str:
    """Median errors of both halves, of every group."""
    lines = []
    for title, group in groups:
        names = dict.fromkeys(name for row in found if (name := group(row.run)) is not None)
        names = dict.fromkeys(sorted(names, key=lambda name: CLASSES.index(name) if name in CLASSES else 0))
        lines += [[title, name, *_medians([row for row in found if group(row.run) == name])] for name in names]
    return table(["by", "", "fitted to", "median error", "test", "median error", "outliers of test"], lines)


def intervals(found: Sequence[Row]) -> str:
    """The ratios between which nine in ten of the fitted rates are, and how many of the test half are there too."""
    lines = []
    for title, mixture in (("dense", False), ("mixtures of experts", True)):
        rates = [row for row in found if row.run.mixture is mixture and not row.run.whole]
        fitted = sorted(row.error for row in rates if row.run.fitted)
        least, most = (fitted[round(share * (len(fitted) - 1))] for share in (0.05, 0.95))
        test = [row.error for row in rates if not row.run.fitted]
        kept = sum(least <= error <= most for error in test) / len(test)
        lines.append([title, f"{least:+.0%} to {most:+.0%}", str(len(test)), f"{kept:.0%}"])
    return table(["networks", "nine in ten of the fitted", "test", "of these between them"], lines)


def medians(found: Sequence[Row]) -> dict[str, float]:
    """Of the test half: over all, of its sources' medians, and without the largest source."""
    errors: dict[str, list[float]] = {}
    for row in found:
        if not row.run.fitted:
            errors.setdefault(row.run.source, []).append(abs(row.error))
    largest = max(errors, key=lambda source: len(errors[source]))
    experts = [abs(row.error) for row in found if row.run.mixture and not row.run.fitted]
    return {
        "mixtures": statistics.median(experts),
        "test": statistics.median(error for each in errors.values() for error in each),
        "sources": statistics.median(statistics.median(each) for each in errors.values()),
        "rest": statistics.median(error for source, each in errors.items() if source != largest for error in each),
    }


def _medians(found: Sequence[Row]) -> list[str]:
    cells = []
    for half in (True, False):
        errors = [abs(row.error) for row in found if row.run.fitted is half]
        cells += [str(len(errors)), f"{statistics.median(errors):.0%}" if errors else ""]
    return [*cells, str(sum(row.outlier and not row.run.fitted for row in found))]


def side_by_side() -> str:
    """The layouts of three runs, of their authors and of the planner."""
    lines = []
    for case in TEXT["case"]:
        arch, length, on = architecture(case["name"]), case["length"], case["hardware"]
        theirs = Layout(**case["layout"])
        m = case["batch"] // length // (theirs.replicas * theirs.micro_batch)
        theirs = Layout(**{**case["layout"], "micro_batches": m})
        planned = plan_training(arch, ranks=case["gpus"], batch_tokens=case["batch"], length=length, hardware=on)
        for who, each in (
            (case["who"], price_layout(arch, theirs, length=length, hardware=on)),
            ("planner", planned.fastest[0]),
        ):
            lines.append([f"{case['name']} on {case['gpus']:,} {on}", who, *_candidate(each)])
    head = ["run", "layout of", "layout", "micro-batches", "sharded", "recomputed", "memory", "step", "tokens/s", "MFU"]
    return table(head, lines)


def _candidate(each: Candidate) -> list[str]:
    layout = each.layout
    room = "" if each.fits else f" of {each.machine.hardware.usable_memory / 1e9:.0f}: would not fit"
    return [
        str(layout),
        f"{layout.micro_batch} x {layout.micro_batches}",
        layout.sharded,
        layout.checkpointing,
        f"{each.memory.total / 1e9:.0f} GB{room}",
        f"{each.time.total:.2f} s",
        f"{each.tokens_per_second:,.0f}",
        f"{each.mfu:.0%}",
    ]


def memory_line(source: str, name: str, reported: float, found: Candidate) -> list[str]:
    """Memory of an accelerator, reported and predicted."""
    layout, total = found.layout, found.memory.total
    how = (
        f"{layout}, {layout.micro_batch} x {layout.micro_batches}, {layout.sharded} sharded, {layout.checkpointing} recomputed"
    )
    figures = [f"{size / 2**30:.1f} GiB" for size in (reported, total)]
    return [name, found.machine.hardware.name, how, *figures, f"{total / reported:.2f}", source.split(" (")[0]]


def memory_medians() -> str:
    """Median errors of predicted memory by source; compiled programs, which keep less, beside eager ones."""
    errors: dict[str, list[float]] = {}
    for source, _, reported, candidate in memories():
        errors.setdefault(source.split(" (")[0], []).append(abs(candidate.memory.total / reported - 1))
    lines = [[source, str(len(each)), f"{statistics.median(each):.1%}"] for source, each in errors.items()]
    every = [error for each in errors.values() for error in each]
    return table(
        ["source", "accelerators", "median error"], [*lines, ["all", str(len(every)), f"{statistics.median(every):.1%}"]]
    )


def shares(found: Sequence[Row]) -> str:
    """What is reached, for each generation of the runs."""
    machines = {row.run.generation: row.run.on.efficiency for row in found}
    names = ("matrix", "attention", "memory", "elementwise", "network", "overlap", "capacity")
    lines = [[name, *(f"{getattr(each, at):.2f}" for at in names)] for name, each in machines.items()]
    return table(["generation", *names], lines)


def guide(found: Sequence[Row]) -> str:
    """The page that says how predictions are made and how good they are."""
    counts = {"experts": sum(row.run.mixture and not row.run.fitted for row in found)}
    parts = [
        TEXT["introduction"],
        TEXT["predicted"].format(hours=f"{HOURS:.0%}", waits=step.WAITS * 1000, runs=len(found), **counts, **medians(found)),
        summary(found, groups()),
        TEXT["intervals"],
        intervals(found),
        section(TEXT["sources"]),
        TEXT["unexplained"],
        TEXT["shares"],
        shares(found),
        TEXT["layouts"],
        side_by_side(),
        TEXT["memory"],
        memory_medians(),
    ]
    return _joined(parts)


def reference(found: Sequence[Row]) -> str:
    """The page of every run: FLOPs, predicted time, memory, source."""
    head = ["run", "tokens", "hardware", "FLOPs", "reported", "ratio", "implied MFU", "reported", "remark"]
    parts = [
        TEXT["tables"],
        table(head, map(flops_line, RUNS)),
        TEXT["only_tokens"],
        table(["run", "tokens", "FLOPs per token", "FLOPs", "source"], map(tokens_line, TEXT_TOKENS)),
        TEXT["memories"],
        table(
            ["run", "accelerator", "layout", "reported", "predicted", "ratio", "source"],
            (memory_line(*each) for each in memories()),
        ),
        TEXT["every"],
    ]
    columns = ["run", "accelerators", "length", "layout", "given", "reported", "predicted", "error", "memory", "half", "remark"]
    notes = {each["source"]: each for each in MEASURED["table"]}
    own = [row for row in found if row.run.source not in notes]
    parts += ["### Runs", table(columns, map(time_line, own))]
    for source, each in notes.items():
        said = [
            f"Left out: {each['skipped']}." if "skipped" in each else "",
            f"Of all: {each['note']}." if "note" in each else "",
        ]
        seen = "" if each["checked"] else "Figures as recalled, not read again in the source."
        parts.append(f"### {source}")
        parts.append(" ".join(filter(None, [*said, seen])))
        parts.append(table(columns, (time_line(row) for row in found if row.run.source == source)))
    told = "".join(f"{number}. {run['name']}: {run['source']}.\n" for number, run in enumerate(RUNS, 1))
    parts += ["## Errors by source", summary(found, sources()), "## Sources of runs", told]
    return _joined(parts)


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"


TEXT_TOKENS = tomllib.loads(Path(__file__).with_name("published.toml").read_text())["tokens"]

if __name__ == "__main__":
    every = rows()
    PAGE.write_text(guide(every), encoding="utf-8")
    REFERENCE.write_text(reference(every), encoding="utf-8")
    draw()
