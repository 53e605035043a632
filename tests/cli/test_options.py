"""Options in groups: a command gets one value where its help shows an option for each field."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from anyformer.cli.options import grouped


@dataclass(frozen=True)
class Sizes:
    wide: Annotated[int, typer.Option(help="How wide.", min=1)] = 8
    names: Annotated[list[str] | None, typer.Option("--name", help="Its names.")] = None


@grouped
def run(
    what: Annotated[str, typer.Argument(help="Which one.")],
    *,
    sizes: Sizes,
    loud: Annotated[bool, typer.Option("--loud", help="Loudly.")] = False,
) -> tuple[str, Sizes, bool]:
    """Say it."""
    print(what, sizes, loud)
    return what, sizes, loud


def test_the_options_of_a_group_stand_in_its_place():
    assert list(inspect.signature(run).parameters) == ["what", "wide", "names", "loud"]


@pytest.mark.parametrize(
    ("words", "sizes"),
    [([], Sizes()), (["--wide", "3"], Sizes(wide=3)), (["--name", "a", "--name", "b"], Sizes(names=["a", "b"]))],
)
def test_what_is_typed_becomes_the_group(words, sizes):
    app = typer.Typer()
    app.command()(run)
    found = CliRunner().invoke(app, ["x", *words, "--loud"])
    assert found.output == f"x {sizes} True\n"
    assert CliRunner().invoke(app, ["x", "--wide", "0"]).exit_code == 2


def test_what_is_left_out_has_the_defaults_of_the_group():
    assert run("x", wide=2) == ("x", Sizes(wide=2), False)
