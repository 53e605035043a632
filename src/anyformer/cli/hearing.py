"""`anyformer generate --audio`: transcripts of files of sound."""

from __future__ import annotations

import json as jsons
from pathlib import Path
from typing import TYPE_CHECKING

from anyformer.cli.text_on_screen import shown
from anyformer.describe import UserError

if TYPE_CHECKING:
    from anyformer.cli.chatting import ChatOptions
    from anyformer.cli.generate import Computation, TextOptions
    from anyformer.cli.prompts import PromptOptions


def heard(
    model: Path,
    given: PromptOptions,
    chat: ChatOptions,
    text: TextOptions,
    computing: Computation,
    device: str,
    *,
    json: bool,
) -> None:
    """Print the transcript of every file of sound: the text, of several behind a line with the file's name."""
    from anyformer.evaluation import listener, open_subject

    assert given.audio is not None, "asked for"
    _check(given, chat, text, computing)
    hears = listener(open_subject(model, device=device))
    texts = hears.transcripts(given.audio, batch=computing.batch or 16, most=text.max_tokens)
    for file, said in zip(given.audio, texts, strict=True):
        if json:
            print(jsons.dumps({"audio": str(file), "text": said}, ensure_ascii=False), flush=True)
            continue
        if len(given.audio) > 1:
            print(f"--- {file}")
        print(shown(said), flush=True)


def _check(given: PromptOptions, chat: ChatOptions, text: TextOptions, computing: Computation) -> None:
    """Refuse what a transcript does not have."""
    others = {
        "a prompt": given.ways > 0, "--image": bool(given.image), "--chat": chat.chat, "--stop": bool(text.stop),
        "--logprobs": text.logprobs is not None, "--max-time": text.max_time is not None, "--special": text.special,
        "--draft": computing.draft is not None, "--block": computing.block is not None,
        "--weights": computing.weights != "stored", "--compile": computing.compile is not None,
    }  # fmt: skip
    if wrong := [name for name, there in others.items() if there]:
        raise UserError(f"--audio prints what is said in a file, by the likeliest token at each place: leave {wrong[0]} out")
