"""Prompts of `anyformer generate`: its options, and prompts in a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyformer.describe import UserError, json_data
from anyformer.files import read_text

if TYPE_CHECKING:
    from anyformer.huggingface import TowersAsked


@dataclass(frozen=True)
class PromptOptions:
    """The options as they are typed; None where they are left out."""

    prompts: Annotated[
        list[str] | None, typer.Argument(help="One prompt or several, which are computed together.", metavar="PROMPT")
    ] = None
    tokens: Annotated[
        list[str] | None,
        typer.Option(
            help="A prompt as token numbers, as in 1,2,3, for a model without a tokenizer. Repeat it for more prompts.",
            metavar="NUMBERS",
        ),
    ] = None
    file: Annotated[
        Path | None,
        typer.Option(
            help="Read prompts from this file, one per line; a line of a .jsonl file is a string, or has one as prompt.",
            metavar="FILE",
        ),
    ] = None
    image: Annotated[
        list[Path] | None,
        typer.Option(
            help="A file of an image, for a model imported with --images, whose prompt has the token for images where it "
            "stands; or for a model that tells of images (TrOCR, BLIP, one trained on images here), which writes a text for "
            "every image, behind its prompt if there is one. Repeat it for more images.",
            metavar="FILE",
        ),
    ] = None

    audio: Annotated[
        list[Path] | None,
        typer.Option(
            help="A file of sound (WAV, FLAC, MP3, OGG): its transcript is printed; or of a model that hears sounds among its "
            "tokens (Qwen2-Audio, Voxtral, Audio Flamingo 3), what is said to a prompt that has the token for sound where it "
            "stands. Repeat it for more files.",
            metavar="FILE",
        ),
    ] = None

    @property
    def ways(self) -> int:
        """In how many ways prompts are given: one at most makes sense."""
        return sum(map(bool, (self.prompts, self.tokens, self.file)))

    @property
    def towers(self) -> TowersAsked:
        """The towers that are needed, as `load` is asked for them."""
        return {"images": bool(self.image), "audio": bool(self.audio)}

    def texts(self) -> list[str]:
        return (self.prompts or []) if self.file is None else prompts_of(self.file)

    def numbers(self) -> list[list[int]]:
        return [_numbers(text) for text in self.tokens or []]


def _numbers(text: str) -> list[int]:
    """Token numbers with commas between them."""
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise UserError(f"--tokens: {text!r} should be whole numbers with commas between them, as in 1,2,3") from None


def prompts_of(path: Path) -> list[str]:
    """The prompts of a file, one per line but blank ones; a line of a .jsonl file is a string or an object with `prompt`."""
    lines = [(number, line) for number, line in enumerate(read_text(path, UserError).splitlines(), start=1) if line.strip()]
    if not lines:
        raise UserError(f"{path} has no prompts: write one per line")
    return [_prompt(path, *each) for each in lines] if path.suffix == ".jsonl" else [line for _, line in lines]


def _prompt(path: Path, number: int, line: str) -> str:
    """The prompt of one line of a .jsonl file."""
    try:
        record = json_data(line)
    except ValueError as error:
        raise UserError(f"{path}, line {number}: no JSON ({error})") from None
    prompt = record.get("prompt") if isinstance(record, dict) else record
    if not isinstance(prompt, str):
        raise UserError(f'{path}, line {number}: should be a string, or {{"prompt": "..."}}, got {line[:60]}')
    return prompt
