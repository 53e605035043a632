"""The commands by name, each made of its module when it is asked for: a question imports no other command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import typer

from anyformer.cli.elsewhere import with_fetched
from anyformer.cli.help_page import HelpCommand
from anyformer.cli.options import with_plugins
from anyformer.cli.quiet import with_quiet


class Commands(Mapping[str, Any]):
    """Commands of typer. `places`: the module of a command's `run` and `EXAMPLES`, and its group in `anyformer --help`;
    `classes`: of a command that parses its arguments in its own way, the class in its module."""

    def __init__(self, places: Mapping[str, tuple[str, str]], classes: Mapping[str, str]) -> None:
        self.places, self.classes = places, classes
        self._made: dict[str, Any] = {}

    def __getitem__(self, verb: str) -> Any:
        if verb not in self._made:
            self._made[verb] = self._command(verb, *self.places[verb])
        return self._made[verb]

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def _command(self, verb: str, place: str, group: str) -> Any:
        module = import_module(f"{__package__}.{place}")
        kind = vars(module)[self.classes[verb]] if verb in self.classes else HelpCommand
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        added = alone.command(verb, cls=kind, epilog=module.EXAMPLES, rich_help_panel=group)
        added(with_quiet(with_plugins(with_fetched(module.run))))
        return typer.main.get_command(alone)
