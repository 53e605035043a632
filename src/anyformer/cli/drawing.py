"""`anyformer generate --class` and `--output`: pictures from noise by a model of flow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from anyformer.cli.terminal import tell
from anyformer.describe import UserError

picture_option = partial(typer.Option, rich_help_panel="Pictures")
_OUTPUT = Path("pictures.png")


@dataclass(frozen=True)
class PictureOptions:
    """What pictures are made of noise, and how."""

    of_class: Annotated[
        list[str] | None,
        picture_option(
            "--class",
            help="Make pictures of this class, of a model that was trained by flow_matching; may be repeated, a row of "
            "pictures each. By default of every class.",
            metavar="NAME",
        ),
    ] = None
    output: Annotated[
        Path | None,
        picture_option("--output", help="Write the pictures into this PNG file: by default pictures.png.", metavar="FILE"),
    ] = None
    each: Annotated[
        int | None, picture_option("--each", help="Make so many pictures of a class: by default 8.", min=1, metavar="COUNT")
    ] = None
    steps: Annotated[
        int | None,
        picture_option("--steps", help="Follow the flow in so many steps: by default 50.", min=1, metavar="STEPS"),
    ] = None
    guidance: Annotated[
        float | None,
        picture_option(
            help="Go this many times as far from a picture of no class to one of the class: by default 2; 1 is the model "
            "alone.",
            min=0.0,
            metavar="FACTOR",
        ),
    ] = None
    solver: Annotated[
        str | None,
        picture_option(help="Take steps of first or of second order: by default euler.", metavar="euler|heun"),
    ] = None

    @property
    def asked(self) -> bool:
        """Whether a picture is asked for."""
        return any(value is not None for value in vars(self).values())


def check_picture_alone(others: Mapping[str, bool]) -> None:
    """Refuse what a picture does not have, by the name of the option that asks for it."""
    if wrong := [name for name, there in others.items() if there]:
        raise UserError(f"--class and --output ask for pictures, which are made of noise: leave {wrong[0]} out")


def draw(model: Path, options: PictureOptions, device: str, seed: int) -> None:
    """Write a sheet of pictures, a row for every class."""
    from anyformer.evaluation import enlarged, open_subject, painter, sheet_of, write_png
    from anyformer.files import check_file

    output = options.output or _OUTPUT
    check_file(output)
    subject = open_subject(model, device=device)
    if subject.run is None:
        raise UserError(f"{model}: is not from a run here, which would say what its pictures are: train one by flow_matching")
    made = painter(subject.model, subject.run)
    classes = options.of_class or list(made.names if made.classes else ())
    pictures = made.pictures(
        classes,
        options.each or 8,
        steps=options.steps or 50,
        guidance=2.0 if options.guidance is None else options.guidance,
        solver=options.solver or "euler",
        seed=seed,
    )
    write_png(output, enlarged(sheet_of(pictures)))
    rows = f", rows: {', '.join(classes)}" if classes else ""
    tell(f"{output}: {len(pictures)} x {pictures.shape[1]} pictures{rows}")
