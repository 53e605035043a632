"""Options of `anyformer generate --chat`, and the chat at a prompt."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyformer.cli.terminal import tell
from anyformer.cli.text_on_screen import safe, shown

if TYPE_CHECKING:
    from anyformer.generation import GenerationSettings
    from anyformer.model.transformer import Transformer
    from anyformer.text import Tokenizer
    from anyformer.text.chat import Chat

_option = partial(typer.Option, rich_help_panel="Chat (with --chat)")
EXIT = "/exit"


@dataclass(frozen=True)
class ChatOptions:
    """The options as they are typed; None and False where they are left out."""

    chat: Annotated[
        bool,
        typer.Option(
            "--chat",
            help="Take the prompt as a user's turn: write it with the tokenizer's chat template, and stop where the answer "
            "ends. Without a prompt, chat in several turns: every line is answered, and /exit ends the chat.",
        ),
    ] = False
    system: Annotated[str | None, _option(help="Begin the chat with these words of the system.", metavar="TEXT")] = None
    messages: Annotated[
        Path | None,
        _option(
            help="Begin the chat with the turns of this file: a JSON list of them, an object with such a list as messages, or "
            "one turn a line in a .jsonl file.",
            metavar="FILE",
        ),
    ] = None
    tools: Annotated[
        Path | None, _option(help="Tell the template of these tools: a JSON list of the schemas of functions.", metavar="FILE")
    ] = None
    template: Annotated[
        str | None,
        _option(
            help="Write the chat by this template: a name among the tokenizer's, or the path of a file. By default its "
            "tool_use with --tools, else its default.",
            metavar="NAME|FILE",
        ),
    ] = None
    template_set: Annotated[
        list[str] | None,
        _option(
            "--template-set",
            help="Give the template this variable, whose value is JSON or a bare word, as in --template-set "
            "enable_thinking=false. Repeat it for more.",
            metavar="NAME=VALUE",
        ),
    ] = None

    def begun(self) -> Chat | None:
        """The chat that the options begin; None where there is none of them. `UserError` for one without --chat."""
        from anyformer.describe import UserError
        from anyformer.text.chat import Chat

        if all(option is None for option in (self.system, self.messages, self.tools, self.template, self.template_set)):
            return None
        turns = [] if self.messages is None else turns_of(self.messages)
        if self.system is not None:
            turns = [{"role": "system", "content": self.system}, *turns]
        given = dict(_variable(each) for each in self.template_set or ())
        begun = Chat(turns, None if self.tools is None else tools_of(self.tools), variables=given, template=self.template)
        if not self.chat:
            raise UserError("--system, --messages, --tools, --template and --template-set say how a chat begins: add --chat")
        return begun


def turns_of(path: Path) -> list[dict[str, Any]]:
    """The turns in a file."""
    from anyformer.data.row import RecordRow
    from anyformer.data.turns import turns_field

    lines = path.suffix == ".jsonl"
    found = [_json(path, line) for line in _text(path).splitlines() if line.strip()] if lines else _json(path, _text(path))
    inner = found[0] if isinstance(found, list) and len(found) == 1 else found
    found = inner["messages"] if isinstance(inner, dict) and "messages" in inner else found
    return turns_field(RecordRow(str(path), {"messages": found}), "messages")


def tools_of(path: Path) -> list[Any]:
    """The schemas in a file."""
    from anyformer.data.row import RecordRow
    from anyformer.data.turns import tools_field

    return tools_field(RecordRow(str(path), {"tools": _json(path, _text(path))}), "tools") or []


def asked(chat: Chat | None, prompts: Sequence[str | Sequence[Any]]) -> list[Chat]:
    """The chats of some prompts, which a user says: texts, or parts of a content."""
    from anyformer.text.chat import Chat

    begun = chat or Chat([])
    return [begun.but([*begun.messages, {"role": "user", "content": prompt}]) for prompt in prompts]


def talk(
    model: Transformer,
    tokenizer: Tokenizer | None,
    chat: Chat | None,
    settings: GenerationSettings,
    line: str,
    same: Callable[[Callable[[], str | None]], str | None] = lambda ask: ask(),
) -> None:
    """Answer every line of standard input, until it ends or says `/exit`. `same`: asks, in the first of several processes."""
    from anyformer.describe import UserError
    from anyformer.generation import Conversation
    from anyformer.text.chat import Chat

    if tokenizer is None:
        raise UserError("this model has no tokenizer, so text cannot become tokens: give token numbers, as --tokens 1,2,3")
    conversation = Conversation(model, tokenizer, chat or Chat([]), **settings)
    for words in (line, f"{EXIT} ends the chat" if sys.stdin.isatty() else ""):
        if words:
            tell(words)
    with suppress(ImportError):
        import readline  # noqa: F401 (lines can be edited)
    if conversation.messages and conversation.messages[-1]["role"] == "user":
        print(shown(str(conversation.messages[-1]["content"]), bold=True))
        _answer(conversation.answer())
    while (text := same(_line)) is not None:
        if text.strip():
            _answer(conversation.say(text))


def _line() -> str | None:
    """What the user says; None at the end."""
    try:
        text = input("> " if sys.stdin.isatty() else "")
    except (EOFError, KeyboardInterrupt):
        return None
    return None if text.strip() == EXIT else text


def _answer(pieces: Any) -> None:
    """Print an answer as it comes; Ctrl-C ends it, and not the chat."""
    try:
        for piece in pieces:
            print(shown(piece), end="", flush=True)
    except KeyboardInterrupt:
        pieces.close()
        print(" ... (stopped)", end="")
    print(flush=True)


def _variable(text: str) -> tuple[str, Any]:
    from anyformer.describe import UserError, json_data

    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UserError(f"--template-set: {text!r} should be NAME=VALUE, as in enable_thinking=false")
    try:
        return name, json_data(value)
    except ValueError:
        return name, value


def _text(path: Path) -> str:
    from anyformer.describe import UserError
    from anyformer.files import read_text

    return read_text(path, UserError)


def _json(path: Path, text: str) -> Any:
    from anyformer.describe import UserError, json_data

    try:
        return json_data(text)
    except ValueError as error:
        raise UserError(f"{path}: no JSON ({error}), as in {safe(text[:60])!r}") from None
