"""Prompts in a file."""

from __future__ import annotations

from pathlib import Path

from anyformer.describe import UserError, json_data
from anyformer.files import read_text


def prompts_of(path: Path) -> list[str]:
    """The prompts of a file, one a line without blank ones; of a .jsonl file, each line a string or an object with `prompt`."""
    lines = [(number, line) for number, line in enumerate(read_text(path, UserError).splitlines(), start=1) if line.strip()]
    if not lines:
        raise UserError(f"{path} has no prompts: write one on each line")
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
