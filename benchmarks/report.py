"""Writes the figures of `docs/speed.md` from the committed results: `python -m benchmarks.report`. A test compares."""

from __future__ import annotations

import json
import re
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "speed.md"
FIGURES = re.compile(r"(?<=<!-- figures -->\n).*?(?=<!-- end of figures -->)", re.S)


SITTINGS = {"training": "Training, bf16", "decoding": "Decoding, bf16"}
"""The title of each sitting of `benchmarks.compare`, by its result file."""


def table(what: str) -> str:
    """One sitting as Markdown, fastest first. The last column divides our speed by theirs."""
    record = json.loads((RESULTS / f"{what}.json").read_text())
    rows = sorted(record["results"], key=lambda row: -row["tokens_per_second"])
    lines = [f"### {SITTINGS[what]}\n", f"| | tokens/s | speed of {record['base']} / its speed |", "|---|---|---|"]
    lines += [f"| {row['name']} | {row['tokens_per_second']:,.0f} | {row['ours_is_faster_by']:.2f} |" for row in rows]
    machine = record["machine"]
    return "\n".join([*lines, "", f"{record['date']}, {machine['cpu']}, {machine['cores']} cores.", ""])


def parts() -> str:
    """What single parts cost, in words."""
    record = json.loads((RESULTS / "parts.json").read_text())
    faster = {name: row["ours_is_faster_by"] for name, row in record["comparisons"].items()}
    latent = faster["latent decoding"]["transformers DeepseekV3Attention"]
    machine = record["machine"]
    dense = record["experts_over_dense"]["times_the_dense"]
    linear, softmax = (record["lengths"]["grows_as_T_to_the"][f"{kind} attention"] for kind in ("linear", "softmax"))
    return f"""\
### Parts

Parts, each against its plain form and public implementations, in fp32: [all ratios](../benchmarks/results/parts.png).
Eight experts of which two are active cost {dense:.2f} times the dense network of equal active width. A token of latent
attention decodes {latent:.1f} times faster than in transformers, which expands the latent. The time of linear attention grows
as T^{linear:.2f} up to 32,768 positions, that of softmax attention as T^{softmax:.2f}.

{record["date"]}, {machine["cpu"]}, {machine["cores"]} cores.
"""


def costs() -> str:
    """How long pricing takes, in words."""
    record = json.loads((RESULTS / "costs.json").read_text())
    inside, torch, solver = (
        record[what] for what in ("milliseconds in process", "seconds of import torch", "seconds of 1,000 evaluations")
    )
    first, second = (record[f"seconds beyond import torch, the {time} time"] for time in ("first", "second"))
    sheet, page = inside["parameters, FLOPs, state"], inside["the page of three modes"]
    (slow, longest), machine = sheet["slowest"], record["machine"]
    return f"""\
### Pricing

Pricing one of {sheet["entries"]} architectures: parameters, FLOPs and decode state take {sheet["median"]:.1f} ms at the median
and {longest:.0f} ms for {slow}; the whole page of `anyformer cost` {page["median"]:.0f} ms and {page["slowest"][1]:.0f} ms.
From the shell the page takes, beyond the {torch:.1f} s of importing torch, {first["median"]:.1f} s the first time
(at most {first["slowest"][1]:.1f} s) and {second["median"]:.1f} s from then on (at most {second["slowest"][1]:.1f} s).
A thousand sizes of {" or ".join(solver)} are priced in {max(solver.values()):.1f} s at most.

{record["date"]}, {machine["cpu"]}, {machine["cores"]} cores.
"""


def report() -> str:
    """All figures."""
    return "\n".join([*map(table, SITTINGS), parts(), costs()])


def page() -> str:
    """The page with its figures as of the committed results."""
    return FIGURES.sub(lambda _: report(), PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
