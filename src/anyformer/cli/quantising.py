"""`anyformer quantise`."""

from __future__ import annotations

import json as jsons
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated

import typer

from anyformer.cli.aligned import wrapped
from anyformer.cli.arguments import HeldOutText, Json, Model

if TYPE_CHECKING:
    from anyformer.quantising.model import QuantisingReport
    from anyformer.transforming import Loss

EXAMPLES = """
anyformer quantise runs/2026-01-01-120000 --format int8 --out small
anyformer quantise checkpoint --format int4 --data held_out.txt --out smaller
anyformer quantise checkpoint --format int4 --calibrate some.txt --data held_out.txt --out smaller
"""
NAMES = "fp8|fp8-row|int8|int4|int4-64|int4-32|nf4|bf16"
MEANING = (
    "Store the matrices of layers so: fp8 has one scale per matrix, fp8-row and int8 one per output; int4 one and "
    "a zero point for 128 inputs, int4-64 and int4-32 for fewer; nf4 is QLoRA's. Tables, heads, norms and routers "
    "stay bf16."
)


def run(
    model: Model,
    out: Annotated[Path, typer.Option("--out", "-o", help="The new directory to write, a checkpoint.", metavar="DIR")],
    format: Annotated[str, typer.Option(help=MEANING, metavar=NAMES)] = "int8",
    calibrate: Annotated[
        str | None,
        typer.Option(
            help="Text like the model's later input: the numbers of a linear map are chosen so that its outputs on it "
            "change least (GPTQ). By default every number is rounded to the nearest.",
            metavar="PATH",
        ),
    ] = None,
    data: HeldOutText = None,
    json: Json = False,
) -> None:
    """Store a trained model's matrices in 8 or 4 bits, and print the savings and the loss.

    `anyformer generate`, `eval`, `show` and `export` read the result. `generate` multiplies few rows by a matrix in int8 or
    int4 as it is stored, on a CPU; all else restores a matrix for every product, which saves memory and no time.
    """
    from anyformer import checkpoint, transforming
    from anyformer.files import check_directory, disk_errors
    from anyformer.loading import beside, load, trained_length
    from anyformer.quantising.model import format_of, quantised

    check_directory(out)
    wanted = format_of(format)
    before, tokenizer = load(model)
    if data is not None:
        transforming.check_loss(before.architecture)
    if calibrate is not None:
        transforming.check_loss(before.architecture, "calibrate")
    if (data or calibrate) and tokenizer is None:
        raise transforming.TransformError(f"{model}: has no tokenizer, so it reads no text; leave --data and --calibrate out")
    texts = {path: transforming.text_of(path, tokenizer, model) for path in (data, calibrate) if path and tokenizer}
    reads = None if calibrate is None else (lambda one: transforming.read(one, texts[calibrate]))
    after, report = quantised(before, wanted, reads)
    loss = None if data is None else transforming.loss_of(before, after, texts[data])
    found = {**asdict(report), "calibrated": list(report.calibrated), "loss": None if loss is None else asdict(loss)}
    with disk_errors(out):
        checkpoint.save(
            after, out, tokenizer=tokenizer, beside=beside(model), facts={"length": trained_length(model), "quantised": found}
        )
    if json:
        print(jsons.dumps(found, indent=2))
        return
    typer.echo("\n".join(page(out, report, calibrate, loss, shutil.get_terminal_size().columns)))


def page(out: Path, report: QuantisingReport, calibrate: str | None, loss: Loss | None, width: int) -> Iterator[str]:
    """Bytes, errors, and the loss where it was measured."""
    from anyformer.costs.figures import scaled

    yield f"{out}: {report.format}"
    saved = f"{report.before / report.after:.1f} times smaller" if report.after < report.before else "no smaller"
    yield from wrapped(f"weights: {scaled(report.before)}B before, {scaled(report.after)}B after, {saved}", width, "  ")
    if report.errors:
        worst = max(report.errors, key=lambda name: report.errors[name])
        yield from wrapped(
            f"{len(report.errors)} matrices, error {median(report.errors.values()):.2g} of their size in the median and "
            f"{report.errors[worst]:.2g} of {worst}",
            width,
            "  ",
        )
    if calibrate is not None:
        rest = f"; {len(report.nearest)}, which no linear map reads, were rounded to the nearest" if report.nearest else ""
        yield from wrapped(f"{len(report.calibrated)} calibrated on {calibrate}{rest}", width, "  ")
    if loss is not None:
        yield from wrapped(
            f"loss on {loss.tokens:,} tokens of held-out text: {loss.before:.4f} before, {loss.after:.4f} after", width, "  "
        )
