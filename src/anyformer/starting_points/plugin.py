"""A plug-in to start from: a file with the class and what it is checked with, and its test."""

from __future__ import annotations

from pathlib import Path

from anyformer.describe import UserError
from anyformer.starting_points.edits import bound_twice
from anyformer.starting_points.names import Spellings, check_module
from anyformer.starting_points.templates import piece
from anyformer.starting_points.things import Thing
from anyformer.starting_points.writing import NewFiles


def plugin(thing: Thing, names: Spellings, folder: Path) -> NewFiles:
    """The two files of a plug-in."""
    if not thing.alone:
        raise UserError(f"{thing.what} is a line of a table in the package, and no plug-in: add --package, in a checkout of it")
    check_free(thing, names)
    files = {f"{names.snake}.py": thing.name, f"test_{names.snake}.py": "test"}
    writing = NewFiles(folder, {name: piece(template, "plugin", names, house=False) for name, template in files.items()})
    writing.check()
    check_module(names.snake)
    if twice := {name for text in writing.new.values() for name in bound_twice(text)}:
        raise UserError(f"{', '.join(sorted(twice))} is the name of something that the file imports: take another name")
    return writing


def check_free(thing: Thing, names: Spellings) -> None:
    """Refuse a name that something of this kind has."""
    if names.snake in thing.taken():
        raise UserError(f"{names.snake!r} is taken: there is something of this kind with that name; take another one")
