"""Fills in the tables of `docs/precision.md` and `docs/reference/formats.md`.

Formats come from their bits, the notes' figures stand beside them, and the rest was measured.

python docs/make_precision.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import expm1, log2
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from numpy.typing import NDArray
from page_text import filled, write
from small_tables import small_tables

from anyformer.evaluation.intervals import Interval, paired
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
from anyformer.transforming.held_out import LENGTH, WINDOWS

DOCS = Path(__file__).parent
PAGES = (DOCS / "precision.md", DOCS / "reference" / "formats.md")
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


BOUNDS = {
    ("int8", False): 0.0002, ("int4", False): 0.006, ("int4-32", False): 0.005, ("nf4", False): 0.004, ("int4", True): 0.002,
}  # fmt: skip
"""What the perplexity of weights in a format, rounded or calibrated, is above that of fp32 at most; a test holds it."""
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


def pages() -> dict[Path, str]:
    """Both pages with their tables as of today."""
    tables = {
        "formats": formats(), "scaled": scaled(), "notes": notes(), "rounding": rounding(), "curves": curves(),
        "few bits": few_bits(), "small tables": small_tables(json.loads((RESULTS / "small-tables.json").read_text())),
    }  # fmt: skip
    return filled(PAGES, {name: "\n".join(lines) + "\n" for name, lines in tables.items()})


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
    yield "| name | numbers | one scale per | scale | bits a number |\n|---|---|---|---|---|"
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


@dataclass(frozen=True)
class FewBits:
    """The study of weights stored in few bits: losses beyond those of fp32 on the same windows, in nats a token."""

    record: dict[str, Any]

    def rows(self, name: str, calibrated: bool) -> list[dict[str, Any]]:
        """A format with every seed; none where it has no calibrated form."""
        rows = (row for each in self.record["results"] for row in each["formats"])
        return [row for row in rows if (row["format"], row["calibrated"]) == (name, calibrated)]

    @property
    def targets(self) -> NDArray[np.float64]:
        """Of each window, the same for every seed."""
        return np.array(self.record["results"][0]["targets"], dtype=np.float64)

    def windows(self, name: str, calibrated: bool) -> NDArray[np.float64]:
        """(seeds, windows): nats beyond fp32's."""
        return np.array([row["beyond"] for row in self.rows(name, calibrated)])

    def seeds(self, name: str, calibrated: bool) -> list[float]:
        return [float(nats.sum() / self.targets.sum()) for nats in self.windows(name, calibrated)]

    def beyond(self, name: str, calibrated: bool) -> Interval:
        """The mean over seeds, with its interval over windows."""
        found = self.windows(name, calibrated).mean(0)
        return paired(found, np.zeros_like(found), self.targets, unit="windows").interval

    def gain(self, name: str) -> Interval:
        """What calibrating takes off the loss: rounded minus calibrated."""
        rounded, calibrated = (self.windows(name, form).mean(0) for form in (False, True))
        return paired(rounded, calibrated, self.targets, unit="windows").interval


def few_bits() -> Iterator[str]:
    """Every format of stored weights: its size, its loss beside fp32's, and what calibrating gains."""
    few = FewBits(json.loads((RESULTS / "quantised.json").read_text()))
    names = list(dict.fromkeys(row["format"] for row in few.record["results"][0]["formats"]))
    titles = ("format", "bits a number", "bytes", "loss", "beyond fp32's", "perplexity", "calibrated: beyond fp32's", "gains")
    yield f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|"
    for name in names:
        rows = few.rows(name, False)
        cells = [f"{rows[0]['bits']:g}", f"{rows[0]['allocated_bytes']:,}", f"{mean(row['loss'] for row in rows):.4f}"]
        if name == few.record["beside"]:
            cells += ["-"] * 4
        else:
            cells += [
                difference(few.beyond(name, False)) + each(few.seeds(name, False)),
                f"{100 * expm1(few.beyond(name, False).value):+.2f} %",
            ]
            form = few.rows(name, True)
            cells += [
                difference(few.beyond(name, True)) + each(few.seeds(name, True)) if form else "-",
                difference(few.gain(name)) if form else "-",
            ]
        yield f"| `{name}` | {' | '.join(cells)} |"
    yield ""
    sizes, first = few.record["sizes"], few.record["results"][0]
    yield (
        f"{first['parameters']:,} parameters, {sizes['updates']:,} updates of {sizes['batch'] * sizes['length']:,} bytes, "
        f"{len(few.record['results'])} seeds, {int(few.targets.sum()):,} held-out tokens in {len(few.targets)} windows "
        f"(`python -m benchmarks.quantised`, {few.record['date']})."
    )
    yield ""
    yield gains(few, names)
    yield ""
    yield f"Bounds on the perplexity beside fp32's, with every seed and at the upper end of the interval: {bounds()}."


def gains(few: FewBits, names: list[str]) -> str:
    """What calibrating gains over rounding to the nearest, in words."""
    forms = [name for name in names if few.rows(name, True)]
    narrow, wide = ([name for name in forms if (few.rows(name, True)[0]["bits"] < 8) == less] for less in (True, False))
    shares = ", ".join(f"{percent(few.gain(name).value / few.beyond(name, False).value)} of it for `{name}`" for name in narrow)
    most = max((few.gain(name).value for name in wide), key=abs)
    return (
        f"What calibrating (GPTQ on {WINDOWS * LENGTH:,} tokens of the training text) takes off what rounding to the nearest "
        f"loses: {shares}. In 8 bits there is little to take off, and it changes the perplexity by "
        f"{100 * abs(expm1(most)):.2f} % at most."
    )


def bounds() -> str:
    """What a test holds of the result, in words."""
    return ", ".join(
        f"`{name}`{' calibrated' * calibrated} at most {100 * bound:g} % above" for (name, calibrated), bound in BOUNDS.items()
    )


def difference(found: Interval) -> str:
    """Thousandths of a nat with the ends of their interval."""
    return f"{1000 * found.value:+.2f} ({1000 * found.low:+.2f} to {1000 * found.high:+.2f})"


def each(seeds: list[float]) -> str:
    """The least and the greatest of the seeds."""
    return f", seeds {1000 * min(seeds):+.2f} to {1000 * max(seeds):+.2f}"


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
    write(pages())
