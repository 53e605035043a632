"""Draws the charts and diagrams of docs/pictures by the commands that anyone would use: `python docs/make_charts.py`."""

from __future__ import annotations

import shlex
from pathlib import Path

from PIL import Image
from typer.testing import CliRunner

from anyformer.cli import app

PICTURES = Path(__file__).parent / "pictures"
COMMANDS = {
    "diagram-gpt2.svg": "show gpt2 --diagram",
    "diagram-llama-3-8b.svg": "show llama-3-8b --diagram",
    "diagram-gemma-3-27b.svg": "show gemma-3-27b --diagram",
    "diagram-deepseek-v3.svg": "show deepseek-v3 --diagram",
    "diagram-qwen3-next-80b-a3b.svg": "show qwen3-next-80b-a3b --diagram",
    "diagram-t5-11b.svg": "show t5-11b --diagram",
    "diagram-llama-3-8b-and-qwen3-8b.svg": "diff llama-3-8b qwen3-8b --diagram",
    "masks-gemma-3-27b.svg": "show gemma-3-27b --masks",
    "masks-llama-4-scout.svg": "show llama-4-scout --masks",
    "masks-t5-11b.svg": "show t5-11b --masks",
    "masks-qwen3-next-80b-a3b.svg": "show qwen3-next-80b-a3b --masks",
    "cost-llama-3-8b.png": "cost llama-3-8b --length 8k --batch 4 --plot",
    "cost-gemma-3-27b.png": "cost gemma-3-27b --length 32k --plot",
    "cost-deepseek-v3.png": "cost deepseek-v3 --batch 32 --plot",
    "cost-side-by-side.png": "cost llama-3-70b mixtral-8x22b deepseek-v2 --batch 8 --plot",
}


COLOURS = 64
"""Of a PNG, which keeps it small."""


def draw(name: str, directory: Path = PICTURES) -> None:
    """One of them, written anew."""
    place = directory / name
    result = CliRunner().invoke(app, [*shlex.split(COMMANDS[name]), str(place)])
    assert result.exit_code == 0, f"{name}: {result.output}"
    if place.suffix == ".png":
        Image.open(place).convert("RGB").quantize(COLOURS).save(place, optimize=True)


if __name__ == "__main__":
    for name in COMMANDS:
        draw(name)
