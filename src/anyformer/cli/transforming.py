"""`anyformer transform`."""

from __future__ import annotations

import json as jsons
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from anyformer.cli.aligned import wrapped
from anyformer.cli.arguments import WHAT, Changes, HeldOutText, Json, Model, assigned, change_option
from anyformer.cli.options import grouped

if TYPE_CHECKING:
    from anyformer.data import Split
    from anyformer.model import Architecture
    from anyformer.text import Tokenizer
    from anyformer.transforming import Transformation, TransformChoices, TransformReport, WeightFates

EXAMPLES = """
anyformer transform runs/2026-01-01-120000 --set decoder.layer.attention.kv_heads=2 --out grouped
anyformer transform checkpoint --set decoder.order="layer*12" --out deeper
anyformer transform checkpoint --layers 0-3,8,11 --data held_out.txt --out shallower
anyformer transform checkpoint --pad-vocab 64 --out padded
anyformer transform checkpoint --to experts.toml --out experts
"""
FATES = {
    "kept": "Kept: the same numbers, or numbers that compute the same",
    "copied": "Copied",
    "approximated": "Approximated, with the error relative to the old numbers",
    "new": "New",
    "dropped": "Dropped",
}
SAME = 1e-5
"""Relative difference of logits up to which it is that of rounding in fp32."""


@dataclass(frozen=True)
class ChangeOptions:
    """What changes beside values by path, and how weights are made for it."""

    to: Annotated[
        str | None,
        change_option(help=f"The whole architecture to change to; --set changes it further. {WHAT}", metavar="NAME|PATH"),
    ] = None
    pad_vocab: Annotated[
        int | None,
        change_option(help="Round the rows of the vocabulary up to a multiple of this.", min=1, metavar="MULTIPLE"),
    ] = None
    layers: Annotated[
        str | None,
        change_option(
            help="The old layers that the new ones come from, as in 0-3,2-5: of a layer named twice the second is an added "
            "one. By default they are spread evenly; without another order, the order follows from them.",
            metavar="NUMBERS",
        ),
    ] = None
    grow: Annotated[
        Literal["silent", "copied"],
        change_option(
            help="Added layers are copies that write nothing at first, and the model computes the same as before, or plain "
            "copies.",
            metavar="silent|copied",
        ),
    ] = "silent"
    positions: Annotated[
        Literal["copied", "interpolated"],
        change_option(
            help="A longer table of positions repeats the old one, which keeps old lengths as they are, or stretches it.",
            metavar="copied|interpolated",
        ),
    ] = "copied"
    noise: Annotated[
        float,
        change_option(
            help="Add noise of this many standard deviations to new rows of the vocabulary.", min=0.0, metavar="NUMBER"
        ),
    ] = 0.0
    seed: Annotated[int, change_option(help="Seed of new weights and of noise.", min=0, metavar="NUMBER")] = 0

    def choices(self) -> TransformChoices:
        from anyformer import transforming

        numbers = None if self.layers is None else transforming.parse_layers(self.layers)
        return transforming.TransformChoices(numbers, self.grow, self.positions, self.noise, self.seed)

    def planned(self, old: Architecture, changes: dict[str, object]) -> Transformation:
        """The steps from an architecture to the changed one."""
        from anyformer import transforming

        choices = self.choices()
        new = target(old, self.to, changes, self.pad_vocab)
        if choices.layers is not None and new.output_stack.order == old.output_stack.order:
            new = transforming.chosen(new, choices.layers)
        return transforming.planned(old, new, choices)


