"""The page of `--help`: whole sentences in groups, no types, examples at the end, nothing cut off at any width."""

from __future__ import annotations

import inspect
import shutil
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from anyformer.cli.terminal import pipes
from anyformer.describe import spelled

WIDEST = 100
"""Columns beyond which a line of text is hard to read."""
COLUMN = 24
"""Columns of an option's name; a longer name has a line of its own."""
OPTIONS = "Options"
"""The group of options that name none."""
EXIT_CODES = (
    ("0", "The answer is yes, or the work is done."),
    ("1", "The answer is no: nothing fits, figures differ. Or work failed on the way: a full disk, a loss that is not finite."),
    ("2", "The request cannot be carried out: a wrong name, value, file or directory. The message says which, and what to do."),
    ("130, 143", "Stopped by Ctrl-C or SIGTERM. Everything trained until then is saved."),
)


class HelpCommand(TyperCommand):
    """A command with this page as its help."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Options in any spelling, up to a lone `--`."""
        known = [option for each in self.params for option in (*each.opts, *each.secondary_opts)]
        end = args.index("--") if "--" in args else len(args)
        return super().parse_args(ctx, [*(_known(each, known) for each in args[:end]), *args[end:]])

    def collect_usage_pieces(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Arguments as they are typed, then the options."""
        arguments = [_argument(each) for each in self.params if each.param_type_name == "argument"]
        return [*arguments, "[OPTIONS]"]

    def format_help(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        formatter.write("\n".join(_page(self, ctx, _width())) + "\n")


class HelpGroup(TyperGroup):
    """The program itself: its commands in groups, and its exit codes."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Run a command, as long as somebody reads what it prints."""
        with pipes():
            return super().invoke(ctx)

    def resolve_command(self, ctx: typer.Context, args: list[str]) -> tuple[str | None, Any, list[str]]:  # type: ignore[override]
        """The command of a name in any spelling."""
        return super().resolve_command(ctx, [spelled(args[0], self.commands), *args[1:]])

    def format_help(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        formatter.write("\n".join(_program(self, ctx, _width())) + "\n")


def _known(typed: str, options: list[str]) -> str:
    """`--quantise=4` for `--quantize=4`, where that is the option; anything else as it is typed."""
    if not typed.startswith("--"):
        return typed
    name, equals, value = typed.partition("=")
    return f"{spelled(name, options)}{equals}{value}"


def _width() -> int:
    return min(shutil.get_terminal_size().columns, WIDEST)


def _program(group: HelpGroup, ctx: typer.Context, width: int) -> Iterator[str]:
    yield from ("Usage: anyformer COMMAND ...", "", *_text(group.help or "", width))
    commands: dict[str, list[tuple[str, str]]] = {}
    for name, command in group.commands.items():
        first = inspect.cleandoc(command.help or "").split("\n\n")[0]
        commands.setdefault(getattr(command, "rich_help_panel", None) or "Commands", []).append((name, first))
    for title, rows in commands.items():
        yield from _section(title, rows, width, column=10)
    yield from _section(OPTIONS, [_option(each) for each in group.get_params(ctx)], width)
    yield from _section("Exit codes", EXIT_CODES, width, column=10)
    yield from _examples(group.epilog or "")


def _page(command: HelpCommand, ctx: typer.Context, width: int) -> Iterator[str]:
    yield from textwrap.wrap(f"Usage: {ctx.command_path} {' '.join(command.collect_usage_pieces(ctx))}", width)
    yield from ("", *_text(command.help or "", width))
    groups: dict[str, list[tuple[str, str]]] = {}
    shown: list[Any] = [each for each in command.get_params(ctx) if not getattr(each, "hidden", False)]
    for each in sorted(shown, key=lambda each: each.param_type_name != "argument"):
        argument = each.param_type_name == "argument"
        title = "Arguments" if argument else getattr(each, "rich_help_panel", None) or OPTIONS
        groups.setdefault(title, []).append((_argument(each), each.help) if argument else _option(each))
    for title in sorted(groups, key=lambda title: title == OPTIONS):  # options without a group come last
        yield from _section(title, groups[title], width)
    yield from _examples(command.epilog or "")


def _argument(each: Any) -> str:
    """`NAME`, `[NAME]` if it may be left out, `NAME...` if there may be several."""
    name = f"{each.metavar or each.name.upper()}{'...' if each.nargs == -1 else ''}"
    return name if each.required else f"[{name}]"


def _option(each: Any) -> tuple[str, str]:
    """An option as it is typed, and its help with its default."""
    typed = ", ".join([*sorted(each.opts, key=len), *each.secondary_opts])
    value = "" if each.is_flag else f" {each.metavar}"
    default = each.show_default if isinstance(each.show_default, str) else _default(each.default)
    return f"{typed}{value}", f"{each.help} [default: {default}]" if default and not each.is_flag else each.help


def _default(value: Any) -> str:
    value = getattr(value, "value", value)
    if value is None or value in ("", ()) or callable(value):
        return ""
    return f"{value:,}" if isinstance(value, int) else str(value)


def _section(title: str, rows: Iterable[tuple[str, str]], width: int, column: int = COLUMN) -> Iterator[str]:
    """A heading, then names and their texts, one per line; a name too long for the column stands above its text."""
    yield from ("", _bold(title))
    for name, text in rows:
        wrapped = textwrap.wrap(text, width - column - 2, break_on_hyphens=False, break_long_words=False)
        if len(name) >= column:
            yield f"  {name}"
            name = ""
        yield f"  {name:<{column}}{wrapped[0]}"
        yield from (f"  {'':<{column}}{line}" for line in wrapped[1:])


def _text(text: str, width: int) -> Iterator[str]:
    """Paragraphs, with an empty line between them."""
    for number, paragraph in enumerate(inspect.cleandoc(text).split("\n\n")):
        yield from [""] * (number > 0)
        yield from textwrap.wrap(paragraph, width, break_on_hyphens=False, break_long_words=False)


def examples(epilog: str) -> list[str]:
    """The commands that an epilog shows."""
    return [line.strip() for line in epilog.splitlines() if line.strip().startswith("anyformer ")]


def _examples(epilog: str) -> Iterator[str]:
    if lines := examples(epilog):
        yield from ("", _bold("Examples"), *(f"  {line}" for line in lines))


def _bold(text: str) -> str:
    return typer.style(text, bold=True)
