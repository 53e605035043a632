"""Pieces of text from the templates beside this file, in each of which a block is a piece."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from anyformer.starting_points.names import Spellings


def piece(template: str, block: str, names: Spellings, *, house: bool) -> str:
    """A block of a template; `house`: as the package has it, with the description and the module in two files."""
    found = _environment().get_template(f"{template}.jinja")
    variables = {"snake": names.snake, "camel": names.camel, "words": names.words, "house": house}
    return "".join(found.blocks[block](found.new_context(variables))).rstrip("\n") + "\n"


@cache
def _environment() -> Environment:
    # What is made is Python, in which nothing is to be escaped.
    loader = FileSystemLoader(Path(__file__).parent)
    return Environment(loader=loader, undefined=StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True)
