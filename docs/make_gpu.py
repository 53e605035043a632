"""Fills in the tables of docs/gpu.md from the cost sheet and benchmarks: `python docs/make_gpu.py`.

What stands between `<!-- NAME -->` and `<!-- end of NAME -->` is written here; a test holds the page to it.
"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from benchmarks.gpu import BATCHES, MODELS, NEW  # noqa: E402
from page_text import table  # noqa: E402

from anyformer.costs.named_hardware import hardware_of  # noqa: E402
from anyformer.costs.peak import peak_memory  # noqa: E402
from anyformer.costs.roofline import step_time  # noqa: E402
from anyformer.operations import Shape  # noqa: E402
from anyformer.plan import Plan  # noqa: E402

PAGE = Path(__file__).with_name("gpu.md")
RESULTS = ROOT / "benchmarks" / "results"


def measured(name: str) -> dict[str, float]:
    """Tokens per second that a committed result has, by what was measured; nothing without one."""
    path = RESULTS / f"gpu-{name}.json"
    found = json.loads(path.read_text(encoding="utf-8"))["results"] if path.exists() else {}
    return {what: row["tokens_per_second"] for what, row in found.items() if "tokens_per_second" in row}


def foretold() -> str:
    """What every model of the benchmark should do on one H100; measured figures have a column where there are any."""
    on, plan, rows = hardware_of("h100"), Plan(precision="bf16"), []
    for name, model in MODELS.items():
        made, seen = model.architecture(), measured(name)
        shape = Shape(batch=model.batch, length=model.length)
        step = step_time(made, shape, plan, on, "train")
        peak = peak_memory(made, batch=model.batch, length=model.length, plan=plan).total / 1e9
        kept = seen.get("training, anyformer, bf16, compiled")
        what = f"training, {model.batch} x {model.length:,} tokens, {peak:.0f} GB"
        rows.append(
            [name, what, f"{step.tokens_per_second:,.0f}", step.too_small or "", "" if kept is None else f"{kept:,.0f}"]
        )
        for batch, prompt in BATCHES.items():
            past = min(prompt, model.length - NEW) + NEW // 2
            step = step_time(made, Shape(batch=batch, length=1, past=past), plan, on, "decode")
            kept = seen.get(f"decoding, anyformer, batch {batch}, recorded")
            what = f"decoding, batch {batch}, behind {past:,} tokens"
            rows.append([name, what, f"{step.tokens_per_second:,.0f}", step.too_small, "" if kept is None else f"{kept:,.0f}"])
    heads = ["model", "what", "foretold tokens/s", "what is said of it", "measured"]
    shown = len(heads) if any(row[-1] for row in rows) else len(heads) - 1
    said = f"By the cost sheet, in bf16 on one {on.title} (the three models of `python -m benchmarks.gpu`):"
    return f"{said}\n\n" + table(heads[:shown], (row[:shown] for row in rows))


def waits() -> str:
    """Everything that may wait, with its reason, and how many steps do."""
    listed = tomllib.loads((ROOT / "benchmarks" / "waits.toml").read_text(encoding="utf-8"))["wait"]
    record = json.loads((RESULTS / "operators.json").read_text(encoding="utf-8"))
    sizes: dict[str, int] = {}
    for each in record["results"]:
        sizes[each["group"]] = sizes.get(each["group"], 0) + 1
    rows = [
        [
            f"`{row['where']}`", f"{row['why']}: `{row['operator']}`",
            "; ".join(f"{group} {sizes[group] if names == 'all' else len(names)} of {sizes[group]}" for group, names in row["of"].items()),
            row["reason"],
        ]
        for row in listed
    ]  # fmt: skip
    calls = sum(len(each) for each in record["operators"].values())
    assert calls, "operators were called"
    said = (
        f"{sum(sizes.values())} steps call {len(record['operators'])} operators ({record['date']}, torch "
        f"{record['versions']['torch']}). No decode step waits for anything. All that waits, and in how many steps:"
    )
    assert not any(each["waits"] for each in record["results"] if each["group"] == "decode"), "a decode step waits"
    return f"{said}\n\n" + table(["where", "what", "in", "why"], rows)


def page() -> str:
    """The page with its tables."""
    text = PAGE.read_text(encoding="utf-8")
    for part in (foretold, waits):
        name = part.__name__
        before, rest = text.split(f"<!-- {name} -->\n", 1)
        after = rest.split(f"<!-- end of {name} -->", 1)[1]
        text = f"{before}<!-- {name} -->\n{part()}<!-- end of {name} -->{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
