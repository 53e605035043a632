"""`anyformer help`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from anyformer.cli import screen
from anyformer.cli.aligned import WIDEST
from anyformer.cli.arguments import Json
from anyformer.cli.as_json import print_json
from anyformer.cli.help_page import HelpGroup
from anyformer.cli.help_topic import HelpTopic
from anyformer.cli.pages import Item, Paragraph, lines
from anyformer.cli.topics import VALUES, guides, named, topics
from anyformer.costs.rows import PageLine

EXAMPLES = """
anyformer help
anyformer help costs
anyformer help RMSNorm
anyformer help "sliding window"
anyformer help MFU
"""


def run(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC",
            help="A guide, a word of the field (docs/glossary.md), a mechanism as papers call it, a part, task, objective, "
            "optimiser or kind of data by its class or kind, a command, or any word of the guides. Without one, the topics are "
            "listed.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Explain a topic in short: the beginning of a guide, a word of the field, or what a value of a description computes.

    The whole guides are in docs/, and `make docs` builds them as one site. Options of a command are explained by -h after it.
    """
    asked = " ".join(words or ())
    if not asked:
        if json:
            print_json({"guides": guides(), "values": VALUES})
        else:
            screen.show(_listed())
        return
    found = named(asked)
    if not found and (page := _command(ctx, asked)) is not None:
        typer.echo(page, nl=False)
        return
    found = found or topics(asked)
    if json:
        print_json({"topics": [_plain(each) for each in found]})
    else:
        screen.show(item for number, each in enumerate(found) for item in (*[PageLine("")] * bool(number), *each.items))


def _plain(found: HelpTopic) -> dict[str, str]:
    text = "\n".join(line.text for line in lines(found.page, WIDEST))
    return {"name": found.name, "title": found.title, "text": text, "more": found.more}


def _listed() -> Iterator[Item]:
    yield PageLine("Guides", strong=True)
    names = guides()
    for name, title in names.items():
        yield Paragraph(f"{name:<{max(map(len, names))}}  {title}", "  ", " " * (max(map(len, names)) + 4))
    yield PageLine("")
    yield PageLine("By name", strong=True)
    yield Paragraph(
        f"{', '.join(VALUES.values())}, by their class or kind: anyformer help RMSNorm, anyformer help causal", "  ", "  "
    )
    yield Paragraph('words of the field: anyformer help MFU, anyformer help "KV cache"', "  ", "  ")
    yield Paragraph('mechanisms as papers call them: anyformer help "grouped-query attention"', "  ", "  ")
    yield Paragraph("commands: anyformer help cost is anyformer cost -h", "  ", "  ")


def _command(ctx: typer.Context, name: str) -> str | None:
    """The help of the command with a name; None if there is none."""
    assert ctx.parent is not None
    commands = ctx.parent.command
    assert isinstance(commands, HelpGroup)
    if name not in commands.commands:
        return None
    command = commands.commands[name]
    return command.get_help(typer.Context(command, info_name=name, parent=ctx.parent)) + "\n"
