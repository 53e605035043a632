"""Fills in the tables of `docs/precision.md`: formats from their bits, the notes' figures beside them, and what was measured.

python docs/make_precision.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import log2
from pathlib import Path
from statistics import mean
from typing import Any

from anyformer.precision import (
    BF16,
    E4M3,
    E5M2,
    FP16,
    FP32,
    INT4,
    INT8,
    NUMBER_FORMATS,
    SCALED_FORMATS,
    TF32,
    NumberFormat,
    ScaledFormat,
)

PAGE = Path(__file__).with_name("precision.md")
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"


@dataclass(frozen=True)
class Stated:
    """One row of the notes' tables 3 and 4; figures as they stand there, None where they give none."""

    title: str
    format: NumberFormat
    bits: int
    smallest: float | None
    largest: float
    step: float


NOTES = (
    Stated("FP32", FP32, 32, 1.2e-38, 3.4e38, 2**-23),
    Stated("FP16 (IEEE)", FP16, 16, 6.1e-5, 6.6e4, 2**-10),
    Stated("bfloat16", BF16, 16, 1.2e-38, 3.4e38, 2**-7),
    Stated("TF32", TF32, 19, 1.2e-38, 3.4e38, 2**-10),
    Stated("FP8-E4M3", E4M3, 8, 9.2e-8, 4.5e2, 2**-3),
    Stated("FP8-E5M2", E5M2, 8, 3.0e-10, 5.7e4, 2**-2),
    Stated("INT8", INT8, 8, None, 127, 1),
    Stated("INT4", INT4, 4, None, 7, 1 / 16),
)


def page() -> str:
    """The page with its tables as of today."""
    text = PAGE.read_text(encoding="utf-8")
    tables = {"formats": formats(), "scaled": scaled(), "notes": notes(), "rounding": rounding(), "curves": curves()}
    for name, lines in tables.items():
        table = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end of {name} -->)", re.S)
        assert table.search(text), f"the page has no place for {name}"
        made = "\n".join(lines) + "\n"
        text = table.sub(lambda _, made=made: made, text)
    return text


def formats() -> Iterator[str]:
    """Every number format, computed from its bits."""
    titles = ("format", "bits", "sign, exponent, mantissa", "largest", "smallest normal", "smallest", "step at 1", "decades")
    yield f"| {' | '.join(titles)} | codes that are no number |\n{'|---' * (len(titles) + 1)}|"
    special = {"ieee": "infinity, NaN", "nan": "NaN", "none": "-"}
    for format in NUMBER_FORMATS.values():
        fields = f"{format.sign}, {format.exponent}, {format.mantissa}"
        normal = number(format.smallest_normal) if format.exponent else "-"
        yield (
            f"| `{format.name}` | {format.bits} | {fields} | {number(format.largest)} | {normal} | {number(format.smallest)} "
            f"| {power(format.step)} | {format.decades:.1f} | {special[format.special]} |"
        )


def scaled() -> Iterator[str]:
    """Numbers that share a scale."""
    yield "| name | numbers | one scale for each | scale | bits a number |\n|---|---|---|---|---|"
    for format in SCALED_FORMATS.values():
        shared = {"tensor": "tensor", "row": "row", "block": f"{format.block} neighbours of a row"}[format.per]
        more = f"{format.element.bits + format.scale.bits / format.block:g}" if format.block else f"{format.element.bits}"
        yield f"| `{format.name}` | `{format.element.name}` | {shared} | {scale_of(format)} | {more} |"


def scale_of(format: ScaledFormat) -> str:
    """The scale in words."""
    return f"`{format.scale.name}`, and one `fp32` for the tensor" if format.scale is E4M3 else f"`{format.scale.name}`"


def notes() -> Iterator[str]:
    """Tables 3 and 4 of the notes, every figure beside the computed one; what does not agree to its digits is bold."""
    yield "| the notes' format | bits | smallest normal | largest | ULP at 1 |\n|---|---|---|---|---|"
    for row in NOTES:
        cells = [
            beside(row.bits, row.format.bits, str),
            "-" if row.smallest is None else beside(row.smallest, row.format.smallest_normal, number),
            beside(row.largest, row.format.largest, number),
            beside(row.step, row.format.step, power),
        ]
        yield f"| {row.title} | {' | '.join(cells)} |"


def beside(stated: float, computed: float, written: Any) -> str:
    """The stated figure, and the right one in bold if it is another to two digits."""
    agrees = f"{stated:.1e}" == f"{computed:.1e}"
    return written(stated) if agrees else f"{written(stated)}: **wrong, {written(computed)}**"


def rounding() -> Iterator[str]:
    """The measured error of every format."""
    record = json.loads((RESULTS / "rounding.json").read_text())
    kinds = tuple(record["errors"])
    yield f"| format | {' | '.join(kinds)} | {' | '.join(f'{kind} that become 0' for kind in kinds)} |"
    yield "|---|" + "---|" * (2 * len(kinds))
    for name in record["errors"][kinds[0]]:
        found = [record["errors"][kind][name] for kind in kinds]
        errors = [f"{percent(figures['error'][0])}, row {percent(figures['worst row'][1])}" for figures in found]
        yield f"| `{name}` | {' | '.join(errors)} | {' | '.join(percent(figures['zero'][0]) for figures in found)} |"
    yield ""
    ranges = ", ".join(f"{kind} {record['median'][kind]:.2g} and {record['largest'][kind]:.2g}" for kind in kinds)
    yield (
        f"The model: {record['run']['steps']:,} steps of {record['run']['tokens'] // record['run']['steps']:,} bytes in fp32, "
        f"validation loss {record['run']['validation_loss']}. Median and largest size: {ranges}."
    )


def curves() -> Iterator[str]:
    """Losses of the same training in every precision: the training loss of every tenth update, averaged over seeds and fifths
    of the run, and the validation loss with its distance from bf16."""
    record = json.loads((RESULTS / "precisions.json").read_text())
    seeds = len({each["seed"] for each in record["results"]})
    fifth = len(record["results"][0]["losses"]) // 5
    spans = [(i * fifth, (i + 1) * fifth) for i in range(5)]
    heads = " | ".join(f"updates {10 * start + 1} to {10 * end}" for start, end in spans)
    yield f"| precision | {heads} | validation loss | from bf16, mean | largest |\n|---|{'---|' * (len(spans) + 3)}"
    for name, found in record["distances"].items():
        runs = [each["losses"] for each in record["results"] if each["precision"] == name]
        means = " | ".join(f"{mean(loss for run in runs for loss in run[start:end]):.3f}" for start, end in spans)
        last = f"{found['mean_loss']:.4f} | {found['mean_difference']:.4f} | {found['largest_difference']:.4f}"
        yield f"| {name} | {means} | {last} |"
    yield ""
    command = "`python -m benchmarks.precisions`"
    yield f"{record['updates']} updates, {seeds} seeds, the same weights, data and order for all ({command})."


def number(value: float) -> str:
    """Three digits, whole numbers as they are."""
    return f"{value:,.0f}" if value == round(value) and value < 1e6 else f"{value:.3g}"


def power(step: float) -> str:
    """A power of two."""
    exponent = round(log2(step))
    return "1" if exponent == 0 else f"2^{exponent}"


def percent(share: float) -> str:
    """Two digits; a dash for nothing."""
    return "-" if share == 0 else f"{100 * share:.2g} %" if share < 0.995 else "100 %"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