@grouped
def run(
    model: Model,
    out: Annotated[Path, typer.Option("--out", "-o", help="The new directory to write, a checkpoint.", metavar="DIR")],
    changes: Changes = None,
    *,
    change: ChangeOptions,
    data: HeldOutText = None,
    calibrate: Annotated[
        str | None,
        typer.Option(
            help="Text on which the directions that matter to keys and values are found, for a change to a latent. By default "
            "those of the weights count.",
            metavar="PATH",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Make the checkpoint of a changed architecture from the weights that are there, and print what became of all of them.

    Heads of keys and values are averaged in groups, or copied; or factored into a latent. A dense network becomes the copies of
    a mixture of experts. Layers are added or left out, the vocabulary and tables of positions resized, feed-forward networks
    widened. Weights that fit by name and shape are kept, others are new, and both are named. A change that no weights can be
    carried over is refused before any weight is read.

    `anyformer generate`, `export`, `show` and `cost` read the result; its manifest holds the report.
    """
    from anyformer import checkpoint, transforming
    from anyformer.files import check_directory, disk_errors
    from anyformer.loading import beside, load, trained_length
    from anyformer.resolving import architecture

    check_directory(out)
    if not model.is_dir():
        load(model)  # which says what is wrong
    old = architecture(transforming.newest(model))
    planned = change.planned(old, assigned(changes))
    tokenizer = transforming.tokenizer_beside(transforming.newest(model))
    check(old, planned.new, planned.choices.layers, tokenizer.vocab_size if tokenizer else None)
    if calibrate is not None:
        transforming.check_moments(planned)
    if data is not None:
        transforming.check_loss(old)
        transforming.check_loss(planned.new)
    texts = _texts(model, tokenizer, filter(None, (data, calibrate)))
    before, tokenizer = load(model)
    if before.architecture != old:
        planned = transforming.planned(before.architecture, planned.new, change.choices())
    moments = None if calibrate is None else transforming.moments_of(before, planned, texts[calibrate])
    after, report = transforming.performed(before, planned, moments)
    if data is not None:
        report = replace(report, loss=transforming.loss_of(before, after, texts[data]))
    facts = {"length": trained_length(model), "transform": report.plain()}
    with disk_errors(out):
        checkpoint.save(after, out, tokenizer=tokenizer, beside=beside(model), facts=facts)
    if json:
        print(jsons.dumps(report.plain(), indent=2))
        return
    count = sum(parameter.numel() for parameter in after.parameters())
    lines = page(out, count, report, transforming.recovery(model, out, data), shutil.get_terminal_size().columns)
    typer.echo("\n".join(lines))


def _texts(model: Path, tokenizer: Tokenizer | None, paths: Iterable[str]) -> dict[str, Split]:
    """The texts at paths, as a model reads them."""
    from anyformer import transforming

    texts: dict[str, Split] = {}
    for path in paths:
        if tokenizer is None:
            raise transforming.TransformError(
                f"{model}: has no tokenizer, so it reads no text; leave --data and --calibrate out"
            )
        texts[path] = transforming.text_of(path, tokenizer, model)
    return texts


def target(old: Architecture, to: str | None, changes: dict[str, object], pad: int | None) -> Architecture:
    """The architecture to change to."""
    from anyformer.resolving import architecture

    new = architecture(old if to is None else to, changes=changes)
    if pad is not None:
        entrances = {"embedding": new.embedding, "decoder_embedding": new.decoder_embedding}
        symbols = {f"{name}.vocab": part.symbols for name, part in entrances.items() if part is not None}
        rounded = {path: -(-count // pad) * pad for path, count in symbols.items() if count is not None}
        new = architecture(new, changes=rounded)
    return new


def check(old: Architecture, new: Architecture, layers: tuple[int, ...] | None, known: int | None) -> None:
    """Refuse a change of nothing, and a vocabulary smaller than the tokenizer's; `known`: the tokens that this one knows."""
    from anyformer.transforming import TransformError

    if old.resolved() == new.resolved() and layers is None:
        raise TransformError("nothing changes: name changes with --set PATH=VALUE, --to NAME|PATH, --pad-vocab or --layers")
    symbols = new.output_embedding.symbols
    if known is not None and symbols is not None and symbols < known:
        raise TransformError(
            f"{symbols:,} rows of the vocabulary, and the tokenizer, which is carried along, has {known:,} tokens; "
            "keep as many rows"
        )


def page(out: Path, parameters: int, report: TransformReport, recovery: str, width: int) -> Iterator[str]:
    """What changed, what became of the weights, what that did to the model, and what to do next."""
    yield from wrapped(f"{out}: {parameters:,} parameters", width)
    for change in report.changes:
        yield from wrapped(f"{change.what}: {change.before} -> {change.after}", width, "  ")
    for stack, numbers in report.layers.items():
        yield from wrapped(f"layers of {stack} come from {' '.join(map(str, numbers))}", width, "  ")
    for fate, title in FATES.items():
        lines = [line for line in report.lines if line.fate == fate]
        if lines:
            yield ""
            yield from wrapped(f"{title} ({sum(line.parameters for line in lines):,} parameters)", width)
            yield from entries(lines, width)
    yield ""
    yield from wrapped(outcome(report), width)
    yield from wrapped("A short recovery, in which the new model learns what the old one says:", width)
    yield f"  {recovery}"


def entries(lines: list[WeightFates], width: int) -> Iterator[str]:
    """A line per way in which weights were made; those of one way together."""
    ways: dict[tuple[str, float | None], list[str]] = {}
    for line in lines:
        ways.setdefault((line.how, line.error), []).append(f"{line.weight}{f' [{line.layers}]' if line.layers else ''}")
    for (how, error), names in ways.items():
        what = ", ".join(names) if how or len(names) <= 4 else f"{len(names)} as they were"
        rest = "; ".join(filter(None, (how, "" if error is None else f"error {error:.2g}")))
        yield from wrapped(f"{what}: {rest}" if rest else what, width, "  ")


def outcome(report: TransformReport) -> str:
    """The effect on the outputs, and on the loss where it was measured."""
    said = []
    if report.logits_error is not None:
        same = report.logits_error <= SAME
        size = "by rounding alone" if same else f"by up to {report.logits_error:.2g} of the largest"
        said.append(f"Outputs for random tokens differ {size}.")
    if report.loss is not None:
        loss = report.loss
        said.append(f"Loss on {loss.tokens:,} tokens of held-out text: {loss.before:.4f} before, {loss.after:.4f} after.")
    return " ".join(said) or "The outputs of the two models do not compare."
