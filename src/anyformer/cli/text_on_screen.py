"""Generated text on a screen: control characters are written out, and the prompt is bold."""

from __future__ import annotations

import json as jsons
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from anyformer.cli.terminal import tell
from anyformer.describe import printable
from anyformer.describe.plain_data import plain

if TYPE_CHECKING:
    from anyformer.generation import Chances, Continuation, GenerationSettings
    from anyformer.model.transformer import Transformer
    from anyformer.text import Tokenizer
    from anyformer.text.chat import Chat


def safe(text: str) -> str:
    r"""Control characters as escapes, as in \x07; tabs and newlines stay."""
    return printable(text, tabs=True)


def shown(text: str, *, bold: bool = False) -> str:
    """The text for standard output: on a terminal safe, and bold if asked for; unchanged elsewhere."""
    if not sys.stdout.isatty():
        return text
    return typer.style(safe(text), bold=True) if bold and text else safe(text)


def told(
    model: Transformer,
    tokenizer: Tokenizer | None,
    prompts: Sequence[str] | Sequence[list[int]],
    settings: GenerationSettings,
    line: str,
    chats: Sequence[Chat] | None = None,
    *,
    json: bool = False,
) -> None:
    """Print how texts go on: one as it comes, several one after the other; `line` on standard error before them.

    `chats`: those that the prompts end. `json`: one object per answer and line.
    """
    from anyformer.cli.bars import bar
    from anyformer.generation import generated, stream

    texts = [prompt for prompt in prompts if isinstance(prompt, str)]
    decoding, between = settings["decoding"], "\n" if settings.get("chat") else ""
    assert decoding is not None, "the command made it"
    if not json and len(texts) == 1 and decoding.answers == 1 and decoding.beams is None and settings.get("logprobs") is None:
        pieces = stream(model, tokenizer, chats or texts, **settings)
        _say(line)
        print(shown(texts[0], bold=True), end=between, flush=True)
        for _, piece in pieces:
            print(shown(piece), end="", flush=True)
        print()
        return
    over = list[int]()
    with bar("texts", len(prompts) * decoding.answers) as moved:

        def done(row: int) -> None:
            over.append(row)
            moved(len(over))

        settings["done"] = done
        answers = generated(model, tokenizer, chats or prompts, **settings)
    _say(line)
    for number, answer in enumerate(answers):
        if json:
            print(jsons.dumps(plain({**asdict(answer), "prompt": prompts[answer.prompt]}), ensure_ascii=False))
            continue
        prompt = prompts[answer.prompt]
        if isinstance(prompt, str):
            if len(answers) > 1:
                print(_heading(answer, number % decoding.answers + 1, len(prompts), decoding.answers))
            print(f"{shown(prompt, bold=True)}{between}{shown(answer.text or '')}")
        else:
            new = answer.tokens[:-1] if answer.reason == "end" else answer.tokens
            print(",".join(map(str, (*prompt, *new))))
        for token, chances in zip(answer.tokens, answer.chances, strict=False):
            print(_chances(tokenizer, token, chances))


def _say(line: str) -> None:
    if line:
        tell(line)


def _heading(answer: Continuation, number: int, prompts: int, answers: int) -> str:
    """`--- 1 of 3`, with several answers `--- 1 of 3, answer 2 of 4`, with beams their score."""
    several = f", answer {number} of {answers}" if answers > 1 else ""
    score = "" if answer.score is None else f" (score {answer.score:.4f})"
    return f"--- {answer.prompt + 1} of {prompts}{several}{score}"


def _chances(tokenizer: Tokenizer | None, token: int, chances: Chances) -> str:
    """A token, its log-probability, and those of the likeliest tokens, with tabs between them."""
    pairs = ((token, chances.logprob), *chances.likeliest)
    return "\t".join(f"{_named(tokenizer, number)} {value:.4f}" for number, value in pairs)


def _named(tokenizer: Tokenizer | None, number: int) -> str:
    """A token as the tokenizer spells it, or its number."""
    word = None if tokenizer is None else tokenizer.token(number)
    return str(number) if word is None else safe(word)
